//! How fast and how far an autoscaler may go: `spec.behavior`, and the bounds.
//!
//! Source: Kubernetes `pkg/controller/podautoscaler/horizontal.go`; the defaults are those that
//! `autoscaling/v2` documents for a behavior that is not given.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerSpec,
};

/// What an autoscaler has wanted and done lately. Lost in a restart, as upstream.
#[derive(Debug, Default)]
pub(super) struct Past {
    wanted: Vec<(Timestamp, i64)>,
    /// By how much it has scaled, up and down.
    steps: Vec<(Timestamp, i64)>,
}

/// Why a number is not the one that metrics ask for: reason and message of `ScalingLimited`, and of
/// `AbleToScale` where it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// `ScalingLimited`: its status, reason and message.
    pub(super) limited: (bool, &'static str, &'static str),
    /// Reason and message of `AbleToScale`.
    pub(super) able: (&'static str, &'static str),
}

const WITHIN: (bool, &str, &str) =
    (false, "DesiredWithinRange", "the desired count is within the acceptable range");
/// Longest window that `autoscaling/v2` allows.
const LONGEST: SignedDuration = SignedDuration::from_secs(3600);

/// Rules of one direction, complete.
struct Rules {
    window: SignedDuration,
    select: String,
    policies: Vec<HPAScalingPolicy>,
}

fn policy(type_: &str, value: i32) -> HPAScalingPolicy {
    HPAScalingPolicy { type_: type_.to_owned(), value, period_seconds: 15 }
}

fn rules(given: Option<&HPAScalingRules>, window: i64, defaults: Vec<HPAScalingPolicy>) -> Rules {
    let seconds = given.and_then(|rules| rules.stabilization_window_seconds).map(i64::from);
    let policies = given.and_then(|rules| rules.policies.clone()).filter(|list| !list.is_empty());
    Rules {
        window: SignedDuration::from_secs(seconds.unwrap_or(window)),
        select: given.and_then(|rules| rules.select_policy.clone()).unwrap_or("Max".to_owned()),
        policies: policies.unwrap_or(defaults),
    }
}

fn up(spec: &HorizontalPodAutoscalerSpec) -> Rules {
    let given = spec.behavior.as_ref().and_then(|behavior| behavior.scale_up.as_ref());
    rules(given, 0, vec![policy("Pods", 4), policy("Percent", 100)])
}

fn down(spec: &HorizontalPodAutoscalerSpec) -> Rules {
    let given = spec.behavior.as_ref().and_then(|behavior| behavior.scale_down.as_ref());
    rules(given, 300, vec![policy("Percent", 100)])
}

impl Past {
    /// The number to scale to now, from `current`, if metrics ask for `wanted`; and what held it.
    pub(super) fn allowed(
        &mut self,
        spec: &HorizontalPodAutoscalerSpec,
        current: i64,
        wanted: i64,
        now: Timestamp,
    ) -> (i64, Limits) {
        let (up, down) = (up(spec), down(spec));
        let (least, most) =
            (i64::from(spec.min_replicas.unwrap_or(1)), i64::from(spec.max_replicas));
        self.wanted.retain(|(at, _)| now.duration_since(*at) < LONGEST);
        self.steps.retain(|(at, _)| now.duration_since(*at) < LONGEST);
        if self.wanted.is_empty() {
            self.wanted.push((now, current));
        }
        let stable = self.stabilized(&up, &down, current, wanted, now);
        self.wanted.push((now, wanted));
        let able = match stable {
            _ if stable == wanted => ("ReadyForNewScale", "recommended size matches current size"),
            _ if stable > wanted => (
                "ScaleDownStabilized",
                "recent recommendations were higher than current one, applying the highest recent \
                 recommendation",
            ),
            _ => (
                "ScaleUpStabilized",
                "recent recommendations were lower than current one, applying the lowest recent \
                 recommendation",
            ),
        };
        let (allowed, limited) = match stable {
            _ if stable > current => {
                let limit = self.highest(&up, current, now).max(current);
                if stable <= limit.min(most) {
                    (stable, WITHIN)
                } else if most > limit {
                    (
                        limit,
                        (
                            true,
                            "ScaleUpLimit",
                            "the desired replica count is increasing faster than the maximum scale rate",
                        ),
                    )
                } else {
                    (
                        most,
                        (
                            true,
                            "TooManyReplicas",
                            "the desired replica count is more than the maximum replica count",
                        ),
                    )
                }
            }
            _ if stable < current => {
                let limit = self.lowest(&down, current, now).min(current);
                if stable >= limit.max(least) {
                    (stable, WITHIN)
                } else if least < limit {
                    (
                        limit,
                        (
                            true,
                            "ScaleDownLimit",
                            "the desired replica count is decreasing faster than the maximum scale rate",
                        ),
                    )
                } else {
                    (
                        least,
                        (
                            true,
                            "TooFewReplicas",
                            "the desired replica count is less than the minimum replica count",
                        ),
                    )
                }
            }
            _ => (stable, WITHIN),
        };
        (allowed, Limits { limited, able })
    }

    /// It was scaled.
    pub(super) fn scaled(&mut self, from: i64, to: i64, now: Timestamp) {
        self.steps.push((now, to - from));
    }

