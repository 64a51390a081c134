//! What makes pods, and what protects them.

use jiff::Timestamp;
use serde_json::Value;

use super::selector::{labels, selector, selector_or_none};
use super::{AGE, CONTAINERS, IMAGES, NAME, Printer, age, list, name, number, text};

const DESIRED: super::Definition = ("Desired", "integer", 0, "Replicas that are wanted.");
const CURRENT: super::Definition = ("Current", "integer", 0, "Replicas that are there.");
const READY: super::Definition = ("Ready", "integer", 0, "Replicas that are ready.");
const SELECTOR: super::Definition = ("Selector", "string", 1, "Labels that its pods have.");

pub(super) const POD_TEMPLATE: Printer = Printer {
    columns: &[
        NAME,
        ("Containers", "string", 0, "Names of the template's containers."),
        ("Images", "string", 0, "Images of the template's containers."),
        ("Pod Labels", "string", 0, "Labels that pods get."),
    ],
    cells: |object, _| {
        let template = &object["template"];
        let [names, images] = containers(template);
        vec![name(object), names, images, labels(&template["metadata"]["labels"]).into()]
    },
};

pub(super) const REPLICATION_CONTROLLER: Printer = Printer {
    columns: &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR],
    cells: |object, now| replicas(object, now, labels(&object["spec"]["selector"])),
};

pub(super) const REPLICA_SET: Printer = Printer {
    columns: &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR],
    cells: |object, now| replicas(object, now, selector_or_none(&object["spec"]["selector"])),
};

fn replicas(object: &Value, now: Timestamp, selector: String) -> Vec<Value> {
    let [names, images] = containers(&object["spec"]["template"]);
    vec![
        name(object),
        number(&object["spec"]["replicas"]).into(),
        number(&object["status"]["replicas"]).into(),
        number(&object["status"]["readyReplicas"]).into(),
        age::of(object, now).into(),
        names,
        images,
        selector.into(),
    ]
}

