//! The benchmark table: what is measured, against what it should be.
//!
//! `cargo xtask bench` prints it; names behind `--` choose rows: `cargo bench -p aerostat --bench
//! table -- story burst`. Each number is taken once per run, on the machine as it is; ratios to
//! something measured in the same run say more than the numbers when machines are compared.
//!
//! | module | measures |
//! |---|---|
//! | `command` | the binary: time to the first answer, cost of doing nothing, size |
//! | `planning` | pods to claims in process, on the real clock |
//! | `https` | pod creation through TLS sockets, with everything running behind them |
//! | `story` | a scenario in virtual time |
//! | `baseline` | reading the JSON of one pod: what the others are compared with |

mod baseline;
mod command;
mod connection;
mod https;
mod planning;
mod pods;
mod report;
mod story;

use std::process::ExitCode;

use mimalloc::MiMalloc;
use report::Table;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Name and measurement of each group of rows.
type Group = (&'static str, fn(&mut Table) -> anyhow::Result<()>);

const GROUPS: &[Group] = &[
    ("up", command::first_answer),
    ("idle", command::idle),
    ("single", planning::single_pods),
    ("burst", planning::burst),
    ("many", planning::ten_thousand),
    ("http1", https::http1),
    ("http2", https::http2),
    ("story", story::warm),
];

fn main() -> ExitCode {
    // cargo passes `--bench`.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let mut table = Table::new(baseline::parse());
    let mut failed = false;
    for (name, measure) in GROUPS {
        if !chosen.is_empty() && !chosen.iter().any(|wanted| wanted == name) {
            continue;
        }
        eprintln!("measuring: {name}");
        if let Err(error) = measure(&mut table) {
            eprintln!("{name}: {error:#}");
            failed = true;
        }
    }
    println!("{table}");
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
