//! Claims, volumes and their classes.

use serde_json::{Map, Value, json};

use super::{default, entry, quantities};

type Object = Map<String, Value>;

pub(super) fn claim(object: &mut Object) {
    if let Some(spec) = entry(object, "spec") {
        claim_spec(spec);
    }
}

pub(super) fn claim_spec(spec: &mut Object) {
    default(spec, "volumeMode", "Filesystem");
    if let Some(resources) = entry(spec, "resources") {
        quantities(resources, "limits");
        quantities(resources, "requests");
    }
}

pub(super) fn volume(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    default(spec, "persistentVolumeReclaimPolicy", "Retain");
    default(spec, "volumeMode", "Filesystem");
    quantities(spec, "capacity");
    for (field, source) in spec.iter_mut() {
        let Some(source) = source.as_object_mut() else { continue };
        if field == "hostPath" && source.get("type").is_none_or(Value::is_null) {
            source.insert("type".into(), "".into());
        }
        super::volume::remote(field, source);
    }
}

pub(super) fn class(object: &mut Object) {
    default(object, "reclaimPolicy", "Delete");
    default(object, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    default(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        default(spec, field, false);
    }
    default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec.get("volumeLifecycleModes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("volumeLifecycleModes".into(), json!(["Persistent"]));
    }
}
