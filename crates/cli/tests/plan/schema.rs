//! As much of JSON Schema as the schemas in `docs` use.

use serde_json::Value;

/// Panics with the place where `value` is not as `schema` says, or where `schema` uses a word that
/// is not checked here.
pub fn check(schema: &Value, value: &Value, at: &str) {
    for (word, says) in schema.as_object().expect("a schema is an object") {
        match word.as_str() {
            "$schema" | "$id" | "title" | "description" => {}
            "type" => {
                let own = std::slice::from_ref(says);
                let types = says.as_array().map_or(own, Vec::as_slice);
                assert!(types.iter().any(|name| is(name, value)), "{at}: {value} is no {says}");
            }
            "enum" => assert!(
                says.as_array().expect("the schema is sound").contains(value),
                "{at}: {value}: {says}"
            ),
            "minimum" => {
                let least = says.as_f64().expect("the schema is sound");
                assert!(value.as_f64().is_none_or(|n| n >= least), "{at}: {value} < {least}");
            }
            "minItems" => {
                let least = says.as_u64().expect("the schema is sound") as usize;
                assert!(value.as_array().is_none_or(|list| list.len() >= least), "{at}: {value}");
            }
            "required" => {
                for name in says.as_array().expect("the schema is sound") {
                    assert!(
                        value.get(name.as_str().expect("the schema is sound")).is_some(),
                        "{at}: no {name}"
                    );
                }
            }
            // What `properties` does not name is refused there, unless this is a schema for it.
            "additionalProperties" if says.is_boolean() => assert_eq!(says, &Value::Bool(false)),
            "additionalProperties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    check(says, value, &format!("{at}.{name}"));
                }
            }
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    let schema = says.get(name);
                    let schema = schema.unwrap_or_else(|| panic!("{at}: {name} is not described"));
                    check(schema, value, &format!("{at}.{name}"));
                }
            }
            "items" => {
                for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                    check(says, value, &format!("{at}[{index}]"));
                }
            }
            other => panic!("{at}: the schema uses {other:?}, which this check does not know"),
        }
    }
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other:?} is not a type that the schema should use"),
    }
}
