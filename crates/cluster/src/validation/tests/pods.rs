use serde_json::{Value, json};

use super::{LABEL, NAME_PART, SUBDOMAIN, create, update, with};

fn pod() -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "a:1"}]}})
}

#[test]
fn specs_are_checked() {
    let requests = "/spec/containers/0/resources/requests";
    let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let spread = |constraint: Value| {
        let mut whole =
            json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        whole.as_object_mut().unwrap().extend(constraint.as_object().unwrap().clone());
        json!([whole])
    };
    for (pointer, value, expected) in [
        ("/spec/containers", json!([]), vec!["spec.containers: Required value".to_owned()]),
        ("/spec/containers/0/name", json!(""), vec!["spec.containers[0].name: Required value".into()]),
        (
            "/spec/containers/0/name",
            json!("A"),
            vec![format!("spec.containers[0].name: Invalid value: \"A\": {LABEL}")],
        ),
        ("/spec/containers/0/image", json!(null), vec!["spec.containers[0].image: Required value".into()]),
        (
            "/spec/containers/0/image",
            json!(" a"),
            vec!["spec.containers[0].image: Invalid value: \" a\": must not have leading or trailing whitespace".into()],
        ),
        (
            "/spec/containers",
            json!([{"name": "c", "image": "a"}, {"name": "c", "image": "b"}]),
            vec!["spec.containers[1].name: Duplicate value: \"c\"".into()],
        ),
        (
            "/spec/initContainers",
            json!([{"name": "c", "image": "a"}]),
            vec!["spec.initContainers[0].name: Duplicate value: \"c\"".into()],
        ),
        (
            "/spec/initContainers",
            json!([{"name": "i", "image": "a", "livenessProbe": {"exec": {"command": ["x"]}}}]),
            vec!["spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always".into()],
        ),
        (requests, json!({"cpu": "500m", "example.com/gpu": "1"}), vec!["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources".into()]),
        (
            requests,
            json!({"cpu": "-1"}),
            vec!["spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0".into()],
        ),
        (
            requests,
            json!({"gpu": "1"}),
            vec![
                "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified".into(),
                "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource for containers".into(),
            ],
        ),
        (
            requests,
            json!({"cpu": "500mm"}),
            vec!["spec.containers[0].resources.requests[cpu]: Invalid value: \"500mm\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".into()],
        ),
        (
            "/spec/containers/0/resources",
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            vec!["spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1".into()],
        ),
        (
            "/spec/containers/0/resources",
            json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}),
            vec!["spec.containers[0].resources.requests: Invalid value: \"1\": must be equal to example.com/gpu limit of 2".into()],
        ),
        (
            "/spec/containers/0/resources/limits",
            json!({"example.com/gpu": "500m"}),
            vec![
                "spec.containers[0].resources.limits[example.com/gpu]: Invalid value: \"500m\": must be an integer".into(),
                "spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"500m\": must be an integer".into(),
            ],
        ),
        (
            "/spec/restartPolicy",
            json!("Sometimes"),
            vec!["spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"".into()],
        ),
        (
            "/spec/containers/0/imagePullPolicy",
            json!("Often"),
            vec!["spec.containers[0].imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"".into()],
        ),
        (
            "/spec/containers/0/ports",
            json!([{"containerPort": 70000, "name": "web"}, {"containerPort": 80, "name": "web", "protocol": "HTTP"}]),
            vec![
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive".into(),
                "spec.containers[0].ports[1].name: Duplicate value: \"web\"".into(),
                "spec.containers[0].ports[1].protocol: Unsupported value: \"HTTP\": supported values: \"SCTP\", \"TCP\", \"UDP\"".into(),
            ],
        ),
        (
            "/spec/containers/0/ports",
            json!([{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]),
            vec!["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\"".into()],
        ),
        (
            "/spec/containers/0/env",
            json!([{"value": "x"}, {"name": "A=B"}, {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "spec.bogus"}}}]),
            vec![
                "spec.containers[0].env[0].name: Required value".into(),
                "spec.containers[0].env[1].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable ASCII characters other than '='".into(),
                "spec.containers[0].env[2].valueFrom.fieldRef.fieldPath: Unsupported value: \"spec.bogus\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"".into(),
            ],
        ),
        (
            "/spec/containers/0/volumeMounts",
            json!([{"name": "v", "mountPath": "/a"}]),
            vec!["spec.containers[0].volumeMounts[0].name: Not found: \"v\"".into()],
        ),
        (
            "/spec/volumes",
            json!([{"name": "v", "secret": {}}, {"name": "w", "emptyDir": {}, "hostPath": {"path": "/"}}, {"name": "x"}, {"name": "x"}]),
            vec![
                "spec.volumes[0].secret.secretName: Required value".into(),
                "spec.volumes[1].hostPath: Forbidden: may not specify more than 1 volume type".into(),
                "spec.volumes[3].name: Duplicate value: \"x\"".into(),
            ],
        ),
        (
            "/spec/containers/0/livenessProbe",
            json!({"exec": {}, "httpGet": {"port": 80}, "periodSeconds": -1, "successThreshold": 2}),
            vec![
                "spec.containers[0].livenessProbe.exec.command: Required value".into(),
                "spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type".into(),
                "spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0".into(),
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1".into(),
            ],
        ),
        (
            "/spec/containers/0/readinessProbe",
            json!({}),
            vec!["spec.containers[0].readinessProbe: Required value: must specify a handler type".into()],
        ),
        (
            "/spec/tolerations",
            json!([{"operator": "Equal"}, {"key": "a", "operator": "Exists", "value": "b"},
                {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1},
                {"key": "a", "operator": "Maybe", "effect": "Never"}]),
            vec![
                "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"".into(),
                "spec.tolerations[1].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'".into(),
                "spec.tolerations[2].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set".into(),
                "spec.tolerations[3].operator: Unsupported value: \"Maybe\": supported values: \"Equal\", \"Exists\"".into(),
                "spec.tolerations[3].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"".into(),
            ],
        ),
        ("/spec/nodeSelector", json!({"a b": "c"}), vec![format!("spec.nodeSelector: Invalid value: \"a b\": {NAME_PART}")]),
        (
            affinity,
            json!({"nodeSelectorTerms": []}),
            vec![format!("{}: Required value: must have at least one node selector term", "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")],
        ),
        (
            affinity,
            json!({"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["b"]},
                {"key": "a", "operator": "Gt", "values": []}, {"key": "a", "operator": "Like"}]}]}),
            [
                "[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "[2].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                "[3].operator: Invalid value: \"Like\": not a valid selector operator",
            ]
            .map(|text| format!("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions{text}"))
            .to_vec(),
        ),
        (
            "/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution",
            json!([{"weight": 0, "podAffinityTerm": {"topologyKey": "zone"}}]),
            vec!["spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100".into()],
        ),
        (
            "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution",
            json!([{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]),
            vec![
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'".into(),
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty".into(),
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: \"\": name part must be non-empty".into(),
                format!("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: \"\": {NAME_PART}"),
            ],
        ),
        (
            "/spec/topologySpreadConstraints",
            spread(json!({"maxSkew": 0, "whenUnsatisfiable": "Maybe"})),
            vec![
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero".into(),
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Maybe\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"".into(),
            ],
        ),
        (
            "/spec/topologySpreadConstraints",
            json!([spread(json!({}))[0], spread(json!({}))[0]]),
            vec!["spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, DoNotSchedule}\"".into()],
        ),
        (
            "/spec/topologySpreadConstraints",
            spread(json!({"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2})),
            vec!["spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway".into()],
        ),
        (
            "/spec/schedulingGates",
            json!([{"name": "a.b/c"}, {"name": "a.b/c"}]),
            vec!["spec.schedulingGates[1]: Duplicate value: \"a.b/c\"".into()],
        ),
        (
            "/spec/priorityClassName",
            json!("A"),
            vec![format!("spec.priorityClassName: Invalid value: \"A\": {SUBDOMAIN}")],
        ),
        (
            "/spec/activeDeadlineSeconds",
            json!(0),
            vec!["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive".into()],
        ),
        ("/spec/terminationGracePeriodSeconds", json!(0), vec![]),
        ("/spec/hostNetwork", json!(true), vec![]),
    ] {
        let value = with(pod(), pointer, value);
        assert_eq!(create("pods", value.clone()), expected, "{value}");
    }
}

#[test]
fn hardly_anything_changes() {
    let base = with(
        pod(),
        "/spec/tolerations",
        json!([{"key": "a", "operator": "Exists", "effect": "NoExecute"}]),
    );
    let forbidden = |lines: &str| {
        vec![format!(
            "spec: Forbidden: pod updates may not change fields other than \
             `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
             tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
             previously negative)\n{lines}\n"
        )]
    };
    for (pointer, value, expected) in [
        ("/metadata/labels", json!({"a": "b"}), vec![]),
        ("/spec/containers/0/image", json!("a:2"), vec![]),
        ("/spec/activeDeadlineSeconds", json!(5), vec![]),
        (
            "/spec/tolerations",
            json!([{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}, {"operator": "Exists"}]),
            vec![],
        ),
        (
            "/spec/tolerations",
            json!([]),
            vec!["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds".to_owned()],
        ),
        (
            "/spec/restartPolicy",
            json!("Never"),
            forbidden("- spec.restartPolicy: \"Always\"\n+ spec.restartPolicy: \"Never\""),
        ),
        ("/spec/nodeName", json!("n1"), forbidden("+ spec.nodeName: \"n1\"")),
        (
            "/spec/containers",
            json!([{"name": "c", "image": "a:1"}, {"name": "d", "image": "a:1"}]),
            vec!["spec.containers: Forbidden: pod updates may not add or remove containers".to_owned()],
        ),
        (
            "/spec/schedulingGates",
            json!([{"name": "a.b/c"}]),
            vec!["spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a.b/c'".to_owned()],
        ),
    ] {
        let new = with(base.clone(), pointer, value);
        assert_eq!(update("pods", base.clone(), new.clone()), expected, "{new}");
    }
}

#[test]
fn a_gated_pod_may_be_narrowed_down() {
    let gated = with(pod(), "/spec/schedulingGates", json!([{"name": "a.b/c"}]));
    let gated = with(gated, "/spec/nodeSelector", json!({"a": "b"}));
    let free = with(gated.clone(), "/spec/schedulingGates", json!([]));
    assert_eq!(update("pods", gated.clone(), free), [""; 0]);
    let narrower = with(gated.clone(), "/spec/nodeSelector", json!({"a": "b", "c": "d"}));
    assert_eq!(update("pods", gated.clone(), narrower), [""; 0]);
    let terms = json!([{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]);
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let affine = with(gated.clone(), required, json!({"nodeSelectorTerms": terms}));
    assert_eq!(update("pods", gated.clone(), affine), [""; 0]);
    let other = with(gated.clone(), "/spec/nodeSelector", json!({"a": "c"}));
    assert_eq!(
        update("pods", gated, other),
        [
            "spec.nodeSelector: Invalid value: {\"a\":\"c\"}: only additions to spec.nodeSelector are \
          allowed (no mutations or deletions)"
        ]
    );
}
