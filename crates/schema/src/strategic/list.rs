//! Lists in a strategic merge patch: merging by key, and order.

use serde_json::{Map, Value};

use super::{
    DIRECTIVE, ELEMENT_ORDER, array, bad_directive, discard_nulls, merge as merge_object,
    without_directives,
};
use crate::order::interleave;
use crate::table::{Field, Type};

/// Merges a list as its field says: replaces it, or merges elements by key, or as a set.
pub(super) fn merge(
    old: Vec<Value>,
    new: Vec<Value>,
    field: Option<&Field>,
) -> Result<Vec<Value>, String> {
    let Some(field) = field.filter(|field| field.merge) else {
        return Ok(new);
    };
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    let key = field.merge_key;
    let objects = old.iter().chain(&new).filter(|element| element.is_object()).count();
    if objects == 0 {
        let mut merged: Vec<Value> = Vec::new();
        for element in old.iter().chain(&new) {
            if !merged.contains(element) {
                merged.push(element.clone());
            }
        }
        return Ok(ordered(merged, &new, &old, ""));
    }
    if objects < old.len() + new.len() {
        return Err(format!("list element types are not identical in {}", field.name));
    }
    if key.is_empty() {
        return Err(format!("cannot merge lists without merge key for {}", field.name));
    }
    let (old, patches) = special_elements(old, new, key)?;
    let mut merged = old.clone();
    for patch in &patches {
        let Value::Object(fields) = patch else { continue };
        let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
        match merged.iter().position(|element| element.get(key) == Some(value)) {
            Some(place) => {
                if let Value::Object(element) = merged[place].take() {
                    let result = merge_object(element, fields.clone(), field.shape.object())?;
                    merged[place] = Value::Object(result);
                }
            }
            None => {
                let mut added = patch.clone();
                discard_nulls(&mut added);
                merged.extend(without_directives(added));
            }
        }
    }
    if let Some(Value::Object(element)) = merged.iter().find(|element| element.get(key).is_none()) {
        return Err(no_merge_key(element, key));
    }
    Ok(ordered(merged, &patches, &old, key))
}

/// Carries out the `$patch` elements: the old list and the patch without them.
fn special_elements(
    mut old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), String> {
    let mut patches = Vec::new();
    let mut replace = false;
    for element in new {
        let Value::Object(fields) = &element else { continue };
        let Some(directive) = fields.get(DIRECTIVE) else {
            patches.push(element);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
                old.retain(|element| element.get(key) != Some(value));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err("merging lists cannot yet be specified in the patch".to_owned());
            }
            _ => return Err(bad_directive(directive, fields)),
        }
    }
    Ok(if replace { (patches, Vec::new()) } else { (old, patches) })
}

fn no_merge_key(fields: &Map<String, Value>, key: &str) -> String {
    let fields = Value::Object(fields.clone());
    format!("map: {fields} does not contain declared merge key: {key}")
}

/// What tells elements apart: the merge key's value, or the element itself.
fn identity<'a>(element: &'a Value, key: &str) -> &'a Value {
    if key.is_empty() { element } else { element.get(key).unwrap_or(&Value::Null) }
}

fn ordered(merged: Vec<Value>, wanted: &[Value], live: &[Value], key: &str) -> Vec<Value> {
    interleave(merged, wanted, live, |element| identity(element, key).clone())
}

/// Carries out `$setElementOrder/<field>` together with the field's own patch, and takes both out
/// of the patch.
pub(super) fn set_element_orders(
    object: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    of_type: Option<&'static Type>,
) -> Result<(), String> {
    let orders: Vec<String> =
        patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in orders {
        let Some(order) = patch.remove(&directive) else { continue };
        let order = array(order)?;
        let name = &directive[ELEMENT_ORDER.len()..];
        let field = of_type.and_then(|of_type| of_type.field(name));
        let key = field.map_or("", |field| field.merge_key);
        // A null deletes the list: there is nothing to order.
        if patch.get(name).is_some_and(Value::is_null) {
            continue;
        }
        let new = patch.remove(name).map(array).transpose()?;
        if let Some(new) = &new {
            in_order(new, &order, key)?;
        }
        let old = object.get(name).cloned().map(array).transpose()?;
        let live = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => {
                let mut new = Value::Array(new);
                discard_nulls(&mut new);
                without_directives(new).map(array).transpose()?.unwrap_or_default()
            }
            (Some(old), Some(new)) => merge(old, new, field)?,
        };
        object.insert(name.to_owned(), ordered(merged, &order, &live, key).into());
    }
    Ok(())
}

/// Whether the patch's elements come in the order that the directive gives.
fn in_order(new: &[Value], order: &[Value], key: &str) -> Result<(), String> {
    let mut rest = order.iter();
    for element in new.iter().filter(|element| element.get(DIRECTIVE).is_none()) {
        if !order.is_empty() && !rest.any(|named| identity(named, key) == identity(element, key)) {
            let (new, order) = (Value::from(new.to_vec()), Value::from(order.to_vec()));
            return Err(format!(
                "The order in patch list:\n{new}\n doesn't match $setElementOrder list:\n{order}\n"
            ));
        }
    }
    Ok(())
}
