//! The scale of an object: how many it wants, how many it has.

use serde_json::{Value, json};

use crate::kinds::{Kind, ScalePaths};
use crate::selectors::Labels;
use crate::status::{FieldError, Status};
use crate::store::Object;

/// The `autoscaling/v1` `Scale` of an object.
#[must_use]
pub fn scale(kind: &Kind, object: &Object) -> Value {
    let value = &object.value;
    let paths = paths(kind);
    let count = |path: &str| at(value, path).as_i64().unwrap_or(0);
    let selector = match &paths.selector {
        Some(path) => at(value, path).as_str().unwrap_or_default().to_owned(),
        None if kind.custom.is_some() => String::new(),
        None => selector_text(&value["spec"]["selector"]),
    };
    let metadata: serde_json::Map<String, Value> =
        ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
            .into_iter()
            .filter_map(|field| Some((field.to_owned(), value["metadata"].get(field)?.clone())))
            .collect();
    let mut status = json!({"replicas": count(&paths.status_replicas)});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": count(&paths.spec_replicas)},
        "status": status,
    })
}

/// What an object is with another `Scale`: its number, and the resourceVersion it is based on.
///
/// # Errors
///
/// 422 for a number that is none.
pub fn scaled(kind: &Kind, object: &Object, scale: &Value) -> Result<Value, Status> {
    let replicas = scale["spec"].get("replicas").cloned().unwrap_or_else(|| 0.into());
    let error = match replicas.as_i64() {
        None => Some("must be a whole number"),
        Some(..0) => Some("must be greater than or equal to 0"),
        Some(_) => None,
    };
    if let Some(why) = error {
        let error = FieldError::invalid("spec.replicas", &replicas, why);
        return Err(Status::invalid("autoscaling", "Scale", object.name(), &[error]));
    }
    let mut new = object.value.clone();
    *at_mut(&mut new, &paths(kind).spec_replicas) = replicas;
    let version = &scale["metadata"]["resourceVersion"];
    if version.as_str().is_some_and(|version| !version.is_empty()) {
        new["metadata"]["resourceVersion"] = version.clone();
    }
    Ok(new)
}

fn paths(kind: &Kind) -> ScalePaths {
    let custom = kind.custom.as_ref().and_then(|custom| custom.scale.clone());
    custom.unwrap_or_else(|| ScalePaths {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        selector: None,
    })
}

/// A selector as a query; those of ReplicationControllers are plain maps.
fn selector_text(selector: &Value) -> String {
    let plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let selector = if plain { json!({"matchLabels": selector}) } else { selector.clone() };
    let labels = Labels::from_object(&selector).ok().flatten();
    labels.map(|labels| labels.to_string()).unwrap_or_default()
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.trim_start_matches('.').split('.').fold(value, |value, field| &value[field])
}

fn at_mut<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    path.trim_start_matches('.').split('.').fold(value, |value, field| {
        // Indexing makes objects of nulls, and panics on anything else.
        if !value.is_object() {
            *value = Value::Null;
        }
        &mut value[field]
    })
}
