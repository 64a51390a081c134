//! What was bought, from when to when, at what price, and who used it.
//!
//! A machine is paid for from the moment that the provider has answered its order until it is
//! gone, to the millisecond, without the cloud's minimum of one minute.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_api::{NodeClaim, labels};
use aerostat_engine::cost;
use aerostat_engine::resources::Resources;
use aerostat_provider::catalog::Region;
use jiff::Timestamp;

use super::pods::OnNode;

/// Who pays for a machine as long as no pod is on it.
const NOBODY: &str = "(idle)";

/// All machines of a run.
#[derive(Debug)]
pub(crate) struct Machines {
    region: Arc<Region>,
    fee: f64,
    /// By the claim's UID.
    live: BTreeMap<String, Machine>,
    by_provider_id: BTreeMap<String, String>,
    /// What machines that are gone, or were there at the end, have cost.
    pub(crate) bills: BTreeMap<Offer, Bill>,
    /// USD by namespace.
    pub(crate) by_namespace: BTreeMap<String, f64>,
    pub(crate) launched: u64,
    /// Claims that were given back, by reason.
    pub(crate) disrupted: BTreeMap<String, u64>,
}

/// Under what terms a machine was bought.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offer {
    pub(crate) pool: String,
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
}

/// What an offer has cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bill {
    /// USD per hour of a machine.
    pub(crate) price: f64,
    /// USD per hour of Auto Mode's fee on it.
    pub(crate) fee: f64,
    pub(crate) launched: u64,
    pub(crate) seconds: f64,
}

#[derive(Debug)]
struct Machine {
    /// The claim's name.
    claim: String,
    offer: Offer,
    provider_id: String,
    price: f64,
    fee: f64,
    allocatable: Resources,
    from: Timestamp,
    /// Until when its users have paid.
    settled: Timestamp,
    /// Namespace and dominant share, in parts of 10^9, of each pod by UID.
    pods: BTreeMap<String, (String, u64)>,
    disruption: Option<String>,
}

impl Bill {
    pub(crate) fn usd(&self) -> f64 {
        self.seconds * self.price / 3600.0
    }

    pub(crate) fn fee_usd(&self) -> f64 {
        self.seconds * self.fee / 3600.0
    }
}

impl Machines {
    pub(crate) fn new(region: Arc<Region>, fee: f64) -> Self {
        Self {
            region,
            fee,
            live: BTreeMap::new(),
            by_provider_id: BTreeMap::new(),
            bills: BTreeMap::new(),
            by_namespace: BTreeMap::new(),
            launched: 0,
            disrupted: BTreeMap::new(),
        }
    }

    /// A claim came or changed: once it has a machine, that is paid for.
    pub(crate) fn claim(&mut self, claim: &NodeClaim, now: Timestamp) {
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let Some(status) = &claim.status else { return };
        let reason = status.conditions.iter().find(|c| c.type_ == "DisruptionReason");
        let reason = reason.filter(|condition| condition.status == "True");
        if let Some(machine) = self.live.get_mut(uid) {
            if let Some(condition) = reason {
                machine.disruption = Some(condition.reason.clone());
            }
            return;
        }
        let Some(provider_id) = status.provider_id.clone() else { return };
        let label = |key: &str| {
            let labels = claim.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
        };
        let offer = Offer {
            pool: label(labels::NODEPOOL),
            instance_type: label(labels::INSTANCE_TYPE),
            zone: label(labels::ZONE),
            capacity_type: label(labels::CAPACITY_TYPE),
        };
        let (price, fee) = self.price(&offer);
        let allocatable = status.allocatable.as_ref();
        let machine = Machine {
            claim: claim.metadata.name.clone().unwrap_or_default(),
            provider_id: provider_id.clone(),
            price,
            fee,
            allocatable: allocatable.map(Resources::from_quantities).unwrap_or_default(),
            from: now,
            settled: now,
            pods: BTreeMap::new(),
            disruption: reason.map(|condition| condition.reason.clone()),
            offer,
        };
        self.launched += 1;
        self.by_provider_id.insert(provider_id, uid.to_owned());
        self.live.insert(uid.to_owned(), machine);
    }

    /// USD per hour, and that of the fee. What was reserved is paid already; the fee on it is not.
    fn price(&self, offer: &Offer) -> (f64, f64) {
        let Some(kind) = self.region.instance_type(&offer.instance_type) else { return (0.0, 0.0) };
        let mut offerings = kind.offerings.iter();
        let listed = offerings
            .find(|o| o.zone == offer.zone && o.capacity_type == offer.capacity_type)
            .map_or(0.0, |listed| listed.price);
        (listed, cost::fee(self.fee, kind, &offer.zone))
    }

