//! Where in an object something is.

use std::fmt;

/// A place; borrowed from the walk that is there.
#[derive(Debug)]
pub(super) enum Path<'a> {
    /// The object.
    Root,
    /// A field: `spec.x`.
    Field(&'a Path<'a>, &'a str),
    /// A key of a map: `spec.labels[x]`.
    Key(&'a Path<'a>, &'a str),
    /// An element of a list: `spec.x[0]`.
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// Whether it is the object itself.
    pub fn is_root(&self) -> bool {
        matches!(self, Self::Root)
    }

    /// With a dot before keys: `spec.labels.x`, as value checks name places.
    pub fn dotted(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(outer, name) | Self::Key(outer, name) => match outer.dotted() {
                outer if outer.is_empty() => (*name).to_owned(),
                outer => format!("{outer}.{name}"),
            },
            Self::Index(outer, index) => format!("{}[{index}]", outer.dotted()),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(outer, name) => write!(f, "{outer}.{name}"),
            Self::Key(outer, key) => write!(f, "{outer}[{key}]"),
            Self::Index(outer, index) => write!(f, "{outer}[{index}]"),
        }
    }
}
