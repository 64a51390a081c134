//! Objects without what tells whose they are.
//!
//! Kept is what decides where pods go and how many there are: requests, counts, and constraints, with
//! the names and labels in them made up, the same everywhere. Everything else is left out: images'
//! names, commands, environment, volumes, annotations of others.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Made-up names, by what they are names of.
#[derive(Debug, Default)]
pub(super) struct Anonymiser(BTreeMap<String, BTreeMap<String, String>>);

/// Labels that say what a machine is: their values are the same everywhere.
const MACHINES: [&str; 8] = [
    "node.kubernetes.io/",
    "topology.kubernetes.io/",
    "topology.ebs.csi.eks.amazonaws.com/",
    "karpenter.k8s.aws/",
    "eks.amazonaws.com/",
    "karpenter.sh/capacity-type",
    "kubernetes.io/arch",
    "kubernetes.io/os",
];
/// Labels that everybody has, with values of their own.
const COMMON: [&str; 4] = [
    "kubernetes.io/hostname",
    "kubernetes.io/metadata.name",
    "karpenter.sh/nodepool",
    "app.kubernetes.io/name",
];
/// Annotations that decide something.
const ANNOTATIONS: [&str; 5] = [
    "aerostat.dev/",
    "sim.aerostat.dev/",
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "controller.kubernetes.io/pod-deletion-cost",
];
/// Fields of a workload that say how many pods there are.
const COUNTS: [&str; 11] = [
    "replicas",
    "completions",
    "parallelism",
    "completionMode",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "minReadySeconds",
    "strategy",
    "updateStrategy",
    "suspend",
];
/// Fields of a pod's spec that hold no names.
const POD: [&str; 7] = [
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "hostNetwork",
    "overhead",
    "preemptionPolicy",
    "resources",
];
/// Fields of a pod's spec with labels in them.
const CONSTRAINTS: [&str; 4] =
    ["nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"];
/// Namespaces and NodePools that every cluster has.
const EVERYWHERE: [&str; 5] =
    ["default", "kube-system", "kube-public", "general-purpose", "system"];

impl Anonymiser {
    /// The object as others may see it.
    pub(super) fn object(&mut self, value: &Value) -> Value {
        let kind = value["kind"].as_str().unwrap_or_default();
        let mut metadata = self.metadata(&value["metadata"]);
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
        metadata["name"] = match kind {
            "PriorityClass" => self.priority(name),
            "NodePool" => self.made_up("nodepool", name),
            _ => self.made_up(&kind.to_lowercase(), &format!("{namespace}/{name}")),
        }
        .into();
        if !namespace.is_empty() {
            metadata["namespace"] = self.made_up("namespace", namespace).into();
        }
        let mut anonymous =
            json!({"apiVersion": value["apiVersion"], "kind": kind, "metadata": metadata});
        let spec = &value["spec"];
        match kind {
            "PriorityClass" => {
                copy(value, &mut anonymous, &["value", "globalDefault", "preemptionPolicy"]);
            }
            "NodePool" => anonymous["spec"] = self.scrub(spec),
            "PodDisruptionBudget" => {
                anonymous["spec"] = json!({"selector": self.scrub(&spec["selector"])});
                copy(spec, &mut anonymous["spec"], &["minAvailable", "maxUnavailable"]);
            }
            "Pod" => anonymous["spec"] = self.pod(spec),
            _ => {
                let template = &spec["template"];
                anonymous["spec"] = json!({"template": {
                    "metadata": self.metadata(&template["metadata"]),
                    "spec": self.pod(&template["spec"]),
                }});
                copy(spec, &mut anonymous["spec"], &COUNTS);
                if !spec["selector"].is_null() {
                    anonymous["spec"]["selector"] = self.scrub(&spec["selector"]);
                }
            }
        }
        anonymous
    }

    fn metadata(&mut self, metadata: &Value) -> Value {
        let mut anonymous = json!({});
        if let Some(labels) = metadata["labels"].as_object() {
            anonymous["labels"] = self.labels(labels);
        }
        let all = metadata["annotations"].as_object().into_iter().flatten();
        let known = all.filter(|(key, _)| ANNOTATIONS.iter().any(|known| key.starts_with(known)));
        let annotations: Map<String, Value> =
            known.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !annotations.is_empty() {
            anonymous["annotations"] = annotations.into();
        }
        anonymous
    }

