//! Work that comes by itself: who brings it when, and how long it takes.
//!
//! ```text
//! poisson | bursts | replay ──> times ─┐
//! durations ───────────────────────────┴─> Arrival ──template──> Job or Pod, created
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`durations`] | how long it takes |
//! | [`times`] | when it comes |
//! | [`replay`], `csv` | as it came once, from a file |
//! | [`template`] | what it is |
//! | [`reap`] | what has ended makes room |

mod csv;
pub mod durations;
pub mod profile;
pub mod reap;
pub mod replay;
pub mod template;
pub mod times;

use std::collections::BTreeMap;
use std::path::Path;

use aerostat_clock::{Seeds, Stream};
use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::Deserialize;

use crate::report::LeftOut;
use crate::span::Moment;
use durations::{Draws, Durations};
use replay::Replay;
use template::{Template, Work};
use times::{Bursts, Poisson, Times};

/// Most arrivals of one process: more is a mistake in the scenario.
pub(crate) const MOST: f64 = 10_000_000.0;

/// One arrival process: exactly one of `poisson`, `bursts` and `replay` says when.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Arrivals {
    /// What the objects are called: `NAME-1`, `NAME-2` and so on.
    pub name: String,
    /// What comes: a Job or a Pod.
    pub template: Template,
    /// How long its containers run; as the template says if not given.
    #[serde(default)]
    pub duration: Option<Durations>,
    /// At random, at a rate.
    #[serde(default)]
    pub poisson: Option<Poisson>,
    /// Many at once, again and again.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// As they once were.
    #[serde(default)]
    pub replay: Option<Replay>,
    /// When it begins; at the start if not given.
    #[serde(default)]
    pub from: Option<Moment>,
    /// When it ends; with the scenario if not given.
    #[serde(default)]
    pub until: Option<Moment>,
}

/// One thing that comes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrival {
    /// When.
    pub at: Timestamp,
    /// How long it runs, if that is not the template's affair.
    pub duration: Option<std::time::Duration>,
    /// What its first container asks for, where that is not the template's affair.
    pub requests: BTreeMap<String, String>,
}

/// The arrivals of one process, in order.
#[derive(Debug)]
pub struct Coming {
    /// What they are made of.
    pub work: Work,
    /// What of the input cannot come.
    pub left_out: Vec<LeftOut>,
    times: Source,
    durations: Option<Draws>,
    draws: Stream,
}

#[derive(Debug)]
enum Source {
    Times(Box<Times>),
    Rows(std::vec::IntoIter<Arrival>),
}

impl Arrivals {
    /// What comes between `start` and `end`. Files are relative to `folder`; chance is the stream
    /// of the process's name.
    ///
    /// # Errors
    ///
    /// Names the field that is wrong.
    pub fn coming(
        &self,
        folder: &Path,
        seeds: Seeds,
        start: Timestamp,
        end: Timestamp,
    ) -> anyhow::Result<Coming> {
        self.build(folder, seeds, start, end).with_context(|| format!("arrivals {:?}", self.name))
    }

    fn build(
        &self,
        folder: &Path,
        seeds: Seeds,
        start: Timestamp,
        end: Timestamp,
    ) -> anyhow::Result<Coming> {
        let from = self.from.map_or(start, |moment| moment.resolve(start));
        let until = self.until.map_or(end, |moment| moment.resolve(start).min(end));
        let draws = |of: &str| seeds.stream(&format!("arrivals/{}/{of}", self.name));
        let mut left_out = Vec::new();
        let times = match (&self.poisson, &self.bursts, &self.replay) {
            (Some(poisson), None, None) => {
                Source::Times(Box::new(Times::poisson(poisson, from, until, draws("times"))?))
            }
            (None, Some(bursts), None) => {
                Source::Times(Box::new(Times::bursts(bursts, from, until, draws("times"))?))
            }
            (None, None, Some(replay)) => {
                let mut rows = replay.read(folder, from)?;
                left_out = rows.left_out;
                let before = rows.arrivals.len();
                rows.arrivals.retain(|arrival| arrival.at < until);
                let late = before - rows.arrivals.len();
                if late > 0 {
                    left_out.push(LeftOut {
                        what: format!("{late} rows of {}", replay.file.display()),
                        why: "they come after the end".to_owned(),
                        pods: u64::try_from(late).unwrap_or(u64::MAX),
                    });
                }
                Source::Rows(rows.arrivals.into_iter())
            }
            _ => bail!("give exactly one of `poisson`, `bursts` and `replay`"),
        };
        let mut durations = None;
        if let Some(given) = &self.duration {
            let (drawn, mut left) = given.draws(folder)?;
            left_out.append(&mut left);
            durations = Some(drawn);
        }
        Ok(Coming {
            work: Work::read(&self.name, &self.template, folder)?,
            left_out,
            times,
            durations,
            draws: draws("durations"),
        })
    }
}

impl Iterator for Coming {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let mut arrival = match &mut self.times {
            Source::Times(times) => {
                Arrival { at: times.next()?, duration: None, requests: BTreeMap::new() }
            }
            Source::Rows(rows) => rows.next()?,
        };
        if let (None, Some(durations)) = (arrival.duration, &self.durations) {
            arrival.duration = Some(durations.draw(&mut self.draws));
        }
        Some(arrival)
    }
}
