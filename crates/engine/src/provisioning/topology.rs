//! Constraints between pods: affinity, anti-affinity and topology spread.
//!
//! Whatever is about zones, capacity types or any other label but the host name is settled before
//! pods are placed: pods are shared out over the values of the label, and each share is kept to its
//! value as by a node selector. What is about host names becomes a rule that each machine keeps
//! while it is filled; pods that want to be together on one machine are placed as one bundle.
//!
//! A pod that a constraint counts but that has none itself goes where it likes, and counts where it
//! is once it is there. Sources: kubernetes `pkg/scheduler/framework/plugins/{interpodaffinity,
//! podtopologyspread}`, kubernetes-sigs/karpenter `pkg/controllers/provisioning/scheduling/
//! {topology,topologygroup}.go`.

mod assign;
mod board;
mod bundle;
pub(crate) mod hosts;
mod offered;
mod order;
mod places;
pub(crate) mod sets;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use aerostat_api::labels::HOSTNAME;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};

use self::assign::{Asking, share_out};
use self::board::Board;
use self::hosts::Hosts;
use self::offered::Offered;
use self::places::Places;
use self::sets::{Sets, Terms};
use super::class::{Class, asks_the_same, need};
use super::lot::Lot;
use super::tally::{Rule, Tally};
use crate::fingerprint::{Distinct, fingerprint};
use crate::pod::{Constraints, Pod};
use crate::residents::Residents;
use crate::snapshot::Snapshot;

/// The most pods of a class (by its index) for a value of a key, as an earlier try found out.
pub(crate) type Caps = BTreeMap<(usize, String, String), u32>;

/// Why pods that want to be beside others on a machine got none.
pub(crate) const WITHOUT_PEERS: &str = "unsatisfiable topology constraint for pod affinity, \
                                        key=kubernetes.io/hostname: no machine with pods that \
                                        match has room";

/// Pods whose domains are settled.
#[derive(Default)]
pub(crate) struct Settled {
    pub(crate) lots: Vec<Lot>,
    /// How many pods of a class were given to a value of a key.
    pub(crate) given: Caps,
    /// Pods that no domain can take, and why.
    pub(crate) refused: Vec<(Class, String)>,
    /// By node of the snapshot: the pods there that others mind.
    pub(crate) tallies: Vec<Tally>,
}

/// Settles where pods may go. `caps` are limits that an earlier try has run into.
pub(crate) fn settle<'a>(
    classes: &[Class],
    sets: &mut Sets<'a>,
    snapshot: &'a Snapshot,
    residents: &Residents<'a>,
    caps: &Caps,
) -> Settled {
    if sets.len() == 0 {
        let lots = classes.iter().map(|class| Lot::new(class.clone(), Default::default()));
        return Settled { lots: lots.collect(), ..Settled::default() };
    }
    let hosts = Hosts::of(classes, sets, snapshot, residents);
    let mut settled = Settled::default();
    let levels = order::levels(classes, sets, residents);
    let comes = |class: &&Class| match order::refusal(class, classes, levels[class.index]) {
        Some(why) => {
            settled.refused.push(((*class).clone(), why));
            false
        }
        None => true,
    };
    let mut items = bundle::items(classes.iter().filter(comes).cloned(), &hosts);
    let order = order::order(&items, &levels);
    hosts.rule(&mut items, &order);
    let mut board = Board::default();
    let mut keys: BTreeSet<String> = BTreeSet::new();
    for item in &items {
        item.announce(&mut board, &mut keys);
    }
    for pod in residents.all() {
        for (key, set) in &sets.shunned(pod).anti {
            if key != HOSTNAME {
                board.avoid(key, *set);
                keys.insert(key.clone());
            }
        }
    }
    let concerned = |item: &Item| !board.concerning(&item.sets).is_empty();
    let work =
        items.iter().any(|item| item.lot.bundle || !item.keys().is_empty() || concerned(item));
    if !work {
        settled.lots = merge(items.into_iter().map(|item| item.lot).collect());
        settled.tallies = hosts.tallies;
        return settled;
    }
    board.count_residents(sets, snapshot, residents);
    let samples: Vec<&Pod> = items.iter().map(|item| &*item.lot.sample).collect();
    let offered = Offered::new(snapshot, &samples, &keys);
    let mut settler = Settler {
        places: Places::new(snapshot, residents, offered),
        board,
        caps,
        found_caps: Caps::new(),
        is_short: false,
        hosts: &hosts,
        items: items.into_iter().map(Some).collect(),
        settled,
        kept: Kept::default(),
    };
    for at in order {
        settler.settle(at);
    }
    let mut settled = settler.settled;
    settled.lots.sort_by_key(|lot| lot.parts.first().map(|part| part.index));
    settled.lots = merge(settled.lots);
    settled.tallies = hosts.tallies;
    settled
}

