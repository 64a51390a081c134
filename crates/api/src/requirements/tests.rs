use proptest::prelude::*;

use super::*;

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement::new(key, operator, values.iter().map(|v| (*v).to_owned())).unwrap()
}

fn well_known() -> BTreeSet<String> {
    [labels::ZONE, labels::ARCH, labels::INSTANCE_TYPE].map(str::to_owned).into()
}

/// The naive model: a requirement says of each value, and of absence, whether it is allowed.
#[derive(Clone, Debug)]
struct Spoken {
    operator: Operator,
    values: Vec<String>,
}

impl Spoken {
    fn allows(&self, value: Option<&str>) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let compare = |f: fn(&i64, &i64) -> bool| {
            value.and_then(number).zip(number(&self.values[0])).is_some_and(|(a, b)| f(&a, &b))
        };
        let listed = value.is_some_and(|value| self.values.iter().any(|v| v == value));
        match self.operator {
            Operator::In => listed,
            Operator::NotIn => !listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compare(i64::gt),
            Operator::Lt => compare(i64::lt),
            Operator::Gte => compare(i64::ge),
            Operator::Lte => compare(i64::le),
        }
    }

    fn requirement(&self) -> Requirement {
        self.requirement_of("k")
    }

    fn requirement_of(&self, key: &str) -> Requirement {
        Requirement::new(key, self.operator, self.values.iter().cloned()).unwrap()
    }
}

/// Words, integers, the same integers written otherwise, and a word that nobody names.
fn universe() -> Vec<String> {
    let numbers = (0..=9).flat_map(|n| [n.to_string(), format!("0{n}")]);
    ["a", "b", "c", "unnamed"].map(str::to_owned).into_iter().chain(numbers).collect()
}

fn spoken() -> impl Strategy<Value = Spoken> {
    let value = prop_oneof![
        proptest::sample::select(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]),
        (1..=8_i64).prop_map(|n| n.to_string()),
    ];
    let set = proptest::collection::vec(value, 1..4);
    let bound = (1..=8_i64).prop_map(|n| vec![n.to_string()]);
    prop_oneof![
        (proptest::sample::select(vec![Operator::In, Operator::NotIn]), set),
        (
            proptest::sample::select(vec![Operator::Exists, Operator::DoesNotExist]),
            Just(Vec::new())
        ),
        (
            proptest::sample::select(vec![
                Operator::Gt,
                Operator::Lt,
                Operator::Gte,
                Operator::Lte
            ]),
            bound
        ),
    ]
    .prop_map(|(operator, values)| Spoken { operator, values })
}

fn key() -> impl Strategy<Value = String> {
    proptest::sample::select(vec!["j".to_owned(), "k".to_owned(), "l".to_owned()])
}

fn merged(list: &[Spoken]) -> Requirements {
    list.iter().map(Spoken::requirement).collect()
}

proptest! {
    #[test]
    fn intersection_allows_what_all_allow(list in proptest::collection::vec(spoken(), 1..5)) {
        let requirements = merged(&list);
        for value in universe() {
            let naive = list.iter().all(|spoken| spoken.allows(Some(&value)));
            prop_assert_eq!(requirements.allows("k", Some(&value)), naive, "{}", value);
        }
        let naive = list.iter().all(|spoken| spoken.allows(None));
        prop_assert_eq!(requirements.allows("k", None), naive);
    }

    #[test]
    fn the_order_of_narrowing_does_not_matter(list in proptest::collection::vec(spoken(), 1..5)) {
        let reversed: Vec<Spoken> = list.iter().rev().cloned().collect();
        prop_assert_eq!(merged(&list), merged(&reversed));
    }

    #[test]
    fn compatible_is_a_value_in_common_or_absence(
        a in proptest::collection::vec(spoken(), 1..3),
        b in proptest::collection::vec(spoken(), 1..3),
    ) {
        let both = |value: Option<&str>| a.iter().chain(&b).all(|spoken| spoken.allows(value));
        let common = universe().iter().any(|value| both(Some(value)));
        let absent = both(None);
        let (left, right) = (merged(&a), merged(&b));
        prop_assert_eq!(left.compatible(&right, &BTreeSet::new()).is_ok(), common || absent);
    }

    #[test]
    fn a_label_that_is_not_defined_must_be_allowed_to_be_absent(a in spoken()) {
        let incoming = merged(std::slice::from_ref(&a));
        let nothing = Requirements::default();
        prop_assert_eq!(nothing.compatible(&incoming, &BTreeSet::new()).is_ok(), a.allows(None));
        prop_assert!(nothing.compatible(&incoming, &BTreeSet::from(["k".to_owned()])).is_ok());
    }

    #[test]
    fn a_claim_says_the_same(list in proptest::collection::vec(spoken(), 1..5)) {
        let requirements = merged(&list);
        let read = Requirements::from_pool(&requirements.to_claim()).unwrap();
        prop_assert_eq!(read, requirements);
    }

    #[test]
    fn keys_are_judged_each_for_itself(
        node in proptest::collection::vec((key(), spoken()), 0..5),
        pod in proptest::collection::vec((key(), spoken()), 0..3),
        known in proptest::collection::btree_set(key(), 0..3),
    ) {
        let read = |list: &[(String, Spoken)]| -> Requirements {
            list.iter().map(|(key, spoken)| spoken.requirement_of(key)).collect()
        };
        let says = |list: &[(String, Spoken)], key: &str, value: Option<&str>| {
            list.iter().filter(|(other, _)| other == key).all(|(_, s)| s.allows(value))
        };
        // A node has a label if its pool names it or if every node may have it.
        let can_meet = |key: &String| {
            let is_named = node.iter().any(|(other, _)| other == key);
            let both = |value: Option<&str>| says(&node, key, value) && says(&pod, key, value);
            let value = || universe().iter().any(|value| both(Some(value)));
            both(None) || (is_named && value()) || (!is_named && known.contains(key))
        };
        let naive = pod.iter().all(|(key, _)| can_meet(key));
        prop_assert_eq!(read(&node).compatible(&read(&pod), &known).is_ok(), naive);
    }

    #[test]
    fn the_larger_min_values_stays(
        list in proptest::collection::vec((spoken(), proptest::option::of(1..9_i64)), 1..5),
    ) {
        let requirements: Requirements = list
            .iter()
            .map(|(spoken, min)| Requirement { min_values: *min, ..spoken.requirement() })
            .collect();
        let most = list.iter().filter_map(|(_, min)| *min).max();
        prop_assert_eq!(requirements.get("k").unwrap().min_values, most);
        let read = Requirements::from_pool(&requirements.to_claim()).unwrap();
        prop_assert_eq!(read.get("k").unwrap().min_values, most);
    }

    #[test]
    fn what_is_empty_has_no_value(list in proptest::collection::vec(spoken(), 1..5)) {
        let requirements = merged(&list);
        let requirement = requirements.get("k").unwrap();
        let allowed: Vec<String> =
            universe().into_iter().filter(|value| requirement.has(value)).collect();
        if requirement.is_empty() {
            prop_assert_eq!(&allowed, &[""; 0]);
        }
        if let Some(values) = requirement.values() {
            prop_assert_eq!(values.iter().collect::<Vec<_>>().len(), allowed.len());
        }
        // Numbers with leading zeros are values, but none that is made up.
        let plain = |value: &String| value == "0" || !value.starts_with('0');
        let some = allowed.iter().any(plain);
        prop_assert_eq!(requirement.any().is_some(), some, "{}", requirement);
    }

    #[test]
    fn any_is_allowed(list in proptest::collection::vec(spoken(), 1..5)) {
        let requirements = merged(&list);
        let any = requirements.get("k").unwrap().any();
        prop_assert!(any.is_none_or(|value| requirements.allows("k", Some(&value))));
    }
}

