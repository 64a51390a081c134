//! How long work takes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aerostat_clock::Stream;
use aerostat_provider::sim::lengths::{Distribution, unit};
use anyhow::bail;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::csv::Table;
use super::replay::{Column, file_name, length, seconds_of};
use crate::report::LeftOut;
use crate::span::Span;

/// `5m`, a distribution to draw from, or a file of lengths to draw from.
#[derive(Clone, Debug, PartialEq)]
pub enum Durations {
    /// Always the same.
    Fixed(Span),
    /// Drawn.
    Drawn(Distribution),
    /// Each row of a column as likely as the others.
    Csv(Csv),
}

/// A CSV file, and which column holds lengths: numbers of seconds or of `unit`, or 1m30s.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Csv {
    /// The file, relative to the scenario's.
    pub file: PathBuf,
    /// The column.
    pub column: String,
    /// What 1 stands for; 1s if not given.
    #[serde(default)]
    pub unit: Option<String>,
}

/// Durations that can be drawn from.
#[derive(Clone, Debug)]
pub(super) enum Draws {
    Fixed(Duration),
    Drawn(Distribution),
    Rows(Vec<Duration>),
}

impl Durations {
    /// Makes them ready. Rows that hold no length are left out.
    ///
    /// # Errors
    ///
    /// Says which bounds are the wrong way round, or what is wrong with the file.
    pub(super) fn draws(&self, folder: &Path) -> anyhow::Result<(Draws, Vec<LeftOut>)> {
        Ok(match self {
            Self::Fixed(span) => (Draws::Fixed(span.0), Vec::new()),
            Self::Drawn(distribution) => {
                distribution.check().map_err(|why| anyhow::anyhow!("duration: {why}"))?;
                (Draws::Drawn(distribution.clone()), Vec::new())
            }
            Self::Csv(csv) => csv.rows(&Table::read(&folder.join(&csv.file))?)?,
        })
    }
}

impl Csv {
    fn rows(&self, table: &Table) -> anyhow::Result<(Draws, Vec<LeftOut>)> {
        let column = Column { column: self.column.clone(), unit: self.unit.clone() };
        let unit = column.seconds().map_err(|why| anyhow::anyhow!("duration.csv.unit: {why}"))?;
        let at = table.column(&self.column)?;
        let mut rows = Vec::new();
        let mut left: BTreeMap<String, (u64, usize)> = BTreeMap::new();
        for (line, fields) in &table.rows {
            match seconds_of(&fields[at], unit).and_then(length) {
                Ok(length) => rows.push(length),
                Err(why) => left.entry(why).or_insert((0, *line)).0 += 1,
            }
        }
        if rows.is_empty() {
            bail!("{}: the column {:?} holds no duration", table.name, self.column);
        }
        let left = left.into_iter().map(|(why, (count, line))| LeftOut {
            what: format!("{count} durations of {}", file_name(&table.name)),
            why: format!("{why}, first on line {line}"),
            pods: 0,
        });
        Ok((Draws::Rows(rows), left.collect()))
    }
}

impl Draws {
    /// One length, in whole milliseconds.
    pub(super) fn draw(&self, draws: &mut Stream) -> Duration {
        match self {
            Self::Fixed(length) => *length,
            Self::Drawn(distribution) => distribution.draw(draws),
            Self::Rows(rows) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss,
                    reason = "a part of a number of rows"
                )]
                let at = (unit(draws) * rows.len() as f64) as usize;
                rows.get(at).copied().unwrap_or_default()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Durations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        enum Named {
            Uniform { min: aerostat_api::Duration, max: aerostat_api::Duration },
            Exponential { mean: aerostat_api::Duration },
            Lognormal { median: aerostat_api::Duration, p95: aerostat_api::Duration },
            Csv(Csv),
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Durations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length like 5m, or one of uniform, exponential, lognormal and csv")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Durations, E> {
                text.parse().map(Durations::Fixed).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Durations, A::Error> {
                Ok(match Named::deserialize(MapAccessDeserializer::new(map))? {
                    Named::Uniform { min, max } => {
                        Durations::Drawn(Distribution::Uniform { min, max })
                    }
                    Named::Exponential { mean } => {
                        Durations::Drawn(Distribution::Exponential { mean })
                    }
                    Named::Lognormal { median, p95 } => {
                        Durations::Drawn(Distribution::Lognormal { median, p95 })
                    }
                    Named::Csv(csv) => Durations::Csv(csv),
                })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use aerostat_clock::Seeds;

    use super::*;

    fn csv(text: &str) -> anyhow::Result<(Draws, Vec<LeftOut>)> {
        let durations: Durations =
            serde_saphyr::from_str("{csv: {file: t.csv, column: took, unit: 1m}}").unwrap();
        let Durations::Csv(csv) = durations else { panic!("{durations:?}") };
        csv.rows(&Table::parse("t.csv", text).unwrap())
    }

    #[test]
    fn rows_of_a_file_come_as_often_as_they_stand_there() {
        let (rows, left) = csv("id,took\n1,1\n2,1\n3,30s\n4,1\n5,-1\n6,\n").unwrap();
        let mut stream = Seeds::new(1).stream("test");
        let drawn: Vec<u64> = (0..4000).map(|_| rows.draw(&mut stream).as_secs()).collect();
        let short = drawn.iter().filter(|seconds| **seconds == 30).count();
        assert!(drawn.iter().all(|seconds| matches!(seconds, 30 | 60)));
        assert!((900..1100).contains(&short), "{short}");
        let left: Vec<_> = left.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
        let wanted = [
            "1 durations of t.csv: the duration is negative, first on line 6",
            "1 durations of t.csv: the duration is none, first on line 7",
        ];
        assert_eq!(left, wanted);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| match serde_saphyr::from_str::<Durations>(text) {
            Ok(durations) => durations.draws(Path::new("")).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error("soon").contains("write it like 90s"));
        assert!(error("{exponential: {median: 1s}}").contains("median"));
        assert!(error("{uniform: {min: 2m, max: 1m}}").contains("min 2m0s is above max 1m0s"));
        assert!(error("{lognormal: {median: 0s, p95: 1s}}").contains("must be above 0s"));
        assert!(error("{gamma: {mean: 1s}}").contains("gamma"));
        assert!(error("{csv: {file: no.csv, column: a}}").contains("no.csv cannot be read"));
        let none = csv("took\nlong\n").unwrap_err().to_string();
        assert_eq!(none, "t.csv: the column \"took\" holds no duration");
        let other = csv("a\n1\n").unwrap_err().to_string();
        assert_eq!(other, "t.csv: there is no column \"took\" among a");
    }
}
