//! Offerings that run out by chance and come back.
//!
//! Each offering has a stream of chance of its own and goes from plenty to nothing and back at
//! exponential times: what is asked for, and when, does not change what there is.

use std::collections::BTreeMap;

use aerostat_api::Duration;
use aerostat_clock::{Seeds, Stream};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::OfferingKey;
use super::lengths::{exponential, unit};

/// Offerings that run out by chance: all that have what is said here, each for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shortage {
    /// Their instance type.
    #[serde(default)]
    pub instance_type: Option<String>,
    /// Their zone.
    #[serde(default)]
    pub zone: Option<String>,
    /// `on-demand` or `spot`.
    #[serde(default)]
    pub capacity_type: Option<String>,
    /// How long they are to be had, in the mean.
    pub every: Duration,
    /// How long they are not, in the mean.
    pub lasts: Duration,
}

impl Shortage {
    fn is_about(&self, key: &OfferingKey) -> bool {
        let is = |wanted: &Option<String>, value: &String| {
            wanted.as_ref().is_none_or(|wanted| wanted == value)
        };
        is(&self.instance_type, &key.instance_type)
            && is(&self.zone, &key.zone)
            && is(&self.capacity_type, &key.capacity_type)
    }
}

/// How it goes with each offering that was asked for.
#[derive(Debug)]
pub(super) struct Shortages {
    start: Timestamp,
    seeds: Seeds,
    courses: BTreeMap<(usize, OfferingKey), Course>,
}

/// One offering under one rule.
#[derive(Debug)]
struct Course {
    is_out: bool,
    until: Timestamp,
    draws: Stream,
}

impl Shortages {
    pub(super) fn new(start: Timestamp, seeds: Seeds) -> Self {
        Self { start, seeds, courses: BTreeMap::new() }
    }

    /// Whether an offering has run out under one of the rules. Times must not go back.
    pub(super) fn is_out(&mut self, rules: &[Shortage], key: &OfferingKey, now: Timestamp) -> bool {
        let about = rules.iter().enumerate().filter(|(_, rule)| rule.is_about(key));
        about.fold(false, |is_out, (at, rule)| {
            self.course(at, rule, key).is_out_at(rule, now) | is_out
        })
    }

    fn course(&mut self, at: usize, rule: &Shortage, key: &OfferingKey) -> &mut Course {
        let (start, seeds) = (self.start, self.seeds);
        self.courses.entry((at, key.clone())).or_insert_with(|| {
            let OfferingKey { instance_type, zone, capacity_type } = key;
            let name = format!("shortages/{at}/{instance_type}/{zone}/{capacity_type}");
            let mut draws = seeds.stream(&name);
            let (every, lasts) = (rule.every.0.as_secs_f64(), rule.lasts.0.as_secs_f64());
            // As it is in the long run; the rest of an exponential time is exponential.
            let is_out = unit(&mut draws) < lasts / (every + lasts);
            let mut course = Course { is_out, until: start, draws };
            course.until = course.end(rule);
            course
        })
    }
}

impl Course {
    fn is_out_at(&mut self, rule: &Shortage, now: Timestamp) -> bool {
        while self.until <= now {
            self.is_out = !self.is_out;
            self.until = self.end(rule);
        }
        self.is_out
    }

    /// When it changes again.
    fn end(&mut self, rule: &Shortage) -> Timestamp {
        let mean = if self.is_out { rule.lasts } else { rule.every };
        let millis = (mean.0.as_secs_f64() * exponential(&mut self.draws) * 1000.0).max(1.0);
        #[expect(clippy::cast_possible_truncation, reason = "a cast to i64 saturates")]
        let after = SignedDuration::from_millis(millis as i64);
        self.until.checked_add(after).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offering_is_out_for_its_part_of_the_time_whoever_asks() {
        let start = Timestamp::from_second(1_700_000_000).unwrap();
        let rule: Shortage =
            serde_json::from_str(r#"{"capacityType": "spot", "every": "3h", "lasts": "1h"}"#)
                .unwrap();
        let rules = [rule];
        let key = |capacity_type: &str| OfferingKey {
            instance_type: "m6a.large".to_owned(),
            zone: "a".to_owned(),
            capacity_type: capacity_type.to_owned(),
        };
        let at = |minute: i64| start.checked_add(SignedDuration::from_mins(minute)).unwrap();
        let minutes = 200 * 24 * 60;
        let mut often = Shortages::new(start, Seeds::new(3));
        let all: Vec<bool> =
            (0..minutes).map(|m| often.is_out(&rules, &key("spot"), at(m))).collect();
        let part = all.iter().filter(|out| **out).count() as f64 / minutes as f64;
        assert!((part - 0.25).abs() < 0.03, "{part}");
        let mut seldom = Shortages::new(start, Seeds::new(3));
        for minute in [0, 17, 5_000, 100_000] {
            assert_eq!(seldom.is_out(&rules, &key("spot"), at(minute)), all[minute as usize]);
            assert!(!seldom.is_out(&rules, &key("on-demand"), at(minute)));
        }
    }
}
