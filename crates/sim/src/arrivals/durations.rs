//! How long work takes.

use std::fmt;
use std::time::Duration;

use aerostat_clock::Stream;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{exponential, unit};
use crate::span::{LONGEST, Span};

/// `5m`, or a distribution to draw from.
#[derive(Clone, Debug, PartialEq)]
pub enum Durations {
    /// Always the same.
    Fixed(Span),
    /// Drawn.
    Drawn(Distribution),
}

/// What durations are drawn from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Distribution {
    /// All lengths between two.
    Uniform {
        /// Shortest.
        min: Span,
        /// Longest.
        max: Span,
    },
    /// Mostly short, by chance long.
    Exponential {
        /// Its mean.
        mean: Span,
    },
    /// Mostly about the median, with a long tail: what builds and batch jobs look like.
    Lognormal {
        /// Half are shorter.
        median: Span,
        /// One of twenty is longer.
        p95: Span,
    },
}

/// The normal distribution's 95th percentile.
const P95: f64 = 1.644_853_626_951_472_2;

impl Durations {
    /// Whether it can be drawn from.
    ///
    /// # Errors
    ///
    /// Says which bounds are the wrong way round.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Drawn(Distribution::Uniform { min, max }) if min > max => {
                Err(format!("uniform: min {min} is above max {max}"))
            }
            Self::Drawn(Distribution::Lognormal { median, p95 })
                if median >= p95 || median.0.is_zero() =>
            {
                Err(format!("lognormal: median {median} must be above 0s and below p95 {p95}"))
            }
            _ => Ok(()),
        }
    }

    /// One length, in whole milliseconds.
    pub fn draw(&self, draws: &mut Stream) -> Duration {
        let seconds = |span: &Span| span.0.as_secs_f64();
        let drawn = match self {
            Self::Fixed(span) => return span.0,
            Self::Drawn(Distribution::Uniform { min, max }) => {
                seconds(min) + unit(draws) * (seconds(max) - seconds(min))
            }
            Self::Drawn(Distribution::Exponential { mean }) => seconds(mean) * exponential(draws),
            Self::Drawn(Distribution::Lognormal { median, p95 }) => {
                let spread = (seconds(p95) / seconds(median)).ln() / P95;
                seconds(median) * (spread * normal(draws)).exp()
            }
        };
        let most = LONGEST.as_secs_f64();
        Duration::from_secs_f64((drawn.clamp(0.0, most) * 1000.0).round() / 1000.0)
    }
}

/// A standard normal number, by Box and Muller.
fn normal(draws: &mut Stream) -> f64 {
    let radius = (2.0 * exponential(draws)).sqrt();
    radius * (std::f64::consts::TAU * unit(draws)).cos()
}

impl<'de> Deserialize<'de> for Durations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Durations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length like 5m, or one of uniform, exponential and lognormal")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Durations, E> {
                text.parse().map(Durations::Fixed).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Durations, A::Error> {
                Distribution::deserialize(MapAccessDeserializer::new(map)).map(Durations::Drawn)
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
        let durations: Durations = serde_saphyr::from_str(text).unwrap();
        durations.check().unwrap();
        let mut draws = Seeds::new(1).stream("test");
        let mut drawn: Vec<f64> =
            (0..4001).map(|_| durations.draw(&mut draws).as_secs_f64()).collect();
        drawn.sort_by(f64::total_cmp);
        drawn
    }

    #[test]
    fn distributions_have_the_shape_that_they_are_given() {
        assert!(drawn("90s").iter().all(|seconds| *seconds == 90.0));
        let uniform = drawn("{uniform: {min: 1m, max: 3m}}");
        assert!(uniform[0] >= 60.0 && uniform[4000] <= 180.0);
        assert!((uniform[2000] - 120.0).abs() < 4.0, "{}", uniform[2000]);
        let exponential = drawn("{exponential: {mean: 100s}}");
        let mean = exponential.iter().sum::<f64>() / 4001.0;
        assert!((mean - 100.0).abs() < 5.0, "{mean}");
        let lognormal = drawn("{lognormal: {median: 100s, p95: 400s}}");
        assert!((lognormal[2000] - 100.0).abs() < 5.0, "{}", lognormal[2000]);
        assert!((lognormal[3800] - 400.0).abs() < 40.0, "{}", lognormal[3800]);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| match serde_saphyr::from_str::<Durations>(text) {
            Ok(durations) => durations.check().unwrap_err(),
            Err(error) => error.to_string(),
        };
        assert!(error("soon").contains("write it like 90s"));
        assert!(error("{exponential: {median: 1s}}").contains("median"));
        assert!(error("{uniform: {min: 2m, max: 1m}}").contains("min 2m0s is above max 1m0s"));
        assert!(error("{lognormal: {median: 0s, p95: 1s}}").contains("must be above 0s"));
        assert!(error("{gamma: {mean: 1s}}").contains("gamma"));
    }
}
