//! The rules of Aerostat's own definitions, by good and bad objects.

use aerostat_api::{builtin, crds};
use aerostat_schema::custom::{CustomSchema, Problem};
use serde_json::{Value, json};

/// What a definition (by its place in [`crds::all`]) says of an object.
fn problems(definition: usize, object: &Value, old: Option<&Value>) -> Vec<String> {
    problems_of(&crds::all()[definition], object, old)
}

fn problems_of(crd: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let schema = CustomSchema::compile(schema).expect("our definitions compile");
    assert_eq!(schema.unknown_fields(object), [""; 0]);
    let text = |problem: &Problem| {
        // Only strings are shown with what is said of them.
        let shown = problem.detail.strip_prefix("Invalid value: ").expect("a rule was broken");
        let message = shown
            .strip_prefix('"')
            .map_or(shown, |rest| rest.split_once("\": ").expect("a value and a message").1);
        format!("{}: {message}", problem.field)
    };
    schema.validate(object, old).iter().map(text).collect()
}

fn changed(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    object.pointer_mut(parent).expect("a known parent")[name] = value;
    object
}

#[test]
fn built_in_objects_keep_the_rules() {
    let none: [String; 0] = [];
    for pool in [builtin::general_purpose(), builtin::system()] {
        let pool = serde_json::to_value(pool).unwrap();
        assert_eq!(problems(0, &pool, Some(&pool)), none);
    }
    let class = serde_json::to_value(builtin::node_class()).unwrap();
    assert_eq!(problems(2, &class, Some(&class)), none);
}

#[test]
fn rules_of_node_pools() {
    let pool = serde_json::to_value(builtin::general_purpose()).unwrap();
    let requirement = |key: &str, operator: &str, values: Value| json!([{"key": key, "operator": operator, "values": values, "minValues": 2}]);
    let template = "/spec/template/spec";
    let cases = [
        (
            format!("{template}/requirements"),
            requirement("karpenter.sh/nodepool", "Exists", json!([])),
            "spec.template.spec.requirements[0].key: label \"karpenter.sh/nodepool\" is restricted",
        ),
        (
            format!("{template}/requirements"),
            requirement("karpenter.sh/registered", "Exists", json!([])),
            "spec.template.spec.requirements[0].key: label domain \"karpenter.sh\" is restricted",
        ),
        (
            format!("{template}/requirements"),
            requirement("kubernetes.io/hostname", "Exists", json!([])),
            "spec.template.spec.requirements[0].key: label \"kubernetes.io/hostname\" is restricted",
        ),
        (
            format!("{template}/requirements"),
            json!([{"key": "a", "operator": "In"}]),
            "spec.template.spec.requirements: no such key: values evaluating rule: requirements \
             with operator 'In' must have a value defined",
        ),
        (
            format!("{template}/requirements"),
            json!([{"key": "a", "operator": "In", "values": []}]),
            "spec.template.spec.requirements: requirements with operator 'In' must have a value defined",
        ),
        (
            format!("{template}/requirements"),
            json!([{"key": "a", "operator": "Gte", "values": ["1", "2"]}]),
            "spec.template.spec.requirements: requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must \
             have a single positive integer value",
        ),
        (
            format!("{template}/requirements"),
            requirement("a", "In", json!(["1"])),
            "spec.template.spec.requirements: requirements with 'minValues' must have at least that \
             many values specified in the 'values' field",
        ),
        (
            format!("{template}/nodeClassRef/group"),
            json!("karpenter.k8s.aws"),
            "spec.template.spec.nodeClassRef: nodeClassRef.group is immutable",
        ),
        (
            format!("{template}/nodeClassRef/name"),
            json!(""),
            "spec.template.spec.nodeClassRef.name: name may not be empty",
        ),
        (
            "/spec/template/metadata".to_owned(),
            json!({"labels": {"kubernetes.io/hostname": "x"}}),
            "spec.template.metadata.labels: label \"kubernetes.io/hostname\" is restricted",
        ),
        (
            "/spec/disruption/budgets".to_owned(),
            json!([{"nodes": "0", "schedule": "@daily"}]),
            "spec.disruption.budgets: 'schedule' must be set with 'duration'",
        ),
        (
            "/spec/replicas".to_owned(),
            json!(3),
            "spec: Cannot transition NodePool between static (replicas set) and dynamic (replicas \
             unset) provisioning modes",
        ),
    ];
    for (pointer, value, expected) in cases {
        let bad = changed(&pool, &pointer, value);
        assert_eq!(problems(0, &bad, Some(&pool)), [expected]);
    }
    let fixed = changed(&pool, "/spec/replicas", json!(3));
    let weighted = changed(&fixed, "/spec/weight", json!(1));
    assert_eq!(
        problems(0, &weighted, None),
        ["spec: 'weight' is not supported on static NodePools"]
    );
    let limited = changed(&fixed, "/spec/limits", json!({"cpu": "5"}));
    assert_eq!(
        problems(0, &limited, None),
        ["spec: only 'limits.nodes' is supported on static NodePools"]
    );
    let limited = changed(&fixed, "/spec/limits", json!({"nodes": "5"}));
    assert_eq!(problems(0, &limited, None), [""; 0]);
}

