//! Values with a form of their own: quantities, times, base64.

use aerostat_api::Quantity;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

/// Brings a quantity into canonical form. The three refusals are those of
/// k8s.io/apimachinery `pkg/api/resource/quantity.go`.
pub(super) fn quantity(value: &mut Value) -> Result<(), String> {
    let canonical = match &*value {
        Value::String(text) => canonical(text.trim())?,
        other => canonical(&other.to_string())?,
    };
    if *value != canonical {
        *value = canonical.into();
    }
    Ok(())
}

fn canonical(text: &str) -> Result<String, String> {
    let quantity: Quantity = text.parse().map_err(|error| match form(text) {
        // It has the form: then number or suffix is wrong.
        Some(number) if number.matches('.').count() > 1 || number == "." => {
            "unable to parse numeric part of quantity".to_owned()
        }
        Some(_) => "unable to parse quantity's suffix".to_owned(),
        None => format!("{error}"),
    })?;
    Ok(quantity.to_string())
}

/// The number in a text that matches the regular expression for quantities.
fn form(text: &str) -> Option<&str> {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    (!number.is_empty() && exponent.bytes().all(|b| b.is_ascii_digit())).then_some(number)
}

/// Brings an RFC 3339 time into UTC with `digits` digits of a second's fraction.
pub(super) fn time(text: &mut String, digits: usize) -> Result<(), String> {
    let wrong =
        || format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": not an RFC 3339 time");
    if text.as_bytes().get(10) != Some(&b'T') {
        return Err(wrong());
    }
    let time: Timestamp = text.parse().map_err(|_| wrong())?;
    // Most are in canonical form already.
    let length = "2006-01-02T15:04:05Z".len() + if digits > 0 { 1 + digits } else { 0 };
    if text.len() != length || !text.ends_with('Z') {
        *text = format!("{time:.digits$}");
    }
    Ok(())
}

/// Checks base64.
pub(super) fn base64(text: &str) -> Result<(), String> {
    match STANDARD.decode(text) {
        Ok(_) => Ok(()),
        Err(
            base64::DecodeError::InvalidByte(place, _)
            | base64::DecodeError::InvalidLastSymbol(place, _),
        ) => Err(format!("illegal base64 data at input byte {place}")),
        Err(_) => Err(format!("illegal base64 data at input byte {}", text.len())),
    }
}
