//! The pods that the measurements create.

use serde_json::{Value, json};

/// A pod that asks for `cpu` millicores and `memory` MiB and runs until it is stopped.
pub fn pod(name: &str, cpu: u64, memory: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "spec": spec(cpu, memory),
    })
}

/// The `number`th pod of a mix: a dozen sizes, some bound to an architecture or a zone.
pub fn mixed(number: usize) -> Value {
    let cpu = [100, 250, 500, 1000, 1500, 2000][number % 6];
    let memory = [256, 512, 1024, 4096][number / 6 % 4];
    let mut pod = pod(&format!("mixed-{number:05}"), cpu, memory);
    let selector = match number % 10 {
        0 => json!({"kubernetes.io/arch": "amd64"}),
        5 => json!({"topology.kubernetes.io/zone": "ap-northeast-1a"}),
        _ => return pod,
    };
    pod["spec"]["nodeSelector"] = selector;
    pod
}

/// A Deployment of such pods.
pub fn deployment(name: &str, replicas: u32, cpu: u64, memory: u64) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "bench"}},
            "template": {"metadata": {"labels": {"app": "bench"}}, "spec": spec(cpu, memory)},
        },
    })
}

fn spec(cpu: u64, memory: u64) -> Value {
    let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
    json!({
        "containers": [{
            "name": "main",
            "image": "ubuntu",
            "command": ["sleep", "infinity"],
            "resources": {"requests": requests},
        }],
    })
}
