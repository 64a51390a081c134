//! `aerostat plan` as a command: what it prints, and what it says of bad input.

mod schema;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Runs `aerostat plan` in a folder with `files`, `stdin` piped in.
fn plan(files: &[(&str, &str)], stdin: &str, arguments: &[&str]) -> Output {
    let folder = TempDir::new().expect("a folder for the files");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("the folder can be written");
    }
    let mut process = Command::new(env!("CARGO_BIN_EXE_aerostat"))
        .arg("plan")
        .args(arguments)
        .env("HOME", folder.path())
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("aerostat runs");
    process.stdin.take().expect("it is piped").write_all(stdin.as_bytes()).expect("it is read");
    process.wait_with_output().expect("it ends")
}

/// The table.
fn table(files: &[(&str, &str)], arguments: &[&str]) -> String {
    let output = plan(files, "", arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).expect("text")
}

/// The JSON, which is as its schema says.
fn json(files: &[(&str, &str)], arguments: &[&str]) -> Value {
    let text = table(files, &[arguments, &["-o", "json"]].concat());
    let value = serde_json::from_str(&text).expect("JSON");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.schema.json");
    let schema = std::fs::read_to_string(file).expect("there is a schema");
    let schema: Value = serde_json::from_str(&schema).expect("the schema is JSON");
    schema::check(&schema, &value, "plan");
    value
}

/// Asserts that it fails with each of `words` on stderr, and nothing on stdout.
fn refuses(files: &[(&str, &str)], arguments: &[&str], words: &[&str]) {
    let output = plan(files, "", arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?} was taken");
    assert!(output.stdout.is_empty(), "{arguments:?}: half a plan");
    for word in words {
        assert!(told.contains(word), "{arguments:?} does not say {word:?}:\n{told}");
    }
}

/// One on-demand pool, `od`, with `more` in its spec.
fn pool(more: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: od}}\nspec:\n  {more}\n  \
         template:\n    spec:\n      nodeClassRef: {{group: eks.amazonaws.com, kind: NodeClass, \
         name: default}}\n      requirements:\n      - {{key: karpenter.sh/capacity-type, operator: \
         In, values: [on-demand]}}\n      - {{key: node.kubernetes.io/instance-type, operator: In, \
         values: [c5.large, c5.xlarge]}}\n"
    )
}

/// A pod that asks for `cpu`.
fn pod(name: &str, cpu: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - name: c\n    \
         image: i\n    resources: {{requests: {{cpu: {cpu}}}}}\n---\n"
    )
}

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: robot
      containers: [{name: c, image: i, resources: {requests: {cpu: 1500m}}}]
";

/// A Node of 4 CPUs with a pod on it that leaves 2 of them, as `kubectl get -o yaml` prints it.
const NODES: &str = "\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: old, uid: 1-2, resourceVersion: '7', creationTimestamp: 2026-01-01T00:00:00Z}
  spec: {}
  status:
    allocatable: {cpu: '4', memory: 16Gi, pods: '110'}
    conditions: [{type: Ready, status: 'True'}]
    unheardOf: 1
- apiVersion: v1
  kind: Pod
  metadata: {name: there, namespace: shop, resourceVersion: '8', uid: 3-4}
  spec:
    nodeName: old
    containers: [{name: c, image: i, resources: {requests: {cpu: '2'}}}]
  status: {phase: Running}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: there, namespace: shop}
  spec:
    replicas: 1
    selector: {matchLabels: {app: x}}
    template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: i}]}}
";

#[test]
fn a_deployment_gets_the_cheapest_nodes_of_the_pools_that_are_given() {
    let pool = pool("");
    let files = [("web.yaml", DEPLOYMENT), ("pool.yaml", pool.as_str())];
    let plan = json(&files, &["-f", "web.yaml", "-f", "pool.yaml"]);
    let nodes = plan["nodes"].as_array().unwrap();
    let pods: Vec<&Value> = nodes.iter().flat_map(|n| n["pods"].as_array().unwrap()).collect();
    assert_eq!(pods.len(), 4, "{plan}");
    assert!(pods.contains(&&Value::from("shop/web-3")));
    // Two fit a c5.xlarge, one a c5.large at half the price: 4 vCPU-hours cost 4 × 0.107 at most.
    assert!(plan["totalPricePerHour"].as_f64().unwrap() <= 0.428001, "{plan}");
    assert_eq!(nodes[0]["nodePool"], "od");
    assert_eq!(nodes[0]["capacityType"], "on-demand");
    assert_eq!(plan["unschedulable"], Value::Array(Vec::new()));
    let text = table(&files, &["-f", "."]);
    assert!(text.starts_with("NODES   NODEPOOL"), "{text}");
    assert!(text.contains("with 4 pods"), "{text}");
}

#[test]
fn without_a_pool_everything_is_allowed() {
    let plan = json(&[("web.yaml", DEPLOYMENT)], &["-f", "web.yaml", "--region", "us-east-1"]);
    let node = &plan["nodes"][0];
    assert_eq!(
        (node["nodePool"].as_str(), node["capacityType"].as_str()),
        (Some("default"), Some("spot"))
    );
    assert!(node["zone"].as_str().unwrap().starts_with("us-east-1"), "{plan}");
}

