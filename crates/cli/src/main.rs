//! The `aerostat` binary: one file a verb, nothing in it that a test would want.

mod completions;
mod explain;
mod live;
mod local;
mod market;
mod node;
mod plan;
mod planner;
mod print;
mod record;
mod replay;
mod simulate;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

/// JSON trees are many small pieces, made on one thread and dropped on another: the system's
/// allocator takes a third of a busy cluster's time for them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// An open Auto Mode for Kubernetes.
///
/// Launches the right nodes for the pods that wait, keeps a chosen amount of capacity warm, and
/// gives back what nobody needs. `aerostat up` is the way to try it: a whole cluster in one
/// process, for your own kubectl.
#[derive(Debug, Parser)]
#[command(name = "aerostat", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Up(Box<up::Args>),
    Plan(plan::Args),
    Explain(explain::Args),
    Node(node::Args),
    Simulate(Box<simulate::Args>),
    Record(record::Args),
    Replay(replay::Args),
    Completions(completions::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Up(args) => up::run(*args),
        Verb::Plan(args) => plan::run(&args),
        Verb::Explain(args) => explain::run(&args),
        Verb::Node(args) => node::run(&args),
        Verb::Simulate(args) => simulate::run(&args),
        Verb::Record(args) => record::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Completions(args) => {
            completions::run::<Cli>(&args);
            Ok(ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
