//! Measurements of the planner. `cargo xtask bench` runs them and makes tables of them; by
//! themselves they print a JSON object a line.
//!
//! | command | prints |
//! |---|---|
//! | `cases` | what there is to measure |
//! | `time CASE…` | how long a plan takes, what it is, the memory that it takes; without a name all |
//! | `once CASE` | nothing: it makes the plan once, for those who count instructions |
//! | `bills` | what plans cost on real catalogs |
//!
//! Only the planner's call is timed, as in Karpenter's benchmark: snapshots are made before.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on fails")]

mod bills;
mod cases;
mod cluster;
mod diverse;
mod fleet;
#[path = "../../tests/bill/market.rs"]
#[expect(dead_code, reason = "the test uses more of it")]
mod market;
mod measure;
mod memory;
mod pods;
#[path = "../../tests/world/mod.rs"]
mod world;

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // cargo passes `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let (command, names) = match words.split_first() {
        Some((command, names)) => (command.as_str(), names),
        None => ("time", &[][..]),
    };
    let all = cases::all();
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|case| case.name != **name)) {
        eprintln!("there is no case {unknown}; `cases` prints all");
        return ExitCode::from(2);
    }
    let chosen = all.iter().filter(|case| names.is_empty() || names.contains(&case.name));
    match command {
        "cases" => chosen.for_each(|case| println!("{}", case.describe())),
        "time" => chosen.for_each(|case| println!("{}", measure::time(case))),
        "once" => chosen.for_each(measure::once),
        "bills" => bills::print(),
        _ => {
            eprintln!("usage: engine [cases | time CASE… | once CASE… | bills]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
