//! Kinds that are served in more than one version, from one stored form.

use serde_json::{Map, Value, json};

use crate::kinds::Kind;

/// How what is stored becomes what a client sees, and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// As it is.
    Stored,
    /// Another served version of a custom kind: only the apiVersion differs.
    Version(String),
    /// `events.k8s.io/v1` of core events.
    Events,
    /// `autoscaling/v1` of `autoscaling/v2`.
    AutoscalingV1,
}

/// Group, version, plural of each view; group and plural of what it is of.
const VIEWS: &[(View, &str, &str, &str, &str)] = &[
    (View::Events, "events.k8s.io", "v1", "events", ""),
    (View::AutoscalingV1, "autoscaling", "v1", "horizontalpodautoscalers", "autoscaling"),
];

/// Field of an `events.k8s.io/v1` event, field of a core one. Source: kubernetes
/// `pkg/apis/events/v1/conversion.go`.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

const CPU_TARGET: &str = "targetCPUUtilizationPercentage";
const CPU_CURRENT: &str = "currentCPUUtilizationPercentage";

impl View {
    /// The view that a group, version and plural stand for, with the group and plural behind it.
    pub(super) fn of(
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<(Self, &'static str, &'static str)> {
        VIEWS
            .iter()
            .find(|(_, g, v, p, _)| (*g, *v, *p) == (group, version, plural))
            .map(|(view, _, _, plural, behind)| (view.clone(), *behind, *plural))
    }

    /// Group and version of every view of a built-in kind.
    pub(super) fn versions(kind: &Kind) -> Vec<(&'static str, &'static str)> {
        VIEWS
            .iter()
            .filter(|(_, _, _, plural, behind)| *behind == kind.group && *plural == kind.plural)
            .map(|(_, group, version, _, _)| (*group, *version))
            .collect()
    }

    pub(super) fn api_version(&self, kind: &Kind) -> String {
        match self {
            Self::Stored => kind.api_version(),
            Self::Version(version) => format!("{}/{version}", kind.group),
            Self::Events => "events.k8s.io/v1".into(),
            Self::AutoscalingV1 => "autoscaling/v1".into(),
        }
    }

    /// What the client sees of a stored object.
    pub(super) fn outward(&self, kind: &Kind, mut value: Value) -> Value {
        let Some(object) = value.as_object_mut().filter(|_| *self != Self::Stored) else {
            return value;
        };
        object.insert("apiVersion".into(), self.api_version(kind).into());
        match self {
            Self::Events => rename(object, EVENT_FIELDS.iter().map(|(new, old)| (*old, *new))),
            Self::AutoscalingV1 => {
                cpu_outward(object, "spec", "metrics", "target", CPU_TARGET);
                cpu_outward(object, "status", "currentMetrics", "current", CPU_CURRENT);
                if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove("behavior");
                }
                if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
                    status.remove("conditions");
                }
            }
            Self::Stored | Self::Version(_) => {}
        }
        value
    }

    /// What is stored for what the client sent; `old` is what was stored so far, for what this
    /// view cannot tell.
    pub(super) fn inward(&self, kind: &Kind, mut value: Value, old: Option<&Value>) -> Value {
        let Some(object) = value.as_object_mut().filter(|_| *self != Self::Stored) else {
            return value;
        };
        object.insert("apiVersion".into(), kind.api_version().into());
        match self {
            Self::Events => rename(object, EVENT_FIELDS.iter().copied()),
            Self::AutoscalingV1 => cpu_inward(object, old.unwrap_or(&Value::Null)),
            Self::Stored | Self::Version(_) => {}
        }
        value
    }

    /// The stored name of a field that a selector names.
    pub(super) fn stored_field(&self, query: &str) -> String {
        match self {
            Self::Events => query
                .replace("regarding.", "involvedObject.")
                .replace("reportingController", "reportingComponent"),
            _ => query.to_owned(),
        }
    }
}

fn rename<'a>(object: &mut Map<String, Value>, fields: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in fields {
        if let Some(value) = object.remove(from) {
            object.insert(to.to_owned(), value);
        }
    }
}

fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn cpu_outward(object: &mut Map<String, Value>, part: &str, list: &str, of: &str, field: &str) {
    let Some(part) = object.get_mut(part).and_then(Value::as_object_mut) else { return };
    let metrics = part.remove(list).unwrap_or_default();
    let cpu = metrics.as_array().into_iter().flatten().find(|metric| is_cpu(metric));
    if let Some(percent) = cpu.map(|metric| &metric["resource"][of]["averageUtilization"])
        && !percent.is_null()
    {
        part.insert(field.into(), percent.clone());
    }
}

fn cpu_inward(object: &mut Map<String, Value>, old: &Value) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let percent = spec.remove(CPU_TARGET);
        let old_metrics = old["spec"]["metrics"].as_array();
        let mut metrics: Vec<Value> =
            old_metrics.into_iter().flatten().filter(|metric| !is_cpu(metric)).cloned().collect();
        if let Some(percent) = percent {
            let target = json!({"type": "Utilization", "averageUtilization": percent});
            let resource = json!({"name": "cpu", "target": target});
            metrics.insert(0, json!({"type": "Resource", "resource": resource}));
        }
        if !metrics.is_empty() {
            spec.insert("metrics".into(), metrics.into());
        }
        if let Some(behavior) = old["spec"].get("behavior") {
            spec.insert("behavior".into(), behavior.clone());
        }
    }
    // The status belongs to the controller, which writes autoscaling/v2.
    match old.get("status") {
        Some(status) => object.insert("status".into(), status.clone()),
        None => object.remove("status"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Kind {
        crate::kinds::builtin().into_iter().find(|kind| kind.kind == name).expect(name)
    }

    #[test]
    fn an_event_reads_the_same_both_ways() {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "x"},
            "involvedObject": {"kind": "Pod"}, "message": "m", "reason": "r", "count": 2,
            "source": {"component": "kubelet"}, "reportingComponent": "kubelet",
        });
        let shown = View::Events.outward(&kind("Event"), event.clone());
        assert_eq!(shown["apiVersion"], "events.k8s.io/v1");
        assert_eq!(shown["regarding"]["kind"], "Pod");
        assert_eq!((&shown["note"], &shown["deprecatedCount"]), (&json!("m"), &json!(2)));
        assert!(shown.get("message").is_none());
        assert_eq!(View::Events.inward(&kind("Event"), shown, None), event);
        assert_eq!(View::Events.stored_field("regarding.name=x"), "involvedObject.name=x");
    }

    #[test]
    fn an_old_autoscaler_keeps_what_it_cannot_say() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory"}});
        let old = json!({
            "apiVersion": "autoscaling/v2",
            "spec": {"maxReplicas": 3, "metrics": [memory], "behavior": {"scaleUp": {}}},
            "status": {"currentReplicas": 1},
        });
        let kind = kind("HorizontalPodAutoscaler");
        let mut shown = View::AutoscalingV1.outward(&kind, old.clone());
        assert_eq!(shown["spec"], json!({"maxReplicas": 3}));
        shown["spec"][CPU_TARGET] = 80.into();
        let new = View::AutoscalingV1.inward(&kind, shown, Some(&old));
        assert_eq!(new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
        assert_eq!(new["spec"]["metrics"][1], memory);
        assert_eq!(new["status"], old["status"]);
        assert_eq!(View::AutoscalingV1.outward(&kind, new)["spec"][CPU_TARGET], 80);
    }
}