/// A lot whose domains are still to be settled.
pub(crate) struct Item {
    pub(crate) lot: Lot,
    pub(crate) terms: Rc<Terms>,
    pub(crate) sets: Rc<[usize]>,
}

impl Item {
    /// The keys besides the host name that its terms are about.
    fn keys(&self) -> BTreeSet<String> {
        let keys = self.terms.about().map(|(key, _)| key).filter(|key| *key != HOSTNAME);
        keys.map(str::to_owned).collect()
    }

    /// Tells the board what will be counted.
    fn announce(&self, board: &mut Board, keys: &mut BTreeSet<String>) {
        keys.extend(self.keys());
        for (key, set) in self.terms.affinity.iter().filter(|(key, _)| key != HOSTNAME) {
            board.need(key, *set);
        }
        for (key, set) in self.terms.anti.iter().filter(|(key, _)| key != HOSTNAME) {
            board.counter(key, *set, None);
            board.avoid_later(key, *set);
        }
        for term in self.terms.spread.iter().filter(|term| term.key != HOSTNAME) {
            board.counter(&term.key, term.set, Some((&self.lot.sample, term)));
        }
    }
}

/// How often an item is settled anew because one key refuses what another has given.
const RETRIES: usize = 8;

struct Settler<'c, 'a, 'r> {
    places: Places<'a, 'r>,
    board: Board,
    caps: &'c Caps,
    /// Caps that were found out while settling.
    found_caps: Caps,
    /// Whether pods were refused that another key had given a value.
    is_short: bool,
    hosts: &'c Hosts,
    items: Vec<Option<Item>>,
    settled: Settled,
    kept: Kept,
}

