//! A decision in sentences.

use serde_json::Value;

/// What was decided about a pod, for people.
pub fn render(document: &Value) -> String {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let pod = text("pod");
    let mut lines = vec![match text("outcome") {
        "ordered" => ordered(document),
        "fits" => {
            let node = document["node"].as_str().map(|node| format!("node {node}"));
            let claim = document["nodeClaim"].as_str().map(|claim| format!("NodeClaim {claim}"));
            let place = node.or(claim).unwrap_or_default();
            format!(
                "pod {pod} fits on {place}, which is there or on its way: it costs nothing more"
            )
        }
        "waits" => format!(
            "pod {pod} waits: the scheduler may make room for it; if it does not, capacity is ordered"
        ),
        "unplaced" => format!("pod {pod} has no place: {}", text("message")),
        _ => format!("no plan was about pod {pod}: it never waited for capacity"),
    }];
    let reasons = document["reasons"].as_array().into_iter().flatten();
    lines.extend(reasons.filter_map(Value::as_str).map(|reason| format!("  {reason}")));
    if let Some(node) = document["boundTo"].as_str() {
        lines.push(format!("it is bound to node {node}"));
    }
    if let Some(at) = document["at"].as_str() {
        lines.push(format!("decided at {at}"));
    }
    lines.join("\n") + "\n"
}

fn ordered(document: &Value) -> String {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let usd = |value: &Value| format!("${:.4}/h", value.as_f64().unwrap_or_default());
    let zones = document["zones"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut said = format!(
        "pod {} brought a {} ({}, {}) from NodePool {}: {} of the {} that it costs with {}\n  \
         {} of {} offerings would do",
        text("pod"),
        text("instanceType"),
        text("capacityType"),
        zones.collect::<Vec<_>>().join(" or "),
        text("nodePool"),
        usd(&document["podPricePerHour"]),
        usd(&document["pricePerHour"]),
        match document["pods"].as_u64() {
            Some(1) | None => "this pod alone".to_owned(),
            Some(pods) => format!("{pods} pods"),
        },
        document["feasible"],
        document["weighed"],
    );
    let others = document["alternatives"].as_array().into_iter().flatten().map(|other| {
        format!(
            "{} {} {}",
            other["instanceType"].as_str().unwrap_or_default(),
            other["capacityType"].as_str().unwrap_or_default(),
            usd(&other["pricePerHour"])
        )
    });
    let others = others.collect::<Vec<_>>().join(", ");
    if !others.is_empty() {
        said += &format!("; the next are {others}");
    }
    if let Some(claim) = document["nodeClaim"].as_str() {
        said += &format!("\n  its NodeClaim is {claim}");
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::render;

    #[test]
    fn every_outcome_has_its_sentence() {
        let ordered = json!({"outcome": "ordered", "pod": "a/b", "nodePool": "p", "zones": ["x", "y"],
            "instanceType": "c5.large", "capacityType": "spot", "pricePerHour": 0.1,
            "podPricePerHour": 0.05, "pods": 2, "feasible": 3, "weighed": 9, "nodeClaim": "p-1",
            "alternatives": [{"instanceType": "c6.large", "capacityType": "spot", "pricePerHour": 0.2}]});
        assert_eq!(
            render(&ordered),
            "pod a/b brought a c5.large (spot, x or y) from NodePool p: $0.0500/h of the $0.1000/h \
             that it costs with 2 pods\n  3 of 9 offerings would do; the next are c6.large spot \
             $0.2000/h\n  its NodeClaim is p-1\n"
        );
        let unplaced = json!({"outcome": "unplaced", "pod": "a/b", "message": "no",
            "reasons": ["p: 1 types; none"], "at": "2026-01-01T00:00:00Z"});
        let told =
            "pod a/b has no place: no\n  p: 1 types; none\ndecided at 2026-01-01T00:00:00Z\n";
        assert_eq!(render(&unplaced), told);
        let fits = json!({"outcome": "fits", "pod": "a/b", "node": "n", "boundTo": "n"});
        assert!(render(&fits).contains("fits on node n"));
        assert!(render(&json!({"outcome": "waits", "pod": "a/b"})).contains("waits"));
        assert!(render(&json!({"outcome": "unplanned", "pod": "a/b"})).contains("no plan"));
    }
}
