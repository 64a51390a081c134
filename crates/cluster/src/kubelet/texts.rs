//! What kubelets say. Wording of Kubernetes v1.36, but for `Created` and `Started`: these keep the
//! words of 1.31, which name the container.
//!
//! Source: kubernetes `pkg/kubelet/images/image_manager.go`, `pkg/kubelet/kuberuntime`.

use aerostat_api::Duration;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;

use super::images::Pull;
use crate::events::EventType;

/// An event to be recorded about a pod or one of its containers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Note {
    /// Index of the container that it is about.
    pub(super) container: Option<usize>,
    pub(super) event_type: EventType,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Note {
    pub(super) fn normal(reason: &str, message: &str) -> Self {
        Self::new(EventType::Normal, reason, message)
    }

    pub(super) fn warning(reason: &str, message: &str) -> Self {
        Self::new(EventType::Warning, reason, message)
    }

    fn new(event_type: EventType, reason: &str, message: &str) -> Self {
        Self { container: None, event_type, reason: reason.into(), message: message.into() }
    }

    /// About the container with this index.
    pub(super) fn of(self, container: usize) -> Self {
        Self { container: Some(container), ..self }
    }
}

pub(super) fn sandbox_failed(id: &str) -> Note {
    let message = format!(
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network \
         for sandbox \"{id}\": plugin type=\"aws-cni\" name=\"aws-cni\" failed (add): add cmd: \
         Error received from AddNetwork gRPC call: rpc error: code = Unavailable desc = \
         connection error: desc = \"transport: Error while dialing: dial tcp 127.0.0.1:50051: \
         connect: connection refused\""
    );
    Note::warning("FailedCreatePodSandBox", &message)
}

pub(super) fn pulling(image: &str) -> Note {
    Note::normal("Pulling", &format!("Pulling image \"{image}\""))
}

pub(super) fn pulled(image: &str, pull: Pull, size: u64) -> Note {
    let (took, waited) = (millis(pull.took), millis(pull.waited));
    let message = format!(
        "Successfully pulled image \"{image}\" in {took} ({waited} including waiting). \
         Image size: {size} bytes."
    );
    Note::normal("Pulled", &message)
}

pub(super) fn image_present(image: &str) -> Note {
    let message = format!(
        "Container image \"{image}\" already present on machine and can be accessed by the pod"
    );
    Note::normal("Pulled", &message)
}

pub(super) fn never_pulled(image: &str) -> String {
    format!("Container image \"{image}\" is not present with pull policy of Never")
}

pub(super) fn created(container: &str) -> Note {
    Note::normal("Created", &format!("Created container {container}"))
}

pub(super) fn started(container: &str) -> Note {
    Note::normal("Started", &format!("Started container {container}"))
}

pub(super) fn killing(container: &str) -> Note {
    Note::normal("Killing", &format!("Stopping container {container}"))
}

/// The event about a container that crashes again and again, and its waiting message.
pub(super) fn crash_loop(pod: &Pod, container: &str, wait: SignedDuration) -> (Note, String) {
    let metadata = &pod.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let pod = format!("{name}_{namespace}({uid})");
    let event = format!("Back-off restarting failed container {container} in pod {pod}");
    let message =
        format!("back-off {} restarting failed container={container} pod={pod}", millis(wait));
    (Note::warning("BackOff", &event), message)
}

pub(super) fn bad_annotation(why: &str) -> Note {
    let message = format!("{why}; the container goes by the defaults");
    Note::warning("InvalidAnnotation", &message)
}

/// Go's way to write a duration, cut to milliseconds.
fn millis(duration: SignedDuration) -> Duration {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(0);
    Duration(std::time::Duration::from_millis(millis))
}
