//! Fewer or cheaper machines for the same pods.
//!
//! The machines that cost most for what their pods are bothered come first. Those whose pods have
//! room elsewhere just go, as many as budgets allow. If there is none, the planner is asked what
//! one machine's pods, then several machines' pods, would cost elsewhere; the first machine that a
//! cheaper one can take the place of, or else the set that saves most, is replaced. One command at
//! a time: the next plan sees what it led to.
//!
//! Source of the policies: kubernetes-sigs/karpenter `pkg/controllers/disruption/consolidation.go`,
//! `balanced.go`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::labels;

use super::candidates::Candidate;
use super::market::Offers;
use super::rehearsal::{Rehearsal, rehearse};
use super::vacancy::Vacancies;
use super::{Allowance, Disruption, Scene, UNDERUTILIZED};
use crate::cost::Price;
use crate::plan::Launch;
use crate::report::{Blocker, LaunchReport};
use crate::resources::Resources;
use crate::snapshot::PackingRule;

/// How often the planner is asked in one plan.
const REHEARSALS: usize = 6;
/// How many machines are tried together.
const TOGETHER: [usize; 6] = [2, 4, 8, 16, 32, 64];
/// The least score of Karpenter's policy `Balanced`.
const BALANCED: f64 = 0.5;

/// A machine that stays so far, and why.
struct Stays<'c, 'a> {
    candidate: &'c Candidate<'a>,
    why: Blocker,
}

/// Finds machines to give up for money among `candidates`, which all may go.
pub(super) fn consolidate<'a>(
    scene: &Scene<'a>,
    mut candidates: Vec<Candidate<'a>>,
    allowance: &mut Allowance,
    found: &mut Disruption,
) {
    candidates.sort_by(by_savings);
    let mut vacancies = Vacancies::new(
        scene.snapshot,
        scene.residents,
        &scene.judge,
        &scene.provisioning.expecting,
    );
    let mut receiving = BTreeSet::new();
    let mut promising = Vec::new();
    let mut stays = Vec::new();
    let offers = Offers::of(scene.snapshot);
    for candidate in &candidates {
        if receiving.contains(candidate.claim) {
            stays.push(Stays { candidate, why: Blocker::Nominated });
            continue;
        }
        let tried = vacancies.try_move(candidate);
        let is_awkward = vacancies.is_awkward(candidate);
        if tried.left.is_empty() && !is_awkward {
            match scene.verdict(&[candidate], Price::default(), allowance) {
                Ok(()) => {
                    allowance.take(candidate.pool);
                    vacancies.close(candidate.claim);
                    receiving.extend(tried.moves.iter().filter_map(|m| m.claim.clone()));
                    found.delete(&[candidate], UNDERUTILIZED, tried.moves);
                    continue;
                }
                Err(why) => stays.push(Stays { candidate, why }),
            }
        } else {
            let mut load = Resources::default();
            tried.left.iter().for_each(|pod| load.add(&pod.requests));
            let cheaper = tried.left.is_empty() || offers.any_below(&load, candidate.price);
            match scene.verdict(&[candidate], Price::default(), allowance) {
                _ if !cheaper => stays.push(Stays { candidate, why: Blocker::NotCheaper }),
                Err(why) => stays.push(Stays { candidate, why }),
                Ok(()) => promising.push(candidate),
            }
        }
        vacancies.undo(&tried);
    }
    if found.commands.is_empty() {
        let mut left = REHEARSALS;
        if !replace_one(scene, &promising, allowance, &mut left, &mut stays, found) {
            let able = |stay: &&Stays<'_, '_>| !matches!(stay.why, Blocker::Budget { .. });
            let mut all: Vec<&Candidate<'a>> =
                stays.iter().filter(able).map(|stay| stay.candidate).collect();
            all.sort_by(|a, b| by_savings(a, b));
            replace_many(scene, &all, &offers, allowance, left, found);
        }
    }
    let going: Vec<&String> =
        found.commands.iter().flat_map(|c| &c.candidates).map(|c| &c.claim).collect();
    let stays = stays.into_iter().filter(|stay| going.iter().all(|g| *g != stay.candidate.claim));
    found.kept.extend(stays.map(|stay| stay.candidate.kept(stay.why)));
}

