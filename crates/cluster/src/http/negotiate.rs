//! `Accept` and `Content-Type`.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::status::Status;

/// How the response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Yaml,
}

/// What is told of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All of them.
    Whole,
    /// Rows of a `Table`.
    Table,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// What a client wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accept {
    pub encoding: Encoding,
    pub form: Form,
}

/// How a request's body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Json,
    Yaml,
    Protobuf,
}

/// The first of the `Accept` header's wishes that can be met.
pub(super) fn accept(headers: &HeaderMap) -> Result<Accept, Status> {
    let wishes = wishes(headers);
    if wishes.is_empty() {
        return Ok(Accept { encoding: Encoding::Json, form: Form::Whole });
    }
    wishes.iter().find_map(|wish| wish.met()).ok_or_else(|| {
        let message = "only the following media types are accepted: \
                       application/json, application/yaml";
        Status::new(406, "NotAcceptable", message)
    })
}

/// The version in which a client wants aggregated discovery, if it does before all else.
pub(super) fn discovery(headers: &HeaderMap) -> Option<&str> {
    let wish = wishes(headers)
        .into_iter()
        .find(|wish| wish.discovery_version().is_some() || wish.met().is_some())?;
    wish.discovery_version()
}

/// One media type of an `Accept` header with its parameters.
struct Wish<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

fn wishes(headers: &HeaderMap) -> Vec<Wish<'_>> {
    let texts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .map(|text| {
            let mut parts = text.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let parameters = parts.filter_map(|part| part.split_once('=')).collect();
            Wish { media, parameters }
        })
        .filter(|wish| !wish.media.is_empty())
        .collect()
}

impl<'a> Wish<'a> {
    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn met(&self) -> Option<Accept> {
        let encoding = match self.media {
            "application/json" | "application/*" | "*/*" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            _ => return None,
        };
        let meta = self.parameter("g") == Some("meta.k8s.io")
            && matches!(self.parameter("v"), Some("v1" | "v1beta1"));
        let form = match self.parameter("as") {
            None => Form::Whole,
            Some("Table") if meta => Form::Table,
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if meta => Form::Metadata,
            Some(_) => return None,
        };
        Some(Accept { encoding, form })
    }

    fn discovery_version(&self) -> Option<&'a str> {
        let wanted = self.media == "application/json"
            && self.parameter("as") == Some("APIGroupDiscoveryList")
            && self.parameter("g") == Some("apidiscovery.k8s.io");
        self.parameter("v").filter(|version| wanted && matches!(*version, "v2" | "v2beta1"))
    }
}

/// How the body is written. Without a `Content-Type` it is JSON, as `kubectl scale` relies on.
pub(super) fn content(headers: &HeaderMap) -> Result<Content, Status> {
    match media_type(headers) {
        "" | "application/json" => Ok(Content::Json),
        "application/yaml" => Ok(Content::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Content::Protobuf),
        _ => Err(unsupported(
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// The `Content-Type` without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

/// 415 that names what would be accepted.
pub(super) fn unsupported(accepted: &str) -> Status {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    );
    Status::new(415, "UnsupportedMediaType", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(accept: &str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, accept.parse().expect(accept))])
    }

    #[test]
    fn the_first_wish_that_can_be_met_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accept(&with(table)).unwrap().form, Form::Table);
        let typed = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(accept(&with(typed)).unwrap().form, Form::Whole);
        let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        assert_eq!(accept(&with(metadata)).unwrap().form, Form::Metadata);
        assert_eq!(accept(&with("application/yaml")).unwrap().encoding, Encoding::Yaml);
        assert_eq!(accept(&with("text/html, */*")).unwrap().encoding, Encoding::Json);
        assert_eq!(accept(&HeaderMap::new()).unwrap().form, Form::Whole);
    }

    #[test]
    fn nothing_acceptable_is_said_to_be_so() {
        for header in
            ["application/vnd.kubernetes.protobuf", "text/html", "application/json;as=Bogus"]
        {
            assert_eq!(accept(&with(header)).unwrap_err().code, 406, "{header}");
        }
    }

    #[test]
    fn aggregated_discovery_is_given_to_those_who_prefer_it() {
        let both = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                    application/json";
        assert_eq!(discovery(&with(both)), Some("v2"));
        let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert_eq!(discovery(&with(old)), Some("v2beta1"));
        assert_eq!(discovery(&with("application/json, */*")), None);
    }
}
