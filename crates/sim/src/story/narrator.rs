//! From changes to lines.

use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::labels;
use aerostat_cluster::Change;
use aerostat_controllers::Decision;
use aerostat_engine::plan::Command;
use aerostat_engine::report::LaunchReport;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::json;

use super::line::{Kind, Line};
use super::words;

/// From how many equal events on they are told as one.
const BURST: usize = 4;

/// Turns changes into lines.
#[derive(Debug, Default)]
pub struct Narrator {
    pods: BTreeMap<String, PodState>,
    nodes: BTreeMap<String, NodeState>,
    /// Claims that were ordered: when, and at what price.
    orders: BTreeMap<String, Timestamp>,
    /// Problems told already.
    told: BTreeSet<(String, String)>,
    lines: Vec<Told>,
}

/// A line, and what it may be summed up by.
#[derive(Debug)]
struct Told {
    line: Line,
    /// `pods of job default/pi`, for bursts.
    group: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct PodState {
    uid: String,
    created: Option<Timestamp>,
    waiting: Option<String>,
    node: Option<String>,
    scheduled: Option<Timestamp>,
    running: bool,
    ended: bool,
    group: String,
}

#[derive(Clone, Debug, Default)]
struct NodeState {
    ready: bool,
    leaving: bool,
    what: String,
    joined: Option<Timestamp>,
}

impl Narrator {
    /// The lines since the last call, bursts summed up.
    pub fn lines(&mut self) -> Vec<Line> {
        let mut told = std::mem::take(&mut self.lines);
        // What happened at one moment is told in the order of cause and effect.
        told.sort_by_key(|told| (told.line.time, told.line.kind));
        let mut sizes: BTreeMap<(Kind, String), usize> = BTreeMap::new();
        for Told { line, group } in &told {
            if let Some(group) = group {
                *sizes.entry((line.kind, group.clone())).or_default() += 1;
            }
        }
        let mut lines = Vec::new();
        let mut summed = BTreeSet::new();
        for Told { line, group } in told {
            let Some(group) = group else {
                lines.push(line);
                continue;
            };
            let size = sizes.get(&(line.kind, group.clone())).copied().unwrap_or(1);
            if size < BURST {
                lines.push(line);
            } else if summed.insert((line.kind, group.clone())) {
                lines.push(sum_up(&line, &group, size));
            }
        }
        lines
    }

    fn tell(&mut self, line: Line) {
        self.lines.push(Told { line, group: None });
    }

    /// Tells of a node; many of one kind are told as one.
    fn tell_of_node(&mut self, line: Line, what: &str) {
        self.lines.push(Told { line, group: Some(format!("nodes ({what})")) });
    }

    fn tell_of_pod(&mut self, line: Line, group: &str) {
        let group = (!group.is_empty()).then(|| format!("pods of {group}"));
        self.lines.push(Told { line, group });
    }

    /// Something happened to a pod.
    pub fn pod(&mut self, change: &Change<Pod>, now: Timestamp) {
        match change {
            Change::Applied { new, .. } => self.pod_applied(new, now),
            Change::Deleted(pod) => {
                let name = full_name(pod);
                let Some(state) = self.pods.remove(&name) else { return };
                if !state.ended {
                    let text = format!("pod {name} is gone");
                    let line = Line::new(now, Kind::PodDeleted, text, json!({"pod": name}));
                    self.tell_of_pod(line, &state.group);
                }
            }
        }
    }

