//! One container: its state, its restarts, the back-off between them.

use jiff::{SignedDuration, Timestamp};

use super::images::Image;

/// First wait between restarts. Source: kubelet's `initialCrashLoopBackOff`.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(10);
/// Longest wait between restarts. Source: kubelet's `MaxContainerBackOff`.
const MAX_BACK_OFF: SignedDuration = SignedDuration::from_secs(300);

/// What a container is to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It ends before the next one starts.
    Init,
    /// An init container that keeps running (restart policy `Always`).
    Sidecar,
    /// One of `spec.containers`.
    Main,
}

/// How a run of a container ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ended {
    /// Empty if the container never ran.
    pub(super) id: String,
    pub(super) exit_code: i32,
    pub(super) reason: &'static str,
    pub(super) message: Option<&'static str>,
    pub(super) started: Option<Timestamp>,
    pub(super) finished: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// It has not been started yet.
    New,
    /// Its image cannot be had.
    Blocked {
        reason: &'static str,
        message: String,
    },
    /// It is to be started again at `until`.
    BackOff {
        until: Timestamp,
        message: String,
    },
    Running {
        id: String,
        since: Timestamp,
    },
    Ended(Ended),
}

#[derive(Debug)]
pub(super) struct Container {
    pub(super) role: Role,
    pub(super) state: State,
    /// How the run before ended.
    pub(super) last: Option<Ended>,
    pub(super) restarts: i32,
    /// Its startup probe has succeeded, or it has none.
    pub(super) started: bool,
    pub(super) ready: bool,
    /// Known once it was looked for.
    pub(super) image: Option<Image>,
    back_off: BackOff,
}

impl Container {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            state: State::New,
            last: None,
            restarts: 0,
            started: false,
            ready: false,
            image: None,
            back_off: BackOff::default(),
        }
    }

    pub(super) fn running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Its exit code, if it has ended and is not about to be restarted.
    pub(super) fn exit_code(&self) -> Option<i32> {
        match &self.state {
            State::Ended(ended) => Some(ended.exit_code),
            _ => None,
        }
    }

    pub(super) fn run(&mut self, id: String, now: Timestamp) {
        let state = std::mem::replace(&mut self.state, State::Running { id, since: now });
        if let State::Ended(ended) = state {
            self.last = Some(ended);
        }
        if self.last.is_some() {
            self.restarts += 1;
        }
    }

    pub(super) fn end(&mut self, exit_code: i32, now: Timestamp) {
        let State::Running { id, since } = &self.state else { return };
        self.state = State::Ended(Ended {
            id: id.clone(),
            exit_code,
            reason: if exit_code == 0 { "Completed" } else { "Error" },
            message: None,
            started: Some(*since),
            finished: Some(now),
        });
        self.started = false;
        self.ready = self.role == Role::Init && exit_code == 0;
    }

    /// It will not be started any more: as it ended last, or as if it had failed.
    pub(super) fn give_up(&mut self) {
        let unknown = || Ended {
            id: String::new(),
            exit_code: 137,
            reason: "ContainerStatusUnknown",
            message: Some("The container could not be located when the pod was terminated"),
            started: None,
            finished: None,
        };
        match &self.state {
            State::Running { .. } | State::Ended(_) => {}
            State::New | State::Blocked { .. } | State::BackOff { .. } => {
                self.state = State::Ended(self.last.take().unwrap_or_else(unknown));
            }
        }
    }

    /// Whether a container that ended at `finished` must wait before it starts again: until when,
    /// and the wait. If not, counts the restart that follows.
    pub(super) fn must_wait(
        &mut self,
        finished: Timestamp,
        now: Timestamp,
    ) -> Option<(Timestamp, SignedDuration)> {
        self.back_off.check(finished, now)
    }
}

/// Source: client-go `util/flowcontrol/backoff.go`, as kubelet's `doBackOff` uses it.
#[derive(Debug, Default)]
struct BackOff {
    /// The wait that is due, and when it was set.
    entry: Option<(SignedDuration, Timestamp)>,
}

impl BackOff {
    fn check(
        &mut self,
        finished: Timestamp,
        now: Timestamp,
    ) -> Option<(Timestamp, SignedDuration)> {
        // A run that lasted twice the longest wait clears the account.
        let entry = self.entry.filter(|(_, set)| finished.duration_since(*set) <= MAX_BACK_OFF * 2);
        if let Some((wait, _)) = entry
            && now < finished + wait
        {
            return Some((finished + wait, wait));
        }
        let wait = entry.map_or(BACK_OFF, |(wait, _)| (wait * 2).min(MAX_BACK_OFF));
        self.entry = Some((wait, now));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes_and_are_forgotten_after_a_long_run() {
        let mut back_off = BackOff::default();
        let mut now = Timestamp::UNIX_EPOCH;
        assert_eq!(back_off.check(now, now), None, "the first restart comes at once");
        let mut waits = Vec::new();
        for _ in 0..7 {
            let (until, wait) = back_off.check(now, now).unwrap();
            waits.push(wait.as_secs());
            assert_eq!(back_off.check(now, until), None);
            now = until;
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
        let finished = now + SignedDuration::from_secs(601);
        assert_eq!(back_off.check(finished, finished), None);
    }
}
