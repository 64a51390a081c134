//! How a pod's containers are stopped.

use aerostat_api::Duration;
use jiff::{SignedDuration, Timestamp};

use super::{Context, Pod, Stage, Step};
use crate::kubelet::container::{Container, Role};
use crate::kubelet::texts::{self, Note};
use crate::kubelet::{kwok, workload};

/// Exit code of a process that SIGTERM ended.
const TERMINATED: i32 = 143;
/// Exit code of a process that SIGKILL ended.
const KILLED: i32 = 137;

impl Pod {
    /// The API has the pod deleted (or more urgently so): stops what runs.
    pub(in crate::kubelet) fn delete(&mut self, cx: &mut Context<'_>) {
        match self.stage {
            Stage::Sandbox | Stage::Up | Stage::Stopping => self.stop(cx),
            Stage::Ended => {}
        }
    }

    /// Says what a kubelet says when the API lost a pod that runs: its containers are stopped.
    pub(in crate::kubelet) fn vanish(&self, notes: &mut Vec<Note>) {
        if self.stage == Stage::Up {
            notes.extend(self.killing());
        }
    }

    fn killing(&self) -> impl Iterator<Item = Note> {
        let running = (0..self.containers.len()).filter(|index| self.containers[*index].running());
        running.filter_map(|index| Some(texts::killing(&self.spec_of(index)?.name).of(index)))
    }

    /// How long the pod stays, where KWOK says it.
    fn kwok_delay(&self, cx: &mut Context<'_>) -> Option<SignedDuration> {
        if !cx.node.kwok {
            return None;
        }
        let delay = kwok::delay(&self.object).unwrap_or_else(|why| {
            cx.notes.push(texts::bad_annotation(&why));
            Duration(std::time::Duration::ZERO)
        });
        Some(SignedDuration::try_from(delay.0).unwrap_or(SignedDuration::MAX))
    }

    /// Stops every container: main containers first, sidecars after them in reverse order, all
    /// within the grace period. Called again, the shorter period counts.
    pub(super) fn stop(&mut self, cx: &mut Context<'_>) {
        let grace = self.object.metadata.deletion_grace_period_seconds;
        let grace = grace.or_else(|| self.spec()?.termination_grace_period_seconds).unwrap_or(30);
        let grace = SignedDuration::from_secs(grace.max(0));
        let delay = self.kwok_delay(cx);
        let kill_at = cx.now.saturating_add(delay.unwrap_or(grace)).unwrap_or(Timestamp::MAX);
        if self.kill_at.is_some_and(|earlier| earlier <= kill_at) {
            return;
        }
        if self.kill_at.is_none() {
            cx.notes.extend(self.killing());
        }
        self.kill_at = Some(kill_at);
        self.stage = Stage::Stopping;
        self.dirty = true;
        let mut mains_end = cx.now;
        for index in (0..self.containers.len()).rev() {
            let container = &self.containers[index];
            if !container.running() {
                continue;
            }
            let (role, run) = (container.role, container.restarts);
            let begin = if role == Role::Sidecar { mains_end } else { cx.now };
            let Some(spec) = self.spec_of(index) else { continue };
            if delay.is_some() {
                cx.timers.push((kill_at, Step::Stopped(index, run, KILLED)));
                continue;
            }
            let takes = workload::stop(&self.object, spec, role != Role::Main, cx.settings)
                .unwrap_or_else(|why| {
                    cx.notes.push(texts::bad_annotation(&why).of(index));
                    Some(cx.settings.stop_duration)
                });
            let takes = takes.and_then(|takes| SignedDuration::try_from(takes.0).ok());
            let end = takes.and_then(|takes| begin.checked_add(takes).ok());
            let (end, code) = match end {
                Some(end) if end <= kill_at => (end, TERMINATED),
                _ => (kill_at, KILLED),
            };
            mains_end = mains_end.max(end);
            cx.timers.push((end, Step::Stopped(index, run, code)));
        }
        if self.failure.is_some() || self.deleting() {
            // Of a pod that never got past its init containers, the main ones stay as they are.
            let init = self.containers.iter().any(|container| container.role == Role::Init);
            let role = if init && !self.initialized() { Role::Init } else { Role::Main };
            let tried = |container: &Container| container.last.is_some() || role == Role::Main;
            for container in &mut self.containers {
                if container.role == role && tried(container) {
                    container.give_up();
                }
            }
        }
        self.sync(cx);
    }
}
