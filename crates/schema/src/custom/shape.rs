//! Pruning and defaulting.

use serde_json::Value;

use super::node::Node;
use super::path::Path;
use crate::decode::prune_metadata;

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops what the schema does not have, and names it.
pub(super) fn prune(node: &Node, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            if node.embedded && META_FIELDS.contains(&name.as_str()) {
                if name == "metadata" {
                    prune_object_meta(value, &Path::Field(path, name), unknown);
                }
                return true;
            }
            let place = Path::Field(path, name);
            match node.child(name) {
                Some(child) => prune(child, value, &place, unknown),
                None if node.preserve_unknown => {}
                None => {
                    // At the root they are not the schema's.
                    if !(path.is_root() && META_FIELDS.contains(&name.as_str())) {
                        unknown.push(format!("unknown field \"{}\"", place.dotted()));
                    }
                    return false;
                }
            }
            true
        }),
        Value::Array(list) => {
            for (index, value) in list.iter_mut().enumerate() {
                let place = Path::Index(path, index);
                match &node.items {
                    Some(items) => prune(items, value, &place, unknown),
                    None if node.preserve_unknown => {}
                    None => prune(&Node::default(), value, &place, unknown),
                }
            }
        }
        _ => {}
    }
}

/// Metadata has Kubernetes' own type.
fn prune_object_meta(value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    // Values of wrong types stay for validation to refuse.
    let mut pruned = value.clone();
    if let Ok(fields) = prune_metadata(&mut pruned) {
        *value = pruned;
        let place = path.dotted();
        unknown.extend(fields.iter().map(|field| format!("unknown field \"{place}.{field}\"")));
    }
}

fn is_wrong_null(value: &Value, node: Option<&Node>) -> bool {
    value.is_null() && node.is_some_and(|node| !node.nullable)
}

/// Drops nulls where the schema allows none and has no default.
pub(super) fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let child = node.child(name);
            if is_wrong_null(value, child) && child.is_some_and(|child| child.default.is_none()) {
                return false;
            }
            if let Some(child) = child {
                drop_nulls(child, value);
            }
            true
        }),
        Value::Array(list) => {
            if let Some(items) = &node.items {
                list.iter_mut().for_each(|value| drop_nulls(items, value));
            }
        }
        _ => {}
    }
}

/// Fills in defaults.
pub(super) fn default(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, property) in &node.properties {
                if let Some(default) = &property.default
                    && map.get(name).is_none_or(|value| is_wrong_null(value, Some(property)))
                {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(child) = node.child(name) {
                    replace_null(child, value);
                    default(child, value);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for value in list {
                    replace_null(items, value);
                    default(items, value);
                }
            }
        }
        _ => {}
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if is_wrong_null(value, Some(node))
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}
