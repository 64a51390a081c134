//! Comma-separated tables with a header line; cells are never quoted.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::{CatalogError, File};

/// A table: which column stands where, and the rows below.
pub(super) struct Table<'a> {
    file: File<'a>,
    columns: BTreeMap<&'a str, usize>,
}

impl<'a> Table<'a> {
    /// Reads the header of `file`.
    ///
    /// # Errors
    ///
    /// If the file is empty, or lacks one of the columns `needed`.
    pub(super) fn new(file: File<'a>, needed: &[&str]) -> Result<Self, CatalogError> {
        let whole = |problem: String| CatalogError::File { file: file.name.to_owned(), problem };
        let header = file.text.trim_start_matches('\u{feff}').lines().next().unwrap_or("");
        if header.trim().is_empty() {
            return Err(whole(format!("is empty; its first line must be {}", needed.join(","))));
        }
        let columns: BTreeMap<&str, usize> =
            header.split(',').enumerate().map(|(at, name)| (name.trim(), at)).collect();
        if let Some(missing) = needed.iter().find(|name| !columns.contains_key(*name)) {
            let needed = needed.join(",");
            return Err(whole(format!("has no column {missing:?}; it must have {needed}")));
        }
        Ok(Self { file, columns })
    }

    /// The rows in order, blank lines left out.
    pub(super) fn rows(&self) -> impl Iterator<Item = Result<Row<'_>, CatalogError>> {
        let lines = self.file.text.lines().enumerate().skip(1);
        lines.filter(|(_, line)| !line.trim().is_empty()).map(|(at, line)| {
            let row = Row { table: self, line: at + 1, cells: line.split(',').collect() };
            let (found, wanted) = (row.cells.len(), self.columns.len());
            if found == wanted {
                return Ok(row);
            }
            Err(row.error(format!("has {found} cells; the header has {wanted} columns")))
        })
    }
}

/// One row.
pub(super) struct Row<'a> {
    table: &'a Table<'a>,
    line: usize,
    cells: Vec<&'a str>,
}

impl<'a> Row<'a> {
    /// The text of a cell; empty if it says nothing.
    pub(super) fn text(&self, column: &str) -> &'a str {
        self.table.columns.get(column).map_or("", |at| self.cells[*at].trim())
    }

    /// The text of a cell that must say something.
    pub(super) fn required(&self, column: &str) -> Result<&'a str, CatalogError> {
        match self.text(column) {
            "" => Err(self.error(format!("{column} is empty"))),
            text => Ok(text),
        }
    }

    /// A number of a cell that must hold one, at least `least`.
    pub(super) fn number<T>(&self, column: &str, least: T) -> Result<T, CatalogError>
    where
        T: FromStr + PartialOrd + std::fmt::Display,
    {
        let text = self.required(column)?;
        let number = text.parse().ok().filter(|number| *number >= least);
        number.ok_or_else(|| {
            self.error(format!("{column} is {text:?}; it must be a number, at least {least}"))
        })
    }

    /// A number of a cell, or nothing if it is empty.
    pub(super) fn optional<T>(&self, column: &str, least: T) -> Result<Option<T>, CatalogError>
    where
        T: FromStr + PartialOrd + std::fmt::Display,
    {
        if self.text(column).is_empty() { Ok(None) } else { self.number(column, least).map(Some) }
    }

    /// A cell that is 0 or 1.
    pub(super) fn flag(&self, column: &str) -> Result<bool, CatalogError> {
        match self.text(column) {
            "0" => Ok(false),
            "1" => Ok(true),
            text => Err(self.error(format!("{column} is {text:?}; it must be 0 or 1"))),
        }
    }

    /// An error in this row.
    pub(super) fn error(&self, problem: String) -> CatalogError {
        CatalogError::Line { file: self.table.file.name.to_owned(), line: self.line, problem }
    }
}
