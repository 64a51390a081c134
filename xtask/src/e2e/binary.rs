//! The suite as one program, built outside the checkout.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::test::cache_folder;

/// The Go module that requires the suite.
pub fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/karpenter-e2e")
}

/// Builds the suite's program unless it is there; `None` without Go.
///
/// # Errors
///
/// If it cannot be built.
pub fn suite() -> anyhow::Result<Option<PathBuf>> {
    if Command::new("go").arg("version").output().is_err() {
        return Ok(None);
    }
    let folder = cache_folder()?.join("e2e");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let file = folder.join("regression.test");
    let stamp = folder.join("regression.sum");
    let sum = std::fs::read_to_string(module().join("go.sum"))?;
    if file.exists() && std::fs::read_to_string(&stamp).is_ok_and(|built| built == sum) {
        return Ok(Some(file));
    }
    println!("building Karpenter's suite (some minutes, once)");
    let status = Command::new("go")
        .current_dir(module())
        .env("GOFLAGS", "-mod=readonly")
        .args(["test", "-c", "-vet=off", "-ldflags=-s -w", "-o"])
        .arg(&file)
        .arg("sigs.k8s.io/karpenter/test/suites/regression")
        .status()
        .context("go cannot be run")?;
    if !status.success() {
        bail!("Karpenter's suite cannot be built ({status})");
    }
    std::fs::write(stamp, sum)?;
    Ok(Some(file))
}
