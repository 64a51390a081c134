//! How fast simulated machines are, and how large images.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use aerostat_api::Duration;
use serde::{Deserialize, Deserializer, Serialize};

/// Timings and sizes of the simulated kubelets. Read from JSON or YAML; what is left out has its
/// default, unknown fields are refused.
///
/// The defaults reproduce a Bottlerocket node of EKS Auto Mode that runs `perl:5.34.0`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// From a node's registration until it is Ready. Default `2s`.
    pub node_ready_delay: Duration,
    /// From Ready until pods can get an address. Sandboxes fail before. Default `10s`.
    pub network_ready_delay: Duration,
    /// How long it takes to make a pod's sandbox. Default `200ms`.
    pub sandbox_delay: Duration,
    /// From a failed sandbox to the next try (a kubelet waits 10 s to 15 s). Default `13s`.
    pub sandbox_retry_delay: Duration,
    /// Bytes of image pulled in a second; a node pulls one image at a time. Default 24199569.
    pub pull_bytes_per_second: NonZeroU64,
    /// How far pulls may differ from that rate, as a fraction: `0.03` is ±3 %. Default 0.
    #[serde(deserialize_with = "fraction")]
    pub pull_jitter: f64,
    /// How long a pull takes that finds the image on the node (policy `Always`). Default `500ms`.
    pub image_check_delay: Duration,
    /// Sizes of images in bytes, by name (`perl:5.34.0`, or `perl` for all its tags); they take
    /// precedence over the sizes that are built in.
    pub images: BTreeMap<String, u64>,
    /// From created to started container. Default `100ms`.
    pub start_delay: Duration,
    /// How long an init container runs of which nothing else is known. Default `1s`.
    pub init_duration: Duration,
    /// How long a Job's container runs of which nothing else is known. Default `10s`.
    pub job_duration: Duration,
    /// How long a container takes to end when it is told to. Default `500ms`.
    pub stop_duration: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let millis = |millis| Duration(std::time::Duration::from_millis(millis));
        Self {
            node_ready_delay: millis(2_000),
            network_ready_delay: millis(10_000),
            sandbox_delay: millis(200),
            sandbox_retry_delay: millis(13_000),
            // perl:5.34.0, 336374010 bytes, in 13.9 s.
            pull_bytes_per_second: NonZeroU64::new(24_199_569).expect("a constant above zero"),
            pull_jitter: 0.0,
            image_check_delay: millis(500),
            images: BTreeMap::new(),
            start_delay: millis(100),
            init_duration: millis(1_000),
            job_duration: millis(10_000),
            stop_duration: millis(500),
        }
    }
}

impl Settings {
    /// Everything that has no time of its own happens at once, as with KWOK.
    #[must_use]
    pub fn instant() -> Self {
        let zero = Duration(std::time::Duration::ZERO);
        Self {
            node_ready_delay: zero,
            network_ready_delay: zero,
            sandbox_delay: zero,
            sandbox_retry_delay: Duration(std::time::Duration::from_secs(1)),
            pull_bytes_per_second: NonZeroU64::MAX,
            pull_jitter: 0.0,
            image_check_delay: zero,
            images: BTreeMap::new(),
            start_delay: zero,
            init_duration: zero,
            job_duration: zero,
            stop_duration: zero,
        }
    }
}

fn fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(deserializer)?;
    if (0.0..1.0).contains(&value) {
        return Ok(value);
    }
    let message = format!("{value} is not a fraction: it must be at least 0 and below 1");
    Err(serde::de::Error::custom(message))
}

#[cfg(test)]
mod tests {
    use super::Settings;

    #[test]
    fn fields_left_out_keep_their_defaults() {
        let settings: Settings =
            serde_saphyr::from_str("jobDuration: 1m30s\nimages: {perl: 5}\n").unwrap();
        assert_eq!(settings.job_duration.0.as_secs(), 90);
        assert_eq!(settings.images["perl"], 5);
        let defaults = Settings::default();
        assert_eq!(
            settings,
            Settings {
                job_duration: settings.job_duration,
                images: settings.images.clone(),
                ..defaults
            }
        );
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| serde_json::from_str::<Settings>(text).unwrap_err().to_string();
        assert!(error(r#"{"jobduration": "1s"}"#).contains("unknown field `jobduration`"));
        assert!(error(r#"{"jobDuration": "1x"}"#).contains("\"1x\" is not a duration"));
        assert!(error(r#"{"pullJitter": 1.5}"#).contains("1.5 is not a fraction"));
        assert!(error(r#"{"pullBytesPerSecond": 0}"#).contains("nonzero"));
    }
}
