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
    let (block, page) = (block as u64, base::addr::PAGE);
    let is_whole = block.is_multiple_of(page) && block < page << PAGES;
    let (pages, is_short) = ((block / page) as u32, bytes < 1 << FIELDS);
    (is_whole && is_short).then_some(WITH_BLOCK | pages << FIELDS | bytes)
}

#[inline]
fn packed(state: u16, (tag, bytes): (u16, u32)) -> u64 {
    u64::from(state) << 48 | u64::from(tag) << 32 | u64::from(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_a_block_has_a_size_of_its_own() {
        let page = base::addr::PAGE as usize;
        let sizes = [(0, page), (1, page), (0, 2 * page), (64, 16 * page), (0, 0)];
        let sizes = sizes.map(|(bytes, block)| size_with_block(bytes, block).expect("whole pages"));
        for (at, one) in sizes.iter().enumerate() {
            assert!(*one > 1 << FIELDS, "a message without a block may have so many bytes");
            assert!(!sizes[at + 1..].contains(one));
        }
        for (bytes, block) in [(0, 1), (0, page + 1), (0, page << PAGES), (1 << FIELDS, page)] {
            assert_eq!(size_with_block(bytes, block), None);
        }
        let permit = Permit::new(3, (5, sizes[0]), 4);
        assert_eq!(permit.next(3, (5, sizes[0])), Some(4));
        assert_eq!([(5, 0), (5, sizes[2])].map(|other| permit.next(3, other)), [None; 2]);
    }
}
