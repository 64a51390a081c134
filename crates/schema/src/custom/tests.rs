use serde_json::{Value, json};

use super::{CustomSchema, Problem};

const NODE_POOL: &str = include_str!("../../../api/crds/karpenter.sh_nodepools.yaml");
const NODE_CLAIM: &str = include_str!("../../../api/crds/karpenter.sh_nodeclaims.yaml");
const NODE_CLASS: &str = include_str!("../../../api/crds/eks.amazonaws.com_nodeclasses.yaml");

fn of_crd(text: &str) -> CustomSchema {
    let (crd, _) = crate::decode::yaml(text.as_bytes()).unwrap();
    CustomSchema::compile(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap()
}

/// A schema of objects whose spec is this.
fn of_spec(spec: Value) -> CustomSchema {
    CustomSchema::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn spec(schema: &CustomSchema, spec: Value, expected: &[&str]) {
    assert_eq!(texts(&schema.validate(&json!({"spec": spec}), None)), expected);
}

fn node_pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        }}},
    })
}

#[test]
fn is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<CustomSchema>();
}

#[test]
fn node_pools_get_their_defaults() {
    let schema = of_crd(NODE_POOL);
    let mut pool = node_pool();
    schema.default(&mut pool);
    assert_eq!(pool["spec"]["template"]["spec"]["expireAfter"], "720h");
    // The budgets are a default within a defaulted object.
    assert_eq!(
        pool["spec"]["disruption"],
        json!({"budgets": [{"nodes": "10%"}], "consolidateAfter": "0s",
            "consolidationPolicy": "WhenEmptyOrUnderutilized"})
    );
    assert_eq!(texts(&schema.validate(&pool, None)), [""; 0]);
}

#[test]
fn node_pools_are_checked_by_value_and_by_rule() {
    let schema = of_crd(NODE_POOL);
    let mut pool = node_pool();
    pool["spec"]["weight"] = 1000.into();
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = json!([]);
    schema.default(&mut pool);
    assert_eq!(
        texts(&schema.validate(&pool, None)),
        [
            "spec.weight: Invalid value: 1000: spec.weight in body should be less than or equal to 100",
            "spec.template.spec.requirements: Invalid value: requirements with operator 'In' must have a value defined",
        ]
    );
}

#[test]
fn transitions_are_checked_against_the_old_object() {
    let schema = of_crd(NODE_POOL);
    let mut old = node_pool();
    schema.default(&mut old);
    let mut new = old.clone();
    assert_eq!(texts(&schema.validate(&new, Some(&old))), [""; 0]);
    new["spec"]["template"]["spec"]["nodeClassRef"]["kind"] = "Other".into();
    assert_eq!(
        texts(&schema.validate(&new, Some(&old))),
        ["spec.template.spec.nodeClassRef: Invalid value: nodeClassRef.kind is immutable"]
    );
}

#[test]
fn the_other_crds_compile() {
    let claim = of_crd(NODE_CLAIM);
    let object = json!({"spec": {"requirements": [{"key": "kubernetes.io/hostname",
        "operator": "In", "values": ["a"]}], "nodeClassRef": {"group": "", "kind": "k", "name": "n"}}});
    let problems = texts(&claim.validate(&object, None));
    assert_eq!(
        problems,
        [
            "spec.nodeClassRef.group: Invalid value: \"\": group may not be empty",
            "spec.requirements[0].key: Invalid value: \"kubernetes.io/hostname\": label \"kubernetes.io/hostname\" is restricted",
        ]
    );
    of_crd(NODE_CLASS);
}

