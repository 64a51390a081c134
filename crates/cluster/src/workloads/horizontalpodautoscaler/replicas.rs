//! How many replicas a metric asks for.
//!
//! Source: Kubernetes `pkg/controller/podautoscaler/replica_calculator.go`.

/// What a metric should be, over all pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// So many percent of what they ask for.
    Utilization(i64),
    /// So much for each, in thousandths.
    AverageValue(i64),
}

/// A pod, in thousandths of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// What it asks for.
    pub(super) requests: i64,
    /// What it uses; `None` while it does not serve yet.
    pub(super) usage: Option<i64>,
}

/// What a metric asks for, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i64,
    /// In percent of what pods ask for.
    pub(super) utilization: Option<i64>,
    /// Of each pod that serves, in thousandths.
    pub(super) average: i64,
}

/// How far a metric may be off, as a part of its goal: when it is too small, and when too large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Tolerance {
    fn allows(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// What the metric of `samples` asks for; none of them is on its way out.
///
/// # Errors
///
/// If nothing is known of any pod.
pub(super) fn proposal(
    current: i64,
    samples: &[Sample],
    goal: Goal,
    tolerance: Tolerance,
) -> Result<Proposal, String> {
    let serving: Vec<Sample> =
        samples.iter().copied().filter(|sample| sample.usage.is_some()).collect();
    if serving.is_empty() {
        let why = "did not receive metrics for targeted pods (pods might be unready)";
        return Err(why.to_owned());
    }
    let (ratio, utilization) = ratio(&serving, goal)?;
    let used: i64 = serving.iter().filter_map(|sample| sample.usage).sum();
    let average = used / count(serving.len());
    let told = |replicas| Proposal { replicas, utilization, average };
    let waiting = samples.len() - serving.len();
    if waiting == 0 || ratio <= 1.0 {
        if tolerance.allows(ratio) {
            return Ok(told(current));
        }
        return Ok(told(ceil(ratio, serving.len())));
    }
    // Pods that do not serve yet will: until then they use nothing.
    let all: Vec<Sample> = samples
        .iter()
        .map(|sample| Sample { usage: Some(sample.usage.unwrap_or(0)), ..*sample })
        .collect();
    let (damped, _) = self::ratio(&all, goal)?;
    if tolerance.allows(damped) || damped < 1.0 {
        return Ok(told(current));
    }
    Ok(told(ceil(damped, all.len()).max(current)))
}

/// What is used by what should be, and in percent of what is asked for.
fn ratio(samples: &[Sample], goal: Goal) -> Result<(f64, Option<i64>), String> {
    let used: i64 = samples.iter().filter_map(|sample| sample.usage).sum();
    let asked: i64 = samples.iter().map(|sample| sample.requests).sum();
    let utilization = (asked > 0).then(|| used.saturating_mul(100) / asked);
    match goal {
        Goal::Utilization(percent) => {
            let now = utilization.ok_or("no requests for the resource in any of the pods")?;
            Ok((float(now) / float(percent), Some(now)))
        }
        Goal::AverageValue(each) => {
            Ok((float(used) / (float(each) * float(count(samples.len()))), None))
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "far from the bounds, and clamped by them")]
fn ceil(ratio: f64, pods: usize) -> i64 {
    (ratio * float(count(pods))).ceil() as i64
}

fn count(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "thousandths of what pods use fit 53 bits")]
fn float(number: i64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Tolerance = Tolerance { down: 0.1, up: 0.1 };

    fn pods(requests: i64, usages: &[Option<i64>]) -> Vec<Sample> {
        usages.iter().map(|usage| Sample { requests, usage: *usage }).collect()
    }

    fn wanted(usages: &[Option<i64>], goal: Goal) -> i64 {
        let samples = pods(1000, usages);
        let current = i64::try_from(usages.len()).unwrap();
        proposal(current, &samples, goal, TENTH).unwrap().replicas
    }

    #[test]
    fn replicas_follow_the_ratio_of_use_to_goal() {
        let half = Goal::Utilization(50);
        assert_eq!(wanted(&[Some(300), Some(500), Some(700)], half), 3);
        assert_eq!(wanted(&[Some(540), Some(540), Some(540)], half), 3, "within a tenth");
        assert_eq!(wanted(&[Some(800), Some(800), Some(800)], half), 5);
        assert_eq!(wanted(&[Some(100), Some(100), Some(100)], half), 1);
        let each = Goal::AverageValue(200);
        assert_eq!(wanted(&[Some(300), Some(500), Some(700)], each), 8);
        assert_eq!(wanted(&[Some(0), Some(0)], each), 0, "the least is for others to say");
    }

    #[test]
    fn pods_that_do_not_serve_yet_slow_it_up_and_not_down() {
        let half = Goal::Utilization(50);
        assert_eq!(wanted(&[Some(1000), None], half), 2, "the second one will do");
        assert_eq!(wanted(&[Some(1600), None], half), 4);
        assert_eq!(wanted(&[Some(1600), Some(1600), None, None], half), 7);
        assert_eq!(wanted(&[Some(100), Some(100), None], half), 1);
        let none = proposal(2, &pods(1000, &[None, None]), half, TENTH);
        assert!(none.unwrap_err().contains("pods might be unready"));
        let nothing_asked = proposal(1, &pods(0, &[Some(10)]), half, TENTH);
        assert!(nothing_asked.unwrap_err().contains("no requests"));
    }
}
