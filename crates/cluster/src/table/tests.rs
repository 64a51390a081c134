use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{cells, columns, conditions};
use crate::kinds::{self, CustomKind, Kind, PrinterColumn};

fn kind(plural: &str) -> Kind {
    kinds::builtin().into_iter().find(|kind| kind.plural == plural).expect(plural)
}

fn now() -> Timestamp {
    "2025-01-06T08:00:00Z".parse().unwrap()
}

/// One row as text, tab between the cells; the object's name is `x`, its age 5 minutes.
fn row(plural: &str, mut object: Value) -> String {
    object["metadata"]["name"] = "x".into();
    object["metadata"]["creationTimestamp"] = "2025-01-06T07:55:00Z".into();
    let kind = kind(plural);
    let cells = cells(&kind, &object, now());
    assert_eq!(cells.len(), columns(&kind).len(), "{plural}");
    let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
    cells.iter().map(text).collect::<Vec<_>>().join("\t")
}

/// The narrow cells of a pod: ready, status, restarts.
fn pod(object: Value) -> String {
    row("pods", object).split('\t').skip(1).take(3).collect::<Vec<_>>().join(" ")
}

fn running(spec: Value, status: Value) -> Value {
    let mut object =
        json!({"spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"}});
    for (part, values) in [("spec", spec), ("status", status)] {
        object[part].as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
    }
    object
}

#[test]
fn headers_are_those_of_kubernetes() {
    for (plural, narrow, wide) in [
        ("pods", "Name,Ready,Status,Restarts,Age", "IP,Node,Nominated Node,Readiness Gates"),
        (
            "nodes",
            "Name,Status,Roles,Age,Version",
            "Internal-IP,External-IP,OS-Image,Kernel-Version,Container-Runtime",
        ),
        ("deployments", "Name,Ready,Up-to-date,Available,Age", "Containers,Images,Selector"),
        ("replicasets", "Name,Desired,Current,Ready,Age", "Containers,Images,Selector"),
        ("statefulsets", "Name,Ready,Age", "Containers,Images"),
        (
            "daemonsets",
            "Name,Desired,Current,Ready,Up-to-date,Available,Node Selector,Age",
            "Containers,Images,Selector",
        ),
        ("jobs", "Name,Status,Completions,Duration,Age", "Containers,Images,Selector"),
        (
            "cronjobs",
            "Name,Schedule,Timezone,Suspend,Active,Last Schedule,Age",
            "Containers,Images,Selector",
        ),
        (
            "events",
            "Last Seen,Type,Reason,Object,Message",
            "Subobject,Source,First Seen,Count,Name",
        ),
        ("priorityclasses", "Name,Value,Global-Default,Age", "PreemptionPolicy"),
        ("poddisruptionbudgets", "Name,Min Available,Max Unavailable,Allowed Disruptions,Age", ""),
        (
            "persistentvolumeclaims",
            "Name,Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age",
            "VolumeMode",
        ),
        ("services", "Name,Type,Cluster-IP,External-IP,Port(s),Age", "Selector"),
        ("customresourcedefinitions", "Name,Created At", ""),
        ("limitranges", "Name,Created At", ""),
    ] {
        let columns = columns(&kind(plural));
        let names = |wide: bool| {
            let of = columns.iter().filter(|column| (column.priority > 0) == wide);
            of.map(|column| column.name.as_str()).collect::<Vec<_>>().join(",")
        };
        assert_eq!((names(false).as_str(), names(true).as_str()), (narrow, wide), "{plural}");
        let named = columns.iter().find(|column| column.name == "Name").unwrap();
        assert_eq!(named.format, "name");
    }
}

#[test]
fn a_column_serializes_to_its_definition() {
    assert_eq!(
        serde_json::to_value(&columns(&kind("namespaces"))[1]).unwrap(),
        json!({"name": "Status", "type": "string", "format": "", "priority": 0,
            "description": "Active, or on its way out."})
    );
}

