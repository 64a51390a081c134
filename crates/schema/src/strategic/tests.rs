use serde_json::{Value, json};

use super::patch;

#[track_caller]
fn pod(object: Value, change: Value, expected: Value) {
    assert_eq!(patch("", "v1", "Pod", &object, &change).unwrap(), expected);
}

#[test]
fn objects_merge_and_null_deletes() {
    pod(
        json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"nodeName": "n"}}),
        json!({"metadata": {"labels": {"a": null, "c": "3"}}}),
        json!({"metadata": {"labels": {"b": "2", "c": "3"}}, "spec": {"nodeName": "n"}}),
    );
    pod(
        json!({}),
        json!({"metadata": {"labels": {"a": null}}}),
        json!({"metadata": {"labels": {}}}),
    );
}

#[test]
fn keyed_lists_merge_in_patch_order_with_the_rest_in_place() {
    pod(
        json!({"spec": {"containers": [
            {"name": "a", "image": "1"}, {"name": "b", "image": "1"}, {"name": "c", "image": "1"}]}}),
        json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "d", "image": "1"}]}}),
        json!({"spec": {"containers": [
            {"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "d", "image": "1"},
            {"name": "c", "image": "1"}]}}),
    );
}

#[test]
fn set_element_order_puts_elements_in_order() {
    pod(
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "server"}]}}),
        json!({"spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [{"name": "a", "image": "2"}]}}),
        json!({"spec": {"containers": [
            {"name": "b"}, {"name": "a", "image": "2"}, {"name": "server"}]}}),
    );
    let wrong = json!({"spec": {
        "$setElementOrder/containers": [{"name": "a"}],
        "containers": [{"name": "z", "image": "2"}]}});
    let error = patch("", "v1", "Pod", &json!({"spec": {}}), &wrong).unwrap_err();
    assert!(error.contains("doesn't match $setElementOrder list"), "{error}");
}

#[test]
fn directives_delete_and_replace() {
    pod(
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
        json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
        json!({"spec": {"containers": [{"name": "b"}]}}),
    );
    pod(
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
        json!({"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}}),
        json!({"spec": {"containers": [{"name": "c"}]}}),
    );
    pod(
        json!({"spec": {"nodeName": "n", "priority": 1}}),
        json!({"spec": {"$patch": "replace", "nodeName": "m"}}),
        json!({"spec": {"nodeName": "m"}}),
    );
    let error = patch("", "v1", "Pod", &json!({}), &json!({"$patch": "bend"})).unwrap_err();
    assert!(error.starts_with("unknown patch type: bend in map"), "{error}");
}

#[test]
fn primitive_lists_unite_and_shrink_by_directive() {
    pod(
        json!({"metadata": {"finalizers": ["a", "b"]}}),
        json!({"metadata": {"finalizers": ["b", "c"]}}),
        json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
    );
    pod(
        json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
        json!({"metadata": {
            "$deleteFromPrimitiveList/finalizers": ["b"],
            "$setElementOrder/finalizers": ["c", "a"]}}),
        json!({"metadata": {"finalizers": ["c", "a"]}}),
    );
}

#[test]
fn atomic_lists_are_replaced() {
    pod(
        json!({"spec": {"tolerations": [{"key": "a"}], "containers": [{"name": "a", "args": ["x"]}]}}),
        json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["y"]}]}}),
        json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["y"]}]}}),
    );
}

#[test]
fn retain_keys_changes_the_member_of_a_union() {
    let object = json!({"spec": {"strategy": {
        "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let change = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(
        patch("apps", "v1", "Deployment", &object, &change).unwrap(),
        json!({"spec": {"strategy": {"type": "Recreate"}}})
    );
    let change = json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}});
    let error = patch("apps", "v1", "Deployment", &object, &change).unwrap_err();
    assert_eq!(error, "invalid patch format of retainKeys");
}

#[test]
fn replace_strategy_replaces_the_object() {
    let object = json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}});
    let change = json!({"spec": {"selector": {"matchLabels": {"b": "1"}}}});
    assert_eq!(patch("policy", "v1", "PodDisruptionBudget", &object, &change).unwrap(), change);
}

#[test]
fn says_what_is_wrong() {
    let error = patch("example.com", "v1", "Foo", &json!({}), &json!({})).unwrap_err();
    assert_eq!(error, "no kind \"Foo\" is registered for version \"example.com/v1\"");
    let object = json!({"spec": {"containers": [{"name": "a"}]}});
    let change = json!({"spec": {"containers": [{"image": "a"}]}});
    let error = patch("", "v1", "Pod", &object, &change).unwrap_err();
    assert!(error.ends_with("does not contain declared merge key: name"), "{error}");
}

mod properties {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::patch;

    /// Containers with different names, each with an image, in any order.
    fn containers() -> impl Strategy<Value = Vec<Value>> {
        proptest::collection::btree_map("[a-e]", "[0-9]", 0..5)
            .prop_map(|map| {
                map.into_iter().map(|(name, image)| json!({"name": name, "image": image})).collect()
            })
            .prop_flat_map(|list: Vec<Value>| Just(list).prop_shuffle())
    }

    fn names(list: &Value) -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.map(|element| element["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    proptest! {
        #[test]
        fn merging_unites_by_name_and_is_idempotent(old in containers(), new in containers()) {
            let object = json!({"spec": {"containers": old}});
            let change = json!({"spec": {"containers": new}});
            let once = patch("", "v1", "Pod", &object, &change).unwrap();
            let merged = &once["spec"]["containers"];
            let united: BTreeSet<String> =
                names(&old.clone().into()).into_iter().chain(names(&new.clone().into())).collect();
            let found = names(merged);
            prop_assert_eq!(found.len(), united.len());
            prop_assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), united);
            for element in &new {
                prop_assert!(merged.as_array().unwrap().contains(element));
            }
            prop_assert_eq!(&patch("", "v1", "Pod", &once, &change).unwrap(), &once);
        }

        #[test]
        fn set_element_order_is_the_order(old in containers(), new in containers()) {
            let order: Vec<Value> =
                new.iter().map(|element| json!({"name": element["name"]})).collect();
            let object = json!({"spec": {"containers": old}});
            let change = json!({"spec": {
                "containers": new, "$setElementOrder/containers": order}});
            let result = patch("", "v1", "Pod", &object, &change).unwrap();
            let wanted = names(&order.into());
            let found: Vec<String> = names(&result["spec"]["containers"])
                .into_iter()
                .filter(|name| wanted.contains(name))
                .collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
