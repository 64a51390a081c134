//! The volumes of pods.

use std::collections::BTreeSet;

use super::place::Place;
use super::{Errors, names, resources, storage};

/// Checks the volumes of a pod spec; returns the names of those that can be mounted.
pub(super) fn volumes<'v>(spec: Place<'_, 'v>, errors: &mut Errors) -> BTreeSet<&'v str> {
    let mut seen = BTreeSet::new();
    for at in spec.items("volumes") {
        let before = errors.len();
        source(at, errors);
        let name = at.child("name");
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else {
            name.each(names::dns_label(name.text()), errors);
        }
        if seen.contains(name.text()) {
            errors.push(name.duplicate());
        }
        if errors.len() == before {
            seen.insert(name.text());
        }
    }
    seen
}

/// Exactly one source, with what it cannot do without.
fn source(at: Place, errors: &mut Errors) {
    let mut first = true;
    let fields = at.value.as_object().into_iter().flatten();
    for (field, value) in fields.filter(|(field, value)| *field != "name" && !value.is_null()) {
        let source = at.child(field).showing(value);
        if !first {
            errors.push(source.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        first = false;
        let needed = match field.as_str() {
            "secret" => "secretName",
            "configMap" => "name",
            "persistentVolumeClaim" => "claimName",
            "hostPath" => "path",
            "emptyDir" => {
                let limit = resources::parse(source.child("sizeLimit").value);
                if limit.is_some_and(|limit| limit.is_negative()) {
                    let why = "SizeLimit field must be a valid resource quantity";
                    errors.push(source.child("sizeLimit").forbidden(why));
                }
                continue;
            }
            "csi" => "driver",
            "ephemeral" => {
                let template = source.child("volumeClaimTemplate");
                if template.is_set() {
                    storage::claim(template.child("spec"), errors);
                } else {
                    errors.push(template.required(""));
                }
                continue;
            }
            _ => continue,
        };
        if source.child(needed).text().is_empty() {
            errors.push(source.child(needed).required(""));
        }
        let mode = source.child("defaultMode");
        if mode.number().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
            let why = "must be a number between 0 and 0777 (octal), both inclusive";
            errors.push(mode.invalid(why));
        }
        for item in source.items("items") {
            for part in ["key", "path"] {
                if item.child(part).text().is_empty() {
                    errors.push(item.child(part).required(""));
                }
            }
        }
    }
    if first {
        errors.push(at.required("must specify a volume type"));
    }
}
