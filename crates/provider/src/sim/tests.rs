mod chance;

use aerostat_api::builtin;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::Value;

use super::*;
use crate::{Catalog, Event};

/// An API server that remembers what it was asked, and when.
#[derive(Clone)]
struct Server {
    clock: Clock,
    asked: Arc<Mutex<Vec<(SignedDuration, String, Value)>>>,
    /// How many requests still fail.
    failures: Arc<Mutex<u32>>,
    /// Whether it drops the status of a new object, as servers do for most kinds.
    drops_status: bool,
}

impl Server {
    fn new(clock: Clock) -> Self {
        let failures = Arc::new(Mutex::new(0));
        Self { clock, asked: Arc::default(), failures, drops_status: false }
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| server.clone().answer(request));
        kube::Client::new(service, "default")
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let call = format!("{} {}", request.method(), request.uri().path());
        let post = request.method() == Method::POST;
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut object: Value = serde_json::from_slice(&body).unwrap_or_default();
        let at = self.clock.now().duration_since(START);
        self.asked.lock().unwrap().push((at, call, object.clone()));
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            let status = json!({"kind": "Status", "status": "Failure", "code": 500,
                "message": "etcdserver: request timed out", "reason": "InternalError"});
            return Ok(reply(StatusCode::INTERNAL_SERVER_ERROR, &status));
        }
        if post && self.drops_status {
            object.as_object_mut().unwrap().remove("status");
        }
        Ok(reply(StatusCode::CREATED, &object))
    }

    /// Milliseconds from the start, and call.
    fn calls(&self) -> Vec<(i128, String)> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(at, call, _)| (at.as_millis(), call.clone())).collect()
    }

    fn body(&self, index: usize) -> Value {
        self.asked.lock().unwrap()[index].2.clone()
    }
}

fn reply(status: StatusCode, object: &Value) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(object).unwrap());
    Response::builder().status(status).body(body).unwrap()
}

const START: Timestamp = Timestamp::constant(1_700_000_000, 0);

fn world() -> (SimCloud, Server) {
    let server = Server::new(Clock::simulated(START));
    (cloud(&server, 7), server)
}

fn cloud(server: &Server, seed: u64) -> SimCloud {
    let tokyo = Catalog::embedded().region("ap-northeast-1").unwrap();
    let seeds = Seeds::new(seed);
    SimCloud::new(tokyo, server.clock, seeds, Timings::default(), Stock::default(), server.client())
}

/// What is for sale with the default class.
fn types(cloud: &SimCloud) -> Arc<Vec<InstanceType>> {
    let reference = builtin::general_purpose().spec.template.spec.node_class_ref;
    cloud.instance_types(&reference, Some(&class())).unwrap()
}

fn class() -> Class {
    builtin::node_class().into()
}

async fn order(cloud: &SimCloud, claim: &NodeClaim) -> Result<Instance, ProviderError> {
    cloud.create(claim, Some(&class()), &types(cloud)).await
}

/// A claim of the general-purpose pool, further constrained.
fn claim(uid: &str, requirements: Value, requests: Value) -> NodeClaim {
    let pool = builtin::general_purpose().spec.template.spec;
    let mut all = serde_json::to_value(&pool.requirements).unwrap();
    all.as_array_mut().unwrap().extend(requirements.as_array().unwrap().iter().cloned());
    let claim = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": "general-purpose-2bsv6",
            "uid": uid,
            "labels": {"karpenter.sh/nodepool": "general-purpose", "team": "red"},
        },
        "spec": {
            "requirements": all,
            "resources": {"requests": requests},
            "nodeClassRef": pool.node_class_ref,
            "taints": [{"key": "dedicated", "value": "ci", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "wait", "effect": "NoExecute"}],
        },
    });
    serde_json::from_value(claim).unwrap()
}

fn plain(uid: &str) -> NodeClaim {
    claim(uid, json!([]), json!({"cpu": "500m", "memory": "1000Mi", "pods": "1"}))
}

fn choice(instance: &Instance) -> [&str; 3] {
    [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE]
        .map(|key| instance.labels[key].as_str())
}

