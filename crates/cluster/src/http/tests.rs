//! The API as clients meet it, through `kube::Client`, in virtual time and without a socket.

use aerostat_clock::{Clock, Seeds};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams, WatchEvent, WatchParams,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{ResponseBody, Service};
use crate::registry::{Cluster, Options};

mod apply;
mod discovery;
mod faults;
mod subresources;
mod watches;

/// A cluster with the namespace and account that pods need.
fn service() -> Service {
    let epoch = "2026-01-01T00:00:00Z".parse().expect("a time");
    let options = Options { clock: Clock::simulated(epoch), seeds: Seeds::new(1) };
    let cluster = Cluster::new(&options);
    let create = |kind: &str, namespace: &str, value: Value| {
        let kind = cluster.kind("", kind).expect(kind);
        cluster.create_object(&kind, namespace, value, Default::default()).expect("created");
    };
    create("namespaces", "", json!({"metadata": {"name": "default"}}));
    create("serviceaccounts", "default", json!({"metadata": {"name": "default"}}));
    Service::new(cluster)
}

fn client(service: &Service) -> kube::Client {
    kube::Client::new(service.clone(), "default")
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("a valid object")
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    })
}

async fn send(service: &Service, request: Request<Full<Bytes>>) -> Response<ResponseBody> {
    service.clone().oneshot(request).await.expect("the service does not fail")
}

/// Code and body of a request; the body as JSON, or as a string if it is none.
async fn ask(service: &Service, method: &str, uri: &str, body: impl ToString) -> (u16, Value) {
    ask_as(service, method, uri, "application/json", "application/json", body).await
}

async fn ask_as(
    service: &Service,
    method: &str,
    uri: &str,
    content: &str,
    accept: &str,
    body: impl ToString,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", content)
        .header("accept", accept)
        .body(Full::from(body.to_string()))
        .expect("a request");
    let response = send(service, request).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::String(text)))
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(start_paused = true)]
async fn a_pod_lives_through_kube() {
    let service = service();
    let pods: Api<Pod> = Api::default_namespaced(client(&service));
    let created = pods.create(&PostParams::default(), &object(pod("a"))).await.unwrap();
    assert!(created.metadata.uid.is_some());
    assert_eq!(pods.get("a").await.unwrap(), created);

    let patch = json!({"metadata": {"labels": {"x": "y", "app": null}}});
    let patched = pods.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.metadata.labels, Some([("x".into(), "y".into())].into()));
    assert_ne!(patched.metadata.resource_version, created.metadata.resource_version);
    let same = pods.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(same, patched, "a patch that changes nothing writes nothing");

    let strategic = json!({"spec": {"containers": [{"name": "c", "image": "busybox:2"}]}});
    let changed =
        pods.patch("a", &PatchParams::default(), &Patch::Strategic(&strategic)).await.unwrap();
    let containers = changed.spec.unwrap().containers;
    assert_eq!(containers[0].image.as_deref(), Some("busybox:2"));

    let status = json!({"status": {"phase": "Running"}});
    let running =
        pods.patch_status("a", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(running.status.unwrap().phase.as_deref(), Some("Running"));

    let stale = pods.replace("a", &PostParams::default(), &created).await.unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.is_conflict()));

    pods.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_served_as_soon_as_it_is_defined() {
    let service = service();
    let client = client(&service);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &object(widgets())).await.unwrap();
    let definition = definitions.get("widgets.example.com").await.unwrap();
    let status = definition.status.unwrap();
    let established = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Established");
    assert_eq!(established.unwrap().status, "True");
    assert_eq!(status.accepted_names.unwrap().list_kind.as_deref(), Some("WidgetList"));
    assert_eq!(status.stored_versions, Some(vec!["v1".into()]));

    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let widgets: Api<DynamicObject> = Api::all_with(client, &ApiResource::from_gvk(&kind));
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
                        "spec": {"size": 3}});
    let created = widgets.create(&PostParams::default(), &object(widget)).await.unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    let patch = json!({"spec": {"size": 4}});
    let patched = widgets.patch("w", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.metadata.generation, Some(2));
    assert_eq!(widgets.list(&ListParams::default()).await.unwrap().items.len(), 1);

    let strategic = widgets.patch("w", &PatchParams::default(), &Patch::Strategic(&patch)).await;
    assert!(matches!(strategic.unwrap_err(), kube::Error::Api(status) if status.code == 415));

    definitions.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    assert!(definitions.get_opt("widgets.example.com").await.unwrap().is_none());
    assert!(widgets.list(&ListParams::default()).await.is_err(), "the kind is gone");
}