impl Settler<'_, '_, '_> {
    fn settle(&mut self, at: usize) {
        let Some(mut item) = self.items[at].take() else { return };
        let mut lot = item.lot.taken();
        let mut keys = item.keys();
        keys.extend(self.board.concerning(&item.sets));
        let spreads = item.terms.spread.iter().any(|term| term.key != HOSTNAME);
        let mut shares = Vec::new();
        for left in (0..RETRIES).rev() {
            // Pods that a later key refuses may have made room for others by an earlier one.
            let is_last = left == 0 || !spreads || keys.len() < 2;
            let before = (!is_last).then(|| {
                let Settled { given, refused, .. } = &self.settled;
                (lot.clone(), self.board.clone(), given.clone(), refused.len())
            });
            self.is_short = false;
            shares = vec![Share { lot, counted: Vec::new() }];
            for key in &keys {
                let split = |share| self.split(&item, share, key);
                shares = shares.into_iter().flat_map(split).collect();
            }
            let Some((whole, board, given, refused)) = before.filter(|_| self.is_short) else {
                break;
            };
            (lot, self.board, self.settled.given) = (whole, board, given);
            self.settled.refused.truncate(refused);
        }
        for (key, set) in item.terms.anti.iter().filter(|(key, _)| key != HOSTNAME) {
            self.board.avoided(key, *set);
        }
        for mut share in shares {
            let lot = &mut share.lot;
            let before = lot.pods();
            if lot.bundle
                && let Some(rest) = self.places.trim(lot)
            {
                self.hosts.weigh(lot);
                let why = "unsatisfiable topology constraint for pod affinity, \
                           key=kubernetes.io/hostname: no machine has room for all of them";
                self.settled.refused.extend(rest.into_iter().map(|c| (c, why.to_owned())));
                let refused = before - share.lot.pods();
                self.take_back(&item, &share.counted, refused);
            }
            self.settled.lots.push(share.lot);
        }
    }

    /// Takes back what pods count that were refused after all.
    fn take_back(&mut self, item: &Item, counted: &[Counted], pods: u32) {
        for Counted { key, value, sample } in counted {
            self.board.take_back(key, value, (&item.sets, &sample.constraints), pods);
        }
    }

    /// Shares a lot out over the values of a key.
    fn split(&mut self, item: &Item, share: Share, key: &str) -> Vec<Share> {
        let Share { lot, counted } = share;
        let places = self.places.of(&lot.sample, key);
        let by_place = |f: &mut dyn FnMut(&str) -> u32| -> Vec<u32> {
            places.iter().map(|place| f(&place.value)).collect()
        };
        let memories = self.places.remembered(&lot, key);
        let remembered = by_place(&mut |value| memories.at(value));
        let index = lot.parts.first().map_or(0, |part| part.index);
        let (caps, found) = (self.caps, &self.found_caps);
        let caps = by_place(&mut |value| {
            let at = (index, key.to_owned(), value.to_owned());
            let most = [caps.get(&at), found.get(&at)].into_iter().flatten().min();
            most.copied().unwrap_or(u32::MAX)
        });
        let suits = places.iter().map(|place| self.followers(item, key, &place.value)).collect();
        let single = item.terms.spread.iter().all(|term| term.key != key);
        let rooms = places.iter().map(|place| match single || place.cost.is_none() {
            true => self.places.room(&lot.sample, key, &place.value, lot.count()),
            false => 0,
        });
        let rooms = rooms.collect();
        let open = self.places.of(&item.lot.sample, key);
        let asking = Asking {
            sample: &lot.sample,
            origin: &item.lot.sample,
            terms: &item.terms,
            sets: &item.sets,
            count: lot.count(),
            weight: lot.pods_of(1),
            remembered,
            caps,
            suits,
            rooms,
            open: open.iter().map(|place| place.value.clone()).collect(),
            others: self.places.all(key),
        };
        let (shares, why) = share_out(&mut self.board, key, &places, &asking);
        if let [(values, count)] = shares.as_slice()
            && values.is_empty()
            && *count == lot.count()
        {
            return vec![Share { lot, counted }];
        }
        let sample = lot.sample.clone();
        let (lots, rest) = divide(lot, key, &shares, &mut self.kept, |pod| memories.of(pod));
        if !rest.is_empty() {
            let refused = rest.iter().map(Class::count).fold(0, u32::saturating_add);
            self.take_back(item, &counted, refused);
            for Counted { key, value, .. } in &counted {
                let at = (index, key.clone(), value.clone());
                if let Some(given) = self.settled.given.get_mut(&at) {
                    *given = given.saturating_sub(refused);
                    self.found_caps.insert(at, *given);
                    self.is_short = true;
                }
            }
        }
        if let Some(why) = why {
            self.settled.refused.extend(rest.into_iter().map(|class| (class, why.clone())));
        }
        let mut shares = Vec::new();
        for lot in lots {
            let mut counted = counted.clone();
            if let Some((_, values)) = lot.pins.last()
                && let [value] = values.as_slice()
            {
                let given = (index, key.to_owned(), value.clone());
                *self.settled.given.entry(given).or_insert(0) += lot.count();
                let (key, value) = (key.to_owned(), value.clone());
                counted.push(Counted { key, value, sample: sample.clone() });
            }
            shares.push(Share { lot, counted });
        }
        shares
    }

    /// How many pods that are still to be settled want to follow the item's and could at `value`.
    fn followers(&mut self, item: &Item, key: &str, value: &str) -> u64 {
        if !item.sets.iter().any(|set| self.board.is_awaited(key, *set)) {
            return 0;
        }
        let mut followers = 0;
        for other in self.items.iter().flatten() {
            let mut needs = other.terms.affinity.iter();
            if needs.any(|(of, set)| of == key && item.sets.contains(set)) {
                let places = self.places.of(&other.lot.sample, key);
                if places.iter().any(|place| place.value == value) {
                    followers += u64::from(other.lot.pods());
                }
            }
        }
        followers
    }
}

/// Pods of an item that go the same way.
struct Share {
    lot: Lot,
    /// Where they are counted already.
    counted: Vec<Counted>,
}

/// A domain in which pods are counted, and as which pod.
#[derive(Clone)]
struct Counted {
    key: String,
    value: String,
    sample: Arc<Pod>,
}

