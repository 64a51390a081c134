//! A pod's status as its kubelet reports it.
//!
//! Source: kubernetes `pkg/kubelet/status/generate.go`, `getPhase` in `pkg/kubelet/kubelet_pods.go`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, PodCondition, PodIP, PodStatus, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::{Container, Ended, Role, State};
use super::pod::{Pod, Stage};

/// Conditions that belong to the kubelet, in its order.
const OWN: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Brings `status` up to what the pod is now; what is not the kubelet's is left alone.
pub(super) fn apply(pod: &Pod, host_ip: &str, now: Timestamp, status: &mut PodStatus) {
    let phase = phase(pod);
    status.phase = Some(phase.to_owned());
    status.observed_generation = pod.object.metadata.generation;
    if let Some((reason, message)) = &pod.failure {
        status.reason = Some(reason.clone());
        status.message = Some(message.clone());
    }
    status.start_time = Some(Time(pod.start_time));
    status.host_ip = Some(host_ip.to_owned());
    status.host_ips = Some(vec![HostIP { ip: host_ip.to_owned() }]);
    if let Some(ip) = pod.ip.map(|ip| ip.to_string()) {
        status.pod_ips = Some(vec![PodIP { ip: ip.clone() }]);
        status.pod_ip = Some(ip);
    }
    let (init, main): (Vec<usize>, Vec<usize>) =
        (0..pod.containers.len()).partition(|index| pod.containers[*index].role != Role::Main);
    let waiting = if init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
    let statuses = |indices: &[usize]| -> Vec<ContainerStatus> {
        indices.iter().map(|index| container_status(pod, *index, waiting)).collect()
    };
    status.container_statuses = (!main.is_empty()).then(|| statuses(&main));
    status.init_container_statuses = (!init.is_empty()).then(|| statuses(&init));
    let conditions = conditions(pod, phase, status, now);
    status.conditions = Some(conditions);
}

pub(super) fn phase(pod: &Pod) -> &'static str {
    let over = pod.stage == Stage::Ended;
    let failed_init = pod.containers.iter().enumerate().any(|(index, container)| {
        container.role == Role::Init
            && container.exit_code().is_some_and(|code| code != 0)
            && !pod.restarts(index)
    });
    if pod.failure.is_some() || failed_init {
        return "Failed";
    }
    let initialized = pod.initialized();
    let pending_init = pod.containers.iter().any(|container| match container.role {
        Role::Init => container.exit_code() != Some(0),
        Role::Sidecar => !initialized && !container.started,
        Role::Main => false,
    });
    let mains = || pod.containers.iter().filter(|container| container.role == Role::Main);
    let waiting = mains().any(|container| {
        matches!(container.state, State::New | State::Blocked { .. }) && container.last.is_none()
    });
    let running =
        pod.containers.iter().any(|container| container.role != Role::Init && container.running());
    let exit_codes = || mains().filter_map(Container::exit_code);
    match () {
        () if over && exit_codes().count() < mains().count() => "Failed",
        () if pending_init || waiting => "Pending",
        () if running => "Running",
        () if over && exit_codes().all(|code| code == 0) => "Succeeded",
        () if over => "Failed",
        // Everything is about to be restarted.
        () => "Running",
    }
}

fn container_status(pod: &Pod, index: usize, waiting: &str) -> ContainerStatus {
    let container = &pod.containers[index];
    let spec = pod.spec_of(index);
    let image = spec.and_then(|spec| spec.image.clone()).unwrap_or_default();
    let mut status = ContainerStatus {
        name: spec.map(|spec| spec.name.clone()).unwrap_or_default(),
        image,
        restart_count: container.restarts,
        started: Some(container.started),
        ready: container.ready,
        last_state: container.last.as_ref().map(|ended| ContainerState {
            terminated: Some(terminated(ended)),
            ..ContainerState::default()
        }),
        volume_mounts: spec.and_then(volume_mounts),
        ..ContainerStatus::default()
    };
    let wait = |reason: &str, message: Option<&String>| ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message: message.cloned(),
        }),
        ..ContainerState::default()
    };
    let mut id = container.last.as_ref().map(|ended| ended.id.as_str());
    status.state = Some(match &container.state {
        State::New => wait(waiting, None),
        State::Blocked { reason, message } => wait(reason, Some(message)),
        State::BackOff { message, .. } => wait("CrashLoopBackOff", Some(message)),
        State::Running { id: own, since } => {
            id = Some(own);
            let running = ContainerStateRunning { started_at: Some(Time(*since)) };
            ContainerState { running: Some(running), ..ContainerState::default() }
        }
        State::Ended(ended) => {
            id = Some(&ended.id);
            ContainerState { terminated: Some(terminated(ended)), ..ContainerState::default() }
        }
    });
    if let Some(id) = id.filter(|id| !id.is_empty()) {
        status.container_id = Some(container_id(id));
        if let Some(image) = &container.image {
            status.image = image.name.clone();
            status.image_id = image.id.clone();
        }
        let resources = spec.and_then(|spec| spec.resources.clone()).unwrap_or_default();
        status.allocated_resources = resources.requests.clone();
        status.resources = Some(resources);
    }
    status
}

