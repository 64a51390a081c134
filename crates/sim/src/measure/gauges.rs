//! What is the case over time: values that hold until they change, added up.

use jiff::{SignedDuration, Timestamp};

/// A value over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gauge {
    /// Machines that are paid for.
    Nodes,
    /// USD per hour of them, without the fee.
    Rate,
    /// USD per hour that the pods on them cost at least.
    Floor,
    /// Milli-cores that pods may use.
    CpuRoom,
    /// Milli-cores that they ask for.
    CpuAsked,
    /// Bytes that pods may use.
    MemoryRoom,
    /// Bytes that they ask for.
    MemoryAsked,
    /// Pods that do not run yet.
    Pending,
}

const COUNT: usize = 8;
/// So many points are kept of each gauge.
const POINTS: i64 = 240;

/// All gauges: as they are, and their sums over time.
#[derive(Debug)]
pub(crate) struct Gauges {
    start: Timestamp,
    at: Timestamp,
    step: SignedDuration,
    now: [f64; COUNT],
    /// Value × seconds, by step.
    sums: Vec<[f64; COUNT]>,
    most: [f64; COUNT],
}

impl Gauges {
    pub(crate) fn new(start: Timestamp, end: Timestamp) -> Self {
        let seconds = end.duration_since(start).as_secs().max(1);
        let step = SignedDuration::from_secs((seconds + POINTS - 1) / POINTS);
        Self { start, at: start, step, now: [0.0; COUNT], sums: Vec::new(), most: [0.0; COUNT] }
    }

    /// Counts what holds until `to`.
    pub(crate) fn advance(&mut self, to: Timestamp) {
        while self.at < to {
            let index = self.sums.len().max(1) - 1;
            let from_start = self.step * i32::try_from(index + 1).unwrap_or(i32::MAX);
            let end = self.start.checked_add(from_start).unwrap_or(Timestamp::MAX);
            if self.sums.is_empty() {
                self.sums.push([0.0; COUNT]);
            } else if end <= self.at {
                self.sums.push([0.0; COUNT]);
                continue;
            }
            let until = end.min(to);
            let seconds = until.duration_since(self.at).as_secs_f64();
            let sums = &mut self.sums[index];
            for (sum, value) in sums.iter_mut().zip(&self.now) {
                *sum += value * seconds;
            }
            self.at = until;
        }
    }

    pub(crate) fn set(&mut self, gauge: Gauge, value: f64) {
        self.now[gauge as usize] = value;
        self.most[gauge as usize] = self.most[gauge as usize].max(value);
    }

    /// The highest that it ever was.
    pub(crate) fn most(&self, gauge: Gauge) -> f64 {
        self.most[gauge as usize]
    }

    /// Value × seconds over all time.
    pub(crate) fn total(&self, gauge: Gauge) -> f64 {
        self.sums.iter().map(|sums| sums[gauge as usize]).sum()
    }

    /// How long a step is.
    pub(crate) fn step(&self) -> SignedDuration {
        self.step
    }

    /// The step that a time falls in.
    pub(crate) fn index(&self, at: Timestamp) -> usize {
        let since = at.duration_since(self.start).as_millis();
        usize::try_from(since / self.step.as_millis().max(1)).unwrap_or(0)
    }

    /// How long the account is.
    pub(crate) fn seconds(&self) -> f64 {
        self.at.duration_since(self.start).as_secs_f64()
    }

    /// Value × seconds of each step, in order.
    pub(crate) fn steps(&self, gauge: Gauge) -> impl Iterator<Item = f64> + '_ {
        self.sums.iter().map(move |sums| sums[gauge as usize])
    }

    /// How many seconds of each step have passed.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = f64> + '_ {
        let (step, total) = (self.step.as_secs_f64(), self.seconds());
        let mut from = 0.0;
        self.sums.iter().map(move |_| {
            let length = (total - from).min(step);
            from += step;
            length
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_added_up_over_the_steps_that_they_hold_in() {
        let start: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        let at = |seconds| start.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        let mut gauges = Gauges::new(start, at(2400));
        assert_eq!(gauges.step(), SignedDuration::from_secs(10));
        gauges.advance(at(5));
        gauges.set(Gauge::Nodes, 2.0);
        gauges.advance(at(25));
        gauges.set(Gauge::Nodes, 1.0);
        gauges.advance(at(26));
        let steps: Vec<f64> = gauges.steps(Gauge::Nodes).collect();
        assert_eq!(steps, [10.0, 20.0, 11.0]);
        assert_eq!(gauges.lengths().collect::<Vec<f64>>(), [10.0, 10.0, 6.0]);
        assert_eq!((gauges.total(Gauge::Nodes), gauges.most(Gauge::Nodes)), (41.0, 2.0));
        assert_eq!(gauges.total(Gauge::Rate), 0.0);
    }
}