#[test]
fn old_names_are_todays() {
    let old = requirement("beta.kubernetes.io/arch", Operator::In, &["arm64"]);
    assert_eq!(old.key(), labels::ARCH);
}

#[test]
fn texts_are_karpenters() {
    let text = |operator, values: &[&str]| requirement("k", operator, values).to_string();
    assert_eq!(text(Operator::In, &["b", "a"]), "k In [a b]");
    assert_eq!(
        text(Operator::NotIn, &["a", "b", "c", "d", "e", "f", "g"]),
        "k NotIn [a b c d e and 2 others]"
    );
    assert_eq!(text(Operator::Gt, &["4"]), "k Exists >=5");
    assert_eq!(text(Operator::Lt, &["4"]), "k Exists <=3");
    assert_eq!(text(Operator::DoesNotExist, &[]), "k DoesNotExist");
    let mut flexible = requirement("k", Operator::Exists, &[]);
    flexible.min_values = Some(3);
    assert_eq!(flexible.to_string(), "k Exists minValues 3");
}

#[test]
fn incompatibility_names_the_label() {
    let mut pool = Requirements::default();
    pool.add(requirement(labels::ARCH, Operator::In, &["amd64"]));
    let mut pod = Requirements::default();
    pod.add(requirement(labels::ARCH, Operator::In, &["arm64"]));
    pod.add(requirement("team", Operator::In, &["red"]));
    pod.add(requirement("zone", Operator::Exists, &[]));
    let error = pool.compatible(&pod, &well_known()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "label \"team\" does not have known values; \
         label \"zone\" does not have known values (typo of \"topology.kubernetes.io/zone\"?); \
         key kubernetes.io/arch, kubernetes.io/arch In [arm64] not in kubernetes.io/arch In [amd64]"
    );
}

#[test]
fn bad_requirements_say_what_is_wrong() {
    let error = |operator, values: &[&str]| {
        Requirement::new("k", operator, values.iter().map(|v| (*v).to_owned())).unwrap_err()
    };
    assert_eq!(error(Operator::In, &[]), "k: In takes at least one value");
    assert_eq!(error(Operator::Gt, &["four"]), "k: Gt takes one integer, \"four\" is none");
    assert_eq!(error(Operator::Lte, &["1", "2"]), "k: Lte takes one integer, not 2 values");
    assert_eq!(error(Operator::Exists, &["1"]), "k: Exists takes no values");
    let list = [NodeSelectorRequirement {
        key: "k".to_owned(),
        operator: "Equals".to_owned(),
        values: Vec::new(),
        min_values: None,
    }];
    let error = Requirements::from_pool(&list).unwrap_err();
    assert!(error.starts_with("requirements[0]: unknown operator \"Equals\""), "{error}");
}

#[test]
fn the_ends_of_the_integers_hold() {
    let most = i64::MAX.to_string();
    assert!(requirement("k", Operator::Gt, &[&most]).is_empty());
    assert_eq!(requirement("k", Operator::Gte, &[&most]).any(), Some(most));
    let least = i64::MIN.to_string();
    assert!(requirement("k", Operator::Lt, &[&least]).is_empty());
}

#[test]
fn pods_have_the_schedulers_operators_only() {
    let read = |operator: &str| {
        Requirements::from_expressions(&[core::NodeSelectorRequirement {
            key: "k".to_owned(),
            operator: operator.to_owned(),
            values: Some(vec!["1".to_owned()]),
        }])
    };
    assert!(read("Gt").is_ok() && read("Lt").is_ok());
    for operator in ["Gte", "Lte"] {
        let error = read(operator).unwrap_err();
        assert!(error.starts_with(&format!("k: pods cannot ask for {operator}")), "{error}");
    }
}
