//! Reads the generated texts.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::DeflateDecoder;

use super::{Field, Leaf, ListType, Path, Shape, Table, Type};

const TYPES: &[u8] = include_bytes!("../../data/v1.36.types");
const DESCRIPTIONS: &[u8] = include_bytes!("../../data/v1.36.descriptions");

/// Why a malformed table is a bug and not an error: it is part of the program.
const INVARIANT: &str = "the built-in type table has the form that the generator writes";

/// The prose of a type and of its fields, in the order of the table.
pub struct Description {
    /// Of the type.
    pub text: String,
    /// Of each field.
    pub fields: Vec<String>,
}

fn inflate(bytes: &[u8]) -> String {
    let mut text = String::new();
    DeflateDecoder::new(bytes).read_to_string(&mut text).expect(INVARIANT);
    text
}

pub(super) fn table() -> Table {
    // Kept for as long as the process runs: all names in the table point into it.
    let text: &'static str = Box::leak(inflate(TYPES).into_boxed_str());
    let mut types: Vec<Type> = Vec::new();
    let mut paths = Vec::new();
    let mut kinds = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words.as_slice() {
            ["T", name, leaf, map_type] => types.push(Type {
                name,
                leaf: leaf_code(leaf),
                atomic: *map_type == "atomic",
                kinds: Vec::new(),
                fields: Vec::new(),
            }),
            ["K", group, version, kind] => {
                let id = types.len() - 1;
                types[id].kinds.push((*group, *version, *kind));
                kinds.entry((*group, *version, *kind)).or_insert(id);
            }
            ["F", words @ ..] => types.last_mut().expect(INVARIANT).fields.push(field(words)),
            ["R", template, group, version, kind, methods] => paths.push(Path {
                template,
                kind: (*group, *version, *kind),
                methods: methods.split(',').collect(),
            }),
            _ => unreachable!("{INVARIANT}: {line}"),
        }
    }
    let names = types.iter().enumerate().map(|(id, of_type)| (of_type.name, id)).collect();
    Table { types, paths, kinds, names }
}

fn field(words: &[&'static str]) -> Field {
    let [name, numbers, flags, form, go_type, list_type, map_keys, merge_key, strategy, map_type] =
        words
    else {
        unreachable!("{INVARIANT}: {words:?}")
    };
    let plain = |word: &'static str| if word == "-" { "" } else { word };
    let number = numbers
        .split('.')
        .fold(0, |number, part| (number << 16) | part.parse::<u64>().expect(INVARIANT));
    let strategies: Vec<&str> = strategy.split(',').collect();
    Field {
        name,
        number,
        pointer: flags.contains('p'),
        omit: flags.contains('o'),
        required: flags.contains('r'),
        shape: shape(form),
        go_type,
        list: match *list_type {
            "set" => ListType::Set,
            "map" => ListType::Map,
            _ => ListType::Atomic,
        },
        map_keys: plain(map_keys).split(',').filter(|key| !key.is_empty()).collect(),
        merge_key: plain(merge_key),
        merge: strategies.contains(&"merge"),
        replace: strategies.contains(&"replace"),
        retain_keys: strategies.contains(&"retainKeys"),
        atomic: *map_type == "atomic",
    }
}

fn leaf_code(code: &str) -> Option<Leaf> {
    Some(match code {
        "quantity" => Leaf::Quantity,
        "duration" => Leaf::Duration,
        "fields" => Leaf::FieldsV1,
        "microtime" => Leaf::MicroTime,
        "time" => Leaf::Time,
        "raw" => Leaf::RawExtension,
        "intorstring" => Leaf::IntOrString,
        "json" => Leaf::Json,
        "orarray" => Leaf::SchemaOrArray,
        "orbool" => Leaf::SchemaOrBool,
        "orstrings" => Leaf::SchemaOrStrings,
        "-" => return None,
        _ => unreachable!("{INVARIANT}: {code}"),
    })
}

fn shape(form: &str) -> Shape {
    match form.as_bytes() {
        [b'[', ..] => Shape::List(Box::new(shape(&form[1..]))),
        [b'{', ..] => Shape::Map(Box::new(shape(&form[1..]))),
        [b'@', ..] => Shape::Type(form[1..].parse().expect(INVARIANT)),
        b"s" => Shape::String,
        b"y" => Shape::Bytes,
        b"b" => Shape::Bool,
        b"i" => Shape::Int32,
        b"l" => Shape::Int64,
        b"d" => Shape::Double,
        _ => unreachable!("{INVARIANT}: {form}"),
    }
}

/// The prose of all types, inflated on each call: it is needed rarely and takes more room than the
/// table.
#[must_use]
pub fn descriptions() -> Vec<Description> {
    let text = inflate(DESCRIPTIONS);
    let mut lines = text.lines().map(unescape);
    let mut line = || lines.next().expect(INVARIANT);
    super::table()
        .types
        .iter()
        .map(|of_type| Description {
            text: line(),
            fields: of_type.fields.iter().map(|_| line()).collect(),
        })
        .collect()
}

fn unescape(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => out.push(if chars.next() == Some('n') { '\n' } else { '\\' }),
            char => out.push(char),
        }
    }
    out
}
