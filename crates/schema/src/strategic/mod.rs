//! Strategic merge patch, after k8s.io/apimachinery `pkg/util/strategicpatch/patch.go`.

mod list;

use serde_json::{Map, Value};

use crate::decode::unknown;
use crate::table::{Field, Shape, Type, table};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// What `patch` makes of `object`.
///
/// # Errors
///
/// The kind is not known, or the patch is malformed, in Kubernetes' words.
pub fn patch(
    group: &str,
    version: &str,
    kind: &str,
    object: &Value,
    patch: &Value,
) -> Result<Value, String> {
    let of_type =
        table().kind(group, version, kind).ok_or_else(|| unknown(group, version, kind))?;
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err("Invalid JSON document".to_owned());
    };
    merge(object.clone(), patch.clone(), Some(of_type)).map(Value::Object)
}

/// Merges objects; `of_type` is `None` where keys are data.
fn merge(
    mut object: Map<String, Value>,
    mut patch: Map<String, Value>,
    of_type: Option<&'static Type>,
) -> Result<Map<String, Value>, String> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(bad_directive(directive, &patch)),
        };
    }
    retain_keys(&mut object, &mut patch)?;
    list::set_element_orders(&mut object, &mut patch, of_type)?;
    for (key, value) in patch {
        if let Some(name) = key.strip_prefix(DELETE_FROM) {
            let delete = array(value)?;
            if let Some(Value::Array(list)) = object.get_mut(name) {
                list.retain(|element| !delete.contains(element));
            }
            continue;
        }
        if value.is_null() {
            object.remove(&key);
            continue;
        }
        let field = of_type.and_then(|of_type| of_type.field(&key));
        let merged = match (object.remove(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                if field.is_some_and(|field| field.replace) {
                    Value::Object(new)
                } else {
                    Value::Object(merge(old, new, object_type(field))?)
                }
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                Value::Array(list::merge(old, new, field)?)
            }
            // The old value is of another type, absent, or a scalar.
            (_, mut new) => {
                discard_nulls(&mut new);
                match without_directives(new) {
                    Some(new) => new,
                    None => continue,
                }
            }
        };
        object.insert(key, merged);
    }
    Ok(object)
}

/// The type of a field's object, when it has fields of its own.
fn object_type(field: Option<&Field>) -> Option<&'static Type> {
    match &field?.shape {
        Shape::Type(id) => table().types.get(*id).filter(|of_type| of_type.leaf.is_none()),
        _ => None,
    }
}

fn bad_directive(directive: &Value, object: &Map<String, Value>) -> String {
    let object = Value::Object(object.clone());
    format!("unknown patch type: {} in map: {object}", directive.as_str().unwrap_or_default())
}

fn array(value: Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(list) => Ok(list),
        other => Err(format!("expected a list in the patch, but received {other}")),
    }
}

/// Drops the fields that `$retainKeys` does not name.
fn retain_keys(
    object: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), String> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || "invalid patch format of retainKeys".to_owned();
    let Value::Array(keys) = keys else { return Err(malformed()) };
    let named = |name: &str| keys.iter().any(|key| key == name);
    for (name, value) in patch.iter() {
        let directive = name.starts_with(DELETE_FROM) || name.starts_with(ELEMENT_ORDER);
        if !value.is_null() && !directive && !named(name) {
            return Err(malformed());
        }
    }
    object.retain(|name, _| named(name));
    Ok(())
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, value| {
            discard_nulls(value);
            !value.is_null()
        }),
        Value::Array(list) => list.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The value without `$patch` objects; `None` when it is one.
///
/// Other directives stay out as well: they say nothing where there is nothing to change.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let is_directive = |name: &str| {
                name == RETAIN_KEYS
                    || name.starts_with(DELETE_FROM)
                    || name.starts_with(ELEMENT_ORDER)
            };
            let kept = map
                .into_iter()
                .filter(|(name, _)| !is_directive(name))
                .filter_map(|(name, value)| Some((name, without_directives(value)?)))
                .collect();
            Some(Value::Object(kept))
        }
        Value::Array(list) => {
            Some(Value::Array(list.into_iter().filter_map(without_directives).collect()))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests;
