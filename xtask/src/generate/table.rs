//! Joins Go's and OpenAPI's view of the types into the text that `crates/schema/src/table` reads.
//!
//! One line a fact, tab-separated. `T` starts a type, `K` names a kind that has it, `F` is a field
//! of it, `R` a served path. The descriptions are in a second text, one line for each `T` and `F`
//! line, in the same order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::{Context, bail};

use super::go::{Field, Package};
use super::modules::Modules;
use super::swagger::{Definition, Document, Property};

/// The groups and versions that are served.
const SERVED: &[(&str, &str)] = &[
    ("", "v1"),
    ("admissionregistration.k8s.io", "v1"),
    ("apiextensions.k8s.io", "v1"),
    ("apps", "v1"),
    ("authentication.k8s.io", "v1"),
    ("authorization.k8s.io", "v1"),
    ("autoscaling", "v1"),
    ("autoscaling", "v2"),
    ("batch", "v1"),
    ("coordination.k8s.io", "v1"),
    ("discovery.k8s.io", "v1"),
    ("events.k8s.io", "v1"),
    ("networking.k8s.io", "v1"),
    ("node.k8s.io", "v1"),
    ("policy", "v1"),
    ("rbac.authorization.k8s.io", "v1"),
    ("resource.k8s.io", "v1"),
    ("scheduling.k8s.io", "v1"),
    ("storage.k8s.io", "v1"),
];

/// Types whose JSON is not an object with the listed fields, and the code that the reader has for
/// each.
const LEAVES: &[(&str, &str)] = &[
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Duration", "duration"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "fields"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", "microtime"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "time"),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", "raw"),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "intorstring"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "json"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", "orarray"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", "orbool"),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
        "orstrings",
    ),
];

/// The two texts.
pub struct Tables {
    /// Types, kinds, fields, paths.
    pub types: String,
    /// Prose.
    pub descriptions: String,
}

/// Builds both.
///
/// # Errors
///
/// The two sources disagree, or have something that the form cannot express.
pub fn build(document: &Document, modules: &Modules) -> anyhow::Result<Tables> {
    let names = reachable(document)?;
    let numbers: BTreeMap<&str, usize> =
        names.iter().enumerate().map(|(index, name)| (*name, index)).collect();
    let mut packages = BTreeMap::new();
    let mut tables = Tables { types: String::new(), descriptions: String::new() };
    for name in &names {
        let definition = &document.definitions[*name];
        let short = name.rsplit('.').next().unwrap_or_default();
        let leaf = leaf(name).unwrap_or("-");
        writeln!(tables.types, "T\t{name}\t{leaf}\t{}", dash(&definition.map_type))?;
        describe(&mut tables.descriptions, &definition.description);
        for kind in definition.kinds.iter().filter(|kind| served(&kind.group, &kind.version)) {
            writeln!(tables.types, "K\t{}\t{}\t{}", kind.group, kind.version, kind.kind)?;
        }
        if leaf == "-" {
            let package = package(&mut packages, modules, name)?;
            let fields = package.fields(short)?.with_context(|| format!("{name}: no Go struct"))?;
            for (json, property) in &definition.properties {
                let field = fields
                    .iter()
                    .find(|field| field.json == *json)
                    .with_context(|| format!("{name}.{json}: not in the Go struct"))?;
                writeln!(tables.types, "{}", line(definition, field, property, &numbers)?)?;
                describe(&mut tables.descriptions, &property.description);
            }
        }
    }
    paths(document, &mut tables.types)?;
    Ok(tables)
}

fn served(group: &str, version: &str) -> bool {
    SERVED.contains(&(group, version))
}

fn leaf(name: &str) -> Option<&'static str> {
    LEAVES.iter().find(|(leaf, _)| *leaf == name).map(|(_, code)| *code)
}

fn dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn describe(out: &mut String, description: &str) {
    out.push_str(&description.replace('\\', "\\\\").replace('\n', "\\n"));
    out.push('\n');
}

