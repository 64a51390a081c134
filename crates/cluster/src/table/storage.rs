//! Volumes, claims, their classes and drivers.

use serde_json::Value;

use super::{AGE, NAME, Printer, age, list, name, text};

const VOLUME_MODE: super::Definition = ("VolumeMode", "string", 1, "Filesystem or block device.");
const STORAGE_CLASS: super::Definition = ("StorageClass", "string", 0, "Its storage class.");
const ATTRIBUTES_CLASS: super::Definition =
    ("VolumeAttributesClass", "string", 0, "Its volume attributes class.");
const ACCESS_MODES: super::Definition = ("Access Modes", "string", 0, "How it can be mounted.");
const CAPACITY: super::Definition = ("Capacity", "string", 0, "How much it holds.");
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) const VOLUME: Printer = Printer {
    columns: &[
        NAME,
        CAPACITY,
        ACCESS_MODES,
        ("Reclaim Policy", "string", 0, "What becomes of it after its claim."),
        ("Status", "string", 0, "Whether it is bound."),
        ("Claim", "string", 0, "Claim that it is bound to."),
        STORAGE_CLASS,
        ATTRIBUTES_CLASS,
        ("Reason", "string", 0, "Why it is in that state."),
        AGE,
        VOLUME_MODE,
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let claim = &spec["claimRef"];
        let claim = if claim.is_object() {
            format!("{}/{}", text(&claim["namespace"], ""), text(&claim["name"], ""))
        } else {
            String::new()
        };
        vec![
            name(object),
            text(&spec["capacity"]["storage"], "0").into(),
            access_modes(&spec["accessModes"]).into(),
            text(&spec["persistentVolumeReclaimPolicy"], "").into(),
            phase(object).into(),
            claim.into(),
            class(object).into(),
            text(&spec["volumeAttributesClassName"], "<unset>").into(),
            text(&status["reason"], "").into(),
            age::of(object, now).into(),
            text(&spec["volumeMode"], "<unset>").into(),
        ]
    },
};

pub(super) const CLAIM: Printer = Printer {
    columns: &[
        NAME,
        ("Status", "string", 0, "Whether it is bound."),
        ("Volume", "string", 0, "Volume that it is bound to."),
        CAPACITY,
        ACCESS_MODES,
        STORAGE_CLASS,
        ATTRIBUTES_CLASS,
        AGE,
        VOLUME_MODE,
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let volume = text(&spec["volumeName"], "");
        let bound = !volume.is_empty();
        let capacity = if bound { text(&status["capacity"]["storage"], "0") } else { "" };
        let modes = if bound { access_modes(&status["accessModes"]) } else { String::new() };
        vec![
            name(object),
            phase(object).into(),
            volume.into(),
            capacity.into(),
            modes.into(),
            class(object).into(),
            text(&spec["volumeAttributesClassName"], "<unset>").into(),
            age::of(object, now).into(),
            text(&spec["volumeMode"], "<unset>").into(),
        ]
    },
};

fn phase(object: &Value) -> &str {
    if object["metadata"]["deletionTimestamp"].is_null() {
        text(&object["status"]["phase"], "")
    } else {
        "Terminating"
    }
}

fn class(object: &Value) -> &str {
    let annotation = &object["metadata"]["annotations"][CLASS_ANNOTATION];
    annotation.as_str().unwrap_or_else(|| text(&object["spec"]["storageClassName"], ""))
}

/// `RWO,ROX`, in the order of Kubernetes.
fn access_modes(modes: &Value) -> String {
    let shown: Vec<&str> = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .filter(|(mode, _)| list(modes).iter().any(|given| given == mode))
    .map(|(_, short)| short)
    .collect();
    shown.join(",")
}

pub(super) const CLASS: Printer = Printer {
    columns: &[
        NAME,
        ("Provisioner", "string", 0, "Who makes its volumes."),
        ("ReclaimPolicy", "string", 0, "What becomes of volumes after their claims."),
        ("VolumeBindingMode", "string", 0, "When volumes are made and bound."),
        ("AllowVolumeExpansion", "string", 0, "Whether claims may grow."),
        AGE,
    ],
    cells: |object, now| {
        let mut shown = text(&object["metadata"]["name"], "").to_owned();
        let annotations = &object["metadata"]["annotations"];
        if ["storageclass", "storageclass.beta"]
            .iter()
            .any(|prefix| annotations[format!("{prefix}.kubernetes.io/is-default-class")] == "true")
        {
            shown.push_str(" (default)");
        }
        vec![
            shown.into(),
            text(&object["provisioner"], "").into(),
            text(&object["reclaimPolicy"], "Delete").into(),
            text(&object["volumeBindingMode"], "Immediate").into(),
            (object["allowVolumeExpansion"] == true).into(),
            age::of(object, now).into(),
        ]
    },
};

pub(super) const CSI_NODE: Printer = Printer {
    columns: &[NAME, ("Drivers", "integer", 0, "How many drivers it has."), AGE],
    cells: |object, now| {
        let drivers = list(&object["spec"]["drivers"]).len();
        vec![name(object), drivers.into(), age::of(object, now).into()]
    },
};

pub(super) const CSI_DRIVER: Printer = Printer {
    columns: &[
        NAME,
        ("AttachRequired", "boolean", 0, "Whether volumes are attached before they are mounted."),
        ("PodInfoOnMount", "boolean", 0, "Whether it wants to know the pod."),
        ("StorageCapacity", "boolean", 0, "Whether it tells how much room there is."),
        ("TokenRequests", "string", 0, "Audiences of the tokens that it wants."),
        ("RequiresRepublish", "boolean", 0, "Whether it wants to be called again and again."),
        ("Modes", "string", 0, "Which volumes it supports."),
        AGE,
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        let join = |texts: Vec<&str>| texts.join(",");
        let audiences = match &spec["tokenRequests"] {
            Value::Null => "<unset>".to_owned(),
            tokens => join(list(tokens).iter().map(|t| text(&t["audience"], "")).collect()),
        };
        let modes = match list(&spec["volumeLifecycleModes"]) {
            [] => "<none>".to_owned(),
            modes => join(modes.iter().map(|mode| text(mode, "")).collect()),
        };
        vec![
            name(object),
            (spec["attachRequired"] != false).into(),
            (spec["podInfoOnMount"] == true).into(),
            (spec["storageCapacity"] == true).into(),
            audiences.into(),
            (spec["requiresRepublish"] == true).into(),
            modes.into(),
            age::of(object, now).into(),
        ]
    },
};

pub(super) const ATTACHMENT: Printer = Printer {
    columns: &[
        NAME,
        ("Attacher", "string", 0, "Driver that attaches it."),
        ("PV", "string", 0, "Volume."),
        ("Node", "string", 0, "Node that it is attached to."),
        ("Attached", "boolean", 0, "Whether it is."),
        AGE,
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        vec![
            name(object),
            text(&spec["attacher"], "").into(),
            text(&spec["source"]["persistentVolumeName"], "").into(),
            text(&spec["nodeName"], "").into(),
            (object["status"]["attached"] == true).into(),
            age::of(object, now).into(),
        ]
    },
};
