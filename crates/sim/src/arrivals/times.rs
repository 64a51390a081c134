//! When work comes.

use std::collections::VecDeque;

use aerostat_clock::Stream;
use aerostat_engine::schedule::Schedule;
use aerostat_provider::sim::lengths::{exponential, unit};
use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::MOST;
use super::profile::Profile;
use crate::span::{Cron, Span, Zone, after};

/// Arrivals that know nothing of each other, at a rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Poisson {
    /// Arrivals an hour, in the mean.
    pub per_hour: f64,
    /// How the rate changes over the day.
    #[serde(default)]
    pub profile: Option<Profile>,
    /// How many come at once, in the mean (geometric): the jobs of a pipeline. 1 if not given.
    #[serde(default = "one")]
    pub batch: f64,
}

fn one() -> f64 {
    1.0
}

/// Many at once, again and again: `every` a length of time, or by `cron`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bursts {
    /// How many come each time.
    pub size: u32,
    /// How often, the first time at once.
    #[serde(default)]
    pub every: Option<Span>,
    /// When.
    #[serde(default)]
    pub cron: Option<Cron>,
    /// Whose time `cron` is; UTC if not given.
    #[serde(default)]
    pub time_zone: Zone,
    /// Over which time the burst is spread; all come at the same moment if not given.
    #[serde(default)]
    pub spread: Option<Span>,
}

/// Points in time, in order.
#[derive(Debug)]
pub struct Times {
    source: Source,
    until: Timestamp,
    draws: Stream,
    /// What comes next: the rest of a burst or of a batch.
    due: VecDeque<Timestamp>,
}

#[derive(Debug)]
enum Source {
    Poisson { at: Timestamp, poisson: Poisson },
    Every { at: Timestamp, every: Span, bursts: Bursts },
    Cron { at: Timestamp, schedule: Schedule, bursts: Bursts },
}

impl Times {
    /// Times of a Poisson process.
    ///
    /// # Errors
    ///
    /// Names the field that is out of bounds.
    pub fn poisson(
        poisson: &Poisson,
        from: Timestamp,
        until: Timestamp,
        draws: Stream,
    ) -> anyhow::Result<Self> {
        let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
        if !is_rate(poisson.per_hour) {
            bail!("poisson.perHour: {} is no rate: it must be 0 or more", poisson.per_hour);
        }
        if !(1.0..=1000.0).contains(&poisson.batch) {
            bail!("poisson.batch: {} must be from 1 to 1000", poisson.batch);
        }
        let mut peak = 1.0_f64;
        if let Some(profile) = &poisson.profile {
            profile.check().context("poisson.profile")?;
            peak = profile.peak();
        }
        let hours = until.duration_since(from).as_secs_f64() / 3600.0;
        let most = poisson.per_hour * poisson.batch * peak * hours;
        if most > MOST {
            bail!(
                "poisson.perHour: about {most:.0} arrivals are more than can be simulated \
                 ({MOST}): lower the rate, or end earlier"
            );
        }
        let source = Source::Poisson { at: from, poisson: poisson.clone() };
        Ok(Self { source, until, draws, due: VecDeque::new() })
    }

    /// Times of bursts.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or out of bounds.
    pub fn bursts(
        bursts: &Bursts,
        from: Timestamp,
        until: Timestamp,
        draws: Stream,
    ) -> anyhow::Result<Self> {
        let source = match (bursts.every, bursts.cron.clone()) {
            (Some(every), None) => {
                if every.0.is_zero() {
                    bail!("bursts.every: 0s would never end: write a length above 0");
                }
                let times = until.duration_since(from).as_secs_f64() / every.0.as_secs_f64();
                if times * f64::from(bursts.size) > MOST {
                    bail!("bursts.size: more arrivals than can be simulated ({MOST})");
                }
                Source::Every { at: from, every, bursts: bursts.clone() }
            }
            (None, Some(cron)) => {
                if bursts.size > 1_000_000 {
                    bail!("bursts.size: {} is above 1000000", bursts.size);
                }
                // A burst at the very start counts.
                let at = from.checked_sub(SignedDuration::from_millis(1)).unwrap_or(from);
                Source::Cron { at, schedule: cron.of(&bursts.time_zone), bursts: bursts.clone() }
            }
            _ => bail!("bursts: give exactly one of `every` and `cron`"),
        };
        Ok(Self { source, until, draws, due: VecDeque::new() })
    }

    /// Fills `due`; `None` at the end.
    fn refill(&mut self) -> Option<()> {
        let (time, bursts) = match &mut self.source {
            Source::Poisson { at, poisson } => {
                *at = next_of(poisson, *at, self.until, &mut self.draws)?;
                let more = if poisson.batch > 1.0 {
                    // Geometric from 1 on, with this mean.
                    let stop = (1.0 - 1.0 / poisson.batch).ln();
                    ((1.0 - unit(&mut self.draws)).ln() / stop).floor().clamp(0.0, 1e6)
                } else {
                    0.0
                };
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "clamped"
                )]
                let count = 1 + more as usize;
                self.due.extend(std::iter::repeat_n(*at, count));
                return Some(());
            }
            Source::Every { at, every, bursts } => {
                let time = *at;
                *at = after(time, every.0);
                (time, bursts)
            }
            Source::Cron { at, schedule, bursts } => {
                *at = schedule.next(*at)?;
                (*at, bursts)
            }
        };
        if time >= self.until {
            return None;
        }
        let spread = bursts.spread.map_or(0.0, |spread| spread.0.as_secs_f64());
        let mut offsets: Vec<f64> = (0..bursts.size)
            .map(|_| if spread > 0.0 { spread * unit(&mut self.draws) } else { 0.0 })
            .collect();
        offsets.sort_by(f64::total_cmp);
        self.due.extend(offsets.into_iter().map(|offset| later(time, offset)));
        Some(())
    }
}

