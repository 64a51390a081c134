//! One pod as its kubelet runs it: a state machine without I/O.
//!
//! ```text
//! Sandbox ──> Up: start the next container (pull → create → start) until none is left to start
//!   │          │    ▲ exits, probes, the end of a back-off make it look again
//!   └──────────┴────┴──> Stopping (deleted, or past its deadline) ──> Ended
//! ```

mod start;
mod stop;

use std::sync::Arc;

use aerostat_api::Duration;
use aerostat_clock::{Seeds, Stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;

use super::addresses::Addresses;
use super::container::{Container, Role, State};
use super::images::{Pull, hex_256};
use super::node::Node;
use super::settings::Settings;
use super::texts::{self, Note};
use start::Next;

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
}
