//! An object against its type: what Go's decoder would object to, and what its encoder would write.

use std::fmt;

use serde_json::{Map, Value};

use super::leaf;
use crate::table::{Leaf, Shape, Type, table};

/// Where in an object something is; `spec.containers[0].name`.
pub(super) enum Path<'a> {
    /// The object.
    Root,
    /// A field or key of what is there.
    Field(&'a Path<'a>, &'a str),
    /// An element of the list that is there.
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(outer, name) => write!(f, "{outer}.{name}"),
            Self::Index(outer, index) => write!(f, "{outer}[{index}]"),
        }
    }
}

impl Path<'_> {
    /// The path as Go's decoder gives it: without list indices.
    fn go(&self) -> String {
        match self {
            Self::Root | Self::Field(Self::Root, _) => self.to_string(),
            Self::Field(outer, name) => match outer.go() {
                outer if outer.is_empty() => (*name).to_owned(),
                outer => format!("{outer}.{name}"),
            },
            Self::Index(outer, _) => outer.go(),
        }
    }
}

/// Brings an object of a built-in kind into the form in which the API keeps it, as a round trip
/// through Go's types does: fields that the type does not have are dropped and returned (`unknown
/// field "spec.bogus"`), nulls and those zero values that Go leaves out are dropped, quantities
/// and times get their canonical form.
///
/// # Errors
///
/// The kind is not known, or a value does not fit its field, in the words of Go's decoder.
pub fn prune_unknown(
    group: &str,
    version: &str,
    kind: &str,
    object: &mut Value,
) -> Result<Vec<String>, String> {
    let of_type =
        table().kind(group, version, kind).ok_or_else(|| unknown(group, version, kind))?;
    let mut walk = Walk { unknown: Vec::new() };
    let Value::Object(map) = object else {
        let name = of_type.short_name();
        return Err(mismatch(json_name(object), "value", &format!("v1.{name}")));
    };
    walk.object(of_type, map, &Path::Root)?;
    Ok(walk.unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect())
}

/// The same for the metadata of any object. Returns the paths of unknown fields, from there.
pub(crate) fn prune_metadata(metadata: &mut Value) -> Result<Vec<String>, String> {
    const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let of_type = table().named(OBJECT_META).ok_or("the table has no ObjectMeta")?;
    let mut walk = Walk { unknown: Vec::new() };
    let Value::Object(map) = metadata else {
        return Err(mismatch(json_name(metadata), "value", "v1.ObjectMeta"));
    };
    walk.object(of_type, map, &Path::Root)?;
    Ok(walk.unknown)
}

/// The words for a kind that is not there.
pub(crate) fn unknown(group: &str, version: &str, kind: &str) -> String {
    let slash = if group.is_empty() { "" } else { "/" };
    format!("no kind \"{kind}\" is registered for version \"{group}{slash}{version}\"")
}

struct Walk {
    /// Paths of the fields that were dropped.
    unknown: Vec<String>,
}

/// The field around a value: for error texts.
#[derive(Clone, Copy)]
struct Place<'a> {
    owner: &'a Type,
    path: &'a Path<'a>,
    go_type: &'a str,
}

impl Place<'_> {
    fn error(&self, value: &str) -> String {
        let place = format!("struct field {}.{}", self.owner.short_name(), self.path.go());
        mismatch(value, &place, self.go_type)
    }
}

fn mismatch(value: &str, place: &str, go_type: &str) -> String {
    let go = if place == "value" { "Go value" } else { "Go" };
    let place = if place == "value" { "" } else { place };
    let space = if place.is_empty() { "" } else { " " };
    format!("json: cannot unmarshal {value} into {go}{space}{place} of type {go_type}")
}

impl Walk {
    fn object(
        &mut self,
        of_type: &Type,
        map: &mut Map<String, Value>,
        path: &Path<'_>,
    ) -> Result<(), String> {
        let mut error = None;
        map.retain(|name, value| {
            if error.is_some() {
                return true;
            }
            let Some(field) = of_type.field(name) else {
                self.unknown.push(Path::Field(path, name).to_string());
                return false;
            };
            if value.is_null() {
                return false;
            }
            let path = Path::Field(path, name);
            let place = Place { owner: of_type, path: &path, go_type: field.go_type };
            match self.value(&field.shape, value, place) {
                Ok(()) => !field.leaves_out(value),
                Err(text) => {
                    error = Some(text);
                    true
                }
            }
        });
        error.map_or(Ok(()), Err)
    }