impl Iterator for Times {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        loop {
            if let Some(time) = self.due.pop_front() {
                return (time < self.until).then_some(time);
            }
            self.refill()?;
        }
    }
}

/// `seconds` after `time`, to the millisecond.
fn later(time: Timestamp, seconds: f64) -> Timestamp {
    #[expect(clippy::cast_possible_truncation, reason = "far below 2^63 milliseconds")]
    let millis = (seconds * 1000.0).round() as i64;
    time.checked_add(SignedDuration::from_millis(millis)).unwrap_or(Timestamp::MAX)
}

/// The next time of a Poisson process whose rate is the same during each hour: it comes when the
/// rate, summed up over time, has reached an exponential number.
fn next_of(
    poisson: &Poisson,
    mut at: Timestamp,
    until: Timestamp,
    draws: &mut Stream,
) -> Option<Timestamp> {
    let mut need = exponential(draws);
    while at < until {
        let (factor, end) = match &poisson.profile {
            None => (1.0, until),
            Some(profile) => profile.hour(at),
        };
        let rate = poisson.per_hour * factor / 3600.0;
        let room = rate * end.duration_since(at).as_secs_f64();
        if room > need {
            return Some(later(at, need / rate)).filter(|time| *time < until);
        }
        need -= room;
        at = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use aerostat_clock::Seeds;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn draws() -> Stream {
        Seeds::new(7).stream("test")
    }

    #[test]
    fn a_profile_moves_arrivals_into_working_hours() {
        let text = "{perHour: 100, profile: {timeZone: Asia/Tokyo, \
                    weekday: [0,0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,1,1,0,0,0,0,0,0], \
                    weekend: [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}}";
        let poisson: Poisson = serde_saphyr::from_str(text).unwrap();
        // A week from Monday, Tokyo time.
        let (from, until) = (at("2026-01-04T15:00:00Z"), at("2026-01-11T15:00:00Z"));
        let times: Vec<Timestamp> =
            Times::poisson(&poisson, from, until, draws()).unwrap().collect();
        let Zone(tokyo) = "Asia/Tokyo".parse().unwrap();
        for time in &times {
            let zoned = time.to_zoned(tokyo.clone());
            assert!((9..18).contains(&zoned.hour()), "{zoned}");
            assert!(zoned.weekday().to_monday_zero_offset() < 5, "{zoned}");
        }
        assert!((4300..4700).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted());
    }

    #[test]
    fn batches_come_together_and_keep_their_mean() {
        let poisson = Poisson { per_hour: 100.0, profile: None, batch: 6.0 };
        let (from, until) = (at("2026-01-05T00:00:00Z"), at("2026-01-06T00:00:00Z"));
        let times: Vec<Timestamp> =
            Times::poisson(&poisson, from, until, draws()).unwrap().collect();
        assert!((13_000..16_000).contains(&times.len()), "{}", times.len());
    }

    #[test]
    fn bursts_come_by_cron_and_are_spread() {
        let text = "{size: 3, cron: '0 9 * * *', timeZone: Asia/Tokyo, spread: 1m}";
        let bursts: Bursts = serde_saphyr::from_str(text).unwrap();
        let (from, until) = (at("2026-01-05T00:00:00Z"), at("2026-01-06T00:00:00Z"));
        let times: Vec<Timestamp> = Times::bursts(&bursts, from, until, draws()).unwrap().collect();
        assert_eq!(times.len(), 3);
        assert!(times.iter().all(|time| *time < at("2026-01-05T00:01:00Z")), "{times:?}");
    }

    #[test]
    fn what_would_never_end_is_refused() {
        let (from, until) = (at("2026-01-05T00:00:00Z"), at("2026-02-04T00:00:00Z"));
        let poisson = |text: &str| {
            let poisson: Poisson = serde_saphyr::from_str(text).unwrap();
            format!("{:#}", Times::poisson(&poisson, from, until, draws()).unwrap_err())
        };
        assert!(poisson("{perHour: 1e9}").contains("more than can be simulated"));
        assert!(poisson("{perHour: -1}").contains("poisson.perHour: -1 is no rate"));
        assert!(poisson("{perHour: 1, profile: {weekday: [1, 2]}}").contains("24 factors"));
        let bursts: Bursts = serde_saphyr::from_str("{size: 1, every: 0s}").unwrap();
        let error = Times::bursts(&bursts, from, until, draws()).unwrap_err().to_string();
        assert!(error.contains("would never end"), "{error}");
    }
}
