//! Equal things found by a short hash, so that many pods fold into few classes at little cost.
//!
//! The hash only says where to look; equality decides. No result depends on its values.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// A quick hash of what is written to it: multiply and rotate, as the Rust compiler's own.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let word: [u8; 8] = word.try_into().unwrap_or_default();
            self.mix(u64::from_le_bytes(word));
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        self.mix(u64::from_le_bytes(last));
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The fingerprint of a value.
pub(crate) fn fingerprint(value: &impl Hash) -> u64 {
    let mut fingerprint = Fingerprint::default();
    value.hash(&mut fingerprint);
    fingerprint.finish()
}

/// Distinct values in the order in which they came.
pub(crate) struct Distinct<T> {
    list: Vec<T>,
    by_fingerprint: BTreeMap<u64, Vec<usize>>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { list: Vec::new(), by_fingerprint: BTreeMap::new() }
    }
}

impl<T> Distinct<T> {
    /// The number of a value, if it is known.
    pub(crate) fn find(&self, fingerprint: u64, is_it: impl Fn(&T) -> bool) -> Option<usize> {
        let same = self.by_fingerprint.get(&fingerprint)?;
        same.iter().copied().find(|at| is_it(&self.list[*at]))
    }

    /// Adds a value that is not known yet, and gives it its number.
    pub(crate) fn add(&mut self, fingerprint: u64, value: T) -> usize {
        self.list.push(value);
        let number = self.list.len() - 1;
        self.by_fingerprint.entry(fingerprint).or_default().push(number);
        number
    }

    pub(crate) fn get(&self, number: usize) -> &T {
        &self.list[number]
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> &mut T {
        &mut self.list[number]
    }

    pub(crate) fn into_list(self) -> Vec<T> {
        self.list
    }
}
