//! Real clients against `aerostat up`: each script of `tests/clients/scripts`, with each kubectl
//! that `AEROSTAT_KUBECTL` names (`cargo xtask test` sets it), on a cluster of its own.
//!
//! A script is a transcript: `$ command` lines, each with the output that it must have. In the
//! output `[..]` stands for anything within a line, a line `...` for any lines. `? N` behind the
//! output is the exit code, if it is not 0. Lines `> more` continue a command. `$1.31+ command` is
//! only for kubectl 1.31 and later. A first line `# needs tool` leaves the script out, by name,
//! where there is no such tool.

#![expect(clippy::disallowed_methods, reason = "a test runs in the machine's time")]

mod cluster;
mod script;

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/scripts");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&scripts)
        .expect("the scripts are there")
        .map(|entry| entry.expect("the scripts can be read").path())
        .filter(|file| file.extension().is_some_and(|end| end == "txt"))
        .collect();
    files.sort();
    let named = std::env::var_os("AEROSTAT_KUBECTL").unwrap_or_default();
    let clients: Vec<PathBuf> =
        std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    let mut trials = Vec::new();
    for file in &files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if clients.is_empty() {
            println!("skipped: kubectl::{name} (AEROSTAT_KUBECTL names no kubectl)");
        }
        if let Some(tool) = needed(file).filter(|tool| !is_there(tool)) {
            println!("skipped: kubectl::{name} (no {tool} here)");
            continue;
        }
        for client in &clients {
            let (file, client) = (file.clone(), client.clone());
            let minor = minor(&client);
            let title = format!("kubectl 1.{minor}::{name}");
            trials.push(Trial::test(title, move || play(&client, minor, &file)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// The tool that a script needs besides kubectl.
fn needed(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    Some(text.lines().next()?.strip_prefix("# needs ")?.to_owned())
}

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// The `36` of kubectl 1.36; 0 if it does not tell.
fn minor(kubectl: &Path) -> u32 {
    let output = Command::new(kubectl).args(["version", "--client", "-o", "json"]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let version: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    minor.trim_end_matches('+').parse().unwrap_or(0)
}

fn play(kubectl: &Path, minor: u32, file: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(file)?;
    let script = script::parse(&text)?;
    let cluster = cluster::Cluster::start(kubectl)?;
    for step in script.iter().filter(|step| step.since <= minor) {
        let told = cluster.run(&step.command)?;
        if let Err(difference) = script::compare(step, &told.text, told.code) {
            return Err(format!(
                "{}:{}: $ {}\n{difference}\n\nall of it (exit code {}):\n{}",
                file.display(),
                step.line,
                step.command,
                told.code,
                told.text
            )
            .into());
        }
    }
    Ok(())
}