#[test]
fn stdin_is_a_file_and_a_list_is_its_items() {
    let list =
        format!("apiVersion: v1\nkind: List\nitems:\n- {}", DEPLOYMENT.replace('\n', "\n  "));
    let output = plan(&[], &list, &["-f", "-", "-o", "json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let pods = plan["nodes"].as_array().unwrap().iter().flat_map(|n| n["pods"].as_array().unwrap());
    assert_eq!(pods.count(), 4, "{plan}");
}

#[test]
fn nodes_that_are_there_are_filled_first() {
    let pool = pool("");
    let files = [("web.yaml", DEPLOYMENT), ("pool.yaml", pool.as_str()), ("nodes.yaml", NODES)];
    let plan = json(&files, &["-f", "web.yaml", "-f", "pool.yaml", "--nodes", "nodes.yaml"]);
    let old = &plan["existingNodes"];
    assert_eq!(old[0]["name"], "old", "{plan}");
    assert_eq!(old[0]["pods"].as_array().unwrap().len(), 1, "2 of 4 CPUs are taken: {plan}");
    let new = plan["nodes"].as_array().unwrap().iter();
    assert_eq!(new.flat_map(|node| node["pods"].as_array().unwrap()).count(), 3, "{plan}");
}

#[test]
fn daemons_count_on_new_nodes_and_jobs_by_their_parallelism() {
    let pool = pool("");
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  parallelism: 2\n  \
               template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: c, image: i, \
               resources: {requests: {cpu: 1500m}}}]\n";
    let daemon = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\nspec:\n  selector: \
                  {matchLabels: {app: d}}\n  template:\n    metadata: {labels: {app: d}}\n    spec: \
                  {containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}\n";
    let kinds = |files: &[(&str, &str)]| -> Vec<String> {
        let plan = json(files, &["-f", "."]);
        let nodes = plan["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["instanceType"].as_str().unwrap().to_owned()).collect()
    };
    let plain = [("pool.yaml", pool.as_str()), ("job.yaml", job)];
    let all: usize = kinds(&plain).len();
    assert!((1..=2).contains(&all), "two pods on one c5.xlarge or two c5.large");
    let with = [plain[0], plain[1], ("daemon.yaml", daemon)];
    assert_eq!(kinds(&with), ["c5.xlarge", "c5.xlarge"], "a daemon takes one CPU of each");
}

#[test]
fn daemons_are_known_by_their_pods_as_well() {
    let pool = pool("");
    let daemon = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    \
                  name: d-x\n    namespace: kube-system\n    ownerReferences: [{apiVersion: apps/v1, \
                  kind: DaemonSet, name: d, uid: u, controller: true}]\n  spec:\n    nodeName: old\n    \
                  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                  {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: \
                  [old]}]}]}}}\n    containers: [{name: c, image: i, resources: {requests: {cpu: \
                  '1'}}}]\n";
    let pod = pod("p", "1500m");
    let files = [("pool.yaml", pool.as_str()), ("p.yaml", pod.as_str()), ("d.yaml", daemon)];
    let kind = |arguments: &[&str]| json(&files, arguments)["nodes"][0]["instanceType"].clone();
    assert_eq!(kind(&["-f", "pool.yaml", "-f", "p.yaml"]), "c5.large");
    assert_eq!(kind(&["-f", "pool.yaml", "-f", "p.yaml", "--nodes", "d.yaml"]), "c5.xlarge");
}

#[test]
fn preferences_are_respected_or_ignored_as_told() {
    let pool = pool("");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  affinity: {nodeAffinity: \
               {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: \
               {matchExpressions: [{key: node.kubernetes.io/instance-type, operator: In, values: \
               [c5.xlarge]}]}}]}}\n  containers: [{name: c, image: i, resources: {requests: {cpu: \
               500m}}}]\n";
    let files = [("pool.yaml", pool.as_str()), ("p.yaml", pod)];
    let kind = |policy: &str| {
        let plan = json(&files, &["-f", ".", "--preference-policy", policy]);
        plan["nodes"][0]["instanceType"].as_str().unwrap().to_owned()
    };
    assert_eq!(kind("Respect"), "c5.xlarge");
    assert_eq!(kind("ignore"), "c5.large");
}

