//! Pod specs, on pods and in templates.

use super::metadata::{annotations, labels};
use super::place::Place;
use super::{Errors, container, names, resources, scheduling, volume};

/// A new pod.
pub(super) fn create(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    pod(root, errors);
    if !spec.list("ephemeralContainers").is_empty() {
        errors.push(spec.child("ephemeralContainers").forbidden("cannot be set on create"));
    }
    let node = spec.child("nodeName");
    if !node.text().is_empty() && !spec.list("schedulingGates").is_empty() {
        errors.push(node.forbidden("cannot be set until all schedulingGates have been cleared"));
    }
}

/// What holds for a pod whether it is new or changed.
pub(super) fn pod(root: Place, errors: &mut Errors) {
    let at = root.child("spec");
    spec(at, true, errors);
    for field in ["containers", "initContainers"] {
        for container in at.items(field) {
            let image = container.child("image");
            if image.text() != image.text().trim() {
                errors.push(image.invalid("must not have leading or trailing whitespace"));
            }
        }
    }
}

/// The template of a workload.
pub(super) fn template(at: Place, errors: &mut Errors) {
    let metadata = at.child("metadata");
    // The paths lack `metadata`, as they do in Kubernetes.
    labels(at.child("labels").showing(metadata.child("labels").value), errors);
    let at_annotations = at.child("annotations");
    annotations(at_annotations.showing(metadata.child("annotations").value), errors);
    let spec_at = at.child("spec");
    spec(spec_at, false, errors);
    let ephemeral = spec_at.child("ephemeralContainers");
    if !spec_at.list("ephemeralContainers").is_empty() {
        errors.push(ephemeral.forbidden("ephemeral containers not allowed in pod template"));
    }
}

fn spec(at: Place, is_pod: bool, errors: &mut Errors) {
    let volumes = volume::volumes(at, errors);
    container::containers(at, &volumes, errors);
    container::init_containers(at, &volumes, errors);
    pod_resources(at, errors);
    if at.value["hostNetwork"] == true {
        host_ports(at, is_pod, errors);
    }
    at.child("restartPolicy").one_of(&["Always", "OnFailure", "Never"], errors);
    at.child("dnsPolicy")
        .one_of(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], errors);
    labels(at.child("nodeSelector"), errors);
    scheduling::affinity(at.child("affinity"), errors);
    for gate in at.items("readinessGates") {
        let kind = gate.child("conditionType");
        kind.each(names::qualified_name(kind.text()), errors);
    }
    scheduling::gates(at, errors);
    scheduling::spread_constraints(at, errors);
    let optional = |field: &'static str, rule: fn(&str) -> Vec<String>, errors: &mut Errors| {
        let name = at.child(field);
        if !name.text().is_empty() {
            name.each(rule(name.text()), errors);
        }
    };
    optional("serviceAccountName", names::dns_subdomain, errors);
    optional("nodeName", names::dns_subdomain, errors);
    let deadline = at.child("activeDeadlineSeconds");
    if let Some(seconds) = deadline.number() {
        deadline.each(names::in_range(seconds, 1, i64::from(i32::MAX)), errors);
    }
    optional("hostname", names::dns_label, errors);
    optional("subdomain", names::dns_label, errors);
    scheduling::tolerations(at, errors);
    optional("priorityClassName", names::dns_subdomain, errors);
    optional("runtimeClassName", names::dns_subdomain, errors);
    if at.child("preemptionPolicy").is_set() {
        at.child("preemptionPolicy").one_of(&["PreemptLowerPriority", "Never"], errors);
    }
}

/// Requests and limits of the pod as a whole.
fn pod_resources(at: Place, errors: &mut Errors) {
    let own = at.child("resources");
    if !own.is_set() {
        return;
    }
    if !own.list("claims").is_empty() {
        let why = "claims may not be set for Resources at pod-level";
        errors.push(own.child("claims").forbidden(why));
    }
    resources::requirements(own, resources::pod_name, errors);
}

/// In the host's network a container's port is the host's.
fn host_ports(at: Place, is_pod: bool, errors: &mut Errors) {
    for container in at.items("containers") {
        for port in container.items("ports") {
            let host = port.child("hostPort");
            let number = host.number().unwrap_or(0);
            let wrong = Some(number) != port.child("containerPort").number();
            if wrong && (is_pod || number != 0) {
                errors.push(host.invalid("must match `containerPort` when `hostNetwork` is true"));
            }
        }
    }
}
