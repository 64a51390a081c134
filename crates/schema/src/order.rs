//! The order of a merged list: what the change names comes in its order, the rest keeps its place.

use serde_json::Value;

/// Puts the elements that `wanted` names in its order, the others in the order of `live`, and the
/// two together so that they disagree with `live` as little as can be. `identity` is what tells
/// elements apart.
///
/// Source: k8s.io/apimachinery `pkg/util/strategicpatch` (`normalizeElementOrder`).
pub(crate) fn interleave<K: PartialEq>(
    merged: Vec<Value>,
    wanted: &[Value],
    live: &[Value],
    identity: impl Fn(&Value) -> K,
) -> Vec<Value> {
    let wanted: Vec<K> = wanted.iter().map(&identity).collect();
    let live: Vec<K> = live.iter().map(&identity).collect();
    let mut named = Vec::new();
    let mut others = Vec::new();
    for element in merged {
        let key = identity(&element);
        let in_live = live.iter().position(|other| *other == key);
        match wanted.iter().position(|other| *other == key) {
            Some(place) => named.push((place, in_live, element)),
            None => others.push((in_live.unwrap_or(usize::MAX), in_live, element)),
        }
    }
    named.sort_by_key(|(place, ..)| *place);
    others.sort_by_key(|(place, ..)| *place);
    let mut all = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return all,
            (Some((_, Some(other), _)), Some((_, Some(next), _))) => other < next,
            (other, next) => other.is_some() && next.is_none(),
        };
        let next = if other_first { others.next() } else { named.next() };
        all.extend(next.map(|(_, _, element)| element));
    }
}
