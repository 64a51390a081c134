use super::*;

/// The next `count` events of a watch.
async fn events(body: &mut ResponseBody, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    while events.len() < count {
        let frame = body.frame().await.expect("the watch goes on").expect("a frame");
        let data = frame.into_data().expect("data");
        for line in data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            events.push(serde_json::from_slice(line).expect("a line of JSON"));
        }
    }
    assert_eq!(events.len(), count, "{events:?}");
    events
}

async fn watch(service: &Service, uri: &str, accept: &str) -> ResponseBody {
    let request = Request::get(uri).header("accept", accept).body(Full::default()).unwrap();
    let response = send(service, request).await;
    assert_eq!(response.status(), 200);
    response.into_body()
}

fn summary(events: &[Value]) -> Vec<(&str, &str)> {
    let text = |value: &'_ Value| -> &'static str {
        Box::leak(value.as_str().unwrap_or_default().to_owned().into_boxed_str())
    };
    events
        .iter()
        .map(|event| (text(&event["type"]), text(&event["object"]["metadata"]["name"])))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn kube_sees_what_happens() {
    let service = service();
    let pods: Api<Pod> = Api::default_namespaced(client(&service));
    let version = pods.list(&ListParams::default()).await.unwrap().metadata.resource_version;
    let stream = pods.watch(&WatchParams::default(), &version.unwrap()).await.unwrap();
    let mut stream = stream.boxed();
    pods.create(&PostParams::default(), &object(pod("a"))).await.unwrap();
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match stream.try_next().await.unwrap().expect("an event") {
            WatchEvent::Added(pod) => seen.push(("added", pod.metadata.name)),
            WatchEvent::Deleted(pod) => seen.push(("deleted", pod.metadata.name)),
            WatchEvent::Bookmark(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, [("added", Some("a".into())), ("deleted", Some("a".into()))]);
    assert_eq!(service.open_watches(), 1);
    drop(stream);
    drop(pods);
    tokio::task::yield_now().await;
    assert_eq!(service.open_watches(), 0, "who leaves frees the watch");
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_where_it_was() {
    let service = service();
    let (_, a) = ask(&service, "POST", PODS, pod("a")).await;
    ask(&service, "POST", PODS, pod("b")).await;
    let version = a["metadata"]["resourceVersion"].as_str().unwrap();
    let uri = format!("{PODS}?watch=true&resourceVersion={version}");
    let mut from_a = watch(&service, &uri, "*/*").await;
    assert_eq!(summary(&events(&mut from_a, 1).await), [("ADDED", "b")]);
    let mut from_nothing = watch(&service, &format!("{PODS}?watch=1"), "*/*").await;
    assert_eq!(summary(&events(&mut from_nothing, 2).await), [("ADDED", "a"), ("ADDED", "b")]);

    service.cluster().store().compact();
    let mut late = watch(&service, &uri, "*/*").await;
    let error = events(&mut late, 1).await.remove(0);
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(late.frame().await.is_none(), "nothing comes after an error");
}

#[tokio::test(start_paused = true)]
async fn objects_come_and_go_as_they_match() {
    let service = service();
    let uri = "/api/v1/pods?watch=true&labelSelector=app%3Da&resourceVersion=0";
    let mut watch = watch(&service, uri, "*/*").await;
    ask(&service, "POST", PODS, pod("a")).await;
    ask(&service, "POST", PODS, pod("b")).await;
    let relabel = async |name: &str, to: &str| {
        let patch = json!({"metadata": {"labels": {"app": to}}});
        let uri = format!("{PODS}/{name}");
        ask_as(&service, "PATCH", &uri, "application/merge-patch+json", "*/*", patch).await.1
    };
    relabel("b", "a").await;
    let moved = relabel("a", "x").await;
    let events = events(&mut watch, 3).await;
    assert_eq!(summary(&events), [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]);
    let last = &events[2]["object"]["metadata"];
    assert_eq!(last["labels"]["app"], "a", "the state that matched");
    assert_eq!(last["resourceVersion"], moved["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_says_when_it_is_complete() {
    let service = service();
    ask(&service, "POST", PODS, pod("a")).await;
    let uri = format!(
        "{PODS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true"
    );
    let mut stream = watch(&service, &uri, "*/*").await;
    let initial = events(&mut stream, 2).await;
    assert_eq!(initial[0]["type"], "ADDED");
    assert_eq!(initial[1]["type"], "BOOKMARK");
    let metadata = &initial[1]["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(initial[1]["object"]["kind"], "Pod");
    let wrong = format!("{PODS}?watch=true&sendInitialEvents=true");
    assert_eq!(ask(&service, "GET", &wrong, "").await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_tell_how_far_a_watch_has_come_and_timeouts_end_it() {
    let service = service();
    let uri =
        format!("{PODS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=100&resourceVersion=1");
    let mut stream = watch(&service, &uri, "*/*").await;
    // Another kind's write counts too.
    let map = json!({"metadata": {"name": "m"}});
    ask(&service, "POST", "/api/v1/namespaces/default/configmaps", map).await;
    let newest = service.cluster().store().revision().to_string();
    let began = tokio::time::Instant::now();
    let bookmark = events(&mut stream, 1).await.remove(0);
    assert_eq!(began.elapsed().as_secs(), 60);
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], newest);
    events(&mut stream, 1).await;
    assert!(stream.frame().await.is_none());
    assert_eq!(began.elapsed().as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn tables_name_their_columns_once() {
    let service = service();
    ask(&service, "POST", PODS, pod("a")).await;
    ask(&service, "POST", PODS, pod("b")).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut stream = watch(&service, &format!("{PODS}?watch=true"), table).await;
    let rows = events(&mut stream, 2).await;
    assert!(rows[0]["object"]["columnDefinitions"].is_array());
    assert!(rows[1]["object"]["columnDefinitions"].is_null());
    assert_eq!(rows[1]["object"]["rows"][0]["cells"][0], "b");
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_kept_are_seen_to_be_renewed() {
    let service = service();
    let cluster = service.cluster();
    let kind = cluster.kind("", "namespaces").unwrap();
    let namespace = json!({"metadata": {"name": "kube-node-lease"}});
    cluster.create_object(&kind, "", namespace, Default::default()).unwrap();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = json!({"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}});
    assert_eq!(ask(&service, "POST", leases, lease).await.0, 201);
    cluster.keep_lease("n1", cluster.clock().now());
    cluster.clock().sleep(std::time::Duration::from_secs(25)).await;
    let renewed = |lease: &Value| lease["spec"]["renewTime"].as_str().unwrap_or("never").to_owned();
    let (_, list) = ask(&service, "GET", leases, "").await;
    assert_eq!(renewed(&list["items"][0]), "2026-01-01T00:00:20.000000Z");
    let mut stream = watch(&service, &format!("{leases}?watch=true"), "*/*").await;
    let seen = events(&mut stream, 4).await;
    let times: Vec<String> = seen.iter().map(|event| renewed(&event["object"])).collect();
    assert_eq!(times, ["20", "30", "40", "50"].map(|s| format!("2026-01-01T00:00:{s}.000000Z")));
    assert_eq!(cluster.clock().now().to_string(), "2026-01-01T00:00:50Z");
}

#[tokio::test(start_paused = true)]
async fn closing_ends_watches() {
    let service = service();
    let mut stream = watch(&service, &format!("{PODS}?watch=true"), "*/*").await;
    service.close();
    assert!(stream.frame().await.is_none());
}
