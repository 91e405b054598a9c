//! A small seeded random number generator (SplitMix64), for tests, simulation and jitter. Never for
//! secrets.

/// A generator. Equal seeds give equal sequences on every ISA.
#[derive(Clone, Debug)]
pub struct Prng(u64);

impl Prng {
    pub const fn new(seed: u64) -> Self {
        Prng(seed)
    }
    /// Returns the next 64 bits.
    #[allow(clippy::should_implement_trait, reason = "an endless source is not an iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Returns the seed of a generator that continues this one's sequence.
    pub const fn state(&self) -> u64 {
        self.0
    }
    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
    /// Returns true with probability `numerator / denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}
