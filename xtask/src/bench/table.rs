//! Rows of the table, as the bench of the binary prints them.

/// What a number should be.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// It is only told.
    None,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row(String);

impl Row {
    /// `measured` is in `unit`; the goal is too. Something that is `wrong` misses every goal.
    pub fn new(
        metric: &str,
        measured: f64,
        unit: &str,
        goal: Goal,
        note: &str,
        wrong: Option<String>,
    ) -> Self {
        let (goal, met) = match goal {
            Goal::AtMost(limit) => (format!("≤ {} {unit}", number(limit)), measured <= limit),
            Goal::AtLeast(limit) => (format!("≥ {} {unit}", number(limit)), measured >= limit),
            Goal::None => (String::new(), true),
        };
        let missed = if met && wrong.is_none() { "" } else { "**missed** " };
        let wrong = wrong.map(|wrong| format!("**{wrong}**; ")).unwrap_or_default();
        let measured = number(measured);
        Self(format!("| {metric} | {missed}{measured} {unit} | {goal} | {wrong}{note} |"))
    }

    /// A line that is rendered already.
    pub fn rendered(line: &str) -> Self {
        Self(line.to_owned())
    }
}

/// The whole table.
pub fn render(rows: &[Row]) -> String {
    let head = "| metric | measured | goal | note |\n|---|---:|---:|---|\n";
    rows.iter().fold(head.to_owned(), |table, Row(line)| table + line + "\n")
}

/// A number with three digits that say something, and thousands apart.
pub fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1.0 {
        return format!("{value:.3}");
    }
    if value.abs() < 100.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
