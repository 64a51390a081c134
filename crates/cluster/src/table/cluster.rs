//! Nodes, namespaces, events, configuration, classes, roles.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{AGE, NAME, Printer, age, list, name, number, text};

pub(super) const NODE: Printer = Printer {
    columns: &[
        NAME,
        ("Status", "string", 0, "Whether it is ready, and takes pods."),
        ("Roles", "string", 0, "What it is there for."),
        AGE,
        ("Version", "string", 0, "Version of its kubelet."),
        ("Internal-IP", "string", 1, "Address within the cluster's network."),
        ("External-IP", "string", 1, "Address for the rest of the world."),
        ("OS-Image", "string", 1, "Operating system."),
        ("Kernel-Version", "string", 1, "Kernel and architecture."),
        ("Container-Runtime", "string", 1, "Container runtime."),
    ],
    cells: |object, now| {
        let status = &object["status"];
        let info = &status["nodeInfo"];
        let ready = list(&status["conditions"]).iter().find(|c| c["type"] == "Ready");
        let mut state = match ready.map(|condition| condition["status"] == "True") {
            Some(true) => "Ready",
            Some(false) => "NotReady",
            None => "Unknown",
        }
        .to_owned();
        if object["spec"]["unschedulable"] == true {
            state.push_str(",SchedulingDisabled");
        }
        let address = |kind: &str| {
            let found = list(&status["addresses"]).iter().find(|a| a["type"] == kind);
            found.map_or("<none>", |address| text(&address["address"], "")).to_owned()
        };
        let mut kernel = text(&info["kernelVersion"], "<unknown>").to_owned();
        if let Some(architecture) = info["architecture"].as_str().filter(|a| !a.is_empty()) {
            kernel = format!("{kernel} ({architecture})");
        }
        vec![
            name(object),
            state.into(),
            roles(object).into(),
            age::of(object, now).into(),
            text(&info["kubeletVersion"], "").into(),
            address("InternalIP").into(),
            address("ExternalIP").into(),
            text(&info["osImage"], "<unknown>").into(),
            kernel.into(),
            text(&info["containerRuntimeVersion"], "<unknown>").into(),
        ]
    },
};

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object();
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        return "<none>".into();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

pub(super) const NAMESPACE: Printer = Printer {
    columns: &[NAME, ("Status", "string", 0, "Active, or on its way out."), AGE],
    cells: |object, now| {
        let phase = text(&object["status"]["phase"], "");
        vec![name(object), phase.into(), age::of(object, now).into()]
    },
};

pub(super) const EVENT: Printer = Printer {
    columns: &[
        ("Last Seen", "string", 0, "Time since it happened last."),
        ("Type", "string", 0, "Normal or Warning."),
        ("Reason", "string", 0, "Why it is told, in a word."),
        ("Object", "string", 0, "What it is about."),
        ("Subobject", "string", 1, "Which part of that."),
        ("Source", "string", 1, "Who tells it."),
        ("Message", "string", 0, "What happened."),
        ("First Seen", "string", 1, "Time since it happened first."),
        ("Count", "string", 1, "How often it happened."),
        ("Name", "string", 1, "Name of the event."),
    ],
    cells: |event, now| {
        // Events are kept in the form of v1; those of events.k8s.io/v1 use other names.
        let either = |old: &str, new: &str| {
            if event[old].is_null() { event[new].clone() } else { event[old].clone() }
        };
        let about = either("involvedObject", "regarding");
        let kind = text(&about["kind"], "").to_lowercase();
        let target = match text(&about["name"], "") {
            "" => kind,
            name => format!("{kind}/{name}"),
        };
        let first = match &either("firstTimestamp", "deprecatedFirstTimestamp") {
            Value::Null => age::since(&event["eventTime"], now),
            time => age::since(time, now),
        };
        let mut last = match &either("lastTimestamp", "deprecatedLastTimestamp") {
            Value::Null => first.clone(),
            time => age::since(time, now),
        };
        let mut count = number(&either("count", "deprecatedCount")).max(1);
        let series = &event["series"];
        if series.is_object() {
            last = age::since(&series["lastObservedTime"], now);
            count = number(&series["count"]);
        }
        let source = either("source", "deprecatedSource");
        let controller = either("reportingComponent", "reportingController");
        let component = text(&source["component"], text(&controller, ""));
        let instance = text(&source["host"], text(&event["reportingInstance"], ""));
        let teller = if instance.is_empty() {
            component.to_owned()
        } else {
            format!("{component}, {instance}")
        };
        vec![
            last.into(),
            text(&event["type"], "").into(),
            text(&event["reason"], "").into(),
            target.into(),
            text(&about["fieldPath"], "").into(),
            teller.into(),
            text(&either("message", "note"), "").trim().into(),
            first.into(),
            count.into(),
            name(event),
        ]
    },
};

