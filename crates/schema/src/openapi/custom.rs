//! Custom resources in OpenAPI documents.

use serde_json::{Map, Value, json};

use super::paths::{Target, item};
use super::schemas::{meta, reference};
use super::{KIND_EXTENSION, kind_extension};

/// A version of a custom resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Custom {
    /// `karpenter.sh`.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `NodePool`.
    pub kind: String,
    /// `nodepools`.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The CRD's `openAPIV3Schema`.
    pub schema: Value,
}

const COLLECTION: &[&str] = &["get", "post", "delete"];
const OBJECT: &[&str] = &["get", "put", "patch", "delete"];
const SUBRESOURCE: &[&str] = &["get", "put", "patch"];

impl Custom {
    /// `sh.karpenter.v1.NodePool`.
    fn name(&self) -> String {
        let reversed: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{}.{}", reversed.join("."), self.version, self.kind)
    }

    /// Adds its schemas and paths to a document's.
    pub(super) fn add_to(
        &self,
        components: &mut Map<String, Value>,
        paths: &mut Map<String, Value>,
    ) {
        let name = self.name();
        components.insert(name.clone(), self.object());
        components.insert(format!("{name}List"), self.list(&name));
        let target = Target {
            kind: (&self.group, &self.version, &self.kind),
            schema: &name,
            strategic: false,
        };
        let all = format!("/apis/{}/{}/{}", self.group, self.version, self.plural);
        let collection = if self.namespaced {
            paths.insert(all.clone(), item(&all, &["get"], &target));
            format!(
                "/apis/{}/{}/namespaces/{{namespace}}/{}",
                self.group, self.version, self.plural
            )
        } else {
            all
        };
        let object = format!("{collection}/{{name}}");
        let status = format!("{object}/status");
        for (path, methods) in
            [(&collection, COLLECTION), (&object, OBJECT), (&status, SUBRESOURCE)]
        {
            paths.insert(path.clone(), item(path, methods, &target));
        }
    }

    /// The CRD's schema with what all objects have.
    fn object(&self) -> Value {
        let mut schema = self.schema.clone();
        if !schema.is_object() {
            schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        }
        if !schema["properties"].is_object() {
            schema["properties"] = json!({});
        }
        let properties = &mut schema["properties"];
        properties["apiVersion"] = json!({
            "type": "string",
            "description": "The group and version of this representation of the object.",
        });
        properties["kind"] =
            json!({ "type": "string", "description": "The kind of the object, in CamelCase." });
        properties["metadata"] = json!({
            "allOf": [reference(&meta("ObjectMeta"))],
            "description": "Standard metadata: name, labels, annotations.",
        });
        schema[KIND_EXTENSION] = json!([kind_extension(&self.group, &self.version, &self.kind)]);
        schema
    }

    fn list(&self, name: &str) -> Value {
        let kind = format!("{}List", self.kind);
        json!({
            "type": "object",
            "description": format!("A list of {}.", self.kind),
            "required": ["items"],
            "properties": {
                "apiVersion": { "type": "string" },
                "kind": { "type": "string" },
                "metadata": { "allOf": [reference(&meta("ListMeta"))] },
                "items": { "type": "array", "items": reference(name) },
            },
            KIND_EXTENSION: [kind_extension(&self.group, &self.version, &kind)],
        })
    }
}
