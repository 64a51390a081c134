//! The table, in Markdown.

use std::fmt;
use std::time::Duration;

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
pub struct Row {
    metric: String,
    measured: f64,
    unit: &'static str,
    goal: Goal,
    note: String,
}

impl Row {
    /// `measured` is in `unit`; the goal is too.
    pub fn new(metric: &str, measured: f64, unit: &'static str, goal: Goal) -> Self {
        Self { metric: metric.to_owned(), measured, unit, goal, note: String::new() }
    }

    /// A time in milliseconds.
    pub fn time(metric: &str, measured: Duration, goal: Goal) -> Self {
        Self::new(metric, measured.as_secs_f64() * 1e3, "ms", goal)
    }

    /// The same with a note.
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }
}

/// All rows so far, and how long it takes to read one pod's JSON.
#[derive(Debug)]
pub struct Table {
    /// What times are compared with.
    pub parse: Duration,
    rows: Vec<Row>,
}

impl Table {
    pub fn new(parse: Duration) -> Self {
        let mut table = Self { parse, rows: Vec::new() };
        let micros = parse.as_secs_f64() * 1e6;
        table.add(Row::new("read one pod's JSON", micros, "µs", Goal::None).note("the yardstick"));
        table
    }

    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// `= 12 pods read`.
    pub fn in_parses(&self, time: Duration) -> String {
        format!("= {:.0} pods read", time.as_secs_f64() / self.parse.as_secs_f64())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| metric | measured | goal | note |")?;
        writeln!(f, "|---|---:|---:|---|")?;
        for Row { metric, measured, unit, goal, note } in &self.rows {
            let digits = if *measured < 10.0 { 2 } else { 0 };
            let (goal, met) = match goal {
                Goal::AtMost(limit) => (format!("≤ {limit} {unit}"), measured <= limit),
                Goal::AtLeast(limit) => (format!("≥ {limit} {unit}"), measured >= limit),
                Goal::None => (String::new(), true),
            };
            let missed = if met { "" } else { "**missed** " };
            writeln!(f, "| {metric} | {missed}{measured:.digits$} {unit} | {goal} | {note} |")?;
        }
        Ok(())
    }
}

/// The `nth` percentile of `times`, which are sorted for it.
pub fn percentile(times: &mut [Duration], nth: usize) -> Duration {
    times.sort_unstable();
    let index = (times.len() * nth).div_ceil(100).saturating_sub(1);
    times.get(index).copied().unwrap_or_default()
}
