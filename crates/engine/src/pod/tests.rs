use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

use super::Pod;

const MIB: i64 = 1024 * 1024;

fn read(spec: Value, status: Value) -> Result<Pod, String> {
    let pod: core::Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "p", "namespace": "n", "uid": "u", "creationTimestamp": "2025-01-06T07:51:22Z",
            "annotations": {"karpenter.sh/do-not-disrupt": "true", "other": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "ju",
                                 "controller": true}],
        },
        "spec": spec, "status": status,
    }))
    .unwrap();
    Pod::from_k8s(&pod)
}

fn container(cpu: &str, memory: &str) -> Value {
    json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

fn sidecar(cpu: &str) -> Value {
    json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
}

#[test]
fn requests_are_the_larger_of_starting_and_running_plus_overhead() {
    let spec = json!({
        "containers": [container("500m", "100Mi"), container("250m", "50Mi")],
        "initContainers": [container("100m", "400Mi"), sidecar("200m"), container("900m", "10Mi")],
        "overhead": {"cpu": "10m", "memory": "1Mi"},
    });
    let pod = read(spec, json!({})).unwrap();
    // Running: 750m + sidecar 200m. Starting: sidecar 200m + 900m is more.
    assert_eq!(pod.requests.cpu, 1110);
    assert_eq!(pod.requests.memory, 401 * MIB);
    assert_eq!(pod.requests.pods, 1);
    // A sidecar counts in the running sum.
    let spec = json!({
        "containers": [container("500m", "100Mi")],
        "initContainers": [container("600m", "1Mi"), sidecar("200m")],
    });
    assert_eq!(read(spec, json!({})).unwrap().requests.cpu, 700);
}

#[test]
fn pod_level_requests_override_the_sum() {
    let spec = json!({
        "containers": [container("500m", "100Mi")],
        "resources": {"requests": {"cpu": "2", "vendor.com/gpu": "1"}},
    });
    let pod = read(spec, json!({})).unwrap();
    assert_eq!((pod.requests.cpu, pod.requests.memory), (2000, 100 * MIB));
    assert!(pod.requests.other.is_empty());
}

#[test]
fn a_container_that_is_resized_counts_with_its_largest_size() {
    let spec =
        json!({"containers": [container("500m", "300Mi")], "initContainers": [sidecar("1")]});
    let size = |name: &str, cpu: &str, promised: &str| {
        json!({"name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0,
               "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}},
               "allocatedResources": {"cpu": promised}})
    };
    let status = |pending: Value| {
        json!({"containerStatuses": [size("c", "400m", "700m")],
               "initContainerStatuses": [size("s", "1500m", "1")],
               "conditions": [pending]})
    };
    let pending =
        |reason: &str| json!({"type": "PodResizePending", "status": "True", "reason": reason});
    let pod = read(spec.clone(), status(pending("Deferred"))).unwrap();
    assert_eq!((pod.requests.cpu, pod.requests.memory), (2200, 400 * MIB));
    // What its node can never give does not count.
    let pod = read(spec, status(pending("Infeasible"))).unwrap();
    assert_eq!((pod.requests.cpu, pod.requests.memory), (2200, 200 * MIB));
}

#[test]
fn pod_level_huge_pages_override_and_overhead_comes_on_top() {
    let spec = json!({
        "containers": [{"name": "c", "resources": {
            "requests": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "64Mi"}}}],
        "resources": {"requests": {"memory": "2Gi", "hugepages-2Mi": "128Mi"}},
        "overhead": {"cpu": "250m", "memory": "120Mi"},
    });
    let pod = read(spec, json!({})).unwrap();
    assert_eq!((pod.requests.cpu, pod.requests.memory), (1250, (2048 + 120) * MIB));
    assert_eq!(pod.requests.other["hugepages-2Mi"], 128 * MIB);
}

#[test]
fn scores_count_a_minimum_for_containers_that_say_nothing() {
    let containers = json!([{"name": "a"}, container("0", "10Mi")]);
    let pod = read(json!({"containers": containers}), json!({})).unwrap();
    assert_eq!((pod.requests.cpu, pod.requests.memory), (0, 10 * MIB));
    assert_eq!((pod.scored.cpu, pod.scored.memory), (100, 210 * MIB));
}

#[test]
fn state_and_identity_are_read() {
    let spec = json!({
        "containers": [container("1", "1Mi")], "priority": -10, "preemptionPolicy": "Never",
        "schedulingGates": [{"name": "g"}],
    });
    let status = json!({"phase": "Pending", "nominatedNodeName": "n1", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
         "lastTransitionTime": "2025-01-06T07:51:23Z"}]});
    let pod = read(spec, status).unwrap();
    assert_eq!((pod.namespace.as_str(), pod.name.as_str(), pod.uid.as_str()), ("n", "p", "u"));
    assert_eq!((pod.priority, pod.preempts, pod.gated), (-10, false, true));
    assert_eq!(pod.nominated_node.as_deref(), Some("n1"));
    assert_eq!(pod.unschedulable_since.unwrap().to_string(), "2025-01-06T07:51:23Z");
    assert_eq!(pod.annotations.keys().collect::<Vec<_>>(), ["karpenter.sh/do-not-disrupt"]);
    assert_eq!(pod.owner.unwrap().kind, "Job");
    assert!(!pod.terminal && !pod.deleting && pod.node.is_none() && pod.started.is_none());
}

#[test]
fn what_nothing_judges_is_named() {
    let term = json!([{"topologyKey": "zone"}]);
    let spec = json!({
        "containers": [container("1", "1Mi")],
        "affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 1, "podAffinityTerm": term[0]}]},
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}],
    });
    let pod = read(spec, json!({})).unwrap();
    assert_eq!(pod.unsupported, ["resource claims"]);
}

#[test]
fn volumes_are_claims_of_the_pod_or_its_own() {
    let spec = json!({
        "containers": [container("1", "1Mi")],
        "volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {}}}}},
            {"name": "tmp", "emptyDir": {}},
        ],
    });
    let pod = read(spec, json!({})).unwrap();
    let claims: Vec<_> = pod.claims.iter().map(|c| (c.name.as_str(), c.is_ephemeral)).collect();
    assert_eq!(claims, [("c", false), (&*format!("{}-scratch", pod.name), true)]);
    assert!(pod.unsupported.is_empty());
}

#[test]
fn a_wrong_quantity_is_named_with_its_path() {
    let error = read(json!({"containers": [container("500mm", "1Mi")]}), json!({})).unwrap_err();
    assert!(
        error.starts_with("spec.containers[c].resources.requests: cpu: \"500mm\": "),
        "{error}"
    );
}
