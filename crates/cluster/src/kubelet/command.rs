//! What well-known commands do, without running them.

use aerostat_api::Duration;

/// How a command goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// It ends.
    Ends {
        /// After so long.
        after: Duration,
        /// With this exit code.
        code: i32,
    },
    /// It does not end of its own accord.
    RunsForever,
}

impl Outcome {
    fn later(self, by: std::time::Duration) -> Self {
        match self {
            Self::Ends { after, code } => Self::Ends { after: Duration(by + after.0), code },
            Self::RunsForever => self,
        }
    }
}

const AT_ONCE: std::time::Duration = std::time::Duration::ZERO;

/// Programs that print something and end.
const PRINTERS: [&str; 12] = [
    "cat", "date", "echo", "env", "hostname", "id", "ls", "printf", "pwd", "true", "uname",
    "whoami",
];

const SHELLS: [&str; 4] = ["ash", "bash", "dash", "sh"];

/// How `argv` goes; `None` if it is not known.
pub(super) fn outcome(argv: &[String]) -> Option<Outcome> {
    let (program, arguments) = argv.split_first()?;
    let program = program.rsplit('/').next().unwrap_or(program);
    let ends = |after, code| Some(Outcome::Ends { after: Duration(after), code });
    match program {
        "sleep" => sleep(arguments),
        "tail" if arguments.iter().any(|argument| argument.starts_with("-f")) => {
            Some(Outcome::RunsForever)
        }
        "pause" => Some(Outcome::RunsForever),
        "false" => ends(AT_ONCE, 1),
        "perl" => ends(pi_digits(arguments)?, 0),
        _ if PRINTERS.contains(&program) => ends(AT_ONCE, 0),
        _ if SHELLS.contains(&program) => {
            let flag = arguments.iter().position(|argument| {
                argument.starts_with('-') && argument.ends_with('c') && !argument.starts_with("--")
            })?;
            script(arguments.get(flag + 1)?)
        }
        _ => None,
    }
}

/// Whether the program, as a container's first process, ignores SIGTERM: the kernel applies no
/// default to process 1, and of the commands known here only `pause` installs a handler.
pub(super) fn ignores_sigterm(argv: &[String]) -> bool {
    outcome(argv).is_some() && !argv.first().is_some_and(|program| program.ends_with("pause"))
}

/// coreutils' `sleep`: numbers with an optional unit, added up.
fn sleep(arguments: &[String]) -> Option<Outcome> {
    let mut total = 0.0;
    for argument in arguments {
        if matches!(argument.as_str(), "infinity" | "inf") {
            return Some(Outcome::RunsForever);
        }
        let (number, scale) = match argument.strip_suffix(['s', 'm', 'h', 'd']) {
            Some(number) if argument.ends_with('m') => (number, 60.0),
            Some(number) if argument.ends_with('h') => (number, 3_600.0),
            Some(number) if argument.ends_with('d') => (number, 86_400.0),
            Some(number) => (number, 1.0),
            None => (argument.as_str(), 1.0),
        };
        total += number.parse::<f64>().ok()? * scale;
    }
    let after = Duration(std::time::Duration::try_from_secs_f64(total).ok()?);
    (!arguments.is_empty()).then_some(Outcome::Ends { after, code: 0 })
}

/// `bpi(n)` of perl's bignum takes 4 s for 2000 digits, and grows with their square.
fn pi_digits(arguments: &[String]) -> Option<std::time::Duration> {
    let text = arguments.iter().find_map(|argument| argument.split_once("bpi("))?.1;
    let digits: f64 = text.split_once(')')?.0.parse().ok()?;
    std::time::Duration::try_from_secs_f64(4.0 * (digits / 2_000.0).powi(2)).ok()
}

