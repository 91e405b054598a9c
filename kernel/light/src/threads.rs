//! A set of threads of one process.

/// The place of a thread in its process; that of a thread that has ended is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place(pub u8);

/// A set of threads. Every [`Place`] has its bit, so none is out of range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Threads([u64; 4]);

impl Threads {
    pub const NONE: Threads = Threads([0; 4]);

    const fn position(place: Place) -> (usize, u64) {
        (place.0 as usize / 64, 1 << (place.0 % 64))
    }

    pub fn insert(&mut self, place: Place) {
        let (word, bit) = Self::position(place);
        self.0[word] |= bit;
    }

    /// Removes `place`, and returns whether it was in the set.
    pub fn remove(&mut self, place: Place) -> bool {
        let had = self.contains(place);
        let (word, bit) = Self::position(place);
        self.0[word] &= !bit;
        had
    }

    pub fn contains(&self, place: Place) -> bool {
        let (word, bit) = Self::position(place);
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
    fn every_thread_has_a_bit_of_its_own() {
        let mut threads = Threads::NONE;
        (0..=u8::MAX).for_each(|place| threads.insert(Place(place)));
        for place in 0..=u8::MAX {
            assert!(!threads.is_empty() && threads.remove(Place(place)));
            assert!(!threads.contains(Place(place)) && !threads.remove(Place(place)));
        }
        assert!(threads.is_empty());
    }
}
