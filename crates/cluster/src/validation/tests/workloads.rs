use serde_json::{Value, json};

use super::{create, update, with};

fn template(restart: &str) -> Value {
    json!({"metadata": {"labels": {"app": "a"}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "a:1"}]}})
}

fn workload() -> Value {
    json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template("Always")}})
}

fn job() -> Value {
    let labels = json!({"batch.kubernetes.io/controller-uid": "u1", "batch.kubernetes.io/job-name": "x",
        "controller-uid": "u1", "job-name": "x"});
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}});
    with(
        json!({"spec": {"selector": selector, "template": template("Never")}}),
        "/spec/template/metadata/labels",
        labels,
    )
}

#[test]
fn workloads_select_their_template() {
    for (plural, kind) in [
        ("deployments", "deployment"),
        ("replicasets", "deployment"),
        ("statefulsets", "statefulset"),
        ("daemonsets", "daemonset"),
    ] {
        assert_eq!(create(plural, workload()), [""; 0], "{plural}");
        let mismatch = with(workload(), "/spec/selector/matchLabels/app", json!("b"));
        assert_eq!(
            create(plural, mismatch),
            ["spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not \
              match template `labels`"],
            "{plural}"
        );
        let empty = with(workload(), "/spec/selector", json!({}));
        assert_eq!(
            create(plural, empty),
            [format!("spec.selector: Invalid value: {{}}: empty selector is invalid for {kind}")]
        );
        let changed = with(
            with(workload(), "/spec/selector/matchLabels/app", json!("b")),
            "/spec/template/metadata/labels/app",
            json!("b"),
        );
        let errors = update(plural, workload(), changed);
        if plural == "statefulsets" {
            assert_eq!(
                errors,
                ["spec: Forbidden: updates to statefulset spec for fields other than 'replicas', \
                  'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', \
                  'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"]
            );
        } else {
            assert_eq!(
                errors,
                ["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is \
                  immutable"]
            );
        }
    }
    let missing = with(workload(), "/spec/selector", json!(null));
    assert_eq!(create("deployments", missing), ["spec.selector: Required value"]);
}

#[test]
fn workload_specs_are_checked() {
    for (plural, pointer, value, expected) in [
        (
            "deployments",
            "/spec/replicas",
            json!(-1),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "deployments",
            "/spec/template/spec/restartPolicy",
            json!("Never"),
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ),
        (
            "deployments",
            "/spec/strategy",
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            "deployments",
            "/spec/strategy",
            json!({"type": "Recreate", "rollingUpdate": {}}),
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "deployments",
            "/spec/strategy",
            json!({"type": "Fast"}),
            "spec.strategy: Unsupported value: {\"type\":\"Fast\"}: supported values: \"Recreate\", \"RollingUpdate\"",
        ),
        (
            "deployments",
            "/spec/minReadySeconds",
            json!(600),
            "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
        ),
        (
            "deployments",
            "/spec/template/spec/containers/0/image",
            json!(""),
            "spec.template.spec.containers[0].image: Required value",
        ),
        (
            "daemonsets",
            "/spec/updateStrategy",
            json!({"rollingUpdate": {"maxUnavailable": 0}}),
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
        ),
        (
            "statefulsets",
            "/spec/podManagementPolicy",
            json!("Random"),
            "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
        ),
    ] {
        assert_eq!(create(plural, with(workload(), pointer, value)), [expected]);
    }
}

#[test]
fn claims_of_a_stateful_set_can_be_mounted() {
    let mounts = json!([{"name": "data", "mountPath": "/data"}]);
    let set = with(workload(), "/spec/template/spec/containers/0/volumeMounts", mounts);
    assert_eq!(
        create("statefulsets", set.clone()),
        ["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\""]
    );
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let set = with(set, "/spec/volumeClaimTemplates", json!([claim]));
    assert_eq!(create("statefulsets", set), [""; 0]);
}

#[test]
fn jobs_are_checked() {
    assert_eq!(create("jobs", job()), [""; 0]);
    for (pointer, value, expected) in [
        (
            "/spec/template/spec/restartPolicy",
            json!(null),
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            "/spec/completions",
            json!(-1),
            "spec.completions: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "/spec/completionMode",
            json!("Indexed"),
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            "/spec/backoffLimitPerIndex",
            json!(1),
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        ),
    ] {
        let mut job = with(job(), pointer, value);
        if pointer == "/spec/completionMode" {
            job["spec"]["parallelism"] = 2.into();
        }
        assert_eq!(create("jobs", job), [expected]);
    }
    let own = with(job(), "/spec/template/metadata/labels/job-name", json!("y"));
    let errors = create("jobs", own);
    assert!(errors[0].starts_with("spec.template.metadata.labels[job-name]: Invalid value: {"));
    assert!(errors[0].ends_with("}: must be 'x'"), "{}", errors[0]);
}

#[test]
fn the_template_of_a_job_stays() {
    let changed = |base: Value| with(base, "/spec/template/spec/nodeSelector", json!({"a": "b"}));
    let errors = update("jobs", job(), changed(job()));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("spec.template: Invalid value: {"), "{}", errors[0]);
    assert!(errors[0].ends_with("}: field is immutable"), "{}", errors[0]);
    let suspended = with(job(), "/spec/suspend", json!(true));
    assert_eq!(update("jobs", suspended.clone(), changed(suspended)), [""; 0]);
    let more = with(job(), "/spec/parallelism", json!(3));
    assert_eq!(update("jobs", with(job(), "/spec/parallelism", json!(1)), more), [""; 0]);
    let complete = with(job(), "/spec/completions", json!(3));
    assert_eq!(
        update("jobs", with(job(), "/spec/completions", json!(1)), complete),
        ["spec.completions: Invalid value: 3: field is immutable"]
    );
}

#[test]
fn cron_jobs_are_checked() {
    let cron = |schedule: &str| json!({"spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": template("Never")}}}});
    for (schedule, why) in [
        ("*/5 0-6,12 * jan-mar mon", None),
        ("@hourly", None),
        ("* * *", Some("expected exactly 5 fields, found 3: [* * *]")),
        ("61 * * * *", Some("end of range (61) above maximum (59): 61")),
        (
            "x * * * *",
            Some("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ),
        ("@often", Some("unrecognized descriptor: @often")),
    ] {
        let expected: Vec<String> = why
            .map(|why| format!("spec.schedule: Invalid value: \"{schedule}\": {why}"))
            .into_iter()
            .collect();
        assert_eq!(create("cronjobs", cron(schedule)), expected);
    }
    let zone = with(cron("@daily"), "/spec/timeZone", json!("Mars/Olympus"));
    assert_eq!(
        create("cronjobs", zone),
        ["spec.timeZone: Invalid value: \"Mars/Olympus\": unknown time zone Mars/Olympus"]
    );
    let long = with(cron("@daily"), "/metadata/name", json!("x".repeat(53)));
    assert!(create("cronjobs", long)[0].ends_with("must be no more than 52 characters"));
}
