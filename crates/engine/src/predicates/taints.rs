//! Taints and tolerations. Source: k8s.io/api `core/v1/toleration.go`.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Whether one of `tolerations` tolerates `taint`.
#[must_use]
pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates_one(toleration, taint))
}

fn tolerates_one(toleration: &Toleration, taint: &Taint) -> bool {
    let wildcard_or = |wanted: Option<&str>, is: &str| {
        let wanted = wanted.unwrap_or_default();
        wanted.is_empty() || wanted == is
    };
    if !wildcard_or(toleration.effect.as_deref(), &taint.effect)
        || !wildcard_or(toleration.key.as_deref(), &taint.key)
    {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => {
            toleration.value.as_deref().unwrap_or_default()
                == taint.value.as_deref().unwrap_or_default()
        }
        "Exists" => true,
        // `Gt` and `Lt` stand behind a feature gate that is off in v1.36.
        _ => false,
    }
}

/// The first of `taints` that keeps a pod with `tolerations` off: `NoSchedule` or `NoExecute`.
#[must_use]
pub fn untolerated<'a>(tolerations: &[Toleration], taints: &'a [Taint]) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
        .find(|taint| !tolerates(tolerations, taint))
}

/// How many `PreferNoSchedule` taints a pod with `tolerations` does not tolerate.
#[must_use]
pub fn untolerated_preferences(tolerations: &[Toleration], taints: &[Taint]) -> usize {
    taints
        .iter()
        .filter(|taint| taint.effect == "PreferNoSchedule" && !tolerates(tolerations, taint))
        .count()
}
