//! Says of each PodDisruptionBudget how many of its pods may be evicted now.
//!
//! Behaviour follows Kubernetes `pkg/controller/disruption`.

mod scale;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::deployment::scaled;
use super::owner::{controller_of, key};
use super::pods::{condition, is_ready};
use super::queue::Queue;
use super::selector::matches;
use crate::events::{self, EventType};
use crate::informer::{Change, Informer};
use crate::registry::{Cluster, Typed};
use crate::status::Status;
use crate::store::Key;

const COMPONENT: &str = "controllermanager";
/// A pod that was evicted counts as gone for so long, even if it is still there; the same holds
/// for its condition.
const EVICTED_FOR: SignedDuration = SignedDuration::from_mins(2);

/// Runs the controller until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut budgets = cluster.informer::<PodDisruptionBudget>();
    let mut pods = cluster.informer::<Pod>();
    let mut deployments = cluster.informer::<Deployment>();
    let mut sets = cluster.informer::<ReplicaSet>();
    let mut stateful_sets = cluster.informer::<StatefulSet>();
    let mut controller = Controller::new(cluster.clone());
    loop {
        tokio::select! {
            biased;
            change = budgets.next() => match change {
                Some(change) => controller.budget_changed(change),
                None => return,
            },
            change = pods.next() => match change {
                Some(change) => controller.pod_changed(change),
                None => return,
            },
            Some(change) = deployments.next() => {
                controller.scale_changed(&change, |d| d.spec.as_ref()?.replicas);
            }
            Some(change) = sets.next() => {
                controller.scale_changed(&change, |s| s.spec.as_ref()?.replicas);
            }
            Some(change) = stateful_sets.next() => {
                controller.scale_changed(&change, |s| s.spec.as_ref()?.replicas);
            }
            () = controller.queue.due(cluster.clock()) => {}
        }
        controller.drain(&mut budgets, &mut pods);
        while let Some(task) = controller.queue.pop(cluster.clock().now()) {
            controller.perform(task);
            controller.drain(&mut budgets, &mut pods);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// Count the pods of a budget.
    Budget(Key),
    /// Take back the condition of a pod that was to be disrupted and was not.
    StalePod(Key),
}

struct Controller {
    cluster: Cluster,
    budgets: BTreeMap<Key, Arc<PodDisruptionBudget>>,
    pods: BTreeMap<Key, Arc<Pod>>,
    queue: Queue<Task>,
}

impl Controller {
    fn new(cluster: Cluster) -> Self {
        Self { cluster, budgets: BTreeMap::new(), pods: BTreeMap::new(), queue: Queue::default() }
    }

    fn drain(&mut self, budgets: &mut Informer<PodDisruptionBudget>, pods: &mut Informer<Pod>) {
        while let Some(change) = budgets.try_next() {
            self.budget_changed(change);
        }
        while let Some(change) = pods.try_next() {
            self.pod_changed(change);
        }
    }

    fn budget_changed(&mut self, change: Change<PodDisruptionBudget>) {
        match change {
            Change::Applied { new, .. } => {
                let key = key(&new.metadata);
                self.budgets.insert(key.clone(), new);
                self.queue.add(Task::Budget(key));
            }
            Change::Deleted(budget) => {
                let key = key(&budget.metadata);
                self.budgets.remove(&key);
                self.queue.succeeded(&Task::Budget(key));
            }
        }
    }

    fn pod_changed(&mut self, change: Change<Pod>) {
        let (new, old) = match &change {
            Change::Applied { new, old } => (Some(new), old.as_ref()),
            Change::Deleted(pod) => (None, Some(pod)),
        };
        let facts = |pod: &Arc<Pod>| {
            let owner = controller_of(&pod.metadata).map(|owner| owner.uid.clone());
            let deleting = pod.metadata.deletion_timestamp.is_some();
            (pod.metadata.labels.clone(), is_ready(pod), deleting, owner)
        };
        if new.map(facts) != old.map(facts) {
            for pod in new.into_iter().chain(old) {
                self.add_budgets_of(pod);
            }
        }
        if let Some(pod) = new
            && let Some(when) = stale_at(pod)
        {
            self.queue.add_at(when, Task::StalePod(key(&pod.metadata)));
        }
        match change {
            Change::Applied { new, .. } => self.pods.insert(key(&new.metadata), new),
            Change::Deleted(pod) => self.pods.remove(&key(&pod.metadata)),
        };
    }

    fn add_budgets_of(&mut self, pod: &Pod) {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        for (key, budget) in within(&self.budgets, &namespace) {
            if covers(budget, &labels) {
                self.queue.add(Task::Budget(key.clone()));
            }
        }
    }

    /// A controller that wants another number of pods changes what a share of them is.
    fn scale_changed<K>(&mut self, change: &Change<K>, replicas: fn(&K) -> Option<i32>)
    where
        K: Typed + Metadata<Ty = ObjectMeta>,
    {
        let (object, same) = match change {
            Change::Applied { new, old } => {
                (new, old.as_ref().is_some_and(|old| replicas(old) == replicas(new)))
            }
            Change::Deleted(object) => (object, false),
        };
        if !same {
            let (namespace, _) = key(object.metadata());
            for (key, _) in within(&self.budgets, &namespace) {
                self.queue.add(Task::Budget(key.clone()));
            }
        }
    }

    fn perform(&mut self, task: Task) {
        let now = self.cluster.clock().now();
        let result = match &task {
            Task::Budget(key) => self.count(key, now),
            Task::StalePod(key) => self.clear_stale(key, now),
        };
        match result {
            Ok(()) => self.queue.succeeded(&task),
            Err(status) if status.code == 404 => self.queue.succeeded(&task),
            Err(status) => {
                tracing::debug!(%status, ?task, "budget is counted again later");
                self.queue.retry(task, now);
            }
        }
    }

    fn count(&mut self, key: &Key, now: Timestamp) -> Result<(), Status> {
        let Some(budget) = self.cluster.get::<PodDisruptionBudget>(&key.0, &key.1) else {
            return Ok(());
        };
        let empty = BTreeMap::new();
        let pods: Vec<Arc<Pod>> = within(&self.pods, &key.0)
            .map(|(_, pod)| pod)
            .filter(|pod| covers(&budget, pod.metadata.labels.as_ref().unwrap_or(&empty)))
            .cloned()
            .collect();
        if pods.is_empty() {
            self.tell(&budget, EventType::Normal, "NoPods", "No matching pods found");
        }
        let (expected, desired) = match self.expectations(&budget, &pods) {
            Ok(numbers) => numbers,
            Err(why) => {
                let message = format!("Failed to calculate the number of expected pods: {why}");
                let reason = "CalculateExpectedPodCountFailed";
                self.tell(&budget, EventType::Warning, reason, &message);
                return self.give_up(key, &budget, &why, now);
            }
        };
        let (evicted, recheck) = self.evicted(&budget, &pods, now);
        let healthy = pods
            .iter()
            .filter(|pod| {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                pod.metadata.deletion_timestamp.is_none()
                    && !evicted.contains_key(name)
                    && is_ready(pod)
            })
            .count();
        let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        let mut status = PodDisruptionBudgetStatus {
            current_healthy: Some(healthy),
            desired_healthy: Some(desired),
            expected_pods: Some(expected),
            disruptions_allowed: Some(allowed),
            disrupted_pods: Some(evicted).filter(|evicted| !evicted.is_empty()),
            observed_generation: budget.metadata.generation,
            conditions: budget.status.clone().and_then(|status| status.conditions),
        };
        let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
        set_condition(&mut status, allowed > 0, reason, "", now);
        self.write(key, &budget, &status)?;
        if let Some(when) = recheck {
            self.queue.add_at(when, Task::Budget(key.clone()));
        }
        Ok(())
    }

    /// Nobody may be evicted as long as the numbers are unknown.
    fn give_up(
        &self,
        key: &Key,
        budget: &PodDisruptionBudget,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Status> {
        let mut status = budget.status.clone().unwrap_or_default();
        status.disruptions_allowed = Some(0);
        status.current_healthy.get_or_insert(0);
        status.desired_healthy.get_or_insert(0);
        status.expected_pods.get_or_insert(0);
        set_condition(&mut status, false, "SyncFailed", why, now);
        self.write(key, budget, &status)
    }

    fn write(
        &self,
        key: &Key,
        budget: &PodDisruptionBudget,
        status: &PodDisruptionBudgetStatus,
    ) -> Result<(), Status> {
        if budget.status.as_ref() == Some(status) {
            return Ok(());
        }
        // Evictions write the status as well: never over one that this look has not seen.
        let seen = budget.metadata.resource_version.clone();
        self.cluster
            .modify_status::<PodDisruptionBudget>(&key.0, &key.1, |budget| {
                budget.metadata.resource_version.clone_from(&seen);
                budget.status = Some(status.clone());
            })
            .map(drop)
    }

    /// How many pods there should be, and how many of them healthy.
    fn expectations(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Arc<Pod>],
    ) -> Result<(i32, i32), String> {
        let spec = budget.spec.clone().unwrap_or_default();
        if let Some(IntOrString::Int(needed)) = spec.min_available
            && spec.max_unavailable.is_none()
        {
            return Ok((i32::try_from(pods.len()).unwrap_or(i32::MAX), needed));
        }
        if spec.max_unavailable.is_none() && spec.min_available.is_none() {
            return Ok((0, 0));
        }
        let (expected, unmanaged) = scale::expected(&self.cluster, pods)?;
        if unmanaged {
            let selector = scale::go_format(spec.selector.as_ref());
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be \
                 unmanaged. As a result, the status of the PDB cannot be calculated correctly, \
                 which may result in undefined behavior. To account for these pods please set \
                 \".spec.minAvailable\" field of the PDB to an integer value."
            );
            self.tell(budget, EventType::Warning, "UnmanagedPods", &message);
        }
        let desired = match (&spec.max_unavailable, &spec.min_available) {
            (Some(most), _) => (expected - scaled(most, expected, true)).max(0),
            (None, Some(least)) => scaled(least, expected, true),
            (None, None) => 0,
        };
        Ok((expected, desired))
    }

    /// Pods that were evicted and are still there, and when the first of them counts again.
    fn evicted(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Arc<Pod>],
        now: Timestamp,
    ) -> (BTreeMap<String, Time>, Option<Timestamp>) {
        let before = budget.status.as_ref().and_then(|status| status.disrupted_pods.clone());
        let before = before.unwrap_or_default();
        let mut evicted = BTreeMap::new();
        let mut recheck = None::<Timestamp>;
        for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            let name = pod.metadata.name.clone().unwrap_or_default();
            let Some(at) = before.get(&name) else { continue };
            let until = at.0 + EVICTED_FOR;
            if until < now {
                let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
                // Upstream names the namespace twice.
                let message = format!(
                    "Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
                );
                let about = events::reference(&**pod);
                let warning = EventType::Warning;
                let (cluster, reason) = (&self.cluster, "NotDeleted");
                events::record(cluster, COMPONENT, None, &about, warning, reason, &message);
            } else {
                // A moment later, so that it is over then.
                let after = until + SignedDuration::from_millis(1);
                recheck = Some(recheck.map_or(after, |recheck| recheck.min(after)));
                evicted.insert(name, at.clone());
            }
        }
        (evicted, recheck)
    }

    fn clear_stale(&mut self, key: &Key, now: Timestamp) -> Result<(), Status> {
        let Some(pod) = self.cluster.get::<Pod>(&key.0, &key.1) else { return Ok(()) };
        let Some(when) = stale_at(&pod) else { return Ok(()) };
        if when > now {
            self.queue.add_at(when, Task::StalePod(key.clone()));
            return Ok(());
        }
        let write = self.cluster.modify_status::<Pod>(&key.0, &key.1, |pod| {
            let conditions = pod.status.as_mut().and_then(|status| status.conditions.as_mut());
            for condition in conditions.into_iter().flatten() {
                if condition.type_ == "DisruptionTarget" {
                    condition.status = "False".into();
                    condition.reason = None;
                    condition.message = None;
                    condition.last_transition_time = Some(Time(now));
                }
            }
        });
        write.map(drop)
    }

    fn tell(
        &self,
        budget: &PodDisruptionBudget,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let about = events::reference(budget);
        events::record(&self.cluster, COMPONENT, None, &about, event_type, reason, message);
    }
}

