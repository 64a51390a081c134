//! Kubernetes' Go modules at the emulated version, as the Go tool's cache has them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

/// Where each module's files are.
pub struct Modules {
    /// `k8s.io/kubernetes`: the OpenAPI document.
    pub kubernetes: PathBuf,
    /// `k8s.io/api`, `k8s.io/apimachinery`, `k8s.io/apiextensions-apiserver`: the Go types, each
    /// with the prefix that its types have in the OpenAPI document.
    pub types: [(&'static str, PathBuf); 3],
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Download {
    path: String,
    dir: Option<PathBuf>,
    error: Option<String>,
}

const KUBERNETES: &str = "k8s.io/kubernetes";
const API: &str = "k8s.io/api";
const APIMACHINERY: &str = "k8s.io/apimachinery";
const APIEXTENSIONS: &str = "k8s.io/apiextensions-apiserver";

/// Downloads the modules, or finds them in Go's module cache.
///
/// # Errors
///
/// Go is not installed, or a module cannot be downloaded.
pub fn locate() -> anyhow::Result<Modules> {
    let output = Command::new("go")
        .args(["mod", "download", "-json"])
        .arg(format!("{KUBERNETES}@v1.36.3"))
        .args([API, APIMACHINERY, APIEXTENSIONS].map(|module| format!("{module}@v0.36.3")))
        .current_dir(std::env::temp_dir())
        .output()
        .context("`go` cannot be run: install Go (https://go.dev/dl) to regenerate the tables")?;
    let mut found = Vec::new();
    for module in serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Download>() {
        let module = module.context("reading what `go mod download -json` printed")?;
        if let Some(error) = module.error {
            bail!("{}: {error}", module.path);
        }
        if let Some(dir) = module.dir {
            found.push((module.path, dir));
        }
    }
    let dir = |name: &str| {
        let error = String::from_utf8_lossy(&output.stderr);
        found
            .iter()
            .find(|(path, _)| path == name)
            .map(|(_, dir)| dir.clone())
            .with_context(|| format!("`go mod download` did not give {name}: {}", error.trim()))
    };
    Ok(Modules {
        kubernetes: dir(KUBERNETES)?,
        types: [
            ("io.k8s.api.", dir(API)?),
            ("io.k8s.apimachinery.", dir(APIMACHINERY)?),
            ("io.k8s.apiextensions-apiserver.", dir(APIEXTENSIONS)?),
        ],
    })
}
