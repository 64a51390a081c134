//! Arrivals as they once were: one a row of a CSV file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration as Length;

use aerostat_api::{Duration, Quantity};
use anyhow::bail;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Arrival;
use super::csv::Table;
use crate::report::LeftOut;
use crate::span::LONGEST;

/// A file and what its columns mean.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replay {
    /// The CSV file, relative to the scenario's.
    pub file: PathBuf,
    /// What form it has, if that is a well-known one.
    #[serde(default)]
    pub format: Option<Format>,
    /// What its columns mean; says more than `format`, or something else.
    #[serde(default)]
    pub columns: Columns,
    /// Only so many of the earliest rows; all if not given.
    #[serde(default)]
    pub rows: Option<usize>,
    /// By what the times between arrivals are multiplied: 0.5 is twice as dense. 1 if not given.
    #[serde(default = "one")]
    pub stretch: f64,
}

fn one() -> f64 {
    1.0
}

/// A form that files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Jobs as GitLab's API tells of them: `created_at` and `duration`, which has seconds.
    Gitlab,
    /// Jobs as GitHub's API tells of them: `created_at`, `started_at` and `completed_at`.
    Github,
    /// The pod list of Alibaba's GPU cluster: times in seconds, milli-cores, MiB and GPUs.
    Openb,
    /// Requests of Azure's LLM traces: `TIMESTAMP`. How long one takes they do not tell.
    AzureLlm,
}

/// Which column says what. The first arrival comes at once, the others as long after it as they
/// did.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Columns {
    /// When it came: a date and time, or a number (of seconds, or of `unit`).
    #[serde(default)]
    pub arrival: Option<Column>,
    /// How long it ran: a number of seconds or of `unit`, or a duration like 1m30s.
    #[serde(default)]
    pub duration: Option<Column>,
    /// When it began to run, as `arrival`; when it came if not given.
    #[serde(default)]
    pub start: Option<Column>,
    /// Instead of `duration`: when it ended, as `arrival`.
    #[serde(default)]
    pub end: Option<Column>,
    /// What its first container asks for, by resource (`cpu`, `memory`): a number of `unit`, for
    /// example `m` or `Mi`.
    #[serde(default)]
    pub requests: BTreeMap<String, Column>,
}

/// A column by its name, and the unit of its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub column: String,
    /// What 1 stands for.
    pub unit: Option<String>,
}

impl Format {
    fn columns(self) -> Columns {
        let column = |name: &str| Some(Column { column: name.to_owned(), unit: None });
        let of = |unit: &str, name: &str| Column {
            column: name.to_owned(),
            unit: Some(unit.to_owned()).filter(|unit| !unit.is_empty()),
        };
        match self {
            Self::Gitlab => Columns {
                arrival: column("created_at"),
                duration: column("duration"),
                ..Columns::default()
            },
            Self::Github => Columns {
                arrival: column("created_at"),
                start: column("started_at"),
                end: column("completed_at"),
                ..Columns::default()
            },
            Self::Openb => Columns {
                arrival: column("creation_time"),
                end: column("deletion_time"),
                requests: BTreeMap::from([
                    ("cpu".to_owned(), of("m", "cpu_milli")),
                    ("memory".to_owned(), of("Mi", "memory_mib")),
                    ("nvidia.com/gpu".to_owned(), of("", "num_gpu")),
                ]),
                ..Columns::default()
            },
            Self::AzureLlm => Columns { arrival: column("TIMESTAMP"), ..Columns::default() },
        }
    }
}

impl Columns {
    /// These, and what they do not say from others.
    fn over(&self, others: Self) -> Self {
        let says_how_long = self.duration.is_some() || self.end.is_some();
        let length = if says_how_long { Self::default() } else { others.clone() };
        let mut requests = others.requests;
        requests.extend(self.requests.clone());
        Self {
            arrival: self.arrival.clone().or(others.arrival),
            duration: self.duration.clone().or(length.duration),
            start: self.start.clone().or(length.start),
            end: self.end.clone().or(length.end),
            requests,
        }
    }
}

