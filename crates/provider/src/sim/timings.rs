//! How long the simulated cloud takes, and how long it leaves machines.

use std::time::Duration as Span;

use aerostat_api::Duration;
use serde::{Deserialize, Serialize};

use super::lengths::Length;

/// How long things take: Go durations (`2s`, `1m30s`), or distributions
/// (`{lognormal: {median: 22s, p95: 60s}}`). What is not given keeps its default.
///
/// With the defaults a pod on an empty cluster is scheduled 26 s after it was created: 2 s until
/// the launch is answered, 22 s until the Node is there, 2 s until its kubelet is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Timings {
    /// From an order to the provider's answer; `2s`.
    pub launch: Length,
    /// From the answer to the Node; `22s`.
    pub boot: Length,
    /// From the order to end a machine until it is gone; `5s`.
    pub terminate: Length,
    /// How often a spot machine is taken back, at two minutes' notice: times an hour, in the mean;
    /// 0.
    pub spot_interruptions_per_hour: f64,
}

impl Timings {
    /// Everything happens at once.
    #[must_use]
    pub fn none() -> Self {
        let zero = || Length::Fixed(Duration(Span::ZERO));
        Self { launch: zero(), boot: zero(), terminate: zero(), spot_interruptions_per_hour: 0.0 }
    }
}

impl Default for Timings {
    fn default() -> Self {
        let seconds = |seconds| Length::Fixed(Duration(Span::from_secs(seconds)));
        Self {
            launch: seconds(2),
            boot: seconds(22),
            terminate: seconds(5),
            spot_interruptions_per_hour: 0.0,
        }
    }
}

impl Timings {
    /// Whether they can be.
    ///
    /// # Errors
    ///
    /// Names the field that is wrong, and why.
    pub fn check(&self) -> Result<(), String> {
        for (name, length) in
            [("launch", &self.launch), ("boot", &self.boot), ("terminate", &self.terminate)]
        {
            length.check().map_err(|why| format!("{name}: {why}"))?;
        }
        let rate = self.spot_interruptions_per_hour;
        if !(0.0..=3600.0).contains(&rate) {
            return Err(format!("spotInterruptionsPerHour: {rate} must be from 0 to 3600"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_keeps_its_default() {
        let timings: Timings = serde_json::from_str(r#"{"boot": "1m30s"}"#).unwrap();
        assert_eq!(timings.boot, Length::Fixed(Duration(Span::from_secs(90))));
        assert_eq!(timings.launch, Timings::default().launch);
        let text = serde_json::to_string(&Timings::default()).unwrap();
        let wanted =
            r#"{"launch":"2s","boot":"22s","terminate":"5s","spotInterruptionsPerHour":0.0}"#;
        assert_eq!(text, wanted);
    }

    #[test]
    fn unknown_fields_and_bad_durations_are_named() {
        let error = |text| serde_json::from_str::<Timings>(text).unwrap_err().to_string();
        let typo = error(r#"{"bot": "1s"}"#);
        assert!(typo.contains("unknown field `bot`, expected one of `launch`"), "{typo}");
        let bad = error(r#"{"boot": "soon"}"#);
        assert!(bad.contains("\"soon\" is not a duration: write it like 30s"), "{bad}");
        let wrong = |text| serde_json::from_str::<Timings>(text).unwrap().check().unwrap_err();
        let bounds = wrong(r#"{"boot": {"uniform": {"min": "2s", "max": "1s"}}}"#);
        assert_eq!(bounds, "boot: uniform: min 2s is above max 1s");
        let rate = wrong(r#"{"spotInterruptionsPerHour": -1}"#);
        assert!(rate.contains("-1 must be from 0 to 3600"), "{rate}");
    }
}
