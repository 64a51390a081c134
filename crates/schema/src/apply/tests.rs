use serde_json::{Value, json};

use super::{Fields, Writer, apply, update};

const DEPLOYMENT: Fields<'_> = Fields::BuiltIn("apps", "v1", "Deployment");

fn by<'a>(manager: &'a str, time: &'static str) -> Writer<'a> {
    Writer { manager, subresource: "", reset: &["status"], time }
}

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
}

fn containers(list: Value) -> Value {
    deployment(json!({"template": {"spec": {"containers": list}}}))
}

fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let entries = entries
        .iter()
        .map(|entry| (entry["manager"].as_str().unwrap().to_owned(), entry["fieldsV1"].clone()));
    Value::Object(entries.collect())
}

#[test]
fn creates_and_owns_what_it_names() {
    let config = containers(json!([{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}]));
    let object = apply(DEPLOYMENT, None, &config, by("me", "t1"), false).unwrap();
    assert_eq!(object["spec"], config["spec"]);
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{"manager": "me", "operation": "Apply", "apiVersion": "apps/v1", "time": "t1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:template": {"f:spec": {
                "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":
                        {".": {}, "f:containerPort": {}}}}}}}}}}])
    );
    let again = apply(DEPLOYMENT, Some(&object), &config, by("me", "t2"), false).unwrap();
    assert_eq!(again, object);
}

#[test]
fn two_managers_share_an_object_and_conflict_over_values() {
    let first = deployment(json!({"replicas": 1, "paused": true}));
    let object = apply(DEPLOYMENT, None, &first, by("one", "t1"), false).unwrap();
    let same = deployment(json!({"replicas": 1, "minReadySeconds": 5}));
    let object = apply(DEPLOYMENT, Some(&object), &same, by("two", "t2"), false).unwrap();
    assert_eq!(object["spec"], json!({"replicas": 1, "paused": true, "minReadySeconds": 5}));
    let other = deployment(json!({"replicas": 2, "minReadySeconds": 5}));
    let error = apply(DEPLOYMENT, Some(&object), &other, by("two", "t3"), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas"
    );
    let object = apply(DEPLOYMENT, Some(&object), &other, by("two", "t3"), true).unwrap();
    assert_eq!(object["spec"]["replicas"], 2);
    assert_eq!(
        owners(&object),
        json!({"one": {"f:spec": {"f:paused": {}}},
            "two": {"f:spec": {"f:replicas": {}, "f:minReadySeconds": {}}}})
    );
}

#[test]
fn what_is_no_longer_named_goes_unless_others_own_it() {
    let both = containers(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]));
    let object = apply(DEPLOYMENT, None, &both, by("one", "t1"), false).unwrap();
    let shared = containers(json!([{"name": "b", "image": "1"}]));
    let object = apply(DEPLOYMENT, Some(&object), &shared, by("two", "t2"), false).unwrap();
    let fewer = deployment(json!({"replicas": 1}));
    let object = apply(DEPLOYMENT, Some(&object), &fewer, by("one", "t3"), false).unwrap();
    assert_eq!(
        object["spec"],
        json!({"replicas": 1, "template": {"spec": {"containers": [{"name": "b", "image": "1"}]}}})
    );
    let none = deployment(json!({}));
    let object = apply(DEPLOYMENT, Some(&object), &none, by("two", "t4"), false).unwrap();
    assert_eq!(object["spec"], json!({"replicas": 1}));
}

#[test]
fn fields_that_nobody_owns_stay() {
    let config = containers(json!([{"name": "a", "image": "1"}]));
    let mut object = apply(DEPLOYMENT, None, &config, by("one", "t1"), false).unwrap();
    object["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always".into();
    object["spec"]["replicas"] = 1.into();
    let config = containers(json!([{"name": "a", "image": "2"}]));
    let object = apply(DEPLOYMENT, Some(&object), &config, by("one", "t2"), false).unwrap();
    assert_eq!(
        object["spec"],
        json!({"replicas": 1, "template": {"spec": {"containers": [
            {"name": "a", "image": "2", "imagePullPolicy": "Always"}]}}})
    );
}

#[test]
fn an_untracked_object_belongs_to_before_first_apply() {
    let live = deployment(json!({"replicas": 1}));
    let config = deployment(json!({"replicas": 2}));
    let error = apply(DEPLOYMENT, Some(&live), &config, by("me", "t1"), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .spec.replicas"
    );
    let mut live = live;
    let last = config.to_string();
    live["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    let object = apply(DEPLOYMENT, Some(&live), &config, by("kubectl", "t1"), false).unwrap();
    assert_eq!(object["spec"]["replicas"], 2);
}

#[test]
fn updates_take_ownership() {
    let created = update(DEPLOYMENT, None, &deployment(json!({"replicas": 1})), by("one", "t1"));
    assert_eq!(owners(&created), json!({"one": {"f:spec": {"f:replicas": {}}}}));
    let mut changed = created.clone();
    changed["spec"]["replicas"] = 2.into();
    changed["status"] = json!({"replicas": 2});
    let changed = update(DEPLOYMENT, Some(&created), &changed, by("two", "t2"));
    assert_eq!(owners(&changed), json!({"two": {"f:spec": {"f:replicas": {}}}}));
    let untracked = deployment(json!({"replicas": 1}));
    let next = deployment(json!({"replicas": 2}));
    assert_eq!(update(DEPLOYMENT, Some(&untracked), &next, by("one", "t1")), next);
}

#[test]
fn only_ten_updaters_are_kept() {
    const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let mut object = update(DEPLOYMENT, None, &deployment(json!({"replicas": 1})), by("z", "t00"));
    for (index, name) in NAMES.iter().enumerate() {
        let mut next = object.clone();
        next["metadata"]["annotations"][*name] = "x".into();
        let time =
            ["t01", "t02", "t03", "t04", "t05", "t06", "t07", "t08", "t09", "t10", "t11", "t12"]
                [index];
        object = update(DEPLOYMENT, Some(&object), &next, by(name, time));
    }
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0]["manager"], "ancient-changes");
    assert_eq!(entries[0]["fieldsV1"]["f:spec"], json!({"f:replicas": {}}));
}

#[test]
fn custom_resources_merge_by_their_schema() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "rules": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "value": {"type": "string"}}}},
        "plain": {"type": "array", "items": {"type": "string"}}}}}});
    let object = |spec: Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Foo",
            "metadata": {"name": "f", "finalizers": ["a"]}, "spec": spec})
    };
    let first = object(json!({"rules": [{"name": "a", "value": "1"}], "plain": ["x"]}));
    let live = apply(Fields::Custom(&schema), None, &first, by("one", "t1"), false).unwrap();
    let second = object(json!({"rules": [{"name": "b", "value": "2"}]}));
    let live =
        apply(Fields::Custom(&schema), Some(&live), &second, by("two", "t2"), false).unwrap();
    assert_eq!(
        live["spec"],
        json!({"plain": ["x"],
            "rules": [{"name": "b", "value": "2"}, {"name": "a", "value": "1"}]})
    );
    let fields = &live["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(fields["f:metadata"], json!({"f:finalizers": {"v:\"a\"": {}}}));
    let other = object(json!({"plain": ["y"]}));
    let error = apply(Fields::Custom(&schema), Some(&live), &other, by("three", "t3"), false);
    assert_eq!(error.unwrap_err().0, [("\"one\"".to_owned(), ".spec.plain".to_owned())]);
}
