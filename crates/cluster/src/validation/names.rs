//! What names, labels and keys look like.
//!
//! Source: apimachinery `pkg/util/validation` and `pkg/api/validate/content`. Each function tells
//! what is wrong with a text; nothing if it is right.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// Adds what the text must look like, with examples.
fn look(what: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{what} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

fn too_long(text: &str, most: usize, unit: &str) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} {unit}"))
}

/// Starts and ends with `edge`, and consists of `edge` and `inner`.
fn framed(text: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| edge(*b))
        && bytes.last().is_some_and(|b| edge(*b))
        && bytes.iter().all(|b| edge(*b) || inner(*b))
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    framed(text, lower, |byte| byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_key(text: &str) -> bool {
    framed(text, |byte| byte.is_ascii_alphanumeric(), |byte| b"-_.".contains(&byte))
}

/// RFC 1123 label: `my-name`.
pub(super) fn dns_label(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63, "characters").into_iter().collect();
    if is_label(text) {
        return wrong;
    }
    wrong.push(if is_subdomain(text) {
        "must not contain dots".into()
    } else {
        look(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
             and must start and end with an alphanumeric character",
            LABEL,
            &["my-name", "123-abc"],
        )
    });
    wrong
}

/// RFC 1123 subdomain: `example.com`.
pub(super) fn dns_subdomain(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 253, "characters").into_iter().collect();
    if !is_subdomain(text) {
        wrong.push(look(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character",
            &format!("{LABEL}(\\.{LABEL})*"),
            &["example.com"],
        ));
    }
    wrong
}

/// Anything that can stand between the slashes of a URL.
pub(super) fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    let contained = ["/", "%"].into_iter().filter(|part| text.contains(part));
    contained.map(|part| format!("may not contain '{part}'")).collect()
}

/// Label key, also the name of a taint, finalizer, resource, …: `example.com/MyName`.
pub(super) fn qualified_name(text: &str) -> Vec<String> {
    let what = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                with an alphanumeric character";
    let form = || look(what, KEY, &["MyName", "my.name", "123-abc"]);
    let mut wrong = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".into());
            } else {
                let problems = dns_subdomain(prefix);
                wrong.extend(problems.iter().map(|problem| format!("prefix part {problem}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')",
                form()
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".into());
    } else if let Some(long) = too_long(name, 63, "bytes") {
        wrong.push(format!("name part {long}"));
    }
    if !is_key(name) {
        wrong.push(format!("name part {}", form()));
    }
    wrong
}

/// Label value: `my_value`, or empty.
pub(super) fn label_value(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63, "bytes").into_iter().collect();
    if !text.is_empty() && !is_key(text) {
        wrong.push(look(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
             or '.', and must start and end with an alphanumeric character",
            &format!("({KEY})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// Name of a container port: at most 15 letters, digits and single hyphens.
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 15, "characters").into_iter().collect();
    if text.is_empty() || !text.bytes().all(|byte| lower(byte) || byte == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".into());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".into());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".into());
    }
    wrong
}

/// Port number.
pub(super) fn port_number(number: i64) -> Vec<String> {
    in_range(number, 1, 65_535)
}

/// A number within bounds.
pub(super) fn in_range(number: i64, least: i64, most: i64) -> Vec<String> {
    if (least..=most).contains(&number) {
        return Vec::new();
    }
    vec![format!("must be between {least} and {most}, inclusive")]
}

/// Name of an environment variable.
pub(super) fn env_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".into()];
    }
    if text.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other \
         than '='"
            .into(),
    ]
}

/// Key of a ConfigMap or Secret: `key.name`.
pub(super) fn config_key(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 253, "characters").into_iter().collect();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || !text.bytes().all(allowed) {
        wrong.push(look(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." | ".." => wrong.push(format!("must not be '{text}'")),
        text if text.starts_with("..") => wrong.push("must not start with '..'".into()),
        _ => {}
    }
    wrong
}

/// `25%`
pub(super) fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    vec![look(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}
