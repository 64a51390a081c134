//! How long a container runs, how it ends, and how it takes being stopped.
//!
//! Annotations of the pod decide first, then what its command and image are known to do.

use aerostat_api::{Duration, Quantity};
use k8s_openapi::api::core::v1::{Container, Pod};

use super::command::{self, Outcome};
use super::images;
use super::settings::Settings;

/// Prefix of the annotations that pods are simulated by.
const PREFIX: &str = "sim.aerostat.dev/";

/// Images whose own command ends at once when nobody talks to it.
const SHELLS: [&str; 6] = ["alpine", "amazonlinux", "busybox", "debian", "hello-world", "ubuntu"];

/// What a container does once started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    /// How long it runs; for ever if `None`.
    pub(super) duration: Option<Duration>,
    /// What it exits with then.
    pub(super) exit_code: i32,
}

/// What the container does once started, if nothing is said about it it does what is `known`. The
/// error names the annotation that is wrong.
pub(super) fn run(pod: &Pod, container: &Container, init: bool, known: Run) -> Result<Run, String> {
    let mut run = known;
    if let Some((key, text)) = annotation(pod, container, init, "duration") {
        run.duration = match text {
            "forever" | "infinity" => None,
            _ => Some(Duration::parse(text).map_err(|why| format!("{key}: {why}"))?),
        };
    }
    if let Some((key, text)) = annotation(pod, container, init, "exit-code") {
        let code = text.parse::<u8>();
        run.exit_code = code
            .map_err(|_| {
                format!("{key}: {text:?} is not an exit code: write a number from 0 to 255")
            })?
            .into();
    }
    Ok(run)
}

/// What is known of the container without annotations.
pub(super) fn known(pod: &Pod, container: &Container, init: bool, settings: &Settings) -> Run {
    let sidecar = container.restart_policy.as_deref() == Some("Always");
    let after = |duration, exit_code| Run { duration: Some(duration), exit_code };
    match command::outcome(&argv(container)) {
        Some(Outcome::Ends { after: duration, code }) => return after(duration, code),
        Some(Outcome::RunsForever) => return Run { duration: None, exit_code: 0 },
        None => {}
    }
    let image = container.image.as_deref().unwrap_or_default();
    let at_once = Duration(std::time::Duration::ZERO);
    if argv(container).is_empty() && SHELLS.contains(&images::familiar_repository(image).as_str()) {
        return after(at_once, 0);
    }
    if init && !sidecar {
        return after(settings.init_duration, 0);
    }
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    if !init && owners.iter().any(|owner| owner.kind == "Job" && owner.controller == Some(true)) {
        return after(settings.job_duration, 0);
    }
    Run { duration: None, exit_code: 0 }
}

/// The size of the container's image in bytes, if the pod says it.
pub(super) fn image_size(pod: &Pod, container: &Container) -> Result<Option<u64>, String> {
    let Some((key, text)) = annotation(pod, container, true, "image-size") else { return Ok(None) };
    let size = text.parse::<Quantity>().ok().and_then(|size| u64::try_from(size.units()).ok());
    let why = || format!("{key}: {text:?} is not a size: write bytes like 350M or 1Gi");
    size.map(Some).ok_or_else(why)
}

/// How long a readiness probe fails after the start.
pub(super) fn ready_delay(
    pod: &Pod,
    container: &Container,
    init: bool,
) -> Result<Duration, String> {
    match annotation(pod, container, init, "ready-delay") {
        Some((key, text)) => Duration::parse(text).map_err(|why| format!("{key}: {why}")),
        None => Ok(Duration(std::time::Duration::ZERO)),
    }
}

/// How long the container takes to end when told to: preStop hook, then the program itself.
/// `None`: it ignores the signal.
pub(super) fn stop(
    pod: &Pod,
    container: &Container,
    init: bool,
    settings: &Settings,
) -> Result<Option<Duration>, String> {
    let program = match annotation(pod, container, init, "stop-duration") {
        Some((_, "forever" | "infinity")) => None,
        Some((key, text)) => Some(Duration::parse(text).map_err(|why| format!("{key}: {why}"))?),
        // The first process of a container ends by SIGTERM only if it handles it.
        None if command::ignores_sigterm(&argv(container)) => None,
        None => Some(settings.stop_duration),
    };
    Ok(program.and_then(|program| Some(Duration(pre_stop(container)?.0 + program.0))))
}

/// How long the preStop hook takes; `None` if it does not end.
fn pre_stop(container: &Container) -> Option<Duration> {
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    let Some(hook) = hook else { return Some(Duration(std::time::Duration::ZERO)) };
    if let Some(sleep) = &hook.sleep {
        let seconds = u64::try_from(sleep.seconds).unwrap_or(0);
        return Some(Duration(std::time::Duration::from_secs(seconds)));
    }
    let argv = hook.exec.as_ref().and_then(|exec| exec.command.clone()).unwrap_or_default();
    match command::outcome(&argv) {
        Some(Outcome::Ends { after, .. }) => Some(after),
        Some(Outcome::RunsForever) => None,
        None => Some(Duration(std::time::Duration::ZERO)),
    }
}

/// The annotation `NAME.CONTAINER`, or (not for init containers) `NAME`.
fn annotation<'a>(
    pod: &'a Pod,
    container: &Container,
    init: bool,
    name: &str,
) -> Option<(String, &'a str)> {
    let annotations = pod.metadata.annotations.as_ref()?;
    let own = format!("{PREFIX}{name}.{}", container.name);
    if let Some(text) = annotations.get(&own) {
        return Some((own, text));
    }
    let shared = format!("{PREFIX}{name}");
    let text = annotations.get(&shared).filter(|_| !init)?;
    Some((shared, text))
}

fn argv(container: &Container) -> Vec<String> {
    let command = container.command.as_deref().unwrap_or_default();
    let args = container.args.as_deref().unwrap_or_default();
    [command, args].concat()
}
