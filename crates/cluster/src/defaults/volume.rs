//! The volumes of pods.

use serde_json::{Map, Value, json};

use super::container::pull_policy;
use super::{default, entry, items, member, quantity};

/// `rw-r--r--`
const FILE_MODE: i64 = 0o644;

pub(super) fn volume(volume: &mut Map<String, Value>) {
    if !volume.iter().any(|(field, source)| field != "name" && !source.is_null()) {
        volume.insert("emptyDir".into(), json!({}));
    }
    for (field, source) in volume.iter_mut() {
        let Some(source) = source.as_object_mut() else { continue };
        match field.as_str() {
            "secret" | "configMap" => default(source, "defaultMode", FILE_MODE),
            "downwardAPI" => {
                default(source, "defaultMode", FILE_MODE);
                downward(source);
            }
            "projected" => projected(source),
            "hostPath" => {
                if source.get("type").is_none_or(Value::is_null) {
                    source.insert("type".into(), "".into());
                }
            }
            "emptyDir" => quantity(source, "sizeLimit"),
            "ephemeral" => {
                if let Some(template) = member(source, "volumeClaimTemplate") {
                    entry(template, "metadata");
                    if let Some(spec) = entry(template, "spec") {
                        super::storage::claim_spec(spec);
                    }
                }
            }
            "image" => {
                let reference = source.get("reference").and_then(Value::as_str);
                let policy = pull_policy(reference.unwrap_or_default());
                default(source, "pullPolicy", policy);
            }
            field => remote(field, source),
        }
    }
}

fn projected(source: &mut Map<String, Value>) {
    default(source, "defaultMode", FILE_MODE);
    for part in items(source, "sources") {
        if let Some(token) = member(part, "serviceAccountToken") {
            default(token, "expirationSeconds", 3600);
        }
        if let Some(fields) = member(part, "downwardAPI") {
            downward(fields);
        }
    }
}

fn downward(source: &mut Map<String, Value>) {
    for item in items(source, "items") {
        if let Some(field) = member(item, "fieldRef") {
            default(field, "apiVersion", "v1");
        }
        if let Some(resource) = member(item, "resourceFieldRef") {
            default(resource, "divisor", "0");
        }
    }
}

/// Sources that persistent volumes have too.
pub(super) fn remote(field: &str, source: &mut Map<String, Value>) {
    match field {
        "iscsi" => default(source, "iscsiInterface", "default"),
        "rbd" => {
            default(source, "pool", "rbd");
            default(source, "user", "admin");
            default(source, "keyring", "/etc/ceph/keyring");
        }
        "azureDisk" => {
            default(source, "cachingMode", "ReadWrite");
            default(source, "kind", "Shared");
            default(source, "fsType", "ext4");
            default(source, "readOnly", false);
        }
        "scaleIO" => {
            default(source, "storageMode", "ThinProvisioned");
            default(source, "fsType", "xfs");
        }
        _ => {}
    }
}
