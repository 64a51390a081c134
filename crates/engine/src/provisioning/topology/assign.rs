//! Over which domains of one key pods are shared out.
//!
//! Pods with a spread constraint, and pods that shun their like, are given to domains one by one:
//! to the one with the fewest, among equals to the cheaper one. Others go to one domain, or are
//! kept to a set of them.

use super::board::{Board, Counter};
use super::sets::{SpreadTerm, Terms};
use crate::pod::Pod;

/// A value of a key that pods could go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) value: String,
    /// The least that a pod's share of a new machine costs there; `None` if only nodes that are
    /// there have the value.
    pub(crate) cost: Option<u64>,
}

/// Pods that are alike, and what is known of where they could go.
pub(crate) struct Asking<'i> {
    pub(crate) sample: &'i Pod,
    /// The same before it was kept to values of other keys: spread constraints go by what pods say
    /// themselves.
    pub(crate) origin: &'i Pod,
    pub(crate) terms: &'i Terms,
    pub(crate) sets: &'i [usize],
    /// How many units.
    pub(crate) count: u32,
    /// How many pods a unit has.
    pub(crate) weight: u32,
    /// By place: how many units earlier plans have put there.
    pub(crate) remembered: Vec<u32>,
    /// By place: the most units.
    pub(crate) caps: Vec<u32>,
    /// By place: how much it suits those that want to follow.
    pub(crate) suits: Vec<u64>,
    /// By place: how many units the nodes that are there have room for.
    pub(crate) rooms: Vec<u32>,
    /// Places of pods that are not kept to values of other keys. They count for spread constraints.
    pub(crate) open: Vec<String>,
    /// Domains that pools could make for others. They count for spread constraints that look at
    /// nodes that the pods cannot use.
    pub(crate) others: Vec<String>,
}

/// How many units go to which values; without values they are free.
pub(crate) type Shares = Vec<(Vec<String>, u32)>;

/// Shares pods out over the places of `key`. What is left over comes with the reason.
pub(crate) fn share_out(
    board: &mut Board,
    key: &str,
    places: &[Place],
    asking: &Asking<'_>,
) -> (Shares, Option<String>) {
    let split = Split::new(board, key, places, asking);
    let shares = if split.counts_each() { split.one_by_one() } else { split.together() };
    let given: u32 = shares.iter().map(|(_, count)| *count).sum();
    let blame = (given < asking.count).then(|| split.blame(&shares));
    let (sets, constraints) = (asking.sets, &asking.sample.constraints);
    for (values, count) in &shares {
        match values.as_slice() {
            [value] => {
                let count = count.saturating_mul(asking.weight);
                board.add(key, value, (sets, constraints, &asking.terms.anti), count);
            }
            values => board.add_maybe(key, values, sets),
        }
    }
    (
        shares,
        blame
            .map(|(kind, counter)| reason(kind, key, places, counter.map(|at| board.get(key, at)))),
    )
}

/// A spread constraint and the counts that it goes by.
struct Spreading<'i> {
    term: &'i SpreadTerm,
    counter: usize,
    counts: Vec<u32>,
    /// By how much a unit raises the count.
    step: u32,
    /// The fewest pods of a domain that is none of the places.
    elsewhere: u32,
    /// Whether there are fewer domains than the constraint asks for.
    is_short: bool,
}

struct Split<'i, 'b> {
    board: &'b Board,
    key: &'i str,
    places: &'i [Place],
    asking: &'i Asking<'i>,
    spreads: Vec<Spreading<'i>>,
    /// Counters of affinity terms, and whether the pods count there themselves.
    affinity: Vec<(usize, bool)>,
    /// Counters and sets of anti-affinity terms, and whether the pods count there themselves.
    anti: Vec<(usize, usize, bool)>,
    /// Whether no pod of the sets that are needed is anywhere, and the pods are their own company.
    is_first: bool,
}

