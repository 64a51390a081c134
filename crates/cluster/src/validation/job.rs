//! Jobs, once and by the clock. Source: `pkg/apis/batch/validation`.

use serde_json::{Value, json};

use super::metadata::selector;
use super::place::Place;
use super::workload::matches;
use super::{Errors, pod};

const PARALLEL_INDEXED: i64 = 100_000;

/// Rules for new jobs only: the generated labels and selector are there.
pub(super) fn create(root: Place, errors: &mut Errors) {
    let (metadata, spec) = (root.child("metadata"), root.child("spec"));
    if root.value["spec"]["manualSelector"] == true || !spec.child("selector").is_set() {
        return;
    }
    let template = spec.child("template");
    let template = template.child("metadata");
    let labels = template.child("labels");
    let generated = [
        ("controller-uid", "uid"),
        ("job-name", "name"),
        ("batch.kubernetes.io/controller-uid", "uid"),
        ("batch.kubernetes.io/job-name", "name"),
    ];
    let mut expected = json!({});
    for (label, field) in generated {
        let (at, wanted) = (template.entry("labels", label), metadata.child(field));
        expected[label] = wanted.value.clone();
        if at.is_set() && at.value != wanted.value {
            let why = format!("must be '{}'", wanted.text());
            errors.push(at.showing(labels.value).invalid(&why));
        }
    }
    let own = spec.child("selector");
    let picks = own.child("matchLabels").value.as_object().into_iter().flatten();
    if picks.into_iter().any(|(key, value)| expected[key] != *value) {
        errors.push(own.invalid("`selector` not auto-generated"));
    }
}

/// Rules for jobs, new or changed.
pub(super) fn job(root: Place, errors: &mut Errors) {
    let at = root.child("spec");
    spec(at, errors);
    let own = at.child("selector");
    if own.is_set() {
        selector(own, errors);
        matches(own.value, at.child("template"), errors);
    } else {
        errors.push(own.required(""));
    }
}

fn spec(at: Place, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        at.child(field).nonnegative(errors);
    }
    let (per_index, failed) = (at.child("backoffLimitPerIndex"), at.child("maxFailedIndexes"));
    if failed.is_set() && !per_index.is_set() {
        errors.push(per_index.required("when maxFailedIndexes is specified"));
    }
    let mode = at.child("completionMode");
    let (completions, parallelism) = (at.child("completions"), at.child("parallelism"));
    match mode.text() {
        "Indexed" => {
            if !completions.is_set() {
                errors.push(completions.required("when completion mode is Indexed"));
            }
            if parallelism.number().is_some_and(|number| number > PARALLEL_INDEXED) {
                let why = format!(
                    "must be less than or equal to {PARALLEL_INDEXED} when completion mode is \
                     Indexed"
                );
                errors.push(parallelism.invalid(&why));
            }
            if failed.number() > completions.number() && completions.is_set() {
                errors.push(failed.invalid("must be less than or equal to completions"));
            }
        }
        "NonIndexed" | "" => {
            for field in [per_index, failed].into_iter().filter(Place::is_set) {
                errors.push(field.invalid("requires indexed completion mode"));
            }
            let success = at.child("successPolicy");
            if success.is_set() {
                errors.push(success.invalid("requires indexed completion mode"));
            }
        }
        _ => errors.push(mode.not_supported(&["NonIndexed", "Indexed"])),
    }
    let replacement = at.child("podReplacementPolicy");
    let failure_policy = at.child("podFailurePolicy").is_set();
    let replacements: &[&str] =
        if failure_policy { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if replacement.is_set() && !replacements.contains(&replacement.text()) {
        errors.push(replacement.not_supported(replacements));
    }
    let template = at.child("template");
    pod::template(template, errors);
    let template = template.child("spec");
    let restart = template.child("restartPolicy");
    match restart.text() {
        "Always" | "" => {
            errors.push(restart.required(r#"valid values: "OnFailure", "Never""#));
        }
        "OnFailure" if failure_policy => {
            let why = r#"only "Never" is supported when podFailurePolicy is specified"#;
            errors.push(restart.invalid(why));
        }
        "OnFailure" | "Never" => {}
        _ => errors.push(restart.not_supported(&["OnFailure", "Never"])),
    }
}

/// What may not change of a job.
pub(super) fn update(root: Place, old: Place, errors: &mut Errors) {
    let (spec, old_spec) = (root.child("spec"), old.child("spec"));
    let completions = spec.child("completions");
    let before = old_spec.child("completions").value;
    if spec.child("completionMode").text() != "Indexed" {
        completions.immutable(before, errors);
    } else if completions.value != before
        && completions.is_set()
        && completions.value != spec.child("parallelism").value
    {
        errors.push(completions.invalid("can only be modified in tandem with spec.parallelism"));
    }
    spec.child("selector").immutable(old_spec.child("selector").value, errors);
    let template = changeable(&spec, &old_spec, old);
    spec.child("template").immutable(&template, errors);
    for field in
        ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        spec.child(field).immutable(old_spec.child(field).value, errors);
    }
}

/// The old template, with what a suspended job may change taken from the new one.
fn changeable(spec: &Place, old_spec: &Place, old: Place) -> Value {
    let (new, mut template) =
        (spec.child("template").value, old_spec.child("template").value.clone());
    let status = &old.value["status"];
    let suspended = old_spec.value["suspend"] == true;
    let resting = status["startTime"].is_null()
        || status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Suspended" && condition["status"] == "True");
    if !suspended || !resting || status["active"].as_i64().unwrap_or(0) > 0 {
        return template;
    }
    let copy = |to: &mut Value, field: &str, from: &Value| {
        let Some(to) = to.as_object_mut() else { return };
        match from.get(field) {
            Some(value) => to.insert(field.to_owned(), value.clone()),
            None => to.remove(field),
        };
    };
    for field in ["labels", "annotations"] {
        copy(&mut template["metadata"], field, &new["metadata"]);
    }
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        copy(&mut template["spec"], field, &new["spec"]);
    }
    if template["spec"]["affinity"].is_object() && new["spec"]["affinity"].is_object() {
        copy(&mut template["spec"]["affinity"], "nodeAffinity", &new["spec"]["affinity"]);
    } else {
        copy(&mut template["spec"], "affinity", &new["spec"]);
    }
    for field in ["containers", "initContainers"] {
        let containers = template["spec"].get_mut(field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let same = new["spec"][field].as_array().into_iter().flatten();
            if let Some(same) = same.into_iter().find(|other| other["name"] == container["name"]) {
                copy(container, "resources", same);
            }
        }
    }
    template
}

