//! What the Go sources say of a struct and its JSON and protobuf form.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// A field of a Go struct that has a JSON name.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// JSON name.
    pub json: String,
    /// Protobuf field number, after those of the inlined structs that it is in; 0 where the field
    /// has none.
    pub numbers: Vec<u32>,
    /// Go type without the pointer, as Go prints it in errors: `[]v1.Container`.
    pub go_type: String,
    /// Whether nil and zero are told apart.
    pub pointer: bool,
    /// Whether a zero value is left out of JSON.
    pub omit: bool,
}

/// The structs of one Go package, by name.
#[derive(Default)]
pub struct Package(BTreeMap<String, Vec<Line>>);

struct Line {
    /// `None` for embedded fields.
    json: Option<String>,
    number: u32,
    go_type: String,
    pointer: bool,
    omit: bool,
}

impl Package {
    /// Reads the package in `dir`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or a struct tag not be understood.
    pub fn read(dir: &Path) -> anyhow::Result<Self> {
        let mut package = Self::default();
        let entries = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".go") && !name.ends_with("_test.go") && !name.contains("generated") {
                let text = fs::read_to_string(&path)?;
                package.scan(&text).with_context(|| format!("reading {}", path.display()))?;
            }
        }
        Ok(package)
    }

    fn scan(&mut self, text: &str) -> anyhow::Result<()> {
        let mut current: Option<String> = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("type ") {
                current = rest.strip_suffix(" struct {").map(str::to_owned);
                if let Some(name) = current.as_deref().or(rest.strip_suffix(" struct{}")) {
                    self.0.insert(name.to_owned(), Vec::new());
                }
            } else if line.starts_with('}') {
                current = None;
            } else if let Some(name) = &current
                && let Some(field) = field(line.trim())?
                && let Some(fields) = self.0.get_mut(name)
            {
                fields.push(field);
            }
        }
        Ok(())
    }

    /// The fields of a struct, those of structs inlined from the same package included; `None`
    /// when there is no such struct.
    ///
    /// # Errors
    ///
    /// An inlined struct is not in the package.
    pub fn fields(&self, name: &str) -> anyhow::Result<Option<Vec<Field>>> {
        if !self.0.contains_key(name) {
            return Ok(None);
        }
        let mut fields = Vec::new();
        self.collect(name, &[], &mut fields)?;
        Ok(Some(fields))
    }

    fn collect(&self, name: &str, outer: &[u32], fields: &mut Vec<Field>) -> anyhow::Result<()> {
        let lines = self.0.get(name).with_context(|| format!("struct {name} is not known"))?;
        for line in lines {
            let numbers = [outer, &[line.number]].concat();
            if let Some(json) = &line.json {
                fields.push(Field {
                    json: json.clone(),
                    numbers,
                    go_type: line.go_type.clone(),
                    pointer: line.pointer,
                    omit: line.omit,
                });
                continue;
            }
            let inlined = line.go_type.rsplit('.').next().unwrap_or_default();
            if inlined == "TypeMeta" {
                fields.extend(["apiVersion", "kind"].map(|json| Field {
                    json: json.to_owned(),
                    numbers: vec![0],
                    go_type: "string".to_owned(),
                    pointer: false,
                    omit: true,
                }));
            } else {
                self.collect(inlined, &numbers, fields)?;
            }
        }
        Ok(())
    }
}

/// Reads ``Replicas *int32 `json:"replicas,omitempty" protobuf:"varint,1,opt,name=replicas"` ``.
fn field(line: &str) -> anyhow::Result<Option<Line>> {
    let Some((code, rest)) = line.split_once('`') else { return Ok(None) };
    if code.starts_with("//") {
        return Ok(None);
    }
    let tags = rest.split('`').next().unwrap_or_default();
    let Some(json) = tag(tags, "json") else { return Ok(None) };
    let mut json = json.split(',');
    let name = json.next().unwrap_or_default();
    if name == "-" {
        return Ok(None);
    }
    let options: Vec<&str> = json.collect();
    let words: Vec<&str> = code.split_whitespace().collect();
    let (Some(&go_type), 1..=2) = (words.last(), words.len()) else {
        bail!("not understood: {line}");
    };
    let number = match tag(tags, "protobuf").and_then(|tag| tag.split(',').nth(1)) {
        Some(number) => number.parse().with_context(|| format!("field number: {line}"))?,
        None => 0,
    };
    let bare = go_type.strip_prefix('*').unwrap_or(go_type);
    Ok(Some(Line {
        json: (!name.is_empty()).then(|| name.to_owned()),
        number,
        go_type: qualified(bare),
        pointer: go_type.starts_with('*'),
        omit: options.contains(&"omitempty") || options.contains(&"omitzero"),
    }))
}

fn tag<'a>(tags: &'a str, name: &str) -> Option<&'a str> {
    let start = tags.find(&format!("{name}:\""))? + name.len() + 2;
    tags[start..].split('"').next()
}

/// The type as Go prints it outside its package: `Container` is `v1.Container` (all packages that
/// are read are called v1 or v2), `metav1.Time` is `v1.Time`.
fn qualified(go_type: &str) -> String {
    if let Some(element) = go_type.strip_prefix("[]") {
        return format!("[]{}", qualified(element.trim_start_matches('*')));
    }
    if let Some((key, value)) = go_type.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        return format!("map[{}]{}", qualified(key), qualified(value));
    }
    match go_type.split_once('.') {
        Some(("metav1" | "v1" | "corev1" | "core", name)) => format!("v1.{name}"),
        Some(_) => go_type.to_owned(),
        None if go_type.starts_with(|c: char| c.is_ascii_uppercase()) => format!("v1.{go_type}"),
        None => go_type.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tags_pointers_and_inlined_structs() {
        let mut package = Package::default();
        package
            .scan(concat!(
                "type Volume struct {\n",
                "\t// Name of it, see `json:\"x\"`.\n",
                "\tName string `json:\"name\" protobuf:\"bytes,1,opt,name=name\"`\n",
                "\tVolumeSource `json:\",inline\" protobuf:\"bytes,2,opt,name=volumeSource\"`\n",
                "}\n",
                "type VolumeSource struct {\n",
                "\tEmptyDir *EmptyDir `json:\"emptyDir,omitempty\" protobuf:\"bytes,3,opt,name=emptyDir\"`\n",
                "}\n",
            ))
            .unwrap();
        let fields = package.fields("Volume").unwrap().unwrap();
        assert_eq!(fields.len(), 2);
        assert_eq!((fields[0].json.as_str(), fields[0].omit), ("name", false));
        assert_eq!(fields[0].numbers, [1]);
        assert_eq!((&fields[1].numbers[..], fields[1].pointer), (&[2, 3][..], true));
        assert_eq!(fields[1].go_type, "v1.EmptyDir");
        assert!(package.fields("Pod").unwrap().is_none());
    }
}