    fn pod_applied(&mut self, pod: &Pod, now: Timestamp) {
        let name = full_name(pod);
        let mut state = self.pods.remove(&name).unwrap_or_default();
        state.created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        if state.group.is_empty() {
            state.uid = pod.metadata.uid.clone().unwrap_or_default();
            state.group = group_of(pod);
        }
        let status = pod.status.clone().unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        if let Some(condition) = scheduled
            && condition.status == "False"
            && node.is_none()
        {
            let why = condition.message.clone().unwrap_or_default();
            if state.waiting.as_ref() != Some(&why) {
                let nominated = status.nominated_node_name.as_ref();
                let line = match nominated {
                    Some(node) => {
                        let text = format!(
                            "pod {name} does not fit ({}); lower pods on {node} make room",
                            first_sentence(&why)
                        );
                        Line::new(now, Kind::PodPreempts, text, json!({"pod": name, "node": node}))
                    }
                    None => {
                        let text = format!("pod {name} waits: {}", first_sentence(&why));
                        Line::new(now, Kind::PodWaits, text, json!({"pod": name, "message": why}))
                    }
                };
                self.tell_of_pod(line, &state.group);
                state.waiting = Some(why);
            }
        }
        if let Some(node) = &node
            && state.node.is_none()
        {
            let since = state.created.unwrap_or(now);
            let text =
                format!("pod {name} goes to {node}, {} after it came", words::took(since, now));
            let facts = json!({"pod": name, "node": node, "waitSeconds": seconds(since, now)});
            self.tell_of_pod(Line::new(now, Kind::PodScheduled, text, facts), &state.group);
            state.scheduled = Some(now);
            state.node = Some(node.clone());
        }
        let phase = status.phase.as_deref().unwrap_or_default();
        if phase == "Running" && !state.running {
            state.running = true;
            let since = state.created.unwrap_or(now);
            let text = format!("pod {name} runs, {} after it came", words::took(since, now));
            let facts = json!({"pod": name, "node": node, "startSeconds": seconds(since, now)});
            self.tell_of_pod(Line::new(now, Kind::PodRunning, text, facts), &state.group);
        }
        if matches!(phase, "Succeeded" | "Failed") && !state.ended {
            state.ended = true;
            let ended = status.container_statuses.unwrap_or_default();
            let code = ended.iter().find_map(|container| {
                Some(container.state.as_ref()?.terminated.as_ref()?.exit_code)
            });
            let how = if phase == "Succeeded" { "has completed" } else { "has failed" };
            let code_text = code.map_or_else(String::new, |code| format!(" (exit code {code})"));
            let text = format!("pod {name} {how}{code_text}");
            let facts = json!({"pod": name, "phase": phase, "exitCode": code});
            self.tell_of_pod(Line::new(now, Kind::PodEnded, text, facts), &state.group);
        }
        self.pods.insert(name, state);
    }

    /// Something happened to a node.
    pub fn node(&mut self, change: &Change<Node>, now: Timestamp) {
        match change {
            Change::Applied { new, .. } => self.node_applied(new, now),
            Change::Deleted(node) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                let state = self.nodes.remove(&name).unwrap_or_default();
                let lived = state.joined.map_or_else(String::new, |joined| {
                    format!(" after {}", words::took(joined, now))
                });
                let text = format!("node {name} ({}) is gone{lived}", state.what);
                let line = Line::new(now, Kind::NodeGone, text, json!({"node": name}));
                self.tell_of_node(line, &state.what);
            }
        }
    }

