//! `cargo xtask soak`: what takes minutes or hours.

use std::process::Command;

use anyhow::{Context, bail};

use crate::test::succeed;

/// How many seeds are played if nobody says.
const SEEDS: &str = "1000";

/// What a soak is to do.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    seeds: Option<String>,
    from: Option<String>,
    case: Option<String>,
    shrink: bool,
}

impl Wish {
    fn read(arguments: &[String]) -> anyhow::Result<Self> {
        let mut wish = Self::default();
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            let place = match flag.as_str() {
                "--seeds" => &mut wish.seeds,
                "--from" => &mut wish.from,
                "--case" => &mut wish.case,
                "--shrink" => {
                    wish.shrink = true;
                    continue;
                }
                other => bail!("{other}: soak knows --seeds N, --from K, --case FILE and --shrink"),
            };
            let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
            if flag != "--case" && value.parse::<u64>().is_err() {
                bail!("{flag} {value}: write a whole number");
            }
            *place = Some(value.clone());
        }
        Ok(wish)
    }
}

/// Without arguments: controllers that die at every single write, a thousand nodes, then some
/// seeds. With arguments: seeds alone.
///
/// # Errors
///
/// If an argument cannot be read, or a rule was broken.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let wish = Wish::read(arguments)?;
    if arguments.is_empty() {
        let mut command = faults(&["test", "--profile", "soak"]);
        command.args(["--ignored", "--skip", "many_seeds"]);
        succeed(&mut command, "soak")?;
        let mut command = Command::new(env!("CARGO"));
        command.args(["test", "--workspace", "--profile", "soak", "--test", "large"]);
        succeed(command.args(["--", "--ignored"]), "a thousand nodes")?;
    }
    let mut command = faults(&["test", "--quiet", "--profile", "soak"]);
    command.args(["--ignored", "--nocapture", "many_seeds"]);
    command.env("AEROSTAT_SEEDS", wish.seeds.as_deref().unwrap_or(SEEDS));
    command.env("AEROSTAT_FROM", wish.from.as_deref().unwrap_or("0"));
    if let Some(case) = wish.case {
        let case = std::path::absolute(&case).with_context(|| format!("--case {case}"))?;
        command.env("AEROSTAT_CASE", case);
    }
    if wish.shrink {
        command.env("AEROSTAT_SHRINK", "1");
    }
    succeed(&mut command, "soak")
}

/// The tests of the whole with faults.
pub(crate) fn faults(cargo: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(cargo).args(["--workspace", "--test", "faults", "--"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Wish, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Wish::read(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_are_read_and_what_is_wrong_is_named() {
        let wish = read("--seeds 10000 --from 7 --shrink").unwrap();
        assert_eq!((wish.seeds.as_deref(), wish.from.as_deref()), (Some("10000"), Some("7")));
        assert!(wish.shrink);
        assert_eq!(read("--seeds many").unwrap_err(), "--seeds many: write a whole number");
        assert_eq!(read("--from").unwrap_err(), "--from needs a value");
        assert!(read("--sedes 3").unwrap_err().starts_with("--sedes: soak knows"));
    }
}