fn within<'a, T>(
    map: &'a BTreeMap<Key, T>,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a Key, &'a T)> {
    map.range((namespace.to_owned(), String::new())..)
        .take_while(move |((of, _), _)| of == namespace)
}

/// Without a selector a budget covers nothing, with an empty one everything.
fn covers(budget: &PodDisruptionBudget, labels: &BTreeMap<String, String>) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| matches(selector, labels))
}

/// When the disruption that a pod was marked for has not come, if it is marked.
fn stale_at(pod: &Pod) -> Option<Timestamp> {
    if pod.metadata.deletion_timestamp.is_some() || super::pods::is_finished(pod) {
        return None;
    }
    let marked = condition(pod, "DisruptionTarget").filter(|marked| marked.status == "True")?;
    Some(marked.last_transition_time.as_ref()?.0 + EVICTED_FOR)
}

fn set_condition(
    status: &mut PodDisruptionBudgetStatus,
    truth: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let truth = if truth { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    let mut condition = Condition {
        type_: "DisruptionAllowed".into(),
        status: truth.into(),
        reason: reason.into(),
        message: message.into(),
        last_transition_time: Time(now),
        observed_generation: status.observed_generation,
    };
    match conditions.iter_mut().find(|other| other.type_ == condition.type_) {
        Some(other) => {
            if other.status == truth {
                condition.last_transition_time = other.last_transition_time.clone();
            }
            *other = condition;
        }
        None => conditions.push(condition),
    }
}
