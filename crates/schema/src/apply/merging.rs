//! How a value merges, by the type table or by a CRD's schema.

use serde_json::{Map, Value};

use crate::table::{Field, ListType, Shape, Type, table};

/// How a value merges.
#[derive(Clone, Copy)]
pub(super) enum Merging<'a> {
    /// As a whole.
    Whole,
    /// An object of a type of the table.
    Object(&'a Type),
    /// A map or list of the table.
    Shape(&'a Shape, &'a Field),
    /// By a CRD's schema; `true` for the object itself.
    Schema(&'a Value, bool),
    /// Not described: objects by field, lists as a whole.
    Unknown,
}

/// How an object's or list's parts are told apart.
pub(super) enum Parts<'a> {
    /// They are not.
    Whole,
    /// Fields that are the type's.
    Fields,
    /// Keys that are data.
    Keys,
    /// Elements that are their own keys.
    Set,
    /// Elements told apart by these fields.
    Elements(Vec<&'a str>),
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl<'a> Merging<'a> {
    /// What a value's parts are.
    pub fn parts(self, value: &Value) -> Parts<'a> {
        match (self, value) {
            (Self::Object(_), Value::Object(_)) => Parts::Fields,
            (Self::Unknown, Value::Object(_)) => Parts::Keys,
            (Self::Shape(Shape::Map(_), field), Value::Object(_)) if !field.atomic => Parts::Keys,
            (Self::Shape(Shape::List(_), field), Value::Array(_)) => match field.list {
                ListType::Atomic => Parts::Whole,
                ListType::Set => Parts::Set,
                ListType::Map => Parts::Elements(field.map_keys.clone()),
            },
            (Self::Schema(schema, _), Value::Object(_)) => {
                if schema["x-kubernetes-map-type"] == "atomic" {
                    Parts::Whole
                } else if schema["properties"].is_object() {
                    Parts::Fields
                } else {
                    Parts::Keys
                }
            }
            (Self::Schema(schema, _), Value::Array(_)) => {
                match schema["x-kubernetes-list-type"].as_str() {
                    Some("set") => Parts::Set,
                    Some("map") => {
                        let keys = schema["x-kubernetes-list-map-keys"].as_array();
                        Parts::Elements(
                            keys.into_iter().flatten().filter_map(Value::as_str).collect(),
                        )
                    }
                    _ => Parts::Whole,
                }
            }
            _ => Parts::Whole,
        }
    }

    /// How a field, or the value of a key, merges.
    pub fn child(self, name: &str) -> Self {
        match self {
            Self::Object(of_type) => of_type.field(name).map_or(Self::Unknown, |field| {
                if field.atomic { Self::Whole } else { Self::of_shape(&field.shape, field) }
            }),
            Self::Shape(Shape::Map(element), field) => Self::of_shape(element, field),
            Self::Schema(_, true) if name == "metadata" => {
                table().named(OBJECT_META).map_or(Self::Unknown, Self::Object)
            }
            Self::Schema(schema, _) => {
                let child = schema["properties"].get(name).or(schema.get("additionalProperties"));
                child.filter(|child| child.is_object()).map_or(Self::Unknown, Self::of_schema)
            }
            _ => Self::Unknown,
        }
    }

    /// How an element of a list merges.
    pub fn element(self) -> Self {
        match self {
            Self::Shape(Shape::List(element), field) => Self::of_shape(element, field),
            Self::Schema(schema, _) => schema.get("items").map_or(Self::Unknown, Self::of_schema),
            _ => Self::Unknown,
        }
    }

    fn of_schema(schema: &'a Value) -> Self {
        Self::Schema(schema, false)
    }

    fn of_shape(shape: &'a Shape, field: &'a Field) -> Self {
        match shape {
            Shape::Type(id) => {
                let of_type = &table().types[*id];
                if of_type.leaf.is_some() || of_type.atomic {
                    Self::Whole
                } else {
                    Self::Object(of_type)
                }
            }
            Shape::Map(_) | Shape::List(_) => Self::Shape(shape, field),
            _ => Self::Whole,
        }
    }
}

/// An element's name in a path.
pub(super) fn element_name(parts: &Parts<'_>, element: &Value) -> String {
    match parts {
        Parts::Elements(keys) => {
            let keys = keys.iter().filter_map(|key| {
                // The one default that a key has in Kubernetes' own types.
                let default = || (*key == "protocol").then(|| Value::from("TCP"));
                let value = element.get(*key).cloned().or_else(default)?;
                Some(((*key).to_owned(), value))
            });
            format!("k:{}", Value::Object(keys.collect::<Map<_, _>>()))
        }
        _ => format!("v:{element}"),
    }
}
