//! Lengths of time that are the same each time, or drawn.

use std::fmt;
use std::time::Duration as Span;

use aerostat_api::Duration;
use aerostat_clock::Stream;
use rand::Rng;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `22s`, or a distribution to draw from.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    /// Always the same.
    Fixed(Duration),
    /// Drawn.
    Drawn(Distribution),
}

/// What lengths are drawn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Distribution {
    /// All lengths between two.
    Uniform {
        /// Shortest.
        min: Duration,
        /// Longest.
        max: Duration,
    },
    /// Mostly short, by chance long.
    Exponential {
        /// Its mean.
        mean: Duration,
    },
    /// Mostly about the median, with a long tail: what builds, batch jobs and boots look like.
    Lognormal {
        /// Half are shorter.
        median: Duration,
        /// One of twenty is longer.
        p95: Duration,
    },
}

/// The normal distribution's 95th percentile.
const P95: f64 = 1.644_853_626_951_472_2;
/// No length is longer.
const LONGEST: f64 = 731.0 * 86_400.0;

impl Distribution {
    /// Whether it can be drawn from.
    ///
    /// # Errors
    ///
    /// Says which bounds are the wrong way round.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Uniform { min, max } if min > max => {
                Err(format!("uniform: min {min} is above max {max}"))
            }
            Self::Lognormal { median, p95 } if median >= p95 || median.0.is_zero() => {
                Err(format!("lognormal: median {median} must be above 0s and below p95 {p95}"))
            }
            _ => Ok(()),
        }
    }

    /// One length, in whole milliseconds.
    pub fn draw(&self, draws: &mut Stream) -> Span {
        let seconds = |length: &Duration| length.0.as_secs_f64();
        let drawn = match self {
            Self::Uniform { min, max } => {
                seconds(min) + unit(draws) * (seconds(max) - seconds(min))
            }
            Self::Exponential { mean } => seconds(mean) * exponential(draws),
            Self::Lognormal { median, p95 } => {
                let spread = (seconds(p95) / seconds(median)).ln() / P95;
                seconds(median) * (spread * normal(draws)).exp()
            }
        };
        Span::from_secs_f64((drawn.clamp(0.0, LONGEST) * 1000.0).round() / 1000.0)
    }
}

impl Length {
    /// Whether it is no time at all.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Fixed(length) if length.0.is_zero())
    }

    /// Whether it can be drawn from.
    ///
    /// # Errors
    ///
    /// Says which bounds are the wrong way round.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Fixed(_) => Ok(()),
            Self::Drawn(distribution) => distribution.check(),
        }
    }

    /// One length.
    pub fn draw(&self, draws: &mut Stream) -> Span {
        match self {
            Self::Fixed(length) => length.0,
            Self::Drawn(distribution) => distribution.draw(draws),
        }
    }
}

/// A number of [0, 1).
pub fn unit(draws: &mut Stream) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let bits = (draws.next_u64() >> 11) as f64;
    bits / 9_007_199_254_740_992.0
}

/// An exponential number of mean 1.
pub fn exponential(draws: &mut Stream) -> f64 {
    -(1.0 - unit(draws)).ln()
}

/// A standard normal number, by Box and Muller.
fn normal(draws: &mut Stream) -> f64 {
    let radius = (2.0 * exponential(draws)).sqrt();
    radius * (std::f64::consts::TAU * unit(draws)).cos()
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(length) => length.serialize(serializer),
            Self::Drawn(distribution) => distribution.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Length;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length like 30s, or one of uniform, exponential and lognormal")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Length, E> {
                Duration::parse(text).map(Length::Fixed).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Length, A::Error> {
                Distribution::deserialize(MapAccessDeserializer::new(map)).map(Length::Drawn)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use aerostat_clock::Seeds;

    use super::*;

    fn drawn(text: &str) -> Vec<f64> {
        let length: Length = serde_json::from_str(text).unwrap();
        length.check().unwrap();
        assert_eq!(serde_json::to_string(&length).unwrap(), text.replace(' ', ""));
        let mut draws = Seeds::new(1).stream("test");
        let mut drawn: Vec<f64> =
            (0..4001).map(|_| length.draw(&mut draws).as_secs_f64()).collect();
        drawn.sort_by(f64::total_cmp);
        drawn
    }

    #[test]
    fn distributions_have_the_shape_that_they_are_given() {
        assert!(drawn("\"1m30s\"").iter().all(|seconds| *seconds == 90.0));
        let uniform = drawn(r#"{"uniform": {"min": "1m0s", "max": "3m0s"}}"#);
        assert!(uniform[0] >= 60.0 && uniform[4000] <= 180.0);
        assert!((uniform[2000] - 120.0).abs() < 4.0, "{}", uniform[2000]);
        let exponential = drawn(r#"{"exponential": {"mean": "1m40s"}}"#);
        let mean = exponential.iter().sum::<f64>() / 4001.0;
        assert!((mean - 100.0).abs() < 5.0, "{mean}");
        let lognormal = drawn(r#"{"lognormal": {"median": "1m40s", "p95": "6m40s"}}"#);
        assert!((lognormal[2000] - 100.0).abs() < 5.0, "{}", lognormal[2000]);
        assert!((lognormal[3800] - 400.0).abs() < 40.0, "{}", lognormal[3800]);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| match serde_json::from_str::<Length>(text) {
            Ok(length) => length.check().unwrap_err(),
            Err(error) => error.to_string(),
        };
        assert!(error("\"soon\"").contains("write it like 30s"));
        assert!(error(r#"{"exponential": {"median": "1s"}}"#).contains("median"));
        let wrong = error(r#"{"uniform": {"min": "2m", "max": "1m"}}"#);
        assert!(wrong.contains("min 2m0s is above max 1m0s"), "{wrong}");
        let zero = error(r#"{"lognormal": {"median": "0s", "p95": "1s"}}"#);
        assert!(zero.contains("must be above 0s"), "{zero}");
        assert!(error(r#"{"gamma": {"mean": "1s"}}"#).contains("gamma"));
    }
}
