//! How many pods their controllers want.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};

use crate::registry::Cluster;
use crate::workloads::owner::{controller_of, uid};

/// The sum of what the controllers of `pods` want, and whether some pods have none.
///
/// # Errors
///
/// If a pod's controller has no scale.
pub(super) fn expected(cluster: &Cluster, pods: &[Arc<Pod>]) -> Result<(i32, bool), String> {
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    let mut seen: BTreeMap<String, ()> = BTreeMap::new();
    let mut unmanaged = false;
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata) else {
            unmanaged = true;
            continue;
        };
        if seen.insert(owner.uid.clone(), ()).is_some() {
            continue;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let (uid, scale) = scale(cluster, namespace, owner)
            .ok_or_else(|| format!("found no controllers for pod {name:?}"))?;
        scales.insert(uid, scale);
    }
    Ok((scales.values().sum(), unmanaged))
}

/// UID and scale of the controller; a ReplicaSet's is its Deployment's.
fn scale(cluster: &Cluster, namespace: &str, owner: &OwnerReference) -> Option<(String, i32)> {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let name = owner.name.as_str();
    let found = |uid: Option<&String>, replicas: Option<i32>| {
        (uid == Some(&owner.uid)).then(|| (owner.uid.clone(), replicas.unwrap_or(1)))
    };
    match (group, owner.kind.as_str()) {
        ("apps", "ReplicaSet") => {
            let set = cluster.get::<ReplicaSet>(namespace, name)?;
            let parent = controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment");
            let Some(parent) = parent else {
                return found(set.metadata.uid.as_ref(), set.spec.as_ref()?.replicas);
            };
            let deployment = cluster.get::<Deployment>(namespace, &parent.name)?;
            (uid(&deployment.metadata) == parent.uid)
                .then(|| (parent.uid.clone(), replicas(&deployment)))
        }
        ("apps", "StatefulSet") => {
            let set = cluster.get::<StatefulSet>(namespace, name)?;
            found(set.metadata.uid.as_ref(), set.spec.as_ref()?.replicas)
        }
        ("", "ReplicationController") => {
            let controller = cluster.get::<ReplicationController>(namespace, name)?;
            found(controller.metadata.uid.as_ref(), controller.spec.as_ref()?.replicas)
        }
        _ => custom(cluster, namespace, group, owner),
    }
}

fn replicas(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Custom resources say where their scale is.
fn custom(
    cluster: &Cluster,
    namespace: &str,
    group: &str,
    owner: &OwnerReference,
) -> Option<(String, i32)> {
    let kinds = cluster.kinds();
    let kind = kinds.iter().find(|kind| kind.group == group && kind.kind == owner.kind)?;
    let paths = kind.custom.as_ref()?.scale.as_ref()?;
    let namespace = if kind.namespaced { namespace } else { "" };
    let object = cluster.get_object(kind, namespace, &owner.name).ok()?;
    let replicas = object.value.pointer(&paths.spec_replicas.replace('.', "/"))?.as_i64()?;
    (object.uid() == owner.uid).then(|| (owner.uid.clone(), i32::try_from(replicas).unwrap_or(0)))
}

/// A selector as Go prints it in this message.
pub(super) fn go_format(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".into() };
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions = selector.match_expressions.iter().flatten();
    let expressions: String = expressions
        .map(|expression| {
            let values = expression.values.clone().unwrap_or_default().join(" ");
            let (key, operator) = (&expression.key, &expression.operator);
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
