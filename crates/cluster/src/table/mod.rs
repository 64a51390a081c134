//! Tables: what kubectl prints of a list of objects.
//!
//! Columns and cell texts follow Kubernetes v1.36, `pkg/printers/internalversion/printers.go`, and
//! for custom kinds apiextensions-apiserver `pkg/registry/customresource/tableconvertor`. Rows hold
//! the cells of wide columns too; kubectl leaves them out by the columns' priority.
//!
//! | module | kinds |
//! |---|---|
//! | `pod` | Pod |
//! | `workload` | what makes pods, and PodDisruptionBudget |
//! | `autoscaling` | HorizontalPodAutoscaler, Scale |
//! | `cluster` | Node, Namespace, Event, configuration, classes, roles |
//! | `network` | Service, Ingress, Endpoints, … |
//! | `storage` | volumes, claims, classes, drivers |
//! | `custom` | kinds of CustomResourceDefinitions; their values are found by `json_path` |
//!
//! `age` and `selector` write durations, labels and selectors.

mod age;
mod autoscaling;
mod cluster;
mod custom;
pub(crate) mod json_path;
mod network;
mod pod;
mod selector;
mod storage;
#[cfg(test)]
mod tests;
mod workload;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::kinds::Kind;

/// A column as a `meta.k8s.io/v1` `Table` defines it; serializes to that definition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Header: `Ready`.
    pub name: String,
    /// OpenAPI type: `string`, `integer`, `boolean`, `number`, `date`.
    #[serde(rename = "type")]
    pub type_: String,
    /// OpenAPI format; `name` for the column that names the object.
    pub format: String,
    /// What it tells.
    pub description: String,
    /// 0 is always shown, 1 and above only with `-o wide`.
    pub priority: i32,
}

/// Name, type, priority, description.
type Definition = (&'static str, &'static str, i32, &'static str);

/// How the table of a built-in kind is made.
struct Printer {
    columns: &'static [Definition],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const NAME: Definition = ("Name", "string", 0, "Name of the object.");
const AGE: Definition = ("Age", "string", 0, "Time since its creation.");
const CONTAINERS: Definition = ("Containers", "string", 1, "Names of the template's containers.");
const IMAGES: Definition = ("Images", "string", 1, "Images of the template's containers.");

/// For kinds without a printer of their own.
const PLAIN: Printer = Printer {
    columns: &[NAME, ("Created At", "date", 0, "Time of its creation.")],
    cells: |object, _| {
        let metadata = &object["metadata"];
        vec![metadata["name"].clone(), metadata["creationTimestamp"].clone()]
    },
};

fn printer(kind: &Kind) -> Printer {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod::POD,
        ("", "PodTemplate") => workload::POD_TEMPLATE,
        ("", "ReplicationController") => workload::REPLICATION_CONTROLLER,
        ("apps", "ReplicaSet") => workload::REPLICA_SET,
        ("apps", "Deployment") => workload::DEPLOYMENT,
        ("apps", "StatefulSet") => workload::STATEFUL_SET,
        ("apps", "DaemonSet") => workload::DAEMON_SET,
        ("apps", "ControllerRevision") => workload::CONTROLLER_REVISION,
        ("batch", "Job") => workload::JOB,
        ("batch", "CronJob") => workload::CRON_JOB,
        ("policy", "PodDisruptionBudget") => workload::POD_DISRUPTION_BUDGET,
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::AUTOSCALER,
        ("autoscaling", "Scale") => autoscaling::SCALE,
        ("", "Node") => cluster::NODE,
        ("", "Namespace") => cluster::NAMESPACE,
        ("" | "events.k8s.io", "Event") => cluster::EVENT,
        ("", "ConfigMap") => cluster::CONFIG_MAP,
        ("", "Secret") => cluster::SECRET,
        ("", "ServiceAccount") => cluster::SERVICE_ACCOUNT,
        ("", "ResourceQuota") => cluster::RESOURCE_QUOTA,
        ("coordination.k8s.io", "Lease") => cluster::LEASE,
        ("node.k8s.io", "RuntimeClass") => cluster::RUNTIME_CLASS,
        ("scheduling.k8s.io", "PriorityClass") => cluster::PRIORITY_CLASS,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            cluster::ROLE_BINDING
        }
        ("", "Service") => network::SERVICE,
        ("", "Endpoints") => network::ENDPOINTS,
        ("discovery.k8s.io", "EndpointSlice") => network::ENDPOINT_SLICE,
        ("networking.k8s.io", "Ingress") => network::INGRESS,
        ("networking.k8s.io", "IngressClass") => network::INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => network::NETWORK_POLICY,
        ("", "PersistentVolume") => storage::VOLUME,
        ("", "PersistentVolumeClaim") => storage::CLAIM,
        ("storage.k8s.io", "StorageClass") => storage::CLASS,
        ("storage.k8s.io", "CSINode") => storage::CSI_NODE,
        ("storage.k8s.io", "CSIDriver") => storage::CSI_DRIVER,
        ("storage.k8s.io", "VolumeAttachment") => storage::ATTACHMENT,
        _ => PLAIN,
    }
}

/// The columns of a kind's table.
#[must_use]
pub fn columns(kind: &Kind) -> Vec<Column> {
    if let Some(custom) = &kind.custom {
        return custom::columns(custom);
    }
    printer(kind)
        .columns
        .iter()
        .map(|&(name, type_, priority, description)| Column {
            name: name.into(),
            type_: type_.into(),
            format: if name == "Name" { "name" } else { "" }.into(),
            description: description.into(),
            priority,
        })
        .collect()
}

/// The cells of one object, one for each of [`columns`], wide ones included.
#[must_use]
pub fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    match &kind.custom {
        Some(custom) => custom::cells(custom, object, now),
        None => (printer(kind).cells)(object, now),
    }
}

/// What a table says of the whole row: pods that have ended are `Completed`.
#[must_use]
pub fn conditions(kind: &Kind, object: &Value) -> Option<Value> {
    if !kind.group.is_empty() || kind.kind != "Pod" {
        return None;
    }
    let (reason, message) = match object["status"]["phase"].as_str()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    let condition =
        json!({"type": "Completed", "status": "True", "reason": reason, "message": message});
    Some(json!([condition]))
}

/// The text in a field; `instead` if it is absent or empty.
fn text<'a>(value: &'a Value, instead: &'a str) -> &'a str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(instead)
}

/// The number in a field; zero if it is absent.
fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// The list in a field; empty if it is absent.
fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"], "").into()
}

/// The first `max` texts, and how many more there are: `a,b,c + 2 more...`.
fn some_of(all: &[String], max: usize, separator: &str) -> String {
    if all.len() > max {
        format!("{} + {} more...", all[..max].join(separator), all.len() - max)
    } else {
        all.join(separator)
    }
}
