//! One pod as its kubelet runs it: a state machine without I/O.
//!
//! ```text
//! Sandbox ──> Up: start the next container (pull → create → start) until none is left to start
//!   │          │    ▲ exits, probes, the end of a back-off make it look again
//!   └──────────┴────┴──> Stopping (deleted, or past its deadline) ──> Ended
//! ```

use std::sync::Arc;

use aerostat_api::Duration;
use aerostat_clock::{Seeds, Stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;

use super::addresses::Addresses;
use super::container::{Container, Role, State};
use super::images::{self, Image, Pull, hex_256};
use super::node::Node;
use super::settings::Settings;
use super::texts::{self, Note};
use super::workload;

/// What a pod has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has no sandbox yet.
    Sandbox,
    /// It has one; its containers are started, restarted, awaited.
    Up,
    /// Its containers are being stopped.
    Stopping,
    /// Nothing of it runs any more.
    Ended,
}

/// What a pod's timer is for. Containers are named by index and restart count, so that a timer
/// of an earlier run does nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Try to make the sandbox.
    Sandbox,
    /// The sandbox is made.
    SandboxUp,
    /// The image of the container that is being started is here.
    Pulled(usize, Pull),
    /// The container that is being started has been created and started.
    Started(usize),
    /// The startup probe succeeds.
    StartupProbe(usize, i32),
    /// The readiness probe succeeds.
    ReadinessProbe(usize, i32),
    /// The container ends of its own accord.
    Exit(usize, i32, i32),
    /// The container ends because it was told to.
    Stopped(usize, i32, i32),
    /// A back-off is over.
    Retry,
    /// `activeDeadlineSeconds` are over.
    Deadline,
}

/// What the state machine is given to work with.
pub(super) struct Context<'a> {
    pub(super) now: Timestamp,
    pub(super) settings: &'a Settings,
    pub(super) seeds: &'a Seeds,
    pub(super) node: &'a mut Node,
    pub(super) addresses: &'a mut Addresses,
    pub(super) ids: &'a mut Stream,
    pub(super) pulls: &'a mut Stream,
    /// Timers to set.
    pub(super) timers: &'a mut Vec<(Timestamp, Step)>,
    /// Events to record.
    pub(super) notes: &'a mut Vec<Note>,
}

impl Context<'_> {
    fn after(&mut self, delay: Duration, step: Step) {
        let delay = SignedDuration::try_from(delay.0).unwrap_or(SignedDuration::MAX);
        // A time beyond the calendar never comes.
        if let Ok(at) = self.now.checked_add(delay) {
            self.timers.push((at, step));
        }
    }
}

#[derive(Debug)]
pub(super) struct Pod {
    pub(super) object: Arc<core::Pod>,
    pub(super) node: String,
    pub(super) stage: Stage,
    pub(super) start_time: Timestamp,
    /// Init containers and sidecars first, each in the order of the spec.
    pub(super) containers: Vec<Container>,
    pub(super) ip: Option<std::net::Ipv4Addr>,
    /// Why the kubelet itself failed the pod: reason and message.
    pub(super) failure: Option<(String, String)>,
    /// What it takes of its node, once admitted.
    pub(super) claim: Option<aerostat_engine::pod::Pod>,
    /// The container that is being started. One at a time, as in a kubelet's sync.
    starting: Option<usize>,
    /// When its containers are killed at the latest, once it is stopping.
    kill_at: Option<Timestamp>,
    /// Whether its status has changed since it was last posted.
    pub(super) dirty: bool,
    /// Whether it was handed back to the API to be removed.
    pub(super) released: bool,
}

impl Pod {
    pub(super) fn new(object: Arc<core::Pod>, node: &str, now: Timestamp) -> Self {
        let spec = object.spec.clone().unwrap_or_default();
        let init = spec.init_containers.iter().flatten().map(|container| {
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            Container::new(if sidecar { Role::Sidecar } else { Role::Init })
        });
        let main = spec.containers.iter().map(|_| Container::new(Role::Main));
        Self {
            containers: init.chain(main).collect(),
            object,
            node: node.to_owned(),
            stage: Stage::Sandbox,
            start_time: now,
            ip: None,
            failure: None,
            claim: None,
            starting: None,
            kill_at: None,
            dirty: true,
            released: false,
        }
    }

