//! String formats. Others than these are not checked, as upstream ignores the ones that it does
//! not know; of those that it knows, e-mail addresses, URIs, host names, book and card numbers and
//! colours are not checked here.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::civil::Date;

/// Whether a text has the form that a format asks for.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => {
            text.as_bytes().get(10).is_some_and(|byte| matches!(byte, b'T' | b't'))
                && text.parse::<Timestamp>().is_ok()
        }
        "date" => text.len() == 10 && text.parse::<Date>().is_ok(),
        "duration" => duration(text),
        "byte" => STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "uuid" => uuid(text),
        "k8s-short-name" => text.len() <= 63 && label(text),
        "k8s-long-name" => text.len() <= 253 && text.split('.').all(label),
        _ => true,
    }
}

/// Go's form (`1h30m`, `-1.5s`) or words (`2 days`).
fn duration(text: &str) -> bool {
    const UNITS: &[&str] = &[
        "ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "day", "week", "hour", "minute", "second",
    ];
    let mut rest = text.trim().strip_prefix(['-', '+']).unwrap_or(text.trim());
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let tail = tail.trim_start();
        let end = tail.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit = if unit.len() > 2 { unit.trim_end_matches('s') } else { unit };
        if number.parse::<f64>().is_err() || !UNITS.contains(&unit) {
            return false;
        }
        rest = tail.trim_start();
    }
    !text.trim().is_empty()
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits = bits.parse::<u8>().ok();
    let max = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    bits.is_some_and(|bits| bits <= max)
}

fn uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    digits.len() == 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && matches!(text.len(), 32 | 36)
}

fn label(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
