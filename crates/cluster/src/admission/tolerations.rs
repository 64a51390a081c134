//! DefaultTolerationSeconds and TaintNodesByCondition: what happens on nodes that are not ready.

use serde_json::{Value, json};

use super::{list, list_mut};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// How long a pod stays on a node that fails, unless it says so itself.
const SECONDS: i64 = 300;

/// Lets a pod stay five minutes on a node that is not ready or out of reach.
pub(super) fn add(pod: &mut Value) {
    let is = |value: &Value, text: &str| value.as_str().unwrap_or_default() == text;
    for key in [NOT_READY, UNREACHABLE] {
        let tolerated = list(&pod["spec"], "tolerations").iter().any(|toleration| {
            (is(&toleration["key"], key) || is(&toleration["key"], ""))
                && (is(&toleration["effect"], "NoExecute") || is(&toleration["effect"], ""))
        });
        if !tolerated {
            list_mut(&mut pod["spec"], "tolerations").push(json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": SECONDS,
            }));
        }
    }
}

/// A new node takes no pods until the node controller has seen it ready.
pub(super) fn taint_new_node(node: &mut Value) {
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
    let there = list(&node["spec"], "taints")
        .iter()
        .any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule");
    if !there {
        list_mut(&mut node["spec"], "taints")
            .push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}
