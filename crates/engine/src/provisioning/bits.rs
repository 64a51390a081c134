//! Sets of small numbers, as bits.

/// A set of numbers below a fixed length.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// The empty set for numbers below `len`.
    pub(crate) fn empty(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    /// All numbers below `len`.
    pub(crate) fn full(len: usize) -> Self {
        let mut bits = Self::empty(len);
        for index in 0..len {
            bits.insert(index);
        }
        bits
    }

    pub(crate) fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        self.0[index / 64] & 1 << (index % 64) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Whether `other` holds all of these.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(word, other)| word & !other == 0)
    }

    /// Keeps what is in both.
    pub(crate) fn intersect(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    /// Adds what is in `other`.
    pub(crate) fn unite(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                rest &= rest.checked_sub(1)?;
                Some(at * 64 + bit as usize)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_several_words() {
        let of = |numbers: &[usize]| {
            let mut bits = Bits::empty(130);
            numbers.iter().for_each(|number| bits.insert(*number));
            bits
        };
        let mut bits = of(&[0, 63, 64, 129]);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(bits.contains(129) && !bits.contains(128));
        bits.intersect(&of(&[63, 100, 129]));
        assert_eq!(bits, of(&[63, 129]));
        assert!(bits.is_within(&of(&[63, 64, 129])) && !bits.is_within(&of(&[63, 128])));
        bits.unite(&of(&[1]));
        assert_eq!(bits, of(&[1, 63, 129]));
        assert_eq!(Bits::full(130).iter().count(), 130);
        assert!(of(&[]).is_empty() && !bits.is_empty());
    }
}
