//! The CustomResourceDefinitions of the types of this crate: what the API server enforces.

use serde_json::{Value, json};

const FILES: [&str; 4] = [
    include_str!("../crds/karpenter.sh_nodepools.yaml"),
    include_str!("../crds/karpenter.sh_nodeclaims.yaml"),
    include_str!("../crds/eks.amazonaws.com_nodeclasses.yaml"),
    include_str!("../crds/karpenter.sh_nodeoverlays.yaml"),
];
const KWOK_FILES: [&str; 5] = [
    FILES[0],
    FILES[1],
    include_str!("../crds/karpenter.kwok.sh_kwoknodeclasses.yaml"),
    FILES[3],
    include_str!("../crds/autoscaling.x-k8s.io_capacitybuffers.yaml"),
];

/// All definitions (`apiextensions.k8s.io/v1`): NodePool, NodeClaim, NodeClass,
/// NodeOverlay.
///
/// # Panics
///
/// Never: the embedded files are read by a test.
#[must_use]
pub fn all() -> Vec<Value> {
    read(&FILES)
}

/// Those that Karpenter has with its KWOK provider: NodePool, NodeClaim, KWOKNodeClass, NodeOverlay,
/// CapacityBuffer. Of the labels in `karpenter.kwok.sh`, requirements may name the provider's own.
///
/// # Panics
///
/// Never, as [`all`].
#[must_use]
pub fn kwok() -> Vec<Value> {
    let known = ["kwoknodeclass", "instance-cpu", "instance-memory", "instance-family"];
    let known: Vec<String> = known
        .iter()
        .chain(&["instance-size"])
        .map(|name| format!("\"karpenter.kwok.sh/{name}\""))
        .collect();
    let rule = json!({
        "message": "label domain \"karpenter.kwok.sh\" is restricted",
        "rule": format!(
            "self in [{}] || !self.find(\"^([^/]+)\").endsWith(\"karpenter.kwok.sh\")",
            known.join(", ")
        ),
    });
    let mut definitions = read(&KWOK_FILES);
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let keys = "requirements/items/properties/key/x-kubernetes-validations";
    for (definition, inner) in
        definitions.iter_mut().zip(["template/properties/spec/properties/", ""])
    {
        let rules = definition.pointer_mut(&format!("{schema}/{inner}{keys}"));
        let rules = rules.and_then(Value::as_array_mut);
        rules.expect("requirements have rules for their keys").push(rule.clone());
    }
    definitions
}

fn read(files: &[&str]) -> Vec<Value> {
    let read = |text: &&str| serde_saphyr::from_str(text).expect("embedded definitions are YAML");
    files.iter().map(read).collect()
}

#[cfg(test)]
mod tests;
