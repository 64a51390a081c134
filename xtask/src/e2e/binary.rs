//! Karpenter's programs, built outside the checkout.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::test::cache_folder;

/// The Go module that requires the suite.
pub fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/karpenter-e2e")
}

/// A program of Karpenter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The regression suite.
    Regression,
    /// The performance suite.
    Performance,
    /// Karpenter itself, with its KWOK provider.
    Karpenter,
}

impl Program {
    fn package(self) -> &'static str {
        match self {
            Self::Regression => "sigs.k8s.io/karpenter/test/suites/regression",
            Self::Performance => "sigs.k8s.io/karpenter/test/suites/performance",
            Self::Karpenter => "sigs.k8s.io/karpenter/kwok",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Regression => "regression.test",
            Self::Performance => "performance.test",
            Self::Karpenter => "karpenter-kwok",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Regression | Self::Performance => &["test", "-c", "-vet=off"],
            Self::Karpenter => &["build", "-trimpath", "-buildvcs=false"],
        }
    }
}

/// Builds one of the programs unless it is there; `None` where there is no Go, or no way to get the
/// modules.
///
/// # Errors
///
/// If it cannot be built.
pub fn program(program: Program) -> anyhow::Result<Option<PathBuf>> {
    if Command::new("go").arg("version").output().is_err() {
        return Ok(None);
    }
    let folder = folder()?;
    let file = folder.join(program.file());
    let stamp = folder.join(format!("{}.sum", program.file()));
    let sum = std::fs::read_to_string(module().join("go.sum"))?;
    if file.exists() && std::fs::read_to_string(&stamp).is_ok_and(|built| built == sum) {
        return Ok(Some(file));
    }
    let mut go = Command::new("go");
    go.current_dir(module()).env("GOFLAGS", "-mod=readonly");
    let downloaded = go.args(["mod", "download"]).status().context("go cannot be run")?;
    if !downloaded.success() {
        return Ok(None);
    }
    println!("building {} (some minutes, once)", program.package());
    let mut go = Command::new("go");
    go.current_dir(module()).env("GOFLAGS", "-mod=readonly").args(program.arguments());
    let built = go.args(["-ldflags=-s -w", "-o"]).arg(&file).arg(program.package()).status()?;
    if !built.success() {
        bail!("{} cannot be built ({built})", program.package());
    }
    std::fs::write(stamp, sum)?;
    Ok(Some(file))
}

/// Where programs and runs are kept, outside the checkout.
///
/// # Errors
///
/// If it cannot be made.
pub fn folder() -> anyhow::Result<PathBuf> {
    let folder = cache_folder()?.join("e2e");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(folder)
}