fn container_id(id: &str) -> String {
    format!("containerd://{id}")
}

fn terminated(ended: &Ended) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: ended.exit_code,
        reason: Some(ended.reason.to_owned()),
        message: ended.message.map(str::to_owned),
        started_at: ended.started.map(Time),
        finished_at: ended.finished.map(Time),
        container_id: (!ended.id.is_empty()).then(|| container_id(&ended.id)),
        ..ContainerStateTerminated::default()
    }
}

fn volume_mounts(spec: &k8s_openapi::api::core::v1::Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = spec.volume_mounts.as_ref()?.iter().map(|mount| {
        let read_only = mount.read_only == Some(true);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: mount.read_only,
            recursive_read_only: read_only.then(|| "Disabled".to_owned()),
            volume_status: None,
        }
    });
    Some(mounts.collect())
}

/// What a condition says: status, reason, message.
type Verdict = (bool, &'static str, String);

fn conditions(pod: &Pod, phase: &str, status: &PodStatus, now: Timestamp) -> Vec<PodCondition> {
    let old = status.conditions.as_deref().unwrap_or_default();
    let sandbox = matches!(pod.stage, Stage::Up | Stage::Stopping) && pod.ip.is_some();
    let containers_ready = containers_ready(pod, phase);
    let verdicts: [Verdict; 5] = [
        (sandbox, "", String::new()),
        initialized(pod, phase),
        ready(pod, &containers_ready, old),
        containers_ready,
        (true, "", String::new()),
    ];
    let foreign = old.iter().filter(|condition| !OWN.contains(&condition.type_.as_str())).cloned();
    let own = OWN.iter().zip(verdicts).map(|(name, (status, reason, message))| {
        let status = if status { "True" } else { "False" };
        let before = old.iter().find(|condition| condition.type_ == *name);
        let since = before.filter(|before| before.status == status);
        let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        PodCondition {
            type_: (*name).to_owned(),
            status: status.to_owned(),
            reason: filled(reason),
            message: filled(&message),
            last_probe_time: None,
            last_transition_time: since
                .map_or(Some(Time(now)), |before| before.last_transition_time.clone()),
            observed_generation: pod.object.metadata.generation,
        }
    });
    foreign.chain(own).collect()
}

fn names(pod: &Pod, which: impl Fn(&Container) -> bool) -> Option<String> {
    let names: Vec<&str> = pod
        .containers
        .iter()
        .enumerate()
        .filter(|(_, container)| which(container))
        .filter_map(|(index, _)| pod.spec_of(index).map(|spec| spec.name.as_str()))
        .collect();
    (!names.is_empty()).then(|| format!("[{}]", names.join(" ")))
}

fn initialized(pod: &Pod, phase: &str) -> Verdict {
    if phase == "Succeeded" {
        return (true, "PodCompleted", String::new());
    }
    let incomplete = names(pod, |container| match container.role {
        Role::Init => container.exit_code() != Some(0),
        Role::Sidecar => !container.started,
        Role::Main => false,
    });
    match incomplete {
        Some(names) if !pod.initialized() => {
            let message = format!("containers with incomplete status: {names}");
            (false, "ContainersNotInitialized", message)
        }
        _ => (true, "", String::new()),
    }
}

fn containers_ready(pod: &Pod, phase: &str) -> Verdict {
    match phase {
        "Succeeded" => return (false, "PodCompleted", String::new()),
        "Failed" => return (false, "PodFailed", String::new()),
        _ => {}
    }
    match names(pod, |container| container.role != Role::Init && !container.ready) {
        Some(names) => {
            let message = format!("containers with unready status: {names}");
            (false, "ContainersNotReady", message)
        }
        None => (true, "", String::new()),
    }
}

fn ready(pod: &Pod, containers_ready: &Verdict, conditions: &[PodCondition]) -> Verdict {
    if !containers_ready.0 {
        return containers_ready.clone();
    }
    let gates = pod.spec().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    let closed: Vec<String> = gates
        .iter()
        .filter_map(|gate| {
            let name = &gate.condition_type;
            match conditions.iter().find(|condition| condition.type_ == *name) {
                None => Some(format!(
                    "corresponding condition of pod readiness gate {name:?} does not exist."
                )),
                Some(condition) if condition.status != "True" => Some(format!(
                    "the status of pod readiness gate {name:?} is not \"True\", but {}",
                    condition.status
                )),
                Some(_) => None,
            }
        })
        .collect();
    if closed.is_empty() {
        return (true, "", String::new());
    }
    (false, "ReadinessGatesNotReady", closed.join(", "))
}
