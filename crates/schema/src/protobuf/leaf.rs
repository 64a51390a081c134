//! Messages whose JSON is not an object with their fields.

use aerostat_api::Quantity;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::wire::{Fields, Wire};
use super::{MAGIC, decode, message, text};
use crate::table::{Leaf, table};

const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

pub(super) fn value(leaf: Leaf, bytes: &[u8], depth: usize) -> Result<Value, String> {
    match leaf {
        Leaf::Quantity => {
            let written = first_text(bytes)?;
            let quantity: Quantity = written.parse().map_err(|error| format!("{error}"))?;
            Ok(quantity.to_string().into())
        }
        Leaf::Time => time(bytes, 0),
        Leaf::MicroTime => time(bytes, 6),
        Leaf::Duration => Ok(go_duration(integers(bytes)?[1]).into()),
        Leaf::IntOrString => {
            let [_, is_text, number, _] = integers(bytes)?;
            Ok(if is_text == 0 { number.into() } else { third_text(bytes)?.into() })
        }
        Leaf::FieldsV1 | Leaf::RawExtension | Leaf::Json => raw(bytes),
        Leaf::SchemaOrArray | Leaf::SchemaOrBool | Leaf::SchemaOrStrings => {
            either(leaf, bytes, depth)
        }
    }
}

/// The integers in fields 1 to 3, by number.
fn integers(bytes: &[u8]) -> Result<[i64; 4], String> {
    let mut found = [0; 4];
    let mut fields = Fields::of(bytes);
    while let Some((number, wire)) = fields.next()? {
        if let (Wire::Varint(value), Ok(number @ 1..=3)) = (wire, usize::try_from(number)) {
            found[number] = value.cast_signed();
        }
    }
    Ok(found)
}

fn text_in(bytes: &[u8], wanted: u64) -> Result<String, String> {
    let mut fields = Fields::of(bytes);
    while let Some((number, wire)) = fields.next()? {
        if number == wanted {
            return text(wire);
        }
    }
    Ok(String::new())
}

fn first_text(bytes: &[u8]) -> Result<String, String> {
    text_in(bytes, 1)
}

fn third_text(bytes: &[u8]) -> Result<String, String> {
    text_in(bytes, 3)
}

/// Seconds and nanoseconds since 1970; an empty message is Go's zero time, which JSON has as null.
fn time(bytes: &[u8], digits: usize) -> Result<Value, String> {
    let [_, seconds, nanos, _] = integers(bytes)?;
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).map_err(|error| error.to_string())?;
    let time = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    Ok(format!("{time:.digits$}").into())
}

/// Go's text for a duration in nanoseconds, exact to the second's fraction: `1h2m3.5s`.
fn go_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let total = nanos.unsigned_abs();
    let (seconds, fraction) = (total / 1_000_000_000, total % 1_000_000_000);
    let fraction = match format!(".{fraction:09}").trim_end_matches('0') {
        "." => String::new(),
        fraction => fraction.to_owned(),
    };
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{sign}{seconds}{fraction}s"),
        (0, minutes, seconds) => format!("{sign}{minutes}m{seconds}{fraction}s"),
        (hours, minutes, seconds) => format!("{sign}{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

/// JSON, or an enveloped object, as bytes in field 1.
fn raw(bytes: &[u8]) -> Result<Value, String> {
    let mut fields = Fields::of(bytes);
    while let Some((number, wire)) = fields.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) if bytes.starts_with(MAGIC) => return decode(bytes),
            (1, Wire::Bytes(bytes)) if !bytes.is_empty() => {
                return serde_json::from_slice(bytes).map_err(|error| format!("json: {error}"));
            }
            _ => {}
        }
    }
    Ok(Value::Null)
}

/// A schema in field 1 (2 for `SchemaOrBool`), or the other form.
fn either(leaf: Leaf, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let schema = |bytes: &[u8]| -> Result<Value, String> {
        let of_type = table().named(SCHEMA).ok_or("the table has no CRD schema")?;
        let mut object = Map::new();
        message(of_type, 0, bytes, &mut object, depth + 1)?;
        Ok(Value::Object(object))
    };
    let mut list = Vec::new();
    let mut allows = false;
    let mut fields = Fields::of(bytes);
    while let Some((number, wire)) = fields.next()? {
        match (leaf, number, wire) {
            (Leaf::SchemaOrBool, 1, Wire::Varint(value)) => allows = value != 0,
            (Leaf::SchemaOrBool, 2, Wire::Bytes(bytes)) => return schema(bytes),
            (Leaf::SchemaOrArray | Leaf::SchemaOrStrings, 1, Wire::Bytes(bytes)) => {
                return schema(bytes);
            }
            (Leaf::SchemaOrArray, 2, Wire::Bytes(bytes)) => list.push(schema(bytes)?),
            (Leaf::SchemaOrStrings, 2, wire) => list.push(text(wire)?.into()),
            _ => {}
        }
    }
    Ok(if leaf == Leaf::SchemaOrBool { allows.into() } else { list.into() })
}
