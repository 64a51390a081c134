//! What a URL's path asks for.

use super::query::decode;

/// A path that the API server knows the form of.
#[derive(Debug, PartialEq)]
pub(super) enum Path {
    /// `/healthz`, `/livez`, `/readyz`.
    Health,
    /// `/version`.
    Version,
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`, or (with what follows) one of its documents.
    OpenApi(String),
    /// `/api`.
    Core,
    /// `/apis`.
    Groups,
    /// `/apis/apps`.
    Group(String),
    /// `/api/v1`, `/apis/apps/v1`.
    GroupVersion(String, String),
    /// Objects.
    Resource(Target),
}

/// Which objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Target {
    pub group: String,
    pub version: String,
    /// Empty: cluster-scoped, or all namespaces.
    pub namespace: String,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

impl Path {
    /// `None` for a path that no API server has.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let segments: Vec<String> =
            path.trim_matches('/').split('/').map(|part| decode(part, false)).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        Some(match segments.as_slice() {
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["version"] => Self::Version,
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3", rest @ ..] => Self::OpenApi(rest.join("/")),
            ["api"] => Self::Core,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).into()),
            ["api", version] => Self::GroupVersion(String::new(), (*version).into()),
            ["apis", group, version] => Self::GroupVersion((*group).into(), (*version).into()),
            ["api", version, rest @ ..] => Self::Resource(Target::parse("", version, rest)?),
            ["apis", group, version, rest @ ..] => {
                Self::Resource(Target::parse(group, version, rest)?)
            }
            _ => return None,
        })
    }
}

impl Target {
    fn parse(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        let (namespace, rest) = match rest {
            // These two are subresources of the namespace, all else is a resource inside it.
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(*name), None),
            // `proxy` is followed by a path of its own.
            [plural, name, "proxy", ..] => (plural, Some(*name), Some("proxy")),
            [plural, name, subresource] => (plural, Some(*name), Some(*subresource)),
            _ => return None,
        };
        if plural.is_empty() || name == Some("") {
            return None;
        }
        Some(Self {
            group: group.into(),
            version: version.into(),
            namespace: namespace.into(),
            plural: (*plural).into(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Target {
        match Path::parse(path) {
            Some(Path::Resource(target)) => target,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn objects_are_found_in_every_form_of_path() {
        let pods = target("/api/v1/pods");
        assert_eq!((pods.plural.as_str(), pods.name), ("pods", None));
        let pod = target("/api/v1/namespaces/a/pods/x%3Ay/status");
        assert_eq!(pod.namespace, "a");
        assert_eq!(pod.name.as_deref(), Some("x:y"));
        assert_eq!(pod.subresource.as_deref(), Some("status"));
        let pool = target("/apis/karpenter.sh/v1/nodepools/general-purpose");
        assert_eq!((pool.group.as_str(), pool.namespace.as_str()), ("karpenter.sh", ""));
    }

    #[test]
    fn a_namespace_is_an_object_and_a_place() {
        let namespace = target("/api/v1/namespaces/a");
        assert_eq!(
            (namespace.plural.as_str(), namespace.name.as_deref()),
            ("namespaces", Some("a"))
        );
        let finalize = target("/api/v1/namespaces/a/finalize");
        assert_eq!(finalize.subresource.as_deref(), Some("finalize"));
        assert_eq!(finalize.plural, "namespaces");
        assert_eq!(target("/api/v1/namespaces/a/events").plural, "events");
    }

    #[test]
    fn other_paths_are_told_apart() {
        assert_eq!(Path::parse("/api/"), Some(Path::Core));
        assert_eq!(
            Path::parse("/apis/apps/v1"),
            Some(Path::GroupVersion("apps".into(), "v1".into()))
        );
        assert_eq!(Path::parse("/openapi/v3/api/v1"), Some(Path::OpenApi("api/v1".into())));
        assert_eq!(Path::parse("/readyz"), Some(Path::Health));
        for unknown in ["/", "/metrics", "/openapi/v1", "/api/v1/pods/a/b/c"] {
            assert_eq!(Path::parse(unknown), None, "{unknown}");
        }
    }
}
