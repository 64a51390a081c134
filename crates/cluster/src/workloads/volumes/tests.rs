use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::run;
use crate::Cluster;
use crate::registry::DeleteOptions;
use crate::workloads::fixtures::{bind, cluster, create, field, pass};

fn started() -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    let labels = json!({"topology.kubernetes.io/zone": "b"});
    create(&cluster, "", "nodes", json!({"metadata": {"name": "n", "labels": labels}}));
    cluster
}

fn class(cluster: &Cluster, name: &str, provisioner: &str, mode: &str) {
    create(
        cluster,
        "storage.k8s.io",
        "storageclasses",
        json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}),
    );
}

fn claim(cluster: &Cluster, name: &str, class: Option<&str>) {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1500Mi"}}});
    spec["storageClassName"] = class.map_or(Value::Null, Value::from);
    create(
        cluster,
        "",
        "persistentvolumeclaims",
        json!({"metadata": {"name": name}, "spec": spec}),
    );
}

fn pod(cluster: &Cluster, name: &str, claim: &str) {
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    let containers = json!([{"name": "c", "image": "nginx"}]);
    create(
        cluster,
        "",
        "pods",
        json!({"metadata": {"name": name}, "spec": {"containers": containers, "volumes": volumes}}),
    );
}

fn said(cluster: &Cluster, claim: &str) -> Vec<String> {
    let mut events = cluster.list::<Event>("default");
    events.retain(|event| event.involved_object.name.as_deref() == Some(claim));
    events.sort_by_key(|event| event.metadata.name.clone());
    let text = |event: &Event| {
        let of = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{}: {}", of(&event.reason), of(&event.message))
    };
    let mut said: Vec<String> = events.iter().map(|event| text(event)).collect();
    said.sort();
    said
}

const CLAIM: (&str, &str, &str) = ("", "persistentvolumeclaims", "c");

#[tokio::test(start_paused = true)]
async fn an_immediate_claim_gets_a_volume_at_once_and_takes_it_along() {
    let cluster = started();
    class(&cluster, "now", "ebs.csi.aws.com", "Immediate");
    claim(&cluster, "c", Some("now"));
    pass(&cluster, 1).await;
    assert_eq!(field(&cluster, CLAIM, "/status/phase"), "Pending");
    pass(&cluster, 2).await;
    assert_eq!(field(&cluster, CLAIM, "/status/phase"), "Bound");
    assert_eq!(field(&cluster, CLAIM, "/status/capacity/storage"), "2Gi");
    let name = field(&cluster, CLAIM, "/spec/volumeName");
    let volume = cluster.get::<PersistentVolume>("", name.as_str().unwrap()).unwrap();
    let spec = volume.spec.clone().unwrap();
    let affinity = serde_json::to_value(spec.node_affinity.unwrap()).unwrap();
    assert_eq!(
        affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"][0],
        json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]})
    );
    assert_eq!(spec.csi.unwrap().driver, "ebs.csi.aws.com");
    assert_eq!(volume.status.clone().unwrap().phase.as_deref(), Some("Bound"));
    let told = said(&cluster, "c");
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("ExternalProvisioning: Waiting for a volume to be created"));
    assert_eq!(
        told[1],
        "Provisioning: External provisioner is provisioning volume for claim \"default/c\""
    );
    assert!(told[2].starts_with("ProvisioningSucceeded: Successfully provisioned volume pvc-"));

    // A claim in use stays until its pod is gone; then its volume goes too.
    pod(&cluster, "p", "c");
    bind(&cluster, "p", "n");
    cluster.delete::<PersistentVolumeClaim>("default", "c", &DeleteOptions::default()).unwrap();
    pass(&cluster, 1).await;
    assert!(cluster.get::<PersistentVolumeClaim>("default", "c").is_some());
    let at_once = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
    cluster.delete::<Pod>("default", "p", &at_once).unwrap();
    pass(&cluster, 1).await;
    assert!(cluster.get::<PersistentVolumeClaim>("default", "c").is_none());
    assert_eq!(cluster.list::<PersistentVolume>("").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_says_for_what() {
    let cluster = started();
    class(&cluster, "later", "ebs.csi.eks.amazonaws.com", "WaitForFirstConsumer");
    class(&cluster, "foreign", "csi.example", "Immediate");
    claim(&cluster, "c", Some("later"));
    claim(&cluster, "d", Some("foreign"));
    claim(&cluster, "e", None);
    claim(&cluster, "f", Some("missing"));
    pass(&cluster, 60).await;
    let waits = "WaitForFirstConsumer: waiting for first consumer to be created before binding";
    assert_eq!(said(&cluster, "c"), [waits]);
    let told = said(&cluster, "d");
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("external provisioner 'csi.example'"), "{told:?}");
    assert_eq!(
        said(&cluster, "e"),
        [
            "FailedBinding: no persistent volumes available for this claim and no storage class is set"
        ]
    );
    assert_eq!(
        said(&cluster, "f"),
        ["ProvisioningFailed: storageclass.storage.k8s.io \"missing\" not found"]
    );
    pod(&cluster, "p", "c");
    pass(&cluster, 1).await;
    assert_eq!(said(&cluster, "c").len(), 2);
    assert_eq!(said(&cluster, "c")[1], "WaitForPodScheduled: waiting for pod p to be scheduled");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_kept_outlives_its_claim() {
    let cluster = started();
    let spec = json!({"storageClassName": "", "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "5Gi"}, "hostPath": {"path": "/x"}});
    create(&cluster, "", "persistentvolumes", json!({"metadata": {"name": "v"}, "spec": spec}));
    pass(&cluster, 1).await;
    let volume = ("", "persistentvolumes", "v");
    let phase = |cluster: &Cluster| {
        let volume = cluster.get::<PersistentVolume>("", volume.2).unwrap();
        volume.status.clone().unwrap().phase.unwrap()
    };
    assert_eq!(phase(&cluster), "Available");
    claim(&cluster, "c", Some(""));
    pass(&cluster, 1).await;
    assert_eq!(phase(&cluster), "Bound");
    assert_eq!(field(&cluster, CLAIM, "/spec/volumeName"), "v");
    cluster.delete::<PersistentVolumeClaim>("default", "c", &DeleteOptions::default()).unwrap();
    pass(&cluster, 1).await;
    assert_eq!(phase(&cluster), "Released");
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_volume_gets_a_claim_of_its_pod() {
    let cluster = started();
    class(&cluster, "now", "ebs.csi.aws.com", "Immediate");
    let template = json!({"spec": {"storageClassName": "now", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let volumes = json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]);
    let containers = json!([{"name": "c", "image": "nginx"}]);
    create(
        &cluster,
        "",
        "pods",
        json!({"metadata": {"name": "p"}, "spec": {"containers": containers, "volumes": volumes}}),
    );
    pass(&cluster, 5).await;
    let claim = cluster.get::<PersistentVolumeClaim>("default", "p-v").unwrap();
    let owner = &claim.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Pod", "p"));
    assert_eq!(claim.status.as_ref().unwrap().phase.as_deref(), Some("Bound"));
}