impl<'de> Deserialize<'de> for Column {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Full {
            column: String,
            #[serde(default)]
            unit: Option<String>,
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Column;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a column, or {column: NAME, unit: UNIT}")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Column, E> {
                Ok(Column { column: text.to_owned(), unit: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Column, A::Error> {
                let Full { column, unit } = Full::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Column { column, unit })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// The arrivals of a file, in order of time, and what had to be left out.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) arrivals: Vec<Arrival>,
    pub(super) left_out: Vec<LeftOut>,
}

/// A row as it was read.
struct Row {
    line: usize,
    /// Seconds on the file's own clock.
    at: f64,
    duration: Option<Length>,
    requests: BTreeMap<String, String>,
}

impl Replay {
    /// The arrivals, the first at `from`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a column is missing or has an unknown unit.
    pub(super) fn read(&self, folder: &Path, from: Timestamp) -> anyhow::Result<Rows> {
        if !(self.stretch.is_finite() && self.stretch > 0.0) {
            bail!("replay.stretch: {} must be a number above 0", self.stretch);
        }
        self.rows_of(&Table::read(&folder.join(&self.file))?, from)
    }

    fn rows_of(&self, table: &Table, from: Timestamp) -> anyhow::Result<Rows> {
        let columns = &match self.format {
            Some(format) => self.columns.over(format.columns()),
            None => self.columns.clone(),
        };
        if columns.duration.is_some() && columns.end.is_some() {
            bail!("replay.columns: give one of duration and end");
        }
        if columns.start.is_some() && columns.end.is_none() {
            bail!("replay.columns.start: it goes with end");
        }
        let mut left: BTreeMap<String, (u64, usize)> = BTreeMap::new();
        let mut rows = Vec::new();
        let reader = Reader::new(columns, table)?;
        for (line, fields) in &table.rows {
            match reader.row(*line, fields) {
                Ok(row) => rows.push(row),
                Err(why) => {
                    let entry = left.entry(why).or_insert((0, *line));
                    entry.0 += 1;
                }
            }
        }
        rows.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.line.cmp(&b.line)));
        rows.truncate(self.rows.unwrap_or(usize::MAX));
        let first = rows.first().map_or(0.0, |row| row.at);
        let arrivals = rows.into_iter().map(|row| {
            let millis = (row.at - first) * self.stretch * 1000.0;
            #[expect(clippy::cast_possible_truncation, reason = "a cast to i64 saturates")]
            let after = SignedDuration::from_millis(millis.round() as i64);
            Arrival {
                at: from.checked_add(after).unwrap_or(Timestamp::MAX),
                duration: row.duration,
                requests: row.requests,
            }
        });
        let arrivals = arrivals.collect();
        let name = &table.name;
        let left_out = left.into_iter().map(|(why, (count, line))| LeftOut {
            what: format!("{count} rows of {}", file_name(name)),
            why: format!("{why}, first on line {line}"),
            pods: count,
        });
        Ok(Rows { arrivals, left_out: left_out.collect() })
    }
}

/// A report is the same wherever the file lies.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

struct Reader {
    arrival: (usize, f64),
    duration: Option<(usize, f64)>,
    start: Option<(usize, f64)>,
    end: Option<(usize, f64)>,
    requests: Vec<(String, usize, String)>,
}

impl Reader {
    fn new(columns: &Columns, table: &Table) -> anyhow::Result<Self> {
        let time = |column: &Column, field: &str| -> anyhow::Result<(usize, f64)> {
            let unit = column
                .seconds()
                .map_err(|why| anyhow::anyhow!("replay.columns.{field}.unit: {why}"))?;
            Ok((table.column(&column.column)?, unit))
        };
        let Some(arrival) = &columns.arrival else {
            bail!(
                "replay.columns.arrival: say which column tells when, or which `format` the file has"
            );
        };
        let mut requests = Vec::new();
        for (resource, column) in &columns.requests {
            let unit = column.unit.clone().unwrap_or_default();
            if format!("1{unit}").parse::<Quantity>().is_err() {
                bail!(
                    "replay.columns.requests.{resource}.unit: {unit:?} is no suffix like m or Mi"
                );
            }
            requests.push((resource.clone(), table.column(&column.column)?, unit));
        }
        let some = |column: &Option<Column>, field| {
            column.as_ref().map(|column| time(column, field)).transpose()
        };
        Ok(Self {
            arrival: time(arrival, "arrival")?,
            duration: some(&columns.duration, "duration")?,
            start: some(&columns.start, "start")?,
            end: some(&columns.end, "end")?,
            requests,
        })
    }

    /// One row; why it cannot be played.
    fn row(&self, line: usize, fields: &[String]) -> Result<Row, String> {
        let at =
            instant(&fields[self.arrival.0], self.arrival.1).ok_or("the arrival is no time")?;
        let seconds = match (&self.duration, &self.end) {
            (Some((column, unit)), _) => Some(seconds_of(&fields[*column], *unit)?),
            (None, Some((column, unit))) => {
                let end = instant(&fields[*column], *unit).ok_or("the end is no time")?;
                let start = match self.start {
                    Some((column, unit)) => {
                        instant(&fields[column], unit).ok_or("the start is no time")?
                    }
                    None => at,
                };
                Some(end - start)
            }
            (None, None) => None,
        };
        let duration = seconds.map(length).transpose()?;
        let mut requests = BTreeMap::new();
        for (resource, column, unit) in &self.requests {
            let text = &fields[*column];
            if text.is_empty() || text.parse::<f64>() == Ok(0.0) {
                continue;
            }
            let quantity = format!("{text}{unit}");
            let read = quantity.parse::<Quantity>().ok().filter(|read| !read.is_negative());
            read.ok_or_else(|| format!("what it asks of {resource} is no quantity"))?;
            requests.insert(resource.clone(), quantity);
        }
        Ok(Row { line, at, duration, requests })
    }
}

impl Column {
    /// What 1 stands for, in seconds.
    pub(super) fn seconds(&self) -> Result<f64, String> {
        let unit = Duration::parse(self.unit.as_deref().unwrap_or("1s"))?;
        Ok(unit.0.as_secs_f64())
    }
}

/// Seconds of a length: a number of units, or a duration like 1m30s.
pub(super) fn seconds_of(text: &str, unit: f64) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    let length = || Duration::parse(text).ok().map(|length| length.0.as_secs_f64());
    let seconds = number.map(|number| number * unit).or_else(length);
    seconds.ok_or_else(|| "the duration is none".to_owned())
}

/// A length in whole milliseconds.
pub(super) fn length(seconds: f64) -> Result<Length, String> {
    if seconds < 0.0 {
        return Err("the duration is negative".to_owned());
    }
    if seconds > LONGEST.as_secs_f64() {
        return Err("the duration is longer than two years".to_owned());
    }
    Ok(Length::from_secs_f64((seconds * 1000.0).round() / 1000.0))
}

/// Seconds of a time: a number of units, or a date and time, UTC if it says nothing else.
fn instant(text: &str, unit: f64) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some(number * unit);
    }
    let time = text.parse::<Timestamp>().ok().or_else(|| {
        let time: DateTime = text.trim_end_matches(" UTC").parse().ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })?;
    Some(time.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64())
}

#[cfg(test)]
mod tests;