impl<'i, 'b> Split<'i, 'b> {
    fn new(
        board: &'b mut Board,
        key: &'i str,
        places: &'i [Place],
        asking: &'i Asking<'i>,
    ) -> Self {
        let (terms, is_in) = (asking.terms, |set: usize| asking.sets.contains(&set));
        let here = |(of, _): &&(String, usize)| of == key;
        let affinity = terms.affinity.iter().filter(here);
        let affinity: Vec<(usize, bool)> =
            affinity.map(|(_, set)| (board.counter(key, *set, None), is_in(*set))).collect();
        let anti = terms.anti.iter().filter(here);
        let anti: Vec<(usize, usize, bool)> =
            anti.map(|(_, set)| (board.counter(key, *set, None), *set, is_in(*set))).collect();
        let spreads = terms.spread.iter().filter(|term| term.key == key);
        let counters: Vec<(usize, &SpreadTerm)> = spreads
            .map(|term| (board.counter(key, term.set, Some((asking.origin, term))), term))
            .collect();
        let board = &*board;
        let spreading = |(counter, term): (usize, &'i SpreadTerm)| {
            let counts = board.get(key, counter);
            let is_place = |value: &String| places.iter().any(|place| place.value == *value);
            let known = counts.counts.keys().filter(|value| !is_place(value));
            let others = if term.honors_affinity { &asking.open } else { &asking.others };
            let new = others.iter().filter(|v| !is_place(v) && !counts.counts.contains_key(*v));
            let elsewhere: Vec<u32> = known.chain(new).map(|value| counts.at(value)).collect();
            let domains = u32::try_from(elsewhere.len() + places.len()).unwrap_or(u32::MAX);
            Spreading {
                term,
                counter,
                counts: places.iter().map(|place| counts.at(&place.value)).collect(),
                step: if is_in(term.set) { asking.weight } else { 0 },
                elsewhere: elsewhere.into_iter().min().unwrap_or(u32::MAX),
                is_short: domains < term.min_domains,
            }
        };
        let spreads = counters.into_iter().map(spreading).collect();
        let is_first = !affinity.is_empty()
            && affinity.iter().all(|(at, own)| *own && board.get(key, *at).is_empty());
        Self { board, key, places, asking, spreads, affinity, anti, is_first }
    }

    /// Whether each pod that is placed changes where the next may go.
    fn counts_each(&self) -> bool {
        !self.spreads.is_empty() || self.anti.iter().any(|(_, _, own)| *own)
    }

    /// Whether affinity and anti-affinity allow the place as it was before the pods came.
    fn allows(&self, at: usize) -> bool {
        let value = &self.places[at].value;
        let count = |counter: usize| self.board.get(self.key, counter).at(value);
        (self.is_first || self.affinity.iter().all(|(counter, _)| count(*counter) > 0))
            && self.anti.iter().all(|(counter, set, _)| {
                count(*counter) == 0 && !self.board.may_hold(self.key, *set, value)
            })
            && !self.board.keeps_off(self.key, self.asking.sets, value)
    }

    fn cap(&self, at: usize) -> u32 {
        let room = if self.places[at].cost.is_none() { self.asking.rooms[at] } else { u32::MAX };
        self.asking.caps[at].min(room)
    }

    fn one_by_one(&self) -> Shares {
        let allowed: Vec<usize> = (0..self.places.len()).filter(|at| self.allows(*at)).collect();
        let shy = self.anti.iter().any(|(_, _, own)| *own);
        let balanced = self.board.spreading(self.key, self.asking.sets);
        let mut balance: Vec<u64> = vec![0; self.places.len()];
        for (at, place) in self.places.iter().enumerate() {
            let counts = balanced.iter().map(|counter| self.board.get(self.key, *counter));
            balance[at] = counts.map(|counts| u64::from(counts.at(&place.value))).sum();
        }
        let grows = !balanced.is_empty();
        let mut counts: Vec<Vec<u32>> = self.spreads.iter().map(|s| s.counts.clone()).collect();
        let mut given = vec![0_u32; self.places.len()];
        let mut home: Option<usize> = None;
        let mut least: Vec<u32> = vec![0; self.spreads.len()];
        for _ in 0..self.asking.count {
            for ((least, spread), counts) in least.iter_mut().zip(&self.spreads).zip(&counts) {
                if !spread.is_short {
                    let fewest = counts.iter().copied().min().unwrap_or(0);
                    *least = fewest.min(spread.elsewhere);
                }
            }
            let may = |at: &usize| {
                given[*at] < self.cap(*at)
                    && !(shy && given[*at] > 0)
                    && (!self.is_first || home.is_none_or(|home| home == *at))
                    && self.spreads.iter().zip(&counts).zip(&least).all(|((s, counts), least)| {
                        counts[*at].saturating_add(s.step).saturating_sub(*least) <= s.term.max_skew
                    })
            };
            let rank = |at: &usize| {
                let owned: u64 = counts.iter().map(|counts| u64::from(counts[*at])).sum();
                let place = &self.places[*at];
                let is_new = given[*at] >= self.asking.remembered[*at];
                (is_new, balance[*at], owned, place.cost.unwrap_or(0), *at)
            };
            let Some(next) = allowed.iter().copied().filter(may).min_by_key(rank) else { break };
            given[next] += 1;
            home.get_or_insert(next);
            if grows {
                balance[next] += u64::from(self.asking.weight);
            }
            for (spread, counts) in self.spreads.iter().zip(&mut counts) {
                counts[next] = counts[next].saturating_add(spread.step);
            }
        }
        let shares = self.places.iter().zip(given).filter(|(_, count)| *count > 0);
        shares.map(|(place, count)| (vec![place.value.clone()], count)).collect()
    }

