//! Tables as CSV files have them.

use std::path::Path;

use anyhow::{Context, bail};

/// Most lines of one row: a quote that is open for longer was never meant to be one.
const MOST_LINES: usize = 1000;

/// A table with a header.
#[derive(Debug)]
pub(super) struct Table {
    /// The file, for errors.
    pub(super) name: String,
    header: Vec<String>,
    /// Line number and fields of each row.
    pub(super) rows: Vec<(usize, Vec<String>)>,
}

impl Table {
    /// Reads a file: commas, double quotes, one row a line (or more, in quotes).
    ///
    /// # Errors
    ///
    /// Names the file and the line that is wrong.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        Self::parse(&path.display().to_string(), &text)
    }

    pub(super) fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut header: Option<Vec<String>> = None;
        let mut rows = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((at, first)) = lines.next() {
            if first.trim().is_empty() {
                continue;
            }
            let line = at + 1;
            // A field in quotes may go on over several lines.
            let mut record = first.to_owned();
            let row = loop {
                if let Some(fields) = fields(&record) {
                    break fields;
                }
                let Some((_, more)) = lines.next().filter(|(at, _)| at - line < MOST_LINES) else {
                    bail!("{name}:{line}: a quote is not closed");
                };
                record.push('\n');
                record.push_str(more);
            };
            match &header {
                None => header = Some(row),
                Some(header) if row.len() != header.len() => {
                    bail!("{name}:{line}: {} fields under a header of {}", row.len(), header.len());
                }
                Some(_) => rows.push((line, row)),
            }
        }
        let header = header.with_context(|| format!("{name}: it has no header"))?;
        Ok(Self { name: name.to_owned(), header, rows })
    }

    /// Where a column stands.
    ///
    /// # Errors
    ///
    /// If there is none of that name; the error says which there are.
    pub(super) fn column(&self, column: &str) -> anyhow::Result<usize> {
        self.header.iter().position(|name| name == column).with_context(|| {
            format!("{}: there is no column {column:?} among {}", self.name, self.header.join(", "))
        })
    }
}

/// The fields of a row; `None` if a quote is still open at its end.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.trim_end_matches('\r').chars().peekable();
    while let Some(character) = characters.next() {
        let Some(field) = fields.last_mut() else { break };
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' if quoted || field.is_empty() => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => field.push(character),
        }
    }
    if quoted {
        return None;
    }
    Some(fields.into_iter().map(|field| field.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_line_ends_are_understood() {
        let table = Table::parse("t.csv", "a,b\r\n1,\"x, \"\"y\"\"\"\r\n\r\n2,\n").unwrap();
        assert_eq!(table.rows[0], (2, vec!["1".to_owned(), "x, \"y\"".to_owned()]));
        assert_eq!(table.rows[1], (4, vec!["2".to_owned(), String::new()]));
        assert_eq!(table.column("b").unwrap(), 1);
        let table = Table::parse("t.csv", "a,b\n1,\"x\ny\"\n2,z\n").unwrap();
        assert_eq!(table.rows[0], (2, vec!["1".to_owned(), "x\ny".to_owned()]));
        assert_eq!(table.rows[1].0, 4);
    }

    #[test]
    fn mistakes_are_named_with_file_and_line() {
        let error = |text: &str| format!("{:#}", Table::parse("t.csv", text).unwrap_err());
        assert_eq!(error("a,b\n1,2\n3\n"), "t.csv:3: 1 fields under a header of 2");
        assert_eq!(error("a\n\"x\ny\n"), "t.csv:2: a quote is not closed");
        assert_eq!(error("\n"), "t.csv: it has no header");
        let table = Table::parse("t.csv", "a,b\n").unwrap();
        let error = table.column("c").unwrap_err().to_string();
        assert_eq!(error, "t.csv: there is no column \"c\" among a, b");
    }
}
