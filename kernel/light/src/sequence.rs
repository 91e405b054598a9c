//! Sequence numbers that wrap.

/// Number of a message. Of two numbers that are less than 2^31 apart, the order is known, also
/// across the wrap. So a message may be late by as many later ones: with a cycle of a millisecond,
/// that is weeks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sequence(pub u32);

impl Sequence {
    /// Returns the number after this one.
    pub const fn next(self) -> Sequence {
        Sequence(self.0.wrapping_add(1))
    }

    /// Returns whether this number is newer than `other`.
    pub const fn is_after(self, other: Sequence) -> bool {
        let distance = self.0.wrapping_sub(other.0);
        distance != 0 && distance < 1 << 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_holds_across_the_wrap() {
        for first in [0, 7, u32::MAX - 1, u32::MAX] {
            let (old, new) = (Sequence(first), Sequence(first).next());
            assert!(new.is_after(old) && !old.is_after(new) && !old.is_after(old));
            let far = Sequence(first.wrapping_add(i32::MAX as u32));
            assert!(far.is_after(old) && !old.is_after(far));
        }
    }
}
