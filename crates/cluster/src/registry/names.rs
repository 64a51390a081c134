//! UIDs and generated names, from the cluster's seed.

use aerostat_clock::{Seeds, Stream};
use rand::RngExt;

/// Letters of generated names: no vowels, so no words. Source: apimachinery `pkg/util/rand`.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// A generated name is at most 63 long, five of it random.
const MAX_BASE: usize = 58;

#[derive(Debug)]
pub(super) struct Names {
    uids: Stream,
    suffixes: Stream,
}

impl Names {
    pub(super) fn new(seeds: &Seeds) -> Self {
        Self { uids: seeds.stream("uid"), suffixes: seeds.stream("generateName") }
    }

    /// A version 4 UUID.
    pub(super) fn uid(&mut self) -> String {
        let bits: u128 = self.uids.random();
        let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// `base` and five random letters.
    pub(super) fn generate(&mut self, base: &str) -> String {
        let end = base.char_indices().map(|(i, c)| i + c.len_utf8()).take_while(|i| *i <= MAX_BASE);
        let base = &base[..end.last().unwrap_or(0)];
        format!("{base}{}", self.suffix())
    }

    /// Five random letters.
    pub(super) fn suffix(&mut self) -> String {
        (0..5)
            .map(|_| char::from(ALPHABET[self.suffixes.random_range(0..ALPHABET.len())]))
            .collect()
    }
}