    fn node_applied(&mut self, node: &Node, now: Timestamp) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let known = self.nodes.contains_key(&name);
        let mut state = self.nodes.remove(&name).unwrap_or_default();
        if !known {
            state.what = description(node);
            state.joined = Some(now);
            let text = format!("node {name} ({}) has joined", state.what);
            let line = Line::new(now, Kind::NodeJoined, text, json!({"node": name}));
            self.tell_of_node(line, &state.what);
        }
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
        let ready = conditions
            .unwrap_or_default()
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if ready && !state.ready {
            let owner = node.metadata.owner_references.iter().flatten();
            let ordered = owner.into_iter().find_map(|owner| self.orders.get(&owner.name));
            let after = ordered.map_or_else(String::new, |at| {
                format!(", {} after it was ordered", words::took(*at, now))
            });
            let text = format!("node {name} is ready{after}");
            let line = Line::new(now, Kind::NodeReady, text, json!({"node": name}));
            self.tell_of_node(line, &state.what);
        } else if !ready && state.ready {
            let text = format!("node {name} is no longer ready");
            self.tell(Line::new(now, Kind::Notice, text, json!({"node": name})));
        }
        state.ready = ready;
        if node.metadata.deletion_timestamp.is_some() && !state.leaving {
            state.leaving = true;
            let text = format!("node {name} is drained and given back");
            let line = Line::new(now, Kind::NodeLeaving, text, json!({"node": name}));
            self.tell_of_node(line, &state.what);
        }
        self.nodes.insert(name, state);
    }

    /// Something was written about an object.
    pub fn event(&mut self, change: &Change<Event>, now: Timestamp) {
        let Change::Applied { new, old: None } = change else { return };
        let about = &new.involved_object;
        let name = format!(
            "{}/{}",
            about.namespace.as_deref().unwrap_or_default(),
            about.name.as_deref().unwrap_or_default()
        );
        let message = new.message.clone().unwrap_or_default();
        let reason = new.reason.as_deref().unwrap_or_default();
        let group = self.pods.get(&name).map(|state| state.group.clone()).unwrap_or_default();
        let facts = json!({"pod": name, "message": message});
        let (kind, text) = match reason {
            "FailedCreatePodSandBox" => {
                (Kind::SandboxFailed, format!("pod {name}: the node's network is not ready yet"))
            }
            "Pulling" => (Kind::ImagePulling, format!("pod {name}: {}", lower_first(&message))),
            "Pulled" => (Kind::ImagePulled, format!("pod {name}: {}", lower_first(&message))),
            "Preempted" => {
                (Kind::PodPreempted, format!("pod {name} is {}", self.name_preemptor(&message)))
            }
            "BackOff" | "FailedCreate" | "InsufficientCapacityError" => {
                (Kind::Notice, format!("{name}: {message}"))
            }
            _ => return,
        };
        self.tell_of_pod(Line::new(now, kind, text, facts), &group);
    }

    /// `Preempted by pod UID on node NAME`, with the pod's name if it is known.
    fn name_preemptor(&self, message: &str) -> String {
        let uid = message.split(' ').nth(3).unwrap_or_default();
        let pod = self.pods.iter().find(|(_, state)| state.uid == uid && !uid.is_empty());
        match pod {
            Some((name, _)) => lower_first(message).replace(uid, name),
            None => lower_first(message),
        }
    }

    /// The planner has decided something.
    pub fn decision(&mut self, decision: &Decision, at: Timestamp) {
        let mut orders: Vec<(&LaunchReport, Vec<&String>)> = Vec::new();
        for (launch, claim) in decision.report.launches.iter().zip(&decision.claims) {
            let Some(claim) = claim else { continue };
            self.orders.insert(claim.clone(), decision.at);
            match orders.iter_mut().find(|(known, _)| *known == launch) {
                Some((_, claims)) => claims.push(claim),
                None => orders.push((launch, vec![claim])),
            }
        }
        for (launch, claims) in orders {
            self.tell(ordered(launch, &claims, at));
        }
        for unplaced in &decision.report.unplaced {
            let pod = format!("{}/{}", unplaced.pod.0, unplaced.pod.1);
            if self.told.insert((pod.clone(), unplaced.message.clone())) {
                let text = format!("pod {pod} cannot be placed: {}", unplaced.message);
                let facts = json!({"pod": pod, "message": unplaced.message});
                let group = self.pods.get(&pod).map(|state| state.group.clone());
                let line = Line::new(at, Kind::PodUnplaced, text, facts);
                self.tell_of_pod(line, &group.unwrap_or_default());
            }
        }
        for problem in &decision.report.pools {
            if self.told.insert((problem.pool.clone(), problem.message.clone())) {
                let text = format!("NodePool {}: {}", problem.pool, problem.message);
                let facts = json!({"nodePool": problem.pool, "reason": problem.reason});
                self.tell(Line::new(at, Kind::Notice, text, facts));
            }
        }
        for command in &decision.plan.commands {
            self.tell(given_up(command, at));
        }
        for end in &decision.plan.terminations {
            if decision.plan.commands.iter().any(|command| command.candidates.contains(end)) {
                continue;
            }
            let node = end.node.as_deref().unwrap_or(&end.claim);
            let is = match end.reason.as_str() {
                reason @ ("Empty" | "Surplus") => reason.to_lowercase(),
                _ => "replaced".to_owned(),
            };
            let text = format!("node {node} is {is}: it will be given back");
            let facts = json!({"node": node, "nodeClaim": end.claim, "reason": end.reason});
            self.nodes.entry(node.to_owned()).or_default().leaving = true;
            self.tell(Line::new(at, Kind::NodeLeaving, text, facts));
        }
    }
}