    /// Not below what was wanted within the window of scaling down, nor above what was wanted within
    /// that of scaling up.
    fn stabilized(
        &self,
        up: &Rules,
        down: &Rules,
        current: i64,
        wanted: i64,
        now: Timestamp,
    ) -> i64 {
        let within = |window: SignedDuration| {
            let lately = move |(at, _): &&(Timestamp, i64)| now.duration_since(*at) < window;
            self.wanted.iter().filter(lately).map(|(_, wanted)| *wanted)
        };
        let least = within(up.window).fold(wanted, i64::min);
        let most = within(down.window).fold(wanted, i64::max);
        // The first is never above the second.
        current.clamp(least, most)
    }

    /// How many came, and how many went, within so many seconds.
    fn moved(&self, seconds: i32, now: Timestamp) -> (i64, i64) {
        let period = SignedDuration::from_secs(seconds.into());
        let lately = self.steps.iter().filter(|(at, _)| now.duration_since(*at) < period);
        lately.fold((0, 0), |(came, went), (_, by)| (came + by.max(&0), went - by.min(&0)))
    }

    fn highest(&self, rules: &Rules, current: i64, now: Timestamp) -> i64 {
        let limits = rules.policies.iter().map(|policy| {
            let (came, went) = self.moved(policy.period_seconds, now);
            let start = current - came + went;
            let value = i64::from(policy.value);
            if policy.type_ == "Pods" {
                start + value
            } else {
                // Rounded up.
                (start * (100 + value) + 99).div_euclid(100)
            }
        });
        match rules.select.as_str() {
            "Disabled" => current,
            "Min" => limits.min().unwrap_or(current),
            _ => limits.max().unwrap_or(current),
        }
    }

    fn lowest(&self, rules: &Rules, current: i64, now: Timestamp) -> i64 {
        let limits = rules.policies.iter().map(|policy| {
            let (came, went) = self.moved(policy.period_seconds, now);
            let start = current - came + went;
            let value = i64::from(policy.value);
            if policy.type_ == "Pods" { start - value } else { start * (100 - value) / 100 }
        });
        match rules.select.as_str() {
            "Disabled" => current,
            "Min" => limits.max().unwrap_or(current),
            _ => limits.min().unwrap_or(current),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(behavior: Value) -> HorizontalPodAutoscalerSpec {
        let target = json!({"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"});
        let spec = json!({"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 20,
            "behavior": behavior});
        serde_json::from_value(spec).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// Carries on from three replicas, a look each 15 s: the numbers of replicas.
    fn replicas(spec: &HorizontalPodAutoscalerSpec, wanted: &[i64]) -> Vec<i64> {
        let (mut past, mut current) = (Past::default(), 3);
        let looks = (0..).step_by(15).map(at).zip(wanted);
        looks
            .map(|(now, wanted)| {
                let (next, _) = past.allowed(spec, current, *wanted, now);
                if next != current {
                    past.scaled(current, next, now);
                }
                current = next;
                current
            })
            .collect()
    }

    #[test]
    fn by_default_it_doubles_at_most_and_goes_down_after_five_minutes() {
        let spec = spec(Value::Null);
        assert_eq!(replicas(&spec, &[30, 30, 30, 30]), [7, 14, 20, 20]);
        let mut wanted = vec![6];
        wanted.extend([1; 21]);
        let got = replicas(&spec, &wanted);
        assert!(got[..20].iter().all(|replicas| *replicas == 6), "{got:?}");
        assert_eq!(got[20..], [2, 2], "five minutes later, and not below the least");
    }

    #[test]
    fn policies_bound_a_period_and_the_window_of_scaling_up_holds_it() {
        let slow = spec(json!({
            "scaleUp": {"selectPolicy": "Min", "policies": [
                {"type": "Pods", "value": 2, "periodSeconds": 60},
                {"type": "Percent", "value": 100, "periodSeconds": 60}]},
            "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [
                {"type": "Pods", "value": 1, "periodSeconds": 30}]},
        }));
        assert_eq!(replicas(&slow, &[9, 9, 9, 9, 9, 2, 2, 2]), [5, 5, 5, 5, 7, 4, 4, 3]);
        let off = spec(json!({"scaleUp": {"selectPolicy": "Disabled"}}));
        assert_eq!(replicas(&off, &[9, 9]), [3, 3]);
        let patient = spec(json!({"scaleUp": {"stabilizationWindowSeconds": 30}}));
        assert_eq!(replicas(&patient, &[9, 9, 9, 9]), [3, 3, 7, 9], "the lowest of the last 30 s");
    }

    #[test]
    fn what_holds_it_is_said() {
        let spec = spec(Value::Null);
        let mut past = Past::default();
        let (_, limits) = past.allowed(&spec, 3, 30, at(0));
        assert_eq!(limits.limited.1, "ScaleUpLimit");
        let (_, limits) = past.allowed(&spec, 19, 30, at(15));
        assert_eq!(limits.limited.1, "TooManyReplicas");
        let (_, limits) = past.allowed(&spec, 19, 3, at(30));
        assert_eq!(
            (limits.limited.1, limits.able.0),
            ("DesiredWithinRange", "ScaleDownStabilized")
        );
        let (next, limits) = past.allowed(&spec, 3, 1, at(3_000));
        assert_eq!((next, limits.limited.1), (2, "TooFewReplicas"));
    }
}
