//! Choices out of bytes: what a fuzzer or a property test makes up, read as decisions.

/// Bytes to choose by. When they are used up, every choice is the first.
pub struct Bytes<'b> {
    left: &'b [u8],
}

impl<'b> Bytes<'b> {
    pub fn new(left: &'b [u8]) -> Self {
        Self { left }
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.left.split_first() else { return 0 };
        self.left = rest;
        *first
    }

    /// A number below `bound`, which is 256 at most.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    /// One of `list`.
    pub fn one<'l, T>(&mut self, list: &'l [T]) -> &'l T {
        &list[self.below(list.len())]
    }

    /// True once in `times`.
    pub fn rarely(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// Each of `list` with an even chance, the first if none.
    pub fn some<'l, T>(&mut self, list: &'l [T]) -> Vec<&'l T> {
        let choice = self.byte();
        let is_in = |at: &usize| choice >> (at % 8) & 1 == 1;
        let found: Vec<&T> = (0..list.len()).filter(is_in).map(|at| &list[at]).collect();
        if found.is_empty() { vec![&list[0]] } else { found }
    }
}
