//! Which container is started next, and how: pull, create, start, probes.

use aerostat_api::Duration;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1 as core;

use super::{Context, Pod, Stage, Step};
use crate::kubelet::container::{Role, State};
use crate::kubelet::images::{self, Image, Pull, hex_256};
use crate::kubelet::texts::{self, Note};
use crate::kubelet::{kwok, workload};

/// What a pod can do now.
pub(super) enum Next {
    Start(usize),
    /// For an exit, a probe or the end of a back-off.
    Wait,
    /// Nothing is left to run.
    Over,
}

impl Pod {
    /// Looks for the first container, in order, that can be started.
    pub(super) fn next(&mut self, cx: &mut Context<'_>) -> Next {
        for index in 0..self.containers.len() {
            let container = &self.containers[index];
            let ready_for_next = match (container.role, &container.state) {
                (Role::Main, _) => break,
                (Role::Init, State::Ended(ended)) => ended.exit_code == 0,
                (Role::Sidecar, State::Running { .. }) => container.started,
                _ => false,
            };
            if ready_for_next {
                continue;
            }
            if !self.restarts(index) {
                return Next::Over;
            }
            if self.may_start(index, cx) {
                return Next::Start(index);
            }
            // Once the main containers run, a sidecar that backs off holds nobody up.
            if !self.initialized() {
                return Next::Wait;
            }
        }
        let mut over = true;
        for index in 0..self.containers.len() {
            if self.containers[index].role != Role::Main {
                continue;
            }
            if self.may_start(index, cx) {
                return Next::Start(index);
            }
            over &= self.containers[index].exit_code().is_some() && !self.restarts(index);
        }
        if over { Next::Over } else { Next::Wait }
    }

    /// Whether the container can be started now; a container that has to back off begins to.
    fn may_start(&mut self, index: usize, cx: &mut Context<'_>) -> bool {
        match &self.containers[index].state {
            State::New => true,
            State::Running { .. } | State::Blocked { .. } => false,
            State::BackOff { until, .. } if *until > cx.now => false,
            State::BackOff { .. } => {
                // Its time is over: counts the restart.
                let finished = self.containers[index].last.as_ref().and_then(|last| last.finished);
                self.containers[index].must_wait(finished.unwrap_or(cx.now), cx.now).is_none()
            }
            State::Ended(ended) if self.restarts(index) => {
                let ended = ended.clone();
                let finished = ended.finished.unwrap_or(cx.now);
                let Some((until, wait)) = self.containers[index].must_wait(finished, cx.now) else {
                    return true;
                };
                let name = self.spec_of(index).map_or("", |spec| spec.name.as_str());
                let (note, message) = texts::crash_loop(&self.object, name, wait);
                cx.notes.push(note.of(index));
                cx.timers.push((until, Step::Retry));
                let container = &mut self.containers[index];
                container.last = Some(ended);
                container.state = State::BackOff { until, message };
                self.dirty = true;
                false
            }
            State::Ended(_) => false,
        }
    }

    pub(super) fn start(&mut self, index: usize, cx: &mut Context<'_>) {
        let Some(spec) = self.spec_of(index) else { return };
        let name = spec.image.clone().unwrap_or_default();
        let policy = spec.image_pull_policy.as_deref().unwrap_or("IfNotPresent").to_owned();
        let mut image = Image::of(&name, cx.settings, cx.seeds);
        match workload::image_size(&self.object, spec) {
            Ok(None) => {}
            Ok(Some(size)) => image.size = size,
            Err(why) => cx.notes.push(texts::bad_annotation(&why).of(index)),
        }
        self.starting = Some(index);
        let present = cx.node.images.has(&image.name, cx.now);
        match policy.as_str() {
            "Never" if !present => {
                self.starting = None;
                let message = texts::never_pulled(&name);
                cx.notes.push(Note::warning("ErrImageNeverPull", &message).of(index));
                cx.notes.push(Note::warning("Failed", "Error: ErrImageNeverPull").of(index));
                let reason = "ErrImageNeverPull";
                self.containers[index].state = State::Blocked { reason, message };
                self.dirty = true;
                self.sync(cx);
            }
            "Always" => self.pull(index, &name, &image, cx),
            _ if present => {
                cx.notes.push(texts::image_present(&name).of(index));
                self.create(index, cx);
            }
            _ => self.pull(index, &name, &image, cx),
        }
        self.containers[index].image = Some(image);
    }

