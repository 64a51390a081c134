//! Which nodes a pod's wishes, and those of the pods that are there, favour.

use std::collections::{BTreeMap, BTreeSet};
use std::slice::from_ref;

use super::domains::{KeyId, Value};
use super::index::Index;
use super::sets::{Set, SetId};
use super::{Eligible, HOSTNAME, Place, ZONE, counted};
use crate::pod::{Pod, Selector, Spread};

const MAX: i64 = 100;

/// How pods spread that do not say how themselves: key and skew.
/// Source: kubernetes `pkg/scheduler/framework/plugins/podtopologyspread/plugin.go`.
const DEFAULTS: [(&str, u32); 2] = [(HOSTNAME, 3), (ZONE, 5)];

/// A spread constraint that is only wished for.
struct Wish {
    spread: Spread,
    key: KeyId,
    set: Option<SetId>,
}

impl Index {
    /// What inter-pod affinity makes of each of `places`, the nodes that can take the pod, from 0
    /// to 100; `None` if it favours none of them. The pod must be prepared.
    #[must_use]
    pub fn affinity_scores(&self, pod: &Pod, places: &[Place]) -> Option<Vec<i64>> {
        let mut weights: BTreeMap<KeyId, Vec<i64>> = BTreeMap::new();
        let mut weigh = |key: KeyId, place: Place, weight: i64| {
            let Some(value) = self.domains.of(key, place) else { return };
            let by_value = weights.entry(key).or_default();
            if by_value.len() <= value {
                by_value.resize(self.domains.values(key), 0);
            }
            by_value[value] += weight;
        };
        for preferred in &pod.constraints.preferred_pods {
            let key = self.domains.key(&preferred.term.topology_key);
            let set = self.sets.id(from_ref(&preferred.term.pods));
            let (Some(key), Some(set)) = (key, set.and_then(|set| self.sets.get(set))) else {
                continue;
            };
            for (place, count) in set.counts() {
                weigh(key, place, i64::from(preferred.weight) * i64::from(count.all));
            }
        }
        for (key, said) in self.said_of(pod) {
            for (place, (weight, _)) in &said.draw {
                weigh(key, *place, *weight);
            }
        }
        if weights.is_empty() {
            return None;
        }
        let score = |place: &Place| {
            let of = |(key, by_value): (&KeyId, &Vec<i64>)| {
                by_value.get(self.domains.of(*key, *place)?).copied()
            };
            weights.iter().filter_map(of).sum::<i64>()
        };
        let scores: Vec<i64> = places.iter().map(score).collect();
        let (least, most) = (*scores.iter().min()?, *scores.iter().max()?);
        if least == most {
            return None;
        }
        let range = (most - least) as f64;
        let normal = |score: i64| (MAX as f64 * ((score - least) as f64 / range)) as i64;
        Some(scores.into_iter().map(normal).collect())
    }

    /// What topology spread makes of each of `places`, the nodes that can take the pod, from 0 to
    /// 100; `None` if the pod does not wish to be spread. `defaults` select those that the pod is
    /// spread with if it says nothing itself. The pod must be prepared with the same.
    pub fn spread_scores(
        &self,
        pod: &Pod,
        defaults: Option<&[Selector]>,
        places: &[Place],
        eligible: impl Fn(Place) -> Eligible,
    ) -> Option<Vec<i64>> {
        let own = !pod.constraints.spread.is_empty();
        let wishes = if own { self.wishes(pod) } else { self.default_wishes(pod, defaults?) };
        if wishes.is_empty() {
            return None;
        }
        // The defaults spread nodes without a zone too.
        let scored = |place: Place| {
            !own || wishes.iter().all(|wish| self.domains.of(wish.key, place).is_some())
        };
        let candidates: Vec<Place> =
            places.iter().copied().filter(|place| scored(*place)).collect();
        let mut sums = vec![0.0; candidates.len()];
        for wish in &wishes {
            let here = |place: Place| self.domains.of(wish.key, place);
            let by_place = wish.spread.topology_key == HOSTNAME;
            let domains = if by_place {
                candidates.len()
            } else {
                candidates.iter().map(|place| here(*place)).collect::<BTreeSet<_>>().len()
            };
            let weight = ((domains + 2) as f64).ln();
            let counts = self.counts(wish, |place| {
                by_place || (scored(place) && eligible(place).counts_for(&wish.spread))
            });
            for (sum, place) in sums.iter_mut().zip(&candidates) {
                let Some(value) = here(*place) else { continue };
                let pods = if by_place { counts.of_place(*place) } else { counts.of_value(value) };
                *sum += pods as f64 * weight + f64::from(wish.spread.max_skew - 1);
            }
        }
        let mut scores = sums.into_iter().map(|sum| sum.round() as i64);
        let scores: Vec<Option<i64>> =
            places.iter().map(|place| scored(*place).then(|| scores.next()).flatten()).collect();
        let least = scores.iter().flatten().min().copied().unwrap_or(0);
        let most = scores.iter().flatten().max().copied().unwrap_or(0);
        let normal = |score: Option<i64>| match score {
            None => 0,
            Some(_) if most == 0 => MAX,
            Some(score) => MAX * (most + least - score) / most,
        };
        Some(scores.into_iter().map(normal).collect())
    }

    fn wishes(&self, pod: &Pod) -> Vec<Wish> {
        let wish = |spread: &Spread| {
            let set = counted(spread.selector.as_ref(), &pod.namespace);
            Some(Wish {
                key: self.domains.key(&spread.topology_key)?,
                set: set.and_then(|set| self.sets.id(from_ref(&set))),
                spread: spread.clone(),
            })
        };
        let soft = pod.constraints.spread.iter().filter(|spread| !spread.required);
        soft.filter_map(wish).collect()
    }

    fn default_wishes(&self, pod: &Pod, defaults: &[Selector]) -> Vec<Wish> {
        let set = self.sets.id(&Self::default_set(pod, defaults));
        let wish = |(key, max_skew): (&str, u32)| {
            let spread = Spread {
                topology_key: key.to_owned(),
                max_skew,
                min_domains: 1,
                required: false,
                honors_affinity: true,
                honors_taints: false,
                selector: None,
            };
            Some(Wish { spread, key: self.domains.key(key)?, set })
        };
        DEFAULTS.into_iter().filter_map(wish).collect()
    }

    /// The pods that a wish counts, on the nodes that count.
    fn counts(&self, wish: &Wish, on: impl Fn(Place) -> bool) -> Counts {
        let mut counts = Counts::default();
        let set = wish.set.and_then(|set| self.sets.get(set));
        for (place, count) in set.into_iter().flat_map(Set::counts) {
            let Some(value) = self.domains.of(wish.key, place) else { continue };
            if on(place) {
                counts.places.push((place, count.staying));
                if counts.values.len() <= value {
                    counts.values.resize(self.domains.values(wish.key), 0);
                }
                counts.values[value] += u64::from(count.staying);
            }
        }
        counts
    }
}

/// Pods by node, ascending, and by value of a key.
#[derive(Default)]
struct Counts {
    places: Vec<(Place, u32)>,
    values: Vec<u64>,
}

impl Counts {
    fn of_place(&self, place: Place) -> u64 {
        let found = self.places.binary_search_by_key(&place, |(place, _)| *place);
        found.map_or(0, |at| u64::from(self.places[at].1))
    }

    fn of_value(&self, value: Value) -> u64 {
        self.values.get(value).copied().unwrap_or(0)
    }
}
