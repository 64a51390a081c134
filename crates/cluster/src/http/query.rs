//! What a URL's query asks for.

use crate::status::{FieldError, Status};

/// The parameters of a URL.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Query(Vec<(String, String)>);

/// What becomes of unknown and duplicate fields in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and named in warnings.
    Warn,
    /// The request fails.
    Strict,
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    /// A parameter; `None` if it is not there or empty.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == key)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }

    /// A flag: `1`, `true` and a bare name are true.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.given(key).unwrap_or(false)
    }

    /// A flag, if it is there.
    pub(super) fn given(&self, key: &str) -> Option<bool> {
        let found = self.0.iter().find(|(name, _)| name == key)?;
        Some(!matches!(found.1.as_str(), "0" | "false"))
    }

    /// A whole number.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, Status> {
        let parse = |text: &str| {
            text.parse().map_err(|_| {
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
            })
        };
        self.get(key).map(parse).transpose()
    }

    /// `dryRun`; `options` names the kind of the options in the error, `CreateOptions` for example.
    pub(super) fn dry_run(&self, options: &str) -> Result<bool, Status> {
        dry_run(self.get("dryRun"), options)
    }

    /// `fieldValidation`; a server warns unless told otherwise.
    pub(super) fn field_validation(&self, options: &str) -> Result<FieldValidation, Status> {
        Ok(match self.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                let supported = ["Ignore", "Strict", "Warn"];
                let error = FieldError::not_supported("fieldValidation", &other.into(), &supported);
                return Err(Status::invalid("meta.k8s.io", options, "", &[error]));
            }
        })
    }
}

/// Whether a `dryRun` value asks for a dry run.
pub(super) fn dry_run(value: Option<&str>, options: &str) -> Result<bool, Status> {
    match value {
        None => Ok(false),
        Some("All") => Ok(true),
        Some(other) => {
            let error = FieldError::not_supported("dryRun", &other.into(), &["All"]);
            Err(Status::invalid("meta.k8s.io", options, "", &[error]))
        }
    }
}

/// Undoes percent-encoding; in queries a plus is a space.
pub(super) fn decode(text: &str, plus: bool) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let escaped = (bytes[i] == b'%')
            .then(|| bytes.get(i + 1..i + 3))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(if plus && bytes[i] == b'+' { b' ' } else { bytes[i] });
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch=1&limit=500&x&empty=");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.flag("watch") && query.flag("x") && !query.flag("y"));
        assert_eq!(query.number("limit").unwrap(), Some(500));
        assert_eq!(query.get("empty"), None);
    }

    #[test]
    fn broken_escapes_stay_as_they_are() {
        assert_eq!(decode("100%", true), "100%");
        assert_eq!(decode("%zz+%C3%A4", true), "%zz ä");
        assert_eq!(decode("%zz+", false), "%zz+");
    }

    #[test]
    fn wrong_values_name_their_parameter() {
        let error = Query::parse("dryRun=some").dry_run("CreateOptions").unwrap_err();
        assert_eq!(
            error.message,
            "CreateOptions.meta.k8s.io \"\" is invalid: \
             dryRun: Unsupported value: \"some\": supported values: \"All\""
        );
        assert!(Query::parse("fieldValidation=x").field_validation("PatchOptions").is_err());
        assert_eq!(Query::parse("limit=x").number("limit").unwrap_err().code, 400);
    }
}
