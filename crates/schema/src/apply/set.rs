//! Sets of field paths, and their form in `fieldsV1`.
//!
//! Source: structured-merge-diff `fieldpath`; `f:name`, `k:{"name":"c"}`, `v:"value"`, `.`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A set of paths. A path's element has the form that it has in `fieldsV1`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Set {
    children: BTreeMap<String, Node>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    /// Whether the path that ends here is in the set.
    member: bool,
    below: Set,
}

impl Set {
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Adds the path that is `element`.
    pub fn insert(&mut self, element: String) {
        self.children.entry(element).or_default().member = true;
    }

    /// Adds all paths that go on from `element`.
    pub fn insert_below(&mut self, element: &str, below: Self) {
        if !below.is_empty() {
            let node = self.children.entry(element.to_owned()).or_default();
            node.below = node.below.union(&below);
        }
    }

    /// Whether the path that is `element` is in it.
    pub fn has(&self, element: &str) -> bool {
        self.children.get(element).is_some_and(|node| node.member)
    }

    /// Paths that go on from `element`.
    pub fn below(&self, element: &str) -> Option<&Self> {
        self.children.get(element).map(|node| &node.below)
    }

    /// Takes out every path that begins with `element`.
    pub fn remove(&mut self, element: &str) {
        self.children.remove(element);
    }

    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        for (element, node) in &other.children {
            let mine = union.children.entry(element.clone()).or_default();
            mine.member |= node.member;
            mine.below = mine.below.union(&node.below);
        }
        union
    }

    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(|element, node| {
            let other = other.children.get(element)?;
            let below = node.below.intersection(&other.below);
            Some(Node { member: node.member && other.member, below })
        })
    }

    pub fn difference(&self, other: &Self) -> Self {
        self.combine(|element, node| {
            let Some(other) = other.children.get(element) else { return Some(node.clone()) };
            let below = node.below.difference(&other.below);
            Some(Node { member: node.member && !other.member, below })
        })
    }

    fn combine(&self, keep: impl Fn(&str, &Node) -> Option<Node>) -> Self {
        let children = self
            .children
            .iter()
            .filter_map(|(element, node)| Some((element.clone(), keep(element, node)?)))
            .filter(|(_, node)| node.member || !node.below.is_empty())
            .collect();
        Self { children }
    }

    /// The set that `fieldsV1` describes.
    pub fn read(fields: &Value) -> Self {
        let mut set = Self::default();
        for (element, below) in fields.as_object().into_iter().flatten().filter(|(e, _)| *e != ".")
        {
            let map = below.as_object();
            let member = map.is_none_or(|map| map.is_empty() || map.contains_key("."));
            set.children.insert(element.clone(), Node { member, below: Self::read(below) });
        }
        set
    }

    /// Its `fieldsV1`.
    pub fn write(&self) -> Value {
        let fields = self.children.iter().map(|(element, node)| {
            let mut below = node.below.write();
            if node.member
                && let Some(map) = below.as_object_mut().filter(|map| !map.is_empty())
            {
                map.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element.clone(), below)
        });
        Value::Object(fields.collect())
    }

    /// Its paths as errors show them: `.spec.containers[name="c"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, outer: &str, paths: &mut Vec<String>) {
        for (element, node) in &self.children {
            let path = format!("{outer}{}", shown(element));
            if node.member {
                paths.push(path.clone());
            }
            node.below.collect(&path, paths);
        }
    }
}

fn shown(element: &str) -> String {
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> =
                keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        Some(("v", value)) => format!("[={value}]"),
        _ => format!("[{element}]"),
    }
}
