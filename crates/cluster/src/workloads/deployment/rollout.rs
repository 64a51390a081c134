//! One look at one Deployment: which ReplicaSets it should have, and how large.
//!
//! Source: Kubernetes `pkg/controller/deployment/{sync,rolling,recreate}.go`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::limits::{is_rolling, max_surge, max_unavailable, wanted};
use super::revision::{self, HASH_LABEL, REVISION};
use super::status::{self, available, condition, replicas, set_condition};
use super::{COMPONENT, controller_ref, key};
use crate::events::{self, EventType};
use crate::registry::{Cluster, DeleteOptions, Part};
use crate::status::Status;
use crate::workloads::owner::controller_of;
use crate::workloads::pod_control::is_namespace_terminating;
use crate::workloads::template_hash::template_hash;

/// Brings `deployment` one step further; `sets` are its ReplicaSets, oldest first. Returns when
/// to look again even if nothing happens.
///
/// # Errors
///
/// What the registry answers to a write; what was done until then stays.
pub(super) fn reconcile(
    cluster: &Cluster,
    deployment: &Deployment,
    sets: Vec<Arc<ReplicaSet>>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Status> {
    let template = deployment.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let position = sets.iter().position(|set| revision::is_of(set, &template));
    let mut old = sets;
    let new = position.map(|position| old.remove(position));
    let mut rollout = Rollout { cluster, deployment: deployment.clone(), old, new, now };
    let result = rollout.advance();
    // What was found out is written even if a step failed.
    let again = rollout.write_status(deployment, result.is_ok())?;
    result.map(|()| again)
}

struct Rollout<'a> {
    cluster: &'a Cluster,
    /// Its status and annotations gather what will be written.
    deployment: Deployment,
    old: Vec<Arc<ReplicaSet>>,
    new: Option<Arc<ReplicaSet>>,
    now: Timestamp,
}