pub(super) const CONFIG_MAP: Printer = Printer {
    columns: &[NAME, ("Data", "string", 0, "How many entries it has."), AGE],
    cells: |object, now| {
        let entries = size(&object["data"]) + size(&object["binaryData"]);
        vec![name(object), entries.into(), age::of(object, now).into()]
    },
};

pub(super) const SECRET: Printer = Printer {
    columns: &[
        NAME,
        ("Type", "string", 0, "What kind of secret it is."),
        ("Data", "string", 0, "How many entries it has."),
        AGE,
    ],
    cells: |object, now| {
        let kind = text(&object["type"], "");
        vec![name(object), kind.into(), size(&object["data"]).into(), age::of(object, now).into()]
    },
};

fn size(map: &Value) -> usize {
    map.as_object().map_or(0, Map::len)
}

pub(super) const SERVICE_ACCOUNT: Printer = Printer {
    columns: &[NAME, AGE],
    cells: |object, now| vec![name(object), age::of(object, now).into()],
};

pub(super) const RESOURCE_QUOTA: Printer = Printer {
    columns: &[
        NAME,
        ("Request", "string", 0, "Counts and requests: used of allowed."),
        ("Limit", "string", 0, "Limits: used of allowed."),
        AGE,
    ],
    cells: |object, now| {
        let status = &object["status"];
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, hard) in status["hard"].as_object().into_iter().flatten() {
            let used = text(&status["used"][resource], "0");
            let side = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
            side.push(format!("{resource}: {used}/{}", text(hard, "0")));
        }
        vec![
            name(object),
            requests.join(", ").into(),
            limits.join(", ").into(),
            age::of(object, now).into(),
        ]
    },
};

pub(super) const LEASE: Printer = Printer {
    columns: &[NAME, ("Holder", "string", 0, "Who holds it."), AGE],
    cells: |object, now| {
        let holder = text(&object["spec"]["holderIdentity"], "");
        vec![name(object), holder.into(), age::of(object, now).into()]
    },
};

pub(super) const RUNTIME_CLASS: Printer = Printer {
    columns: &[NAME, ("Handler", "string", 0, "Configuration of the container runtime."), AGE],
    cells: |object, now| {
        vec![name(object), text(&object["handler"], "").into(), age::of(object, now).into()]
    },
};

pub(super) const PRIORITY_CLASS: Printer = Printer {
    columns: &[
        NAME,
        ("Value", "integer", 0, "Its pods' priority."),
        ("Global-Default", "boolean", 0, "Whether pods without a class get it."),
        AGE,
        ("PreemptionPolicy", "string", 1, "Whether its pods may displace others."),
    ],
    cells: |object, now| {
        vec![
            name(object),
            number(&object["value"]).into(),
            (object["globalDefault"] == true).into(),
            age::of(object, now).into(),
            text(&object["preemptionPolicy"], "").into(),
        ]
    },
};

pub(super) const ROLE_BINDING: Printer = Printer {
    columns: &[
        NAME,
        ("Role", "string", 0, "What it grants."),
        AGE,
        ("Users", "string", 1, "Users that it grants that to."),
        ("Groups", "string", 1, "Groups that it grants that to."),
        ("ServiceAccounts", "string", 1, "Service accounts that it grants that to."),
    ],
    cells: |object, now| {
        let role = &object["roleRef"];
        let role = format!("{}/{}", text(&role["kind"], ""), text(&role["name"], ""));
        let mut cells = vec![name(object), role.into(), age::of(object, now).into()];
        for kind in ["User", "Group", "ServiceAccount"] {
            let subjects = list(&object["subjects"]).iter().filter(|s| s["kind"] == kind);
            let names: Vec<String> = subjects
                .map(|subject| match (kind, text(&subject["name"], "")) {
                    ("ServiceAccount", name) => {
                        format!("{}/{name}", text(&subject["namespace"], ""))
                    }
                    (_, name) => name.to_owned(),
                })
                .collect();
            cells.push(names.join(", ").into());
        }
        cells
    },
};
