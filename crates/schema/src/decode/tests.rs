use serde_json::{Value, json};

use super::{documents, prune_unknown, strict, yaml};

fn pruned(kind: &str, group: &str, mut object: Value) -> Result<(Value, Vec<String>), String> {
    let unknown = prune_unknown(group, "v1", kind, &mut object)?;
    Ok((object, unknown))
}

#[track_caller]
fn refused(kind: &str, group: &str, object: Value, expected: &str) {
    assert_eq!(pruned(kind, group, object).unwrap_err(), expected);
}

#[test]
fn strict_names_duplicate_fields_and_keeps_the_last() {
    let (value, duplicates) =
        strict(br#"{"spec":{"containers":[{"name":"a","name":"b"}],"x":{"y":1,"y":2}}}"#).unwrap();
    assert_eq!(value, json!({"spec": {"containers": [{"name": "b"}], "x": {"y": 2}}}));
    assert_eq!(
        duplicates,
        [r#"duplicate field "spec.containers[0].name""#, r#"duplicate field "spec.x.y""#]
    );
    assert_eq!(strict(b"{\"a\":").unwrap_err(), "unexpected end of JSON input");
    assert!(strict(b"{} {}").is_err());
}

#[test]
fn yaml_keeps_numbers_and_names_line_and_column() {
    let (value, duplicates) = yaml(b"a: 1\nb: '1'\nc: [x, 1.5, true, null]\na: 2\n").unwrap();
    assert_eq!(value, json!({"a": 2, "b": "1", "c": ["x", 1.5, true, null]}));
    assert_eq!(duplicates, [r#"duplicate field "a""#]);
    let error = yaml(b"a: 1\n  b: 2\n").unwrap_err();
    assert!(error.starts_with("yaml: line 2, column"), "{error}");
}

#[test]
fn documents_know_their_lines() {
    let text = "# first\n---\nkind: A\n---\n# nothing\n--- \n\n# c\nkind: B\n";
    let found = documents(text).unwrap();
    assert_eq!(found, [(3, json!({"kind": "A"})), (9, json!({"kind": "B"}))]);
    let error = documents("kind: A\n---\nkind: [\n").unwrap_err();
    assert!(error.starts_with("yaml: line 3") || error.starts_with("yaml: line 4"), "{error}");
    let error = documents("kind: A\n---\n\na: 1\na: 2\n").unwrap_err();
    assert_eq!(error, r#"document at line 4: duplicate field "a""#);
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let object = json!({"kind": "Pod", "spec": {"bogus": 1, "containers": [
        {"name": "a", "imag": "x"}]}});
    let (object, unknown) = pruned("Pod", "", object).unwrap();
    assert_eq!(object, json!({"kind": "Pod", "spec": {"containers": [{"name": "a"}]}}));
    assert_eq!(
        unknown,
        [r#"unknown field "spec.bogus""#, r#"unknown field "spec.containers[0].imag""#]
    );
}

#[test]
fn nulls_and_zero_values_go_as_in_go() {
    let object = json!({
        "metadata": {"creationTimestamp": null, "labels": {}, "annotations": {"a": null}},
        "spec": {"replicas": 0, "minReadySeconds": 0, "paused": false,
            "template": {"spec": {"containers": [{"name": "", "image": "", "resources": {}}],
                "volumes": [{"name": "v", "emptyDir": {}}]}}},
    });
    assert_eq!(
        pruned("Deployment", "apps", object).unwrap().0,
        json!({
            "metadata": {"annotations": {"a": ""}},
            "spec": {"replicas": 0,
                "template": {"spec": {"containers": [{"name": "", "resources": {}}],
                    "volumes": [{"name": "v", "emptyDir": {}}]}}},
        })
    );
}

#[test]
fn wrong_types_are_refused_in_the_words_of_go() {
    refused(
        "Deployment",
        "apps",
        json!({"spec": {"replicas": "3"}}),
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    refused(
        "Pod",
        "",
        json!({"spec": {"containers": [{"name": "a", "env": [{"name": "A", "value": 1}]}]}}),
        "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
    );
    refused(
        "Pod",
        "",
        json!({"spec": {"containers": {"name": "a"}}}),
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
    );
    refused(
        "Deployment",
        "apps",
        json!({"spec": {"replicas": 3_000_000_000_u64}}),
        "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    refused("Pod", "", json!([]), "json: cannot unmarshal array into Go value of type v1.Pod");
    refused("Pud", "", json!({}), r#"no kind "Pud" is registered for version "v1""#);
}

#[test]
fn quantities_are_checked_and_made_canonical() {
    let limits = |cpu: Value| json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": cpu}}}]}});
    let (object, _) = pruned("Pod", "", limits("1000m".into())).unwrap();
    assert_eq!(object, limits("1".into()));
    assert_eq!(pruned("Pod", "", limits(json!(0.5))).unwrap().0, limits("500m".into()));
    refused(
        "Pod",
        "",
        limits("500mm".into()),
        r#"unable to parse quantity's suffix: "500mm" in spec.containers[0].resources.limits.cpu"#,
    );
    refused(
        "Pod",
        "",
        limits("1.2.3".into()),
        r#"unable to parse numeric part of quantity: "1.2.3" in spec.containers[0].resources.limits.cpu"#,
    );
    refused(
        "Pod",
        "",
        limits("lots".into()),
        r#"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': "lots" in spec.containers[0].resources.limits.cpu"#,
    );
}

#[test]
fn special_forms_are_taken_and_normalised() {
    let object = json!({
        "metadata": {"creationTimestamp": "2026-01-02T03:04:05.5+01:00"},
        "spec": {"ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8080}]},
    });
    let (object, _) = pruned("Service", "", object).unwrap();
    assert_eq!(object["metadata"]["creationTimestamp"], "2026-01-02T02:04:05Z");
    assert_eq!(object["spec"]["ports"][1]["targetPort"], 8080);
    let wrong = json!({"spec": {"ports": [{"port": 80, "targetPort": {}}]}});
    refused("Service", "", wrong, "json: cannot unmarshal object into Go value of type int32");
    refused("Secret", "", json!({"data": {"a": "*"}}), "illegal base64 data at input byte 0");
    let lease = json!({"spec": {"renewTime": "2026-01-02T03:04:05.123456Z"}});
    assert_eq!(pruned("Lease", "coordination.k8s.io", lease.clone()).unwrap().0, lease);
}

#[test]
fn crd_schemas_are_checked_all_the_way_down() {
    let crd =
        |schema: Value| json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
    let group = "apiextensions.k8s.io";
    let good =
        crd(json!({"type": "object", "additionalProperties": false, "items": [{"type": "x"}],
        "properties": {"a": {"default": {"any": [1]}, "enum": ["x", null],
            "x-kubernetes-validations": [{"rule": "true"}]}}}));
    let (object, unknown) = pruned("CustomResourceDefinition", group, good).unwrap();
    assert!(unknown.is_empty(), "{unknown:?}");
    let schema = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["properties"]["a"]["default"], json!({"any": [1]}));
    let bad = crd(json!({"properties": {"a": {"items": {"typo": 1}}}}));
    let (_, unknown) = pruned("CustomResourceDefinition", group, bad).unwrap();
    assert_eq!(
        unknown,
        [r#"unknown field "spec.versions[0].schema.openAPIV3Schema.properties.a.items.typo""#]
    );
}
