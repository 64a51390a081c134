//! Uniqueness in lists of type `set` and `map`.

use serde_json::{Map, Value};

use super::node::{List, Node};
use super::path::Path;
use super::problem::Problem;

/// Finds duplicates, here and below.
pub(super) fn check(node: &Node, value: &Value, path: &Path<'_>, problems: &mut Vec<Problem>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(property) = node.properties.get(name) {
                    check(property, value, &Path::Field(path, name), problems);
                } else if let Some(values) = &node.values {
                    check(values, value, &Path::Key(path, name), problems);
                }
            }
        }
        Value::Array(list) => {
            duplicates(node, list, path, problems);
            if let Some(items) = &node.items {
                for (index, element) in list.iter().enumerate() {
                    check(items, element, &Path::Index(path, index), problems);
                }
            }
        }
        _ => {}
    }
}

fn duplicates(node: &Node, list: &[Value], path: &Path<'_>, problems: &mut Vec<Problem>) {
    let mut seen: Vec<Value> = Vec::with_capacity(list.len());
    for (index, element) in list.iter().enumerate() {
        let identity = match &node.list {
            List::Atomic => return,
            List::Set => element.clone(),
            List::Map(keys) => {
                if !element.is_object() {
                    let why = "must be an object for an array of list-type map";
                    problems.push(Problem::invalid(&Path::Index(path, index), element, why));
                    return;
                }
                let keys = keys.iter().filter_map(|key| {
                    node.key(key, element).map(|value| (key.clone(), value.clone()))
                });
                Value::Object(keys.collect::<Map<_, _>>())
            }
        };
        if seen.contains(&identity) {
            problems.push(Problem::duplicate(&Path::Index(path, index), &identity));
        } else {
            seen.push(identity);
        }
    }
}
