//! Every rule and every limit in Karpenter's definitions, each with an object that keeps it and one
//! that breaks it. A limit that no object meets, or a rule that no case breaks, fails the test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cases;

use std::collections::BTreeSet;

use aerostat_api::crds;
use aerostat_schema::custom::CustomSchema;
use serde_json::{Value, json};

/// A definition, objects with a value for every field that has a limit, and what breaks its rules.
struct Subject {
    schema: Value,
    compiled: CustomSchema,
    good: Vec<Value>,
    bad: Vec<cases::Case>,
}

fn subjects() -> Vec<Subject> {
    let definitions = crds::kwok();
    assert_eq!(definitions.len(), cases::all().len());
    let subject = |(definition, (good, bad)): (Value, (Vec<Value>, Vec<cases::Case>))| {
        let schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let compiled = CustomSchema::compile(&schema).unwrap();
        let subject = Subject { schema, compiled, good, bad };
        for good in &subject.good {
            assert_eq!(subject.compiled.unknown_fields(good), [""; 0]);
            assert_eq!(said(&subject, good, Some(good)), [""; 0]);
        }
        subject
    };
    definitions.into_iter().zip(cases::all()).map(subject).collect()
}

/// A place in a schema, and the same in an object, if it is there.
struct Place<'a> {
    schema: &'a Value,
    /// `spec.limits.*`.
    name: String,
    /// `spec.limits.cpu`.
    field: String,
    pointer: Option<String>,
}

/// All places with limits, from the top.
fn places<'a>(place: Place<'a>, object: &Value, all: &mut Vec<Place<'a>>) {
    let schema = place.schema;
    let mut below = Vec::new();
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        if name != "metadata" || !place.name.is_empty() {
            below.push((inner, format!(".{name}"), name.clone()));
        }
    }
    below.push((&schema["items"], "[0]".to_owned(), "0".to_owned()));
    let here = place.pointer.as_ref().and_then(|pointer| object.pointer(pointer));
    if schema["additionalProperties"].is_object() {
        let key = here.and_then(Value::as_object).and_then(|all| all.keys().next());
        let key = key.cloned().unwrap_or_default();
        below.push((&schema["additionalProperties"], ".*".to_owned(), key));
    }
    for (inner, step, key) in below.into_iter().filter(|(inner, ..)| has_limits(inner)) {
        let pointer = place
            .pointer
            .as_ref()
            .map(|above| format!("{above}/{}", key.replace('~', "~0").replace('/', "~1")));
        let pointer = pointer.filter(|pointer| object.pointer(pointer).is_some());
        let name = format!("{}{step}", place.name);
        let field = format!("{}{}", place.field, step.replace('*', &key));
        let field = field.trim_start_matches('.').to_owned();
        places(Place { schema: inner, name, field, pointer }, object, all);
    }
    all.push(place);
}

fn places_of<'a>(subject: &'a Subject, good: &Value) -> Vec<Place<'a>> {
    let mut all = Vec::new();
    let (schema, pointer) = (&subject.schema, Some(String::new()));
    let top = Place { schema, name: String::new(), field: String::new(), pointer };
    places(top, good, &mut all);
    all
}

const LIMITS: [&str; 11] = [
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "maxItems",
    "maxProperties",
    "enum",
    "required",
    "format",
    "x-kubernetes-validations",
];

fn has_limits(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else { return false };
    LIMITS.iter().any(|limit| fields.contains_key(*limit))
        || fields
            .get("properties")
            .and_then(Value::as_object)
            .is_some_and(|all| all.values().any(has_limits))
        || ["items", "additionalProperties"]
            .iter()
            .any(|name| fields.get(*name).is_some_and(has_limits))
}

