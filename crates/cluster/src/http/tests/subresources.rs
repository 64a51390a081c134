use super::*;
use kube::api::EvictParams;

async fn running_pod(service: &Service, name: &str, ready: bool) {
    assert_eq!(ask(service, "POST", PODS, pod(name)).await.0, 201);
    let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}});
    let (code, status) = ask(service, "POST", &format!("{PODS}/{name}/binding"), binding).await;
    assert_eq!((code, &status["status"]), (201, &json!("Success")));
    let ready = if ready { "True" } else { "False" };
    let status = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": ready}],
    }});
    let uri = format!("{PODS}/{name}/status");
    let merge = "application/merge-patch+json";
    assert_eq!(ask_as(service, "PATCH", &uri, merge, "*/*", status).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once() {
    let service = service();
    let nodes: Api<Node> = Api::all(client(&service));
    let node = json!({"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}}});
    nodes.create(&PostParams::default(), &object(node)).await.unwrap();
    running_pod(&service, "a", true).await;
    let (_, bound) = ask(&service, "GET", &format!("{PODS}/a"), "").await;
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["labels"]["topology.kubernetes.io/zone"], "z");
    let binding = json!({"metadata": {"name": "a"}, "target": {"name": "n2"}});
    let bindings = "/api/v1/namespaces/default/bindings";
    let (code, status) = ask(&service, "POST", bindings, binding).await;
    assert_eq!(code, 409);
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with("pod a is already assigned to node \"n1\""), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_budget_stops_evictions() {
    let service = service();
    running_pod(&service, "a", true).await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    });
    ask(&service, "POST", budgets, budget).await;
    let pods: Api<Pod> = Api::default_namespaced(client(&service));
    let evict = async || pods.evict("a", &EvictParams::default()).await;
    let refused = evict().await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(s) if s.code == 429), "not yet observed");

    let allow = async |allowed: i32| {
        let status = json!({"status": {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed,
            "desiredHealthy": 1, "expectedPods": 1,
        }});
        let uri = format!("{budgets}/b/status");
        ask_as(&service, "PATCH", &uri, "application/merge-patch+json", "*/*", status).await
    };
    allow(0).await;
    let kube::Error::Api(status) = evict().await.unwrap_err() else { panic!("an API error") };
    let cause = &status.details.as_ref().unwrap().causes[0];
    assert_eq!(cause.message, "The disruption budget b needs 1 healthy pods and has 1 currently");
    allow(1).await;
    evict().await.unwrap();
    let (_, evicted) = ask(&service, "GET", &format!("{PODS}/a"), "").await;
    assert!(evicted["metadata"]["deletionTimestamp"].is_string());
    let conditions = evicted["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["reason"] == "EvictionByEvictionAPI"));
    let (_, budget) = ask(&service, "GET", &format!("{budgets}/b"), "").await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["a"].is_string());
}

