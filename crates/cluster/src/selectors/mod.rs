//! Label and field selectors: parsing, and matching objects.
//!
//! - [`Labels`]: requirements on labels, from a query (`app=web,tier in (a,b)`) or from a
//!   `LabelSelector` object.
//! - [`Fields`]: requirements on fields; each kind has its own list of those that may be asked for.

mod fields;
mod labels;

pub use fields::Fields;
pub use labels::Labels;
