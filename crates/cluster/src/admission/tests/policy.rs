//! ValidatingAdmissionPolicies and their bindings.

use super::*;

fn policy(name: &str, rule: &Value, validation: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [validation],
    }})
}

fn binding(policy: &str, spec: Value) -> Value {
    let mut binding = json!({"metadata": {"name": format!("{policy}-binding")}, "spec": {
        "policyName": policy, "validationActions": ["Deny"],
    }});
    for (field, value) in spec.as_object().unwrap() {
        binding["spec"][field] = value.clone();
    }
    binding
}

fn rule(operation: &str, group: &str, resource: &str) -> Value {
    json!({"operations": [operation], "apiGroups": [group], "apiVersions": ["*"],
           "resources": [resource]})
}

const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";

fn node(name: &str, registration: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"registration": registration}}})
}

#[tokio::test(start_paused = true)]
async fn a_policy_holds_while_it_is_bound() {
    let cluster = cluster();
    let validation = json!({"expression": "object.metadata.labels.registration != 'fail'"});
    let no_nodes = policy("no-nodes", &rule("CREATE", "", "nodes"), &validation);
    create(&cluster, POLICIES, "", no_nodes).unwrap();
    create(&cluster, "nodes", "", node("a", "fail")).expect("nothing is bound yet");
    create(&cluster, BINDINGS, "", binding("no-nodes", json!({}))).unwrap();
    let (code, message) = refusal(&cluster, "nodes", "", node("b", "fail"));
    assert_eq!(code, 422);
    assert_eq!(
        message,
        "nodes \"b\" is forbidden: ValidatingAdmissionPolicy 'no-nodes' with binding \
         'no-nodes-binding' denied request: failed expression: \
         object.metadata.labels.registration != 'fail'"
    );
    create(&cluster, "nodes", "", node("b", "ok")).unwrap();
    let dry_run = WriteOptions { dry_run: true };
    let kind = cluster.kind("", "nodes").unwrap();
    let dry = cluster.create_object(&kind, "", node("c", "fail"), dry_run);
    assert_eq!(dry.unwrap_err().code, 422, "a dry run is asked about too");
    let kind = cluster.kind("admissionregistration.k8s.io", BINDINGS).unwrap();
    let options = DeleteOptions::default();
    cluster.delete_object(&kind, "", "no-nodes-binding", &options).unwrap();
    create(&cluster, "nodes", "", node("c", "fail")).expect("it is bound no longer");
}

#[tokio::test(start_paused = true)]
async fn rules_tell_status_from_object_and_selectors_whom() {
    let cluster = cluster();
    let no_status = policy(
        "no-status",
        &rule("UPDATE", "", "nodes/status"),
        &json!({"expression": "false", "message": "hands off", "reason": "Forbidden"}),
    );
    create(&cluster, POLICIES, "", no_status).unwrap();
    let chosen =
        json!({"matchResources": {"objectSelector": {"matchLabels": {"registration": "x"}}}});
    create(&cluster, BINDINGS, "", binding("no-status", chosen)).unwrap();
    for name in ["x", "y"] {
        create(&cluster, "nodes", "", node(name, name)).unwrap();
    }
    let kind = cluster.kind("", "nodes").unwrap();
    let touch = |name: &str, part: Part| {
        cluster.update_object(&kind, "", name, part, WriteOptions::default(), |old| {
            let mut new = old.value.clone();
            match part {
                Part::Status => new["status"]["phase"] = "Running".into(),
                _ => new["metadata"]["labels"]["more"] = "yes".into(),
            }
            Ok(new)
        })
    };
    let refused = touch("x", Part::Status).unwrap_err();
    assert_eq!((refused.code, refused.reason), (403, "Forbidden"));
    assert!(refused.message.ends_with("denied request: hands off"), "{}", refused.message);
    touch("y", Part::Status).expect("it is not selected");
    touch("x", Part::Main).expect("only its status is guarded");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_evaluated_denies_unless_it_is_to_be_ignored() {
    let cluster = cluster();
    let broken = json!({"expression": "object.spec.nothing > 1"});
    let mut strict = policy("strict", &rule("DELETE", "*", "configmaps"), &broken);
    create(&cluster, "configmaps", "default", json!({"metadata": {"name": "c"}})).unwrap();
    create(&cluster, POLICIES, "", strict.clone()).unwrap();
    create(&cluster, BINDINGS, "", binding("strict", json!({}))).unwrap();
    let kind = cluster.kind("", "configmaps").unwrap();
    let delete = || cluster.delete_object(&kind, "default", "c", &DeleteOptions::default());
    let refused = delete().unwrap_err().message;
    assert!(
        refused.contains("expression 'object.spec.nothing > 1' resulted in error"),
        "{refused}"
    );
    strict["spec"]["failurePolicy"] = "Ignore".into();
    let policies = cluster.kind("admissionregistration.k8s.io", POLICIES).unwrap();
    cluster
        .update_object(&policies, "", "strict", Part::Main, WriteOptions::default(), |_| {
            Ok(strict.clone())
        })
        .unwrap();
    delete().unwrap();
}

#[tokio::test(start_paused = true)]
async fn mistakes_are_named() {
    let cluster = cluster();
    let bad = policy("bad", &rule("CREATE", "", "pods"), &json!({"expression": "object.+"}));
    let (code, message) = refusal(&cluster, POLICIES, "", bad);
    assert_eq!(code, 422);
    assert!(message.contains("spec.validations[0].expression: Invalid value"), "{message}");
    let (_, message) =
        refusal(&cluster, BINDINGS, "", json!({"metadata": {"name": "b"}, "spec": {}}));
    assert!(message.contains("spec.policyName: Required value"), "{message}");
    assert!(message.contains("spec.validationActions: Required value"), "{message}");
}