#[tokio::test(start_paused = true)]
async fn custom_objects_are_pruned_defaulted_and_checked() {
    let service = service();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut definition = widgets();
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["size"] =
        json!({"type": "integer", "maximum": 5, "default": 2});
    let mut broken = definition.clone();
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"] =
        Value::Null;
    let (code, status) = ask(&service, "POST", definitions, broken).await;
    assert_eq!(code, 422);
    let message = status["message"].as_str().unwrap();
    let place = "spec.validation.openAPIV3Schema.properties[spec].type: Required value";
    assert!(message.contains(place), "{message}");
    ask(&service, "POST", definitions, definition).await;

    let widgets = "/apis/example.com/v1/widgets";
    let widget = json!({"metadata": {"name": "w"}, "spec": {"bogus": 1}});
    let strict = format!("{widgets}?fieldValidation=Strict");
    let (code, status) = ask(&service, "POST", &strict, &widget).await;
    assert_eq!(code, 400, "{status}");
    let (code, created) = ask(&service, "POST", widgets, &widget).await;
    assert_eq!((code, &created["spec"]), (201, &json!({"size": 2})));
    let patch = json!({"spec": {"size": 9}});
    let uri = format!("{widgets}/w");
    let (code, status) =
        ask_as(&service, "PATCH", &uri, "application/merge-patch+json", "*/*", patch).await;
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "Widget.example.com \"w\" is invalid: spec.size: Invalid value: 9: \
         spec.size in body should be less than or equal to 5"
    );
    let (code, status) = ask(&service, "PUT", &uri, widget).await;
    assert_eq!(code, 422, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with("must be specified for an update"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_definition_waits_for_the_last_of_its_objects() {
    let service = service();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let widgets_uri = "/apis/example.com/v1/widgets";
    ask(&service, "POST", definitions, widgets()).await;
    let held = json!({"metadata": {"name": "w", "finalizers": ["example.com/f"]}});
    ask(&service, "POST", widgets_uri, held).await;
    ask(&service, "POST", widgets_uri, json!({"metadata": {"name": "free"}})).await;
    let definition = format!("{definitions}/widgets.example.com");
    ask(&service, "DELETE", &definition, "").await;
    let (_, waiting) = ask(&service, "GET", &definition, "").await;
    let finalizers = &waiting["metadata"]["finalizers"];
    assert_eq!(finalizers, &json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let (_, left) = ask(&service, "GET", widgets_uri, "").await;
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
    let late = json!({"metadata": {"name": "late"}});
    assert_eq!(ask(&service, "POST", widgets_uri, late).await.0, 405);
    let release = json!({"metadata": {"finalizers": null}});
    let uri = format!("{widgets_uri}/w");
    ask_as(&service, "PATCH", &uri, "application/merge-patch+json", "*/*", release).await;
    assert_eq!(ask(&service, "GET", &definition, "").await.0, 404);
    assert_eq!(ask(&service, "GET", widgets_uri, "").await.0, 404);
}

fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size",
                    },
                },
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {"size": {"type": "integer"}},
                        },
                        "status": {
                            "type": "object",
                            "properties": {"size": {"type": "integer"}},
                        },
                    },
                }},
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_consistent_pages() {
    let service = service();
    let pods: Api<Pod> = Api::default_namespaced(client(&service));
    for name in ["a", "b", "c", "d", "e"] {
        pods.create(&PostParams::default(), &object(pod(name))).await.unwrap();
    }
    let names = |list: &kube::core::ObjectList<Pod>| -> Vec<String> {
        list.items.iter().filter_map(|pod| pod.metadata.name.clone()).collect()
    };
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    // What happens between pages is not seen.
    pods.delete("d", &DeleteParams::default()).await.unwrap();
    pods.create(&PostParams::default(), &object(pod("f"))).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let next = ListParams::default().limit(2).continue_token(&token);
    let second = pods.list(&next).await.unwrap();
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    let token = second.metadata.continue_.clone().unwrap();
    let third = pods.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
    assert_eq!(names(&third), ["e"]);
    assert_eq!(third.metadata.continue_, None);

    service.cluster().store().compact();
    let late = pods.list(&next).await.unwrap_err();
    assert!(matches!(late, kube::Error::Api(status) if status.code == 410));
    let (code, status) = ask(&service, "GET", &format!("{PODS}?continue=bogus"), "").await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test(start_paused = true)]