/// The schemas of all served kinds and what they refer to, by name.
fn reachable(document: &Document) -> anyhow::Result<Vec<&str>> {
    let mut pending: Vec<&str> = document
        .definitions
        .iter()
        .filter(|(_, definition)| {
            definition.kinds.iter().any(|kind| served(&kind.group, &kind.version))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = pending.pop() {
        if seen.insert(name) {
            let definition =
                document.definitions.get(name).with_context(|| format!("{name}: not defined"))?;
            pending.extend(definition.properties.values().filter_map(reference));
        }
    }
    Ok(seen.into_iter().collect())
}

fn reference(property: &Property) -> Option<&str> {
    let element = property.items.as_deref().or(property.values.as_deref());
    element.map_or_else(|| property.reference.strip_prefix("#/definitions/"), reference)
}

fn package<'a>(
    packages: &'a mut BTreeMap<String, Package>,
    modules: &Modules,
    name: &str,
) -> anyhow::Result<&'a Package> {
    let (path, _) = name.rsplit_once('.').context("a type's name has a dot")?;
    if !packages.contains_key(path) {
        let (prefix, dir) = modules
            .types
            .iter()
            .find(|(prefix, _)| path.starts_with(prefix))
            .with_context(|| format!("{name}: in no known module"))?;
        let dir = dir.join(path[prefix.len()..].replace('.', "/"));
        packages.insert(path.to_owned(), Package::read(&dir)?);
    }
    Ok(&packages[path])
}

/// Name, field number (after those of inlined messages: `2.3`), flags (p pointer, o omitted when zero, r
/// required), shape, Go type, list type, map keys, merge key, patch strategy, map type.
fn line(
    definition: &Definition,
    field: &Field,
    property: &Property,
    numbers: &BTreeMap<&str, usize>,
) -> anyhow::Result<String> {
    let mut flags = String::new();
    for (flag, set) in
        [('p', field.pointer), ('o', field.omit), ('r', definition.required.contains(&field.json))]
    {
        if set {
            flags.push(flag);
        }
    }
    Ok([
        "F",
        &field.json,
        &field.numbers.iter().map(u32::to_string).collect::<Vec<_>>().join("."),
        dash(&flags),
        &shape(property, numbers).with_context(|| field.json.clone())?,
        &field.go_type,
        dash(&property.list_type),
        dash(&property.map_keys.join(",")),
        dash(&property.merge_key),
        dash(&property.strategy),
        dash(&property.map_type),
    ]
    .join("\t"))
}

/// `[` and `{` for list and map of what follows, `@` and a type's place in the table, or a letter.
fn shape(property: &Property, numbers: &BTreeMap<&str, usize>) -> anyhow::Result<String> {
    if let Some(items) = &property.items {
        return Ok(format!("[{}", shape(items, numbers)?));
    }
    if let Some(values) = &property.values {
        return Ok(format!("{{{}", shape(values, numbers)?));
    }
    if let Some(name) = property.reference.strip_prefix("#/definitions/") {
        return Ok(format!("@{}", numbers[name]));
    }
    let letter = match (property.kind.as_str(), property.format.as_str()) {
        ("string", "") => "s",
        ("string", "byte") => "y",
        ("boolean", "") => "b",
        ("integer", "int32") => "i",
        ("integer", "int64") => "l",
        ("number", "double") => "d",
        (kind, format) => bail!("type {kind:?} with format {format:?} is not understood"),
    };
    Ok(letter.to_owned())
}

/// The served paths: template, group, version, kind, and the operations there.
fn paths(document: &Document, out: &mut String) -> anyhow::Result<()> {
    for (path, operations) in &document.paths {
        if path.contains("/watch/") || path.contains("proxy") {
            continue;
        }
        let mut methods = Vec::new();
        let mut kind = None;
        for (method, operation) in operations {
            let object = &operation["x-kubernetes-group-version-kind"];
            if !object.is_object() {
                continue;
            }
            methods.push(method.as_str());
            // A DELETE of a collection names the objects' kind, one of an object DeleteOptions'.
            kind = Some(["group", "version", "kind"].map(|key| object[key].as_str().unwrap_or("")));
        }
        // The path's group, as a subresource's kind may be of another one.
        let parts: Vec<&str> = path.split('/').collect();
        let (group, version) = match parts.get(1..4) {
            Some(["api", version, _]) => ("", *version),
            Some(["apis", group, version]) => (*group, *version),
            _ => continue,
        };
        if let Some([kind_group, kind_version, kind]) = kind
            && served(group, version)
        {
            let methods = methods.join(",");
            writeln!(out, "R\t{path}\t{kind_group}\t{kind_version}\t{kind}\t{methods}")?;
        }
    }
    Ok(())
}