/// Machines that others take the place of.
fn given_up(command: &Command, at: Timestamp) -> Line {
    let nodes: Vec<&str> =
        command.candidates.iter().map(|c| c.node.as_deref().unwrap_or(&c.claim)).collect();
    let (node, is) = match nodes.as_slice() {
        [one] => (format!("node {one}"), "is"),
        all => (format!("nodes {}", all.join(", ")), "are"),
    };
    let why = match command.reason.as_str() {
        "Underutilized" => "not needed for what it costs".to_owned(),
        "Drifted" => "not as its NodePool wants it any more".to_owned(),
        "Expired" => "about to expire".to_owned(),
        "Requested" => "to be replaced, as asked".to_owned(),
        other => other.to_lowercase(),
    };
    let new = match command.replacements {
        0 => "its pods have room elsewhere".to_owned(),
        1 => "a new one comes first".to_owned(),
        many => format!("{many} new ones come first"),
    };
    let saves = match command.saves {
        saves if saves > 0.0 => format!("; saves {}", words::price(saves)),
        saves if saves < 0.0 => format!("; costs {} more", words::price(-saves)),
        _ => String::new(),
    };
    let text = format!("{node} {is} {why}: {new}{saves}");
    let facts = json!({
        "nodes": nodes,
        "reason": command.reason,
        "replacements": command.replacements,
        "savesPerHour": command.saves,
    });
    Line::new(at, Kind::NodeLeaving, text, facts)
}

/// One machine, or several that were chosen for the same reasons.
fn ordered(launch: &LaunchReport, claims: &[&String], at: Timestamp) -> Line {
    let zones = launch.zones.join(" or ");
    let next = launch.alternatives.first().map_or_else(String::new, |next| {
        format!("; next would be {} at {}", next.instance_type, words::price(next.price))
    });
    let pods = usize::try_from(launch.pods).unwrap_or_default();
    let (many, each, names) = match claims {
        [one] => (String::new(), "", format!("nodeclaim/{one}")),
        [first, .., last] => {
            (format!("{} × ", claims.len()), " each", format!("nodeclaim/{first} … {last}"))
        }
        [] => (String::new(), "", String::new()),
    };
    // The fee goes by the on-demand price, whatever is paid.
    let fee = match launch.capacity_type.as_str() {
        "on-demand" => format!("the {} % fee", words::percent(launch.fee, launch.price)),
        _ => "the fee, which goes by the on-demand price".to_owned(),
    };
    let text = format!(
        "ordered {many}{} ({}, {zones}) for {}{each} ({}): {}, {} with {}; cheapest of \
         {} offerings that fit, {} weighed{next} → {names}",
        launch.instance_type,
        launch.capacity_type,
        words::count(pods, "pod"),
        words::resources(&launch.requests),
        words::price(launch.price),
        words::price(launch.price + launch.fee),
        fee,
        launch.feasible,
        launch.weighed,
    );
    let facts = json!({"nodeClaims": claims, "decision": launch});
    Line::new(at, Kind::NodeOrdered, text, facts)
}

fn sum_up(line: &Line, group: &str, size: usize) -> Line {
    let what = match line.kind {
        Kind::PodWaits => "wait for a node",
        Kind::PodUnplaced => "cannot be placed",
        Kind::PodPreempts => "make lower pods leave",
        Kind::PodScheduled => "go to nodes",
        Kind::SandboxFailed => "wait for their node's network",
        Kind::ImagePulling => "pull their image",
        Kind::ImagePulled => "have their image",
        Kind::PodRunning => "run",
        Kind::PodEnded => "have ended",
        Kind::PodPreempted => "are preempted",
        Kind::PodDeleted | Kind::NodeGone => "are gone",
        Kind::NodeJoined => "have joined",
        Kind::NodeReady => "are ready",
        Kind::NodeLeaving => "are given back",
        _ => "have news",
    };
    let text = format!("{size} {group} {what}");
    Line::new(line.time, line.kind, text, json!({"group": group, "count": size}))
}

fn full_name(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

fn group_of(pod: &Pod) -> String {
    let owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true));
    owner.map_or_else(String::new, |owner| {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        format!("{} {namespace}/{}", owner.kind.to_lowercase(), owner.name)
    })
}

fn description(node: &Node) -> String {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let parts = [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE];
    let parts = parts.into_iter().filter_map(label).map(String::as_str);
    let text = parts.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "unmanaged".to_owned() } else { text }
}

/// The scheduler's message without what it says of preemption.
fn first_sentence(message: &str) -> &str {
    match message.find(". ") {
        Some(end) => &message[..end],
        None => message.trim_end_matches('.'),
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    (to.duration_since(from).as_secs_f64() * 1000.0).round() / 1000.0
}