impl Rollout<'_> {
    fn advance(&mut self) -> Result<(), Status> {
        if self.deployment.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let mut noted = self.deployment.status.clone().unwrap_or_default();
        status::note_paused(&self.deployment, &mut noted, self.now);
        self.deployment.status = Some(noted);
        self.sync_new()?;
        if status::is_paused(&self.deployment) {
            self.scale()?;
            return self.clean_up();
        }
        let scaled_by_user = self
            .active()
            .iter()
            .filter_map(|set| revision::desired(set))
            .any(|desired| desired != wanted(&self.deployment));
        if scaled_by_user {
            return self.scale();
        }
        if is_rolling(&self.deployment) { self.roll() } else { self.recreate() }
    }

    /// Sets with pods, oldest first, the current one last.
    fn active(&self) -> Vec<Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new).filter(|set| replicas(set) > 0).cloned().collect()
    }

    /// Brings annotations and revision of the current set up to date.
    fn sync_new(&mut self) -> Result<(), Status> {
        let newest = self.old.iter().map(|set| revision::revision(set)).max().unwrap_or(0) + 1;
        let Some(new) = &self.new else { return Ok(()) };
        let min_ready = self.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
        let before = new.metadata.annotations.clone().unwrap_or_default();
        let after = revision::annotations(&before, &self.deployment, newest);
        let own = new.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
        if after != before || own.unwrap_or(0) != min_ready.unwrap_or(0) {
            let (namespace, name) = key(&new.metadata);
            let set = self.cluster.modify::<ReplicaSet>(&namespace, &name, |set| {
                set.metadata.annotations = Some(after.clone());
                if let Some(spec) = &mut set.spec {
                    spec.min_ready_seconds = min_ready;
                }
            })?;
            self.new = Some(set);
        }
        let new = self.new.clone().unwrap_or_default();
        self.note_revision(&new);
        let status = self.deployment.status.get_or_insert_default();
        if status::find(status, "Progressing").is_none()
            && status::progress_deadline(&self.deployment).is_some()
        {
            let message = format!("Found new replica set {:?}", key(&new.metadata).1);
            self.note("True", "FoundNewReplicaSet", &message);
        }
        Ok(())
    }

    fn note_revision(&mut self, set: &ReplicaSet) {
        let revision = set.metadata.annotations.as_ref().and_then(|map| map.get(REVISION));
        let annotations = self.deployment.metadata.annotations.get_or_insert_default();
        if let Some(revision) = revision {
            annotations.insert(REVISION.into(), revision.clone());
        }
    }

    fn note(&mut self, truth: &str, reason: &str, message: &str) {
        let condition = condition("Progressing", truth, reason, message, self.now);
        set_condition(self.deployment.status.get_or_insert_default(), condition);
    }

    fn tell(&self, event_type: EventType, reason: &str, message: &str) {
        let about = events::reference(&self.deployment);
        events::record(self.cluster, COMPONENT, None, &about, event_type, reason, message);
    }

    /// Creates the set of the current template if there is none.
    fn create_new(&mut self) -> Result<(), Status> {
        if self.new.is_some() {
            return Ok(());
        }
        let set = self.describe_new();
        let (namespace, name) = key(&set.metadata);
        let deadline = status::progress_deadline(&self.deployment).is_some();
        let created = match self.cluster.create(&namespace, &set) {
            Ok(created) => created,
            Err(error) if error.reason == "AlreadyExists" => {
                let existing = self.cluster.get::<ReplicaSet>(&namespace, &name);
                return self.resolve_collision(existing, error);
            }
            Err(error) if is_namespace_terminating(&error) => return Err(error),
            Err(error) => {
                let message = format!("Failed to create new replica set {name:?}: {error}");
                if deadline {
                    self.note("False", "ReplicaSetCreateError", &message);
                }
                self.tell(EventType::Warning, "ReplicaSetCreateError", &message);
                return Err(error);
            }
        };
        if replicas(&created) > 0 {
            let count = replicas(&created);
            let message = format!("Scaled up replica set {name} from 0 to {count}");
            self.tell(EventType::Normal, "ScalingReplicaSet", &message);
        }
        self.note_revision(&created);
        if deadline {
            let message = format!("Created new replica set {name:?}");
            self.note("True", "NewReplicaSetCreated", &message);
        }
        self.new = Some(created);
        Ok(())
    }

    fn resolve_collision(
        &mut self,
        existing: Option<Arc<ReplicaSet>>,
        error: Status,
    ) -> Result<(), Status> {
        let template = self.deployment.spec.as_ref().map(|spec| spec.template.clone());
        if let Some(set) = existing
            && controller_of(&set.metadata).map(|owner| &owner.uid)
                == self.deployment.metadata.uid.as_ref()
            && template.is_some_and(|template| revision::is_of(&set, &template))
        {
            self.note_revision(&set);
            self.new = Some(set);
            return Ok(());
        }
        let status = self.deployment.status.get_or_insert_default();
        status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
        Err(error)
    }

    fn describe_new(&self) -> ReplicaSet {
        let deployment = &self.deployment;
        let spec = deployment.spec.clone().unwrap_or_default();
        let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
        let hash = template_hash(&spec.template, collisions);
        let mut template = spec.template;
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(HASH_LABEL.into(), hash.clone());
        let labels = labels.clone();
        let mut selector = spec.selector;
        selector.match_labels.get_or_insert_default().insert(HASH_LABEL.into(), hash.clone());
        let (namespace, name) = key(&deployment.metadata);
        let newest = self.old.iter().map(|set| revision::revision(set)).max().unwrap_or(0) + 1;
        let mut annotations =
            revision::annotations(&std::collections::BTreeMap::new(), deployment, newest);
        revision::note_scale(&mut annotations, deployment);
        let name: String = name.chars().take(253 - 1 - hash.len()).collect();
        ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{name}-{hash}")),
                namespace: Some(namespace),
                labels: Some(labels),
                annotations: Some(annotations),
                owner_references: Some(vec![controller_ref(deployment)]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(self.new_size(0)),
                min_ready_seconds: spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        }
    }

    /// How large the current set, now at `size`, may be.
    fn new_size(&self, size: i32) -> i32 {
        let wanted = wanted(&self.deployment);
        if !is_rolling(&self.deployment) {
            return wanted;
        }
        let total: i32 = self.old.iter().map(|set| replicas(set)).sum::<i32>() + size;
        let room = wanted + max_surge(&self.deployment) - total;
        size + room.min(wanted - size).max(0)
    }

    fn resize(&self, set: &Arc<ReplicaSet>, size: i32) -> Result<Arc<ReplicaSet>, Status> {
        let (namespace, name) = key(&set.metadata);
        let before = replicas(set);
        let set = self.cluster.modify::<ReplicaSet>(&namespace, &name, |set| {
            set.spec.get_or_insert_default().replicas = Some(size);
            let annotations = set.metadata.annotations.get_or_insert_default();
            revision::note_scale(annotations, &self.deployment);
        })?;
        if before != size {
            let direction = if before < size { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {name} from {before} to {size}");
            self.tell(EventType::Normal, "ScalingReplicaSet", &message);
        }
        Ok(set)
    }

    /// Resizes the set wherever it is kept.
    fn resize_named(&mut self, name: Option<&String>, size: i32) -> Result<(), Status> {
        if let Some(set) = self.new.as_ref().filter(|set| set.metadata.name.as_ref() == name) {
            self.new = Some(self.resize(set, size)?);
        } else if let Some(position) =
            self.old.iter().position(|set| set.metadata.name.as_ref() == name)
        {
            self.old[position] = self.resize(&self.old[position], size)?;
        }
        Ok(())
    }

    fn roll(&mut self) -> Result<(), Status> {
        self.create_new()?;
        let Some(new) = self.new.clone() else { return Ok(()) };
        let wanted = wanted(&self.deployment);
        let size = if replicas(&new) > wanted { wanted } else { self.new_size(replicas(&new)) };
        if size != replicas(&new) {
            self.new = Some(self.resize(&new, size)?);
            return Ok(());
        }
        if self.shrink_old(&new)? {
            return Ok(());
        }
        self.clean_up_if_complete()
    }

    /// Takes from the old sets as many pods as availability allows, unhealthy ones first; whether
    /// it took any.
    fn shrink_old(&mut self, new: &ReplicaSet) -> Result<bool, Status> {
        let old: i32 = self.old.iter().map(|set| replicas(set)).sum();
        if old == 0 {
            return Ok(false);
        }
        let needed = wanted(&self.deployment) - max_unavailable(&self.deployment);
        let unavailable = replicas(new) - available(new);
        let mut budget = old + replicas(new) - needed - unavailable;
        if budget <= 0 {
            return Ok(false);
        }
        let mut shrunk = false;
        for position in 0..self.old.len() {
            let set = self.old[position].clone();
            let take = budget.min(replicas(&set) - available(&set));
            if take > 0 {
                self.old[position] = self.resize(&set, replicas(&set) - take)?;
                budget -= take;
                shrunk = true;
            }
        }
        let all: i32 = self.old.iter().map(|set| available(set)).sum::<i32>() + available(new);
        let mut spare = all - needed;
        for position in 0..self.old.len() {
            let set = self.old[position].clone();
            let take = spare.min(replicas(&set));
            if take > 0 {
                self.old[position] = self.resize(&set, replicas(&set) - take)?;
                spare -= take;
                shrunk = true;
            }
        }
        Ok(shrunk)
    }

    /// All old pods go before the first new one comes.
    fn recreate(&mut self) -> Result<(), Status> {
        let mut shrunk = false;
        for position in 0..self.old.len() {
            if replicas(&self.old[position]) > 0 {
                self.old[position] = self.resize(&self.old[position].clone(), 0)?;
                shrunk = true;
            }
        }
        let running = self.old.iter().any(|set| {
            set.status.as_ref().is_some_and(|status| {
                status.replicas > 0
                    || status.terminating_replicas.unwrap_or(0) > 0
                    || status.observed_generation < set.metadata.generation
            })
        });
        if shrunk || running {
            return Ok(());
        }
        self.create_new()?;
        if let Some(new) = self.new.clone()
            && replicas(&new) != wanted(&self.deployment)
        {
            self.new = Some(self.resize(&new, wanted(&self.deployment))?);
        }
        self.clean_up_if_complete()
    }

    /// The user changed the number of replicas, maybe in the middle of a rollout: all sets change
    /// in proportion.
    fn scale(&mut self) -> Result<(), Status> {
        let wanted = wanted(&self.deployment);
        let mut active = self.active();
        if active.len() <= 1 {
            let latest = active.pop().or_else(|| self.new.clone());
            let Some(set) = latest.or_else(|| self.old.last().cloned()) else { return Ok(()) };
            if replicas(&set) != wanted {
                self.resize_named(set.metadata.name.as_ref(), wanted)?;
            }
            return Ok(());
        }
        let saturated = self.new.as_ref().is_some_and(|set| {
            replicas(set) == wanted
                && revision::desired(set) == Some(wanted)
                && available(set) == wanted
        });
        if saturated {
            for set in self.old.clone().iter().filter(|set| replicas(set) > 0) {
                self.resize_named(set.metadata.name.as_ref(), 0)?;
            }
            return Ok(());
        }
        if !is_rolling(&self.deployment) {
            return Ok(());
        }
        let allowed = if wanted > 0 { wanted + max_surge(&self.deployment) } else { 0 };
        let add = allowed - active.iter().map(|set| replicas(set)).sum::<i32>();
        active.sort_by(|a, b| {
            let age = revision::age(a).cmp(&revision::age(b));
            let age = if add > 0 { age.reverse() } else { age };
            replicas(b).cmp(&replicas(a)).then(age)
        });
        let mut added = 0;
        let mut sizes = Vec::new();
        for set in &active {
            let share = self.share(set, add - added);
            added += share;
            sizes.push(replicas(set) + share);
        }
        // What rounding left over goes to the largest.
        sizes[0] = (sizes[0] + add - added).max(0);
        for (set, size) in active.iter().zip(sizes) {
            self.resize_named(set.metadata.name.as_ref(), size)?;
        }
        Ok(())
    }

    /// What a set gets (or loses) of a change of which `left` is still to be given out.
    fn share(&self, set: &ReplicaSet, left: i32) -> i32 {
        let wanted = wanted(&self.deployment);
        let size = replicas(set);
        let fraction = if wanted == 0 {
            -size
        } else {
            let status = self.deployment.status.as_ref();
            let total = status.and_then(|status| status.replicas).unwrap_or(0);
            let before = revision::max(set).filter(|max| *max > 0).unwrap_or(total);
            if before == 0 {
                return 0;
            }
            let limit = wanted + max_surge(&self.deployment);
            let scaled = f64::from(size) * f64::from(limit) / f64::from(before);
            #[expect(clippy::cast_possible_truncation, reason = "a share of an i32")]
            let scaled = scaled.round() as i32;
            scaled - size
        };
        if left > 0 { fraction.min(left) } else { fraction.max(left) }
    }

    fn clean_up_if_complete(&mut self) -> Result<(), Status> {
        let status = self.deployment.status.clone().unwrap_or_default();
        if status::is_complete(&self.deployment, &status) { self.clean_up() } else { Ok(()) }
    }

    /// Deletes old empty sets beyond `revisionHistoryLimit`, lowest revision first.
    fn clean_up(&mut self) -> Result<(), Status> {
        let spec = self.deployment.spec.as_ref();
        let Some(limit) = spec.and_then(|spec| spec.revision_history_limit) else { return Ok(()) };
        let mut alive: Vec<_> =
            self.old.iter().filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
        let excess = alive.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        alive.sort_by_key(|set| (revision::revision(set), revision::age(set)));
        for set in alive.into_iter().take(excess) {
            let status = set.status.clone().unwrap_or_default();
            let settled = status.observed_generation >= set.metadata.generation;
            if status.replicas != 0 || replicas(set) != 0 || !settled {
                continue;
            }
            let (namespace, name) = key(&set.metadata);
            let options = DeleteOptions::default();
            self.cluster.delete::<ReplicaSet>(&namespace, &name, &options)?;
        }
        Ok(())
    }

    /// Writes status and revision if they changed since `before`. Progress is only judged when
    /// this look went through and nothing is paused.
    fn write_status(&self, before: &Deployment, went: bool) -> Result<Option<Timestamp>, Status> {
        let (old, new) = (&self.old, self.new.as_ref());
        let mut status = status::calculate(&self.deployment, old, new, self.now);
        let judged = went
            && !status::is_paused(&self.deployment)
            && self.deployment.metadata.deletion_timestamp.is_none();
        let again = if judged {
            // Progress is measured against the status that is stored.
            let mut with_stored = self.deployment.clone();
            with_stored.status.clone_from(&before.status);
            status::note_progress(&with_stored, &mut status, old, new, self.now)
        } else {
            None
        };
        let revision = |of: &Deployment| {
            of.metadata.annotations.as_ref().and_then(|map| map.get(REVISION)).cloned()
        };
        let revision_after = revision(&self.deployment);
        if before.status.as_ref() == Some(&status) && revision(before) == revision_after {
            return Ok(again);
        }
        let (namespace, name) = key(&before.metadata);
        let written =
            self.cluster.modify_part::<Deployment>(&namespace, &name, Part::Whole, |current| {
                if current.metadata.uid != before.metadata.uid {
                    return;
                }
                current.status = Some(status.clone());
                if let Some(revision) = &revision_after {
                    let annotations = current.metadata.annotations.get_or_insert_default();
                    annotations.insert(REVISION.into(), revision.clone());
                }
            });
        match written {
            Err(error) if error.code != 404 => Err(error),
            _ => Ok(again),
        }
    }
}