#[test]
fn pods_without_a_place_are_named_with_the_pool_s_reason() {
    let pool = pool("");
    let gated = "apiVersion: v1\nkind: Pod\nmetadata: {name: gated}\nspec:\n  schedulingGates: \
                 [{name: example.com/wait}]\n  containers: [{name: c, image: i}]\n";
    let big = pod("big", "200");
    let files = [("pool.yaml", pool.as_str()), ("big.yaml", big.as_str()), ("gated.yaml", gated)];
    let plan = json(&files, &["-f", "."]);
    let pods: Vec<_> =
        plan["unschedulable"].as_array().unwrap().iter().map(|u| &u["pod"]).collect();
    assert_eq!(pods, ["default/big", "default/gated"]);
    let reason = plan["unschedulable"][0]["reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("od: 2 of "), "{reason}");
    assert!(reason.contains("none has 200 vCPU; closest: c5.xlarge lacks 196.08 vCPU"), "{reason}");
    let reason = plan["unschedulable"][1]["reasons"][0].as_str().unwrap();
    assert!(reason.contains("schedulingGates"), "{reason}");
    assert_eq!(plan["totalPricePerHour"], 0.0);
    let text = table(&files, &["-f", "."]);
    assert!(text.contains("2 pods unschedulable:"), "{text}");
}

#[test]
fn faults_are_named_with_file_line_and_field() {
    let unknown = format!("{}{}", pod("a", "1"), pod("b", "1").replace("image", "imago"));
    refuses(&[("a.yaml", &unknown)], &["-f", "a.yaml"], &["a.yaml:10", "containers[0].imago"]);
    let quantity = pod("a", "500mm");
    refuses(
        &[("a.yaml", &quantity)],
        &["-f", "a.yaml"],
        &["a.yaml:1", "500mm", "spec.containers[0]"],
    );
    let broken = "kind: Pod\n  bad: [\n";
    refuses(&[("a.yaml", broken)], &["-f", "a.yaml"], &["a.yaml", "line 2"]);
    refuses(&[], &["-f", "missing.yaml"], &["missing.yaml", "cannot be read"]);
    let typo = "apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: a}\n";
    refuses(&[("a.yaml", typo)], &["-f", "a.yaml"], &["a.yaml:1", "Deploymnt"]);
    let many = DEPLOYMENT.replace("replicas: 4", "replicas: 2000000000");
    refuses(&[("a.yaml", &many)], &["-f", "a.yaml"], &["a.yaml:1", "2000000000 pods"]);
    let class = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  priorityClassName: vip\n  \
                 containers: [{name: c, image: i}]\n";
    refuses(&[("a.yaml", class)], &["-f", "a.yaml"], &["a.yaml:1", "vip"]);
    let template = DEPLOYMENT.replace("cpu: 1500m", "cpu: -1");
    refuses(&[("a.yaml", &template)], &["-f", "a.yaml"], &["a.yaml:1", "spec.template", "cpu"]);
    let operator = pool("").replace("operator: In", "operator: Inn");
    refuses(&[("a.yaml", &operator)], &["-f", "a.yaml"], &["a.yaml:1", "operator", "Inn"]);
}

#[test]
fn names_that_clash_are_told() {
    let twice = format!("{}{}", pod("a", "1"), pod("a", "2"));
    refuses(&[("a.yaml", &twice)], &["-f", "a.yaml"], &["a.yaml:10: pod/a is in a.yaml:1 already"]);
    let alike = format!("{DEPLOYMENT}---\n{}", pod("web-1, namespace: shop", "1"));
    refuses(&[("a.yaml", &alike)], &["-f", "a.yaml"], &["two pods", "shop/web-1"]);
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: web, namespace: shop}\nspec: \
               {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n";
    let text = json(&[("a.yaml", DEPLOYMENT), ("b.yaml", job)], &["-f", "."]).to_string();
    assert!(text.contains("shop/web-3") && text.contains("shop/web-job-0"), "{text}");
    // A pod that is there already is not planned for twice.
    let there = pod("there, namespace: shop", "1");
    let files = [("nodes.yaml", NODES), ("there.yaml", there.as_str())];
    let plan = json(&files, &["--nodes", "nodes.yaml", "-f", "there.yaml"]);
    assert_eq!(plan["existingNodes"], Value::Array(Vec::new()), "{plan}");
}

#[test]
fn a_machine_whose_name_another_has_is_left_out_and_told() {
    let claim = "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: old}\nspec:\n  \
                 nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}\n  \
                 requirements: []\n";
    let files = [("nodes.yaml", NODES), ("claim.yaml", claim), ("a.yaml", &pod("a", "1"))];
    let there = ["--nodes", "nodes.yaml", "--nodes", "claim.yaml", "-f", "a.yaml"];
    let told = table(&files, &there);
    assert!(
        told.contains("left out:\n  node old: another node or claim has the same name"),
        "{told}"
    );
    assert!(told.contains("1 new node with 1 pod"), "{told}");
    let why = json(&files, &there)["leftOut"][0]["why"].to_string();
    assert_eq!(why, "\"another node or claim has the same name\"");
}

#[test]
fn options_with_a_fault_say_what_would_be_right() {
    refuses(&[], &[], &["--filename", "--kubeconfig"]);
    let files = [("a.yaml", DEPLOYMENT)];
    refuses(&files, &["-f", "a.yaml", "--region", "mars-north-1"], &["mars-north-1", "us-east-1"]);
    refuses(&files, &["-f", "a.yaml", "--context", "x"], &["--kubeconfig"]);
    refuses(&files, &["-f", "a.yaml", "--kubeconfig", "k.yaml"], &["k.yaml"]);
    let empty = "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\ncontexts: []\n";
    let files = [("a.yaml", DEPLOYMENT), ("k.yaml", empty)];
    refuses(
        &files,
        &["-f", "a.yaml", "--kubeconfig", "k.yaml", "--context", "x"],
        &["k.yaml", "x"],
    );
}