    fn pod(&mut self, spec: &Value) -> Value {
        let mut anonymous = json!({});
        copy(spec, &mut anonymous, &POD);
        for field in CONSTRAINTS.iter().filter(|field| !spec[**field].is_null()) {
            anonymous[*field] = self.scrub(&json!({ *field: spec[*field] }))[*field].clone();
        }
        if let Some(class) = spec["priorityClassName"].as_str() {
            anonymous["priorityClassName"] = self.priority(class).into();
        }
        for (list, prefix) in [("initContainers", "init"), ("containers", "main")] {
            let Some(containers) = spec[list].as_array() else { continue };
            let containers = containers.iter().enumerate().map(|(at, container)| {
                let image = container["image"].as_str().unwrap_or_default();
                let mut anonymous = json!({
                    "name": format!("{prefix}-{at}"),
                    "image": self.made_up("image", image),
                });
                copy(container, &mut anonymous, &["resources", "restartPolicy"]);
                let ports = container["ports"].as_array().into_iter().flatten();
                let ports: Vec<Value> = ports
                    .filter(|port| !port["hostPort"].is_null())
                    .map(|port| {
                        let mut only = json!({});
                        copy(port, &mut only, &["containerPort", "hostPort", "protocol"]);
                        only
                    })
                    .collect();
                if !ports.is_empty() {
                    anonymous["ports"] = ports.into();
                }
                anonymous
            });
            anonymous[list] = containers.collect();
        }
        anonymous
    }

    /// Constraints, with the labels in them made up.
    fn scrub(&mut self, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| self.scrub(item)).collect(),
            Value::Object(fields) => {
                let key = fields.get("key").and_then(Value::as_str);
                let scrubbed = fields.iter().map(|(field, inner)| {
                    let scrubbed = match (field.as_str(), inner) {
                        ("matchLabels" | "labels" | "nodeSelector", Value::Object(labels)) => {
                            self.labels(labels)
                        }
                        ("key" | "topologyKey", Value::String(key)) => self.key(key).into(),
                        ("matchLabelKeys" | "mismatchLabelKeys", Value::Array(keys)) => {
                            keys.iter().filter_map(Value::as_str).map(|key| self.key(key)).collect()
                        }
                        ("value", Value::String(text)) => {
                            self.value(key.unwrap_or_default(), text).into()
                        }
                        ("values", Value::Array(values)) => {
                            let texts = values.iter().filter_map(Value::as_str);
                            texts.map(|text| self.value(key.unwrap_or_default(), text)).collect()
                        }
                        ("namespaces", Value::Array(names)) => {
                            let names = names.iter().filter_map(Value::as_str);
                            names.map(|name| self.made_up("namespace", name)).collect()
                        }
                        ("annotations", Value::Object(_)) => json!({}),
                        _ => self.scrub(inner),
                    };
                    (field.clone(), scrubbed)
                });
                Value::Object(scrubbed.collect())
            }
            other => other.clone(),
        }
    }

    fn labels(&mut self, labels: &Map<String, Value>) -> Value {
        let made_up = labels.iter().filter_map(|(key, value)| {
            let value = self.value(key, value.as_str()?);
            Some((self.key(key), value.into()))
        });
        Value::Object(made_up.collect())
    }

    fn key(&mut self, key: &str) -> String {
        if is_about_machines(key) || COMMON.contains(&key) || key.is_empty() {
            return key.to_owned();
        }
        self.made_up("label", key)
    }

    fn value(&mut self, key: &str, value: &str) -> String {
        // Numbers are compared, and tell nothing.
        if is_about_machines(key) || value.is_empty() || value.parse::<i64>().is_ok() {
            return value.to_owned();
        }
        match key {
            "kubernetes.io/metadata.name" => self.made_up("namespace", value),
            "karpenter.sh/nodepool" => self.made_up("nodepool", value),
            _ => self.made_up("value", value),
        }
    }

    fn priority(&mut self, class: &str) -> String {
        if class.starts_with("system-") {
            class.to_owned()
        } else {
            self.made_up("priority", class)
        }
    }

    fn made_up(&mut self, what: &str, name: &str) -> String {
        if EVERYWHERE.contains(&name) && matches!(what, "namespace" | "nodepool") {
            return name.to_owned();
        }
        let names = self.0.entry(what.to_owned()).or_default();
        let next = names.len() + 1;
        names.entry(name.to_owned()).or_insert_with(|| format!("{what}-{next}")).clone()
    }
}

fn is_about_machines(key: &str) -> bool {
    MACHINES.iter().any(|known| key.starts_with(known))
}

fn copy(from: &Value, to: &mut Value, fields: &[&str]) {
    for field in fields.iter().filter(|field| !from[**field].is_null()) {
        to[*field] = from[*field].clone();
    }
}
