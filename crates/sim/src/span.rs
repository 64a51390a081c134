//! Points and lengths of time as a scenario writes them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration as Length;

use aerostat_api::Duration;
use aerostat_engine::schedule::{self, Schedule};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};

/// Longest time that is simulated: tokio's timers end somewhat above two years.
pub const LONGEST: Length = Length::from_secs(731 * 24 * 3600);

/// A length of time: `90s`, `12h`, and also `30d` and `2w`. A day is 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Length);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let days = |number: &str, each: u64| {
            let number: u64 = number.parse().ok()?;
            Some(Self(Length::from_secs(number.checked_mul(each)?.checked_mul(24 * 3600)?)))
        };
        let whole = match text.char_indices().next_back() {
            Some((at, 'd')) => days(&text[..at], 1),
            Some((at, 'w')) => days(&text[..at], 7),
            _ => Duration::parse(text).ok().map(|length| Self(length.0)),
        };
        let whole = whole.ok_or_else(|| {
            format!("{text:?} is no length of time: write it like 90s, 12h, 30d or 2w")
        })?;
        if whole.0 > LONGEST {
            return Err(format!("{text:?} is too long: at most two years can be simulated"));
        }
        Ok(whole)
    }
}

impl fmt::Display for Span {
    /// `30d`, `1h30m0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0.as_secs() / 86_400, self.0.as_secs() % 86_400);
        if days > 0 && rest == 0 && self.0.subsec_nanos() == 0 {
            return write!(f, "{days}d");
        }
        Duration(self.0).fmt(f)
    }
}

/// A point in time: a length from the start (`90s`), or a time of day with its date and offset
/// (`2026-01-05T08:30:00+09:00`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// From the start.
    After(Span),
    /// By the clock.
    On(Timestamp),
}

impl Moment {
    /// When that is in a scenario that starts at `start`.
    #[must_use]
    pub fn resolve(self, start: Timestamp) -> Timestamp {
        match self {
            Self::After(span) => after(start, span.0),
            Self::On(time) => time,
        }
    }
}

/// `length` after `start`, or the end of all times.
#[must_use]
pub fn after(start: Timestamp, length: Length) -> Timestamp {
    let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
    start.checked_add(length).unwrap_or(Timestamp::MAX)
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains(':') {
            return text.parse().map(Self::After);
        }
        text.parse().map(Self::On).map_err(|_| {
            format!(
                "{text:?} is no time: write it like 90s, counted from the start, or like \
                 2026-01-05T08:30:00+09:00"
            )
        })
    }
}

/// A time zone by its IANA name: `Asia/Tokyo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(pub TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl FromStr for Zone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        schedule::time_zone(text).map(Self)
    }
}

/// Times that come again, as cron has them: `30 8 * * 1-5`, `@daily`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron(String);

impl Cron {
    /// Its times in a zone.
    #[must_use]
    pub fn of(&self, zone: &Zone) -> Schedule {
        Schedule::parse(&self.0, zone.0.clone()).expect("it was read once")
    }
}

impl FromStr for Cron {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Schedule::parse(text, TimeZone::UTC).map(|_| Self(text.to_owned()))
    }
}

macro_rules! from_text {
    ($($kind:ty),*) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
from_text!(Span, Moment, Zone, Cron);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read() {
        let seconds = |text: &str| text.parse::<Span>().map(|span| span.0.as_secs());
        assert_eq!(seconds("30d"), Ok(30 * 86_400));
        assert_eq!(seconds("2w"), Ok(14 * 86_400));
        assert_eq!(seconds("1h30m"), Ok(5_400));
        assert_eq!("36h".parse::<Span>().unwrap().to_string(), "36h0m0s");
        assert_eq!("48h".parse::<Span>().unwrap().to_string(), "2d");
        for bad in ["", "d", "-1d", "1.5d", "soon", "30"] {
            assert!(seconds(bad).unwrap_err().contains("write it like 90s, 12h, 30d"), "{bad}");
        }
        assert!(seconds("100000d").unwrap_err().contains("at most two years"));
        assert!(seconds("99999999999999999999w").is_err());
    }

    #[test]
    fn moments_are_after_the_start_or_by_the_clock() {
        let start: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        let at = |text: &str| text.parse::<Moment>().unwrap().resolve(start).to_string();
        assert_eq!(at("1d"), "2026-01-06T00:00:00Z");
        assert_eq!(at("2026-01-05T08:30:00+09:00"), "2026-01-04T23:30:00Z");
        assert!("8:30".parse::<Moment>().unwrap_err().contains("2026-01-05T08:30:00+09:00"));
        assert!("Mars/Olympus".parse::<Zone>().unwrap_err().contains("Europe/Berlin"));
        assert!("61 8 * * *".parse::<Cron>().unwrap_err().contains("61"));
    }
}
