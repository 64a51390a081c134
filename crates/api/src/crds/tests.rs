use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::Resource;
use serde_json::{Value, json};

use super::all;
use crate::{NodeClaim, NodeClass, NodeOverlay, NodePool};

fn typed() -> Vec<CustomResourceDefinition> {
    all().into_iter().map(|crd| serde_json::from_value(crd).unwrap()).collect()
}

#[test]
fn they_name_what_the_types_are() {
    let crds = all();
    for (crd, kind, plural, group) in [
        (&crds[0], NodePool::kind(&()), NodePool::plural(&()), NodePool::group(&())),
        (&crds[1], NodeClaim::kind(&()), NodeClaim::plural(&()), NodeClaim::group(&())),
        (&crds[2], NodeClass::kind(&()), NodeClass::plural(&()), NodeClass::group(&())),
        (&crds[3], NodeOverlay::kind(&()), NodeOverlay::plural(&()), NodeOverlay::group(&())),
    ] {
        assert_eq!(crd["spec"]["names"]["kind"], json!(kind));
        assert_eq!(crd["spec"]["names"]["plural"], json!(plural));
        assert_eq!(crd["metadata"]["name"], json!(format!("{plural}.{group}")));
    }
}

/// Whole numbers as integers: the typed form keeps `minimum` and `maximum` as floats.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|n| n.fract() == 0.0) {
                *value = json!(whole as i64);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

#[test]
fn nothing_is_lost_when_read_as_a_definition() {
    for (raw, crd) in all().into_iter().zip(typed()) {
        let mut again = serde_json::to_value(&crd).unwrap();
        whole_numbers(&mut again);
        assert_eq!(again, raw);
    }
}

/// Structural schemas: every value has a type, or is an int-or-string.
fn check_structural(path: &str, schema: &JSONSchemaProps) {
    let int_or_string = schema.x_kubernetes_int_or_string == Some(true);
    assert!(schema.type_.is_some() || int_or_string, "{path} has no type");
    assert!(int_or_string || schema.any_of.is_none(), "{path}: anyOf only for int-or-string");
    for required in schema.required.iter().flatten() {
        let known = schema.properties.as_ref().is_some_and(|p| p.contains_key(required));
        assert!(known, "{path}: {required} is required and unknown");
    }
    for (name, property) in schema.properties.iter().flatten() {
        check_structural(&format!("{path}.{name}"), property);
    }
    let schema = serde_json::to_value(schema).unwrap();
    for inner in ["items", "additionalProperties"] {
        if let Some(value @ Value::Object(_)) = schema.get(inner) {
            let inner_schema: JSONSchemaProps = serde_json::from_value(value.clone()).unwrap();
            check_structural(&format!("{path}[{inner}]"), &inner_schema);
        }
    }
}

#[test]
fn schemas_are_structural() {
    for crd in typed() {
        let schema = crd.spec.versions[0].schema.clone().unwrap().open_api_v3_schema.unwrap();
        check_structural(&crd.spec.names.kind, &schema);
    }
}

#[test]
fn columns_and_subresources() {
    let crds = all();
    let columns = |crd: &Value| -> Vec<String> {
        let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap();
        columns.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        columns(&crds[0]),
        ["NodeClass", "Nodes", "Ready", "Age", "Weight", "CPU", "Memory"]
    );
    assert_eq!(columns(&crds[2]), ["Role", "Ready", "Age"]);
    assert_eq!(
        crds[0]["spec"]["versions"][0]["subresources"],
        json!({"status": {}, "scale":
            {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}})
    );
}
