use serde_json::{Value, json};

use super::{MAGIC, decode};

/// What kubectl 1.36 sends for a command, and what the same command prints with
/// `--dry-run=client -o json`: Go's two encoders on one object.
macro_rules! fixtures {
    ($($name:literal),* $(,)?) => {
        [$(($name, &include_bytes!(concat!("fixtures/", $name, ".pb"))[..],
            include_str!(concat!("fixtures/", $name, ".json")))),*]
    };
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn gives_the_json_that_go_gives() {
    let fixtures = fixtures![
        "configmap",
        "cronjob",
        "deployment",
        "deployment-zero",
        "hpa",
        "hpa-memory",
        "ingress",
        "job",
        "job-from-cronjob",
        "namespace",
        "pdb",
        "pdb-int",
        "priorityclass",
        "quota",
        "role",
        "rolebinding",
        "secret",
        "service",
        "serviceaccount",
    ];
    for (name, bytes, text) in fixtures {
        let mut expected = without_nulls(serde_json::from_str(text).unwrap());
        let mut decoded = decode(bytes).unwrap();
        // The body may leave the namespace to the path.
        for object in [&mut expected, &mut decoded] {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
        }
        assert_eq!(decoded, expected, "{name}");
    }
}

#[test]
fn decodes_requests_that_are_not_stored() {
    let review = decode(include_bytes!("fixtures/can-i.pb")).unwrap();
    assert_eq!(review["kind"], "SelfSubjectAccessReview");
    assert_eq!(review["spec"]["resourceAttributes"]["verb"], "create");
    let token = decode(include_bytes!("fixtures/token.pb")).unwrap();
    assert_eq!(token["spec"]["expirationSeconds"], 3600);
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push((value & 0x7f | 0x80) as u8);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn block(field: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [block(1, api_version), block(2, kind)].concat();
    [MAGIC.to_vec(), block(1, type_meta), block(2, raw)].concat()
}

#[test]
fn inlined_messages_and_special_types() {
    let empty_dir = block(2, block(2, block(2, block(1, "1024Mi"))));
    let volume = [block(1, "v"), empty_dir].concat();
    let handler = block(
        1,
        block(2, [block(1, "/"), block(2, [number(1, 1), block(3, "web")].concat())].concat()),
    );
    let container = [block(1, "c"), block(10, [handler, number(3, 5)].concat())].concat();
    let metadata = [block(1, "p"), block(8, [number(1, 1_767_323_045), number(2, 0)].concat())];
    let pod = [
        block(1, metadata.concat()),
        block(2, [block(1, volume), block(2, container), number(4, u64::MAX)].concat()),
        block(99, "from a later version"),
    ];
    assert_eq!(
        decode(&envelope("v1", "Pod", &pod.concat())).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {
                "containers": [{"name": "c", "livenessProbe": {
                    "httpGet": {"path": "/", "port": "web"}, "timeoutSeconds": 5}}],
                "terminationGracePeriodSeconds": -1,
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
            },
        })
    );
}

#[test]
fn twice_inlined_messages() {
    let rule = [block(1, "CREATE"), block(2, [block(1, "apps"), block(3, "deployments")].concat())];
    let named = [block(1, "web"), block(2, rule.concat())].concat();
    let policy = block(2, block(2, block(4, named)));
    let binding = decode(&envelope(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        &block(2, block(3, block(3, [block(1, "web"), block(2, rule.concat())].concat()))),
    ));
    let rules = &binding.unwrap()["spec"]["matchResources"]["resourceRules"];
    assert_eq!(
        *rules,
        json!([{"resourceNames": ["web"], "operations": ["CREATE"], "apiGroups": ["apps"],
            "resources": ["deployments"]}])
    );
    assert!(decode(&envelope("v1", "Pod", &policy)).is_ok());
}

#[test]
fn schemas_in_crds() {
    let json_text = |text: &str| block(1, text);
    let inner = [block(5, "string")].concat();
    let schema = [
        block(5, "object"),
        block(29, [block(1, "a"), block(2, &inner)].concat()),
        block(8, json_text("{\"a\":\"x\"}")),
        block(30, number(1, 0)),
    ];
    let version = [block(1, "v1"), block(4, block(1, schema.concat()))].concat();
    let crd = decode(&envelope(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &block(2, block(7, version)),
    ));
    assert_eq!(
        crd.unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({"type": "object", "default": {"a": "x"}, "properties": {"a": {"type": "string"}},
            "additionalProperties": false})
    );
}

#[test]
fn options_are_found_under_any_group() {
    for api_version in ["v1", "policy/v1", "meta.k8s.io/v1", "apps/v1"] {
        let options = envelope(api_version, "DeleteOptions", &number(1, 0));
        assert_eq!(decode(&options).unwrap()["gracePeriodSeconds"], 0, "{api_version}");
    }
}

#[test]
fn malformed_bytes_are_errors() {
    let whole = include_bytes!("fixtures/deployment.pb");
    for length in 0..whole.len() {
        // Every cut is either refused or loses whole fields; none may panic.
        let _ = decode(&whole[..length]);
    }
    assert!(decode(b"{}").unwrap_err().contains("prefix 'k8s\\0'"));
    let error = decode(&envelope("example.com/v1", "Foo", b"")).unwrap_err();
    assert_eq!(error, "no kind \"Foo\" is registered for version \"example.com/v1\"");
    let error = decode(&envelope("v1", "Pod", &[0x0a, 0x7f])).unwrap_err();
    assert_eq!(error, "unexpected EOF");
    let error = decode(&envelope("v1", "Pod", &block(1, number(1, 1)))).unwrap_err();
    assert!(error.contains("ObjectMeta.name"), "{error}");
    let mut deep = block(1, "x");
    for _ in 0..200 {
        deep = block(29, [block(1, "a"), block(2, deep)].concat());
    }
    let version = [block(1, "v1"), block(4, block(1, deep))].concat();
    let crd = envelope(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &block(2, block(7, version)),
    );
    assert!(decode(&crd).unwrap_err().contains("nested deeper"));
}
