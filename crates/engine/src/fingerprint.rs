//! Equal things found by a short hash, so that many pods fold into few classes at little cost.
//!
//! The hash only says where to look; equality decides. No result depends on its values.

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
    prints: Vec<u64>,
    /// One more than the number of a value, or 0, from where its fingerprint points on; at least
    /// half of them are 0.
    slots: Vec<u32>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { list: Vec::new(), prints: Vec::new(), slots: Vec::new() }
    }
}

impl<T> Distinct<T> {
    /// The number of a value, if it is known.
    pub(crate) fn find(&self, fingerprint: u64, is_it: impl Fn(&T) -> bool) -> Option<usize> {
        let mut slot = self.first_slot(fingerprint);
        loop {
            let number = self.slots.get(slot)?.checked_sub(1)? as usize;
            if self.prints[number] == fingerprint && is_it(&self.list[number]) {
                return Some(number);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// Adds a value that is not known yet, and gives it its number.
    pub(crate) fn add(&mut self, fingerprint: u64, value: T) -> usize {
        let number = self.list.len();
        self.list.push(value);
        self.prints.push(fingerprint);
        if self.list.len() * 2 > self.slots.len() {
            self.slots = vec![0; (self.list.len() * 4).next_power_of_two()];
            (0..number).for_each(|known| self.point_to(known));
        }
        self.point_to(number);
        number
    }

    fn first_slot(&self, fingerprint: u64) -> usize {
        // The upper bits are the better mixed ones.
        (fingerprint >> 32) as usize & self.slots.len().saturating_sub(1)
    }

    fn point_to(&mut self, number: usize) {
        let mut slot = self.first_slot(self.prints[number]);
        while self.slots[slot] != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = u32::try_from(number + 1).expect("values fit in memory");
    }

    pub(crate) fn list(&self) -> &[T] {
        &self.list
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_though_their_fingerprints_collide() {
        let mut distinct = Distinct::default();
        for value in 0..1000_u64 {
            // Few fingerprints, all of which begin in the same slots.
            let print = (value % 10) << 62;
            assert_eq!(distinct.find(print, |known| *known == value), None);
            assert_eq!(distinct.add(print, value), value as usize);
        }
        for value in 0..1000_u64 {
            let print = (value % 10) << 62;
            assert_eq!(distinct.find(print, |known| *known == value), Some(value as usize));
        }
        assert_eq!(distinct.into_list(), (0..1000).collect::<Vec<_>>());
    }
}
