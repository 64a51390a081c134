//! `aerostat simulate` as a user calls it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// One pod that runs for a minute.
const JOB: &str = "
until: 3m
arrivals:
  - name: job
    duration: {uniform: {min: 10s, max: 60s}}
    bursts: {size: 1, every: 1h}
    template:
      apiVersion: batch/v1
      kind: Job
      spec:
        template:
          spec:
            restartPolicy: Never
            containers:
              - {name: main, image: busybox, resources: {requests: {cpu: \"1\"}}}
";

fn simulate(files: &[(&str, &str)], arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    Command::new(env!("CARGO_BIN_EXE_aerostat"))
        .arg("simulate")
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .expect("it runs")
}

fn told(files: &[(&str, &str)], arguments: &[&str]) -> String {
    let output = simulate(files, arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// Asserts that a scenario is refused with each of `words`.
fn refuses(scenario: &str, more: &[(&str, &str)], words: &[&str]) {
    let files = [&[("s.yaml", scenario)], more].concat();
    let output = simulate(&files, &["s.yaml"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "taken: {scenario}");
    assert!(output.stdout.is_empty(), "half a report for {scenario}");
    for word in words {
        assert!(error.contains(word), "{scenario}\ndoes not say {word:?}:\n{error}");
    }
}

#[test]
fn a_seed_decides_and_scenarios_are_compared() {
    let files = [("s.yaml", JOB)];
    let json = |arguments: &[&str]| -> Value {
        let text = told(&files, &[&["s.yaml", "-o", "json"], arguments].concat());
        serde_json::from_str(&text).expect("JSON")
    };
    let one = json(&["--seed", "1"]);
    assert_eq!(one["pods"]["finished"], 1);
    assert_eq!(json(&["--seed", "1"]), one);
    let sweep = json(&["--sweep", "config.cloud.boot=22s,40s", "--seed", "1", "--seeds", "2"]);
    assert_eq!(sweep["variants"][0]["reports"][0], one, "other cores, same result");
    let waits = sweep["differences"].as_array().expect("differences").iter();
    let wait = waits.clone().find(|d| d["figure"] == "waitSeconds.p50").expect("a wait");
    // The machine takes 18 s longer to boot; the sandbox is tried again a while later.
    assert!((17.0..31.0).contains(&wait["mean"].as_f64().expect("a mean")), "{wait}");
    assert!(wait["within"].as_f64().is_some(), "{wait}");
    let page = told(&files, &["s.yaml", "-o", "html"]);
    assert!(page.starts_with("<!doctype html>") && page.contains("\"totalUsd\":"));
}

#[test]
fn mistakes_are_named_with_file_line_and_field() {
    refuses("until: soon\n", &[], &["s.yaml", "line 1", "write it like 90s, 12h, 30d"]);
    refuses("until: 1h\nuntli: 1h\n", &[], &["s.yaml", "line 2", "untli"]);
    refuses("arrivals: []\n", &[], &["s.yaml", "no `until`", "--until"]);
    refuses("until: 99999d\n", &[], &["at most two years"]);
    refuses("until: 1h\nregion: mars-1\n", &[], &["mars-1", "ap-northeast-1"]);
    let groups = "until: 1h\npolicy: cluster-autoscaler\nnodeGroups: [z9.huge]\n";
    refuses(groups, &[], &["nodeGroups", "ap-northeast-1", "z9.huge"]);
    let boot = "until: 1h\nconfig: {cloud: {boot: {uniform: {min: 9s, max: 1s}}}}\n";
    refuses(boot, &[], &["cloud.boot", "min 9s is above max 1s"]);
    let rate = "until: 1h\nconfig: {cloud: {spotInterruptionsPerHour: -2}}\n";
    refuses(rate, &[], &["cloud.spotInterruptionsPerHour", "-2 must be from 0 to 3600"]);
    let shortage = "until: 1h\nconfig: {stock: {shortages: [{every: 1h, lasts: 0s}]}}\n";
    refuses(shortage, &[], &["stock.shortages[0].lasts", "write a length above 0"]);
    let step = |what: &str| format!("until: 1h\ntimeline:\n  - {what}\n");
    refuses(&step("{cron: 0 8 * *, show: pods}"), &[], &["s.yaml", "line 3", "0 8 * *"]);
    let zone = "{cron: 0 8 * * *, timeZone: Mars/Olympus, show: pods}";
    refuses(&step(zone), &[], &["s.yaml", "line 3", "Mars/Olympus", "Europe/Berlin"]);
    refuses(&step("{show: pods}"), &[], &["line 3", "timeline[0]", "exactly one of at and cron"]);
    refuses(&step("{at: 1s, apply: no.yaml}"), &[], &["no.yaml cannot be read"]);
    let scale = step("{at: 1s, scale: {deployments.apps/default/web: 1000000000}}");
    refuses(&scale, &[], &["deployments.apps/default/web", "1000000000", "0 to 1000000"]);
    let flood = JOB.replace("bursts: {size: 1, every: 1h}", "poisson: {perHour: 1e12}");
    refuses(&flood, &[], &["arrivals \"job\"", "poisson.perHour", "more than can be simulated"]);
    let huge = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  \
                replicas: 1000000000\n";
    let apply = "until: 1h\nmanifests: [web.yaml]\n";
    refuses(apply, &[("web.yaml", huge)], &["web.yaml:1", "spec.replicas", "1000000000"]);
    let autoscaler = "kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\n\
                      metadata: {name: web}\nspec:\n  maxReplicas: 1000000000\n  \
                      scaleTargetRef: {kind: Deployment, name: web}\n";
    refuses(apply, &[("web.yaml", autoscaler)], &["web.yaml:1", "spec.maxReplicas", "1000000"]);
    let patch = "{at: 1s, patch: {of: namespaces, with: {spec: {replicas: 2000000}}}}";
    refuses(&step(patch), &[], &["patch: namespaces", "spec.replicas: 2000000 pods are more"]);
    let load = "until: 1h\nloads:\n  - {of: deployments.apps/default/web}\n";
    refuses(load, &[], &["s.yaml", "line 3", "loads[0]", "give cpu, memory or both"]);
    let replay = JOB.replace(
        "bursts: {size: 1, every: 1h}",
        "replay: {file: jobs.csv, columns: {arrival: created_at, end: done}}",
    );
    let jobs = ("jobs.csv", "created_at,finished_at\n1,2\n");
    refuses(&replay, &[jobs], &["jobs.csv", "no column \"done\"", "created_at, finished_at"]);
    let trace = "until: 1h\ntraces: [t.sktrace]\n";
    refuses(trace, &[("t.sktrace", "\u{1}")], &["t.sktrace is no SimKube trace"]);
}

#[test]
fn rows_that_cannot_be_played_are_accounted_for() {
    let replay = JOB.replace(
        "bursts: {size: 1, every: 1h}",
        "replay: {file: jobs.csv, columns: {arrival: at, end: end}}",
    );
    let jobs = "at,end\n100,110\n130,120\n101,oops\n99999,99999\n";
    let text = told(&[("s.yaml", &replay), ("jobs.csv", jobs)], &["s.yaml", "-o", "json"]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let pods = &report["pods"];
    assert_eq!(
        (&pods["total"], &pods["finished"], &pods["leftOut"]),
        (&4.into(), &1.into(), &3.into())
    );
    assert!(text.contains("the duration is negative, first on line 3"), "{text}");
}

#[test]
fn objects_of_a_dump_that_are_too_large_are_left_out_and_counted() {
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  \
               replicas: 1000000000\n";
    let files = [("s.yaml", "until: 1m\ndumps: [web.yaml]\n"), ("web.yaml", web)];
    let text = told(&files, &["s.yaml", "-o", "json"]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["pods"]["leftOut"], 1_000_000_000);
    assert!(text.contains("more than can be simulated"), "{text}");
}

#[test]
fn a_run_is_halted_looked_at_and_shown_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let files = [("s.yaml", JOB)];
    let whole = told(&files, &["s.yaml"]);

    // What is served is the cluster at that moment, and a look at it changes nothing.
    let kubeconfig = at("kubeconfig");
    let kubectl = std::env::var("AEROSTAT_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let kubectl = kubectl.split(':').next().unwrap_or_default();
    let look = format!(
        "test -s \"$KUBECONFIG\" || exit 9\n\
         command -v {kubectl} > /dev/null || {{ echo 'skipped: no kubectl'; exit 3; }}\n\
         {kubectl} get jobs,pods --no-headers && {kubectl} get pods --no-headers && exit 3"
    );
    let pause = ["s.yaml", "--pause-at", "40s", "--serve", "--kubeconfig", &kubeconfig];
    let output = simulate(&files, &[&pause[..], &["--", "sh", "-c", &look]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "the command's own exit code: {text}{error}");
    assert!(error.contains("2026-01-05T00:00:40Z: the time stands still"), "{error}");
    if !text.contains("skipped: no kubectl") {
        let ages = text.lines().take(3).filter(|line| line.ends_with("40s"));
        assert_eq!(ages.count(), 3, "ages at that moment: {text}");
    }
    assert!(text.ends_with(&whole), "{text}");
    let output = simulate(&files, &["s.yaml", "--pause-at", "9m", "--serve"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("2026-01-05T00:09:00Z is not in the scenario"), "{error}");

    // A snapshot is what another scenario starts from.
    let state = told(&files, &["s.yaml", "--snapshot", "40s"]);
    let scenario = "until: 3m\ndumps: [state.yaml]\n";
    let again = [("s.yaml", scenario), ("state.yaml", &state)];
    let report: Value =
        serde_json::from_str(&told(&again, &["s.yaml", "-o", "json"])).expect("JSON");
    assert_eq!(report["pods"]["finished"], 1, "{report}");
    let lost = report["leftOut"].as_array().expect("a list").iter();
    assert!(lost.clone().all(|left| left["pods"] == 0), "{report}");

    // The log does not change the run, and tells it.
    let log = at("run.log");
    assert_eq!(told(&files, &["s.yaml", "--log", &log]), whole);
    let replay = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aerostat"));
        command.arg("replay").args(arguments).output().expect("it runs")
    };
    let shown = String::from_utf8_lossy(&replay(&[&log]).stdout).into_owned();
    assert!(shown.contains("pod default/job-1-") && shown.contains("has completed"), "{shown}");
    let missing = String::from_utf8_lossy(&replay(&["no.log"]).stderr).into_owned();
    assert!(missing.contains("no.log cannot be read"), "{missing}");
}

#[test]
fn what_is_recorded_of_a_cluster_is_played_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("t.sktrace").to_string_lossy().into_owned();
    let record = [env!("CARGO_BIN_EXE_aerostat"), "record", "--for", "0s", "-o", &trace];
    let kubeconfig = folder.path().join("kubeconfig").to_string_lossy().into_owned();
    let pause = ["s.yaml", "--pause-at", "30s", "--serve", "--kubeconfig", &kubeconfig, "--"];
    told(&[("s.yaml", JOB)], &[&pause[..], &record].concat());
    let bytes = std::fs::read(&trace).expect("a trace");
    let holds = |word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    assert!(holds("job-1") && !holds("busybox"), "names are made up");
    let again = format!("until: 3m\ntraces: [{trace}]\n");
    let text = told(&[("s.yaml", &again)], &["s.yaml", "-o", "json"]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let pods = &report["pods"];
    // It had not ended, so nobody knows how long it takes.
    assert_eq!((&pods["total"], &pods["running"]), (&1.into(), &1.into()), "{text}");
    assert_eq!(report["leftOut"], serde_json::json!([]), "{text}");
}

#[test]
fn schemas_name_what_the_help_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = simulate(&[], &["--help"]);
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    for file in ["docs/simulate-report.schema.json", "docs/scenario.schema.json"] {
        assert!(help.contains(file), "{file}");
        assert!(root.join(file).exists(), "{file}");
    }
}
