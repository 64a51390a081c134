//! Claims that controllers would make for pods.

use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

/// The claims of a pod's ephemeral volumes.
pub fn claims(pod: &core::Pod) -> Vec<Value> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claim = |volume: &core::Volume| {
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        Some(json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": format!("{name}-{}", volume.name)},
            "spec": template.spec,
        }))
    };
    volumes.filter_map(claim).collect()
}

/// The template of a StatefulSet's pods with its claims as volumes of their own: as far as a plan
/// goes they are the same.
pub fn with_claims(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let Some(claims) = spec["volumeClaimTemplates"].as_array().filter(|list| !list.is_empty())
    else {
        return template;
    };
    let own = template["spec"]["volumes"].take();
    let own = own.as_array().cloned().unwrap_or_default();
    let claimed = claims.iter().map(|claim| {
        json!({
            "name": claim["metadata"]["name"],
            "ephemeral": {"volumeClaimTemplate": {"spec": claim["spec"]}},
        })
    });
    let named = |volume: &Value| claims.iter().any(|c| c["metadata"]["name"] == volume["name"]);
    let others = own.into_iter().filter(|volume| !named(volume));
    template["spec"]["volumes"] = claimed.chain(others).collect();
    template
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_template_is_a_volume_of_each_pod() {
        let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}});
        let spec = json!({"volumeClaimTemplates": [claim], "template": {"spec": {
            "containers": [], "volumes": [{"name": "tmp", "emptyDir": {}}]}}});
        let template = with_claims(&spec);
        assert_eq!(template["spec"]["volumes"].as_array().unwrap().len(), 2);
        let pod = json!({"metadata": {"name": "db-0"}, "spec": template["spec"]});
        let claims = claims(&serde_json::from_value(pod).unwrap());
        assert_eq!(claims[0]["metadata"]["name"], "db-0-data");
        assert_eq!(claims[0]["spec"]["storageClassName"], "fast");
        assert_eq!(with_claims(&json!({"template": {"a": 1}})), json!({"a": 1}));
    }
}
