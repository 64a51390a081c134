//! ServiceAccount. Source: `plugin/pkg/admission/serviceaccount/admission.go`.

use serde_json::{Value, json};

use super::{forbidden, list, list_mut};
use crate::kinds::Kind;
use crate::registry::Cluster;
use crate::status::Status;

const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// An hour and a little: tokens are renewed before users of the old ones notice.
const TOKEN_SECONDS: i64 = 3607;
/// `rw-r--r--`
const FILE_MODE: i64 = 0o644;

/// Gives a pod its service account: name, token volume and image pull secrets.
pub(super) fn create(
    cluster: &Cluster,
    kind: &Kind,
    namespace: &str,
    pod: &mut Value,
) -> Result<(), Status> {
    if !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null() {
        return Ok(());
    }
    let name = pod["spec"]["serviceAccountName"].as_str().filter(|name| !name.is_empty());
    let name = name.unwrap_or("default").to_owned();
    pod["spec"]["serviceAccountName"] = name.clone().into();
    pod["spec"]["serviceAccount"] = name.clone().into();
    let resource = (String::new(), "serviceaccounts".to_owned());
    let Some(account) = cluster.store().get(&resource, &(namespace.to_owned(), name.clone()))
    else {
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        );
        return Err(forbidden(kind, pod, &why));
    };
    let own = pod["spec"]["automountServiceAccountToken"].as_bool();
    if own.or(account.value["automountServiceAccountToken"].as_bool()).unwrap_or(true) {
        mount_token(cluster, pod);
    }
    if list(&pod["spec"], "imagePullSecrets").is_empty() {
        let secrets = list(&account.value, "imagePullSecrets");
        let secrets: Vec<Value> =
            secrets.iter().map(|secret| json!({"name": secret["name"]})).collect();
        if !secrets.is_empty() {
            pod["spec"]["imagePullSecrets"] = secrets.into();
        }
    }
    Ok(())
}

/// Mounts the token in every container that has nothing else at its path.
fn mount_token(cluster: &Cluster, pod: &mut Value) {
    let existing = list(&pod["spec"], "volumes")
        .iter()
        .filter_map(|volume| volume["name"].as_str())
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned);
    let is_new = existing.is_none();
    let name = existing.unwrap_or_else(|| format!("{VOLUME_PREFIX}{}", cluster.random_suffix()));
    let mut mounted = false;
    for containers in ["initContainers", "containers"] {
        let containers = pod["spec"].get_mut(containers).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|c| c.is_object()) {
            let taken = |mount: &Value| mount["mountPath"] == MOUNT_PATH;
            if !list(container, "volumeMounts").iter().any(taken) {
                list_mut(container, "volumeMounts")
                    .push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
                mounted = true;
            }
        }
    }
    if is_new && mounted {
        list_mut(&mut pod["spec"], "volumes").push(token_volume(&name));
    }
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": FILE_MODE, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {
            "name": "kube-root-ca.crt",
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }},
        {"downwardAPI": {"items": [{
            "path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
        }]}},
    ]}})
}