async fn lists_are_selected_by_labels_and_fields() {
    let service = service();
    for name in ["a", "b"] {
        assert_eq!(ask(&service, "POST", PODS, pod(name)).await.0, 201);
    }
    let count = async |query: &str| {
        let (code, list) = ask(&service, "GET", &format!("/api/v1/pods?{query}"), "").await;
        assert_eq!(code, 200, "{list}");
        list["items"].as_array().map(Vec::len)
    };
    assert_eq!(count("labelSelector=app%3Da").await, Some(1));
    assert_eq!(count("fieldSelector=metadata.name%3Db").await, Some(1));
    assert_eq!(count("fieldSelector=spec.nodeName%3Dx").await, Some(0));
    assert_eq!(count("").await, Some(2));
    let (code, status) = ask(&service, "GET", "/api/v1/pods?fieldSelector=spec.foo%3D1", "").await;
    assert_eq!(code, 400);
    assert_eq!(status["message"], "field label not supported: spec.foo");
}

#[tokio::test(start_paused = true)]
async fn revisions_decide_what_a_list_may_show() {
    let service = service();
    let (_, a) = ask(&service, "POST", PODS, pod("a")).await;
    let version = a["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    ask(&service, "POST", PODS, pod("b")).await;
    let list = async |query: &str| ask(&service, "GET", &format!("{PODS}?{query}"), "").await;
    let exact = format!("resourceVersion={version}&resourceVersionMatch=Exact");
    let (_, then) = list(&exact).await;
    assert_eq!(then["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(then["metadata"]["resourceVersion"], version);
    let (_, now) = list(&format!("resourceVersion={version}")).await;
    assert_eq!(now["items"].as_array().map(Vec::len), Some(2));
    let (code, status) = list("resourceVersion=99999").await;
    assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
    assert_eq!(list("resourceVersionMatch=Exact").await.0, 422);
    service.cluster().store().compact();
    assert_eq!(list(&exact).await.0, 410);
}

#[tokio::test(start_paused = true)]
async fn objects_are_shown_as_asked() {
    let service = service();
    ask(&service, "POST", PODS, pod("a")).await;
    let get = async |accept: &str, path: &str| ask_as(&service, "GET", path, "", accept, "").await;
    let (_, table) = get("application/json;as=Table;v=v1;g=meta.k8s.io", PODS).await;
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert!(table["rows"][0]["object"].get("spec").is_none());
    let whole = format!("{PODS}?includeObject=Object");
    let (_, table) = get("application/json;as=Table;v=v1;g=meta.k8s.io", &whole).await;
    assert_eq!(table["rows"][0]["object"]["spec"]["containers"][0]["name"], "c");
    let (_, partial) =
        get("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", PODS).await;
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(partial["items"][0]["metadata"]["name"], "a");
    let (_, yaml) = get("application/yaml", &format!("{PODS}/a")).await;
    assert!(yaml.as_str().unwrap().contains("\n  name: a\n"), "{yaml}");
    assert_eq!(get("text/html", PODS).await.0, 406);
    assert_eq!(get("*/*", "/api/v1/nonsense").await, (404, json!("404 page not found\n")));
}

#[tokio::test(start_paused = true)]
async fn bad_bodies_are_refused_as_kubernetes_does() {
    let service = service();
    let post = async |body: String| ask(&service, "POST", PODS, body).await;
    let (code, status) = post("{\"kind\": \"Pod\", ".into()).await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")));
    assert_eq!(
        status["message"],
        "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; \
         json parse error: unexpected end of JSON input ({\"kind\": \"Pod\", )"
    );
    let (code, status) = post(format!("\"{}\"", "x".repeat(super::REQUEST_LIMIT))).await;
    assert_eq!(code, 413);
    assert_eq!(status["message"], "Request entity too large: limit is 3145728");
    let mut bogus = pod("a");
    bogus["spec"]["bogus"] = 1.into();
    let strict = format!("{PODS}?fieldValidation=Strict");
    let (code, status) = ask(&service, "POST", &strict, &bogus).await;
    assert_eq!(code, 400);
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with("strict decoding error: unknown field \"spec.bogus\""), "{message}");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    assert_eq!(post(node.to_string()).await.0, 400);
    let (code, _) = ask_as(&service, "POST", PODS, "text/plain", "*/*", pod("a")).await;
    assert_eq!(code, 415);
    assert_eq!(ask(&service, "GET", &format!("{PODS}/a"), "").await.0, 404, "nothing was stored");
    assert_eq!(ask(&service, "POST", "/api/v1/pods", pod("a")).await.0, 405);
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_warned_of() {
    let service = service();
    let mut bogus = pod("a");
    bogus["spec"]["bogus"] = 1.into();
    let request = Request::post(PODS).body(Full::from(bogus.to_string())).unwrap();
    let response = send(&service, request).await;
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["warning"], "299 - \"unknown field \\\"spec.bogus\\\"\"");
    let (_, stored) = ask(&service, "GET", &format!("{PODS}/a"), "").await;
    assert!(stored["spec"].get("bogus").is_none());
    let again = Request::post(PODS).body(Full::from(bogus.to_string())).unwrap();
    let response = send(&service, again).await;
    assert_eq!(response.status(), 409);
    assert!(response.headers().contains_key("warning"), "also of what is refused");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_stores_nothing() {
    let service = service();
    let mut pod_a = pod("a");
    pod_a["metadata"]["finalizers"] = json!([]);
    let (code, shown) = ask(&service, "POST", &format!("{PODS}?dryRun=All"), pod_a).await;
    assert_eq!(code, 201);
    assert!(shown["metadata"].get("finalizers").is_none(), "what is empty is absent");
    assert!(shown["metadata"].get("uid").is_some());
    assert!(shown["metadata"].get("resourceVersion").is_none());
    assert_eq!(ask(&service, "GET", &format!("{PODS}/a"), "").await.0, 404);
    assert_eq!(ask(&service, "POST", &format!("{PODS}?dryRun=x"), pod("a")).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn yaml_and_put_are_understood() {
    let service = service();
    let yaml = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: m}\ndata: {a: '1'}\n";
    let maps = "/api/v1/namespaces/default/configmaps";
    let (code, _) = ask_as(&service, "POST", maps, "application/yaml", "*/*", yaml).await;
    assert_eq!(code, 201);
    let (_, mut map) = ask(&service, "GET", &format!("{maps}/m"), "").await;
    assert_eq!(map["data"]["a"], "1");
    map["data"]["a"] = "2".into();
    let (code, map) = ask(&service, "PUT", &format!("{maps}/m"), map).await;
    assert_eq!((code, &map["data"]["a"]), (200, &json!("2")));
    assert_eq!(ask(&service, "PUT", &format!("{maps}/other"), map.clone()).await.0, 400);
    let patch = json!([{"op": "test", "path": "/data/a", "value": "9"}]);
    let uri = format!("{maps}/m");
    let (code, status) =
        ask_as(&service, "PATCH", &uri, "application/json-patch+json", "*/*", patch).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
}

#[tokio::test(start_paused = true)]
async fn deletes_answer_as_kubernetes_does() {
    let service = service();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| json!({"metadata": {"name": name, "labels": {"n": name}}});
    for name in ["a", "b", "c"] {
        ask(&service, "POST", maps, map(name)).await;
    }
    let options = json!({"preconditions": {"uid": "other"}});
    assert_eq!(ask(&service, "DELETE", &format!("{maps}/a"), options).await.0, 409);
    let background = json!({"propagationPolicy": "Background"});
    let (code, status) = ask(&service, "DELETE", &format!("{maps}/a"), background).await;
    assert_eq!((code, &status["status"]), (200, &json!("Success")));
    assert_eq!(status["details"]["kind"], "configmaps");
    let wrong = json!({"propagationPolicy": "Sideways"});
    assert_eq!(ask(&service, "DELETE", &format!("{maps}/b"), wrong).await.0, 422);
    let (_, list) = ask(&service, "DELETE", &format!("{maps}?labelSelector=n%3Db"), "").await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let (_, left) = ask(&service, "GET", maps, "").await;
    assert_eq!(left["items"][0]["metadata"]["name"], "c");
    ask(&service, "POST", PODS, pod("p")).await;
    let (_, gone) = ask(&service, "DELETE", &format!("{PODS}/p"), "").await;
    assert_eq!(gone["kind"], "Pod");
}
