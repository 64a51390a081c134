//! Developer commands: test, soak, mutate, e2e, bench, generate.

mod bench;
mod e2e;
mod generate;
mod mutate;
mod soak;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--only-tests] [-- ARGUMENTS]   every check and every test; ARGUMENTS go to `cargo test`
  soak                                 the tests that take minutes: a crash at every single write,
                                       and 1,000 seeds of everything that can go wrong
  soak --seeds N [--from K]            N seeds, from K on, on all cores
       [--case FILE] [--shrink]        one case of a file; the least that breaks the same rule
  mutate [NAME]                        breaks lines that keep clusters safe, one at a time: each must
                                       be caught by 200 seeds
  e2e [FILE[:LINES]…] [--focus RE] [--skip RE]  Karpenter's own end-to-end suite (with Go) against
      [--jobs N] [--runs N] [--release] `aerostat up`; writes docs/conformance.md, or checks it
      [--api-faults P%] [--check]      (`basic` is the performance suite's; it and `capacitybuffer`
                                       run only when they are named)
  e2e --quick [--jobs N] [--check]     the specs that `test` runs too
  bench [--engine] [--write]           the benchmark tables, from a release build; of the planner
                                       alone; into docs/benchmarks.md
        [--peers [--pods N,N…]]        and Karpenter's own benchmark in the same run
  bench --instructions [--bless]       instructions of a plan against those kept; keeps them
  generate schemas [--check]           Kubernetes' type tables, from its published Go modules
  generate catalog --from DIR          the instance catalog, from its three files
  generate catalog --check             whether the catalog is as the generator would pack it
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test", ..] => test::run(&arguments[1..]),
        ["soak", ..] => soak::run(&arguments[1..]),
        ["mutate"] => mutate::run(None),
        ["mutate", name] => mutate::run(Some(name)),
        ["e2e", ..] => e2e::run(&arguments[1..]),
        ["bench", ..] => bench::run(&arguments[1..]),
        ["generate", "schemas"] => generate::run(false),
        ["generate", "schemas", "--check"] => generate::run(true),
        ["generate", "catalog", "--from", folder] => generate::catalog::pack(folder.as_ref()),
        ["generate", "catalog", "--check"] => generate::catalog::check(),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = result {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