/// Simple commands one after the other. Anything else than plain words is not known.
fn script(text: &str) -> Option<Outcome> {
    let endless = ["while true", "while :", "while sleep"];
    if endless.iter().any(|start| text.trim_start().starts_with(start)) && !text.contains("break") {
        return Some(Outcome::RunsForever);
    }
    let mut total = AT_ONCE;
    let mut code = 0;
    for (joint, words) in commands(text)? {
        let skipped = (joint == Joint::And && code != 0) || (joint == Joint::Or && code == 0);
        let Some((program, arguments)) = words.split_first().filter(|_| !skipped) else { continue };
        let outcome = match program.as_str() {
            "exit" => {
                let code = arguments.first().map_or(Some(code), |code| code.parse().ok())?;
                return Some(Outcome::Ends { after: Duration(total), code });
            }
            "exec" => return Some(outcome(arguments)?.later(total)),
            "set" | ":" => Outcome::Ends { after: Duration(AT_ONCE), code: 0 },
            _ => outcome(&words)?,
        };
        match outcome {
            Outcome::RunsForever => return Some(Outcome::RunsForever),
            Outcome::Ends { after, code: last } => {
                total += after.0;
                code = last;
            }
        }
    }
    Some(Outcome::Ends { after: Duration(total), code })
}

/// What stands between a command and the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Joint {
    Then,
    And,
    Or,
}

/// Splits a script into commands, and these at blanks; quotes group. `None` if the shell would do
/// more than that: expansions, pipes, redirections, background jobs, compound commands.
fn commands(text: &str) -> Option<Vec<(Joint, Vec<String>)>> {
    let mut commands = vec![(Joint::Then, Vec::new())];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let (_, words) = commands.last_mut()?;
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(c),
            (_, '`' | '$' | '\\') => return None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '(' | ')' | '{' | '}' | '<' | '>') => return None,
            (None, ';' | '\n') => {
                words.extend(word.take());
                commands.push((Joint::Then, Vec::new()));
            }
            (None, '&' | '|') => {
                chars.next_if_eq(&c)?;
                words.extend(word.take());
                commands.push((if c == '&' { Joint::And } else { Joint::Or }, Vec::new()));
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    commands.last_mut()?.1.extend(word);
    quote.is_none().then_some(commands)
}

#[cfg(test)]
mod tests {
    use super::{Outcome, ignores_sigterm, outcome};

    fn of(argv: &[&str]) -> Option<Outcome> {
        outcome(&argv.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    fn ends(seconds: f64, code: i32) -> Option<Outcome> {
        let after = std::time::Duration::from_secs_f64(seconds);
        Some(Outcome::Ends { after: aerostat_api::Duration(after), code })
    }

    #[test]
    fn well_known_commands() {
        assert_eq!(of(&["perl", "-Mbignum=bpi", "-wle", "print bpi(2000)"]), ends(4.0, 0));
        assert_eq!(of(&["/bin/sleep", "1h"]), ends(3600.0, 0));
        assert_eq!(of(&["sleep", "1m", "0.5"]), ends(60.5, 0));
        assert_eq!(of(&["sleep", "infinity"]), Some(Outcome::RunsForever));
        assert_eq!(of(&["tail", "-f", "/dev/null"]), Some(Outcome::RunsForever));
        assert_eq!(of(&["false"]), ends(0.0, 1));
        for unknown in [&["sleep"][..], &["sleep", "x"], &["nginx"], &["perl", "x.pl"], &[]] {
            assert_eq!(of(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn shell_scripts() {
        let sh = |script| of(&["/bin/sh", "-c", script]);
        assert_eq!(sh("echo 'a; b' && sleep 5; exit 3"), ends(5.0, 3));
        assert_eq!(sh("sleep 1 && false || sleep 2"), ends(3.0, 0));
        assert_eq!(sh("false && sleep 9"), ends(0.0, 1));
        assert_eq!(sh("set -e\nsleep 2\n"), ends(2.0, 0));
        assert_eq!(sh("exec sleep inf"), Some(Outcome::RunsForever));
        assert_eq!(sh("while true; do date; sleep 1; done"), Some(Outcome::RunsForever));
        for unknown in ["make", "sleep 1 &", "cat x | wc", "echo $(id)", "sleep $N", "sleep '1"] {
            assert_eq!(sh(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn the_first_process_ignores_sigterm_unless_it_handles_it() {
        let ignores =
            |line: &str| ignores_sigterm(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(ignores("sleep 5"));
        assert!(!ignores("nginx"));
        assert!(!ignores("/pause"));
        assert!(!ignores_sigterm(&[]));
    }
}