    fn value(&mut self, shape: &Shape, value: &mut Value, place: Place<'_>) -> Result<(), String> {
        match (shape, &mut *value) {
            (Shape::String, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => Ok(()),
            (Shape::Double, Value::Number(_)) => Ok(()),
            (Shape::Bytes, Value::String(text)) => leaf::base64(text),
            (Shape::Int32 | Shape::Int64, Value::Number(number)) => {
                let fits = number
                    .as_i64()
                    .is_some_and(|number| *shape == Shape::Int64 || i32::try_from(number).is_ok());
                if fits { Ok(()) } else { Err(place.error(&format!("number {number}"))) }
            }
            (Shape::List(element), Value::Array(list)) => {
                let go_type = place.go_type.strip_prefix("[]").unwrap_or("string");
                for (index, value) in list.iter_mut().enumerate() {
                    let path = Path::Index(place.path, index);
                    self.element(element, value, Place { path: &path, go_type, ..place })?;
                }
                Ok(())
            }
            (Shape::Map(element), Value::Object(map)) => {
                let go_type = place.go_type.split_once(']').map_or("string", |(_, value)| value);
                for (key, value) in map.iter_mut() {
                    let path = Path::Field(place.path, key);
                    self.element(element, value, Place { path: &path, go_type, ..place })?;
                }
                Ok(())
            }
            (Shape::Type(id), _) => {
                let of_type = &table().types[*id];
                match (of_type.leaf, value) {
                    (Some(leaf), value) => self.leaf(leaf, value, place),
                    (None, Value::Object(map)) => self.object(of_type, map, place.path),
                    (None, other) => Err(place.error(json_name(other))),
                }
            }
            (_, other) => Err(place.error(json_name(other))),
        }
    }

    /// An element of a list or map, where Go reads null as the zero value.
    fn element(
        &mut self,
        shape: &Shape,
        value: &mut Value,
        place: Place<'_>,
    ) -> Result<(), String> {
        if value.is_null() {
            *value = match shape {
                Shape::String | Shape::Bytes => "".into(),
                Shape::Bool => false.into(),
                Shape::Int32 | Shape::Int64 | Shape::Double => 0.into(),
                Shape::List(_) => Value::Array(Vec::new()),
                Shape::Map(_) => Value::Object(Map::new()),
                Shape::Type(id) => match table().types[*id].leaf {
                    None => Value::Object(Map::new()),
                    Some(Leaf::Quantity) => "0".into(),
                    Some(_) => return Ok(()),
                },
            };
        }
        self.value(shape, value, place)
    }

    fn leaf(&mut self, leaf: Leaf, value: &mut Value, place: Place<'_>) -> Result<(), String> {
        match (leaf, &mut *value) {
            (Leaf::Json, _) | (Leaf::RawExtension | Leaf::FieldsV1, Value::Object(_)) => Ok(()),
            // Upstream says no more than what is wrong; where it is helps more.
            (Leaf::Quantity, _) => {
                leaf::quantity(value).map_err(|why| format!("{why}: {value} in {}", place.path))
            }
            (Leaf::Time, Value::String(text)) => leaf::time(text, 0),
            (Leaf::MicroTime, Value::String(text)) => leaf::time(text, 6),
            (Leaf::Duration, Value::String(_)) => Ok(()),
            (Leaf::IntOrString, Value::String(_)) => Ok(()),
            (Leaf::IntOrString, Value::Number(number)) => {
                match number.as_i64().map(i32::try_from) {
                    Some(Ok(_)) => Ok(()),
                    _ => Err(mismatch(&format!("number {number}"), "value", "int32")),
                }
            }
            (Leaf::IntOrString, other) => Err(mismatch(json_name(other), "value", "int32")),
            (Leaf::Time | Leaf::MicroTime | Leaf::Duration, other) => {
                Err(mismatch(json_name(other), "value", "string"))
            }
            (Leaf::SchemaOrBool, Value::Bool(_)) => Ok(()),
            (Leaf::SchemaOrStrings, Value::Array(_)) => Ok(()),
            (Leaf::SchemaOrArray, Value::Array(list)) => {
                for (index, value) in list.iter_mut().enumerate() {
                    let path = Path::Index(place.path, index);
                    self.schema(value, Place { path: &path, ..place })?;
                }
                Ok(())
            }
            (Leaf::SchemaOrArray | Leaf::SchemaOrBool | Leaf::SchemaOrStrings, value) => {
                self.schema(value, place)
            }
            (_, other) => Err(place.error(json_name(other))),
        }
    }

    /// A schema in a CRD, where one of two forms is allowed.
    fn schema(&mut self, value: &mut Value, place: Place<'_>) -> Result<(), String> {
        match (place.owner, value) {
            (schema, Value::Object(map)) => self.object(schema, map, place.path),
            (_, other) => Err(place.error(json_name(other))),
        }
    }
}

/// What Go's decoder calls a value.
fn json_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
