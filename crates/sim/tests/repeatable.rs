//! The same seed gives the same bytes: event log, report and objects, whatever else the machine
//! does meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use aerostat_sim::event_log::EventLog;
use aerostat_sim::simulate::{Options, Simulation};

/// Log, report and objects of a run.
fn run(scenario: &Path, log: &Path) -> [String; 3] {
    let mut simulation = Simulation::begin(scenario, &Options::default()).expect("a scenario");
    simulation.tell(EventLog::create(log).expect("a log")).expect("nobody else listens");
    let end = simulation.end();
    assert!(simulation.play(end, &mut |_| true).expect("it plays"));
    let state = simulation.state().to_string();
    let report = serde_json::to_string(&simulation.report()).expect("JSON");
    [std::fs::read_to_string(log).expect("the log"), report, state]
}

#[test]
fn a_busy_machine_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for name in ["spot-storm.yaml", "working-hours.yaml"] {
        let alone = run(&root.join(name), &folder.path().join("alone.log"));
        let is_done = AtomicBool::new(false);
        let beside = std::thread::scope(|scope| {
            // One more than there are cores: the run is interrupted again and again.
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            for _ in 0..=cores {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let beside = run(&root.join(name), &folder.path().join("beside.log"));
            is_done.store(true, Ordering::Relaxed);
            beside
        });
        for (what, (one, other)) in
            ["log", "report", "objects"].iter().zip(alone.iter().zip(&beside))
        {
            assert!(one.len() > 1000, "{name}: hardly any {what}: {one}");
            assert!(one == other, "{name}: another {what}");
        }
    }
}

#[test]
fn while_it_stands_still_what_waits_for_time_waits() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut simulation = Simulation::begin(&root.join("article-cold.yaml"), &Options::default())
        .expect("a scenario");
    let at = simulation.time_of("20s".parse().expect("a moment")).expect("it is in it");
    simulation.play(at, &mut |_| true).expect("it plays");
    let before = simulation.state();
    simulation.stand_still(async |world| {
        let clock = world.cluster.clock();
        assert_eq!(clock.now(), at);
        // Real time passes, and the node that is four seconds away does not come.
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(()));
        });
        receiver.await.expect("the thread has sent");
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(clock.now(), at);
    });
    assert_eq!(simulation.state(), before);
    let end = simulation.end();
    simulation.play(end, &mut |_| true).expect("it goes on");
    assert_eq!(simulation.report().pods.finished, 1);
}
