//! What Kubernetes fills in where an object is silent.
//!
//! The values are those of Kubernetes v1.36, `pkg/apis/*/v1/defaults.go` and the generated
//! `zz_generated.defaults.go` beside them. Applying them twice changes nothing.
//!
//! | module | kinds |
//! |---|---|
//! | `pod` | pods, and the pod templates in everything else |
//! | `container` | containers, their ports, probes and environment |
//! | `volume` | the volumes of pods |
//! | `workload` | what makes pods: Deployment, Job, … |
//! | `network` | Service, Endpoints, NetworkPolicy, … |
//! | `storage` | claims, volumes, classes |
//! | `autoscaling` | HorizontalPodAutoscaler |
//! | `policy` | admission policies and their bindings |
//! | `cluster` | Namespace, Secret, LimitRange, PriorityClass, RBAC |

mod autoscaling;
mod cluster;
mod container;
mod network;
mod pod;
mod policy;
mod storage;
#[cfg(test)]
mod tests;
mod volume;
mod workload;

use aerostat_api::Quantity;
use serde_json::{Map, Value};

use crate::kinds::Kind;

/// Fills in the defaults of a built-in kind; runs on create and on every update.
pub fn apply(kind: &Kind, value: &mut Value) {
    if kind.custom.is_some() {
        return;
    }
    let Some(object) = value.as_object_mut() else { return };
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(object),
        ("", "ReplicationController") => workload::replication_controller(object),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("batch", "Job") => workload::job(object),
        ("batch", "CronJob") => workload::cron_job(object),
        ("", "Service") => network::service(object),
        ("", "Endpoints") => network::endpoints(object),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(object),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(object),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(object),
        ("", "PersistentVolumeClaim") => storage::claim(object),
        ("", "PersistentVolume") => storage::volume(object),
        ("storage.k8s.io", "StorageClass") => storage::class(object),
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::autoscaler(object),
        ("", "Namespace") => cluster::namespace(object),
        ("", "Node") => cluster::node(object),
        ("", "Secret") => cluster::secret(object),
        ("", "LimitRange") => cluster::limit_range(object),
        ("", "ResourceQuota") => cluster::resource_quota(object),
        ("node.k8s.io", "RuntimeClass") => cluster::runtime_class(object),
        ("scheduling.k8s.io", "PriorityClass") => cluster::priority_class(object),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => policy::policy(object),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            policy::binding(object);
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            cluster::role_binding(object);
        }
        _ => {}
    }
}

/// Sets a field that is absent, null or the empty text.
fn default(object: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    if is_unset(object.get(field)) {
        object.insert(field.to_owned(), value.into());
    }
}

/// As [`default`] for numbers that are no pointers in Kubernetes: there zero is unset too.
fn default_nonzero(object: &mut Map<String, Value>, field: &str, value: i64) {
    if is_unset(object.get(field)) || object[field] == 0 {
        object.insert(field.to_owned(), value.into());
    }
}

fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// The object in `field`, made if it is absent or null; `None` if something else is there.
fn entry<'a>(
    object: &'a mut Map<String, Value>,
    field: &str,
) -> Option<&'a mut Map<String, Value>> {
    if object.get(field).is_none_or(Value::is_null) {
        object.insert(field.to_owned(), Value::Object(Map::new()));
    }
    object.get_mut(field)?.as_object_mut()
}

/// The object in `field`, if there is one.
fn member<'a>(
    object: &'a mut Map<String, Value>,
    field: &str,
) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(field)?.as_object_mut()
}

/// The objects in the list `field`; none if it is absent or no list.
fn items<'a>(
    object: &'a mut Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = object.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Writes the quantities of the map in `field` canonically, rounded up to thousandths. What is no
/// quantity stays for validation to refuse.
fn quantities(object: &mut Map<String, Value>, field: &str) {
    for amount in member(object, field).into_iter().flat_map(Map::values_mut) {
        canonical(amount);
        if amount.as_str().is_some_and(|text| text.ends_with(['n', 'u']))
            && let Some(Ok(fine)) = amount.as_str().map(str::parse::<Quantity>)
        {
            *amount = Quantity::from_milli(fine.milli()).to_string().into();
        }
    }
}

/// Writes the quantity in `field` canonically.
fn quantity(object: &mut Map<String, Value>, field: &str) {
    if let Some(amount) = object.get_mut(field) {
        canonical(amount);
    }
}

fn canonical(amount: &mut Value) {
    let parsed = match amount {
        Value::String(text) => text.parse::<Quantity>(),
        Value::Number(number) => number.to_string().parse(),
        _ => return,
    };
    if let Ok(parsed) = parsed {
        let text = parsed.to_string();
        if amount.as_str() != Some(&text) {
            *amount = text.into();
        }
    }
}