    fn together(&self) -> Shares {
        let mut allowed: Vec<usize> =
            (0..self.places.len()).filter(|at| self.allows(*at) && self.cap(*at) > 0).collect();
        let sets = self.asking.sets;
        let awaited = sets.iter().any(|set| self.board.is_awaited(self.key, *set));
        let settles = self.is_first
            || awaited
            || !self.anti.is_empty()
            || self.board.will_be_avoided(self.key, sets);
        if !settles {
            let free = self.affinity.is_empty() && allowed.len() == self.places.len();
            let values = allowed.iter().map(|at| self.places[*at].value.clone());
            return match allowed.len() {
                0 if !free => Vec::new(),
                _ if free => vec![(Vec::new(), self.asking.count)],
                _ => vec![(values.collect(), self.asking.count)],
            };
        }
        let mut left = self.asking.count;
        let mut shares = Vec::new();
        allowed.sort_by_key(|at| {
            let (asking, cost) = (self.asking, self.places[*at].cost);
            let to_buy = left.saturating_sub(asking.rooms[*at]);
            let dear = cost.unwrap_or(u64::MAX).saturating_mul(u64::from(to_buy));
            let suits = u64::MAX - asking.suits[*at];
            (asking.remembered[*at] == 0, suits, cost.is_none() && to_buy > 0, dear, *at)
        });
        for at in allowed {
            let some = left.min(self.cap(at));
            if some > 0 {
                shares.push((vec![self.places[at].value.clone()], some));
                left -= some;
            }
            if left == 0 || self.is_first {
                break;
            }
        }
        shares
    }

    /// Which constraint keeps pods from being given a domain, and its counter.
    fn blame(&self, shares: &Shares) -> (&'static str, Option<usize>) {
        let is_given = |at: usize| shares.iter().any(|(v, _)| v.contains(&self.places[at].value));
        let blocked = (0..self.places.len()).all(|at| !self.allows(at) || is_given(at));
        let spread = self.spreads.first().map(|spread| ("topology spread", Some(spread.counter)));
        let affinity = self.affinity.first().map(|(at, _)| ("pod affinity", Some(*at)));
        let anti = self.anti.first().map(|(at, ..)| ("pod anti-affinity", Some(*at)));
        let first = if blocked && !self.places.is_empty() {
            affinity.or(anti).or(spread)
        } else {
            spread.or(affinity).or(anti)
        };
        // Without a constraint of its own it is others that keep it off.
        first.unwrap_or(("pod anti-affinity", None))
    }
}

/// How many domains a text names.
const NAMED: usize = 10;

/// Why there is no domain, in Karpenter's words.
/// Source: kubernetes-sigs/karpenter `pkg/controllers/provisioning/scheduling/topology.go`.
fn reason(kind: &str, key: &str, places: &[Place], counter: Option<&Counter>) -> String {
    let list = |mut texts: Vec<String>| {
        let more = texts.len().saturating_sub(NAMED);
        texts.truncate(NAMED);
        if more > 0 {
            texts.push(format!("and {more} more"));
        }
        texts.join(", ")
    };
    let values: Vec<String> = places.iter().map(|place| place.value.clone()).collect();
    let domains = match values.is_empty() {
        true => "none: no node and no NodePool that suits the pod has this label".to_owned(),
        false => list(values),
    };
    let counts = counter.map(|counter| {
        let mut counts = counter.counts.clone();
        for place in places {
            counts.entry(place.value.clone()).or_insert(0);
        }
        list(counts.iter().map(|(value, count)| format!("{value}: {count}")).collect())
    });
    let counts = counts.filter(|counts| !counts.is_empty());
    let counts = counts.map(|counts| format!("counts = {counts}, ")).unwrap_or_default();
    format!(
        "unsatisfiable topology constraint for {kind}, key={key} ({counts}podDomains = {domains})"
    )
}
