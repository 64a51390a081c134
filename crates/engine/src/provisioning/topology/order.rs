//! In which order pods that need each other can come: those that are needed first.
//!
//! A pod may come first if it needs nobody, if it is its own company, or if its company runs
//! already. Who can only come after somebody who can only come after it comes never.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use aerostat_api::labels::HOSTNAME;

use super::Item;
use super::sets::{Sets, Terms};
use crate::provisioning::class::Class;
use crate::residents::Residents;

/// How many others have to be there before pods of a class can come, one after the other; `None`
/// if they cannot.
pub(super) fn levels<'a>(
    classes: &[Class],
    sets: &mut Sets<'a>,
    residents: &Residents<'a>,
) -> Vec<Option<usize>> {
    let needs = |class: &Class| company(&class.terms).filter(|set| !class.sets.contains(set));
    let needs: Vec<Option<usize>> = classes.iter().map(needs).collect();
    let mut levels = vec![None; classes.len()];
    if needs.iter().all(Option::is_none) {
        return vec![Some(0); classes.len()];
    }
    let mut waiting: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, set) in needs.iter().enumerate() {
        match set {
            Some(set) => waiting.entry(*set).or_default().push(at),
            None => levels[at] = Some(0),
        }
    }
    let mut ready: Vec<usize> = (0..classes.len()).filter(|at| levels[*at].is_some()).collect();
    for pod in residents.all() {
        for set in sets.members(pod).iter() {
            for at in waiting.remove(set).into_iter().flatten() {
                levels[at] = Some(0);
                ready.push(at);
            }
        }
    }
    let mut level = 0;
    while !ready.is_empty() {
        level += 1;
        let mut next = Vec::new();
        for set in ready.iter().flat_map(|at| classes[*at].sets.iter()) {
            for at in waiting.remove(set).into_iter().flatten() {
                levels[at] = Some(level);
                next.push(at);
            }
        }
        ready = next;
    }
    levels
}

/// The pods beside which a pod wants to be; its terms agree on them.
fn company(terms: &Terms) -> Option<usize> {
    terms.affinity.first().map(|(_, set)| *set)
}

/// Takes out the classes that cannot come, unless they are told so better later: why, in
/// Karpenter's words.
pub(super) fn refusal(class: &Class, classes: &[Class], level: Option<usize>) -> Option<String> {
    let set = company(&class.terms).filter(|_| level.is_none())?;
    let exist = classes.iter().any(|other| other.sets.contains(&set));
    let why = match exist {
        true => "no pod that matches can be placed before it",
        false => "no pod matches",
    };
    let mut keys = class.terms.affinity.iter().map(|(key, _)| key.as_str());
    let key = match exist {
        true => keys.next()?,
        // Those of other keys are told which domains there are.
        false => keys.find(|key| *key == HOSTNAME)?,
    };
    Some(format!("unsatisfiable topology constraint for pod affinity, key={key}: {why}"))
}

/// The order of settling: by priority, those that keep others off first; but nobody before those
/// that it needs.
pub(super) fn order(items: &[Item], levels: &[Option<usize>]) -> Vec<usize> {
    let shy = |item: &Item| item.terms.anti.iter().any(|(key, _)| key != HOSTNAME);
    let mut by_rank: Vec<usize> = (0..items.len()).collect();
    by_rank.sort_by_key(|at| {
        let item = &items[*at];
        (Reverse(item.lot.sample.priority), !shy(item), *at)
    });
    let level = |item: &Item| item.lot.parts.first().and_then(|part| levels[part.index]);
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let followers = items.iter().filter(|item| level(item) > Some(0));
    for set in followers.filter_map(|item| company(&item.terms)) {
        members.insert(set, Vec::new());
    }
    for at in &by_rank {
        for set in items[*at].sets.iter() {
            members.entry(*set).and_modify(|members| members.push(*at));
        }
    }
    let mut order = Vec::new();
    let mut is_in = vec![false; items.len()];
    let mut stack: Vec<usize> = Vec::new();
    for first in by_rank {
        stack.push(first);
        while let Some(at) = stack.last().copied() {
            if is_in[at] {
                stack.pop();
                continue;
            }
            let mine = level(&items[at]).filter(|level| *level > 0);
            let set = mine.and_then(|_| company(&items[at].terms));
            let needed = set.and_then(|set| members.get(&set)).into_iter().flatten();
            let is_before = |other: &&usize| !is_in[**other] && level(&items[**other]) < mine;
            let before: Vec<usize> = needed.filter(is_before).copied().collect();
            if before.is_empty() {
                is_in[at] = true;
                order.push(at);
                stack.pop();
            } else {
                stack.extend(before.into_iter().rev());
            }
        }
    }
    order
}
