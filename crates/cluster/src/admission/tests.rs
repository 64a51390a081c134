use std::sync::Arc;

use aerostat_clock::{Clock, Seeds};
use serde_json::{Value, json};

use crate::registry::{DeleteOptions, Part, WriteOptions};
use crate::store::Object;
use crate::{Cluster, Options, Status};

mod policy;

fn cluster() -> Cluster {
    let clock = Clock::simulated("2025-01-06T07:51:22Z".parse().unwrap());
    let cluster = Cluster::new(&Options { clock, seeds: Seeds::new(1) });
    crate::bootstrap::run(&cluster, "CA").unwrap();
    cluster
}

fn create(
    cluster: &Cluster,
    plural: &str,
    namespace: &str,
    value: Value,
) -> Result<Arc<Object>, Status> {
    let kind = cluster.kinds().into_iter().find(|kind| kind.plural == plural).expect(plural);
    cluster.create_object(&kind, namespace, value, WriteOptions::default())
}

fn pod(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "q"}, "spec": {
        "containers": [{"name": "c", "image": "a:1"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn refusal(cluster: &Cluster, plural: &str, namespace: &str, value: Value) -> (u16, String) {
    let status = create(cluster, plural, namespace, value).expect_err("it must be refused");
    (status.code, status.message)
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_account_priority_tolerations_and_status() {
    let cluster = cluster();
    let object = create(&cluster, "pods", "default", pod(json!({}))).unwrap();
    let spec = &object.value["spec"];
    let name = spec["volumes"][0]["name"].as_str().unwrap();
    assert_eq!(name.len(), "kube-api-access-xxxxx".len());
    assert_eq!(
        spec["volumes"][0]["projected"],
        json!({"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]})
    );
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([{"name": name, "readOnly": true,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}])
    );
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    assert_eq!(spec["priority"], 0);
    assert_eq!(spec["preemptionPolicy"], "PreemptLowerPriority");
    let toleration = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    assert_eq!(
        spec["tolerations"],
        json!([
            toleration("node.kubernetes.io/not-ready"),
            toleration("node.kubernetes.io/unreachable")
        ])
    );
    assert_eq!(object.value["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(object.value["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn own_tolerations_and_automount_are_respected() {
    let cluster = cluster();
    let spec = json!({
        "automountServiceAccountToken": false,
        "tolerations": [{"operator": "Exists"}],
    });
    let object = create(&cluster, "pods", "default", pod(spec)).unwrap();
    assert_eq!(object.value["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(object.value["spec"]["volumes"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn refusals_have_the_words_of_kubernetes() {
    let cluster = cluster();
    let mut generated = pod(json!({"serviceAccountName": "nope"}));
    generated["metadata"] = json!({"generateName": "web-"});
    for (value, code, message) in [
        (
            pod(json!({"priorityClassName": "nope"})),
            403,
            r#"pods "q" is forbidden: no PriorityClass with name nope was found"#,
        ),
        (
            pod(json!({"priority": 7})),
            403,
            "pods \"q\" is forbidden: the integer value of priority (7) must not be provided in \
             pod spec; priority admission controller computed 0 from the given PriorityClass name",
        ),
        (
            generated,
            403,
            "pods \"web-\" is forbidden: error looking up service account default/nope: \
             serviceaccount \"nope\" not found",
        ),
        (
            pod(json!({"runtimeClassName": "nope"})),
            403,
            r#"pods "q" is forbidden: pod rejected: RuntimeClass "nope" not found"#,
        ),
    ] {
        assert_eq!(refusal(&cluster, "pods", "default", value), (code, message.to_owned()));
    }
    let missing = refusal(&cluster, "pods", "nope", pod(json!({})));
    assert_eq!(missing, (404, r#"namespaces "nope" not found"#.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn nothing_new_enters_a_namespace_that_ends() {
    let cluster = cluster();
    create(&cluster, "namespaces", "", json!({"metadata": {"name": "x"}})).unwrap();
    let kind = cluster.kind("", "namespaces").unwrap();
    cluster.delete_object(&kind, "", "x", &DeleteOptions::default()).unwrap();
    let status =
        create(&cluster, "configmaps", "x", json!({"metadata": {"name": "c"}})).unwrap_err();
    assert_eq!(
        status.message,
        "configmaps \"c\" is forbidden: unable to create new content in namespace x because it is \
         being terminated"
    );
    let causes = &status.details.unwrap()["causes"];
    assert_eq!(causes[0]["reason"], "NamespaceTerminating");
    let status = cluster.delete_object(&kind, "", "default", &DeleteOptions::default());
    let message = r#"namespaces "default" is forbidden: this namespace may not be deleted"#;
    assert_eq!(status.unwrap_err().message, message);
}

#[tokio::test(start_paused = true)]
async fn priority_classes_resolve_and_only_one_is_the_default() {
    let cluster = cluster();
    let class = |name: &str, value: i64, rest: Value| {
        let mut class = json!({"metadata": {"name": name}, "value": value});
        class.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        class
    };
    let balloon = class("balloon", -10, json!({"preemptionPolicy": "Never"}));
    create(&cluster, "priorityclasses", "", balloon).unwrap();
    let default = class("standard", 5, json!({"globalDefault": true}));
    create(&cluster, "priorityclasses", "", default).unwrap();
    let second = class("other", 1, json!({"globalDefault": true}));
    assert_eq!(
        refusal(&cluster, "priorityclasses", "", second).1,
        "priorityclasses.scheduling.k8s.io \"other\" is forbidden: PriorityClass standard is \
         already marked as default. Only one default can exist"
    );
    for (given, name, priority, policy) in [
        (json!({"priorityClassName": "balloon"}), "balloon", -10, "Never"),
        (json!({}), "standard", 5, "PreemptLowerPriority"),
        (
            json!({"priorityClassName": "system-node-critical"}),
            "system-node-critical",
            2_000_001_000,
            "PreemptLowerPriority",
        ),
    ] {
        let mut value = pod(given);
        value["metadata"]["name"] = name.into();
        let object = create(&cluster, "pods", "default", value).unwrap();
        let spec = &object.value["spec"];
        assert_eq!(spec["priorityClassName"], name);
        assert_eq!(spec["priority"], priority);
        assert_eq!(spec["preemptionPolicy"], policy);
    }
}

#[tokio::test(start_paused = true)]
async fn quality_of_service_follows_requests_and_limits() {
    let cluster = cluster();
    let cases = [
        (json!({}), "BestEffort"),
        (
            json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}),
            "BestEffort",
        ),
        (json!({"requests": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
        (
            json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}),
            "Burstable",
        ),
    ];
    for (i, (resources, class)) in cases.into_iter().enumerate() {
        let mut value = pod(json!({}));
        value["metadata"]["name"] = format!("p{i}").into();
        value["spec"]["containers"][0]["resources"] = resources;
        let object = create(&cluster, "pods", "default", value).unwrap();
        assert_eq!(object.value["status"]["qosClass"], class, "case {i}");
    }
}

#[tokio::test(start_paused = true)]
async fn gates_and_label_keys_are_prepared() {
    let cluster = cluster();
    let mut value = pod(json!({
        "schedulingGates": [{"name": "wait.example/for-it"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}},
            "matchLabelKeys": ["hash", "absent"]}],
    }));
    value["metadata"]["labels"] = json!({"app": "a", "hash": "1"});
    let object = create(&cluster, "pods", "default", value).unwrap();
    let condition = &object.value["status"]["conditions"][0];
    assert_eq!(condition["reason"], "SchedulingGated");
    assert_eq!(condition["lastTransitionTime"], "2025-01-06T07:51:22Z");
    assert_eq!(
        object.value["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"],
        json!([{"key": "hash", "operator": "In", "values": ["1"]}])
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_selects_its_pods_by_uid() {
    let cluster = cluster();
    let spec = json!({"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "pi", "image": "perl:5.34.0"}]}}});
    let job = json!({"metadata": {"name": "pi"}, "spec": spec});
    let object = create(&cluster, "jobs", "default", job).unwrap();
    let uid = object.uid();
    let labels = json!({
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "pi",
        "controller-uid": uid,
        "job-name": "pi",
    });
    let value = &object.value;
    assert_eq!(value["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(value["metadata"]["labels"], labels);
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    assert_eq!(value["spec"]["selector"], selector);
    assert_eq!(value["status"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn kinds_start_with_their_status() {
    let cluster = cluster();
    let object = create(&cluster, "namespaces", "", json!({"metadata": {"name": "x"}})).unwrap();
    assert_eq!(object.value["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(object.value["status"], json!({"phase": "Active"}));
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}});
    let object = create(&cluster, "nodes", "", node).unwrap();
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    assert_eq!(object.value["spec"]["taints"], json!([taint]));
    assert_eq!(object.value["status"]["allocatable"], json!({"cpu": "2"}));
}

#[tokio::test(start_paused = true)]
async fn claims_get_the_newest_default_class_and_a_finalizer() {
    let cluster = cluster();
    for name in ["b", "a"] {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let class =
            json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": "p"});
        create(&cluster, "storageclasses", "", class).unwrap();
    }
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let object = create(&cluster, "persistentvolumeclaims", "default", claim).unwrap();
    assert_eq!(object.value["spec"]["storageClassName"], "a");
    assert_eq!(object.value["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert_eq!(object.value["status"], json!({"phase": "Pending"}));
}

#[tokio::test(start_paused = true)]
async fn services_get_addresses_and_ports_and_keep_them() {
    let cluster = cluster();
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let ports = json!([{"port": 80, "name": "http"}]);
    let spec = json!({"selector": {"a": "b"}, "ports": ports, "type": "NodePort"});
    let object = create(&cluster, "services", "default", service("web", spec)).unwrap();
    let given = object.value["spec"].clone();
    let address = given["clusterIP"].as_str().unwrap();
    assert!(address.starts_with("10.96."), "{address}");
    assert_eq!(given["clusterIPs"], json!([address]));
    assert_eq!(given["ipFamilies"], json!(["IPv4"]));
    assert_eq!(given["ipFamilyPolicy"], "SingleStack");
    let port = given["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&port), "{port}");

    let kind = cluster.kind("", "services").unwrap();
    let put = |name: &str, spec: Value| {
        let options = WriteOptions::default();
        cluster.update_object(&kind, "default", name, Part::Main, options, |_| {
            Ok(service(name, spec.clone()))
        })
    };
    let spec = json!({"selector": {"a": "c"}, "ports": ports, "type": "NodePort"});
    let updated = put("web", spec).unwrap();
    assert_eq!(updated.value["spec"]["clusterIP"], given["clusterIP"]);
    assert_eq!(updated.value["spec"]["ports"], given["ports"]);

    for (spec, message) in [
        (
            json!({"clusterIP": address, "ports": ports}),
            format!(
                "Service \"other\" is invalid: spec.clusterIPs: Invalid value: [\"{address}\"]: \
                 failed to allocate IP {address}: provided IP is already allocated"
            ),
        ),
        (
            json!({"clusterIP": "10.1.1.1", "ports": ports}),
            "Service \"other\" is invalid: spec.clusterIPs: Invalid value: [\"10.1.1.1\"]: failed \
             to allocate IP 10.1.1.1: the provided IP (10.1.1.1) is not in the valid range. The \
             range of valid IPs is 10.96.0.0/16"
                .to_owned(),
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}),
            format!(
                "Service \"other\" is invalid: spec.ports[0].nodePort: Invalid value: {port}: \
                 provided port is already allocated"
            ),
        ),
    ] {
        let refused = refusal(&cluster, "services", "default", service("other", spec));
        assert_eq!(refused, (422, message));
    }

    let headless = service("headless", json!({"clusterIP": "None", "selector": {"a": "b"}}));
    let object = create(&cluster, "services", "default", headless).unwrap();
    assert_eq!(object.value["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(object.value["spec"]["ipFamilies"], json!(["IPv4"]));
}

#[tokio::test(start_paused = true)]
async fn limit_ranges_fill_in_and_bound() {
    let cluster = cluster();
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m", "memory": "64Mi"},
         "max": {"cpu": "1"}}]}});
    create(&cluster, "limitranges", "default", range).unwrap();
    let object = create(&cluster, "pods", "default", pod(json!({}))).unwrap();
    assert_eq!(
        object.value["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m", "memory": "64Mi"}})
    );
    assert_eq!(
        object.value["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c"
    );
    let mut big = pod(json!({}));
    big["metadata"]["name"] = "big".into();
    big["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}});
    assert_eq!(
        refusal(&cluster, "pods", "default", big).1,
        r#"pods "big" is forbidden: maximum cpu usage per Container is 1, but limit is 2"#
    );
}

#[tokio::test(start_paused = true)]
async fn quotas_hold() {
    let cluster = cluster();
    let quota = json!({"metadata": {"name": "rq"}, "spec": {"hard": {"pods": "1", "count/jobs.batch": "0"}}});
    create(&cluster, "resourcequotas", "default", quota).unwrap();
    create(&cluster, "pods", "default", pod(json!({}))).unwrap();
    let mut second = pod(json!({}));
    second["metadata"]["name"] = "q2".into();
    assert_eq!(
        refusal(&cluster, "pods", "default", second).1,
        "pods \"q2\" is forbidden: exceeded quota: rq, requested: pods=1, used: pods=1, limited: pods=1"
    );
    let cpu = json!({"metadata": {"name": "cpu"}, "spec": {"hard": {"requests.cpu": "1"}}});
    create(&cluster, "namespaces", "", json!({"metadata": {"name": "x"}})).unwrap();
    create(&cluster, "serviceaccounts", "x", json!({"metadata": {"name": "default"}})).unwrap();
    create(&cluster, "resourcequotas", "x", cpu).unwrap();
    assert_eq!(
        refusal(&cluster, "pods", "x", pod(json!({}))).1,
        "pods \"q\" is forbidden: failed quota: cpu: must specify requests.cpu for: c"
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_update_keeps_what_it_does_not_say() {
    let cluster = cluster();
    create(&cluster, "pods", "default", pod(json!({}))).unwrap();
    let kind = cluster.kind("", "pods").unwrap();
    let options = WriteOptions::default();
    let object = cluster
        .update_object(&kind, "default", "q", Part::Status, options, |_| {
            Ok(json!({"status": {"phase": "Running"}}))
        })
        .unwrap();
    assert_eq!(object.value["status"], json!({"phase": "Running", "qosClass": "BestEffort"}));
}
