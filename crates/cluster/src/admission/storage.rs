//! DefaultStorageClass and StorageObjectInUseProtection.

use serde_json::Value;

use super::{list, list_mut};
use crate::registry::Cluster;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// A claim that names no class gets the default one, if there is any: the newest, then by name.
pub(super) fn default_class(cluster: &Cluster, claim: &mut Value) {
    if !claim["spec"]["storageClassName"].is_null()
        || !claim["metadata"]["annotations"][CLASS_ANNOTATION].is_null()
        || !claim["spec"].is_object()
    {
        return;
    }
    let resource = ("storage.k8s.io".to_owned(), "storageclasses".to_owned());
    let (classes, _) = cluster.store().list(&resource, "");
    let default = classes
        .iter()
        .filter(|class| {
            let annotations = &class.value["metadata"]["annotations"];
            DEFAULT_ANNOTATIONS.iter().any(|key| annotations[*key] == "true")
        })
        .max_by_key(|class| {
            let born = class.value["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
            (born.to_owned(), std::cmp::Reverse(class.name().to_owned()))
        });
    if let Some(class) = default {
        claim["spec"]["storageClassName"] = class.name().into();
    }
}

/// Keeps a volume or claim from vanishing while it is used.
pub(super) fn protect(value: &mut Value, finalizer: &str) {
    if !list(&value["metadata"], "finalizers").iter().any(|given| given == finalizer) {
        list_mut(&mut value["metadata"], "finalizers").push(finalizer.into());
    }
}
