//! The last message that its contract has allowed an end: most ends send one kind again and again.
//!
//! Contract: whether a message is allowed depends on nothing but the contract, the side and the
//! bounds, which an end keeps, and the state, the tag and the size. So an answer stays right for
//! the program that has asked. Another one may not have the contract: an end with several
//! descriptors remembers nothing, and one that gets another holder forgets.

/// No message: none has so many bytes.
const NOTHING: u64 = u64::MAX;

/// The size of a message with a block of whole pages: this bit, the number of pages, and the bytes
/// of fields. No message has so many bytes without a block.
const WITH_BLOCK: u32 = 1 << 31;
const PAGE: usize = 4096;
const PAGES: u32 = 15;
const FIELDS: u32 = 16;

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

/// Returns the size of a message with a block, which no other message has; `None`: there is none.
#[inline]
pub fn size_with_block(bytes: u32, block: usize) -> Option<u32> {
    let is_whole = block.is_multiple_of(PAGE) && block < PAGE << PAGES;
    let (pages, is_short) = ((block / PAGE) as u32, bytes < 1 << FIELDS);
    (is_whole && is_short).then_some(WITH_BLOCK | pages << FIELDS | bytes)
}

#[inline]
fn packed(state: u16, (tag, bytes): (u16, u32)) -> u64 {
    u64::from(state) << 48 | u64::from(tag) << 32 | u64::from(bytes)
}