fn gone(instance_type: &str, zone: &str) -> Unavailable {
    Unavailable {
        instance_type: Some(instance_type.to_owned()),
        zone: Some(format!("ap-northeast-1{zone}")),
        capacity_type: Some("on-demand".to_owned()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_cheapest_machine_and_its_node_joins() {
    let (cloud, server) = world();
    let instance = order(&cloud, &plain("u1")).await.unwrap();
    assert_eq!(server.clock.now().duration_since(START), SignedDuration::from_secs(2));
    assert_eq!(choice(&instance), ["c5a.large", "ap-northeast-1a", "on-demand"]);
    let name = instance.provider_id.strip_prefix("aws:///ap-northeast-1a/").unwrap();
    assert!(name.starts_with("i-0") && name.len() == 19, "{name}");
    assert_eq!(server.calls(), [], "not before it has booted");

    server.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(server.calls(), [(24_000, "POST /api/v1/nodes".to_owned())]);
    let node = server.body(0);
    assert_eq!(node["metadata"]["name"], name);
    assert_eq!(node["metadata"]["annotations"], json!({"sim.aerostat.dev/kubelet": "true"}));
    let label = |key: &str| node["metadata"]["labels"][key].as_str().unwrap_or("absent");
    assert_eq!(label("kubernetes.io/hostname"), name);
    assert_eq!(label("karpenter.sh/nodepool"), "general-purpose");
    assert_eq!(label("team"), "red");
    assert_eq!(label("eks.amazonaws.com/nodeclass"), "default");
    assert_eq!(label("eks.amazonaws.com/instance-category"), "c");
    assert_eq!(label("topology.kubernetes.io/zone"), "ap-northeast-1a");
    assert_eq!(label("failure-domain.beta.kubernetes.io/zone"), "ap-northeast-1a");
    assert_eq!(label("karpenter.sh/registered"), "absent");
    assert_eq!(
        node["spec"],
        json!({
            "providerID": instance.provider_id,
            "taints": [
                {"key": "dedicated", "value": "ci", "effect": "NoSchedule"},
                {"key": "wait", "effect": "NoExecute"},
                {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
            ],
        })
    );
    let status = &node["status"];
    assert_eq!(
        status["allocatable"],
        json!({"cpu": "1930m", "memory": "3114Mi", "ephemeral-storage": "71Gi", "pods": "29"})
    );
    assert_eq!(status["capacity"]["cpu"], "2");
    assert_eq!(
        status["addresses"],
        json!([
            {"type": "InternalIP", "address": "10.0.100.4"},
            {"type": "InternalDNS", "address": format!("{name}.ap-northeast-1.compute.internal")},
            {"type": "Hostname", "address": name},
        ])
    );
    assert_eq!(status["conditions"][0]["type"], "Ready");
    assert_eq!(status["conditions"][0]["status"], "False");
    assert_eq!(status["conditions"][0]["reason"], "KubeletNotReady");
    let info = &status["nodeInfo"];
    assert!(info["kubeletVersion"].as_str().unwrap().starts_with("v1.36.3-eks-"));
    assert!(info["osImage"].as_str().unwrap().starts_with("Bottlerocket (EKS Auto, Standard) "));
    assert_eq!(info["architecture"], "amd64");
    assert!(info["systemUUID"].as_str().unwrap().starts_with("ec2"));
    assert_eq!(info["systemUUID"].as_str().unwrap().len(), 36);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drops_the_status_gets_it_again() {
    let mut server = Server::new(Clock::simulated(START));
    server.drops_status = true;
    let cloud = cloud(&server, 7);
    let instance = order(&cloud, &plain("u1")).await.unwrap();
    server.clock.sleep(Duration::from_secs(60)).await;
    let name = instance.provider_id.rsplit('/').next().unwrap();
    let patch = format!("PATCH /api/v1/nodes/{name}/status");
    assert_eq!(server.calls()[1..], [(24_000, patch)]);
    assert_eq!(server.body(1)["status"], server.body(0)["status"]);
}

#[tokio::test(start_paused = true)]
async fn registration_is_tried_until_it_succeeds() {
    let (cloud, server) = world();
    *server.failures.lock().unwrap() = 3;
    order(&cloud, &plain("u1")).await.unwrap();
    server.clock.sleep(Duration::from_secs(60)).await;
    let times: Vec<i128> = server.calls().into_iter().map(|(at, _)| at).collect();
    assert_eq!(times, [24_000, 24_100, 24_300, 24_700]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_one_machine_however_often_it_asks() {
    let (cloud, server) = world();
    let first = order(&cloud, &plain("u1")).await.unwrap();
    assert_eq!(order(&cloud, &plain("u1")).await.unwrap(), first);
    let second = order(&cloud, &plain("u2")).await.unwrap();
    assert_ne!(second.provider_id, first.provider_id);
    let listed = cloud.list().await.unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.is_sorted_by(|a, b| a.provider_id < b.provider_id));
    server.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(server.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_machine_boots_even_if_nobody_waits_for_the_answer() {
    let (cloud, server) = world();
    let claim = plain("u1");
    let waited = tokio::time::timeout(Duration::from_secs(1), order(&cloud, &claim)).await;
    assert!(waited.is_err());
    let listed = cloud.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(order(&cloud, &claim).await.unwrap(), listed[0]);
    server.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ids_follow_the_seed() {
    let server = Server::new(Clock::simulated(START));
    let [one, same, other] = [cloud(&server, 1), cloud(&server, 1), cloud(&server, 2)];
    let one = order(&one, &plain("u1")).await.unwrap().provider_id;
    assert_eq!(order(&same, &plain("u1")).await.unwrap().provider_id, one);
    assert_ne!(order(&other, &plain("u1")).await.unwrap().provider_id, one);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_taken_back_is_told_of_two_minutes_before() {
    let (cloud, server) = world();
    let id = order(&cloud, &plain("u1")).await.unwrap().provider_id;
    cloud.interrupt(&id);
    let notice = cloud.next_notice().await;
    assert_eq!((notice.provider_id.as_str(), notice.event), (id.as_str(), Event::SpotInterruption));
    assert_eq!(cloud.next_notice().await, notice, "it comes again until it is acknowledged");
    cloud.acknowledge(&notice);
    server.clock.sleep(Duration::from_secs(119)).await;
    cloud.get(&id).await.unwrap();
    server.clock.sleep(Duration::from_secs(2)).await;
    assert!(matches!(cloud.get(&id).await, Err(ProviderError::NotFound(_))));
    let none = tokio::time::timeout(Duration::from_secs(60), cloud.next_notice()).await;
    assert!(none.is_err(), "there is nothing more to tell");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_boots_runs_all_the_same() {
    let (cloud, server) = world();
    cloud.keep_from_booting(1);
    let dead = order(&cloud, &plain("u1")).await.unwrap();
    order(&cloud, &plain("u2")).await.unwrap();
    server.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(server.calls().len(), 1, "only the second has joined");
    assert_eq!(cloud.get(&dead.provider_id).await, Ok(dead));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_ends_is_gone_after_a_while() {
    let (cloud, server) = world();
    let instance = order(&cloud, &plain("u1")).await.unwrap();
    let id = instance.provider_id.as_str();
    server.clock.sleep(Duration::from_secs(60)).await;
    cloud.delete(id).await.unwrap();
    server.clock.sleep(Duration::from_secs(4)).await;
    assert_eq!(cloud.get(id).await.unwrap(), instance, "still shutting down");
    cloud.delete(id).await.unwrap();
    server.clock.sleep(Duration::from_secs(2)).await;
    let gone = ProviderError::NotFound(format!("instance {id} is not there (any more)"));
    assert_eq!(cloud.get(id).await, Err(gone.clone()));
    assert_eq!(cloud.delete(id).await, Err(gone));
    assert_eq!(cloud.list().await, Ok(vec![]));
    assert_eq!(server.calls().len(), 1, "the Node is left to others");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_ends_while_it_boots_never_joins() {
    let (cloud, server) = world();
    let instance = order(&cloud, &plain("u1")).await.unwrap();
    cloud.delete(&instance.provider_id).await.unwrap();
    server.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(server.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_is_dropped_is_quiet() {
    let (cloud, server) = world();
    order(&cloud, &plain("u1")).await.unwrap();
    drop(cloud);
    server.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(server.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn what_is_out_of_stock_is_learned_at_launch_and_believed_for_three_minutes() {
    let (cloud, server) = world();
    let stock = |cloud: &SimCloud| -> Vec<bool> {
        let types = types(cloud);
        let kind = types.iter().find(|kind| kind.name == "c5a.large").unwrap();
        kind.offerings.iter().map(|offering| offering.available).collect()
    };
    cloud.set_unavailable(vec![gone("c5a.large", "a")]);
    assert_eq!(stock(&cloud), [true; 4], "nobody knows yet");
    assert_eq!(cloud.next_change(), None);
    let next_zone = order(&cloud, &plain("u1")).await.unwrap();
    assert_eq!(choice(&next_zone), ["c5a.large", "ap-northeast-1c", "on-demand"]);
    cloud.set_unavailable(vec![gone("c5a.large", "a"), gone("c5a.large", "c")]);
    let next_type = order(&cloud, &plain("u2")).await.unwrap();
    assert_eq!(choice(&next_type), ["c6a.large", "ap-northeast-1a", "on-demand"]);
    assert_eq!(stock(&cloud), [false, true, false, true], "on-demand and spot of two zones");

    let only = json!([{"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["c5a.large"]}]);
    let before = server.clock.now();
    let error = order(&cloud, &claim("u3", only, json!({}))).await.unwrap_err();
    assert_eq!(
        error,
        ProviderError::InsufficientCapacity(
            "all requested instance types were unavailable during launch".to_owned()
        )
    );
    assert_eq!(server.clock.now().duration_since(before), SignedDuration::from_secs(2));

    cloud.set_unavailable(Vec::new());
    assert_eq!(stock(&cloud), [false, true, false, true], "it is still believed");
    server.clock.sleep_until(cloud.next_change().unwrap()).await;
    assert_eq!(stock(&cloud), [true, true, false, true], "the first was found earlier");
    server.clock.sleep_until(cloud.next_change().unwrap()).await;
    assert_eq!(stock(&cloud), [true; 4]);
    assert_eq!(choice(&order(&cloud, &plain("u4")).await.unwrap())[0], "c5a.large");
}

#[tokio::test(start_paused = true)]
async fn a_reservation_carries_as_many_machines_as_it_says() {
    let server = Server::new(Clock::simulated(START));
    let tokyo = Catalog::embedded().region("ap-northeast-1").unwrap();
    let reserved = Reserved {
        id: "cr-1".to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: "ap-northeast-1a".to_owned(),
        count: 1,
    };
    let stock = Stock { reservations: vec![reserved], ..Stock::default() };
    assert_eq!(stock.check(&tokyo), Ok(()));
    let (seeds, timings) = (Seeds::new(7), Timings::default());
    let cloud = SimCloud::new(tokyo, server.clock, seeds, timings, stock, server.client());
    let left = |cloud: &SimCloud| {
        let types = types(cloud);
        let kind = types.iter().find(|kind| kind.name == "m5.large").unwrap();
        let offering = kind.offerings.last().unwrap();
        (offering.available, offering.reservation.as_ref().unwrap().available)
    };
    assert_eq!(left(&cloud), (true, 1));
    let known = types(&cloud);
    let wants = |uid: &str| {
        let mut claim = plain(uid);
        claim.spec.requirements[0].values = vec!["reserved".to_owned()];
        claim
    };
    let first = cloud.create(&wants("u1"), None, &known).await.unwrap();
    assert_eq!(choice(&first), ["m5.large", "ap-northeast-1a", "reserved"]);
    assert_eq!(first.labels[labels::RESERVATION_ID], "cr-1");
    assert_eq!(left(&cloud), (false, 0));
    let error = cloud.create(&wants("u2"), None, &known).await.unwrap_err();
    assert!(matches!(error, ProviderError::InsufficientCapacity(_)), "{error}");
    cloud.delete(&first.provider_id).await.unwrap();
    server.clock.sleep(Duration::from_secs(6)).await;
    assert_eq!(left(&cloud), (true, 1));
}

#[test]
fn a_stock_that_the_region_does_not_know_is_refused() {
    let tokyo = Catalog::embedded().region("ap-northeast-1").unwrap();
    let read = |text: &str| serde_json::from_str::<Stock>(text).unwrap().check(&tokyo).unwrap_err();
    assert_eq!(
        read(r#"{"unavailable": [{}, {"instanceType": "c5a.huge"}]}"#),
        "unavailable[1]: ap-northeast-1 sells no instance type \"c5a.huge\""
    );
    assert_eq!(
        read(r#"{"unavailable": [{"zone": "moon"}]}"#),
        "unavailable[0]: ap-northeast-1 has no zone \"moon\""
    );
    let one =
        r#"{"id": "cr-1", "instanceType": "m5.large", "zone": "ap-northeast-1a", "count": 1}"#;
    assert_eq!(
        read(&format!(r#"{{"reservations": [{one}, {one}]}}"#)),
        "reservations[1]: there is another reservation \"cr-1\""
    );
}

#[tokio::test(start_paused = true)]
async fn the_class_decides_the_size_of_the_data_volume() {
    let (cloud, _server) = world();
    let reference = builtin::general_purpose().spec.template.spec.node_class_ref;
    let storage = |size: &str| {
        let mut class = class();
        class.spec["ephemeralStorage"]["size"] = size.into();
        let types = cloud.instance_types(&reference, Some(&class))?;
        let of = |name: &str| {
            let kind = types.iter().find(|kind| kind.name == name).unwrap();
            (kind.capacity.storage, kind.allocatable.storage)
        };
        Ok::<_, ProviderError>((of("c5a.large"), of("c5d.24xlarge")))
    };
    let gib = 1_i64 << 30;
    let ((plain, left), (disks, _)) = storage("200Gi").unwrap();
    assert_eq!((plain, left), (200 * gib, 179 * gib));
    assert_eq!(disks, 3_600_000_000_000, "the local disks are larger");
    assert_eq!(storage("80Gi").unwrap().0.0, 80 * gib);
    assert_eq!(
        storage("lots").unwrap_err().to_string(),
        "NodeClass default: spec.ephemeralStorage.size is \"lots\": ".to_owned()
            + &"lots".parse::<aerostat_api::Quantity>().unwrap_err().to_string()
    );
}

#[tokio::test(start_paused = true)]
async fn requirements_and_requests_decide() {
    let (cloud, _server) = world();
    let one_of =
        |key: &str, values: &[&str]| json!([{"key": key, "operator": "In", "values": values}]);
    let cases = [
        // c5a is not sold in zone d.
        (one_of(labels::ZONE, &["ap-northeast-1d"]), json!({}), "c6a.large"),
        (json!([]), json!({"cpu": "1930m", "memory": "3114Mi"}), "c5a.large"),
        (json!([]), json!({"cpu": "1931m"}), "c5a.xlarge"),
        (json!([]), json!({"memory": "6Gi"}), "m6a.large"),
        (
            json!([{"key": "eks.amazonaws.com/instance-generation", "operator": "Gt", "values": ["6"]}]),
            json!({}),
            "c7i-flex.large",
        ),
        // Most types have no local disk, and so not the label.
        (
            json!([{"key": "eks.amazonaws.com/instance-local-nvme", "operator": "Exists"}]),
            json!({}),
            "c6id.large",
        ),
        // Labels that come with the claim are no matter of types.
        (one_of("team", &["red"]), json!({}), "c5a.large"),
    ];
    for (index, (requirements, requests, expected)) in cases.into_iter().enumerate() {
        let claim = claim(&format!("u{index}"), requirements, requests);
        assert_eq!(choice(&order(&cloud, &claim).await.unwrap())[0], expected, "case {index}");
    }
    let gpu = claim("u8", json!([]), json!({"nvidia.com/gpu": "1"}));
    assert_eq!(
        order(&cloud, &gpu).await.unwrap_err(),
        ProviderError::InsufficientCapacity(
            "no offering meets the claim's requirements and carries its requests".to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn spot_is_taken_where_it_is_allowed() {
    let (cloud, _server) = world();
    let mut claim = plain("u1");
    claim.spec.requirements[0].values.push("spot".to_owned());
    let instance = order(&cloud, &claim).await.unwrap();
    assert_eq!(choice(&instance)[2], "spot");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_served_says_why() {
    let (cloud, _server) = world();
    let mut reference = builtin::general_purpose().spec.template.spec.node_class_ref;
    reference.kind = "EC2NodeClass".to_owned();
    assert_eq!(
        cloud.instance_types(&reference, None).unwrap_err().to_string(),
        "nodeClassRef is EC2NodeClass in group eks.amazonaws.com; \
         the simulated provider knows NodeClass in group eks.amazonaws.com"
    );
    let mut claim = plain("u1");
    claim.spec.requirements[1].operator = "Like".to_owned();
    let error = order(&cloud, &claim).await.unwrap_err().to_string();
    assert!(error.starts_with("spec.requirements[1]: unknown operator \"Like\""), "{error}");
    claim.metadata.uid = None;
    let error = order(&cloud, &claim).await.unwrap_err().to_string();
    assert_eq!(error, "the claim has no UID: create it first");
}

mod kwok {
    use super::*;

    fn class(spec: Value) -> Class {
        let class = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
            "metadata": {"name": "default"}, "spec": spec,
        });
        serde_json::from_value(class).unwrap()
    }

    fn claim() -> NodeClaim {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": "pool-x7k2p", "uid": "u", "labels": {"team": "red"}},
            "spec": {
                "requirements": [
                    {"key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["32"]},
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "rack", "operator": "In", "values": ["r1"]},
                ],
                "resources": {"requests": {"cpu": "3"}},
                "nodeClassRef": {
                    "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default",
                },
                "taints": [{"key": "dedicated", "value": "ci", "effect": "NoSchedule"}],
            },
        });
        serde_json::from_value(claim).unwrap()
    }

    fn cloud(server: &Server) -> SimCloud {
        let region = Catalog::kwok(None).unwrap().region("test-zone").unwrap();
        assert_eq!(region.types.len(), 144);
        let (seeds, none) = (Seeds::new(7), Timings::none());
        SimCloud::new(region, server.clock, seeds, none, Stock::default(), server.client())
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_there_after_the_delay_of_its_class() {
        let server = Server::new(Clock::simulated(START));
        let (cloud, claim) = (cloud(&server), claim());
        let class = class(json!({"nodeRegistrationDelay": "1m30s"}));
        let types = cloud.instance_types(&claim.spec.node_class_ref, Some(&class)).unwrap();
        let instance = cloud.create(&claim, Some(&class), &types).await.unwrap();
        assert_eq!(instance.labels["node.kubernetes.io/instance-type"], "c-4x-amd64-linux");
        assert_eq!(instance.labels["karpenter.kwok.sh/instance-cpu"], "4");
        assert_eq!(instance.labels["karpenter.kwok.sh/instance-memory"], "8Gi");
        assert_eq!(instance.allocatable["cpu"].to_string(), "3900m");
        assert!(instance.provider_id.starts_with("kwok://kwok-pool-x7k2p-"));
        assert_eq!((instance.image_id, instance.annotations.len()), (None, 0));
        server.clock.sleep(Duration::from_secs(89)).await;
        assert!(server.asked.lock().unwrap().is_empty());
        server.clock.sleep(Duration::from_secs(2)).await;
        let node = server.body(0);
        let metadata = &node["metadata"];
        assert_eq!(metadata["name"], instance.provider_id["kwok://".len()..]);
        assert_eq!(metadata["annotations"]["kwok.x-k8s.io/node"], "fake");
        assert_eq!(metadata["labels"]["team"], "red");
        assert_eq!(metadata["labels"]["rack"], "r1");
        assert_eq!(metadata["labels"]["topology.kubernetes.io/zone"], "test-zone-a");
        let taints = &node["spec"]["taints"];
        assert_eq!(taints, &json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_ends_at_once_and_a_bad_delay_is_named() {
        let server = Server::new(Clock::simulated(START));
        let (cloud, claim) = (cloud(&server), claim());
        let types = cloud.instance_types(&claim.spec.node_class_ref, None).unwrap();
        let bad = class(json!({"nodeRegistrationDelay": "soon"}));
        let error = cloud.create(&claim, Some(&bad), &types).await.unwrap_err().to_string();
        assert!(error.contains("spec.nodeRegistrationDelay of the class: \"soon\""), "{error}");
        let instance = cloud.create(&claim, None, &types).await.unwrap();
        let ended = cloud.delete(&instance.provider_id).await;
        assert!(matches!(ended, Err(ProviderError::NotFound(_))), "{ended:?}");
        assert!(cloud.list().await.unwrap().is_empty());
    }
}
