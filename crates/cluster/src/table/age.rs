//! How long ago, in kubectl's short form.

use jiff::Timestamp;
use serde_json::Value;

/// A duration in at most two units, coarser the longer it is: `45s`, `5m3s`, `17m`, `3h20m`,
/// `2d4h`, `400d`, `3y12d`. Source: apimachinery `pkg/util/duration` `HumanDuration`.
pub(super) fn human(seconds: i64) -> String {
    // Clocks that are a little apart are not worth a complaint.
    if seconds < -1 {
        return "<invalid>".into();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let years = days / 365;
    let pair = |big: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        pair(minutes, 'm', seconds % 60, 's')
    } else if hours < 3 {
        format!("{minutes}m")
    } else if hours < 8 {
        pair(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        pair(days, 'd', hours % 24, 'h')
    } else if days < 2 * 365 {
        format!("{days}d")
    } else if days < 8 * 365 {
        pair(years, 'y', days % 365, 'd')
    } else {
        format!("{years}y")
    }
}

/// The time since an RFC 3339 timestamp; `<unknown>` if there is none.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    match time.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(time) => human(now.duration_since(time).as_secs()),
        None => "<unknown>".into(),
    }
}

/// The time since an object's creation.
pub(super) fn of(object: &Value, now: Timestamp) -> String {
    since(&object["metadata"]["creationTimestamp"], now)
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn durations_get_coarser_as_they_grow() {
        let (m, h, d) = (60, 3600, 86_400);
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (123, "2m3s"),
            (10 * m - 1, "9m59s"),
            (10 * m, "10m"),
            (3 * h - 1, "179m"),
            (3 * h, "3h"),
            (3 * h + 61, "3h1m"),
            (8 * h, "8h"),
            (48 * h - 1, "47h"),
            (48 * h, "2d"),
            (52 * h, "2d4h"),
            (8 * d, "8d"),
            (729 * d, "729d"),
            (730 * d, "2y"),
            (742 * d, "2y12d"),
            (8 * 365 * d + 5 * d, "8y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }
}
