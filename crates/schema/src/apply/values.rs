//! Values and the sets of paths in them.

use serde_json::{Map, Value};

use super::merging::{Merging, Parts, element_name};
use super::set::Set;
use crate::order::interleave;

/// All paths in a value.
pub(super) fn paths(how: Merging<'_>, value: &Value) -> Set {
    let mut set = Set::default();
    let parts = how.parts(value);
    match value {
        Value::Object(map) if !matches!(parts, Parts::Whole) => {
            for (name, value) in map {
                let element = format!("f:{name}");
                let child = how.child(name);
                let is_leaf = matches!(child.parts(value), Parts::Whole);
                let is_empty = value.as_object().is_some_and(Map::is_empty);
                if is_leaf || is_empty || matches!(parts, Parts::Keys) {
                    set.insert(element.clone());
                }
                set.insert_below(&element, paths(child, value));
            }
        }
        Value::Array(list) if !matches!(parts, Parts::Whole) => {
            for value in list {
                let element = element_name(&parts, value);
                set.insert(element.clone());
                set.insert_below(&element, paths(how.element(), value));
            }
        }
        _ => {}
    }
    set
}

/// Paths that are in both values, but not with the same value.
pub(super) fn modified(how: Merging<'_>, old: &Value, new: &Value) -> Set {
    let mut set = Set::default();
    let mut compare = |element: String, child: Merging<'_>, old: &Value, new: &Value| {
        let is_leaf =
            matches!(child.parts(old), Parts::Whole) || matches!(child.parts(new), Parts::Whole);
        if is_leaf && old != new {
            set.insert(element);
        } else if !is_leaf {
            set.insert_below(&element, modified(child, old, new));
        }
    };
    let parts = how.parts(new);
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, new) in new {
                if let Some(old) = old.get(name) {
                    compare(format!("f:{name}"), how.child(name), old, new);
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if matches!(parts, Parts::Elements(_)) => {
            for new in new {
                let element = element_name(&parts, new);
                let old = old.iter().find(|old| element_name(&parts, old) == element);
                if let Some(old) = old {
                    compare(element, how.element(), old, new);
                }
            }
        }
        _ => {}
    }
    set
}

/// The live value with the configuration in it.
pub(super) fn merge(how: Merging<'_>, live: Value, config: &Value) -> Value {
    let parts = how.parts(config);
    match (live, config) {
        (Value::Object(mut live), Value::Object(config)) if !matches!(parts, Parts::Whole) => {
            for (name, value) in config {
                let old = live.remove(name).unwrap_or(Value::Null);
                live.insert(name.clone(), merge(how.child(name), old, value));
            }
            Value::Object(live)
        }
        (Value::Array(live), Value::Array(config)) if !matches!(parts, Parts::Whole) => {
            let name = |element: &Value| element_name(&parts, element);
            let mut merged = live.clone();
            for value in config {
                match merged.iter_mut().find(|old| name(old) == name(value)) {
                    Some(old) => *old = merge(how.element(), old.take(), value),
                    None => merged.push(value.clone()),
                }
            }
            Value::Array(interleave(merged, config, &live, name))
        }
        (_, config) => config.clone(),
    }
}

/// Takes the paths of `drop` out of a value, but for those of `keep`. Parts that are left with
/// nothing go as well.
pub(super) fn remove(how: Merging<'_>, value: &mut Value, drop: &Set, keep: &Set) {
    let nothing = Set::default();
    let parts = how.parts(value);
    let stays = |element: &str, child: Merging<'_>, value: &mut Value| {
        let Some(drop_below) = drop.below(element) else { return true };
        let keep_below = keep.below(element).unwrap_or(&nothing);
        let is_kept = keep.has(element) || !keep_below.is_empty();
        if drop.has(element) && !is_kept && is_covered(child, value, drop_below) {
            return false;
        }
        let was_empty = is_empty(value);
        remove(child, value, drop_below, keep_below);
        is_kept || was_empty || !is_empty(value)
    };
    match value {
        Value::Object(map) if !matches!(parts, Parts::Whole) => {
            map.retain(|name, value| stays(&format!("f:{name}"), how.child(name), value));
        }
        Value::Array(list) if !matches!(parts, Parts::Whole) => {
            list.retain_mut(|value| stays(&element_name(&parts, value), how.element(), value));
        }
        _ => {}
    }
}

/// Whether nothing would be left but what tells the part apart.
fn is_covered(how: Merging<'_>, value: &Value, drop: &Set) -> bool {
    paths(how, value).difference(drop).is_empty()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}
