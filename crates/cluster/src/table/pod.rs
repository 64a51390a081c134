//! Pods: one status out of many.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, Printer, age, list, name, number, text};

pub(super) const POD: Printer = Printer {
    columns: &[
        NAME,
        ("Ready", "string", 0, "Containers that are ready, of all."),
        ("Status", "string", 0, "What its containers say together."),
        ("Restarts", "string", 0, "How often its containers started again, and when last."),
        AGE,
        ("IP", "string", 1, "Address of the pod."),
        ("Node", "string", 1, "Node that it is bound to."),
        ("Nominated Node", "string", 1, "Node where room is made for it."),
        ("Readiness Gates", "string", 1, "Its own conditions for readiness that hold, of all."),
    ],
    cells,
};

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarize(pod);
    let restarts = match &summary.last_restart {
        Some(last) if summary.restarts > 0 => {
            let ago = age::human(now.duration_since(*last).as_secs());
            format!("{} ({ago} ago)", summary.restarts)
        }
        _ => summary.restarts.to_string(),
    };
    let (spec, status) = (&pod["spec"], &pod["status"]);
    vec![
        name(pod),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.status.into(),
        restarts.into(),
        age::of(pod, now).into(),
        text(&status["podIPs"][0]["ip"], text(&status["podIP"], "<none>")).into(),
        text(&spec["nodeName"], "<none>").into(),
        text(&status["nominatedNodeName"], "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

struct Summary {
    ready: usize,
    containers: usize,
    status: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

/// Restarts of some containers, and the latest.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += number(&container["restartCount"]);
        let ended = container["lastState"]["terminated"]["finishedAt"].as_str();
        self.last = self.last.max(ended.and_then(|time| time.parse().ok()));
    }
}

fn summarize(pod: &Value) -> Summary {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let phase = text(&status["phase"], "");
    let conditions = list(&status["conditions"]);
    let mut reason = text(&status["reason"], phase).to_owned();
    if conditions.iter().any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated") {
        reason = "SchedulingGated".into();
    }
    let sidecars: Vec<&Value> =
        list(&spec["initContainers"]).iter().filter(|c| c["restartPolicy"] == "Always").collect();
    let is_sidecar = |status: &Value| sidecars.iter().any(|c| c["name"] == status["name"]);
    let mut ready = 0;
    let (mut init_restarts, mut restarts) = (Restarts::default(), Restarts::default());
    let mut initializing = false;
    for (i, container) in list(&status["initContainerStatuses"]).iter().enumerate() {
        init_restarts.add(container);
        if is_sidecar(container) {
            restarts.add(container);
        }
        let terminated = &container["state"]["terminated"];
        if terminated.is_object() && number(&terminated["exitCode"]) == 0 {
            continue;
        }
        if is_sidecar(container) && container["started"] == true {
            ready += usize::from(container["ready"] == true);
            continue;
        }
        let waiting = text(&container["state"]["waiting"]["reason"], "PodInitializing");
        reason = if terminated.is_object() {
            format!("Init:{}", ended(terminated))
        } else if waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{i}/{}", list(&spec["initContainers"]).len())
        };
        initializing = true;
        break;
    }
    let holds = |kind: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == "True");
    if initializing && !holds("Initialized") {
        restarts = init_restarts;
    } else {
        let (mut running, mut failure) = (false, None);
        for container in list(&status["containerStatuses"]).iter().rev() {
            restarts.add(container);
            let state = &container["state"];
            let waiting = text(&state["waiting"]["reason"], "");
            if !waiting.is_empty() {
                reason = waiting.into();
            } else if state["terminated"].is_object() {
                reason = ended(&state["terminated"]);
                if number(&state["terminated"]["exitCode"]) != 0 {
                    failure = Some(reason.clone());
                }
            } else if container["ready"] == true && state["running"].is_object() {
                running = true;
                ready += 1;
            }
        }
        // Some containers have ended well: what counts is what became of the others.
        if reason == "Completed" {
            if running && holds("Ready") {
                reason = "Running".into();
            } else if let Some(failure) = failure {
                reason = failure;
            } else if running {
                reason = "NotReady".into();
            }
        }
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        if status["reason"] == "NodeLost" {
            reason = "Unknown".into();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            reason = "Terminating".into();
        }
    }
    Summary {
        ready,
        containers: list(&spec["containers"]).len() + sidecars.len(),
        status: reason,
        restarts: restarts.count,
        last_restart: restarts.last,
    }
}

/// How a container ended.
fn ended(terminated: &Value) -> String {
    let reason = text(&terminated["reason"], "");
    let signal = number(&terminated["signal"]);
    if !reason.is_empty() {
        reason.into()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", number(&terminated["exitCode"]))
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".into();
    }
    let conditions = list(&pod["status"]["conditions"]);
    let holds = |gate: &&Value| {
        let condition = conditions.iter().find(|c| c["type"] == gate["conditionType"]);
        condition.is_some_and(|condition| condition["status"] == "True")
    };
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len())
}