pub(super) const DEPLOYMENT: Printer = Printer {
    columns: &[
        NAME,
        ("Ready", "string", 0, "Pods that are ready, of those wanted."),
        ("Up-to-date", "string", 0, "Pods of the newest template."),
        ("Available", "string", 0, "Pods that have been ready long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let status = &object["status"];
        let [names, images] = containers(&object["spec"]["template"]);
        vec![
            name(object),
            ready_of_wanted(object),
            number(&status["updatedReplicas"]).into(),
            number(&status["availableReplicas"]).into(),
            age::of(object, now).into(),
            names,
            images,
            selector(&object["spec"]["selector"]).into(),
        ]
    },
};

pub(super) const STATEFUL_SET: Printer = Printer {
    columns: &[
        NAME,
        ("Ready", "string", 0, "Pods that are ready, of those wanted."),
        AGE,
        CONTAINERS,
        IMAGES,
    ],
    cells: |object, now| {
        let [names, images] = containers(&object["spec"]["template"]);
        vec![name(object), ready_of_wanted(object), age::of(object, now).into(), names, images]
    },
};

pub(super) const DAEMON_SET: Printer = Printer {
    columns: &[
        NAME,
        ("Desired", "integer", 0, "Nodes that should run it."),
        ("Current", "integer", 0, "Nodes that run it and should."),
        ("Ready", "integer", 0, "Nodes where it is ready."),
        ("Up-to-date", "integer", 0, "Nodes that run the newest template."),
        ("Available", "integer", 0, "Nodes where it has been ready long enough."),
        ("Node Selector", "string", 0, "Labels that its nodes have."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let status = &object["status"];
        let template = &object["spec"]["template"];
        let [names, images] = containers(template);
        let mut cells = vec![name(object)];
        cells.extend(
            [
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            ]
            .map(|field| number(&status[field]).into()),
        );
        cells.extend([
            labels(&template["spec"]["nodeSelector"]).into(),
            age::of(object, now).into(),
            names,
            images,
            selector_or_none(&object["spec"]["selector"]).into(),
        ]);
        cells
    },
};

pub(super) const JOB: Printer = Printer {
    columns: &[
        NAME,
        ("Status", "string", 0, "How far it is."),
        ("Completions", "string", 0, "Pods that have succeeded, of those wanted."),
        ("Duration", "string", 0, "Time that it has taken."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let succeeded = number(&status["succeeded"]);
        let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
            (Some(wanted), _) => format!("{succeeded}/{wanted}"),
            (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
            (None, _) => format!("{succeeded}/1"),
        };
        let time = |field: &str| status[field].as_str()?.parse::<Timestamp>().ok();
        let duration = time("startTime").map_or_else(String::new, |start| {
            age::human(time("completionTime").unwrap_or(now).duration_since(start).as_secs())
        });
        let [names, images] = containers(&spec["template"]);
        vec![
            name(object),
            job_status(object).into(),
            completions.into(),
            duration.into(),
            age::of(object, now).into(),
            names,
            images,
            selector_or_none(&spec["selector"]).into(),
        ]
    },
};

fn job_status(job: &Value) -> &'static str {
    let holds = |kind: &str| {
        let condition = list(&job["status"]["conditions"]).iter().find(|c| c["type"] == kind);
        condition.is_some_and(|condition| condition["status"] == "True")
    };
    let first = |kinds: &[&'static str]| kinds.iter().copied().find(|kind| holds(kind));
    if let Some(ended) = first(&["Complete", "Failed"]) {
        ended
    } else if !job["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else {
        first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]).unwrap_or("Running")
    }
}

pub(super) const CRON_JOB: Printer = Printer {
    columns: &[
        NAME,
        ("Schedule", "string", 0, "When it runs."),
        ("Timezone", "string", 0, "Whose time that is."),
        ("Suspend", "boolean", 0, "Whether it rests."),
        ("Active", "integer", 0, "Jobs that run now."),
        ("Last Schedule", "string", 0, "Time since it ran last."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let last = &status["lastScheduleTime"];
        let last = if last.is_null() { "<none>".into() } else { age::since(last, now) };
        let suspended = match spec["suspend"].as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let job = &spec["jobTemplate"]["spec"];
        let [names, images] = containers(&job["template"]);
        vec![
            name(object),
            text(&spec["schedule"], "").into(),
            text(&spec["timeZone"], "<none>").into(),
            suspended.into(),
            list(&status["active"]).len().into(),
            last.into(),
            age::of(object, now).into(),
            names,
            images,
            selector_or_none(&job["selector"]).into(),
        ]
    },
};

pub(super) const CONTROLLER_REVISION: Printer = Printer {
    columns: &[
        NAME,
        ("Controller", "string", 0, "Whose revision it is."),
        ("Revision", "string", 0, "Its number."),
        AGE,
    ],
    cells: |object, now| {
        let owners = list(&object["metadata"]["ownerReferences"]);
        let owner = owners.iter().find(|owner| owner["controller"] == true);
        let controller = owner.map_or_else(
            || "<none>".to_owned(),
            |owner| {
                let kind = text(&owner["kind"], "").to_lowercase();
                let group = text(&owner["apiVersion"], "").split_once('/').map(|(group, _)| group);
                let group = group.map(|group| format!(".{group}")).unwrap_or_default();
                format!("{kind}{group}/{}", text(&owner["name"], ""))
            },
        );
        let revision = number(&object["revision"]);
        vec![name(object), controller.into(), revision.into(), age::of(object, now).into()]
    },
};

pub(super) const POD_DISRUPTION_BUDGET: Printer = Printer {
    columns: &[
        NAME,
        ("Min Available", "string", 0, "Pods that must stay available."),
        ("Max Unavailable", "string", 0, "Pods that may be unavailable."),
        ("Allowed Disruptions", "integer", 0, "Pods that may be disrupted now."),
        AGE,
    ],
    cells: |object, now| {
        let bound = |field: &str| match &object["spec"][field] {
            Value::Null => "N/A".to_owned(),
            Value::String(percent) => percent.clone(),
            number => number.to_string(),
        };
        vec![
            name(object),
            bound("minAvailable").into(),
            bound("maxUnavailable").into(),
            number(&object["status"]["disruptionsAllowed"]).into(),
            age::of(object, now).into(),
        ]
    },
};

fn ready_of_wanted(object: &Value) -> Value {
    let (ready, wanted) = (&object["status"]["readyReplicas"], &object["spec"]["replicas"]);
    format!("{}/{}", number(ready), number(wanted)).into()
}

/// Names and images of a template's containers.
fn containers(template: &Value) -> [Value; 2] {
    let all = list(&template["spec"]["containers"]);
    ["name", "image"].map(|field| {
        let texts: Vec<&str> = all.iter().map(|container| text(&container[field], "")).collect();
        texts.join(",").into()
    })
}
