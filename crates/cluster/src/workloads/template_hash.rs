//! Short names of pod templates.

use serde::Serialize;

/// Letters that make no words. Source: apimachinery `pkg/util/rand`.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short name for a template: equal for equal templates. Kubernetes hashes a dump of Go's
/// memory, which nothing else can reproduce; only alphabet and length are the same.
pub(super) fn template_hash(template: &impl Serialize, collisions: Option<i32>) -> String {
    let mut text = serde_json::to_string(template).unwrap_or_default();
    if let Some(collisions) = collisions {
        text.push_str(&collisions.to_string());
    }
    // FNV-1a, 32 bits.
    let hash = text
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let digits = hash.to_string();
    digits.bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}
