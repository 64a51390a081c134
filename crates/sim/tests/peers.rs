//! The policies of peers do what their own documentation says, second by second.

use std::path::{Path, PathBuf};

use aerostat_sim::event_log::{EventLog, Recording};
use aerostat_sim::report::Report;
use aerostat_sim::scenario::Policy;
use aerostat_sim::simulate::{Options, Simulation};
use aerostat_sim::story::{Kind, Line};

/// Replicas of one core each.
const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: main
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: \"1\", memory: 1Gi}}
";

/// The report of a scenario under a policy, and its story: seconds from the start, and line.
fn run(policy: Policy, timeline: &str, until: &str) -> (Report, Vec<(f64, Line)>) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    write("web.yaml", DEPLOYMENT);
    let scenario = write("s.yaml", &format!("until: {until}\ntimeline:\n{timeline}"));
    let log = folder.path().join("log");
    let options = Options { policy: Some(policy), ..Options::default() };
    let mut simulation = Simulation::begin(&scenario, &options).expect("a scenario");
    simulation.tell(EventLog::create(&log).expect("a log")).expect("nobody else listens");
    let end = simulation.end();
    assert!(simulation.play(end, &mut |_| true).expect("it plays"));
    let report = simulation.report();
    (report, lines(&log))
}

fn lines(log: &Path) -> Vec<(f64, Line)> {
    let recording = Recording::open(log).expect("a log");
    let start = recording.header.start;
    let timed = recording.map(|line| {
        let line = line.expect("a line");
        (line.time.duration_since(start).as_secs_f64(), line)
    });
    timed.collect()
}

/// When things of a kind happened.
fn times(lines: &[(f64, Line)], kind: Kind) -> Vec<f64> {
    lines.iter().filter(|(_, line)| line.kind == kind).map(|(at, _)| *at).collect()
}

fn between(times: &[f64], from: f64, to: f64) -> bool {
    !times.is_empty() && times.iter().all(|at| (from..=to).contains(at))
}

#[test]
fn cluster_autoscaler_scans_every_ten_seconds_and_scales_down_after_ten_minutes() {
    let timeline = "  - {at: 13s, apply: web.yaml}\n\
                    \x20 - {at: 20m, scale: {deployments.apps/default/web: 0}}\n";
    let (report, lines) = run(Policy::ClusterAutoscaler, timeline, "35m");
    let ordered = times(&lines, Kind::NodeOrdered);
    assert!(between(&ordered, 20.0, 20.1), "at the next scan: {ordered:?}");
    // m6a.xlarge carries three pods of a core; m6a.large would carry one each, and larger ones waste.
    assert_eq!(report.cost.by_instance_type.keys().collect::<Vec<_>>(), ["m6a.xlarge"]);
    let gone = times(&lines, Kind::NodeGone);
    assert!(between(&gone, 1800.0, 1830.0), "ten minutes after its last pod: {gone:?}");
    assert_eq!(report.disruptions.by_reason["Empty"], 1);
}

#[test]
fn cluster_autoscaler_drains_what_is_used_by_less_than_half() {
    // Two machines of four cores; then one pod is left on each, or three on one and none elsewhere.
    let timeline = "  - {at: 1s, apply: web.yaml}\n\
                    \x20 - {at: 2m, scale: {deployments.apps/default/web: 6}}\n\
                    \x20 - {at: 4m, scale: {deployments.apps/default/web: 4}}\n";
    let (report, lines) = run(Policy::ClusterAutoscaler, timeline, "40m");
    assert_eq!(report.nodes.launched, 2, "{report:?}");
    // Four pods do not fit on one machine beside its system's share: both stay.
    assert_eq!(times(&lines, Kind::NodeGone), [] as [f64; 0]);
    let timeline = timeline.replace("web: 4", "web: 3");
    let (report, lines) = run(Policy::ClusterAutoscaler, &timeline, "40m");
    let gone = times(&lines, Kind::NodeGone);
    assert!(between(&gone, 840.0, 960.0), "ten minutes after the last pod went: {gone:?}");
    assert_eq!(report.pods.running, 3);
    assert_eq!(report.nodes.by_offer.len(), 1);
}

#[test]
fn karpenter_waits_for_a_second_of_quiet_and_ten_at_most() {
    let (_, lines) = run(Policy::Karpenter, "  - {at: 13s, apply: web.yaml}\n", "1m");
    let ordered = times(&lines, Kind::NodeOrdered);
    assert!(between(&ordered, 14.0, 14.1), "{ordered:?}");
    // A pod more every half second: the first ones wait for ten seconds.
    let mut timeline = "  - {at: 13s, apply: web.yaml}\n".to_owned();
    for more in 1..30 {
        let (at, replicas) = (13_000 + 500 * more, 3 + more);
        let scale = format!("{{deployments.apps/default/web: {replicas}}}");
        timeline.push_str(&format!("  - {{at: {at}ms, scale: {scale}}}\n"));
    }
    let (_, lines) = run(Policy::Karpenter, &timeline, "1m");
    let first = times(&lines, Kind::NodeOrdered)[0];
    assert!((22.0..=24.1).contains(&first), "{first}");
}

#[test]
fn karpenter_validates_for_fifteen_seconds_and_we_do_not() {
    let timeline = "  - {at: 1s, apply: web.yaml}\n\
                    \x20 - {at: 5m, scale: {deployments.apps/default/web: 0}}\n";
    let going = |policy| {
        let (report, lines) = run(policy, timeline, "10m");
        assert_eq!(report.disruptions.by_reason["Empty"], 1);
        times(&lines, Kind::NodeLeaving)[0]
    };
    let (ours, theirs) = (going(Policy::Aerostat), going(Policy::Karpenter));
    assert!((theirs - ours - 15.0).abs() < 2.0, "{ours} and {theirs}");
}
