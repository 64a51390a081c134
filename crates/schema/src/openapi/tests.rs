use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Custom, document, index};
use crate::table::table;

/// All `$ref`s in a value.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match value.as_str().and_then(|text| text.strip_prefix("#/components/schemas/")) {
                    Some(target) if name == "$ref" => {
                        found.insert(target.to_owned());
                    }
                    _ => references(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_reference_of_every_document_leads_somewhere() {
    let groups: BTreeSet<(&str, &str)> = table()
        .paths
        .iter()
        .filter_map(|path| match path.template.split('/').collect::<Vec<_>>()[..] {
            ["", "api", version, ..] => Some(("", version)),
            ["", "apis", group, version, ..] => Some((group, version)),
            _ => None,
        })
        .collect();
    assert!(groups.len() >= 18, "{groups:?}");
    for (group, version) in groups {
        let document = document(group, version, &[]).unwrap();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for name in found {
            let schema = &document["components"]["schemas"][&name];
            assert!(schema.is_object(), "{group}/{version}: {name}");
        }
    }
}

#[test]
fn patches_say_what_kubectl_asks_for() {
    let document = document("apps", "v1", &[]).unwrap();
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let patch = &document["paths"][path]["patch"];
    let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
    let content = &patch["requestBody"]["content"];
    assert!(content["application/strategic-merge-patch+json"].is_object());
    let schemas = &document["components"]["schemas"];
    assert_eq!(
        schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"],
        json!([kind])
    );
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert!(containers["description"].as_str().unwrap().starts_with("List of containers"));
}

#[test]
fn custom_resources_have_metadata_and_no_strategic_patches() {
    let custom = Custom {
        group: "karpenter.sh".to_owned(),
        version: "v1".to_owned(),
        kind: "NodePool".to_owned(),
        plural: "nodepools".to_owned(),
        namespaced: false,
        schema: json!({"type": "object", "properties": {"spec": {"type": "object"}}}),
    };
    let document = document("karpenter.sh", "v1", std::slice::from_ref(&custom)).unwrap();
    let schema = &document["components"]["schemas"]["sh.karpenter.v1.NodePool"];
    assert_eq!(schema["properties"]["spec"], json!({"type": "object"}));
    assert!(schema["properties"]["metadata"].is_object());
    let patch = &document["paths"]["/apis/karpenter.sh/v1/nodepools/{name}"]["patch"];
    let content = patch["requestBody"]["content"].as_object().unwrap();
    assert!(content.contains_key("application/merge-patch+json"));
    assert!(!content.contains_key("application/strategic-merge-patch+json"));
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.iter().all(|name| document["components"]["schemas"][name].is_object()));
    assert!(super::document("karpenter.sh", "v2", &[custom]).is_none());
}

#[test]
fn index_has_a_url_for_each_group() {
    let groups = [("".to_owned(), "v1".to_owned()), ("apps".to_owned(), "v1".to_owned())];
    assert_eq!(
        index(&groups),
        json!({"paths": {
            "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1"},
            "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1"},
        }})
    );
}
