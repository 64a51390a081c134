//! How long the simulated cloud takes.

use std::time::Duration as Span;

use aerostat_api::Duration;
use serde::{Deserialize, Serialize};

/// How long things take, as Go durations (`2s`, `1m30s`). What is not given keeps its default.
///
/// With the defaults a pod on an empty cluster is scheduled 26 s after it was created: 2 s until
/// the launch is answered, 22 s until the Node is there, 2 s until its kubelet is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Timings {
    /// From an order to the provider's answer; `2s`.
    pub launch: Duration,
    /// From the answer to the Node; `22s`.
    pub boot: Duration,
    /// From the order to end a machine until it is gone; `5s`.
    pub terminate: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        let seconds = |seconds| Duration(Span::from_secs(seconds));
        Self { launch: seconds(2), boot: seconds(22), terminate: seconds(5) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_keeps_its_default() {
        let timings: Timings = serde_json::from_str(r#"{"boot": "1m30s"}"#).unwrap();
        assert_eq!(timings.boot.0, Span::from_secs(90));
        assert_eq!(timings.launch, Timings::default().launch);
        let text = serde_json::to_string(&Timings::default()).unwrap();
        assert_eq!(text, r#"{"launch":"2s","boot":"22s","terminate":"5s"}"#);
    }

    #[test]
    fn unknown_fields_and_bad_durations_are_named() {
        let error = |text| serde_json::from_str::<Timings>(text).unwrap_err().to_string();
        let typo = error(r#"{"bot": "1s"}"#);
        assert!(typo.contains("unknown field `bot`, expected one of `launch`"), "{typo}");
        let bad = error(r#"{"boot": "soon"}"#);
        assert!(bad.contains("\"soon\" is not a duration: write it like 30s"), "{bad}");
    }
}
