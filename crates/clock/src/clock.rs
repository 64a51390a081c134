//! Wall time derived from tokio's clock, so that pausing tokio pauses the world.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Wall time: an epoch plus the time that tokio's clock has run since, times a speed.
///
/// Under a paused tokio runtime this is virtual time. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Timestamp,
    started: Instant,
    speed: f64,
}

impl Clock {
    /// The machine's time, running at its own pace.
    #[must_use]
    pub fn real() -> Self {
        Self::scaled(1.0)
    }

    /// The machine's time now, running `speed` times as fast from here on.
    ///
    /// # Panics
    ///
    /// If `speed` is not a positive, finite number.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place where the machine's clock enters")]
    pub fn scaled(speed: f64) -> Self {
        Self::starting_at(Timestamp::now(), speed)
    }

    /// A clock that shows `epoch` now; virtual time when tokio's clock is paused.
    #[must_use]
    pub fn simulated(epoch: Timestamp) -> Self {
        Self::starting_at(epoch, 1.0)
    }

    fn starting_at(epoch: Timestamp, speed: f64) -> Self {
        assert!(speed.is_finite() && speed > 0.0, "speed must be a positive number, not {speed}");
        Self { epoch, started: Instant::now(), speed }
    }

    /// Wall time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let run = self.started.elapsed();
        let scaled = if self.speed == 1.0 { run } else { run.mul_f64(self.speed) };
        let run = SignedDuration::try_from(scaled).unwrap_or(SignedDuration::MAX);
        self.epoch.checked_add(run).unwrap_or(Timestamp::MAX)
    }

    /// How many seconds of wall time pass in one second of the machine's.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Waits until `duration` of wall time has passed.
    #[expect(clippy::disallowed_methods, reason = "the one place that turns speed into time")]
    pub async fn sleep(&self, duration: Duration) {
        let real = if self.speed == 1.0 { duration } else { duration.div_f64(self.speed) };
        tokio::time::sleep(real).await;
    }

    /// Waits until the clock shows `when`; returns at once if it already does.
    pub async fn sleep_until(&self, when: Timestamp) {
        loop {
            let left = when.duration_since(self.now());
            let Ok(left) = Duration::try_from(left) else { return };
            if left.is_zero() {
                return;
            }
            // tokio's timers have millisecond grain: never wake a hair too early.
            self.sleep(left.max(Duration::from_millis(1))).await;
        }
    }
}
