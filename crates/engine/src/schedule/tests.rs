use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The first hits after a time.
fn hits(schedule: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse(schedule, time_zone(zone).unwrap()).unwrap();
    let next = |hit: &Timestamp| schedule.next(*hit);
    let hits = std::iter::successors(schedule.next(at(after)), next);
    hits.take(count).map(|hit| hit.to_string()).collect()
}

fn error(schedule: &str) -> String {
    Schedule::parse(schedule, TimeZone::UTC).unwrap_err()
}

#[test]
fn hits_come_after_the_time_asked_for() {
    let daily = |after| hits("30 9 * * *", "UTC", after, 1);
    assert_eq!(daily("2025-01-06T09:29:59.9Z"), ["2025-01-06T09:30:00Z"]);
    assert_eq!(daily("2025-01-06T09:30:00Z"), ["2025-01-07T09:30:00Z"]);
    assert_eq!(daily("2025-12-31T12:00:00Z"), ["2026-01-01T09:30:00Z"]);
}

#[test]
fn descriptors_stand_for_fields() {
    let first = |schedule| hits(schedule, "UTC", "2025-01-08T10:20:30Z", 1).remove(0);
    for (schedule, hit) in [
        ("@hourly", "2025-01-08T11:00:00Z"),
        ("@daily", "2025-01-09T00:00:00Z"),
        ("@midnight", "2025-01-09T00:00:00Z"),
        ("@weekly", "2025-01-12T00:00:00Z"),
        ("@monthly", "2025-02-01T00:00:00Z"),
        ("@yearly", "2026-01-01T00:00:00Z"),
        ("@annually", "2026-01-01T00:00:00Z"),
    ] {
        assert_eq!(first(schedule), hit, "{schedule}");
    }
}

#[test]
fn lists_ranges_steps_and_names() {
    let after = "2025-01-10T16:50:00Z";
    assert_eq!(
        hits("0,45 9-17/4 * * MON-fri", "UTC", after, 3),
        ["2025-01-10T17:00:00Z", "2025-01-10T17:45:00Z", "2025-01-13T09:00:00Z"],
    );
    assert_eq!(
        hits("50/5 23 31 dec ?", "UTC", after, 3),
        ["2025-12-31T23:50:00Z", "2025-12-31T23:55:00Z", "2026-12-31T23:50:00Z"],
    );
    assert_eq!(hits("0 0 29 2 *", "UTC", after, 1), ["2028-02-29T00:00:00Z"]);
}

#[test]
fn day_and_weekday_each_suffice_unless_one_is_a_star() {
    let after = "2025-01-06T00:00:00Z";
    assert_eq!(
        hits("0 0 10 * sun", "UTC", after, 2),
        ["2025-01-10T00:00:00Z", "2025-01-12T00:00:00Z"],
    );
    // With a step a star is no star: each third day, or a Sunday.
    assert_eq!(
        hits("0 0 */3 * sun", "UTC", after, 3),
        ["2025-01-07T00:00:00Z", "2025-01-10T00:00:00Z", "2025-01-12T00:00:00Z"],
    );
    assert_eq!(hits("0 0 10 * *", "UTC", after, 1), ["2025-01-10T00:00:00Z"]);
}

#[test]
fn what_never_comes_has_no_hit() {
    assert_eq!(hits("0 0 31 2 *", "UTC", "2025-01-06T00:00:00Z", 1), [""; 0]);
}

#[test]
fn hours_are_those_of_the_zone() {
    let after = "2025-01-06T00:00:00Z";
    assert_eq!(hits("0 9 * * *", "Asia/Tokyo", after, 1), ["2025-01-07T00:00:00Z"]);
    assert_eq!(hits("0 9 * * *", "America/New_York", after, 1), ["2025-01-06T14:00:00Z"]);
}

#[test]
fn clocks_that_change_neither_lose_nor_double_a_hit() {
    // On 2025-03-30 clocks in Berlin go from 2 to 3, on 2025-10-26 from 3 to 2.
    assert_eq!(
        hits("30 2 * * *", "Europe/Berlin", "2025-03-29T12:00:00Z", 2),
        ["2025-03-30T01:00:00Z", "2025-03-31T00:30:00Z"],
    );
    assert_eq!(
        hits("30 2 * * *", "Europe/Berlin", "2025-10-25T12:00:00Z", 2),
        ["2025-10-26T00:30:00Z", "2025-10-27T01:30:00Z"],
    );
}

#[test]
fn errors_name_the_field_and_what_is_wrong() {
    for (schedule, why) in [
        ("* * * *", "it has 4 fields"),
        ("60 * * * *", "minute \"60\": it must be between 0 and 59"),
        ("* * 0 * *", "day of month \"0\": it must be between 1 and 31"),
        ("* * * * 7", "day of week \"7\": it must be between 0 and 6"),
        ("* 9-5 * * *", "hour \"9-5\": the range begins after its end"),
        ("*/0 * * * *", "minute \"*/0\": the step must be at least 1"),
        ("* * * foo *", "month \"foo\": \"foo\" is no number"),
        ("* * * 1-2-3 *", "month \"1-2-3\": \"2-3\" is no number"),
        (", * * * *", "minute \",\": it names no value"),
        ("@noon", "one of @yearly"),
        ("TZ=Asia/Tokyo 0 9 * * *", "annotation aerostat.dev/budget-time-zone"),
        ("", "it has 0 fields"),
        ("-1 * * * *", "minute \"-1\": \"\" is no number"),
        ("99999999999 * * * *", "is no number"),
    ] {
        let error = error(schedule);
        assert!(error.contains(why), "{schedule}: {error}");
    }
    let error = time_zone("Mars/Olympus").unwrap_err();
    assert!(error.contains("there is no time zone \"Mars/Olympus\""), "{error}");
}
