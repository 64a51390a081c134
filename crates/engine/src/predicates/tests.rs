use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

use super::*;

fn pod(spec: Value) -> Pod {
    let mut spec = spec;
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c"}]);
    }
    let pod: core::Pod =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
    Pod::from_k8s(&pod).unwrap()
}

fn asking(requests: Value) -> Pod {
    pod(json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}))
}

fn node(labels: Value, spec: Value, allocatable: Value) -> Node {
    let node: core::Node = serde_json::from_value(json!({
        "metadata": {"name": "n", "labels": labels},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }))
    .unwrap();
    Node::from_k8s(&node).unwrap()
}

fn roomy(labels: Value, spec: Value) -> Node {
    node(labels, spec, json!({"cpu": "2", "memory": "4Gi", "pods": "110"}))
}

fn texts(pod: &Pod, node: &Node, usage: &Usage) -> Vec<String> {
    check(pod, node, usage).iter().map(ToString::to_string).collect()
}

#[test]
fn requirements_hold_as_the_operators_say() {
    let labels = [("a".to_owned(), "5".to_owned())].into();
    let cases = [
        ("In", "a", vec!["5"], true),
        ("In", "a", vec!["4"], false),
        ("In", "b", vec!["5"], false),
        ("NotIn", "a", vec!["5"], false),
        ("NotIn", "a", vec!["4"], true),
        ("NotIn", "b", vec!["5"], true),
        ("NotIn", "b", vec![], false),
        ("Exists", "a", vec![], true),
        ("Exists", "b", vec![], false),
        ("DoesNotExist", "a", vec![], false),
        ("DoesNotExist", "b", vec![], true),
        ("Gt", "a", vec!["4"], true),
        ("Gt", "a", vec!["5"], false),
        ("Gt", "b", vec!["4"], false),
        ("Gt", "a", vec!["x"], false),
        ("Lt", "a", vec!["6"], true),
        ("Lt", "a", vec!["5"], false),
        ("Like", "a", vec!["5"], false),
    ];
    for (operator, key, values, expected) in cases {
        let requirement = core::NodeSelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        };
        assert_eq!(matches_requirement(&requirement, &labels), expected, "{requirement:?}");
    }
}

#[test]
fn terms_are_or_ed_and_the_empty_term_matches_nothing() {
    let terms = |terms: Value| {
        pod(json!({"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}))
    };
    let node = roomy(json!({"a": "1", "b": "2"}), json!({}));
    let expression = |key: &str| json!({"key": key, "operator": "Exists"});
    let field = |operator: &str, name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]});
    let cases = [
        (json!([{"matchExpressions": [expression("a"), expression("b")]}]), true),
        (json!([{"matchExpressions": [expression("a"), expression("c")]}]), false),
        (
            json!([{"matchExpressions": [expression("c")]}, {"matchExpressions": [expression("b")]}]),
            true,
        ),
        (json!([{}]), false),
        (json!([field("In", "n")]), true),
        (json!([field("In", "m")]), false),
        (json!([field("NotIn", "m")]), true),
    ];
    for (list, expected) in cases {
        let reasons = check(&terms(list.clone()), &node, &Usage::default());
        assert_eq!(reasons.is_empty(), expected, "{list}");
    }
}

#[test]
fn a_node_without_a_name_is_no_named_node() {
    let field = |operator: &str| core::NodeSelectorTerm {
        match_expressions: None,
        match_fields: Some(vec![core::NodeSelectorRequirement {
            key: "metadata.name".into(),
            operator: operator.into(),
            values: Some(vec!["n".into()]),
        }]),
    };
    assert!(!matches_term(&field("In"), None, &BTreeMap::new()));
    assert!(matches_term(&field("NotIn"), None, &BTreeMap::new()));
}

#[test]
fn tolerations_match_key_value_effect() {
    let taint = |key: &str, value: &str, effect: &str| Taint {
        key: key.into(),
        value: Some(value.into()),
        effect: effect.into(),
        time_added: None,
    };
    let cases = [
        (json!([]), taint("a", "1", "NoSchedule"), false),
        (json!([{"operator": "Exists"}]), taint("a", "1", "NoExecute"), true),
        (json!([{"key": "a", "operator": "Exists"}]), taint("a", "1", "NoSchedule"), true),
        (json!([{"key": "b", "operator": "Exists"}]), taint("a", "1", "NoSchedule"), false),
        (json!([{"key": "a", "value": "1"}]), taint("a", "1", "NoSchedule"), true),
        (json!([{"key": "a", "value": "2"}]), taint("a", "1", "NoSchedule"), false),
        (
            json!([{"key": "a", "value": "1", "effect": "NoExecute"}]),
            taint("a", "1", "NoSchedule"),
            false,
        ),
        (
            json!([{"key": "a", "operator": "Gt", "value": "0"}]),
            taint("a", "1", "NoSchedule"),
            false,
        ),
    ];
    for (tolerations, taint, expected) in cases {
        let list: Vec<core::Toleration> = serde_json::from_value(tolerations).unwrap();
        assert_eq!(tolerates(&list, &taint), expected, "{list:?} {taint:?}");
        assert_eq!(untolerated(&list, std::slice::from_ref(&taint)).is_none(), expected);
    }
    let preference = [taint("a", "1", "PreferNoSchedule")];
    assert_eq!(untolerated(&[], &preference), None);
    assert_eq!(untolerated_preferences(&[], &preference), 1);
}

