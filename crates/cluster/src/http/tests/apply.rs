use super::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn apply(service: &Service, uri: &str, manager: &str, config: &Value) -> (u16, Value) {
    let uri = format!("{uri}?fieldManager={manager}");
    ask_as(service, "PATCH", &uri, "application/apply-patch+yaml", "*/*", config).await
}

#[tokio::test(start_paused = true)]
async fn appliers_share_an_object() {
    let service = service();
    let uri = format!("{MAPS}/m");
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
    let (code, created) = apply(&service, &uri, "one", &map(json!({"a": "1", "b": "1"}))).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "one");
    let (code, same) = apply(&service, &uri, "one", &map(json!({"a": "1", "b": "1"}))).await;
    assert_eq!((code, &same), (200, &created), "nothing changes, nothing is written");

    let (code, status) = apply(&service, &uri, "two", &map(json!({"a": "2"}))).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    let message = "Apply failed with 1 conflict: conflict with \"one\": .data.a";
    assert_eq!(status["message"], message);
    assert_eq!(status["details"]["causes"][0]["reason"], "FieldManagerConflict");
    let forced = format!("{uri}?fieldManager=two&force=true");
    let config = map(json!({"a": "2"}));
    let (code, map_now) =
        ask_as(&service, "PATCH", &forced, "application/apply-patch+yaml", "*/*", config).await;
    assert_eq!((code, &map_now["data"]), (200, &json!({"a": "2", "b": "1"})));
    // What one no longer wants goes, as nobody else does.
    let (_, map_now) = apply(&service, &uri, "one", &map(json!({}))).await;
    assert_eq!(map_now["data"], json!({"a": "2"}));

    let (code, status) =
        ask_as(&service, "PATCH", &uri, "application/apply-patch+yaml", "*/*", "{}").await;
    assert_eq!(code, 422);
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with("fieldManager: Required value: is required for apply patch"));
}

#[tokio::test(start_paused = true)]
async fn an_update_takes_fields_over() {
    let service = service();
    let post = format!("{MAPS}?fieldManager=maker");
    ask(&service, "POST", &post, json!({"metadata": {"name": "m"}, "data": {"a": "1"}})).await;
    let uri = format!("{MAPS}/m");
    let patch = format!("{uri}?fieldManager=patcher");
    let data = json!({"data": {"a": "2"}});
    let (_, map) =
        ask_as(&service, "PATCH", &patch, "application/merge-patch+json", "*/*", data).await;
    let managers = map["metadata"]["managedFields"].as_array().unwrap();
    let owner = managers.iter().find(|entry| !entry["fieldsV1"]["f:data"]["f:a"].is_null());
    assert_eq!(owner.unwrap()["manager"], "patcher");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "3"}});
    let (code, status) = apply(&service, &uri, "applier", &config).await;
    assert_eq!(code, 409);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("conflict with \"patcher\" using v1: .data.a"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn scaling_takes_the_number_over() {
    let service = service();
    let uri = "/apis/apps/v1/namespaces/default/replicasets/r";
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    assert_eq!(apply(&service, uri, "kubectl", &set).await.0, 201);
    let scale = format!("{uri}/scale?fieldManager=kubectl");
    let five = json!({"spec": {"replicas": 5}});
    let merge = "application/merge-patch+json";
    assert_eq!(ask_as(&service, "PATCH", &scale, merge, "*/*", five).await.0, 200);
    let (code, status) = apply(&service, uri, "kubectl", &set).await;
    assert_eq!(code, 409);
    let message = status["message"].as_str().unwrap();
    let owner = "\"kubectl\" with subresource \"scale\" using apps/v1: .spec.replicas";
    assert!(message.ends_with(owner), "{message}");
}

#[tokio::test(start_paused = true)]
async fn status_and_custom_objects_are_applied_too() {
    let service = service();
    ask(&service, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        .await;
    let uri = "/apis/example.com/v1/widgets/w";
    let widget = |field: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", field: {"size": 3, "bogus": 1}});
    let (code, created) = apply(&service, uri, "one", &widget("spec")).await;
    assert_eq!((code, &created["spec"]), (201, &json!({"size": 3})));
    let (code, status) = apply(&service, &format!("{uri}/status"), "two", &widget("status")).await;
    assert_eq!((code, &status["status"]), (200, &json!({"size": 3})));
    let managers = status["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.len(), 2);
    assert!(managers.iter().any(|entry| entry["subresource"] == "status"));
}
