//! Claims, volumes, classes.

use serde_json::Value;

use super::metadata::selector;
use super::place::Place;
use super::pod_update::differences;
use super::{Errors, names, resources, scheduling};

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
/// Fields of a volume's spec that are not where it is stored.
const NO_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// The spec of a claim, also within pods and stateful sets.
pub(super) fn claim(spec: Place, errors: &mut Errors) {
    access_modes(spec, "at least 1 access mode is required", errors);
    selector(spec.child("selector"), errors);
    let given = &spec.value["resources"]["requests"]["storage"];
    let size = spec.entry("resources", "storage").showing(given);
    match resources::parse(given) {
        None if given.is_null() => errors.push(size.required("")),
        Some(amount) if amount.is_zero() || amount.is_negative() => {
            errors.push(size.invalid("must be greater than zero"));
        }
        _ => resources::amount(size, "storage", errors),
    }
    class_name(spec.child("storageClassName"), errors);
    let mode = spec.child("volumeMode");
    if mode.is_set() && !VOLUME_MODES.contains(&mode.text()) {
        errors.push(mode.not_supported(&VOLUME_MODES));
    }
}

fn access_modes(spec: Place, why: &str, errors: &mut Errors) {
    let at = spec.child("accessModes");
    let modes = spec.list("accessModes");
    if modes.is_empty() {
        errors.push(at.required(why));
    }
    for mode in modes.iter().filter(|mode| !MODES.iter().any(|known| mode == known)) {
        errors.push(at.showing(mode).not_supported(&MODES));
    }
    let single = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    if single && modes.iter().any(|mode| mode != "ReadWriteOncePod") {
        errors.push(at.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

fn class_name(at: Place, errors: &mut Errors) {
    if !at.text().is_empty() {
        at.each(names::dns_subdomain(at.text()), errors);
    }
}

/// Of a claim only its size may grow, once it is bound; its volume and class are set once.
pub(super) fn claim_update(root: Place, old: Place, errors: &mut Errors) {
    let (spec, before) = (root.child("spec"), old.child("spec"));
    let (mut new, mut old_spec) = (spec.value.clone(), before.value.clone());
    if !new.is_object() || !old_spec.is_object() {
        return;
    }
    if before.child("volumeName").text().is_empty() {
        old_spec["volumeName"] = new["volumeName"].clone();
    }
    if old_spec["storageClassName"].is_null() && !new["storageClassName"].is_null() {
        new["storageClassName"] = Value::Null;
        old_spec["storageClassName"] = Value::Null;
    }
    let bound = root.value["status"]["phase"] == "Bound";
    if bound {
        if new["resources"]["requests"].is_object() {
            let size = old_spec["resources"]["requests"]["storage"].clone();
            new["resources"]["requests"]["storage"] = size;
        }
        new["volumeAttributesClassName"] = old_spec["volumeAttributesClassName"].clone();
    }
    let mut lines = Vec::new();
    differences("spec", &old_spec, &new, &mut lines);
    if !lines.is_empty() {
        let why = format!(
            "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims\n{}\n",
            lines.join("\n")
        );
        errors.push(spec.forbidden(&why));
    }
    let size = |spec: &Value| resources::parse(&spec["resources"]["requests"]["storage"]);
    let held = resources::parse(&old.value["status"]["capacity"]["storage"]);
    if let (Some(new), Some(old)) = (size(spec.value), size(before.value))
        && new < old
        && held.is_none_or(|held| new <= held)
    {
        let resources = spec.child("resources");
        let requests = resources.child("requests");
        let storage = requests.child("storage");
        errors.push(storage.forbidden("field can not be less than status.capacity"));
    }
}

/// The spec of a volume.
pub(super) fn volume(spec: Place, errors: &mut Errors) {
    access_modes(spec, "", errors);
    let capacity = spec.child("capacity");
    let amounts = capacity.value.as_object();
    if amounts.is_none_or(serde_json::Map::is_empty) {
        errors.push(capacity.required(""));
    }
    if amounts.is_none_or(|amounts| !amounts.contains_key("storage") || amounts.len() > 1) {
        errors.push(capacity.not_supported(&["storage"]));
    }
    for (_, amount) in spec.entries("capacity") {
        if resources::parse(amount.value).is_none_or(|a| a.is_zero() || a.is_negative()) {
            errors.push(amount.invalid("must be greater than zero"));
        }
    }
    let reclaim = spec.child("persistentVolumeReclaimPolicy");
    let policies = ["Delete", "Recycle", "Retain"];
    if reclaim.is_set() && !policies.contains(&reclaim.text()) {
        errors.push(reclaim.not_supported(&policies));
    }
    let affinity = spec.child("nodeAffinity");
    scheduling::node_selector(affinity.child("required"), errors);
    let fields = spec.value.as_object().into_iter().flatten();
    let sources: Vec<&str> = fields
        .filter(|(field, value)| !NO_SOURCE.contains(&field.as_str()) && !value.is_null())
        .map(|(field, _)| field.as_str())
        .collect();
    match sources.as_slice() {
        [] => errors.push(spec.required("must specify a volume type")),
        [_, others @ ..] => {
            for field in others {
                let why = "may not specify more than 1 volume type";
                errors.push(spec.child(field).forbidden(why));
            }
        }
    }
    class_name(spec.child("storageClassName"), errors);
    let mode = spec.child("volumeMode");
    if mode.is_set() && !VOLUME_MODES.contains(&mode.text()) {
        errors.push(mode.not_supported(&VOLUME_MODES));
    }
}

/// Where a volume is stored does not change.
pub(super) fn volume_update(root: Place, old: Place, errors: &mut Errors) {
    let source = |spec: Place| {
        let mut source = spec.value.clone();
        if let Some(fields) = source.as_object_mut() {
            fields.retain(|field, value| !NO_SOURCE.contains(&field.as_str()) && !value.is_null());
        }
        source
    };
    let (spec, before) = (root.child("spec"), old.child("spec"));
    let mut lines = Vec::new();
    differences("spec", &source(before), &source(spec), &mut lines);
    if !lines.is_empty() {
        let why = format!(
            "spec.persistentvolumesource is immutable after creation\n{}\n",
            lines.join("\n")
        );
        errors.push(spec.child("persistentvolumesource").forbidden(&why));
    }
    let mode = root.child("volumeMode").showing(spec.child("volumeMode").value);
    mode.immutable(before.child("volumeMode").value, errors);
}

pub(super) fn class(root: Place, errors: &mut Errors) {
    let provisioner = root.child("provisioner");
    if provisioner.text().is_empty() {
        errors.push(provisioner.required(""));
    } else {
        let lower = provisioner.text().to_ascii_lowercase();
        provisioner.each(names::qualified_name(&lower), errors);
    }
    let policy = root.child("reclaimPolicy");
    if policy.is_set() && !["Delete", "Retain"].contains(&policy.text()) {
        errors.push(policy.not_supported(&["Delete", "Retain"]));
    }
    root.child("volumeBindingMode").one_of(&["Immediate", "WaitForFirstConsumer"], errors);
}

/// Of a class hardly anything may change.
pub(super) fn class_update(root: Place, old: Place, errors: &mut Errors) {
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        root.child(field).immutable(old.child(field).value, errors);
    }
}