/// Values that break a limit of a schema, each with what has to be said of it.
fn breakers(schema: &Value, good: &Value) -> Vec<(Value, &'static str, String)> {
    let mut all = Vec::new();
    let mut add = |value: Value, said: &'static str| all.push((value, said, String::new()));
    // Of a list these say nothing, to Kubernetes neither.
    let is_text = schema["type"] != "array";
    if schema.get("pattern").is_some() && is_text {
        add(json!("\u{a7}/ \u{a7}"), "should match");
    }
    if let Some(least) = schema["minimum"].as_i64() {
        add(json!(least - 1), "greater than or equal to");
    }
    if let Some(most) = schema["maximum"].as_i64() {
        add(json!(most + 1), "less than or equal to");
    }
    if schema.get("minLength").is_some() {
        add(json!(""), "should be at least");
    }
    if let (Some(most), true) = (schema["maxLength"].as_u64(), is_text) {
        add(json!("a".repeat(most as usize + 1)), "Too long");
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        add(Value::Array(vec![good[0].clone(); most as usize + 1]), "Too many");
    }
    if let Some(most) = schema["maxProperties"].as_u64() {
        let all = (0..=most).map(|number| (format!("k{number}"), json!("v")));
        add(Value::Object(all.collect()), "Too many");
    }
    if schema.get("enum").is_some() {
        add(json!("Nonesuch"), "Unsupported value");
    }
    // The range of int32 is not checked, by Kubernetes neither.
    if schema["format"] == "date-time" {
        add(json!("yesterday"), "date-time");
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        let mut less = good.clone();
        less.as_object_mut().unwrap().remove(name);
        all.push((less, "Required value", format!(".{name}")));
    }
    all
}

fn said(subject: &Subject, object: &Value, old: Option<&Value>) -> Vec<String> {
    subject.compiled.validate(object, old).iter().map(ToString::to_string).collect()
}

#[test]
fn every_limit_is_kept_and_broken() {
    let mut count = 0;
    for subject in subjects() {
        let mut missed = BTreeSet::new();
        for good in &subject.good {
            let names = places_of(&subject, good).into_iter();
            missed.extend(names.filter(|place| place.pointer.is_none()).map(|place| place.name));
        }
        for good in &subject.good {
            for place in places_of(&subject, good) {
                let Some(pointer) = &place.pointer else { continue };
                missed.remove(&place.name);
                for (value, expected, below) in
                    breakers(place.schema, good.pointer(pointer).unwrap())
                {
                    let mut bad = good.clone();
                    *bad.pointer_mut(pointer).unwrap() = value;
                    let field = format!("{}{below}", place.field);
                    let start = format!("{}: ", field.trim_start_matches('.'));
                    let problems = said(&subject, &bad, None);
                    let told = |text: &String| text.starts_with(&start) && text.contains(expected);
                    assert!(problems.iter().any(told), "{start}{expected} is not in {problems:#?}");
                    count += 1;
                }
            }
        }
        assert!(missed.is_empty(), "no object has {missed:#?}");
    }
    assert!(count > 150, "{count} limits were found");
}

#[test]
fn every_rule_is_kept_and_broken() {
    for subject in subjects() {
        let mut rules = BTreeSet::new();
        for place in subject.good.iter().flat_map(|good| places_of(&subject, good)) {
            for rule in place.schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                rules.insert((place.field.clone(), rule["message"].as_str().unwrap().to_owned()));
            }
        }
        for case in &subject.bad {
            let old = &subject.good[case.of];
            let mut bad = old.clone();
            set(&mut bad, case.pointer, serde_json::from_str(case.value).unwrap());
            let problems = said(&subject, &bad, Some(old));
            let start = format!("{}: ", case.field);
            let told = |text: &String| text.starts_with(&start) && text.ends_with(case.message);
            assert!(problems.iter().any(told), "{start}{} is not in {problems:#?}", case.message);
            let rule = (case.field.to_owned(), case.message.to_owned());
            assert!(rules.remove(&rule), "{rule:?} is no rule, or has two cases");
        }
        assert!(rules.is_empty(), "no case breaks {rules:#?}");
    }
}

/// Sets a value; null removes it.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}"));
    if value.is_null() {
        parent.as_object_mut().unwrap().remove(name);
    } else {
        parent[name] = value;
    }
}
