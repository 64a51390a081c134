use super::*;

fn read(columns: &str, table: &str) -> anyhow::Result<Rows> {
    read_as(&format!("columns: {columns}"), table)
}

fn read_as(how: &str, table: &str) -> anyhow::Result<Rows> {
    let replay: Replay = serde_saphyr::from_str(&format!("{{file: t.csv, {how}}}")).unwrap();
    let table = Table::parse("t.csv", table).unwrap();
    replay.rows_of(&table, Timestamp::UNIX_EPOCH)
}

fn seconds(arrival: &Arrival) -> (f64, Option<f64>) {
    let at = arrival.at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
    (at, arrival.duration.map(|duration| duration.as_secs_f64()))
}

#[test]
fn rows_come_in_order_of_time_with_what_they_ask_for() {
    let columns = "{arrival: t0, end: t1, requests: {cpu: {column: cpu, unit: m}, \
                   memory: {column: mem, unit: Mi}, nvidia.com/gpu: gpu}}";
    let table = "t0,t1,cpu,mem,gpu\n100,130,500,2048,1\n40,41.5,1000,0,0\n";
    let rows = read(columns, table).unwrap();
    let times: Vec<_> = rows.arrivals.iter().map(seconds).collect();
    assert_eq!(times, [(0.0, Some(1.5)), (60.0, Some(30.0))]);
    assert_eq!(rows.arrivals[0].requests, [("cpu".to_owned(), "1000m".to_owned())].into());
    assert_eq!(rows.arrivals[1].requests["memory"], "2048Mi");
    assert_eq!(rows.arrivals[1].requests["nvidia.com/gpu"], "1");
}

#[test]
fn dates_and_lengths_are_understood() {
    let columns = "{arrival: at, duration: {column: took, unit: 1ms}}";
    let table = "at,took\n2023-11-16 18:17:03.9799600,250\n2023-11-16T18:17:04Z,1m30s\n";
    let rows = read(columns, table).unwrap();
    let times: Vec<_> = rows.arrivals.iter().map(seconds).collect();
    assert_eq!(times, [(0.0, Some(0.25)), (0.02, Some(90.0))]);
}

#[test]
fn what_cannot_be_played_is_listed_with_its_first_line() {
    let columns = "{arrival: a, end: b, requests: {cpu: c}}";
    let table = "a,b,c\n10,5,1\n1,2,1\n,7,1\n9,8,1\n1,2,much\n";
    let rows = read(columns, table).unwrap();
    assert_eq!(rows.arrivals.len(), 1);
    let left: Vec<String> =
        rows.left_out.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
    assert_eq!(
        left,
        [
            "1 rows of t.csv: the arrival is no time, first on line 4",
            "2 rows of t.csv: the duration is negative, first on line 2",
            "1 rows of t.csv: what it asks of cpu is no quantity, first on line 6",
        ]
    );
    assert_eq!(rows.left_out.iter().map(|left| left.pods).sum::<u64>(), 4);
}

#[test]
fn well_known_forms_are_read_by_their_name() {
    let first = |how: &str, table: &str| {
        let rows = read_as(how, table).unwrap();
        assert_eq!(rows.left_out, []);
        rows.arrivals[0].clone()
    };
    let gitlab = "id,name,status,created_at,started_at,finished_at,duration,queued_duration\n\
        7,\"test: [a,\nb]\",success,2026-03-02T08:00:00.123Z,2026-03-02T08:00:30Z,\
        2026-03-02T08:02:01Z,91.25,29.9\n";
    assert_eq!(seconds(&first("format: gitlab", gitlab)), (0.0, Some(91.25)));
    let github = "id,name,conclusion,created_at,started_at,completed_at\n\
        9,build,success,2026-03-02T08:00:00Z,2026-03-02T08:00:30Z,2026-03-02T08:02:00Z\n";
    assert_eq!(seconds(&first("format: github", github)), (0.0, Some(90.0)));
    let openb = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
        deletion_time,scheduled_time\na,12000,16384,1,1000,,LS,Running,5,65,6\n";
    let pod = first("format: openb", openb);
    assert_eq!(seconds(&pod), (0.0, Some(60.0)));
    assert_eq!(
        (pod.requests["cpu"].as_str(), pod.requests["memory"].as_str()),
        ("12000m", "16384Mi")
    );
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n";
    assert_eq!(seconds(&first("format: azure-llm", azure)), (0.0, None));
    // What the columns say counts.
    let how = "format: azure-llm, columns: {duration: {column: GeneratedTokens, unit: 30ms}}";
    assert_eq!(seconds(&first(how, azure)), (0.0, Some(0.3)));
    let how = "format: github, columns: {end: completed_at}";
    assert_eq!(seconds(&first(how, github)), (0.0, Some(120.0)));
}

#[test]
fn a_file_of_another_form_is_refused() {
    let error = |columns: &str| read(columns, "a,b\n1,2\n").unwrap_err().to_string();
    assert_eq!(error("{arrival: when}"), "t.csv: there is no column \"when\" among a, b");
    assert!(error("{arrival: {column: a, unit: day}}").contains("arrival.unit: \"day\""));
    assert!(error("{duration: b}").contains("replay.columns.arrival: say which column"));
    assert!(error("{arrival: a, start: b}").contains("columns.start: it goes with end"));
    let error_as = read_as("format: gitlab", "a,b\n1,2\n").unwrap_err().to_string();
    assert_eq!(error_as, "t.csv: there is no column \"created_at\" among a, b");
    assert!(error("{arrival: a, duration: b, end: b}").contains("give one of duration and end"));
    assert!(error("{arrival: a, requests: {cpu: {column: b, unit: X}}}").contains("requests.cpu"));
}
