//! The last message that its contract has allowed an end: most ends send one kind again and again.
//!
//! Contract: whether a message is allowed depends on nothing but the contract, the side and the
//! bounds, which an end keeps, and the state, the tag and the bytes. So an answer stays right.

/// No message: none has so many bytes.
const NOTHING: u64 = u64::MAX;

/// A message that was allowed.
#[derive(Clone, Copy, Debug)]
pub struct Permit {
    /// The state before it, its tag and its bytes.
    asked: u64,
    /// The state after it.
    next: u16,
}

impl Permit {
    pub const NONE: Permit = Permit { asked: NOTHING, next: 0 };

    /// Returns the state after a message in this state, if it is allowed. `ask` is called for
    /// another message than the last one that was.
    #[inline]
    pub fn next(
        &mut self,
        state: u16,
        (tag, bytes): (u16, u32),
        ask: impl FnOnce() -> Option<u16>,
    ) -> Option<u16> {
        let asked = u64::from(state) << 48 | u64::from(tag) << 32 | u64::from(bytes);
        if self.asked != asked {
            *self = Permit { asked, next: ask()? };
        }
        Some(self.next)
    }
}
