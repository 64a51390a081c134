//! `cargo xtask mutate`: whether the invariants of the fault tests bite.
//!
//! In a copy of the tree one line that keeps clusters safe is broken at a time, and seeds are played
//! until one of them breaks a rule that is meant for it: one of 200 has to. The engine's own check of its plans is off meanwhile,
//! so that what is tested is what the world looks like from outside.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// How many seeds a broken line may survive.
const SEEDS: &str = "200";

/// A text in a file, and what comes in its place.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

impl Edit {
    /// Fails if the text to break is not there exactly once.
    fn find(&self, text: &str) -> anyhow::Result<()> {
        if text.matches(self.from).count() != 1 {
            bail!("{}: the text to break is not there exactly once: {}", self.file, self.from);
        }
        Ok(())
    }
}

/// Lines that are broken together.
struct Mutation {
    name: &'static str,
    /// The rules one of which is meant to be broken by it.
    by: &'static str,
    edits: &'static [Edit],
}

const fn edit(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit { file, from, to }
}

/// The engine's check of each plan.
const CHECK: Edit = edit(
    "crates/engine/src/plan.rs",
    "#[cfg(debug_assertions)]\n                assert_sound(snapshot, &plan, now);",
    "let _ = assert_sound;",
);

const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "budgets",
        by: "budget",
        edits: &[edit(
            "crates/engine/src/budgets.rs",
            "Allowance { nodes: least.saturating_sub(disrupted), changes }",
            "let _ = (least, disrupted);\n    Allowance { nodes, changes }",
        )],
    },
    Mutation {
        name: "limits",
        by: "limits",
        edits: &[edit(
            "crates/engine/src/limits.rs",
            "headroom.take(&Machine { capacity: &state.capacity, price }, 1);",
            "let _ = (state, price);",
        )],
    },
    Mutation {
        name: "finalizer-order",
        by: "let-go,machine-without-claim",
        edits: &[edit(
            "crates/controllers/src/drain.rs",
            "&& !lifecycle::machine_is_gone(context, &id).await?",
            "&& lifecycle::machine_is_gone(context, &id).await.is_err()",
        )],
    },
    Mutation {
        name: "idempotency-key",
        by: "two-machines",
        edits: &[edit(
            "crates/provider/src/sim/mod.rs",
            "state.claims.get(uid).and_then(|id| state.machines.get(id))",
            "state.claims.get(\"\").and_then(|id| state.machines.get(id))",
        )],
    },
    Mutation {
        name: "orders-known-at-once",
        by: "ordered-twice",
        edits: &[edit(
            "crates/controllers/src/provisioner.rs",
            "context.index().claims.learn(claim);\n            for pod",
            "for pod",
        )],
    },
    Mutation {
        name: "do-not-disrupt-drain",
        by: "protected",
        edits: &[edit(
            "crates/controllers/src/drain/pods.rs",
            "if text == \"true\" {\n        return Ok(true);",
            "if text == \"true\" {\n        return Ok(false);",
        )],
    },
    Mutation {
        name: "do-not-disrupt-plan",
        by: "protected",
        edits: &[edit(
            "crates/engine/src/disruption/candidates.rs",
            ".find(|pod| is_protected(pod, self.now))",
            ".find(|pod| is_protected(pod, self.now) && pod.terminal)",
        )],
    },
    Mutation {
        name: "not-before-its-time",
        by: "protected",
        edits: &[edit(
            "crates/controllers/src/drain/pods.rs",
            "if now >= since {",
            "if now >= since || now < deadline {",
        )],
    },
    Mutation {
        name: "replacement-first",
        by: "replacement-first",
        edits: &[
            edit(
                "crates/engine/src/disruption/commands.rs",
                "by.iter().all(|state| state.stage == Stage::Initialized)",
                "!by.is_empty()",
            ),
            edit(
                "crates/engine/src/plan.rs",
                "there.is_some_and(|state| state.stage == Stage::Initialized)",
                "there.is_some_and(|state| state.stage >= Stage::Ordered)",
            ),
        ],
    },
    Mutation {
        name: "garbage",
        by: "machine-without-claim",
        edits: &[edit(
            "crates/controllers/src/garbage.rs",
            "if claimed || age < GRACE {",
            "if claimed || age > SignedDuration::ZERO || age < GRACE {",
        )],
    },
    Mutation {
        name: "registration-timeout",
        by: "stuck,pending",
        edits: &[edit(
            "crates/controllers/src/lifecycle/liveness.rs",
            "Duration::from_secs(15 * 60)",
            "Duration::from_secs(15 * 6000)",
        )],
    },
    Mutation {
        name: "empty-is-empty",
        by: "not-empty",
        edits: &[edit(
            "crates/engine/src/disruption/emptiness.rs",
            "|| !residents.bound(state).iter().all(|pod| belongs_to_node(pod))",
            "|| !residents.bound(state).iter().all(|pod| belongs_to_node(pod) || !pod.terminal)",
        )],
    },
];

