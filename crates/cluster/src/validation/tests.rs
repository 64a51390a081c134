mod pods;
mod workloads;

use serde_json::{Value, json};

use crate::kinds::{self, Kind};
use crate::registry::Part;
use crate::status::FieldError;

fn kind(plural: &str) -> Kind {
    kinds::builtin().into_iter().find(|kind| kind.plural == plural).expect(plural)
}

/// A complete object called `x`, defaults applied.
fn object(plural: &str, mut value: Value) -> Value {
    let kind = kind(plural);
    if value["metadata"]["name"].is_null() {
        value["metadata"]["name"] = "x".into();
    }
    value["metadata"]["uid"] = "u1".into();
    if kind.namespaced && value["metadata"]["namespace"].is_null() {
        value["metadata"]["namespace"] = "default".into();
    }
    crate::defaults::apply(&kind, &mut value);
    value
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// What is wrong with a new object.
fn create(plural: &str, value: Value) -> Vec<String> {
    texts(&super::create(&kind(plural), &object(plural, value)))
}

/// What is wrong with a change.
fn update(plural: &str, old: Value, new: Value) -> Vec<String> {
    let (old, new) = (object(plural, old), object(plural, new));
    texts(&super::update(&kind(plural), &new, &old, Part::Main))
}

/// `base` with the value at a JSON pointer replaced; objects on the way are made.
fn with(mut base: Value, pointer: &str, value: Value) -> Value {
    let mut at = &mut base;
    for step in pointer.split('/').skip(1) {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step.replace("~1", "/")],
        };
    }
    *at = value;
    base
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
    or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
    regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
    'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

#[test]
fn metadata_is_checked() {
    for (plural, metadata, expected) in [
        ("configmaps", json!({"name": "a.b-c"}), vec![]),
        ("configmaps", json!({"name": "X_y"}), vec![format!("metadata.name: Invalid value: \"X_y\": {SUBDOMAIN}")]),
        ("namespaces", json!({"name": "X"}), vec![format!("metadata.name: Invalid value: \"X\": {LABEL}")]),
        ("namespaces", json!({"name": "a.b"}), vec!["metadata.name: Invalid value: \"a.b\": must not contain dots".into()]),
        ("configmaps", json!({"name": ""}), vec!["metadata.name: Required value: name or generateName is required".into()]),
        ("configmaps", json!({"generateName": "a-"}), vec![]),
        ("configmaps", json!({"generateName": "Ab-"}), vec![format!("metadata.generateName: Invalid value: \"Ab-\": {SUBDOMAIN}")]),
        ("configmaps", json!({"labels": {"a/b": "c", "x": "-"}}), vec![format!("metadata.labels: Invalid value: \"-\": {LABEL_VALUE}")]),
        ("configmaps", json!({"labels": {"-": "c"}}), vec![format!("metadata.labels: Invalid value: \"-\": {NAME_PART}")]),
        ("configmaps", json!({"labels": {"/b": "c"}}), vec!["metadata.labels: Invalid value: \"/b\": prefix part must be non-empty".into()]),
        ("configmaps", json!({"annotations": {"Big/Key": "any thing"}}), vec![]),
        ("configmaps", json!({"annotations": {"a b": ""}}), vec![format!("metadata.annotations: Invalid value: \"a b\": {NAME_PART}")]),
        ("configmaps", json!({"annotations": {"a": "x".repeat(262_144)}}), vec!["metadata.annotations: Too long: may not be more than 262144 bytes".into()]),
        ("configmaps", json!({"finalizers": ["ok.example/a", "b c"]}), vec![format!("metadata.finalizers: Invalid value: \"b c\": {NAME_PART}")]),
        (
            "configmaps",
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
            vec!["metadata.ownerReferences.uid: Invalid value: \"\": must not be empty".into()],
        ),
        (
            "configmaps",
            json!({"ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": true},
                {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "2", "controller": true}]}),
            vec![
                "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"controller\":true,\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"1\"},{\"apiVersion\":\"v1\",\"controller\":true,\"kind\":\"Pod\",\"name\":\"q\",\"uid\":\"2\"}]: Only one reference can have Controller set to true. Found \"true\" in references for Pod/p and Pod/q".into(),
            ],
        ),
    ] {
        assert_eq!(create(plural, json!({"metadata": metadata})), expected, "{metadata}");
    }
}

