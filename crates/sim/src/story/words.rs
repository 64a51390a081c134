//! How amounts, prices and times are put.

use aerostat_engine::resources::Resources;
use jiff::{SignedDuration, Timestamp};

/// `500m cpu, 1000Mi memory`.
pub(super) fn resources(resources: &Resources) -> String {
    let quantities = resources.quantities();
    let shown = quantities.iter().filter(|(name, _)| name.as_str() != "pods");
    let list = shown.map(|(name, quantity)| format!("{quantity} {name}")).collect::<Vec<_>>();
    if list.is_empty() { "no requests".to_owned() } else { list.join(", ") }
}

/// `12`: what `part` is of `whole`, in whole percent.
pub(super) fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.0}", part / whole * 100.0) } else { "0".to_owned() }
}

/// `$0.1075/h`: at least four digits behind the point, more for the very cheap.
pub(super) fn price(usd: f64) -> String {
    let digits = if usd < 0.01 { 6 } else { 4 };
    format!("${usd:.digits$}/h")
}

/// `26.0 s`, `3 min 5 s`.
pub(super) fn took(from: Timestamp, to: Timestamp) -> String {
    duration(to.duration_since(from))
}

/// As [`took`].
pub(super) fn duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 120.0 {
        return format!("{seconds:.1} s");
    }
    let seconds = duration.as_secs();
    if seconds < 7200 {
        return format!("{} min {} s", seconds / 60, seconds % 60);
    }
    format!("{} h {} min", seconds / 3600, seconds / 60 % 60)
}

/// `1 pod`, `3 pods`.
pub(super) fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
