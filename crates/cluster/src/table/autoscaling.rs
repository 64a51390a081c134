//! HorizontalPodAutoscaler and Scale.

use serde_json::Value;

use super::{AGE, NAME, Printer, age, list, name, number, some_of, text};

/// How many metrics a cell shows.
const METRICS: usize = 2;

pub(super) const AUTOSCALER: Printer = Printer {
    columns: &[
        NAME,
        ("Reference", "string", 0, "What it scales."),
        ("Targets", "string", 0, "Metrics: how much there is, of how much there should be."),
        ("MinPods", "string", 0, "Fewest replicas."),
        ("MaxPods", "string", 0, "Most replicas."),
        ("Replicas", "string", 0, "Replicas now."),
        AGE,
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let target = &spec["scaleTargetRef"];
        let reference = format!("{}/{}", text(&target["kind"], ""), text(&target["name"], ""));
        let least =
            spec["minReplicas"].as_i64().map_or("<unset>".to_owned(), |least| least.to_string());
        vec![
            name(object),
            reference.into(),
            metrics(list(&spec["metrics"]), list(&status["currentMetrics"])).into(),
            least.into(),
            number(&spec["maxReplicas"]).into(),
            number(&status["currentReplicas"]).into(),
            age::of(object, now).into(),
        ]
    },
};

pub(super) const SCALE: Printer = Printer {
    columns: &[
        NAME,
        ("Desired", "integer", 0, "How many there should be."),
        ("Available", "integer", 0, "How many there are."),
        AGE,
    ],
    cells: |object, now| {
        vec![
            name(object),
            number(&object["spec"]["replicas"]).into(),
            number(&object["status"]["replicas"]).into(),
            age::of(object, now).into(),
        ]
    },
};

fn metrics(wanted: &[Value], current: &[Value]) -> String {
    if wanted.is_empty() {
        return "<none>".into();
    }
    let all: Vec<String> = wanted
        .iter()
        .enumerate()
        .map(|(i, metric)| metric_text(metric, current.get(i).unwrap_or(&Value::Null)))
        .collect();
    some_of(&all, METRICS, ", ")
}

fn metric_text(metric: &Value, current: &Value) -> String {
    let field = match text(&metric["type"], "") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".into(),
    };
    let (target, current) = (&metric[field]["target"], &current[field]["current"]);
    if matches!(field, "resource" | "containerResource") {
        let resource = text(&metric[field]["name"], "");
        if target["averageValue"].is_null() {
            let percent = |value: &Value, instead: &str| {
                value.as_i64().map_or(instead.to_owned(), |percent| format!("{percent}%"))
            };
            let now = percent(&current["averageUtilization"], "<unknown>");
            let goal = percent(&target["averageUtilization"], "<auto>");
            return format!("{resource}: {now}/{goal}");
        }
        let now = text(&current["averageValue"], "<unknown>");
        return format!("{resource}: {now}/{}", text(&target["averageValue"], ""));
    }
    let average = !target["averageValue"].is_null();
    let side = if average { "averageValue" } else { "value" };
    let pair = format!("{}/{}", text(&current[side], "<unknown>"), text(&target[side], ""));
    if average && field != "pods" { format!("{pair} (avg)") } else { pair }
}
