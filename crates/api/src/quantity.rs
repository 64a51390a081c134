//! Kubernetes quantities: `500m`, `750Mi`, `1.5`, `1e3`.
//!
//! Behaviour follows k8s.io/apimachinery `pkg/api/resource/quantity.go`: exact decimal values down
//! to nano, rounded up below that, and a canonical form that keeps the suffix family it was read in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANO: i128 = 1_000_000_000;

/// The family of suffixes that a quantity is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// `n u m k M G T P E`
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`
    BinarySi,
    /// `e3`, `E-9`
    DecimalExponent,
}

/// An exact amount of some resource, nano grain.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)]
pub struct ParseError;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nano: 0, format: Format::DecimalSi };

    /// `milli` thousandths, decimal (`500m`).
    #[must_use]
    pub fn from_milli(milli: i64) -> Self {
        Self { nano: i128::from(milli) * (NANO / 1000), format: Format::DecimalSi }
    }

    /// `units` whole units, decimal (`29`).
    #[must_use]
    pub fn from_units(units: i64) -> Self {
        Self { nano: i128::from(units) * NANO, format: Format::DecimalSi }
    }

    /// `bytes` bytes, binary (`750Mi`).
    #[must_use]
    pub fn from_bytes(bytes: i64) -> Self {
        Self { nano: i128::from(bytes) * NANO, format: Format::BinarySi }
    }

    /// Thousandths, rounded up, saturating.
    #[must_use]
    pub fn milli(&self) -> i64 {
        ceil_div(self.nano, NANO / 1000)
    }

    /// Whole units, rounded up, saturating.
    #[must_use]
    pub fn units(&self) -> i64 {
        ceil_div(self.nano, NANO)
    }

    /// Whether it is below zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.nano < 0
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.nano == 0
    }
}

fn ceil_div(value: i128, by: i128) -> i64 {
    let quotient = value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0);
    i64::try_from(quotient).unwrap_or(if quotient > 0 { i64::MAX } else { i64::MIN })
}

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let negative = text.starts_with('-');
        let end =
            unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(ParseError);
        }
        let (format, ten, two) = scale_of(suffix)?;
        let digits: String = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        if digits.len() > 30 {
            return Err(ParseError);
        }
        let mantissa: i128 =
            if digits.is_empty() { 0 } else { digits.parse().map_err(|_| ParseError)? };
        let exponent = ten + 9 - i32::try_from(fraction.len()).map_err(|_| ParseError)?;
        let mut nano = mantissa.checked_mul(1_i128 << two).unwrap_or(i128::MAX);
        if exponent >= 0 {
            let power = u32::try_from(exponent).ok().and_then(|e| 10_i128.checked_pow(e));
            nano = power.and_then(|power| nano.checked_mul(power)).unwrap_or(i128::MAX);
        } else {
            // Finer than nano rounds up, away from zero.
            let power = 10_i128.checked_pow(exponent.unsigned_abs()).unwrap_or(i128::MAX);
            nano = nano / power + i128::from(nano % power != 0);
        }
        // Upstream caps at 2^63-1 units.
        let nano = nano.min(i128::from(i64::MAX) * NANO);
        Ok(Self { nano: if negative { -nano } else { nano }, format })
    }
}

/// The format of `suffix`, and its scale as a power of ten and a power of two.
fn scale_of(suffix: &str) -> Result<(Format, i32, u32), ParseError> {
    if let Some((_, two)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((Format::BinarySi, 0, *two));
    }
    if let Some((_, ten)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((Format::DecimalSi, *ten, 0));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(ParseError)?;
    let exponent: i32 = exponent.parse().map_err(|_| ParseError)?;
    if !(-40..=40).contains(&exponent) {
        return Err(ParseError);
    }
    Ok((Format::DecimalExponent, exponent, 0))
}

impl fmt::Display for Quantity {
    /// The canonical form: largest suffix of its family that leaves no fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let sign = if self.nano < 0 { "-" } else { "" };
        let value = self.nano.unsigned_abs();
        let nano = NANO.unsigned_abs();
        if self.format == Format::BinarySi && value.is_multiple_of(nano) && value / nano >= 1024 {
            let units = value / nano;
            let (suffix, two) = BINARY
                .iter()
                .rev()
                .find(|(_, two)| units.is_multiple_of(1_u128 << two))
                .copied()
                .unwrap_or(("", 0));
            return write!(f, "{sign}{}{suffix}", units >> two);
        }
        let (mut value, mut exponent) = (value, -9);
        while value.is_multiple_of(1000) && exponent < 18 {
            value /= 1000;
            exponent += 3;
        }
        if self.format == Format::DecimalExponent && exponent != 0 {
            return write!(f, "{sign}{value}e{exponent}");
        }
        let suffix = DECIMAL.iter().find(|(_, ten)| *ten == exponent).map_or("", |(name, _)| name);
        write!(f, "{sign}{value}{suffix}")
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nano.cmp(&other.nano)
    }
}
impl std::ops::Add for Quantity {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        // The sum takes the format of the side that says something.
        let format = if self.nano == 0 { other.format } else { self.format };
        Self { nano: self.nano.saturating_add(other.nano), format }
    }
}
impl std::ops::Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let format = if self.nano == 0 { other.format } else { self.format };
        Self { nano: self.nano.saturating_sub(other.nano), format }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m, 750Mi or 2")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, units: u64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(i64::try_from(units).unwrap_or(i64::MAX)))
            }
            fn visit_i64<E: serde::de::Error>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(units))
            }
            fn visit_f64<E: serde::de::Error>(self, units: f64) -> Result<Quantity, E> {
                units.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
