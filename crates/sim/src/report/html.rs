//! A report as one page that needs no network.

use super::Report;

const PAGE: &str = include_str!("page.html");

/// The report as an HTML page with charts.
///
/// # Errors
///
/// If the report cannot be written as JSON: a fault of this program.
pub fn html(report: &Report) -> serde_json::Result<String> {
    // Nothing in a string may end the script that holds it.
    let json = serde_json::to_string(report)?.replace('<', "\\u003c");
    Ok(PAGE.replacen("REPORT", &json, 1))
}

#[cfg(test)]
mod tests {
    use super::PAGE;

    #[test]
    fn the_page_asks_nobody_for_anything() {
        assert_eq!(PAGE.matches("REPORT").count(), 1);
        let links = ["http://www.w3.org/2000/svg"];
        for word in ["src=", "href=", "@import", "url(", "fetch("] {
            assert!(!PAGE.contains(word), "{word}");
        }
        assert_eq!(PAGE.matches("http").count(), links.len());
    }
}
