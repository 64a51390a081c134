//! Which kubectl the tests drive: every one that is there, or one that is built.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Folders of software kits that bring kubectl, several versions of it at times.
const KITS: &[&str] = &[
    "/usr/lib/google-cloud-sdk/bin",
    "/usr/local/google-cloud-sdk/bin",
    "/opt/google-cloud-sdk/bin",
    "/snap/bin",
    "/usr/local/bin",
];
/// The oldest minor version that is tested with.
const OLDEST: u32 = 29;

/// Every kubectl from 1.29 on, one for each minor version, oldest first. If there is none and Go
/// is installed, one is built; with neither the list is empty and the tests say what they skip.
///
/// # Errors
///
/// If the build fails.
pub fn find() -> anyhow::Result<Vec<PathBuf>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(KITS.iter().map(PathBuf::from));
    let mut found = BTreeMap::new();
    for folder in folders {
        for file in candidates(&folder) {
            if let Some(minor) = minor_version(&file) {
                found.entry(minor).or_insert(file);
            }
        }
    }
    found.retain(|minor, _| *minor >= OLDEST);
    if found.is_empty()
        && let Some(built) = build()?
        && let Some(minor) = minor_version(&built)
    {
        found.insert(minor, built);
    }
    for (minor, file) in &found {
        println!("kubectl 1.{minor}: {}", file.display());
    }
    if found.is_empty() {
        println!("no kubectl and no Go to build one: the tests that need it are skipped, by name");
    }
    Ok(found.into_values().collect())
}

fn candidates(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<_> = names.filter(|file| is_kubectl(file)).collect();
    files.sort();
    files
}

/// `kubectl`, `kubectl.1.33`, `kubectl1.33`; not `kubectl-plugin`.
fn is_kubectl(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix("kubectl")
        .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The minor version of a kubectl that is itself one: some kits have a dispatcher of that name
/// which asks the server first.
fn minor_version(file: &Path) -> Option<u32> {
    let output = Command::new(file).args(["version", "--client", "--output=json"]).output().ok()?;
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let version = &version["clientVersion"];
    if version["gitVersion"].as_str()?.contains("dispatcher") {
        return None;
    }
    let minor: String =
        version["minor"].as_str()?.chars().take_while(char::is_ascii_digit).collect();
    minor.parse().ok()
}

/// Builds Kubernetes' own kubectl from the pinned Go module, outside the checkout.
fn build() -> anyhow::Result<Option<PathBuf>> {
    if Command::new("go").arg("version").output().is_err() {
        return Ok(None);
    }
    let cache = cache_folder()?;
    let file = cache.join("kubectl");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/clients/kubectl");
    let stamp = cache.join("kubectl.sum");
    let sum = std::fs::read_to_string(source.join("go.sum"))?;
    if file.exists() && std::fs::read_to_string(&stamp).is_ok_and(|built| built == sum) {
        return Ok(Some(file));
    }
    println!("building kubectl (some minutes, once)");
    let version = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {version}.gitVersion=v1.36.3 -X {version}.gitMajor=1 -X {version}.gitMinor=36"
    );
    let status = Command::new("go")
        .current_dir(&source)
        .env("CGO_ENABLED", "0")
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"])
        .arg(&file)
        .arg(".")
        .status()
        .context("go cannot be run")?;
    if !status.success() {
        bail!("kubectl cannot be built ({status})");
    }
    std::fs::write(stamp, sum)?;
    Ok(Some(file))
}

/// Where what is built outlives the checkout.
///
/// # Errors
///
/// If the folder cannot be made.
pub fn cache_folder() -> anyhow::Result<PathBuf> {
    let folder = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache).join("aerostat"),
        (None, Some(home)) => PathBuf::from(home).join(".cache/aerostat"),
        (None, None) => std::env::temp_dir().join("aerostat"),
    };
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(folder)
}