#[test]
fn no_finalizer_is_added_on_the_way_out() {
    let meta = |finalizers: Value| json!({"metadata": {"deletionTimestamp": "2025-01-06T08:00:00Z", "finalizers": finalizers}});
    let errors = update("configmaps", meta(json!(["a.b/c"])), meta(json!(["a.b/c", "a.b/d"])));
    assert_eq!(
        errors,
        ["metadata.finalizers: Forbidden: no new finalizers can be added if the object is being \
          deleted, found new finalizers []string{\"a.b/d\"}"]
    );
    assert_eq!(update("configmaps", meta(json!(["a.b/c"])), meta(json!([]))), [""; 0]);
}

#[test]
fn other_kinds_are_checked() {
    let none: [&str; 0] = [];
    for (plural, value, expected) in [
        ("priorityclasses", json!({"value": 1_000_000_000}), &none[..]),
        (
            "priorityclasses",
            json!({"value": 1_000_000_001}),
            &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        (
            "priorityclasses",
            json!({"metadata": {"name": "system-mine"}, "value": 1}),
            &["metadata.name: Forbidden: priority class names with 'system-' prefix are reserved \
               for system use only. error: system-mine is not a known system priority class"],
        ),
        (
            "priorityclasses",
            json!({"value": 1, "preemptionPolicy": "Sometimes"}),
            &["preemptionPolicy: Unsupported value: \"Sometimes\": supported values: \
               \"PreemptLowerPriority\", \"Never\""],
        ),
        ("poddisruptionbudgets", json!({"spec": {"minAvailable": "50%"}}), &none),
        (
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
            &["spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and \
               maxUnavailable cannot be both set"],
        ),
        (
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": "120%"}}),
            &["spec.minAvailable: Invalid value: \"120%\": must not be greater than 100%"],
        ),
        (
            "poddisruptionbudgets",
            json!({"spec": {"maxUnavailable": "half"}}),
            &["spec.maxUnavailable: Invalid value: \"half\": a valid percent string must be a \
               numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
               validation is '[0-9]+%')"],
        ),
        (
            "horizontalpodautoscalers",
            json!({"spec": {"minReplicas": 0, "scaleTargetRef": {"kind": "Deployment"}}}),
            &[
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.scaleTargetRef.name: Required value",
            ],
        ),
        (
            "configmaps",
            json!({"data": {"a b": ""}}),
            &[
                "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric \
               characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex \
               used for validation is '[-._a-zA-Z0-9]+')",
            ],
        ),
        (
            "secrets",
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
            &["data[tls.key]: Required value"],
        ),
        (
            "nodes",
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"},
                {"key": "b", "effect": "Never"}]}}),
            &[
                "metadata.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: \
                 taints must be unique by key and effect pair",
                "metadata.taints[2].effect: Unsupported value: \"Never\": supported values: \
                 \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ],
        ),
        (
            "nodes",
            json!({"status": {"capacity": {"cpu": "-1"}}}),
            &[
                "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
                "status.allocatable.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        ),
        (
            "persistentvolumeclaims",
            json!({"spec": {}}),
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        ),
        (
            "persistentvolumeclaims",
            json!({"spec": {"accessModes": ["RWO"], "resources": {"requests": {"storage": "0"}}}}),
            &[
                "spec.accessModes: Unsupported value: \"RWO\": supported values: \"ReadOnlyMany\", \
                 \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            ],
        ),
        (
            "storageclasses",
            json!({"volumeBindingMode": "Later"}),
            &[
                "provisioner: Required value",
                "volumeBindingMode: Unsupported value: \"Later\": supported values: \"Immediate\", \
                 \"WaitForFirstConsumer\"",
            ],
        ),
        (
            "persistentvolumes",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}),
            &["spec: Required value: must specify a volume type"],
        ),
        (
            "services",
            json!({"spec": {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"]}}),
            &["spec.ports: Required value"],
        ),
        (
            "services",
            json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": [
                {"port": 80}, {"name": "a", "port": 0, "targetPort": "no_good", "protocol": "HTTP"}, {"name": "a", "port": 80}]}}),
            &[
                "spec.ports[0].name: Required value",
                "spec.ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[1].protocol: Unsupported value: \"HTTP\": supported values: \"SCTP\", \
                 \"TCP\", \"UDP\"",
                "spec.ports[1].targetPort: Invalid value: \"no_good\": must contain only \
                 alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "spec.ports[2].name: Duplicate value: \"a\"",
                "spec.ports[2]: Duplicate value: {\"port\":80,\"protocol\":\"TCP\"}",
            ],
        ),
        (
            "services",
            json!({"spec": {"type": "Nonsense", "ports": [{"port": 80}]}}),
            &["spec.type: Unsupported value: \"Nonsense\": supported values: \"ClusterIP\", \
               \"ExternalName\", \"LoadBalancer\", \"NodePort\""],
        ),
        (
            "leases",
            json!({"spec": {"leaseDurationSeconds": 0}}),
            &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
        ),
    ] {
        assert_eq!(create(plural, value.clone()), expected, "{plural} {value}");
    }
}

