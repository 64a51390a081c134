//! Plan and report as text, for golden files.

use std::collections::BTreeMap;
use std::fmt::Write;

use aerostat_engine::plan::{Launch, Marking, Nomination, Plan, Rollback};
use aerostat_engine::report::{LaunchReport, Report};
use aerostat_engine::resources::Resources;

pub fn render(plan: &Plan, report: &Report) -> String {
    let mut out = String::new();
    let mut equal = 1;
    for (index, (launch, choice)) in plan.launches.iter().zip(&report.launches).enumerate() {
        let next = plan.launches.get(index + 1).zip(report.launches.get(index + 1));
        // Machines that differ in their pods only are told together.
        let same = |other: &(&Launch, &LaunchReport)| {
            let blank =
                |launch: &Launch| Launch { pods: Vec::new(), promised: 0, ..launch.clone() };
            other.1 == choice && blank(other.0) == blank(launch) && plan.launches.len() > 6
        };
        if next.as_ref().is_some_and(same) {
            equal += 1;
            continue;
        }
        describe(&mut out, launch, choice, equal);
        equal = 1;
    }
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for nomination in &plan.nominations {
        let claim = nomination.claim.as_ref().map(|claim| format!(" claim {claim}"));
        let node = nomination.node.as_ref().map(|node| format!(" node {node}"));
        let place = claim.unwrap_or_default() + &node.unwrap_or_default();
        places.entry(place).or_default().push(key(&nomination.pod));
    }
    for (place, pods) in places {
        writeln!(out, "nominate{place}: {}", list(&pods)).unwrap();
    }
    for command in &plan.commands {
        let gone: Vec<&str> = command.candidates.iter().map(|c| c.claim.as_str()).collect();
        let (reason, saves) = (&command.reason, command.saves);
        writeln!(
            out,
            "{reason}: {} for {} new, saves {saves:.5}",
            gone.join(" "),
            command.replacements
        )
        .unwrap();
    }
    for Nomination { pod, claim, node } in plan.commands.iter().flat_map(|c| &c.moves) {
        let place = node.as_ref().or(claim.as_ref()).unwrap();
        writeln!(out, "  {} moves to {place}", key(pod)).unwrap();
    }
    for Marking { claim, reason, .. } in &plan.marks {
        writeln!(out, "mark {claim}: {reason}").unwrap();
    }
    for Marking { claim, .. } in &plan.releases {
        writeln!(out, "release {claim}").unwrap();
    }
    for Rollback { claim, stays } in &plan.rollbacks {
        let stays: Vec<&str> = stays.iter().map(String::as_str).collect();
        writeln!(out, "roll back {claim}: {} stays", stays.join(" ")).unwrap();
    }
    for end in &plan.terminations {
        let node = end.node.as_deref().unwrap_or("none");
        writeln!(out, "terminate {} (node {node}, pool {}): {}", end.claim, end.pool, end.reason)
            .unwrap();
    }
    for unplaced in &report.unplaced {
        writeln!(out, "unplaced {}: {}", key(&unplaced.pod), unplaced.message).unwrap();
    }
    for pod in &report.waiting {
        writeln!(out, "waiting {}", key(pod)).unwrap();
    }
    for problem in &report.pools {
        writeln!(out, "pool {}: {}: {}", problem.pool, problem.reason, problem.message).unwrap();
    }
    for misread in &report.misread {
        writeln!(out, "misread {}: {}", key(&misread.pod), misread.message).unwrap();
    }
    for kept in &report.kept {
        writeln!(out, "kept {}: {}", kept.claim, kept.blocker).unwrap();
    }
    if let Some(next) = plan.next {
        writeln!(out, "next {}", &next.to_string()[11..19]).unwrap();
    }
    if out.is_empty() {
        out.push_str("nothing\n");
    }
    out
}

fn describe(out: &mut String, launch: &Launch, choice: &LaunchReport, equal: usize) {
    let LaunchReport { pool, instance_type, capacity_type, price, fee, .. } = choice;
    let zones = choice.zones.join(",");
    writeln!(out, "launch {equal} x {pool}: {instance_type} {capacity_type} in {zones}").unwrap();
    writeln!(out, "  price {price} + fee {fee:.5}").unwrap();
    let pods: Vec<String> = launch.pods.iter().map(key).collect();
    if equal == 1 {
        writeln!(out, "  pods {} promised {}", list(&pods), launch.promised).unwrap();
    } else {
        writeln!(out, "  pods {} each", choice.pods).unwrap();
    }
    let (asked, room) = (amounts(&choice.requests), amounts(&choice.allocatable));
    writeln!(out, "  asks {asked} of {room}").unwrap();
    let requests = launch.requests.iter().map(|(name, quantity)| format!("{name}={quantity}"));
    writeln!(out, "  requests {}", requests.collect::<Vec<_>>().join(" ")).unwrap();
    for requirement in launch.requirements.iter() {
        let min = requirement.min_values.map(|min| format!(" minValues {min}"));
        let (key, operator) = (&requirement.key, &requirement.operator);
        let values = match requirement.values.as_slice() {
            all if all.len() > 10 => format!("{} … ({})", all[..8].join(" "), all.len()),
            all => all.join(" "),
        };
        writeln!(out, "  {key} {operator} [{values}]{}", min.unwrap_or_default()).unwrap();
    }
    let pairs = |map: &BTreeMap<String, String>| {
        map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    writeln!(out, "  labels {}", pairs(&launch.labels)).unwrap();
    writeln!(out, "  annotations {}", pairs(&launch.annotations)).unwrap();
    let others = choice.alternatives.iter();
    let others = others.map(|o| format!("{} {} {}", o.instance_type, o.capacity_type, o.price));
    let others = others.collect::<Vec<_>>().join(", ");
    let (feasible, weighed) = (choice.feasible, choice.weighed);
    writeln!(out, "  {feasible} of {weighed} offerings; then {others}").unwrap();
}

fn amounts(resources: &Resources) -> String {
    let quantities = resources.quantities();
    let texts = quantities.iter().map(|(name, quantity)| format!("{name}={quantity}"));
    texts.collect::<Vec<_>>().join(",")
}

/// All of a few, the ends of many.
fn list(pods: &[String]) -> String {
    match pods {
        [first, .., last] if pods.len() > 8 => format!("{first} … {last} ({})", pods.len()),
        _ => pods.join(" "),
    }
}

fn key(pod: &(String, String)) -> String {
    format!("{}/{}", pod.0, pod.1)
}