/// The most saved for the least bother first.
fn by_savings(a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
    let ratio = |of: &Candidate<'_>, by: &Candidate<'_>| {
        u128::from(of.price.nano()) * u128::from(by.weight)
    };
    ratio(b, a).cmp(&ratio(a, b)).then_with(|| a.claim.cmp(b.claim))
}

/// Replaces the first machine that something cheaper can take the place of; says whether it did.
fn replace_one<'c, 'a>(
    scene: &Scene<'a>,
    promising: &[&'c Candidate<'a>],
    allowance: &Allowance,
    left: &mut usize,
    stays: &mut Vec<Stays<'c, 'a>>,
    found: &mut Disruption,
) -> bool {
    for candidate in promising {
        if *left == 0 {
            stays.push(Stays { candidate, why: Blocker::NotCheaper });
            continue;
        }
        *left -= 1;
        match asked(scene, &[candidate], allowance) {
            Ok((_, rehearsal)) => {
                found.replace(&[candidate], UNDERUTILIZED, rehearsal);
                return true;
            }
            Err(why) => stays.push(Stays { candidate, why }),
        }
    }
    false
}

/// Replaces the machines that together save most.
fn replace_many<'a>(
    scene: &Scene<'a>,
    all: &[&Candidate<'a>],
    offers: &Offers<'_>,
    allowance: &Allowance,
    left: usize,
    found: &mut Disruption,
) {
    let mut within = allowance.clone();
    let all: Vec<&Candidate<'a>> = all
        .iter()
        .copied()
        .filter(|candidate| {
            let may = within.left(candidate.pool) > 0;
            if may {
                within.take(candidate.pool);
            }
            may
        })
        .collect();
    let mut best: Option<(Price, usize, Rehearsal)> = None;
    let mut asked_already = 0;
    for count in TOGETHER {
        let set = &all[..count.min(all.len())];
        if set.len() < 2 || count / 2 >= all.len() || asked_already >= left {
            break;
        }
        let mut load = Resources::default();
        set.iter().flat_map(|c| &c.pods).for_each(|pod| load.add(&pod.requests));
        let (price, moves) = (set.iter().map(|c| c.price).sum(), set.iter().map(|c| c.moves).sum());
        if !super::worth::pays(price, offers.least(&load), moves, scene.snapshot) {
            continue;
        }
        asked_already += 1;
        match asked(scene, set, allowance) {
            Ok((saved, rehearsal)) if best.as_ref().is_none_or(|(best, ..)| saved > *best) => {
                best = Some((saved, set.len(), rehearsal));
            }
            Ok(_) => break,
            Err(_) => {}
        }
    }
    if let Some((_, count, rehearsal)) = best {
        found.replace(&all[..count], UNDERUTILIZED, rehearsal);
    }
}