/// Names of cron jobs leave room for the time that their jobs' names end with.
pub(super) fn cron_name(metadata: Place, errors: &mut Errors) {
    let name = metadata.child("name");
    if name.text().len() > 52 {
        errors.push(name.invalid("must be no more than 52 characters"));
    }
}

pub(super) fn cron_job(root: Place, errors: &mut Errors) {
    let at = root.child("spec");
    let schedule = at.child("schedule");
    if schedule.text().is_empty() {
        errors.push(schedule.required(""));
    } else {
        if let Err(why) = check_schedule(schedule.text()) {
            errors.push(schedule.invalid(&why));
        }
        if schedule.text().contains("TZ") {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(schedule.invalid(why));
        }
    }
    at.child("startingDeadlineSeconds").nonnegative(errors);
    let zone = at.child("timeZone");
    if zone.is_set() && jiff::tz::TimeZone::get(zone.text()).is_err() {
        errors.push(zone.invalid(&format!("unknown time zone {}", zone.text())));
    }
    at.child("concurrencyPolicy").one_of(&["Allow", "Forbid", "Replace"], errors);
    let template = at.child("jobTemplate");
    let job = template.child("spec");
    spec(job, errors);
    if job.child("selector").is_set() {
        errors.push(job.child("selector").invalid("`selector` will be auto-generated"));
    }
    if job.value["manualSelector"] == true {
        errors.push(job.child("manualSelector").not_supported(&["nil", "false"]));
    }
    at.child("successfulJobsHistoryLimit").nonnegative(errors);
    at.child("failedJobsHistoryLimit").nonnegative(errors);
}

/// Minute, hour, day of month, month, day of week: least, most, names.
const FIELDS: [(i64, i64, &str); 5] = [
    (0, 59, ""),
    (0, 23, ""),
    (1, 31, ""),
    (1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    (0, 6, "sun mon tue wed thu fri sat"),
];

/// What is wrong with a cron schedule. Texts: github.com/robfig/cron v3.
fn check_schedule(schedule: &str) -> Result<(), String> {
    let schedule = schedule.trim();
    if let Some(descriptor) = schedule.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        if known.contains(&descriptor) || descriptor.starts_with("every ") {
            return Ok(());
        }
        return Err(format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let shown = fields.join(" ");
        return Err(format!("expected exactly 5 fields, found {}: [{shown}]", fields.len()));
    }
    for (field, bounds) in fields.iter().zip(FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

fn check_range(text: &str, (least, most, names): (i64, i64, &str)) -> Result<(), String> {
    let (range, step) = text.split_once('/').map_or((text, None), |(r, step)| (r, Some(step)));
    let number = |text: &str| -> Result<i64, String> {
        let name =
            names.split(' ').position(|name| !name.is_empty() && text.eq_ignore_ascii_case(name));
        if let Some(at) = name {
            return Ok(least + i64::try_from(at).unwrap_or(0));
        }
        text.parse().map_err(|_| {
            format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
            )
        })
    };
    if let Some(step) = step
        && number(step)? == 0
    {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    if matches!(range, "*" | "?") {
        return Ok(());
    }
    let (start, end) = match range.split_once('-') {
        Some((start, end)) => (number(start)?, number(end)?),
        None => (number(range)?, number(range)?),
    };
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    Ok(())
}