#[test]
fn the_spec_of_a_claim_cannot_be_changed() {
    let spec = json!({
        "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
        "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}],
        "expireAfter": "336h",
    });
    let claim = json!({"spec": spec});
    assert_eq!(problems(1, &claim, Some(&claim)), [""; 0]);
    let other = changed(&claim, "/spec/expireAfter", json!("720h"));
    assert_eq!(problems(1, &other, Some(&claim)), ["spec: spec is immutable"]);
}

#[test]
fn rules_of_node_classes() {
    let class = serde_json::to_value(builtin::node_class()).unwrap();
    let terms = "subnetSelectorTerms";
    let cases = [
        (
            "/spec/instanceProfile",
            json!("own"),
            "spec: must specify exactly one of ['role', 'instanceProfile']".to_owned(),
        ),
        ("/spec/subnetSelectorTerms", json!([]), format!("spec.{terms}: {terms} cannot be empty")),
        (
            "/spec/subnetSelectorTerms",
            json!([{}]),
            format!("spec.{terms}: expected at least one, got none, ['tags', 'id']"),
        ),
        (
            "/spec/subnetSelectorTerms",
            json!([{"id": "subnet-1", "tags": {"a": "b"}}]),
            format!(
                "spec.{terms}: 'id' is mutually exclusive, \
                 cannot be set with a combination of other fields in {terms}"
            ),
        ),
        (
            "/spec/podSubnetSelectorTerms",
            json!([{"id": "subnet-1"}]),
            "spec: 'podSubnetSelectorTerms' must be set with 'podSecurityGroupSelectorTerms'"
                .to_owned(),
        ),
        (
            "/spec/tags",
            json!({"kubernetes.io/cluster/x": "owned"}),
            "spec.tags: tag contains a restricted tag matching kubernetes.io/cluster/".to_owned(),
        ),
    ];
    for (pointer, value, expected) in cases {
        let bad = changed(&class, pointer, value);
        assert_eq!(problems(2, &bad, Some(&class)), [expected]);
    }
}

#[test]
fn the_kwok_provider_keeps_its_label_domain() {
    let [pools, claims, ..] = &crds::kwok()[..] else { panic!("pools and claims come first") };
    let mut pool = serde_json::to_value(builtin::general_purpose()).unwrap();
    let keys = |key: &str| json!([{"key": key, "operator": "Exists"}]);
    let mut said = |key: &str| {
        pool["spec"]["template"]["spec"]["requirements"] = keys(key);
        problems_of(pools, &pool, None)
    };
    assert_eq!(said("karpenter.kwok.sh/instance-size"), [""; 0]);
    assert_eq!(
        said("karpenter.kwok.sh/color"),
        ["spec.template.spec.requirements[0].key: \
          label domain \"karpenter.kwok.sh\" is restricted"]
    );
    let claim = json!({"metadata": {"name": "a"}, "spec": {
        "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
        "requirements": keys("karpenter.kwok.sh/color"),
    }});
    assert_eq!(
        problems_of(claims, &claim, None),
        ["spec.requirements[0].key: label domain \"karpenter.kwok.sh\" is restricted"]
    );
}

#[test]
fn rules_of_capacity_buffers() {
    let crd = &crds::kwok()[4];
    let said =
        |spec: Value| problems_of(crd, &json!({"metadata": {"name": "a"}, "spec": spec}), None);
    assert_eq!(said(json!({"podTemplateRef": {"name": "t"}, "replicas": 1})), [""; 0]);
    assert_eq!(said(json!({"podTemplateRef": {"name": "t"}, "limits": {"cpu": "1"}})), [""; 0]);
    assert_eq!(
        said(json!({"podTemplateRef": {"name": "t"}})),
        ["spec: If podTemplateRef is set, replicas or limits must also be set"]
    );
    let scalable = json!({"kind": "Deployment", "name": "d"});
    assert_eq!(said(json!({"scalableRef": scalable, "percentage": 10})), [""; 0]);
    assert_eq!(
        said(json!({"scalableRef": scalable, "podTemplateRef": {"name": "t"}, "replicas": 1})),
        ["spec: You must define either PodTemplateRef or ScalableRef, but not both"]
    );
}

#[test]
fn a_class_of_the_kwok_provider_is_ready_as_it_comes() {
    let schema = &crds::kwok()[2]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let schema = CustomSchema::compile(schema).expect("our definitions compile");
    let mut class = json!({"metadata": {"name": "a"}});
    schema.default(&mut class);
    let ready = &class["status"]["conditions"][0];
    assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("True")));
    let bad = json!({"metadata": {"name": "a"}, "spec": {"nodeRegistrationDelay": "soon"}});
    assert_eq!(schema.validate(&bad, None)[0].field, "spec.nodeRegistrationDelay");
}