/// Divides the pods of a lot: each share is kept to its values. Pods that earlier plans have put
/// somewhere stay there as far as the shares allow. What is left over is returned by class.
fn divide(
    mut lot: Lot,
    key: &str,
    shares: &assign::Shares,
    kept: &mut Kept,
    home: impl Fn(&Pod) -> Option<String>,
) -> (Vec<Lot>, Vec<Class>) {
    let mut share = |values: &Vec<String>| {
        let sample = match values.is_empty() {
            true => lot.sample.clone(),
            false => kept.to(&lot.sample, key, values),
        };
        let mut pins = lot.pins.clone();
        if !values.is_empty() {
            pins.push((key.to_owned(), values.clone()));
        }
        let parts = lot.parts.iter().map(Class::emptied).collect();
        Lot { sample, rule: lot.rule.clone(), pins, bundle: lot.bundle, parts }
    };
    let mut lots: Vec<Lot> = shares.iter().map(|(values, _)| share(values)).collect();
    if lot.bundle {
        if let Some(whole) = lots.first_mut() {
            whole.parts = std::mem::take(&mut lot.parts);
        }
        return (lots, lot.parts);
    }
    let mut open: Vec<u32> = shares.iter().map(|(_, count)| *count).collect();
    for (part, class) in lot.parts.iter_mut().enumerate() {
        let mut others = VecDeque::new();
        for pod in std::mem::take(&mut class.pods) {
            let home = home(&pod).and_then(|home| {
                let is_home = |(values, _): &(Vec<String>, u32)| values.contains(&home);
                shares.iter().position(is_home).filter(|at| open[*at] > 0)
            });
            match home {
                Some(at) => {
                    open[at] -= 1;
                    lots[at].parts[part].pods.push_back(pod);
                }
                None => others.push_back(pod),
            }
        }
        class.pods = others;
    }
    for (part, class) in lot.parts.iter_mut().enumerate() {
        for (at, open) in open.iter_mut().enumerate() {
            let some = class.count().min(*open);
            *open -= some;
            let (pods, promised) = class.take(some);
            lots[at].parts[part].pods.extend(pods);
            lots[at].parts[part].promised += promised;
        }
    }
    for lot in &mut lots {
        lot.parts.retain(|part| part.count() > 0);
    }
    lots.retain(|lot| !lot.parts.is_empty());
    lot.parts.retain(|part| part.count() > 0);
    (lots, lot.parts)
}

/// Samples that are kept to domains, each made once: pod, key, values and the result.
#[derive(Default)]
struct Kept(Distinct<KeptPod>);

type KeptPod = (Arc<Pod>, String, Vec<String>, Arc<Pod>);

impl Kept {
    fn to(&mut self, pod: &Arc<Pod>, key: &str, values: &[String]) -> Arc<Pod> {
        let print = fingerprint(&(pod.priority, need(pod), key, values));
        let same = |known: &KeptPod| {
            (known.1.as_str(), known.2.as_slice()) == (key, values)
                && known.0.priority == pod.priority
                && is_like(&known.0, pod)
        };
        let number = self.0.find(print, same).unwrap_or_else(|| {
            let kept = Arc::new(kept_to(pod, key, values));
            self.0.add(print, (pod.clone(), key.to_owned(), values.to_vec(), kept))
        });
        self.0.get(number).3.clone()
    }
}

/// The pod with a node selector more. What it says of other pods is settled by that.
fn kept_to(pod: &Pod, key: &str, values: &[String]) -> Pod {
    let mut constraints = Constraints {
        pod_affinity: Vec::new(),
        pod_anti_affinity: Vec::new(),
        spread: Vec::new(),
        ..pod.constraints.clone()
    };
    if let [value] = values {
        constraints.node_selector.insert(key.to_owned(), value.clone());
    } else {
        let requirement = NodeSelectorRequirement {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values: Some(values.to_vec()),
        };
        let terms =
            constraints.node_affinity.get_or_insert_with(|| vec![NodeSelectorTerm::default()]);
        for term in terms {
            term.match_expressions.get_or_insert_default().push(requirement.clone());
        }
    }
    Pod { constraints, ..pod.clone() }
}

/// Makes one of lots that have come to the same.
fn merge(lots: Vec<Lot>) -> Vec<Lot> {
    let mut merged: Distinct<Lot> = Distinct::default();
    for lot in lots {
        let Rule { counts, caps, needs, .. } = &lot.rule;
        let print =
            fingerprint(&(lot.sample.priority, need(&lot.sample), counts, caps, needs, &lot.pins));
        let same = |other: &Lot| {
            !lot.bundle
                && !other.bundle
                && lot.sample.priority == other.sample.priority
                && lot.rule == other.rule
                && lot.pins == other.pins
                && is_like(&lot.sample, &other.sample)
        };
        match merged.find(print, same) {
            Some(number) => merged.get_mut(number).parts.extend(lot.parts),
            None => {
                merged.add(print, lot);
            }
        }
    }
    merged.into_list()
}

fn is_like(a: &Arc<Pod>, b: &Arc<Pod>) -> bool {
    Arc::ptr_eq(a, b) || asks_the_same(a, b)
}