#[test]
fn the_first_predicate_that_fails_answers() {
    let taint = json!([{"key": "a", "value": "1", "effect": "NoSchedule"}]);
    let usage = Usage::default();
    let selecting = pod(json!({"nodeSelector": {"a": "b"}}));
    let plain = pod(json!({}));
    let cases = [
        (
            &plain,
            roomy(json!({}), json!({"unschedulable": true, "taints": taint})),
            "node(s) were unschedulable",
        ),
        (
            &selecting,
            roomy(json!({}), json!({"taints": taint})),
            "node(s) had untolerated taint(s)",
        ),
        (
            &selecting,
            node(json!({}), json!({}), json!({})),
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (&plain, node(json!({}), json!({}), json!({})), "Too many pods"),
    ];
    for (pod, node, expected) in &cases {
        assert_eq!(texts(pod, node, &usage), [*expected]);
    }
    let cordon = json!([{"key": UNSCHEDULABLE_TAINT, "operator": "Exists"}]);
    let tolerant = pod(json!({"tolerations": cordon}));
    assert!(check(&tolerant, &roomy(json!({}), json!({"unschedulable": true})), &usage).is_empty());
    let elsewhere = pod(json!({"nodeName": "m"}));
    assert_eq!(
        texts(&elsewhere, &roomy(json!({}), json!({})), &usage),
        ["node(s) didn't match the requested node name"]
    );
}

#[test]
fn every_short_resource_is_told() {
    let node = node(
        json!({}),
        json!({}),
        json!({"cpu": "1930m", "memory": "3114Mi", "pods": "4", "vendor.com/gpu": "1"}),
    );
    let mut usage = Usage::default();
    let balloon = asking(json!({"cpu": "500m", "memory": "750Mi"}));
    for _ in 0..3 {
        assert!(check(&balloon, &node, &usage).is_empty());
        usage.add(&balloon);
    }
    let job = asking(json!({"cpu": "500m", "memory": "1000Mi"}));
    assert_eq!(texts(&job, &node, &usage), ["Insufficient cpu", "Insufficient memory"]);
    assert!(check(&job, &node, &usage).iter().all(Reason::preemption_may_help));
    usage.remove(&balloon);
    assert!(check(&job, &node, &usage).is_empty());

    let huge = asking(json!({"cpu": "2", "vendor.com/gpu": "2", "vendor.com/fpga": "1"}));
    let reasons = check(&huge, &node, &usage);
    let short = ["Insufficient cpu", "Insufficient vendor.com/fpga", "Insufficient vendor.com/gpu"];
    assert_eq!(reasons.iter().map(ToString::to_string).collect::<Vec<_>>(), short);
    assert!(!reasons.iter().any(Reason::preemption_may_help));

    usage.add(&balloon);
    usage.add(&pod(json!({})));
    assert_eq!(texts(&pod(json!({})), &node, &usage), ["Too many pods"]);
    for pod in [&balloon, &balloon, &balloon, &pod(json!({}))] {
        usage.remove(pod);
    }
    assert_eq!(usage, Usage::default());
}

#[test]
fn host_ports_clash_by_protocol_number_and_ip() {
    let port = |protocol: &str, ip: &str, number: i32| {
        pod(json!({"containers": [{"name": "c", "ports": [
            {"containerPort": 80, "hostPort": number, "hostIP": ip, "protocol": protocol}]}]}))
    };
    let node = roomy(json!({}), json!({}));
    let mut usage = Usage::default();
    usage.add(&port("TCP", "127.0.0.1", 8080));
    let cases = [
        (port("TCP", "127.0.0.1", 8080), false),
        (port("TCP", "", 8080), false),
        (port("TCP", "10.0.0.1", 8080), true),
        (port("UDP", "", 8080), true),
        (port("TCP", "", 8081), true),
        (pod(json!({})), true),
    ];
    for (pod, fits) in cases {
        let reasons = check(&pod, &node, &usage);
        assert_eq!(reasons.is_empty(), fits, "{:?}", pod.constraints.host_ports);
        assert!(reasons.iter().all(Reason::preemption_may_help));
    }
}
