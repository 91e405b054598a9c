//! The last message that its contract has allowed an end: most ends send one kind again and again.
//!
//! Contract: whether a message is allowed depends on nothing but the contract, the side and the
//! bounds, which an end keeps, and the state, the tag and the bytes. So an answer stays right for
//! the program that has asked. Another one may not have the contract: an end with several
//! descriptors remembers nothing, and one that gets another holder forgets.

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

    pub fn new(state: u16, message: (u16, u32), next: u16) -> Permit {
        Permit { asked: packed(state, message), next }
    }

    /// Returns the state after a message in this state, if it is the one that was allowed.
    #[inline]
    pub fn next(self, state: u16, message: (u16, u32)) -> Option<u16> {
        (self.asked == packed(state, message)).then_some(self.next)
    }
}

#[inline]
fn packed(state: u16, (tag, bytes): (u16, u32)) -> u64 {
    u64::from(state) << 48 | u64::from(tag) << 32 | u64::from(bytes)
}
