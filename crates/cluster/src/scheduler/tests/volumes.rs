use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde_json::{Value, json};

use super::World;

const NOT_FOUND: &str = "not found";

fn class(world: &World, name: &str, provisioner: &str, mode: &str) {
    let class = json!({"metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": mode, "reclaimPolicy": "Delete"});
    world.create::<StorageClass>("", class);
}

fn claim(world: &World, name: &str, class: &str) {
    let spec = json!({"storageClassName": class, "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}});
    world.create::<PersistentVolumeClaim>(
        "default",
        json!({"metadata": {"name": name}, "spec": spec}),
    );
}

fn volume(world: &World, name: &str, zone: &str) {
    let terms = json!([{"matchExpressions":
        [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]);
    let spec = json!({"storageClassName": "by-hand", "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Gi"}, "hostPath": {"path": "/x", "type": ""},
        "volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain",
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}});
    world.create::<PersistentVolume>("", json!({"metadata": {"name": name}, "spec": spec}));
}

fn using(claims: &[&str]) -> Value {
    let volume = |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    json!({"cpu": "100m", "volumes": claims.iter().map(volume).collect::<Vec<_>>()})
}

/// A cluster in which claims are bound too, with a node in each of two zones.
fn world() -> World {
    let world = World::new();
    tokio::spawn(crate::workloads::volumes::run(world.cluster.clone()));
    for zone in ["a", "b"] {
        let labels = json!({"topology.kubernetes.io/zone": zone});
        let room = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
        world.node(&format!("n-{zone}"), labels, json!({}), room);
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_claims() {
    let world = world();
    class(&world, "elsewhere", "csi.example", "Immediate");
    claim(&world, "unbound", "elsewhere");
    world.pod("p", using(&["unbound"]));
    world.pod("q", using(&["missing"]));
    world.settle().await;
    let whole = |why: &str| format!("0/2 nodes are available: {why}. {NOT_FOUND}");
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    assert_eq!(world.message("p"), whole(unbound));
    assert_eq!(world.message("q"), whole("persistentvolumeclaim \"missing\" not found"));

    // Once there is a claim, the pod is looked at again.
    class(&world, "waits", "ebs.csi.aws.com", "WaitForFirstConsumer");
    claim(&world, "missing", "waits");
    world.wait(std::time::Duration::from_secs(10)).await;
    assert!(world.node_of("q").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_where_the_pod_goes_and_later_pods_follow_it() {
    let world = world();
    class(&world, "waits", "ebs.csi.eks.amazonaws.com", "WaitForFirstConsumer");
    claim(&world, "data", "waits");
    let mut first = using(&["data"]);
    first["nodeSelector"] = json!({"topology.kubernetes.io/zone": "b"});
    world.pod("first", first);
    world.settle().await;
    // It keeps its room, but is not bound before its volume is there.
    assert_eq!(world.node_of("first"), None);
    world.wait(std::time::Duration::from_secs(5)).await;
    assert_eq!(world.node_of("first").as_deref(), Some("n-b"));
    let claim = world.cluster.get::<PersistentVolumeClaim>("default", "data").unwrap();
    let annotations = claim.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["volume.kubernetes.io/selected-node"], "n-b");
    assert_eq!(claim.status.as_ref().unwrap().phase.as_deref(), Some("Bound"));

    world.pod("second", using(&["data"]));
    let mut torn = using(&["data"]);
    torn["nodeSelector"] = json!({"topology.kubernetes.io/zone": "a"});
    world.pod("torn", torn);
    world.settle().await;
    assert_eq!(world.node_of("second").as_deref(), Some("n-b"));
    assert_eq!(
        world.message("torn"),
        "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 \
         node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, \
         preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_there_is_bound_to_the_claim_of_a_pod_beside_it() {
    let world = world();
    class(&world, "by-hand", "kubernetes.io/no-provisioner", "WaitForFirstConsumer");
    claim(&world, "one", "by-hand");
    claim(&world, "two", "by-hand");
    world.pod("none", using(&["one"]));
    world.settle().await;
    assert!(
        world.message("none").starts_with(
            "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
        ),
        "{}",
        world.message("none")
    );
    volume(&world, "disk", "b");
    world.wait(std::time::Duration::from_secs(10)).await;
    assert_eq!(world.node_of("none").as_deref(), Some("n-b"));
    let disk = world.cluster.get::<PersistentVolume>("", "disk").unwrap();
    assert_eq!(
        disk.spec.as_ref().unwrap().claim_ref.as_ref().unwrap().name.as_deref(),
        Some("one")
    );
    // It is nobody else's any more.
    world.pod("late", using(&["two"]));
    world.settle().await;
    assert_eq!(world.node_of("late"), None);
}

#[tokio::test(start_paused = true)]
async fn a_node_attaches_so_many_volumes() {
    let world = world();
    class(&world, "waits", "ebs.csi.aws.com", "WaitForFirstConsumer");
    for name in ["n-a", "n-b"] {
        let drivers = json!([{"name": "ebs.csi.aws.com", "nodeID": name,
            "allocatable": {"count": 2}}]);
        world.create::<CSINode>(
            "",
            json!({"metadata": {"name": name}, "spec": {"drivers": drivers}}),
        );
    }
    for name in ["1", "2", "3", "4", "5"] {
        claim(&world, name, "waits");
        world.pod(&format!("p-{name}"), using(&[name]));
    }
    world.wait(std::time::Duration::from_secs(10)).await;
    let placed = |node: &str| {
        let pods = ["p-1", "p-2", "p-3", "p-4", "p-5"];
        pods.iter().filter(|pod| world.node_of(pod).as_deref() == Some(node)).count()
    };
    assert_eq!((placed("n-a"), placed("n-b")), (2, 2));
    let left = ["p-1", "p-2", "p-3", "p-4", "p-5"].into_iter().find(|p| world.node_of(p).is_none());
    let message = world.message(left.unwrap());
    assert!(
        message.starts_with("0/2 nodes are available: 2 node(s) exceed max volume count."),
        "{message}"
    );
    // A larger limit lets it in.
    world
        .cluster
        .modify::<CSINode>("", "n-a", |node| {
            node.spec.drivers[0].allocatable.as_mut().unwrap().count = Some(3);
        })
        .unwrap();
    world.wait(std::time::Duration::from_secs(10)).await;
    assert_eq!((placed("n-a"), placed("n-b")), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_never_comes_gives_the_room_back() {
    let world = world();
    class(&world, "slow", "csi.example", "WaitForFirstConsumer");
    claim(&world, "data", "slow");
    world.pod("p", using(&["data"]));
    world.wait(std::time::Duration::from_secs(601)).await;
    assert_eq!(
        world.events("p")[0].1,
        "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded"
    );
}