#[tokio::test(start_paused = true)]
async fn unready_pods_may_go_when_enough_are_healthy() {
    let service = service();
    running_pod(&service, "a", false).await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    });
    ask(&service, "POST", budgets, budget).await;
    let eviction = json!({"metadata": {"name": "a"}});
    let uri = format!("{PODS}/a/eviction");
    assert_eq!(ask(&service, "POST", &uri, &eviction).await.0, 429);
    let status = json!({"status": {"currentHealthy": 1, "desiredHealthy": 1}});
    let status_uri = format!("{budgets}/b/status");
    ask_as(&service, "PATCH", &status_uri, "application/merge-patch+json", "*/*", status).await;
    assert_eq!(ask(&service, "POST", &uri, &eviction).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn deployments_and_custom_objects_are_scaled() {
    let service = service();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    let (code, answer) = ask(&service, "POST", deployments, deployment).await;
    assert_eq!(code, 201, "{answer}");
    let uri = format!("{deployments}/web/scale");
    let (_, mut scale) = ask(&service, "GET", &uri, "").await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    assert_eq!(scale["status"]["selector"], "app=web");
    scale["spec"]["replicas"] = 5.into();
    // kubectl sends no content type here.
    let (code, scale) = ask_as(&service, "PUT", &uri, "", "*/*", scale).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(5)));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (_, table) = ask_as(&service, "GET", &uri, "", table, "").await;
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..3],
        [json!("web"), 5.into(), 0.into()]
    );
    let patch = json!({"spec": {"replicas": -1}});
    let merge = "application/merge-patch+json";
    assert_eq!(ask_as(&service, "PATCH", &uri, merge, "*/*", patch).await.0, 422);

    ask(&service, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        .await;
    let widgets = "/apis/example.com/v1/widgets";
    ask(&service, "POST", widgets, json!({"metadata": {"name": "w"}, "spec": {"size": 1}})).await;
    let patch = json!({"spec": {"replicas": 3}});
    let uri = format!("{widgets}/w/scale");
    assert_eq!(ask_as(&service, "PATCH", &uri, merge, "*/*", patch).await.0, 200);
    let (_, widget) = ask(&service, "GET", &format!("{widgets}/w"), "").await;
    assert_eq!(widget["spec"]["size"], 3);
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_real_node_says_so() {
    let service = service();
    running_pod(&service, "a", true).await;
    for subresource in ["log", "exec", "attach", "portforward", "proxy"] {
        let (code, status) = ask(&service, "GET", &format!("{PODS}/a/{subresource}"), "").await;
        assert_eq!((code, &status["reason"]), (501, &json!("NotImplemented")), "{subresource}");
        assert!(status["message"].as_str().unwrap().contains("simulated node"));
    }
    assert_eq!(ask(&service, "GET", &format!("{PODS}/b/log"), "").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_document_may_stand_for_what_a_pod_serves() {
    let service = service();
    running_pod(&service, "a", true).await;
    service.serve_documents(Box::new(|path| match path {
        "proxy/default/a/8080/metrics" => Ok(json!("up 1\n")),
        "proxy/default/a/8080/broken" => Err(crate::Status::new(503, "ServiceUnavailable", "no")),
        _ => Err(crate::Status::not_found("", "documents", path)),
    }));
    for (pod, path, code) in [
        ("http:a:8080", "metrics", 200),
        ("a:8080", "metrics", 200),
        ("http:a:8080", "broken", 503),
        ("a:8080", "else", 501),
        ("a", "metrics", 501),
        ("http:b:8080", "metrics", 404),
    ] {
        let uri = format!("{PODS}/{pod}/proxy/{path}");
        assert_eq!(ask(&service, "GET", &uri, "").await.0, code, "{uri}");
    }
    assert_eq!(ask(&service, "POST", &format!("{PODS}/a:8080/proxy/metrics"), "{}").await.0, 405);
}

#[tokio::test(start_paused = true)]
async fn access_is_granted_to_all_who_are_in() {
    let service = service();
    let uri = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let (code, review) = ask(&service, "POST", uri, review).await;
    assert_eq!((code, &review["status"]["allowed"]), (201, &json!(true)));
    let uri = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, review) = ask(&service, "POST", uri, "{}").await;
    assert_eq!(review["status"]["userInfo"]["username"], "kubernetes-admin");
    assert_eq!(ask(&service, "GET", uri, "").await.0, 405);
    let uri = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, token) = ask(&service, "POST", uri, json!({"spec": {}})).await;
    assert_eq!(code, 201);
    assert!(token["status"]["token"].as_str().unwrap().starts_with("ey"));
}

#[tokio::test(start_paused = true)]
async fn events_are_one_store_with_two_views() {
    let service = service();
    let event = json!({
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "a"},
        "reason": "Scheduled", "note": "hello", "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Binding",
        "reportingController": "default-scheduler", "reportingInstance": "x",
    });
    let new = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, created) = ask(&service, "POST", new, event).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["apiVersion"], "events.k8s.io/v1");
    let old = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Da";
    let (_, list) = ask(&service, "GET", old, "").await;
    assert_eq!(list["items"][0]["message"], "hello");
    let (_, list) =
        ask(&service, "GET", &format!("{new}?fieldSelector=regarding.name%3Da"), "").await;
    assert_eq!(list["items"][0]["note"], "hello");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_when_it_is_finalized() {
    let service = service();
    let namespaces: Api<Namespace> = Api::all(client(&service));
    let namespace = json!({"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}});
    namespaces.create(&PostParams::default(), &object(namespace)).await.unwrap();
    namespaces.delete("x", &DeleteParams::default()).await.unwrap();
    let (_, mut left) = ask(&service, "GET", "/api/v1/namespaces/x", "").await;
    assert_eq!(left["status"]["phase"], "Terminating");
    left["spec"]["finalizers"] = json!([]);
    assert_eq!(ask(&service, "PUT", "/api/v1/namespaces/x/finalize", left).await.0, 200);
    assert!(namespaces.get_opt("x").await.unwrap().is_none());
}
