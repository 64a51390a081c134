//! HorizontalPodAutoscaler.

use serde_json::{Map, Value, json};

use super::{default, entry, items, member, quantity};

/// Average CPU use, in percent of the requests, where no metric is named.
const CPU_UTILIZATION: i64 = 80;

pub(super) fn autoscaler(object: &mut Map<String, Value>) {
    let Some(spec) = entry(object, "spec") else { return };
    default(spec, "minReplicas", 1);
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let target = json!({"type": "Utilization", "averageUtilization": CPU_UTILIZATION});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".into(), json!([cpu]));
    }
    for metric in items(spec, "metrics") {
        for source in metric.values_mut().filter_map(Value::as_object_mut) {
            if let Some(target) = member(source, "target") {
                quantity(target, "value");
                quantity(target, "averageValue");
            }
        }
    }
    let Some(behavior) = member(spec, "behavior") else { return };
    if let Some(up) = entry(behavior, "scaleUp") {
        if up.get("stabilizationWindowSeconds").is_none_or(Value::is_null) {
            up.insert("stabilizationWindowSeconds".into(), 0.into());
        }
        default(up, "selectPolicy", "Max");
        default(
            up,
            "policies",
            json!([
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]),
        );
    }
    if let Some(down) = entry(behavior, "scaleDown") {
        default(down, "selectPolicy", "Max");
        default(down, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}
