//! What goes wrong in the simulated cloud, when somebody wants it to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use aerostat_api::labels;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::Notify;

use super::lengths::exponential;
use super::{OfferingKey, Shared, SimCloud, node};
use crate::{Event, Notice, RepairPolicy};

/// How long before a spot machine is taken back its owner is told.
const WARNING: Duration = Duration::from_secs(120);

/// Those of Auto Mode. Source: aws/karpenter-provider-aws `pkg/cloudprovider/cloudprovider.go`.
pub(super) const REPAIR_POLICIES: &[RepairPolicy] = &[
    policy("Ready", "False", 30),
    policy("Ready", "Unknown", 30),
    policy("AcceleratedHardwareReady", "False", 10),
    policy("StorageReady", "False", 30),
    policy("NetworkingReady", "False", 30),
    policy("KernelReady", "False", 30),
    policy("ContainerRuntimeReady", "False", 30),
];

pub(super) const fn policy(
    condition: &'static str,
    status: &'static str,
    minutes: u64,
) -> RepairPolicy {
    RepairPolicy { condition, status, toleration: Duration::from_secs(minutes * 60) }
}

/// Faults that are still to come, and notices that nobody has acknowledged.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// How many of the next machines never boot.
    dead_boots: usize,
    notices: VecDeque<Notice>,
    sent: u64,
    arrived: Arc<Notify>,
}

impl Faults {
    /// Whether a machine that is ordered now never boots.
    pub(super) fn keeps_from_booting(&mut self) -> bool {
        let keeps = self.dead_boots > 0;
        self.dead_boots = self.dead_boots.saturating_sub(1);
        keeps
    }

    pub(super) fn acknowledge(&mut self, id: u64) {
        self.notices.retain(|notice| notice.id != id);
    }

    fn tell(&mut self, provider_id: &str, event: Event) {
        self.sent += 1;
        let notice = Notice { id: self.sent, provider_id: provider_id.to_owned(), event };
        self.notices.push_back(notice);
        self.arrived.notify_one();
    }
}

impl SimCloud {
    /// Keeps the next so many machines from ever joining.
    pub fn keep_from_booting(&self, count: usize) {
        self.shared.state().faults.dead_boots = count;
    }

    /// A machine is gone at once, as if somebody had terminated it by hand. With `notice` the cloud
    /// tells of it.
    pub fn lose(&self, provider_id: &str, notice: bool) {
        self.spawn(Arc::clone(&self.shared).lose(provider_id.to_owned(), notice));
    }

    /// Takes a machine back in two minutes, and tells so now. What it was is out of stock for a
    /// while.
    pub fn interrupt(&self, provider_id: &str) {
        if self.shared.warn(provider_id) {
            self.spawn(Arc::clone(&self.shared).lose_after_warning(provider_id.to_owned()));
        }
    }

    /// Decides by chance when a spot machine is taken back that was ordered now.
    pub(super) fn take_back(
        &self,
        labels: &BTreeMap<String, String>,
        provider_id: String,
        launch: Duration,
    ) {
        let rate = self.shared.timings.spot_interruptions_per_hour;
        let is_spot = labels.get(labels::CAPACITY_TYPE).is_some_and(|kind| kind == "spot");
        if rate <= 0.0 || !is_spot {
            return;
        }
        let hours = exponential(&mut self.shared.state().delays) / rate;
        // Longer than anything is simulated.
        let Ok(lives) = Duration::try_from_secs_f64((hours * 3600.0).min(6e7)) else { return };
        let shared = Arc::clone(&self.shared);
        self.spawn(async move {
            shared.clock.sleep(launch + lives).await;
            if shared.warn(&provider_id) {
                shared.lose_after_warning(provider_id).await;
            }
        });
    }
}

impl Shared {
    /// Tells that a machine is about to be taken back; whether it was there. What it was is out of
    /// stock for a while.
    fn warn(&self, provider_id: &str) -> bool {
        let mut state = self.state();
        let Some(machine) = state.machines.get(provider_id) else { return false };
        let label = |key| machine.instance.labels.get(key).cloned().unwrap_or_default();
        let offering = OfferingKey {
            instance_type: label(labels::INSTANCE_TYPE),
            zone: label(labels::ZONE),
            capacity_type: label(labels::CAPACITY_TYPE),
        };
        state.faults.tell(provider_id, Event::SpotInterruption);
        drop(state);
        self.learn(vec![offering]);
        true
    }

    async fn lose_after_warning(self: Arc<Self>, provider_id: String) {
        self.clock.sleep(WARNING).await;
        self.lose(provider_id, false).await;
    }

    pub(super) async fn next_notice(&self) -> Notice {
        loop {
            let arrived = {
                let state = self.state();
                if let Some(notice) = state.faults.notices.front() {
                    return notice.clone();
                }
                Arc::clone(&state.faults.arrived)
            };
            arrived.notified().await;
        }
    }

    /// Removes a machine; nobody plays its node any more.
    async fn lose(self: Arc<Self>, provider_id: String, notice: bool) {
        if !self.remove(&provider_id) {
            return;
        }
        if notice {
            self.state().faults.tell(&provider_id, Event::Terminated);
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let name = node::name(&provider_id);
        let patch = Patch::Merge(json!({"metadata": {"annotations": {node::PLAYED: null}}}));
        match nodes.patch(name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => tracing::warn!(%provider_id, %error, "a lost machine's node plays on"),
            Ok(_) => {}
        }
    }
}
