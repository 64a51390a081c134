use serde_json::{Value, json};

use super::apply;
use crate::kinds;

/// Applies the defaults of `plural`, twice, for they must not change again.
fn defaulted(plural: &str, mut value: Value) -> Value {
    let kind = kinds::builtin().into_iter().find(|kind| kind.plural == plural).expect(plural);
    apply(&kind, &mut value);
    let mut again = value.clone();
    apply(&kind, &mut again);
    assert_eq!(again, value, "the second time changes something");
    value
}

#[test]
fn pod_is_filled_in() {
    let pod = json!({"spec": {"serviceAccountName": "builder", "containers": [
        {"name": "c", "image": "perl:5.34.0", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}},
         "ports": [{"containerPort": 80}],
         "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                 {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
         "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5},
         "readinessProbe": {"grpc": {"port": 80}},
         "lifecycle": {"preStop": {"httpGet": {"port": 80}}}},
    ]}});
    assert_eq!(
        defaulted("pods", pod)["spec"],
        json!({
            "serviceAccount": "builder",
            "serviceAccountName": "builder",
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": true,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "containers": [{
                "name": "c",
                "image": "perl:5.34.0",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {
                    "limits": {"cpu": "500m", "memory": "1Gi"},
                    "requests": {"cpu": "500m", "memory": "1Gi"},
                },
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [
                    {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
                    {"name": "B", "valueFrom": {"resourceFieldRef": {"divisor": "0", "resource": "limits.cpu"}}},
                ],
                "livenessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1, "periodSeconds": 5, "successThreshold": 1, "failureThreshold": 3},
                "readinessProbe": {"grpc": {"port": 80, "service": ""},
                    "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
                "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}}},
            }],
        })
    );
}

#[test]
fn pull_policy_follows_the_tag() {
    for (image, policy) in [
        ("ubuntu", "Always"),
        ("ubuntu:latest", "Always"),
        ("registry.example:5000/ubuntu", "Always"),
        ("registry.example:5000/ubuntu:24.04", "IfNotPresent"),
        ("ubuntu@sha256:aa", "IfNotPresent"),
        ("ubuntu:latest@sha256:aa", "Always"),
    ] {
        assert_eq!(super::container::pull_policy(image), policy, "{image}");
    }
}

#[test]
fn host_network_claims_host_ports_on_pods_only() {
    let spec = json!({"hostNetwork": true,
        "containers": [{"name": "c", "image": "a:1", "ports": [{"containerPort": 80}]}]});
    let pod = defaulted("pods", json!({"spec": spec}));
    assert_eq!(pod["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
    let set = defaulted("daemonsets", json!({"spec": {"template": {"spec": spec}}}));
    let port = &set["spec"]["template"]["spec"]["containers"][0]["ports"][0];
    assert_eq!(*port, json!({"containerPort": 80, "protocol": "TCP"}));
}

#[test]
fn templates_keep_silent_requests() {
    let template = json!({"spec": {"containers": [
        {"name": "c", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}]}});
    let set = defaulted("replicasets", json!({"spec": {"template": template}}));
    let template = &set["spec"]["template"];
    assert_eq!(template["spec"]["containers"][0]["resources"], json!({"limits": {"cpu": "1"}}));
    assert_eq!(template["spec"]["enableServiceLinks"], Value::Null);
    assert_eq!(template["metadata"], json!({}));
}

#[test]
fn pod_level_requests_come_from_containers_else_from_limits() {
    let pod = defaulted(
        "pods",
        json!({"spec": {
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
                {"name": "init", "resources": {"requests": {"cpu": "1"}}},
            ],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "300m"}}}],
        }}),
    );
    assert_eq!(pod["spec"]["resources"]["requests"], json!({"cpu": "1100m", "memory": "1Gi"}));
}

#[test]
fn quantities_become_canonical() {
    for (given, text) in [
        (json!("0.5"), "500m"),
        (json!("1000m"), "1"),
        (json!(2), "2"),
        (json!(1.5), "1500m"),
        (json!("100u"), "1m"),
        (json!("1000Mi"), "1000Mi"),
        (json!("500mm"), "500mm"),
        (json!("-1"), "-1"),
    ] {
        let resources = json!({"requests": {"x": given}});
        let pod = defaulted("pods", json!({"spec": {"containers": [{"resources": resources}]}}));
        let got = &pod["spec"]["containers"][0]["resources"]["requests"]["x"];
        assert_eq!(*got, text, "{given}");
    }
}

#[test]
fn volumes_are_filled_in() {
    for (given, expected) in [
        (json!({"name": "v"}), json!({"name": "v", "emptyDir": {}})),
        (json!({"secret": {}}), json!({"secret": {"defaultMode": 420}})),
        (json!({"configMap": {"defaultMode": 256}}), json!({"configMap": {"defaultMode": 256}})),
        (json!({"hostPath": {"path": "/"}}), json!({"hostPath": {"path": "/", "type": ""}})),
        (
            json!({"projected": {"sources": [
                {"serviceAccountToken": {"path": "t"}},
                {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ]}}),
            json!({"projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                {"downwardAPI": {"items": [{"path": "l",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}]}},
            ]}}),
        ),
        (
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}}}),
            json!({"ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec":
                {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}}}}}),
        ),
    ] {
        let pod = defaulted("pods", json!({"spec": {"volumes": [given]}}));
        assert_eq!(pod["spec"]["volumes"][0], expected);
    }
}

