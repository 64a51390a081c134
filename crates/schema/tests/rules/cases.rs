//! Objects that keep all rules of a definition, and changes that break one each.

use serde_json::{Value, json};

/// A change that breaks a rule.
pub struct Case {
    /// Which of the objects is changed.
    pub of: usize,
    /// Where the change is.
    pub pointer: &'static str,
    /// The new value, in JSON; `null` takes the field away.
    pub value: &'static str,
    /// Where the rule is.
    pub field: &'static str,
    /// What it says.
    pub message: &'static str,
}

const fn case(
    pointer: &'static str,
    value: &'static str,
    field: &'static str,
    message: &'static str,
) -> Case {
    Case { of: 0, pointer, value, field, message }
}

const DOMAIN: &str = "label domain \"karpenter.sh\" is restricted";
const KWOK: &str = "label domain \"karpenter.kwok.sh\" is restricted";
const HOSTNAME: &str = "label \"kubernetes.io/hostname\" is restricted";
const POOL: &str = "label \"karpenter.sh/nodepool\" is restricted";
const IN: &str = "requirements with operator 'In' must have a value defined";
const SINGLE: &str = "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive \
                      integer value";
const MIN_VALUES: &str = "requirements with 'minValues' must have at least that many values \
                          specified in the 'values' field";

/// For each of the KWOK provider's definitions.
pub fn all() -> Vec<(Vec<Value>, Vec<Case>)> {
    vec![pool(), claim(), class(), overlay(), buffer()]
}

fn conditions() -> Value {
    json!([{
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": "2025-01-06T08:00:00Z",
    }])
}

fn requirements() -> Value {
    json!([{"key": "example.com/size", "operator": "In", "values": ["a", "b"], "minValues": 2}])
}

fn taints() -> Value {
    json!([{
        "key": "example.com/a", "value": "b", "effect": "NoSchedule",
        "timeAdded": "2025-01-06T08:00:00Z",
    }])
}