/// Breaks every line, or the one called `name`.
///
/// # Errors
///
/// If one is not caught, is not there any more, or does not compile.
pub fn run(name: Option<&str>) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let chosen: Vec<&Mutation> =
        MUTATIONS.iter().filter(|m| name.is_none_or(|name| m.name == name)).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = MUTATIONS.iter().map(|mutation| mutation.name).collect();
        bail!("there is no such mutation; there are {}", known.join(", "));
    }
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => std::path::absolute(PathBuf::from(folder))?,
        None => root.join("target"),
    };
    let tree = target.join("mutants");
    copy(&root, &tree)?;
    let check = Original::replace(&tree, &CHECK)?;
    let mut survivors = Vec::new();
    for mutation in &chosen {
        let edits = mutation.edits.iter().map(|edit| Original::replace(&tree, edit));
        let originals = edits.collect::<anyhow::Result<Vec<_>>>()?;
        match caught(&tree, &target, mutation)? {
            Some(by) => println!("{}: caught: {by}", mutation.name),
            None => {
                println!("{}: not caught", mutation.name);
                survivors.push(mutation.name);
            }
        }
        originals.into_iter().rev().try_for_each(Original::put_back)?;
    }
    check.put_back()?;
    println!("mutations {}, not caught {}", chosen.len(), survivors.len());
    if !survivors.is_empty() {
        bail!("not caught within {SEEDS} seeds: {}", survivors.join(", "));
    }
    Ok(())
}

/// A file as it was.
struct Original {
    path: PathBuf,
    text: String,
}

impl Original {
    fn replace(tree: &Path, edit: &Edit) -> anyhow::Result<Self> {
        let path = tree.join(edit.file);
        let text = std::fs::read_to_string(&path).with_context(|| edit.file.to_owned())?;
        edit.find(&text)?;
        std::fs::write(&path, text.replace(edit.from, edit.to))?;
        Ok(Self { path, text })
    }

    fn put_back(self) -> anyhow::Result<()> {
        std::fs::write(&self.path, self.text).with_context(|| self.path.display().to_string())
    }
}

/// Copies what git knows, as it is in the work tree. What is there and has not changed keeps its
/// time, so that it is not compiled again.
fn copy(root: &Path, tree: &Path) -> anyhow::Result<()> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("git cannot be run")?;
    let names = String::from_utf8(output.stdout)?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), tree.join(name));
        // A file that was deleted and is not committed yet.
        let Ok(bytes) = std::fs::read(&from) else { continue };
        if std::fs::read(&to).is_ok_and(|known| known == bytes) {
            continue;
        }
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&to, bytes).with_context(|| to.display().to_string())?;
    }
    Ok(())
}

/// Plays the seeds; what was broken first.
fn caught(tree: &Path, target: &Path, mutation: &Mutation) -> anyhow::Result<Option<String>> {
    let name = mutation.name;
    let cargo = || {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(tree).env("CARGO_TARGET_DIR", target);
        let test = ["test", "--quiet", "--profile", "soak", "--workspace", "--test", "faults"];
        command.args(test);
        command
    };
    let built = cargo().arg("--no-run").status().context("cargo cannot be run")?;
    if !built.success() {
        bail!("{name}: the broken tree does not compile");
    }
    let output = cargo()
        .args(["--", "--ignored", "--nocapture", "many_seeds"])
        .env("AEROSTAT_SEEDS", SEEDS)
        .env("AEROSTAT_FROM", "0")
        .env("AEROSTAT_RULES", mutation.by)
        .env("RUST_BACKTRACE", "0")
        .stderr(Stdio::null())
        .output()
        .context("cargo cannot be run")?;
    if output.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().find(|line| line.starts_with("seed "));
    let first = first.with_context(|| format!("{name}: the seeds were not played:\n{text}"))?;
    Ok(Some(first.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who changes such a line hears of it at once, not when the mutations are next run.
    #[test]
    fn what_is_to_be_broken_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for edit in MUTATIONS.iter().flat_map(|mutation| mutation.edits).chain([&CHECK]) {
            let text = std::fs::read_to_string(root.join(edit.file)).expect(edit.file);
            edit.find(&text).unwrap();
        }
    }
}
