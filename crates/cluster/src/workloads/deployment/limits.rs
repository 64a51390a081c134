//! How many pods of a Deployment may be too many, and how many unavailable.
//!
//! Source: Kubernetes `pkg/controller/deployment/util/deployment_util.go`.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// `spec.replicas`.
pub(super) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Whether old pods go and new pods come at the same time.
pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("Recreate")
}

/// How many pods above the wanted number there may be.
pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    if is_rolling(deployment) { fenceposts(deployment).0 } else { 0 }
}

/// How many of the wanted pods may be unavailable.
pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    if is_rolling(deployment) { fenceposts(deployment).1.min(wanted(deployment)) } else { 0 }
}

/// Surge rounds up, unavailable rounds down; when both come to nothing one may be unavailable,
/// or nothing would ever move.
fn fenceposts(deployment: &Deployment) -> (i32, i32) {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let of = wanted(deployment);
    let scale = |value: Option<&IntOrString>, up| value.map_or(0, |value| scaled(value, of, up));
    let surge = scale(rolling.and_then(|rolling| rolling.max_surge.as_ref()), true);
    let unavailable = scale(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), false);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// A number, or a percentage of `of`. Validation has refused everything else.
pub(in crate::workloads) fn scaled(value: &IntOrString, of: i32, up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%').and_then(|p| p.parse().ok()).unwrap_or(0);
            let hundredths = percent * i64::from(of);
            let whole = hundredths.div_euclid(100) + i64::from(up && hundredths % 100 != 0);
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}