fn pool() -> (Vec<Value>, Vec<Case>) {
    let good = json!({
        "metadata": {"name": "a"},
        "spec": {
            "disruption": {
                "budgets": [
                    {"nodes": "10%", "schedule": "0 9 * * *", "duration": "8h", "reasons": ["Empty"]},
                ],
                "consolidateAfter": "30s",
                "consolidationPolicy": "WhenEmpty",
            },
            "limits": {"nodes": "10"},
            "replicas": 3,
            "template": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {
                    "expireAfter": "720h",
                    "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
                    "requirements": requirements(),
                    "startupTaints": taints(),
                    "taints": taints(),
                    "terminationGracePeriod": "30s",
                },
            },
        },
        "status": {
            "conditions": conditions(),
            "nodeClassObservedGeneration": 1,
            "nodes": 1,
            "resources": {"cpu": "1"},
        },
    });
    let mut dynamic = good.clone();
    dynamic["spec"].as_object_mut().unwrap().remove("replicas");
    dynamic["spec"]["weight"] = json!(1);
    dynamic["spec"]["limits"] = json!({"cpu": "10"});
    let bad = vec![
        case(
            "/spec/replicas",
            "null",
            "spec",
            "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) \
             provisioning modes",
        ),
        case(
            "/spec/limits",
            r#"{"cpu": "1"}"#,
            "spec",
            "only 'limits.nodes' is supported on static NodePools",
        ),
        case("/spec/weight", "1", "spec", "'weight' is not supported on static NodePools"),
        case(
            "/spec/disruption/budgets/0/duration",
            "null",
            "spec.disruption.budgets",
            "'schedule' must be set with 'duration'",
        ),
        case(
            "/spec/template/metadata/labels",
            r#"{"karpenter.sh/custom": "a"}"#,
            "spec.template.metadata.labels",
            DOMAIN,
        ),
        case(
            "/spec/template/metadata/labels",
            r#"{"karpenter.sh/nodepool": "a"}"#,
            "spec.template.metadata.labels",
            POOL,
        ),
        case(
            "/spec/template/metadata/labels",
            r#"{"kubernetes.io/hostname": "a"}"#,
            "spec.template.metadata.labels",
            HOSTNAME,
        ),
        case(
            "/spec/template/spec/nodeClassRef/group",
            "\"other\"",
            "spec.template.spec.nodeClassRef",
            "nodeClassRef.group is immutable",
        ),
        case(
            "/spec/template/spec/nodeClassRef/kind",
            "\"other\"",
            "spec.template.spec.nodeClassRef",
            "nodeClassRef.kind is immutable",
        ),
        case(
            "/spec/template/spec/nodeClassRef/group",
            "\"\"",
            "spec.template.spec.nodeClassRef.group",
            "group may not be empty",
        ),
        case(
            "/spec/template/spec/nodeClassRef/kind",
            "\"\"",
            "spec.template.spec.nodeClassRef.kind",
            "kind may not be empty",
        ),
        case(
            "/spec/template/spec/nodeClassRef/name",
            "\"\"",
            "spec.template.spec.nodeClassRef.name",
            "name may not be empty",
        ),
        case(
            "/spec/template/spec/requirements",
            r#"[{"key": "a", "operator": "In", "values": []}]"#,
            "spec.template.spec.requirements",
            IN,
        ),
        case(
            "/spec/template/spec/requirements",
            r#"[{"key": "a", "operator": "Gte", "values": ["1", "2"]}]"#,
            "spec.template.spec.requirements",
            SINGLE,
        ),
        case(
            "/spec/template/spec/requirements",
            r#"[{"key": "a", "operator": "In", "values": ["1"], "minValues": 2}]"#,
            "spec.template.spec.requirements",
            MIN_VALUES,
        ),
        case(
            "/spec/template/spec/requirements",
            r#"[{"key": "karpenter.sh/custom", "operator": "Exists"}]"#,
            "spec.template.spec.requirements[0].key",
            DOMAIN,
        ),
        case(
            "/spec/template/spec/requirements",
            r#"[{"key": "karpenter.sh/nodepool", "operator": "Exists"}]"#,
            "spec.template.spec.requirements[0].key",
            POOL,
        ),
        case(
            "/spec/template/spec/requirements",
            r#"[{"key": "kubernetes.io/hostname", "operator": "Exists"}]"#,
            "spec.template.spec.requirements[0].key",
            HOSTNAME,
        ),
        case(
            "/spec/template/spec/requirements",
            r#"[{"key": "karpenter.kwok.sh/color", "operator": "Exists"}]"#,
            "spec.template.spec.requirements[0].key",
            KWOK,
        ),
    ];
    (vec![good, dynamic], bad)
}