#[test]
fn immutable_fields_stay() {
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
    let pending = with(claim.clone(), "/spec/volumeName", json!("v"));
    let class = json!({"provisioner": "p", "parameters": {"a": "b"}});
    let service = json!({"spec": {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ports": [{"port": 80}]}});
    let node = json!({"spec": {"providerID": "aws:///a/i-1"}});
    for (plural, old, new, expected) in [
        ("priorityclasses", json!({"value": 1}), json!({"value": 1, "description": "d"}), None),
        (
            "priorityclasses",
            json!({"value": 1}),
            json!({"value": 2}),
            Some("value: Forbidden: may not be changed in an update."),
        ),
        (
            "priorityclasses",
            json!({"value": 1}),
            json!({"value": 1, "preemptionPolicy": "Never"}),
            Some("preemptionPolicy: Invalid value: \"Never\": field is immutable"),
        ),
        (
            "storageclasses",
            class.clone(),
            with(class, "/parameters/a", json!("c")),
            Some("parameters: Invalid value: {\"a\":\"c\"}: field is immutable"),
        ),
        (
            "services",
            service.clone(),
            with(
                with(service, "/spec/clusterIP", json!("10.96.0.8")),
                "/spec/clusterIPs/0",
                json!("10.96.0.8"),
            ),
            Some("spec.clusterIPs[0]: Invalid value: [\"10.96.0.8\"]: may not change once set"),
        ),
        (
            "secrets",
            json!({"type": "a"}),
            json!({"type": "b"}),
            Some("type: Invalid value: \"b\": field is immutable"),
        ),
        (
            "configmaps",
            json!({"immutable": true, "data": {"a": "b"}}),
            json!({"immutable": true, "data": {"a": "c"}}),
            Some("data: Forbidden: field is immutable when `immutable` is set"),
        ),
        (
            "nodes",
            node.clone(),
            with(node, "/spec/providerID", json!("aws:///a/i-2")),
            Some(
                "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
            ),
        ),
        ("persistentvolumeclaims", claim.clone(), pending, None),
        (
            "persistentvolumeclaims",
            claim.clone(),
            with(claim, "/spec/accessModes/0", json!("ReadWriteMany")),
            Some(
                "spec: Forbidden: spec is immutable after creation except resources.requests and \
                  volumeAttributesClassName for bound claims\n- spec.accessModes[0]: \
                  \"ReadWriteOnce\"\n+ spec.accessModes[0]: \"ReadWriteMany\"\n",
            ),
        ),
    ] {
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(update(plural, old, new.clone()), expected, "{plural} {new}");
    }
}

#[test]
fn status_writes_are_not_looked_at() {
    let kind = kind("pods");
    let old = object("pods", json!({"spec": {}}));
    let new = with(old.clone(), "/spec/restartPolicy", json!("Nonsense"));
    for part in [Part::Status, Part::Whole] {
        assert_eq!(super::update(&kind, &new, &old, part), []);
    }
}

#[test]
fn no_shape_makes_it_panic() {
    for kind in kinds::builtin() {
        for odd in [json!(null), json!(1), json!("x"), json!([1, "a", null]), json!({"a": [1]})] {
            let value = json!({"metadata": {"name": "x", "labels": odd, "ownerReferences": odd},
                "spec": odd, "data": odd, "status": odd});
            let _ = super::create(&kind, &value);
            let _ = super::update(&kind, &value, &json!({"metadata": odd}), Part::Main);
            let nested = json!({"spec": {"template": odd, "containers": odd, "selector": odd, "ports": odd,
                "volumes": odd, "resources": odd, "jobTemplate": odd, "affinity": odd}});
            let _ = super::create(&kind, &nested);
            let _ = super::update(&kind, &nested, &value, Part::Main);
        }
    }
}
