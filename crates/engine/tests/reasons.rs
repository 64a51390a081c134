//! Why pods get nothing, pool by pool, and which pool comes closest.

mod world;

use std::path::Path;

use world::read::{Scenario, time};

/// The reasons of each pod of `reasons.yaml` that got nothing.
fn reasons(pod: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let scenario = Scenario::read(&root.join("reasons.yaml")).expect("it is a scenario");
    let mut world = scenario.world(&root);
    let step = &scenario.steps[0];
    step.apply(&mut world);
    let (_, report) = world.plan(time(&step.at));
    let unplaced = report.unplaced.iter().find(|unplaced| unplaced.pod.1 == pod);
    let unplaced = unplaced.unwrap_or_else(|| panic!("{pod} has a place"));
    unplaced.reasons.iter().map(ToString::to_string).collect()
}

const TAINTED: &str = "tainted: taints that the pod does not tolerate: team=blue:NoSchedule";

#[test]
fn what_is_too_large_names_the_closest_type_and_what_it_lacks() {
    assert_eq!(
        reasons("alone"),
        [
            "general: 2 of 3 types left after kubernetes.io/arch; none has 71 vCPU free of \
             daemonsets; closest: c.huge lacks 8 vCPU",
            "small: 1 of 3 types left after node.kubernetes.io/instance-type; none has 71 vCPU \
             free of daemonsets; closest: c.large lacks 68 vCPU",
            TAINTED,
        ]
    );
    let both = reasons("both");
    assert!(
        both[0].ends_with(
            "none has 200Gi memory free of daemonsets; closest: c.huge lacks 72Gi memory"
        ),
        "{both:?}"
    );
}

#[test]
fn labels_are_told_in_the_order_in_which_they_take_types_away() {
    assert_eq!(
        reasons("zone")[0],
        "general: 1 of 3 types left after kubernetes.io/arch, topology.kubernetes.io/zone; none \
         has 5 vCPU free of daemonsets; closest: c.large lacks 2 vCPU"
    );
    let arch = reasons("arch");
    assert!(
        arch.iter().any(|reason| reason
            .starts_with("general: incompatible requirements: key kubernetes.io/arch")),
        "{arch:?}"
    );
    assert!(arch.contains(&"small: 1 of 3 types left after node.kubernetes.io/instance-type; none has kubernetes.io/arch In [s390x]".to_owned()), "{arch:?}");
    let label = reasons("label");
    assert!(label[0].contains("label \"disk\" does not have known values"), "{label:?}");
}

#[test]
fn limits_come_closest_of_all() {
    let limit = reasons("limit");
    assert_eq!(
        limit[0],
        "small: 1 of 3 types left after node.kubernetes.io/instance-type; the 1 that hold the pod \
         exceed what the pool's limits leave (cpu)"
    );
    assert_eq!(limit.len(), 3, "each pool once: {limit:?}");
}
