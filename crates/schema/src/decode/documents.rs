//! Manifest files: YAML documents with `---` between them.

use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

use super::tree::Tree;

/// Splits a manifest file into its documents, each with the line on which it starts (from 1).
/// Empty documents are left out.
///
/// # Errors
///
/// A document is not YAML, or gives a field twice; with the line in the file.
pub fn documents(text: &str) -> Result<Vec<(usize, Value)>, String> {
    let mut found = Vec::new();
    for (first, chunk) in chunks(text) {
        let Some(skipped) = chunk.lines().position(is_content) else { continue };
        let Tree { value, duplicates } = parse(chunk, first)?;
        if let Some(duplicate) = duplicates.first() {
            return Err(format!("document at line {}: {duplicate}", first + skipped));
        }
        if !value.is_null() {
            found.push((first + skipped, value));
        }
    }
    Ok(found)
}

/// Pieces between `---` lines, each with the number of its first line. What follows `---` on its
/// line stays in the piece.
fn chunks(text: &str) -> Vec<(usize, &str)> {
    let mut chunks = Vec::new();
    let (mut start, mut first, mut offset) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let rest = line.strip_prefix("---");
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
            chunks.push((first, &text[start..offset]));
            (start, first) = (offset, index + 1);
        }
        offset += line.len();
    }
    chunks.push((first, &text[start..]));
    chunks
}

fn is_content(line: &str) -> bool {
    let line = line.strip_prefix("---").unwrap_or(line).trim();
    !line.is_empty() && !line.starts_with(['#', '%'])
}

/// Parses one document whose first line is line `first` of its file.
pub(super) fn parse(text: &str, first: usize) -> Result<Tree, String> {
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::PassThrough };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let plain = error.without_snippet();
        let message = plain.to_string();
        match plain.location() {
            Some(at) => {
                let line = at.line() + first as u64 - 1;
                // The parser's own position counts from the document's start.
                let own = format!(" at line {}, column {}", at.line(), at.column());
                let message = message.replacen(&own, "", 1);
                format!("yaml: line {line}, column {}: {message}", at.column())
            }
            None => format!("yaml: {message}"),
        }
    })
}
