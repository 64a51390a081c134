use serde_json::{Value, json};

use super::*;

fn overlay(name: &str, spec: Value) -> Overlay {
    Overlay::from_k8s(&object(name, spec)).unwrap()
}

fn object(name: &str, spec: Value) -> NodeOverlay {
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": spec,
    });
    serde_json::from_value(overlay).unwrap()
}

fn kind(name: &str, arch: &str, price: f64) -> InstanceType {
    let offering = |zone: &str, capacity_type: &str, price| Offering {
        zone: zone.to_owned(),
        capacity_type: capacity_type.to_owned(),
        price,
        available: true,
        reservation: None,
    };
    let machine = Resources { cpu: 2000, memory: 1 << 32, pods: 29, ..Resources::default() };
    InstanceType {
        name: name.to_owned(),
        labels: [(labels::ARCH.to_owned(), arch.to_owned())].into(),
        offerings: vec![offering("a", "on-demand", price), offering("b", "spot", price / 2.0)],
        capacity: machine.clone(),
        allocatable: machine,
    }
}

fn target(pool: &str) -> Target {
    Target {
        labels: [(labels::NODEPOOL.to_owned(), pool.to_owned())].into(),
        types: Arc::new(vec![kind("c5.large", "amd64", 0.1), kind("c6g.large", "arm64", 0.08)]),
    }
}

/// Prices of all offerings, type by type.
fn prices(types: &[InstanceType]) -> Vec<f64> {
    let offerings = types.iter().flat_map(|kind| &kind.offerings);
    offerings.map(|offering| (offering.price * 1e6).round() / 1e6).collect()
}

fn selects(key: &str, value: &str) -> Value {
    json!([{"key": key, "operator": "In", "values": [value]}])
}

#[test]
fn prices_are_set_raised_and_lowered() {
    let spot = selects(labels::CAPACITY_TYPE, "spot");
    for (change, expected) in [
        (json!({"price": "0.5"}), [0.1, 0.5, 0.08, 0.5]),
        (json!({"priceAdjustment": "+0.01"}), [0.1, 0.06, 0.08, 0.05]),
        (json!({"priceAdjustment": "-1"}), [0.1, 0.0, 0.08, 0.0]),
        (json!({"priceAdjustment": "+50%"}), [0.1, 0.075, 0.08, 0.06]),
        (json!({"priceAdjustment": "-100%"}), [0.1, 0.0, 0.08, 0.0]),
    ] {
        let mut spec = change.clone();
        spec["requirements"] = spot.clone();
        let (types, conflicts) = apply(&[overlay("o", spec)], &[target("p")]);
        assert_eq!(prices(&types[0]), expected, "{change}");
        assert!(conflicts.is_empty());
    }
}

#[test]
fn higher_weight_holds_and_equal_weight_is_a_conflict() {
    let all =
        |price: &str, weight: i32| json!({"requirements": [], "price": price, "weight": weight});
    let arm = json!({"requirements": selects(labels::ARCH, "arm64"), "price": "3", "weight": 5});
    let (types, conflicts) =
        apply(&[overlay("low", all("1", 1)), overlay("arm", arm.clone())], &[target("p")]);
    assert_eq!(prices(&types[0]), [1.0, 1.0, 3.0, 3.0]);
    assert!(conflicts.is_empty());

    // Of equals the last name comes first; the other one has no effect, not even where it is alone.
    let overlays = [overlay("b-arm", arm), overlay("a-all", all("1", 5))];
    let (types, conflicts) = apply(&overlays, &[target("p")]);
    assert_eq!(prices(&types[0]), [0.1, 0.05, 3.0, 3.0]);
    assert_eq!(conflicts, BTreeSet::from(["a-all".to_owned()]));

    // Not in another pool either.
    let mut of_pool = selects(labels::NODEPOOL, "q");
    of_pool
        .as_array_mut()
        .unwrap()
        .extend(selects(labels::ARCH, "amd64").as_array().unwrap().clone());
    let overlays = [
        overlay("z", json!({"requirements": of_pool, "price": "9"})),
        overlay("y", json!({"requirements": [], "price": "1"})),
    ];
    let (types, conflicts) = apply(&overlays, &[target("p"), target("q")]);
    assert_eq!(prices(&types[0]), [0.1, 0.05, 0.08, 0.04]);
    assert_eq!(prices(&types[1]), [9.0, 9.0, 0.08, 0.04]);
    assert_eq!(conflicts, BTreeSet::from(["y".to_owned()]));
}

#[test]
fn capacity_merges_by_resource() {
    let gpu = |count: u32, weight: i32| {
        json!({"requirements": selects(labels::ARCH, "arm64"), "weight": weight,
            "capacity": {"smarter-devices/fuse": count, "hugepages-2Mi": "1Gi"}})
    };
    let more = json!({"requirements": [], "capacity": {"example.com/fpga": 1}});
    let overlays = [overlay("one", gpu(2, 3)), overlay("two", gpu(7, 2)), overlay("three", more)];
    let (types, conflicts) = apply(&overlays, &[target("p")]);
    assert!(conflicts.is_empty());
    let arm = &types[0][1];
    assert_eq!(arm.capacity.get("smarter-devices/fuse"), 2);
    assert_eq!(arm.allocatable.get("example.com/fpga"), 1);
    assert_eq!(arm.allocatable.memory, 3 << 30, "huge pages are set aside");
    assert_eq!(types[0][0].capacity.get("smarter-devices/fuse"), 0);

    let (types, conflicts) =
        apply(&[overlay("a", gpu(2, 3)), overlay("b", gpu(7, 3))], &[target("p")]);
    assert_eq!(conflicts, BTreeSet::from(["a".to_owned()]));
    assert_eq!(types[0][1].capacity.get("smarter-devices/fuse"), 7);
}

#[test]
fn labels_that_nodes_do_not_have_are_absent() {
    let with = |operator: &str| {
        let requirements = json!([{"key": "team", "operator": operator}]);
        let overlays = [overlay("o", json!({"requirements": requirements, "price": "1"}))];
        prices(&apply(&overlays, &[target("p")]).0[0])[0]
    };
    assert!(with("Exists") < 1.0);
    assert!(with("DoesNotExist") >= 1.0);
}

#[test]
fn what_cannot_be_read_is_named() {
    let error = |spec: Value| Overlay::from_k8s(&object("o", spec)).unwrap_err();
    for (spec, expected) in [
        (json!({"requirements": [], "price": "-1"}), "spec.price is \"-1\": it must be USD"),
        (json!({"requirements": [], "price": "1", "priceAdjustment": "+1"}), "spec.price and"),
        (json!({"requirements": [], "priceAdjustment": "5%"}), "spec.priceAdjustment is \"5%\""),
        (json!({"requirements": [], "priceAdjustment": "-101%"}), "spec.priceAdjustment is"),
        (json!({"requirements": [], "capacity": {"cpu": 1}}), "spec.capacity: cpu cannot"),
        (
            json!({"requirements": [{"key": "a", "operator": "Like"}]}),
            "spec.requirements[0]: unknown operator",
        ),
    ] {
        let told = error(spec);
        assert!(told.starts_with(expected), "{told}");
    }
}
