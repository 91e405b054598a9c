//! A set of cores of one kernel.

use base::id::CoreId;

/// A set of cores. Every [`CoreId`] has its bit, so no core is out of range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cores([u64; 4]);

impl Cores {
    pub const NONE: Cores = Cores([0; 4]);

    const fn position(core: CoreId) -> (usize, u64) {
        (core.0 as usize / 64, 1 << (core.0 % 64))
    }

    pub fn insert(&mut self, core: CoreId) {
        let (word, bit) = Self::position(core);
        self.0[word] |= bit;
    }

    /// Removes `core`, and returns whether it was in the set.
    pub fn remove(&mut self, core: CoreId) -> bool {
        let had = self.contains(core);
        let (word, bit) = Self::position(core);
        self.0[word] &= !bit;
        had
    }

    pub fn contains(&self, core: CoreId) -> bool {
        let (word, bit) = Self::position(core);
        self.0[word] & bit != 0
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_has_a_place_of_its_own() {
        let mut cores = Cores::NONE;
        (0..=u8::MAX).for_each(|core| cores.insert(CoreId(core)));
        for core in 0..=u8::MAX {
            assert!(!cores.is_empty() && cores.remove(CoreId(core)));
            assert!(!cores.contains(CoreId(core)) && !cores.remove(CoreId(core)));
        }
        assert!(cores.is_empty());
    }
}
