//! What is wrong with a catalog.

/// Why a catalog cannot be used: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// A place in a file.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file, as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong there, and what would be right.
        problem: String,
    },
    /// A file as a whole.
    #[error("{file}: {problem}")]
    File {
        /// The file, as the user named it.
        file: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A region that the catalog does not have.
    #[error("unknown region {region:?}: the catalog has {known}")]
    UnknownRegion {
        /// What was asked for.
        region: String,
        /// The regions that there are.
        known: String,
    },
}