    /// Takes the pod up: its sandbox is made at once, its deadline begins.
    pub(super) fn begin(&mut self, cx: &mut Context<'_>) {
        if let Some(seconds) = self.spec().and_then(|spec| spec.active_deadline_seconds) {
            let seconds = u64::try_from(seconds).unwrap_or(0);
            cx.after(Duration(std::time::Duration::from_secs(seconds)), Step::Deadline);
        }
        self.make_sandbox(cx);
    }

    /// Fails the pod before anything of it runs.
    pub(super) fn reject(&mut self, reason: &str, message: &str, cx: &mut Context<'_>) {
        cx.notes.push(Note::warning(reason, message));
        self.failure = Some((reason.to_owned(), format!("Pod was rejected: {message}")));
        self.containers.clear();
        self.stage = Stage::Ended;
        self.dirty = true;
    }

    /// Whether its status is to be posted: not amid starting a container, when a kubelet's worker
    /// is busy with the pod.
    pub(super) fn wants_post(&self) -> bool {
        self.dirty && (self.starting.is_none() || self.stage != Stage::Up)
    }

    pub(super) fn deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn spec(&self) -> Option<&core::PodSpec> {
        self.object.spec.as_ref()
    }

    /// The spec of a container.
    pub(super) fn spec_of(&self, index: usize) -> Option<&core::Container> {
        let spec = self.spec()?;
        let init = spec.init_containers.as_deref().unwrap_or_default();
        init.get(index).or_else(|| spec.containers.get(index.checked_sub(init.len())?))
    }

    /// Where its spec has the container, as events say it.
    pub(super) fn field_path(&self, index: usize) -> Option<String> {
        let main = self.containers.get(index)?.role == Role::Main;
        let list = if main { "containers" } else { "initContainers" };
        Some(format!("spec.{list}{{{}}}", self.spec_of(index)?.name))
    }

    fn host_network(&self) -> bool {
        self.spec().and_then(|spec| spec.host_network) == Some(true)
    }

    pub(super) fn step(&mut self, step: Step, cx: &mut Context<'_>) {
        match step {
            Step::Sandbox => self.make_sandbox(cx),
            Step::SandboxUp => self.sandbox_up(cx),
            Step::Pulled(index, pull) => self.pulled(index, pull, cx),
            Step::Started(index) => self.started(index, cx),
            Step::StartupProbe(index, run) if self.is_run(index, run) => {
                self.container_started(index, cx);
                self.sync(cx);
            }
            Step::ReadinessProbe(index, run) if self.is_run(index, run) => {
                self.containers[index].ready = true;
                self.dirty = true;
            }
            Step::Exit(index, run, code) | Step::Stopped(index, run, code)
                if self.is_run(index, run) =>
            {
                self.containers[index].end(code, cx.now);
                self.dirty = true;
                self.sync(cx);
            }
            Step::Retry => self.sync(cx),
            Step::Deadline if matches!(self.stage, Stage::Sandbox | Stage::Up) => {
                let message = "Pod was active on the node longer than the specified deadline";
                self.failure = Some(("DeadlineExceeded".into(), message.into()));
                cx.notes.push(Note::normal("DeadlineExceeded", message));
                self.stop(cx);
            }
            // A timer that outlived what it was for.
            Step::StartupProbe(..)
            | Step::ReadinessProbe(..)
            | Step::Exit(..)
            | Step::Stopped(..)
            | Step::Deadline => {}
        }
    }

    fn is_run(&self, index: usize, run: i32) -> bool {
        let container = &self.containers[index];
        container.running() && container.restarts == run
    }

    fn make_sandbox(&mut self, cx: &mut Context<'_>) {
        if self.stage != Stage::Sandbox {
            return;
        }
        if self.host_network() || cx.node.network_ready(cx.now) {
            cx.after(cx.settings.sandbox_delay, Step::SandboxUp);
        } else {
            cx.notes.push(texts::sandbox_failed(&hex_256(cx.ids)));
            cx.after(cx.settings.sandbox_retry_delay, Step::Sandbox);
        }
    }

    fn sandbox_up(&mut self, cx: &mut Context<'_>) {
        if self.stage != Stage::Sandbox {
            return;
        }
        self.stage = Stage::Up;
        let address = if self.host_network() { cx.node.ip } else { cx.addresses.take(&self.node) };
        self.ip = Some(address);
        self.dirty = true;
        self.sync(cx);
    }

