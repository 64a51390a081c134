//! Durations as Karpenter's objects write them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A Go duration: whole seconds, minutes and hours (`30s`, `24h0m0s`), nanosecond grain inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub std::time::Duration);

impl Duration {
    /// Reads a Go duration string; the error says what was wrong.
    ///
    /// # Errors
    ///
    /// If `text` is not a sequence of decimal numbers, each with a unit (`ns`, `us`, `ms`, `s`, `m`, `h`).
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a duration: write it like 30s, 10m or 24h0m0s");
        if text == "0" {
            return Ok(Self(std::time::Duration::ZERO));
        }
        let mut rest = text;
        let mut total = std::time::Duration::ZERO;
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
            let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
            rest = &rest[digits..];
            let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
            let scale = match &rest[..unit] {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(bad()),
            };
            let part = std::time::Duration::try_from_secs_f64(number * scale).map_err(|_| bad())?;
            total = total.checked_add(part).ok_or_else(bad)?;
            rest = &rest[unit..];
        }
        Ok(Self(total))
    }

    /// Nanoseconds, as Go counts them.
    #[must_use]
    pub fn nanos(self) -> i64 {
        i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Duration {
    /// Go's form: `24h0m0s`, `30s`, `1m30s`, `1.5s`, `500ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let nanos = self.0.subsec_nanos();
        if seconds == 0 && nanos > 0 {
            let (whole, unit) = match nanos {
                1_000_000.. => (1_000_000, "ms"),
                1_000.. => (1_000, "µs"),
                _ => (1, "ns"),
            };
            return write!(f, "{}{unit}", f64::from(nanos) / f64::from(whole));
        }
        let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        if nanos == 0 {
            return write!(f, "{rest}s");
        }
        let fraction = format!("{nanos:09}");
        write!(f, "{rest}.{}s", fraction.trim_end_matches('0'))
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A duration, or `Never`. Keeps the user's text, as Karpenter does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NillableDuration {
    /// `None` for `Never`.
    pub duration: Option<Duration>,
    text: String,
}

impl NillableDuration {
    /// Reads a Go duration string or `Never`.
    ///
    /// # Errors
    ///
    /// As [`Duration::parse`].
    pub fn parse(text: &str) -> Result<Self, String> {
        let duration = if text == "Never" { None } else { Some(Duration::parse(text)?) };
        Ok(Self { duration, text: text.to_owned() })
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::Duration;

    #[test]
    fn durations_read_and_print_as_go_has_them() {
        for text in ["0s", "500ms", "1.5ms", "2µs", "7ns", "13.9s", "1m30s", "24h0m0s"] {
            assert_eq!(Duration::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Duration::parse("90s").unwrap().to_string(), "1m30s");
        assert!(Duration::parse("4x").unwrap_err().contains("\"4x\" is not a duration"));
    }
}
