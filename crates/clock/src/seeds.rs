//! One seed, many independent streams.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// A random stream: portable, documented, the same on every machine.
pub type Stream = ChaCha8Rng;

/// Hands out named streams of one seed, so that one more object of one kind does not reshuffle
/// what is drawn for the others.
#[derive(Clone, Copy, Debug)]
pub struct Seeds(u64);

impl Seeds {
    /// The streams of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream called `name`: always the same for the same seed and name.
    #[must_use]
    pub fn stream(&self, name: &str) -> Stream {
        // FNV-1a: stable across builds, unlike std's hashers.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut key = [0_u8; 32];
        key[..8].copy_from_slice(&self.0.to_le_bytes());
        key[8..16].copy_from_slice(&hash.to_le_bytes());
        ChaCha8Rng::from_seed(key)
    }
}