    /// The claim of a machine.
    pub(crate) fn uid_of(&self, provider_id: &str) -> Option<String> {
        self.by_provider_id.get(provider_id).cloned()
    }

    /// A pod uses a machine.
    pub(crate) fn carry(&mut self, uid: &str, pod: &OnNode, now: Timestamp) {
        let Some(machine) = self.live.get_mut(uid) else { return };
        machine.settle(now, &mut self.by_namespace);
        let share = dominant_share(&machine.allocatable, &pod.requests);
        machine.pods.insert(pod.uid.clone(), (pod.namespace.clone(), share));
    }

    /// It no longer does.
    pub(crate) fn release(&mut self, uid: &str, pod: &str, now: Timestamp) {
        let Some(machine) = self.live.get_mut(uid) else { return };
        machine.settle(now, &mut self.by_namespace);
        machine.pods.remove(pod);
    }

    /// It was decided that a claim is to go.
    pub(crate) fn given_up(&mut self, claim: &str, reason: &str) {
        let machine = self.live.values_mut().find(|machine| machine.claim == claim);
        if let Some(machine) = machine {
            machine.disruption.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// A claim is gone, and its machine; the UIDs of pods that were still on it.
    pub(crate) fn end(&mut self, uid: &str, now: Timestamp) -> Vec<String> {
        let Some(machine) = self.live.remove(uid) else { return Vec::new() };
        let reason = machine.disruption.clone().unwrap_or_else(|| "Deleted".to_owned());
        *self.disrupted.entry(reason).or_default() += 1;
        self.by_provider_id.remove(&machine.provider_id);
        self.charge(machine, now)
    }

    fn charge(&mut self, mut machine: Machine, now: Timestamp) -> Vec<String> {
        machine.settle(now, &mut self.by_namespace);
        let bill = self.bills.entry(machine.offer).or_default();
        bill.price = machine.price;
        bill.fee = machine.fee;
        bill.launched += 1;
        bill.seconds += now.duration_since(machine.from).as_secs_f64();
        machine.pods.into_keys().collect()
    }

    /// Charges what is still there.
    pub(crate) fn close(&mut self, now: Timestamp) {
        for machine in std::mem::take(&mut self.live).into_values() {
            self.charge(machine, now);
        }
    }

    /// How many there are, their USD per hour, and the milli-cores and bytes of room on them.
    pub(crate) fn now(&self) -> (f64, f64, (f64, f64)) {
        let mut all = (0.0, 0.0, (0.0, 0.0));
        for machine in self.live.values() {
            all.0 += 1.0;
            all.1 += machine.price;
            #[expect(clippy::cast_precision_loss, reason = "sums of room fit 53 bits")]
            let room = (machine.allocatable.cpu as f64, machine.allocatable.memory as f64);
            all.2.0 += room.0;
            all.2.1 += room.1;
        }
        all
    }
}

impl Machine {
    /// Parts what the machine has cost since the last time among those who use it, by dominant
    /// share: room that nobody uses is paid for by all.
    fn settle(&mut self, now: Timestamp, by_namespace: &mut BTreeMap<String, f64>) {
        let usd = now.duration_since(self.settled).as_secs_f64() * self.price / 3600.0;
        self.settled = now;
        if usd <= 0.0 {
            return;
        }
        let mut shares: BTreeMap<&str, u64> = BTreeMap::new();
        for (namespace, share) in self.pods.values() {
            *shares.entry(namespace).or_default() += share;
        }
        let all: u64 = shares.values().sum();
        if all == 0 {
            *by_namespace.entry(NOBODY.to_owned()).or_default() += usd;
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        for (namespace, share) in shares.into_iter().filter(|(_, share)| *share > 0) {
            let part = usd * share as f64 / all as f64;
            match by_namespace.get_mut(namespace) {
                Some(sum) => *sum += part,
                None => drop(by_namespace.insert(namespace.to_owned(), part)),
            }
        }
    }
}

/// The largest part of any one resource, in parts of 10^9.
fn dominant_share(allocatable: &Resources, asked: &Resources) -> u64 {
    let part = |amount: i64, room: i64| -> u64 {
        let part = i128::from(amount.max(0)) * 1_000_000_000 / i128::from(room.max(1));
        u64::try_from(part).unwrap_or(u64::MAX).min(1_000_000_000)
    };
    let fixed = [
        part(asked.cpu, allocatable.cpu),
        part(asked.memory, allocatable.memory),
        part(asked.storage, allocatable.storage),
        part(asked.pods, allocatable.pods),
    ];
    let other = asked.other.iter().map(|(name, amount)| part(*amount, allocatable.get(name)));
    fixed.into_iter().chain(other).max().unwrap_or(0)
}
