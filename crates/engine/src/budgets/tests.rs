use aerostat_api::Duration;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn budget(nodes: &str, schedule: &str, duration: &str, reasons: &[&str]) -> Budget {
    let reasons = reasons.iter().map(|reason| (*reason).to_owned()).collect();
    Budget {
        nodes: nodes.to_owned(),
        reasons: Some(reasons).filter(|reasons: &Vec<_>| !reasons.is_empty()),
        schedule: Some(schedule.to_owned()).filter(|text| !text.is_empty()),
        duration: Duration::parse(duration).ok(),
    }
}

/// What is closed, as `reason until`.
fn closed(outlook: &Outlook) -> Vec<String> {
    let show = |closed: &Closed| match closed.until {
        Some(until) => format!("{} until {until}", closed.reason),
        None => format!("{} for ever", closed.reason),
    };
    outlook.closed.iter().map(show).collect()
}

#[test]
fn a_budget_holds_from_its_hit_until_its_duration_is_over() {
    let budgets = [budget("0", "0 9 * * mon-fri", "8h", &[])];
    let outlook = |now| outlook(&budgets, None, at(now));
    // A Monday.
    let before = outlook("2025-01-06T08:59:59Z");
    assert_eq!((closed(&before), before.changes), (vec![], Some(at("2025-01-06T09:00:00Z"))));
    let open = at("2025-01-06T17:00:00Z");
    for now in ["2025-01-06T09:00:00Z", "2025-01-06T16:59:59Z"] {
        let during = outlook(now);
        assert_eq!(during.closed.len(), 3, "at {now}");
        assert!(during.closed.iter().all(|closed| closed.until == Some(open)), "at {now}");
    }
    let after = outlook("2025-01-06T17:00:00Z");
    assert_eq!((closed(&after), after.changes), (vec![], Some(at("2025-01-07T09:00:00Z"))));
}

#[test]
fn hours_are_those_of_the_pools_time_zone() {
    let budgets = [budget("0", "0 9 * * *", "8h", &["Empty"])];
    let now = at("2025-01-06T01:00:00Z");
    assert_eq!(closed(&outlook(&budgets, None, now)), [""; 0]);
    let tokyo = outlook(&budgets, Some("Asia/Tokyo"), now);
    assert_eq!(closed(&tokyo), ["Empty until 2025-01-06T08:00:00Z"]);
}

#[test]
fn budgets_that_follow_each_other_close_until_the_last_one_ends() {
    let budgets = [
        budget("0", "0 0 * * *", "6h", &[]),
        budget("0%", "0 5 * * *", "3h", &["Drifted"]),
        budget("0", "0 8 * * *", "1h", &["Drifted"]),
    ];
    let outlook = outlook(&budgets, None, at("2025-01-06T01:00:00Z"));
    assert_eq!(
        closed(&outlook),
        [
            "Drifted until 2025-01-06T09:00:00Z",
            "Empty until 2025-01-06T06:00:00Z",
            "Underutilized until 2025-01-06T06:00:00Z",
        ],
    );
    assert_eq!(outlook.changes, Some(at("2025-01-06T05:00:00Z")), "when the second begins");
}

#[test]
fn a_duration_longer_than_the_recurrence_never_ends() {
    let budgets = [budget("0", "@daily", "25h", &["Empty"])];
    let outlook = outlook(&budgets, None, at("2025-01-06T12:00:00Z"));
    assert_eq!((closed(&outlook), outlook.changes), (vec!["Empty for ever".to_owned()], None));
}

#[test]
fn what_cannot_be_read_is_named_with_its_field() {
    let mut lonely = budget("1", "", "", &[]);
    lonely.duration = Duration::parse("1h").ok();
    let budgets = [
        budget("10%", "", "", &[]),
        budget("101%", "", "", &[]),
        budget("+1", "", "", &[]),
        budget("1", "0 25 * * *", "1h", &[]),
        budget("1", "@daily", "", &[]),
        lonely,
        budget("1", "0 0 31 2 *", "1h", &[]),
    ];
    let outlook = outlook(&budgets, Some("Nowhere"), at("2025-01-06T12:00:00Z"));
    let starts = [
        "metadata.annotations[aerostat.dev/budget-time-zone]: there is no time zone \"Nowhere\"",
        "spec.disruption.budgets[1].nodes: \"101%\" is neither",
        "spec.disruption.budgets[2].nodes: \"+1\" is neither",
        "spec.disruption.budgets[3].schedule: \"0 25 * * *\" is not a schedule: hour \"25\"",
        "spec.disruption.budgets[4].duration: it must be set with schedule",
        "spec.disruption.budgets[5].schedule: it must be set with duration",
        "spec.disruption.budgets[6].schedule: \"0 0 31 2 *\" never comes",
    ];
    assert_eq!(outlook.problems.len(), starts.len(), "{:?}", outlook.problems);
    for (problem, start) in outlook.problems.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem}");
    }
}

#[test]
fn percentages_are_rounded_up() {
    let amount = |text, nodes| Amount::parse(text).unwrap().of(nodes);
    assert_eq!(amount("10%", 1), 1);
    assert_eq!(amount("10%", 10), 1);
    assert_eq!(amount("10%", 11), 2);
    assert_eq!(amount("100%", u64::MAX), u64::MAX);
    assert_eq!(amount("0%", 11), 0);
    assert_eq!(amount("7", 3), 7);
}