#[test]
fn workload_specs_are_filled_in() {
    for (plural, given, expected) in [
        (
            "deployments",
            json!({}),
            json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}}),
        ),
        (
            "deployments",
            json!({"replicas": 0, "strategy": {"type": "Recreate"}}),
            json!({"replicas": 0, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "strategy": {"type": "Recreate"}}),
        ),
        ("replicasets", json!({}), json!({"replicas": 1})),
        (
            "statefulsets",
            json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}),
            json!({"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                "volumeClaimTemplates": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": {"name": "data"}, "spec": {"volumeMode": "Filesystem", "resources": {}},
                    "status": {"phase": "Pending"}}]}),
        ),
        (
            "daemonsets",
            json!({}),
            json!({"revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}),
        ),
        (
            "jobs",
            json!({}),
            json!({"completions": 1, "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
                "suspend": false, "podReplacementPolicy": "TerminatingOrFailed", "manualSelector": false}),
        ),
        (
            "jobs",
            json!({"parallelism": 3, "podFailurePolicy": {}, "backoffLimitPerIndex": 1}),
            json!({"parallelism": 3, "podFailurePolicy": {}, "backoffLimitPerIndex": 1,
                "backoffLimit": 2_147_483_647, "completionMode": "NonIndexed",
                "suspend": false, "podReplacementPolicy": "Failed", "manualSelector": false}),
        ),
        (
            "cronjobs",
            json!({}),
            json!({"concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1}),
        ),
    ] {
        let mut spec = defaulted(plural, json!({"spec": given}))["spec"].take();
        let spec = spec.as_object_mut().expect("a spec");
        for template in ["template", "jobTemplate"] {
            spec.remove(template);
        }
        assert_eq!(json!(spec), expected, "{plural}");
    }
}

#[test]
fn objects_without_labels_take_those_of_their_template() {
    let template = json!({"metadata": {"labels": {"app": "pi"}}, "spec": {}});
    let job = defaulted("jobs", json!({"spec": {"template": template}}));
    assert_eq!(job["metadata"]["labels"], json!({"app": "pi"}));
    let set = defaulted("replicationcontrollers", json!({"spec": {"template": template}}));
    assert_eq!(set["metadata"]["labels"], json!({"app": "pi"}));
    assert_eq!(set["spec"]["selector"], json!({"app": "pi"}));
    let own = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"template": template}});
    assert_eq!(defaulted("jobs", own)["metadata"]["labels"], json!({"a": "b"}));
}

#[test]
fn other_kinds_are_filled_in() {
    for (plural, given, expected) in [
        (
            "services",
            json!({"spec": {"ports": [{"port": 80}], "type": "LoadBalancer", "sessionAffinity": "ClientIP"}}),
            json!({"spec": {"ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}],
                "type": "LoadBalancer", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster",
                "allocateLoadBalancerNodePorts": true}}),
        ),
        (
            "services",
            json!({"spec": {"type": "ExternalName", "externalName": "a.example"}}),
            json!({"spec": {"type": "ExternalName", "externalName": "a.example", "sessionAffinity": "None"}}),
        ),
        (
            "secrets",
            json!({"stringData": {"a": "b"}}),
            json!({"type": "Opaque", "data": {"a": "Yg=="}}),
        ),
        (
            "namespaces",
            json!({"metadata": {"name": "x"}}),
            json!({"metadata": {"name": "x", "labels": {"kubernetes.io/metadata.name": "x"}}}),
        ),
        (
            "persistentvolumeclaims",
            json!({"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}),
            json!({"spec": {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        (
            "persistentvolumes",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/d"}}}),
            json!({"spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/d", "type": ""},
                "volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"}}),
        ),
        (
            "storageclasses",
            json!({"provisioner": "p"}),
            json!({"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        ),
        (
            "priorityclasses",
            json!({"preemptionPolicy": "Never", "value": -10}),
            json!({"preemptionPolicy": "Never", "value": -10}),
        ),
        (
            "horizontalpodautoscalers",
            json!({"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}}),
            json!({"spec": {"minReplicas": 1,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}],
            "behavior": {
                "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15}]},
                "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [
                    {"type": "Percent", "value": 100, "periodSeconds": 15}]},
            }}}),
        ),
        (
            "networkpolicies",
            json!({"spec": {"egress": [{"ports": [{"port": 53}]}]}}),
            json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"],
                "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}]}}),
        ),
        (
            "limitranges",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Gi"}}]}}),
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Gi"},
                "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Gi"}}]}}),
        ),
        (
            "clusterrolebindings",
            json!({"roleRef": {"kind": "ClusterRole", "name": "a"}, "subjects": [
                {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
            json!({"roleRef": {"kind": "ClusterRole", "name": "a", "apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                    {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
        ),
    ] {
        assert_eq!(defaulted(plural, given), expected, "{plural}");
    }
}

#[test]
fn wrong_shapes_are_left_for_others_to_refuse() {
    for plural in ["pods", "deployments", "jobs", "services", "secrets", "limitranges"] {
        for spec in [json!(3), json!([]), json!("x"), json!({"template": 1, "containers": 2})] {
            defaulted(plural, json!({"metadata": [], "spec": spec, "data": 4, "stringData": 5}));
        }
    }
}
