//! What makes pods, and how many.

use serde_json::{Map, Value, json};

use super::volumes;

/// More pods than anybody plans at once; a slip of the finger otherwise.
const MOST: i64 = 1_000_000;

/// The pods that one object makes.
#[derive(Debug, PartialEq)]
pub struct Workload {
    /// The pod's template: metadata and spec.
    pub template: Value,
    /// How many.
    pub count: usize,
}

impl Workload {
    /// The pods of a workload, `None` if the object is none. It must have its defaults.
    ///
    /// # Errors
    ///
    /// If it makes more pods than can be planned.
    pub fn of(object: &Value) -> anyhow::Result<Option<Self>> {
        let spec = &object["spec"];
        let (template, count) = match object["kind"].as_str().unwrap_or_default() {
            "StatefulSet" => (&volumes::with_claims(spec), spec["replicas"].as_i64().unwrap_or(1)),
            "Deployment" | "ReplicaSet" | "ReplicationController" => {
                (&spec["template"], spec["replicas"].as_i64().unwrap_or(1))
            }
            "Job" => (&spec["template"], parallel(spec)),
            "CronJob" => {
                let job = &spec["jobTemplate"]["spec"];
                (&job["template"], parallel(job))
            }
            _ => return Ok(None),
        };
        anyhow::ensure!(count <= MOST, "{count} pods are too many: {MOST} can be planned");
        let count = usize::try_from(count).unwrap_or(0);
        Ok(Some(Self { template: labelled(object, template.clone()), count }))
    }

    /// One of the pods, by the name that it is told by.
    pub fn pod(&self, name: &str) -> Value {
        let mut metadata = self.template["metadata"].as_object().cloned().unwrap_or_default();
        metadata.insert("name".to_owned(), name.into());
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": self.template["spec"],
        })
    }
}

/// How many pods of a Job run at a time.
fn parallel(job: &Value) -> i64 {
    if job["suspend"] == true {
        return 0;
    }
    let left = job["completions"].as_i64().unwrap_or(i64::MAX);
    job["parallelism"].as_i64().unwrap_or(1).min(left)
}

/// The labels that a controller gives its pods, as far as constraints may select on them.
fn labelled(object: &Value, mut template: Value) -> Value {
    let name = object["metadata"]["name"].clone();
    let label = match object["kind"].as_str().unwrap_or_default() {
        "Deployment" | "ReplicaSet" => "pod-template-hash",
        "Job" | "CronJob" => "batch.kubernetes.io/job-name",
        _ => return template,
    };
    if !template["metadata"].is_object() {
        template["metadata"] = Value::Object(Map::new());
    }
    if template["metadata"]["labels"].get(label).is_none() {
        template["metadata"]["labels"][label] = name;
    }
    template
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(object: Value) -> usize {
        Workload::of(&object).unwrap().expect("a workload").count
    }

    #[test]
    fn replicas_and_parallelism_count() {
        assert_eq!(count(json!({"kind": "Deployment", "spec": {"replicas": 3}})), 3);
        assert_eq!(count(json!({"kind": "StatefulSet", "spec": {}})), 1);
        assert_eq!(count(json!({"kind": "ReplicaSet", "spec": {"replicas": 0}})), 0);
        let job = json!({"parallelism": 5, "completions": 3});
        assert_eq!(count(json!({"kind": "Job", "spec": job})), 3);
        assert_eq!(count(json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": job}}})), 3);
        assert_eq!(count(json!({"kind": "Job", "spec": {"suspend": true, "parallelism": 2}})), 0);
        assert_eq!(Workload::of(&json!({"kind": "Service"})).unwrap(), None);
    }

    #[test]
    fn too_many_are_refused() {
        let many = json!({"kind": "Deployment", "spec": {"replicas": 2_000_000_000}});
        assert!(Workload::of(&many).unwrap_err().to_string().contains("2000000000 pods"));
    }

    #[test]
    fn pods_of_a_deployment_have_their_revision_label() {
        let object = json!({"kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"a": 1}}}});
        let pod = Workload::of(&object).unwrap().unwrap().pod("web-0");
        assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "pod-template-hash": "web"}));
        assert_eq!(pod["metadata"]["name"], "web-0");
        assert_eq!(pod["spec"], json!({"a": 1}));
    }
}
