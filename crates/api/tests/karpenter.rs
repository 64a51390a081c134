//! Our definitions against Karpenter's own, where its Go module is at hand.

use std::path::{Path, PathBuf};
use std::process::Command;

use aerostat_api::crds;
use serde_json::Value;

/// Where Karpenter's module is, if Go has it in its cache. Nothing is fetched.
fn module() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/karpenter-e2e");
    let output = Command::new("go")
        .current_dir(folder)
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter"])
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.join("kwok").is_dir().then_some(path)
}

/// What a definition enforces: without prose, and lists that are sets sorted.
fn bare(value: &mut Value, within: &str) {
    match value {
        Value::Object(fields) => {
            if within != "properties" {
                fields.retain(|name, value| !(name == "description" && value.is_string()));
                fields.remove("annotations");
            }
            for (name, value) in fields {
                bare(value, name);
            }
        }
        Value::Array(list) => {
            list.iter_mut().for_each(|value| bare(value, ""));
            if ["enum", "required", "x-kubernetes-validations"].contains(&within) {
                list.sort_by_key(Value::to_string);
            }
        }
        _ => {}
    }
}

#[test]
fn they_enforce_what_karpenters_do() {
    let Some(module) = module() else {
        println!("skipped: Karpenter's Go module is not at hand (`cargo xtask e2e` fetches it)");
        return;
    };
    let files = [
        "kwok/charts/crds/karpenter.sh_nodepools.yaml",
        "kwok/charts/crds/karpenter.sh_nodeclaims.yaml",
        "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
        "kwok/charts/crds/karpenter.sh_nodeoverlays.yaml",
        "kwok/charts/crds/autoscaling.x-k8s.io_capacitybuffers.yaml",
    ];
    for (file, mut ours) in files.into_iter().zip(crds::kwok()) {
        let text = std::fs::read_to_string(module.join(file)).unwrap();
        let mut theirs: Value = serde_saphyr::from_str(&text).unwrap();
        bare(&mut ours, "");
        bare(&mut theirs, "");
        assert_eq!(ours, theirs, "{file}");
    }
}
