use super::*;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json";

fn find<'a>(list: &'a Value, field: &str, wanted: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|entry| entry[field] == wanted);
    found.unwrap_or_else(|| panic!("no {wanted} in {list}"))
}

#[tokio::test(start_paused = true)]
async fn the_version_is_the_emulated_one() {
    let (_, version) = ask(&service(), "GET", "/version?timeout=5s", "").await;
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    let text = version["gitVersion"].as_str().unwrap();
    assert!(text.starts_with("v1.36.3+aerostat."), "{text}");
    assert_eq!(ask(&service(), "GET", "/readyz", "").await, (200, json!("ok")));
}

#[tokio::test(start_paused = true)]
async fn resources_are_told_in_one_document() {
    let service = service();
    let (_, core) = ask_as(&service, "GET", "/api", "", AGGREGATED, "").await;
    assert_eq!(core["apiVersion"], "apidiscovery.k8s.io/v2");
    let pods = find(&core["items"][0]["versions"][0]["resources"], "resource", "pods");
    assert_eq!(pods["responseKind"], json!({"group": "", "version": "", "kind": "Pod"}));
    assert_eq!((&pods["scope"], &pods["shortNames"][0]), (&json!("Namespaced"), &json!("po")));
    let eviction = find(&pods["subresources"], "subresource", "eviction");
    assert_eq!(eviction["responseKind"]["group"], "policy");
    let (_, groups) = ask_as(&service, "GET", "/apis", "", AGGREGATED, "").await;
    let names: Vec<&str> = groups["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|group| group["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names[..2], ["apps", "events.k8s.io"]);
    let autoscaling = groups["items"].as_array().unwrap().iter();
    let autoscaling = autoscaling.clone().find(|group| group["metadata"]["name"] == "autoscaling");
    assert_eq!(autoscaling.unwrap()["versions"][0]["version"], "v2", "the preferred comes first");
}

#[tokio::test(start_paused = true)]
async fn a_document_that_did_not_change_is_not_sent_again() {
    let service = service();
    let get = async |tag: Option<&str>| {
        let mut request = Request::get("/apis").header("accept", AGGREGATED);
        if let Some(tag) = tag {
            request = request.header("if-none-match", tag);
        }
        send(&service, request.body(Full::default()).unwrap()).await
    };
    let tag = get(None).await.headers()["etag"].to_str().unwrap().to_owned();
    let again = get(Some(&tag)).await;
    assert_eq!(again.status(), 304);
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    ask(&service, "POST", crds, widgets()).await;
    assert_eq!(get(Some(&tag)).await.status(), 200, "a new kind changes it");
}

#[tokio::test(start_paused = true)]
async fn older_clients_read_separate_lists() {
    let service = service();
    let (_, versions) = ask(&service, "GET", "/api", "").await;
    assert_eq!(versions["versions"], json!(["v1"]));
    let (_, groups) = ask(&service, "GET", "/apis", "").await;
    let autoscaling = find(&groups["groups"], "name", "autoscaling");
    assert_eq!(autoscaling["preferredVersion"]["groupVersion"], "autoscaling/v2");
    let (_, core) = ask(&service, "GET", "/api/v1", "").await;
    let eviction = find(&core["resources"], "name", "pods/eviction");
    assert_eq!((&eviction["group"], &eviction["version"]), (&json!("policy"), &json!("v1")));
    let (_, events) = ask(&service, "GET", "/apis/events.k8s.io/v1", "").await;
    find(&events["resources"], "name", "events");
    assert_eq!(ask(&service, "GET", "/apis/nope", "").await.0, 404);
    assert_eq!(ask(&service, "GET", "/apis/apps/v2", "").await.0, 404);
    let (_, group) = ask(&service, "GET", "/apis/apps", "").await;
    assert_eq!(group["kind"], "APIGroup");
}

#[tokio::test(start_paused = true)]
async fn what_there_is_none_of_can_be_listed_but_not_made() {
    let service = service();
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let (code, list) = ask(&service, "GET", slices, "").await;
    assert_eq!((code, &list["items"]), (200, &json!([])));
    let (code, status) = ask(&service, "POST", slices, "{}").await;
    assert_eq!((code, &status["reason"]), (405, &json!("MethodNotAllowed")));
}

#[tokio::test(start_paused = true)]
async fn the_second_openapi_is_there_and_empty() {
    let service = service();
    let (code, document) = ask(&service, "GET", "/openapi/v2", "").await;
    assert_eq!((code, &document["swagger"]), (200, &json!("2.0")));
    let protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let (code, document) = ask_as(&service, "GET", "/openapi/v2", "", protobuf, "").await;
    let begin = format!(
        "\n\u{3}2.0\u{12}{}\n\nKubernetes",
        char::from(14 + crate::http::GIT_VERSION.len() as u8)
    );
    assert!(code == 200 && document.as_str().unwrap().starts_with(&begin), "{document}");
}