#[test]
fn values_are_refused_in_the_words_of_kubernetes() {
    let schema = of_spec(json!({
        "type": "object", "required": ["must"],
        "properties": {
            "must": {"type": "string"},
            "count": {"type": "integer", "minimum": 1, "maximum": 2_000_000},
            "ratio": {"type": "number", "exclusiveMaximum": true, "maximum": 1, "multipleOf": 0.25},
            "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
            "mode": {"type": "string", "enum": ["On", "Off"]},
            "when": {"type": "string", "format": "date-time"},
            "list": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
            "map": {"type": "object", "additionalProperties": {"type": "string"},
                "minProperties": 1, "maxProperties": 1},
            "port": {"x-kubernetes-int-or-string": true},
        },
    }));
    spec(&schema, json!({"must": ""}), &[]);
    spec(&schema, json!({"must": "", "port": 1, "ratio": 0, "count": 3.0, "list": [true]}), &[]);
    let blocked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    spec(&schema, json!({}), &["spec.must: Required value", blocked]);
    spec(
        &schema,
        json!({"must": "", "count": "3"}),
        &[
            "spec.count: Invalid value: \"string\": spec.count in body must be of type integer: \"string\"",
            blocked,
        ],
    );
    spec(
        &schema,
        json!({"must": "", "count": 0, "ratio": 1, "mode": "Up", "name": "A"}),
        &[
            "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1",
            "spec.mode: Unsupported value: \"Up\": supported values: \"On\", \"Off\"",
            "spec.name: Invalid value: \"A\": spec.name in body should be at least 2 chars long",
            "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'",
            "spec.ratio: Invalid value: 1: spec.ratio in body should be less than 1",
            blocked,
        ],
    );
    spec(
        &schema,
        json!({"must": "", "count": 3_000_000, "ratio": 0.3}),
        &[
            "spec.count: Invalid value: 3000000: spec.count in body should be less than or equal to 2e+06",
            "spec.ratio: Invalid value: 0.3: spec.ratio in body should be a multiple of 0.25",
        ],
    );
    spec(
        &schema,
        json!({"must": "", "name": "abcde", "list": [], "map": {"a": "1", "b": 2}}),
        &[
            "spec.list: Invalid value: 0: spec.list in body should have at least 1 items",
            "spec.map: Too many: 2: must have at most 1 item",
            "spec.map.b: Invalid value: \"integer\": spec.map.b in body must be of type string: \"integer\"",
            "spec.name: Too long: may not be more than 4 bytes",
            blocked,
        ],
    );
    spec(
        &schema,
        json!({"must": "", "when": "today", "port": true, "list": [1, true, true]}),
        &[
            "spec.list: Too many: 3: must have at most 2 items",
            "spec.list[0]: Invalid value: \"integer\": spec.list[0] in body must be of type boolean: \"integer\"",
            "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
            "spec.when: Invalid value: \"today\": spec.when in body must be of type date-time: \"today\"",
            blocked,
        ],
    );
}

#[test]
fn junctors_count_branches() {
    let schema = of_spec(json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "not": {"required": ["c"]},
    }));
    spec(&schema, json!({"a": ""}), &[]);
    spec(
        &schema,
        json!({"a": "", "b": ""}),
        &[
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ],
    );
    let none = texts(&schema.validate(&json!({"spec": {}}), None));
    assert!(none[0].ends_with("(oneOf). Found none valid"), "{none:?}");
    assert_eq!(none[1], "spec.a: Required value");
    spec(
        &schema,
        json!({"a": "", "c": ""}),
        &["<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)"],
    );
}

#[test]
fn lists_have_no_duplicates() {
    let schema = of_spec(json!({"type": "object", "properties": {
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "kind"],
            "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "kind": {"type": "string", "default": "k"}}}},
    }}));
    spec(
        &schema,
        json!({"set": ["a", "b", "a"], "map": [{"name": "x"}, {"name": "x", "kind": "k"}]}),
        &[
            "spec.map[1]: Duplicate value: {\"kind\":\"k\",\"name\":\"x\"}",
            "spec.set[2]: Duplicate value: \"a\"",
        ],
    );
}

#[test]
fn pruning_names_what_it_drops() {
    let schema = of_spec(json!({"type": "object", "properties": {
        "known": {"type": "object", "properties": {"a": {"type": "string"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"typed": {"type": "object", "properties": {}}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
        "list": {"type": "array", "items": {"type": "object", "properties": {}}},
    }}));
    let mut object = json!({
        "apiVersion": "v1", "kind": "K",
        "metadata": {"name": "n", "bogus": 1, "creationTimestamp": null},
        "status": {"x": 1},
        "spec": {"known": {"a": "", "b": 1}, "free": {"x": {"y": 1}, "typed": {"z": 1}},
            "embedded": {"kind": "Pod", "metadata": {"labels": {"a": "b"}}, "spec": {}},
            "list": [{"q": 1}]},
    });
    assert_eq!(
        schema.unknown_fields(&object),
        [
            "unknown field \"metadata.bogus\"",
            "unknown field \"spec.free.typed.z\"",
            "unknown field \"spec.known.b\"",
            "unknown field \"spec.list[0].q\"",
            "unknown field \"status\"",
        ]
    );
    schema.prune(&mut object);
    assert_eq!(
        object,
        json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"name": "n"},
            "spec": {"known": {"a": ""}, "free": {"x": {"y": 1}, "typed": {}},
                "embedded": {"kind": "Pod", "metadata": {"labels": {"a": "b"}}, "spec": {}},
                "list": [{}]},
        })
    );
}

#[test]
fn nulls_go_unless_they_are_allowed() {
    let schema = of_spec(json!({"type": "object", "properties": {
        "plain": {"type": "string"},
        "with": {"type": "string", "default": "d"},
        "nullable": {"type": "string", "nullable": true},
    }}));
    let mut object = json!({"spec": {"plain": null, "with": null, "nullable": null}});
    schema.default(&mut object);
    assert_eq!(object, json!({"spec": {"with": "d", "nullable": null}}));
    assert!(schema.validate(&object, None).is_empty());
}

