//! Channels, as programs use them: the message that the functions of
//! [`MODULE`](crate::program::MODULE) take and store.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A message of a channel, in the memory of a program. 32 bytes, aligned to 4.
///
/// `channel_send` reads it. `channel_receive` reads the room of `bytes` and `block`, and stores
/// everything but the addresses. If the room is too small, nothing is taken from the channel, and
/// the needed lengths are stored.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ChannelMessage {
    /// Address and length of the fields. To receive: the room; afterwards the length.
    pub bytes: [u32; 2],
    /// Address and length of the block, likewise.
    pub block: [u32; 2],
    /// Descriptors of the carried ends, [`NO_END`] for none; received: or [`LOST_END`].
    pub ends: [u32; 2],
    /// The number of the message in its contract.
    pub tag: u16,
    /// [`HAS_BLOCK`], and with it [`WINDOW`].
    pub flags: u16,
    /// 0.
    pub reserved: u32,
}

/// Flag of a [`ChannelMessage`]: it has a block, which may be empty.
pub const HAS_BLOCK: u16 = 1;
/// Flag of a [`ChannelMessage`]: its block is a window. The sender shares its memory from then on,
/// and so does a receiver that has asked for [`WINDOWS`].
pub const WINDOW: u16 = 2;
/// The shortest block in bytes whose pages pass to a receiver on the same kernel. Shorter ones are
/// copied with fewer instructions.
pub const PASSES: usize = 16 << 10;
/// No end here.
pub const NO_END: u32 = u32::MAX;
/// Received: an end that was lost on its way.
pub const LOST_END: u32 = u32::MAX - 1;
/// Flag of `channel_receive`: fail with `AGAIN` instead of waiting.
pub const NO_WAIT: u32 = 1;
/// Flag of `channel_receive`: if the block is a window, share its memory. Without it, a window is
/// received as a block, with the bytes that it has then.
pub const WINDOWS: u32 = 2;

/// Flag of `name_connect`: wait until the name is served.
pub const AWAIT: u32 = 1;

/// Sides of a channel, for `channel_use`.
pub mod side {
    pub const CLIENT: u32 = 0;
    pub const SERVER: u32 = 1;
}

const _: () = assert!(size_of::<ChannelMessage>() == 32 && align_of::<ChannelMessage>() == 4);

/// The request of a kernel that has a message for a part of the message's block, which the sender's
/// kernel has.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct FetchBlock {
    /// What the block is called there.
    pub id: u64,
    /// The secret of its channel.
    pub secret: u64,
    /// Offset of the first byte.
    pub at: u64,
}

/// The request of a kernel that has a message to read the message's block where it is, in the bulk
/// memory of the sender's kernel. The answer is [`LentAt`], or nothing: it is elsewhere.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct LendBlock {
    pub id: u64,
    pub secret: u64,
}

/// Where a block is: its offset in the bulk memory of its kernel.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct LentAt {
    pub place: u64,
    pub length: u64,
}