    fn pull(&mut self, index: usize, name: &str, image: &Image, cx: &mut Context<'_>) {
        cx.notes.push(texts::pulling(name).of(index));
        let transfer = images::transfer(image.size, cx.settings, cx.pulls);
        let check = SignedDuration::try_from(cx.settings.image_check_delay.0);
        let check = check.unwrap_or(SignedDuration::ZERO);
        let pull = cx.node.images.pull(image, transfer, check, cx.now);
        cx.timers.push((pull.finish, Step::Pulled(index, pull)));
    }

    pub(super) fn pulled(&mut self, index: usize, pull: Pull, cx: &mut Context<'_>) {
        if self.stage != Stage::Up {
            return;
        }
        let name = self.spec_of(index).and_then(|spec| spec.image.as_deref()).unwrap_or_default();
        let size = self.containers[index].image.as_ref().map_or(0, |image| image.size);
        cx.notes.push(texts::pulled(name, pull, size).of(index));
        self.create(index, cx);
    }

    fn create(&mut self, index: usize, cx: &mut Context<'_>) {
        let name = self.spec_of(index).map_or("", |spec| spec.name.as_str());
        cx.notes.push(texts::created(name).of(index));
        cx.after(cx.settings.start_delay, Step::Started(index));
    }

    pub(super) fn started(&mut self, index: usize, cx: &mut Context<'_>) {
        if self.stage != Stage::Up {
            return;
        }
        let id = hex_256(cx.ids);
        self.containers[index].run(id, cx.now);
        self.starting = None;
        self.dirty = true;
        let run = self.containers[index].restarts;
        let init = self.containers[index].role != Role::Main;
        let Some(spec) = self.spec_of(index) else { return };
        cx.notes.push(texts::started(&spec.name).of(index));
        let known = if cx.node.kwok { kwok::known } else { workload::known };
        let known = known(&self.object, spec, init, cx.settings);
        let plan = workload::run(&self.object, spec, init, known).unwrap_or_else(|why| {
            cx.notes.push(texts::bad_annotation(&why).of(index));
            known
        });
        if let Some(duration) = plan.duration {
            cx.after(duration, Step::Exit(index, run, plan.exit_code));
        }
        match &spec.startup_probe {
            Some(probe) if !cx.node.kwok => cx.after(delay(probe), Step::StartupProbe(index, run)),
            _ => self.container_started(index, cx),
        }
        self.sync(cx);
    }

    /// The container counts as started; what remains is its readiness.
    pub(super) fn container_started(&mut self, index: usize, cx: &mut Context<'_>) {
        let run = self.containers[index].restarts;
        let init = self.containers[index].role != Role::Main;
        self.containers[index].started = true;
        self.dirty = true;
        let Some(spec) = self.spec_of(index) else { return };
        let probe = spec.readiness_probe.as_ref().filter(|_| !cx.node.kwok);
        let Some(probe) = probe else {
            let never = cx.node.kwok && kwok::is_unhealthy(&self.object);
            self.containers[index].ready = self.containers[index].role != Role::Init && !never;
            return;
        };
        let own = workload::ready_delay(&self.object, spec, init).unwrap_or_else(|why| {
            cx.notes.push(texts::bad_annotation(&why).of(index));
            Duration(std::time::Duration::ZERO)
        });
        let successes = probe.success_threshold.unwrap_or(1).max(1) - 1;
        let more = seconds(probe.period_seconds.unwrap_or(10)) * successes.unsigned_abs();
        cx.after(Duration(delay(probe).0.max(own.0) + more), Step::ReadinessProbe(index, run));
    }
}

fn seconds(seconds: i32) -> std::time::Duration {
    std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn delay(probe: &core::Probe) -> Duration {
    Duration(seconds(probe.initial_delay_seconds.unwrap_or(0)))
}