fn claim() -> (Vec<Value>, Vec<Case>) {
    let good = json!({
        "metadata": {"name": "a"},
        "spec": {
            "expireAfter": "720h",
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            "requirements": requirements(),
            "resources": {"requests": {"cpu": "1"}},
            "startupTaints": taints(),
            "taints": taints(),
            "terminationGracePeriod": "30s",
        },
        "status": {
            "allocatable": {"cpu": "1"},
            "capacity": {"cpu": "1"},
            "conditions": conditions(),
            "lastPodEventTime": "2025-01-06T08:00:00Z",
        },
    });
    let requirement = |value, field, message| case("/spec/requirements", value, field, message);
    let bad = vec![
        case("/spec/expireAfter", "\"1h\"", "spec", "spec is immutable"),
        case(
            "/spec/nodeClassRef/group",
            "\"\"",
            "spec.nodeClassRef.group",
            "group may not be empty",
        ),
        case("/spec/nodeClassRef/kind", "\"\"", "spec.nodeClassRef.kind", "kind may not be empty"),
        case("/spec/nodeClassRef/name", "\"\"", "spec.nodeClassRef.name", "name may not be empty"),
        requirement(r#"[{"key": "a", "operator": "In", "values": []}]"#, "spec.requirements", IN),
        requirement(
            r#"[{"key": "a", "operator": "Lt", "values": ["-1"]}]"#,
            "spec.requirements",
            SINGLE,
        ),
        requirement(
            r#"[{"key": "a", "operator": "In", "values": ["1"], "minValues": 2}]"#,
            "spec.requirements",
            MIN_VALUES,
        ),
        requirement(
            r#"[{"key": "karpenter.sh/custom", "operator": "Exists"}]"#,
            "spec.requirements[0].key",
            DOMAIN,
        ),
        requirement(
            r#"[{"key": "kubernetes.io/hostname", "operator": "Exists"}]"#,
            "spec.requirements[0].key",
            HOSTNAME,
        ),
        requirement(
            r#"[{"key": "karpenter.kwok.sh/color", "operator": "Exists"}]"#,
            "spec.requirements[0].key",
            KWOK,
        ),
    ];
    (vec![good], bad)
}

fn class() -> (Vec<Value>, Vec<Case>) {
    let good = json!({
        "metadata": {"name": "a"},
        "spec": {"nodeRegistrationDelay": "5s"},
        "status": {"conditions": conditions()},
    });
    (vec![good], Vec::new())
}

fn overlay() -> (Vec<Value>, Vec<Case>) {
    let good = json!({
        "metadata": {"name": "a"},
        "spec": {
            "capacity": {"example.com/gpu": "1"},
            "price": "0.5",
            "requirements": [{"key": "example.com/size", "operator": "In", "values": ["a"]}],
            "weight": 1,
        },
        "status": {"conditions": conditions()},
    });
    let mut adjusted = good.clone();
    adjusted["spec"].as_object_mut().unwrap().remove("price");
    adjusted["spec"]["priceAdjustment"] = json!("+10%");
    let requirement = |value, field, message| case("/spec/requirements", value, field, message);
    let bad = vec![
        case(
            "/spec/priceAdjustment",
            "\"+1\"",
            "spec",
            "cannot set both 'price' and 'priceAdjustment'",
        ),
        case("/spec/capacity", r#"{"cpu": "1"}"#, "spec.capacity", "invalid resource restricted"),
        requirement(
            r#"[{"key": "a", "operator": "NotIn", "values": []}]"#,
            "spec.requirements",
            "requirements with operator 'NotIn' must have a value defined",
        ),
        requirement(r#"[{"key": "a", "operator": "In", "values": []}]"#, "spec.requirements", IN),
        requirement(
            r#"[{"key": "a", "operator": "Gt", "values": ["1", "2"]}]"#,
            "spec.requirements",
            "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer \
             value",
        ),
        requirement(
            r#"[{"key": "karpenter.sh/custom", "operator": "Exists"}]"#,
            "spec.requirements[0].key",
            DOMAIN,
        ),
        requirement(
            r#"[{"key": "kubernetes.io/hostname", "operator": "Exists"}]"#,
            "spec.requirements[0].key",
            HOSTNAME,
        ),
    ];
    (vec![good, adjusted], bad)
}

fn buffer() -> (Vec<Value>, Vec<Case>) {
    let good = json!({
        "metadata": {"name": "a"},
        "spec": {
            "limits": {"cpu": "1"},
            "percentage": 10,
            "podTemplateRef": {"name": "t"},
            "replicas": 1,
        },
        "status": {
            "conditions": conditions(),
            "podTemplateGeneration": 1,
            "podTemplateRef": {"name": "t"},
            "replicas": 1,
        },
    });
    let plain = json!({
        "metadata": {"name": "a"},
        "spec": {"podTemplateRef": {"name": "t"}, "replicas": 1},
    });
    let scaled = json!({
        "metadata": {"name": "a"},
        "spec": {"scalableRef": {"kind": "Deployment", "name": "d"}, "percentage": 10},
    });
    let bad = vec![
        Case {
            of: 1,
            ..case(
                "/spec/replicas",
                "null",
                "spec",
                "If podTemplateRef is set, replicas or limits must also be set",
            )
        },
        case(
            "/spec/scalableRef",
            r#"{"kind": "Deployment", "name": "d"}"#,
            "spec",
            "You must define either PodTemplateRef or ScalableRef, but not both",
        ),
    ];
    (vec![good, plain, scaled], bad)
}