#[test]
fn pods_have_one_status() {
    let container = |state: Value| json!({"name": "c", "state": state, "restartCount": 0});
    let ready = json!({"name": "c", "ready": true, "state": {"running": {}}, "restartCount": 0});
    let deleted = |mut pod: Value| {
        pod["metadata"] = json!({"deletionTimestamp": "2025-01-06T08:00:30Z"});
        pod
    };
    for (object, expected) in [
        (running(json!({}), json!({"phase": "Pending"})), "0/1 Pending 0"),
        (running(json!({}), json!({"reason": "Evicted", "phase": "Failed"})), "0/1 Evicted 0"),
        (
            running(
                json!({}),
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            ),
            "0/1 SchedulingGated 0",
        ),
        (running(json!({}), json!({"containerStatuses": [ready]})), "1/1 Running 0"),
        (
            running(
                json!({}),
                json!({"containerStatuses": [container(json!({"waiting": {"reason": "ContainerCreating"}}))]}),
            ),
            "0/1 ContainerCreating 0",
        ),
        (
            running(
                json!({}),
                json!({"phase": "Succeeded", "containerStatuses": [
                    container(json!({"terminated": {"reason": "Completed", "exitCode": 0}}))]}),
            ),
            "0/1 Completed 0",
        ),
        (
            running(
                json!({}),
                json!({"phase": "Failed", "containerStatuses": [
                    container(json!({"terminated": {"exitCode": 3}}))]}),
            ),
            "0/1 ExitCode:3 0",
        ),
        (
            running(
                json!({}),
                json!({"phase": "Failed", "containerStatuses": [
                    container(json!({"terminated": {"exitCode": 137, "signal": 9}}))]}),
            ),
            "0/1 Signal:9 0",
        ),
        (deleted(running(json!({}), json!({"containerStatuses": [ready]}))), "1/1 Terminating 0"),
        (deleted(running(json!({}), json!({"phase": "Succeeded"}))), "0/1 Succeeded 0"),
        (deleted(running(json!({}), json!({"reason": "NodeLost"}))), "0/1 Unknown 0"),
        (
            running(
                json!({"initContainers": [{"name": "i"}, {"name": "j"}]}),
                json!({"phase": "Pending", "initContainerStatuses": [
                    {"name": "i", "state": {"running": {}}, "restartCount": 0}]}),
            ),
            "0/1 Init:0/2 0",
        ),
        (
            running(
                json!({"initContainers": [{"name": "i"}]}),
                json!({"phase": "Pending", "initContainerStatuses": [
                    {"name": "i", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 2,
                     "lastState": {"terminated": {"finishedAt": "2025-01-06T07:59:30Z"}}}]}),
            ),
            "0/1 Init:CrashLoopBackOff 2 (30s ago)",
        ),
        (
            running(
                json!({"initContainers": [{"name": "i"}]}),
                json!({"phase": "Failed", "initContainerStatuses": [
                    {"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
            ),
            "0/1 Init:Error 0",
        ),
        (
            // A sidecar counts as a container.
            running(
                json!({"initContainers": [{"name": "side", "restartPolicy": "Always"}]}),
                json!({
                    "initContainerStatuses": [{"name": "side", "started": true, "ready": true,
                        "state": {"running": {}}, "restartCount": 1}],
                    "containerStatuses": [ready]}),
            ),
            "2/2 Running 1",
        ),
        (
            // One container has ended well, the other runs and the pod is not ready.
            running(
                json!({"containers": [{"name": "a"}, {"name": "c"}]}),
                json!({"containerStatuses": [
                    {"name": "a", "state": {"terminated": {"reason": "Completed", "exitCode": 0}}}, ready]}),
            ),
            "1/2 NotReady 0",
        ),
        (
            running(
                json!({}),
                json!({"containerStatuses": [
                    {"name": "c", "ready": true, "state": {"running": {}}, "restartCount": 3,
                     "lastState": {"terminated": {"finishedAt": "2025-01-06T07:55:00Z"}}}]}),
            ),
            "1/1 Running 3 (5m ago)",
        ),
    ] {
        assert_eq!(pod(object.clone()), expected, "{object}");
    }
}

#[test]
fn pods_are_wide() {
    let object = running(
        json!({"nodeName": "n1", "readinessGates": [{"conditionType": "lb"}]}),
        json!({"podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "lb", "status": "True"}]}),
    );
    let wide = row("pods", object);
    assert_eq!(
        wide.split('\t').skip(4).collect::<Vec<_>>(),
        ["5m", "10.0.0.1", "n1", "<none>", "1/1"]
    );
}

#[test]
fn ended_pods_mark_their_row() {
    let phase = |phase: &str| conditions(&kind("pods"), &json!({"status": {"phase": phase}}));
    assert_eq!(
        phase("Succeeded"),
        Some(json!([{"type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully."}]))
    );
    assert_eq!(phase("Failed").unwrap()[0]["message"], "The pod failed.");
    assert_eq!(phase("Running"), None);
    assert_eq!(conditions(&kind("jobs"), &json!({"status": {"phase": "Failed"}})), None);
}

#[test]
fn rows_are_those_of_kubernetes() {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j:2"}]}});
    let selector = json!({"matchLabels": {"z": "1", "a": "2"},
        "matchExpressions": [{"key": "m", "operator": "In", "values": ["y", "x"]}, {"key": "n", "operator": "DoesNotExist"}]});
    for (plural, object, expected) in [
        (
            "nodes",
            json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
                "spec": {"unschedulable": true},
                "status": {"conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                    "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "B", "kernelVersion": "6.1", "architecture": "amd64", "containerRuntimeVersion": "containerd://2"}}}),
            "x\tReady,SchedulingDisabled\tedge,worker\t5m\tv1.36.3\t10.0.0.1\t<none>\tB\t6.1 (amd64)\tcontainerd://2",
        ),
        (
            "nodes",
            json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
            "x\tNotReady\t<none>\t5m\t\t<none>\t<none>\t<unknown>\t<unknown>\t<unknown>",
        ),
        (
            "nodes",
            json!({}),
            "x\tUnknown\t<none>\t5m\t\t<none>\t<none>\t<unknown>\t<unknown>\t<unknown>",
        ),
        (
            "deployments",
            json!({"spec": {"replicas": 3, "template": template, "selector": selector},
                "status": {"readyReplicas": 1, "updatedReplicas": 2}}),
            "x\t1/3\t2\t0\t5m\ta,b\ti:1,j:2\ta=2,m in (x,y),!n,z=1",
        ),
        (
            "replicasets",
            json!({"spec": {"replicas": 3, "template": template}, "status": {"replicas": 2}}),
            "x\t3\t2\t0\t5m\ta,b\ti:1,j:2\t<none>",
        ),
        (
            "daemonsets",
            json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}, "selector": {"matchLabels": {"a": "b"}}},
                "status": {"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1}}),
            "x\t5\t4\t3\t2\t1\ta=b\t5m\t\t\ta=b",
        ),
        (
            "jobs",
            json!({"spec": {"completions": 1, "template": template}, "status": {"succeeded": 1,
                "startTime": "2025-01-06T07:58:00Z", "completionTime": "2025-01-06T07:58:50Z",
                "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]}}),
            "x\tComplete\t1/1\t50s\t5m\ta,b\ti:1,j:2\t<none>",
        ),
        (
            "jobs",
            json!({"spec": {"parallelism": 3}, "status": {"startTime": "2025-01-06T07:57:57Z"}}),
            "x\tRunning\t0/1 of 3\t2m3s\t5m\t\t\t<none>",
        ),
        (
            "jobs",
            json!({"metadata": {"deletionTimestamp": "2025-01-06T08:00:00Z"}, "spec": {"parallelism": 1}}),
            "x\tTerminating\t0/1\t\t5m\t\t\t<none>",
        ),
        (
            "cronjobs",
            json!({"spec": {"schedule": "* * * * *", "suspend": false}, "status": {"active": [{}], "lastScheduleTime": "2025-01-06T07:59:00Z"}}),
            "x\t* * * * *\t<none>\tFalse\t1\t60s\t5m\t\t\t<none>",
        ),
        (
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}),
            "x\t50%\tN/A\t2\t5m",
        ),
        (
            "horizontalpodautoscalers",
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 9, "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
                    {"type": "Pods", "pods": {"target": {"averageValue": "10"}}},
                    {"type": "Pods", "pods": {"target": {"averageValue": "10"}}}]},
                "status": {"currentReplicas": 2, "currentMetrics": [{"resource": {"current": {"averageUtilization": 40}}}]}}),
            "x\tDeployment/web\tcpu: 40%/80%, <unknown>/10 + 1 more...\t1\t9\t2\t5m",
        ),
        (
            "events",
            json!({"type": "Normal", "reason": "Started", "message": "Started container pi\n", "count": 3,
                "involvedObject": {"kind": "Pod", "name": "pi-x", "fieldPath": "spec.containers{pi}"},
                "source": {"component": "kubelet", "host": "n1"},
                "firstTimestamp": "2025-01-06T07:50:00Z", "lastTimestamp": "2025-01-06T07:59:50Z"}),
            "10s\tNormal\tStarted\tpod/pi-x\tspec.containers{pi}\tkubelet, n1\tStarted container pi\t10m\t3\tx",
        ),
        (
            "events",
            json!({"type": "Warning", "reason": "FailedScheduling", "message": "m", "eventTime": "2025-01-06T07:59:00.000000Z",
                "firstTimestamp": null, "lastTimestamp": null, "reportingComponent": "default-scheduler",
                "involvedObject": {"kind": "Pod", "name": "p"}}),
            "60s\tWarning\tFailedScheduling\tpod/p\t\tdefault-scheduler\tm\t60s\t1\tx",
        ),
        (
            "priorityclasses",
            json!({"value": -10, "preemptionPolicy": "Never"}),
            "x\t-10\tfalse\t5m\tNever",
        ),
        ("namespaces", json!({"status": {"phase": "Active"}}), "x\tActive\t5m"),
        ("configmaps", json!({"data": {"a": ""}, "binaryData": {"b": ""}}), "x\t2\t5m"),
        ("secrets", json!({"type": "Opaque"}), "x\tOpaque\t0\t5m"),
        ("leases", json!({"spec": {"holderIdentity": "n1"}}), "x\tn1\t5m"),
        (
            "services",
            json!({"spec": {"type": "NodePort", "clusterIPs": ["10.96.0.9"], "selector": {"a": "b"},
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
            "x\tNodePort\t10.96.0.9\t<none>\t80:30080/TCP,53/UDP\t5m\ta=b",
        ),
        (
            "services",
            json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.96.0.9"]}}),
            "x\tLoadBalancer\t10.96.0.9\t<pending>\t<none>\t5m\t<none>",
        ),
        (
            "endpointslices",
            json!({"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [
                {"addresses": ["1", "2"]}, {"addresses": ["3"]}, {"addresses": ["4"]}]}),
            "x\tIPv4\t80\t1,2,3 + 1 more...\t5m",
        ),
        (
            "persistentvolumeclaims",
            json!({"spec": {"volumeName": "v", "storageClassName": "gp3", "volumeMode": "Filesystem"},
                "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}}),
            "x\tBound\tv\t1Gi\tRWO,RWX\tgp3\t<unset>\t5m\tFilesystem",
        ),
        (
            "persistentvolumeclaims",
            json!({"spec": {"resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Pending"}}),
            "x\tPending\t\t\t\t\t<unset>\t5m\t<unset>",
        ),
        (
            "storageclasses",
            json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}),
            "x (default)\tp\tDelete\tWaitForFirstConsumer\tfalse\t5m",
        ),
        (
            "controllerrevisions",
            json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": true}]}, "revision": 4}),
            "x\tdaemonset.apps/d\t4\t5m",
        ),
        (
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
                {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
            "x\tRole/r\t5m\tu\t\tn/s",
        ),
        ("customresourcedefinitions", json!({}), "x\t2025-01-06T07:55:00Z"),
    ] {
        assert_eq!(row(plural, object), expected, "{plural}");
    }
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    for kind in kinds::builtin() {
        row(&kind.plural, json!({}));
        row(&kind.plural, json!({"spec": 1, "status": [], "data": "x"}));
    }
}

#[test]
fn custom_kinds_show_their_columns() {
    let column = |name: &str, type_: &str, priority: i32, json_path: &str| PrinterColumn {
        name: name.into(),
        type_: type_.into(),
        format: String::new(),
        description: String::new(),
        priority,
        json_path: json_path.into(),
    };
    let custom = |columns: Vec<PrinterColumn>| Kind {
        custom: Some(Arc::new(CustomKind {
            definition: "a.b".into(),
            columns,
            ..CustomKind::default()
        })),
        ..Kind::default()
    };
    let kind = custom(vec![
        column("Pool", "string", 0, r".metadata.labels.karpenter\.sh/nodepool"),
        column("Ready", "string", 0, r#".status.conditions[?(@.type=="Ready")].status"#),
        column("Weight", "integer", 1, ".spec.weight"),
        column("Refs", "string", 1, ".spec.refs"),
        column("Age", "date", 0, ".metadata.creationTimestamp"),
        column("Wrong", "integer", 0, ".metadata.name"),
        column("Missing", "string", 0, ".spec.nope"),
    ]);
    let object = json!({
        "metadata": {"name": "x", "labels": {"karpenter.sh/nodepool": "general-purpose"},
            "creationTimestamp": "2025-01-06T07:55:00Z"},
        "spec": {"weight": 7, "refs": ["a"]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    assert_eq!(
        json!(cells(&kind, &object, now())),
        json!(["x", "general-purpose", "True", 7, "[\"a\"]", "5m", null, null])
    );
    let columns = columns(&kind);
    assert_eq!(columns[0].format, "name");
    assert_eq!(columns[3].priority, 1);
    assert_eq!(
        columns[3].description,
        "Custom resource definition column (in JSONPath format): .spec.weight"
    );
    assert_eq!(json!(cells(&custom(Vec::new()), &object, now())), json!(["x", "5m"]));
}
