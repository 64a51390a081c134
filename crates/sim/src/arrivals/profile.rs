//! How something changes over the hours of a day.

use anyhow::bail;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::span::Zone;

/// Factors by the hour of the day.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// Whose hours; UTC if not given.
    #[serde(default)]
    pub time_zone: Zone,
    /// 24 factors, from midnight on, for Monday to Friday.
    pub weekday: Vec<f64>,
    /// 24 factors for Saturday and Sunday; as on weekdays if not given.
    #[serde(default)]
    pub weekend: Option<Vec<f64>>,
}

impl Profile {
    /// Whether it is complete.
    ///
    /// # Errors
    ///
    /// Names the list that is not.
    pub fn check(&self) -> anyhow::Result<()> {
        let weekend = self.weekend.iter().map(|hours| ("weekend", hours));
        for (name, hours) in [("weekday", &self.weekday)].into_iter().chain(weekend) {
            let is_factor = |factor: &f64| factor.is_finite() && *factor >= 0.0;
            if hours.len() != 24 || !hours.iter().all(is_factor) {
                bail!("{name}: write 24 factors, one for each hour, 0 or more");
            }
        }
        Ok(())
    }

    /// Its largest factor.
    #[must_use]
    pub fn peak(&self) -> f64 {
        let all = self.weekday.iter().chain(self.weekend.iter().flatten());
        all.copied().fold(0.0, f64::max)
    }

    /// The factor of the hour that a time is in, and when that hour ends.
    #[must_use]
    pub fn hour(&self, at: Timestamp) -> (f64, Timestamp) {
        let Zone(zone): &Zone = &self.time_zone;
        let zoned = at.to_zoned(TimeZone::clone(zone));
        let weekend = zoned.weekday().to_monday_zero_offset() >= 5;
        let hours = self.weekend.as_ref().filter(|_| weekend).unwrap_or(&self.weekday);
        let factor = usize::try_from(zoned.hour()).ok().and_then(|hour| hours.get(hour));
        let gone = i64::from(zoned.minute()) * 60 + i64::from(zoned.second());
        let left = SignedDuration::from_secs(3600 - gone)
            - SignedDuration::from_nanos(i64::from(zoned.subsec_nanosecond()));
        (factor.copied().unwrap_or(0.0), at.checked_add(left).unwrap_or(Timestamp::MAX))
    }

    /// The factor at a time, on the straight line from one hour's factor at its beginning to that of
    /// the next.
    #[must_use]
    pub fn level(&self, at: Timestamp) -> f64 {
        let (from, end) = self.hour(at);
        let (to, _) = self.hour(end);
        let left = end.duration_since(at).as_secs_f64() / 3600.0;
        to + (from - to) * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_goes_from_hour_to_hour_in_straight_lines() {
        let mut weekday = vec![0.0; 24];
        weekday[9] = 1.0;
        let weekend = Some(vec![0.5; 24]);
        let time_zone = "Asia/Tokyo".parse().unwrap();
        let profile = Profile { time_zone, weekday, weekend };
        let level = |time: &str| profile.level(time.parse().unwrap());
        // A Monday.
        for (time, wanted) in [
            ("2026-01-05T08:00:00+09:00", 0.0),
            ("2026-01-05T08:30:00+09:00", 0.5),
            ("2026-01-05T09:00:00+09:00", 1.0),
            ("2026-01-05T09:45:00+09:00", 0.25),
            ("2026-01-05T12:00:00+09:00", 0.0),
            ("2026-01-04T12:20:00+09:00", 0.5),
        ] {
            assert!((level(time) - wanted).abs() < 1e-9, "{time}: {}", level(time));
        }
        assert!((profile.peak() - 1.0).abs() < 1e-9);
        let short = Profile { weekday: vec![1.0; 23], ..profile.clone() };
        assert!(short.check().unwrap_err().to_string().contains("weekday: write 24 factors"));
        let odd = Profile { weekend: Some(vec![-1.0; 24]), ..profile };
        assert!(odd.check().unwrap_err().to_string().contains("weekend: write 24 factors"));
    }
}
