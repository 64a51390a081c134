//! `cargo xtask test`: everything that must hold, by one command.

mod kubectl;

pub use kubectl::{cache_folder, find as kubectl};

use std::process::Command;

use anyhow::{Context, bail};

use crate::e2e::{self, Program};

/// One thing that must hold.
struct Step {
    name: &'static str,
    cargo: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const CHECKS: &[Step] = &[
    Step { name: "formatting", cargo: &["fmt", "--all", "--check"], environment: &[] },
    Step {
        name: "lints",
        cargo: &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
        environment: &[],
    },
    Step {
        name: "documentation",
        cargo: &["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
];

/// Runs the checks, then the tests; with `--only-tests` the tests alone. Everything behind `--`
/// goes to `cargo test`.
///
/// # Errors
///
/// Names the first step that failed.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let split = arguments.iter().position(|a| a == "--").unwrap_or(arguments.len());
    let (own, rest) = arguments.split_at(split);
    let only_tests = match own {
        [] => false,
        [flag] if flag == "--only-tests" => true,
        _ => bail!("usage: cargo xtask test [--only-tests] [-- ARGUMENTS OF cargo test]"),
    };
    if !only_tests {
        for step in CHECKS {
            println!("== {}", step.name);
            let mut command = Command::new(env!("CARGO"));
            command.args(step.cargo).envs(step.environment.iter().copied());
            succeed(&mut command, step.name)?;
        }
        println!("== generated files");
        crate::generate::catalog::check()?;
        if Command::new("go").arg("version").output().is_ok() {
            crate::generate::run(true)?;
        } else {
            println!("skipped: the type tables cannot be generated again without Go");
        }
    }
    println!("== tests");
    let clients = kubectl::find()?;
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--workspace", "--no-fail-fast"]).args(rest.iter().skip(1));
    command.env("AEROSTAT_KUBECTL", std::env::join_paths(&clients)?);
    match e2e::program(Program::Karpenter)? {
        Some(karpenter) => command.env("AEROSTAT_KARPENTER", karpenter),
        None => {
            println!("without Go and its modules the real Karpenter cannot be built");
            command.env_remove("AEROSTAT_KARPENTER")
        }
    };
    succeed(&mut command, "tests")?;
    // What is asked of `cargo test` alone is no wish for more.
    if rest.len() > 1 {
        return Ok(());
    }
    println!("== Karpenter's own suite, what of it is quick");
    e2e::quick()
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command, what: &str) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{what}: {command:?} cannot be run"))?;
    if !status.success() {
        bail!("{what}: {command:?} failed ({status})");
    }
    Ok(())
}
