//! Claims that never get anywhere are given up.

use std::time::Duration;

use jiff::Timestamp;

use super::deletion::Cause;
use super::{Work, launch};

/// How long a machine may take to join as a Node.
const REGISTRATION: Duration = Duration::from_secs(15 * 60);

/// What is left of a claim's time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It has got there.
    Done,
    /// It has this long.
    Time(Duration),
    /// It has had its time.
    GiveUp(Cause),
}

/// How long the claim may still take to launch or register.
pub(super) fn time_left(work: &Work, now: Timestamp) -> Left {
    let (limit, cause) = if !work.conditions.is_true("Launched") {
        (launch::TIMEOUT, Cause::LaunchTimeout)
    } else if !work.conditions.is_true("Registered") {
        (REGISTRATION, Cause::RegistrationTimeout)
    } else {
        return Left::Done;
    };
    let since = work.claim.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let spent = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    match limit.checked_sub(spent) {
        Some(left) if !left.is_zero() => Left::Time(left),
        _ => Left::GiveUp(cause),
    }
}
