//! The set of cores that must check their run queue, so that a transition that makes several
//! threads ready interrupts each core once. Pure.

use abi::boot::MAX_CORES;

const _: () = assert!(MAX_CORES <= u32::BITS as usize);

/// A set of cores, emptied by iterating over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kicks(u32);

impl Kicks {
    pub fn insert(&mut self, core: usize) {
        debug_assert!(core < MAX_CORES);
        self.0 |= 1 << core;
    }

    pub fn contains(self, core: usize) -> bool {
        self.0 & 1 << core != 0
    }
}

impl Iterator for Kicks {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let core = self.0.checked_ilog2()? as usize;
        self.0 &= !(1 << core);
        Some(core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_is_returned_once() {
        let mut kicks = Kicks::default();
        [0, 5, 5, 7, 0].into_iter().for_each(|core| kicks.insert(core));
        assert!(kicks.contains(5) && !kicks.contains(1));
        assert_eq!(kicks.collect::<Vec<_>>(), [7, 5, 0]);
    }
}
