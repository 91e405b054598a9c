//! What bounds messages, and where ends may go.

/// How many ends a message carries at most.
pub const CARRIED: usize = 2;
/// The highest level of a channel.
pub const MAX_LEVEL: u8 = 7;

/// What the contract of a channel guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Unread messages to the first and to the second end.
    pub messages: [u16; 2],
    /// Bytes of one message.
    pub bytes: u32,
    /// Only ends of channels with a lower level can be sent through it; so no end is ever queued,
    /// however indirectly, in a queue of its own channel.
    pub level: u8,
}
