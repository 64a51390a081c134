use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Claim, Class, Storage, Unresolved, Volume, attach_limits};
use crate::pod::Pod;

fn typed<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn pod(volumes: Value) -> Pod {
    let pod: core::Pod = typed(json!({
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"containers": [], "volumes": volumes},
    }));
    Pod::from_k8s(&pod).unwrap()
}

fn using(claim: &str) -> Pod {
    pod(json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]))
}

fn claim(spec: Value) -> Claim {
    Claim::from_k8s(&typed(json!({"metadata": {"name": "c"}, "spec": spec}))).unwrap()
}

fn storage(claim: Claim) -> Storage {
    let class = json!({"metadata": {"name": "fast"}, "provisioner": "csi.example",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions":
            [{"key": "topology.ebs.csi.aws.com/zone", "values": ["a", "b"]}]}]});
    Storage {
        claims: BTreeMap::from([(("d".to_owned(), "c".to_owned()), claim)]),
        classes: BTreeMap::from([("fast".to_owned(), Class::from_k8s(&typed(class)))]),
        ..Storage::default()
    }
}

fn disk(size: &str, zone: &str) -> Volume {
    let terms =
        json!([{"matchExpressions": [{"key": "disk", "operator": "In", "values": [zone]}]}]);
    let volume = json!({
        "metadata": {"name": "v"},
        "spec": {"storageClassName": "fast", "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
    });
    Volume::from_k8s(&typed(volume)).unwrap()
}

#[test]
fn a_class_says_where_volumes_can_be_by_the_zone_label_of_nodes() {
    let asked = json!({"storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}});
    let mut storage = storage(claim(asked));
    let volumes = storage.resolve(&using("c")).unwrap();
    assert!(volumes.bound.is_empty());
    let expression = &volumes.unbound[0][0].match_expressions.as_ref().unwrap()[0];
    assert_eq!(expression.key, "topology.kubernetes.io/zone");
    assert_eq!(volumes.attached, BTreeMap::from([("csi.example".to_owned(), 1)]));

    // A volume that is there and large enough may be had as well.
    storage.volumes.insert("small".to_owned(), disk("512Mi", "x"));
    assert_eq!(storage.resolve(&using("c")).unwrap(), volumes);
    storage.volumes.insert("large".to_owned(), disk("2Gi", "y"));
    assert_eq!(storage.resolve(&using("c")).unwrap().unbound[0].len(), 2);
}

#[test]
fn the_smallest_volume_that_suits_is_bound() {
    let asked = json!({"storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}});
    let mut storage = storage(claim(asked));
    for (name, size) in [("a", "3Gi"), ("b", "2Gi"), ("c", "1Mi"), ("d", "2Gi")] {
        storage.volumes.insert(name.to_owned(), disk(size, "z"));
    }
    let key = ("d".to_owned(), "c".to_owned());
    let names = |storage: &Storage| -> Vec<String> {
        let claim = &storage.claims[&key];
        storage.suitable(&key, claim).map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(names(&storage), ["b", "d", "a"]);
    // One that is kept for the claim goes first, one that is kept for another is out.
    storage.volumes.get_mut("a").unwrap().claim = Some(key.clone());
    storage.volumes.get_mut("b").unwrap().claim = Some(("d".to_owned(), "other".to_owned()));
    assert_eq!(names(&storage), ["a", "d"]);
}

#[test]
fn an_ephemeral_volume_is_nobody_elses_claim() {
    let volumes = json!([{"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]);
    let pod = pod(volumes);
    let mut storage = storage(claim(json!({"storageClassName": "fast"})));
    assert_eq!(storage.resolve(&pod), Err(Unresolved::NotMade("p-c".to_owned())));
    let made = storage.claims.values().next().unwrap().clone();
    storage.claims.insert(("d".to_owned(), "p-c".to_owned()), made.clone());
    assert_eq!(storage.resolve(&pod), Err(Unresolved::Foreign("p-c".to_owned())));
    let own = Claim { owner: Some("u".to_owned()), ..made };
    storage.claims.insert(("d".to_owned(), "p-c".to_owned()), own);
    assert!(storage.resolve(&pod).is_ok());
}

#[test]
fn only_drivers_with_a_count_have_a_limit() {
    let node = json!({"metadata": {"name": "n"}, "spec": {"drivers": [
        {"name": "a", "nodeID": "i", "allocatable": {"count": 25}}, {"name": "b", "nodeID": "i"}]}});
    assert_eq!(attach_limits(&typed(node)), BTreeMap::from([("a".to_owned(), 25)]));
}

#[test]
fn a_size_that_cannot_be_read_is_named() {
    let claim = json!({"metadata": {"name": "c"},
        "spec": {"resources": {"requests": {"storage": "1Gb!"}}}});
    let error = Claim::from_k8s(&typed(claim)).unwrap_err();
    assert!(error.starts_with("spec.resources.requests.storage: "), "{error}");
}
