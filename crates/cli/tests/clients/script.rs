//! Transcripts: reading and comparing.

/// One command, and what it must say.
pub struct Step {
    pub line: usize,
    /// The first minor of kubectl that has the command; older ones skip the step.
    pub since: u32,
    pub command: String,
    pub output: Vec<String>,
    pub code: i32,
}

/// Reads a script.
pub fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some((since, command)) = prompt(line) {
            let (command, output) = (command.to_owned(), Vec::new());
            steps.push(Step { line: number + 1, since, command, output, code: 0 });
        } else if line.starts_with('#') || (line.is_empty() && steps.is_empty()) {
        } else if let Some(step) = steps.last_mut() {
            match line.strip_prefix("? ") {
                Some(code) => step.code = code.parse().map_err(|_| format!("no code: {line}"))?,
                None if line.starts_with("> ") => {
                    step.command.push('\n');
                    step.command.push_str(&line[2..]);
                }
                None => step.output.push(line.to_owned()),
            }
        } else {
            return Err(format!("line {}: a script begins with `$ command`", number + 1));
        }
    }
    for step in &mut steps {
        // An empty line before the next command is for the eye.
        while step.output.last().is_some_and(String::is_empty) {
            step.output.pop();
        }
    }
    Ok(steps)
}

/// `$ command`, or `$1.31+ command` for what older kubectls do not have.
fn prompt(line: &str) -> Option<(u32, &str)> {
    let (since, command) = line.strip_prefix('$')?.split_once(' ')?;
    if since.is_empty() {
        return Some((0, command));
    }
    Some((since.strip_prefix("1.")?.strip_suffix('+')?.parse().ok()?, command))
}

/// Says where `told` is not what the step wants.
pub fn compare(step: &Step, told: &str, code: i32) -> Result<(), String> {
    if code != step.code {
        return Err(format!("exit code {code}, not {}", step.code));
    }
    let told: Vec<&str> = told.trim_end().lines().map(str::trim_end).collect();
    let wanted: Vec<&str> = step.output.iter().map(String::as_str).collect();
    if lines_match(&wanted, &told) {
        return Ok(());
    }
    let at = wanted.iter().zip(&told).take_while(|(wanted, told)| line_matches(wanted, told));
    let at = at.count();
    let show = |lines: &[&str]| lines.get(at).copied().unwrap_or("(nothing)").to_owned();
    Err(format!("- {}\n+ {}", show(&wanted), show(&told)))
}

fn lines_match(wanted: &[&str], told: &[&str]) -> bool {
    match wanted {
        [] => told.is_empty(),
        ["...", rest @ ..] => (0..=told.len()).any(|skip| lines_match(rest, &told[skip..])),
        [first, rest @ ..] => {
            told.first().is_some_and(|line| line_matches(first, line))
                && lines_match(rest, &told[1..])
        }
    }
}

fn line_matches(wanted: &str, told: &str) -> bool {
    let mut parts = wanted.split("[..]");
    let Some(mut rest) = parts.next().and_then(|first| told.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
