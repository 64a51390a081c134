//! Kubernetes' types as one table in memory, inflated at first use.
//!
//! `data/README.md` describes the text that it is read from.

mod read;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

pub use read::{Description, descriptions};

/// Everything that is known of the types of the emulated version.
pub struct Table {
    /// Types, sorted by name.
    pub types: Vec<Type>,
    /// Paths that are served.
    pub paths: Vec<Path>,
    kinds: BTreeMap<(&'static str, &'static str, &'static str), TypeId>,
    names: BTreeMap<&'static str, TypeId>,
}

/// A type's place in the table.
pub type TypeId = usize;

/// A named type.
pub struct Type {
    /// `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    /// Whether its JSON is something else than an object with `fields`.
    pub leaf: Option<Leaf>,
    /// Whether server-side apply replaces it as a whole.
    pub atomic: bool,
    /// Group, version and kind of the objects of this type.
    pub kinds: Vec<(&'static str, &'static str, &'static str)>,
    /// Fields, sorted by name.
    pub fields: Vec<Field>,
}

/// Types with a JSON form of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// `500m`.
    Quantity,
    /// `1h2m`.
    Duration,
    /// `{"f:metadata":{}}`.
    FieldsV1,
    /// `2026-01-02T03:04:05.000000Z`.
    MicroTime,
    /// `2026-01-02T03:04:05Z`.
    Time,
    /// Any object.
    RawExtension,
    /// `8080` or `http`.
    IntOrString,
    /// Anything.
    Json,
    /// A schema or a list of schemas.
    SchemaOrArray,
    /// A schema or a boolean.
    SchemaOrBool,
    /// A schema or a list of strings.
    SchemaOrStrings,
}

/// A field of a type.
pub struct Field {
    /// JSON name.
    pub name: &'static str,
    /// Protobuf field number, with those of the inlined messages around it: 16 bits each, the
    /// innermost lowest. 0 where it has none.
    pub number: u64,
    /// Whether Go tells nil and zero apart.
    pub pointer: bool,
    /// Whether a zero value is left out of JSON.
    pub omit: bool,
    /// Whether OpenAPI calls it required.
    pub required: bool,
    /// What it holds.
    pub shape: Shape,
    /// Go's name of its type: `[]v1.Container`.
    pub go_type: &'static str,
    /// How server-side apply merges a list.
    pub list: ListType,
    /// Keys of a `ListType::Map`.
    pub map_keys: Vec<&'static str>,
    /// Key by which a strategic merge patch merges a list of objects; empty for none.
    pub merge_key: &'static str,
    /// Whether a strategic merge patch merges a list.
    pub merge: bool,
    /// Whether a strategic merge patch replaces an object.
    pub replace: bool,
    /// Whether a strategic merge patch honours `$retainKeys`.
    pub retain_keys: bool,
    /// Whether server-side apply replaces a map as a whole.
    pub atomic: bool,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text.
    String,
    /// Base64 text.
    Bytes,
    /// Boolean.
    Bool,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// Floating-point number.
    Double,
    /// A named type.
    Type(TypeId),
    /// A list.
    List(Box<Shape>),
    /// A map with string keys.
    Map(Box<Shape>),
}

/// How server-side apply merges a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Elements are their own keys.
    Set,
    /// Elements are told apart by keys.
    Map,
}

/// A served path.
pub struct Path {
    /// `/api/v1/namespaces/{namespace}/pods/{name}`.
    pub template: &'static str,
    /// Group, version and kind of what is there.
    pub kind: (&'static str, &'static str, &'static str),
    /// `get`, `patch`, ...
    pub methods: Vec<&'static str>,
}

static TABLE: LazyLock<Table> = LazyLock::new(read::table);

/// The table.
#[must_use]
pub fn table() -> &'static Table {
    &TABLE
}

impl Table {
    /// The type of a kind.
    #[must_use]
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Type> {
        self.kind_id(group, version, kind).map(|id| &self.types[id])
    }

    /// The place of a kind's type.
    #[must_use]
    pub fn kind_id(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        self.kinds.get(&(group, version, kind)).copied()
    }

    /// The type with an OpenAPI name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Type> {
        self.names.get(name).map(|id| &self.types[*id])
    }
}

impl Type {
    /// A field by its JSON name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        let place = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        self.fields.get(place)
    }

    /// The name without its package: `Pod`.
    #[must_use]
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Field {
    /// Whether its number is within the inlined message with this number.
    #[must_use]
    pub fn is_inside(&self, number: u64) -> bool {
        std::iter::successors(Some(self.number >> 16), |outer| Some(outer >> 16))
            .take_while(|outer| *outer != 0)
            .any(|outer| outer == number)
    }

    /// Whether Go's encoder leaves the field out when it has this value.
    #[must_use]
    pub fn leaves_out(&self, value: &Value) -> bool {
        if !self.omit || self.pointer {
            return value.is_null();
        }
        match value {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty() && self.shape.object().is_none(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty() && matches!(self.shape, Shape::Map(_)),
        }
    }
}

impl Shape {
    /// The type of an object, or of the objects in a list or map.
    #[must_use]
    pub fn object(&self) -> Option<&'static Type> {
        match self {
            Self::Type(id) => Some(&table().types[*id]),
            Self::List(element) | Self::Map(element) => element.object(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_pods_and_their_fields() {
        let pod = table().kind("", "v1", "Pod").unwrap();
        let spec = pod.field("spec").unwrap().shape.object().unwrap();
        let containers = spec.field("containers").unwrap();
        assert!(containers.merge && containers.required);
        assert_eq!((containers.merge_key, containers.list), ("name", ListType::Map));
        let volume = spec.field("volumes").unwrap().shape.object().unwrap();
        assert_eq!(volume.field("emptyDir").unwrap().number, (2 << 16) | 2);
        assert!(table().kind("", "v1", "Pud").is_none());
    }

    #[test]
    fn fields_are_sorted_and_described() {
        let described = descriptions();
        assert_eq!(described.len(), table().types.len());
        for (of_type, described) in table().types.iter().zip(&described) {
            assert!(of_type.fields.is_sorted_by_key(|field| field.name), "{}", of_type.name);
            assert_eq!(of_type.fields.len(), described.fields.len());
        }
        let pod = table().types.iter().position(|t| t.name == "io.k8s.api.core.v1.Pod").unwrap();
        assert!(described[pod].text.starts_with("Pod is a collection of containers"));
    }
}