#[test]
fn rules_have_messages_reasons_and_paths() {
    let schema = of_spec(json!({"type": "object",
    "properties": {"min": {"type": "integer"}, "max": {"type": "integer"},
        "my-name": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self.startsWith('x')", "reason": "FieldValueForbidden"}]},
        "wait": {"type": "string", "format": "duration"}},
    "x-kubernetes-validations": [
        {"rule": "self.min <= self.max", "fieldPath": ".max",
            "messageExpression": "'max must be at least ' + string(self.min)"},
        {"rule": "!has(self.my__dash__name)"},
        {"rule": "!has(self.wait) || self.wait < duration('1h')", "message": "too long"},
    ]}));
    spec(&schema, json!({"min": 1, "max": 2, "wait": "30m"}), &[]);
    let problems =
        texts(&schema.validate(&json!({"spec": {"min": 3, "max": 2, "wait": "2h"}}), None));
    assert_eq!(
        problems,
        ["spec.max: Invalid value: max must be at least 3", "spec: Invalid value: too long"]
    );
    let named = json!({"spec": {"min": 1, "max": 1, "my-name": "y"}});
    let problems = texts(&schema.validate(&named, None));
    assert_eq!(problems[1], "spec.my-name: Forbidden: failed rule: self.startsWith('x')");
    let broken = texts(&schema.validate(&json!({"spec": {"min": 1}}), None));
    assert!(broken[0].ends_with("evaluating rule: self.min <= self.max"), "{broken:?}");
}

#[test]
fn unchanged_problems_are_not_raised_again() {
    let schema = of_spec(json!({"type": "object",
        "properties": {"a": {"type": "integer", "maximum": 1}, "b": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self < 5"},
                {"rule": "self >= oldSelf", "message": "must grow"},
                {"rule": "oldSelf.orValue(0) < 100", "optionalOldSelf": true}]}}}));
    let old = json!({"spec": {"a": 9, "b": 9}});
    assert!(schema.validate(&old, Some(&old)).is_empty());
    let new = json!({"spec": {"a": 9, "b": 8}});
    assert_eq!(
        texts(&schema.validate(&new, Some(&old))),
        ["spec.b: Invalid value: 8: failed rule: self < 5", "spec.b: Invalid value: 8: must grow"]
    );
    assert_eq!(schema.validate(&new, None).len(), 2);
}

#[test]
fn only_structural_schemas_compile() {
    let schema = json!({"type": "object", "properties": {
        "a": {},
        "b": {"type": "array"},
        "c": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        "d": {"type": "string", "pattern": "("},
        "e": {"type": "integer", "default": "x"},
        "f": {"type": "string", "x-kubernetes-validations": [{"rule": "self ==", "message": "m"}]},
        "g": {"type": "text"},
        "h": {"type": "object", "anyOf": [{"properties": {"x": {"type": "string"}}}]},
        "i": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "j": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
    }});
    let problems = texts(&CustomSchema::compile(&schema).unwrap_err());
    let starts = [
        "properties[a].type: Required value: must not be empty for specified object fields",
        "properties[b].items: Required value: must be specified",
        "properties[c].additionalProperties: Forbidden: additionalProperties and properties are mutual",
        "properties[d].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't",
        "properties[e].default: Invalid value: \"string\"",
        "properties[f].x-kubernetes-validations[0].rule: Invalid value: \"self ==\": compilation failed: ",
        "properties[g].type: Unsupported value: \"text\": supported values: \"array\", \"boolean\"",
        "properties[h].anyOf[0].properties[x].type: Forbidden: must be empty to be structural",
        "properties[j].x-kubernetes-list-map-keys: Required value: must not be empty",
    ];
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem} does not start with {start}");
    }
    assert!(CustomSchema::compile(&json!({"properties": {}})).is_err());
    assert!(CustomSchema::compile(&Value::Null).is_err());
}

#[test]
fn formats() {
    for (format, good, bad) in [
        ("date-time", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05Z"),
        ("date", "2026-01-02", "2026-13-02"),
        ("duration", "1h30m", "1 fortnight"),
        ("ipv4", "10.0.0.1", "10.0.0"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("byte", "aGk=", "*"),
        ("k8s-short-name", "a-b", "-a"),
    ] {
        assert!(super::format::fits(format, good), "{format} {good}");
        assert!(!super::format::fits(format, bad), "{format} {bad}");
    }
    assert!(super::format::fits("not-known", "anything"));
}
