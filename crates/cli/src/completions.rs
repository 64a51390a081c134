//! `aerostat completions`.

use clap::CommandFactory;
use clap_complete::Shell;

/// Print a completion script for a shell.
///
/// For bash: `source <(aerostat completions bash)`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the script to stdout.
pub fn run<C: CommandFactory>(args: &Args) {
    clap_complete::generate(args.shell, &mut C::command(), "aerostat", &mut std::io::stdout());
}