/// Asks the planner what the pods of machines cost elsewhere: what is left over of the savings when
/// the moves are paid, if it pays.
fn asked(
    scene: &Scene<'_>,
    set: &[&Candidate<'_>],
    allowance: &Allowance,
) -> Result<(Price, Rehearsal), Blocker> {
    let mut rehearsal = rehearse(scene.snapshot, scene.provisioning, set, scene.now)?;
    let bought = rehearsal.provisioning.launches.iter();
    let bought: Price = bought.filter_map(|(_, report)| Price::from_usd(report.price)).sum();
    let instead = bought + scene.kept_for(&rehearsal);
    scene.verdict(set, instead, allowance)?;
    let launches = &mut rehearsal.provisioning.launches;
    if scene.snapshot.settings.packing == PackingRule::Karpenter && !is_karpenters(set, launches) {
        return Err(Blocker::NotCheaper);
    }
    let price: Price = set.iter().map(|c| c.price).sum();
    let moves: Price = set.iter().map(|c| c.moves).sum();
    // Each may become somewhat dearer than its first choice, but together they must save.
    let slack = price.nano().saturating_sub(instead.nano() + moves.nano());
    let slack = slack / u64::try_from(launches.len().max(1)).unwrap_or(u64::MAX);
    for (launch, report) in launches.iter_mut() {
        let first = Price::from_usd(report.price).unwrap_or_default();
        let most = Price::from_nano(first.nano().saturating_add(slack));
        super::market::keep_below(launch, report, most, scene.snapshot)?;
    }
    let saved = price.nano().saturating_sub(instead.nano()).saturating_sub(moves.nano());
    Ok((Price::from_nano(saved), rehearsal))
}

/// Whether Karpenter would do it: one machine at most comes in the place of others, and none that is
/// spot in the place of spot machines (its feature gate SpotToSpotConsolidation is off by default).
fn is_karpenters(set: &[&Candidate<'_>], launches: &[(Launch, LaunchReport)]) -> bool {
    let capacity = |c: &&Candidate<'_>| c.state.node.labels.get(labels::CAPACITY_TYPE).cloned();
    let all_spot = set.iter().all(|c| capacity(c).is_some_and(|kind| kind == "spot"));
    let is_spot = |(_, report): &(Launch, LaunchReport)| report.capacity_type == "spot";
    launches.len() <= 1 && !(all_spot && launches.iter().any(is_spot))
}

impl Scene<'_> {
    /// What machines cost that would go, and stay for the pods that move there.
    fn kept_for(&self, rehearsal: &Rehearsal) -> Price {
        let moves = rehearsal.provisioning.nominations.iter();
        let moves = moves.filter(|nomination| rehearsal.movers.contains_key(&nomination.pod));
        let places: BTreeSet<&str> = moves.filter_map(|n| n.node.as_deref()).collect();
        if places.is_empty() {
            return Price::default();
        }
        let idle =
            self.snapshot.nodes.iter().filter(|state| {
                places.contains(state.node.name.as_str()) && self.judge.is_idle(state)
            });
        idle.filter_map(|state| state.price.and_then(Price::from_usd)).sum()
    }

    /// Whether a set of machines may go for machines that cost `instead`: by budgets, by money, by
    /// their pools' policies.
    fn verdict(
        &self,
        set: &[&Candidate<'_>],
        instead: Price,
        allowance: &Allowance,
    ) -> Result<(), Blocker> {
        let mut within = allowance.clone();
        for candidate in set {
            if within.left(candidate.pool) == 0 {
                return Err(Blocker::Budget { reason: UNDERUTILIZED.to_owned() });
            }
            within.take(candidate.pool);
        }
        let (price, moves) = (set.iter().map(|c| c.price).sum(), set.iter().map(|c| c.moves).sum());
        if instead >= price {
            return Err(Blocker::NotCheaper);
        }
        if !super::worth::pays(price, instead, moves, self.snapshot) {
            let saves = price.usd() - instead.usd();
            return Err(Blocker::NotWorth { saves, moves: moves.usd() });
        }
        self.balanced(set, price, instead)
    }

    /// Whether every pool of the policy `Balanced` saves enough for what its pods are bothered.
    fn balanced(
        &self,
        set: &[&Candidate<'_>],
        price: Price,
        instead: Price,
    ) -> Result<(), Blocker> {
        let mut pools: BTreeMap<&str, Vec<&Candidate<'_>>> = BTreeMap::new();
        for candidate in set.iter().filter(|c| c.pool.policy == "Balanced") {
            pools.entry(&candidate.pool.name).or_default().push(candidate);
        }
        for (pool, set) in pools {
            let mine = |state: &&crate::snapshot::StateNode| state.pool.as_deref() == Some(pool);
            let (mut cost, mut weight) = (0.0, 0.0);
            for state in self.snapshot.nodes.iter().filter(mine) {
                cost += state.price.unwrap_or(0.0);
                weight += ratio(self.judge.weight(state));
            }
            let own: f64 = set.iter().map(|c| c.price.usd()).sum();
            let saved = (price.usd() - instead.usd()) * own / price.usd();
            let moved: f64 = set.iter().map(|c| ratio(c.weight)).sum();
            let score = (saved / cost) / (moved / weight);
            if score.is_nan() || score < BALANCED {
                return Err(Blocker::Unbalanced { pool: pool.to_owned(), score });
            }
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a score of two digits is made of it")]
fn ratio(weight: u64) -> f64 {
    weight as f64
}
