//! Custom resources: the structural schema of a CRD, compiled once.
//!
//! `compile` turns the schema into a tree of `node::Node`s; `shape` prunes and defaults objects by
//! it, `values` and `lists` check them, `rules` evaluates CEL. Behaviour and texts follow
//! k8s.io/apiextensions-apiserver `pkg/apiserver/schema` and k8s.io/kube-openapi
//! `pkg/validation`.
//!
//! What upstream has and this has not: CEL rules are not type-checked and have no cost limit.

mod compile;
mod format;
mod lists;
mod node;
mod path;
mod problem;
mod regex;
pub(crate) mod rules;
mod shape;
mod values;

use serde_json::Value;

use crate::decode::prune_metadata;
use node::Node;
use path::Path;
pub use problem::Problem;

/// A CRD version's schema.
#[derive(Debug)]
pub struct CustomSchema {
    root: Node,
}

impl CustomSchema {
    /// Compiles a CRD version's `openAPIV3Schema`.
    ///
    /// # Errors
    ///
    /// Every place where it is not structural, a pattern or CEL rule does not compile, or a
    /// default does not fit; fields are relative to the schema: `properties[spec].type`.
    pub fn compile(schema: &Value) -> Result<Self, Vec<Problem>> {
        compile::root(schema).map(|root| Self { root })
    }

    /// What pruning would drop: `unknown field "spec.bogus"`, sorted.
    #[must_use]
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut unknown = Vec::new();
        shape::prune(&self.root, &mut object.clone(), &Path::Root, &mut unknown);
        unknown.sort();
        unknown
    }

    /// Drops the fields that the schema does not have.
    pub fn prune(&self, object: &mut Value) {
        shape::prune(&self.root, object, &Path::Root, &mut Vec::new());
    }

    /// Fills in defaults, also within defaulted objects; nulls where the schema allows none count
    /// as absent.
    pub fn default(&self, object: &mut Value) {
        shape::drop_nulls(&self.root, object);
        shape::default(&self.root, object);
    }

    /// Checks a pruned and defaulted object; `old` is what it replaces.
    ///
    /// What has not changed is not complained of again (ratcheting), and CEL rules about a
    /// transition are evaluated only where there is something to compare with.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Problem> {
        let mut problems = Vec::new();
        values::check(&self.root, object, old, &Path::Root, &mut problems);
        if let Some(metadata) = object.get("metadata")
            && let Err(why) = prune_metadata(&mut metadata.clone())
        {
            problems.push(Problem::invalid(&"metadata", metadata, &why));
        }
        lists::check(&self.root, object, &Path::Root, &mut problems);
        if problems.iter().any(Problem::blocks_rules) {
            problems.push(Problem::invalid(
                &"<nil>",
                &Value::Null,
                "some validation rules were not checked because the object was invalid; \
                 correct the existing errors to complete validation",
            ));
        } else if self.root.has_rules {
            rules::check(&self.root, object, old, &Path::Root, &mut problems);
        }
        problems
    }
}

#[cfg(test)]
mod tests;
