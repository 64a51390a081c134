//! How far a drain has come: conditions of the claim.

use aerostat_api::{NodeClaim, labels};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::conditions::ConditionSet;
use crate::context::{Context, Error, gone_is_fine};
use crate::lifecycle::DEPENDENTS;

/// The conditions of a draining node's claim; of a node without one, nothing.
pub(super) struct Progress(Option<(NodeClaim, ConditionSet)>);

impl Progress {
    pub(super) fn of(claim: Option<&NodeClaim>, now: Timestamp) -> Self {
        Self(claim.map(|claim| {
            let status = claim.status.clone().unwrap_or_default();
            let generation = claim.metadata.generation;
            let set = ConditionSet::new(&status.conditions, DEPENDENTS, generation, now, now);
            (claim.clone(), set)
        }))
    }

    /// When the node goes whatever its pods say. A time that cannot be read is none.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let (claim, _) = self.0.as_ref()?;
        claim.annotations().get(labels::TERMINATION_TIMESTAMP)?.parse().ok()
    }

    /// Why the node is given up, in one word.
    pub(super) fn cause(&self) -> &str {
        let status = self.0.as_ref().and_then(|(claim, _)| claim.status.as_ref());
        let mut conditions = status.iter().flat_map(|status| &status.conditions);
        let disrupted = conditions.find(|c| c.type_ == "DisruptionReason" && c.status == "True");
        disrupted.map_or("Forceful Termination", |condition| condition.reason.as_str())
    }

    pub(super) fn wait_for(&mut self, name: &str, reason: &str) {
        self.set(name, "Unknown", reason);
    }

    /// Whether that is news.
    pub(super) fn done(&mut self, name: &str) -> bool {
        let Some((_, conditions)) = &mut self.0 else { return false };
        let is_news = !conditions.is_true(name);
        conditions.set_true(name);
        is_news
    }

    pub(super) fn given_up(&mut self, name: &str, reason: &str) {
        self.set(name, "False", reason);
    }

    fn set(&mut self, name: &str, status: &str, reason: &str) {
        if let Some((_, conditions)) = &mut self.0 {
            conditions.set(name, status, reason, reason);
        }
    }

    /// Writes the conditions if they have changed.
    pub(super) async fn save(self, context: &Context) -> Result<(), Error> {
        let Some((claim, conditions)) = self.0 else { return Ok(()) };
        let conditions = conditions.finish();
        if claim.status.as_ref().is_some_and(|status| status.conditions == conditions) {
            return Ok(());
        }
        // Others write conditions too: the list is replaced as a whole, and only if it is known.
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": claim.metadata.resource_version},
            "status": {"conditions": conditions},
        }));
        let api = Api::<NodeClaim>::all(context.client.clone());
        match api.patch_status(&claim.name_any(), &PatchParams::default(), &patch).await {
            Ok(claim) => {
                context.index().claims.learn(claim);
                Ok(())
            }
            error => gone_is_fine(error),
        }
    }
}