    /// Looks what is to be done next, and begins it.
    fn sync(&mut self, cx: &mut Context<'_>) {
        match self.stage {
            Stage::Up if self.starting.is_none() => match self.next(cx) {
                Next::Start(index) => self.start(index, cx),
                Next::Wait => {}
                Next::Over => self.stop(cx),
            },
            Stage::Stopping if !self.containers.iter().any(Container::running) => {
                self.stage = Stage::Ended;
                self.starting = None;
                self.dirty = true;
            }
            Stage::Sandbox | Stage::Up | Stage::Stopping | Stage::Ended => {}
        }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Next {
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

    /// Whether a main container has ever been started.
    pub(super) fn initialized(&self) -> bool {
        self.containers.iter().any(|container| {
            let never = matches!(container.state, State::New | State::Blocked { .. });
            container.role == Role::Main && (!never || container.last.is_some())
        })
    }

    /// Whether a container is started again if it has ended as it has.
    pub(super) fn restarts(&self, index: usize) -> bool {
        let container = &self.containers[index];
        let Some(exit_code) = container.exit_code() else { return true };
        let policy = self.spec().and_then(|spec| spec.restart_policy.as_deref());
        match (container.role, policy.unwrap_or("Always")) {
            (Role::Sidecar, _) | (Role::Main, "Always") => true,
            (_, "Never") => false,
            _ => exit_code != 0,
        }
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

    fn start(&mut self, index: usize, cx: &mut Context<'_>) {
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

    fn pulled(&mut self, index: usize, pull: Pull, cx: &mut Context<'_>) {
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

    fn started(&mut self, index: usize, cx: &mut Context<'_>) {
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
        let plan = workload::run(&self.object, spec, init, cx.settings).unwrap_or_else(|why| {
            cx.notes.push(texts::bad_annotation(&why).of(index));
            workload::known(&self.object, spec, init, cx.settings)
        });
        if let Some(duration) = plan.duration {
            cx.after(duration, Step::Exit(index, run, plan.exit_code));
        }
        match &spec.startup_probe {
            Some(probe) => cx.after(delay(probe), Step::StartupProbe(index, run)),
            None => self.container_started(index, cx),
        }
        self.sync(cx);
    }

    /// The container counts as started; what remains is its readiness.
    fn container_started(&mut self, index: usize, cx: &mut Context<'_>) {
        let run = self.containers[index].restarts;
        let init = self.containers[index].role != Role::Main;
        self.containers[index].started = true;
        self.dirty = true;
        let Some(spec) = self.spec_of(index) else { return };
        let Some(probe) = &spec.readiness_probe else {
            self.containers[index].ready = self.containers[index].role != Role::Init;
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

    /// The API has the pod deleted (or more urgently so): stops what runs.
    pub(super) fn delete(&mut self, cx: &mut Context<'_>) {
        match self.stage {
            Stage::Sandbox | Stage::Up | Stage::Stopping => self.stop(cx),
            Stage::Ended => {}
        }
    }

    /// Says what a kubelet says when the API lost a pod that runs: its containers are stopped.
    pub(super) fn vanish(&self, notes: &mut Vec<Note>) {
        if self.stage == Stage::Up {
            notes.extend(self.killing());
        }
    }

    fn killing(&self) -> impl Iterator<Item = Note> {
        let running = (0..self.containers.len()).filter(|index| self.containers[*index].running());
        running.filter_map(|index| Some(texts::killing(&self.spec_of(index)?.name).of(index)))
    }

    /// Stops every container: main containers first, sidecars after them in reverse order, all
    /// within the grace period. Called again, the shorter period counts.
    fn stop(&mut self, cx: &mut Context<'_>) {
        let grace = self.object.metadata.deletion_grace_period_seconds;
        let grace = grace.or_else(|| self.spec()?.termination_grace_period_seconds).unwrap_or(30);
        let kill_at = cx.now.saturating_add(SignedDuration::from_secs(grace.max(0)));
        let kill_at = kill_at.unwrap_or(Timestamp::MAX);
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

/// Exit code of a process that SIGTERM ended.
const TERMINATED: i32 = 143;
/// Exit code of a process that SIGKILL ended.
const KILLED: i32 = 137;

enum Next {
    Start(usize),
    /// For an exit, a probe or the end of a back-off.
    Wait,
    /// Nothing is left to run.
    Over,
}

fn seconds(seconds: i32) -> std::time::Duration {
    std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn delay(probe: &core::Probe) -> Duration {
    Duration(seconds(probe.initial_delay_seconds.unwrap_or(0)))
}
