//! Kubernetes' protobuf bodies to JSON, by the type table.
//!
//! The server only reads protobuf: every client takes JSON answers. The envelope is described in
//! k8s.io/apimachinery `pkg/runtime/serializer/protobuf`.

mod leaf;
mod wire;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use crate::decode::unknown;
use crate::table::{Shape, Type, table};
use wire::{Fields, Wire};

const MAGIC: &[u8] = b"k8s\0";

/// Nesting that is refused; deeper than any real object.
const MAX_DEPTH: usize = 128;

/// Decodes an enveloped object; `apiVersion` and `kind` come from the envelope.
///
/// Values come as Go's JSON encoder would write them. Field numbers that the type does not have
/// are skipped, as in Go.
///
/// # Errors
///
/// The bytes are no envelope, name a kind that is not known, or do not decode as it.
pub fn decode(bytes: &[u8]) -> Result<Value, String> {
    let body = bytes.strip_prefix(MAGIC).ok_or_else(|| {
        "provided data does not appear to be a protobuf message, expected prefix 'k8s\\0'"
            .to_owned()
    })?;
    let (mut api_version, mut kind) = (String::new(), String::new());
    let (mut raw, mut content_type): (&[u8], String) = (&[], String::new());
    let mut fields = Fields::of(body);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Wire::Bytes(type_meta)) => {
                let mut fields = Fields::of(type_meta);
                while let Some((number, value)) = fields.next()? {
                    match number {
                        1 => api_version = text(value)?,
                        2 => kind = text(value)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            (4, value) => content_type = text(value)?,
            _ => {}
        }
    }
    if content_type == "application/json" {
        return serde_json::from_slice(raw).map_err(|error| format!("json: {error}"));
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let of_type = table()
        .kind(group, version, &kind)
        // Options (`DeleteOptions`) may be sent under the version that they are defined in.
        .or_else(|| table().named(&format!("io.k8s.apimachinery.pkg.apis.meta.{version}.{kind}")))
        .ok_or_else(|| unknown(group, version, &kind))?;
    let mut object = Map::new();
    message(of_type, 0, raw, &mut object, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// Decodes a message into `object`. `outer` holds the field numbers of the inlined messages around
/// it, as in [`crate::table::Field::number`].
fn message(
    of_type: &Type,
    outer: u64,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("proto: messages are nested deeper than {MAX_DEPTH}"));
    }
    let mut fields = Fields::of(bytes);
    while let Some((number, wire)) = fields.next()? {
        let number = (outer << 16) | number;
        let Some(field) = of_type.fields.iter().find(|field| field.number == number) else {
            if let Wire::Bytes(bytes) = wire
                && of_type.fields.iter().any(|field| field.is_inside(number))
            {
                message(of_type, number, bytes, object, depth + 1)?;
            }
            continue;
        };
        let within = |error| format!("{}.{}: {error}", of_type.short_name(), field.name);
        match &field.shape {
            Shape::List(element) => {
                let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    elements(element, wire, list, depth).map_err(within)?;
                }
            }
            Shape::Map(element) => {
                let (key, value) = entry(element, wire, depth).map_err(within)?;
                let map = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    map.insert(key, value);
                }
            }
            shape => {
                let value = value(shape, wire, depth).map_err(within)?;
                if !field.leaves_out(&value) {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

fn elements(
    shape: &Shape,
    wire: Wire<'_>,
    list: &mut Vec<Value>,
    depth: usize,
) -> Result<(), String> {
    if let (Shape::Bool | Shape::Int32 | Shape::Int64, Wire::Bytes(packed)) = (shape, wire) {
        let mut packed = Fields::of(packed);
        while !packed.is_empty() {
            list.push(value(shape, Wire::Varint(packed.varint()?), depth)?);
        }
        return Ok(());
    }
    list.push(value(shape, wire, depth)?);
    Ok(())
}

/// Key and value of a map's entry.
fn entry(shape: &Shape, wire: Wire<'_>, depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut found) = (String::new(), None);
    let mut fields = Fields::of(bytes(wire)?);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => key = text(wire)?,
            2 => found = Some(value(shape, wire, depth)?),
            _ => {}
        }
    }
    let found = match found {
        Some(found) => found,
        None => value(shape, zero(shape), depth)?,
    };
    Ok((key, found))
}

fn zero(shape: &Shape) -> Wire<'static> {
    match shape {
        Shape::Bool | Shape::Int32 | Shape::Int64 => Wire::Varint(0),
        Shape::Double => Wire::Fixed64(0),
        _ => Wire::Bytes(&[]),
    }
}

fn value(shape: &Shape, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (shape, wire) {
        (Shape::String, wire) => text(wire)?.into(),
        (Shape::Bytes, wire) => STANDARD.encode(bytes(wire)?).into(),
        (Shape::Bool, Wire::Varint(value)) => Value::Bool(value != 0),
        // Negative numbers are sign-extended to 64 bits, also those of 32.
        #[expect(clippy::cast_possible_truncation, reason = "Go keeps the low 32 bits as well")]
        (Shape::Int32, Wire::Varint(value)) => (value as i32).into(),
        (Shape::Int64, Wire::Varint(value)) => value.cast_signed().into(),
        (Shape::Double, Wire::Fixed64(bits)) => {
            Number::from_f64(f64::from_bits(bits)).map_or(Value::Null, Value::Number)
        }
        // A list as a map's value is a message of its own, with the elements as field 1.
        (Shape::List(element), wire) => {
            let mut list = Vec::new();
            let mut fields = Fields::of(bytes(wire)?);
            while let Some((number, wire)) = fields.next()? {
                if number == 1 {
                    elements(element, wire, &mut list, depth)?;
                }
            }
            Value::Array(list)
        }
        (Shape::Type(id), wire) => {
            let of_type = &table().types[*id];
            match of_type.leaf {
                Some(leaf) => leaf::value(leaf, bytes(wire)?, depth)?,
                None => {
                    let mut object = Map::new();
                    message(of_type, 0, bytes(wire)?, &mut object, depth + 1)?;
                    Value::Object(object)
                }
            }
        }
        (shape, wire) => return Err(format!("proto: wrong wireType: {wire:?} for {shape:?}")),
    })
}

fn bytes(wire: Wire<'_>) -> Result<&[u8], String> {
    match wire {
        Wire::Bytes(bytes) => Ok(bytes),
        other => Err(format!("proto: wrong wireType: {other:?} for bytes")),
    }
}

fn text(wire: Wire<'_>) -> Result<String, String> {
    let text = std::str::from_utf8(bytes(wire)?);
    text.map(str::to_owned).map_err(|_| "proto: text is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests;
