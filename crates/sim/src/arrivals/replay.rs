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
    /// What its columns mean.
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

/// Which column says what. The first arrival comes at once, the others as long after it as they
/// did.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Columns {
    /// When it came: a date and time, or a number (of seconds, or of `unit`).
    pub arrival: Column,
    /// How long it ran: a number of seconds or of `unit`, or a duration like 1m30s.
    #[serde(default)]
    pub duration: Option<Column>,
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
        let columns = &self.columns;
        if columns.duration.is_some() && columns.end.is_some() {
            bail!("replay.columns: give one of duration and end");
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
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

struct Reader {
    arrival: (usize, f64),
    duration: Option<(usize, f64)>,
    end: Option<(usize, f64)>,
    requests: Vec<(String, usize, String)>,
}

impl Reader {
    fn new(columns: &Columns, table: &Table) -> anyhow::Result<Self> {
        let time = |column: &Column, field: &str| -> anyhow::Result<(usize, f64)> {
            let unit = column.unit.as_deref().unwrap_or("1s");
            let unit = Duration::parse(unit)
                .map_err(|why| anyhow::anyhow!("replay.columns.{field}.unit: {why}"))?;
            Ok((table.column(&column.column)?, unit.0.as_secs_f64()))
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
            arrival: time(&columns.arrival, "arrival")?,
            duration: some(&columns.duration, "duration")?,
            end: some(&columns.end, "end")?,
            requests,
        })
    }

    /// One row; why it cannot be played.
    fn row(&self, line: usize, fields: &[String]) -> Result<Row, String> {
        let at =
            instant(&fields[self.arrival.0], self.arrival.1).ok_or("the arrival is no time")?;
        let seconds = match (&self.duration, &self.end) {
            (Some((column, unit)), _) => {
                let text = &fields[*column];
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                let length = || Duration::parse(text).ok().map(|length| length.0.as_secs_f64());
                let seconds = number.map(|number| number * unit).or_else(length);
                Some(seconds.ok_or("the duration is none")?)
            }
            (None, Some((column, unit))) => {
                let end = instant(&fields[*column], *unit).ok_or("the end is no time")?;
                Some(end - at)
            }
            (None, None) => None,
        };
        let duration = match seconds {
            Some(seconds) if seconds < 0.0 => return Err("the duration is negative".to_owned()),
            Some(seconds) if seconds > LONGEST.as_secs_f64() => {
                return Err("the duration is longer than two years".to_owned());
            }
            Some(seconds) => Some(Length::from_secs_f64((seconds * 1000.0).round() / 1000.0)),
            None => None,
        };
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
