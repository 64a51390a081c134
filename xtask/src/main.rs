//! Developer commands: test, bench, generate.

mod generate;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask generate schemas [--check]
       cargo xtask generate catalog --from DIR | --check";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["generate", "schemas"] => generate::run(false),
        ["generate", "schemas", "--check"] => generate::run(true),
        ["generate", "catalog", "--from", folder] => generate::catalog::pack(folder.as_ref()),
        ["generate", "catalog", "--check"] => generate::catalog::check(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = result {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
