//! Layout of the DMA engine: its register block, and a ring of descriptors for each channel.
//!
//! A channel works for one domain at a time, its *holder*. Whoever drives it writes its [`Control`]
//! line and the driver's words of its descriptors; everything else is the engine's. Ring `c` lies
//! at the device's memory + `c * RING_BYTES`. One writer a word; words are `u64`, loaded and stored
//! whole.
//!
//! ```text
//! driver: descriptor; barrier; submitted = (epoch, generation, index + 1); barrier; ring `kick`
//! engine: data; status; barrier; completed = (epoch, generation, index + 1); barrier; interrupt
//! ```
//!
//! A **session** of a channel is its holder's epoch and a generation that the driver counts. The
//! first word of another session opens it, with as many descriptors as its index says; it is open
//! when `completed` says the same session, and transfers of the one before are dropped by then.
//! A session belongs to the domain that `holder` names when the engine sees it first; words of
//! another epoch than that domain's are not believed.

use crate::boot::MAX_DOMAINS;
use crate::msg::{pack_session, unpack_session};

/// `b"PENUMDMA"`, little endian: what is in [`Engine::magic`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"PENUMDMA");
/// Most channels of an engine.
pub const MAX_CHANNELS: usize = 16;
/// Fewest: what a driver can count on.
pub const MIN_CHANNELS: usize = 4;
/// Descriptors of a ring, a power of two.
pub const RING: usize = 16;
/// Bytes of a ring.
pub const RING_BYTES: u64 = (RING * size_of::<Descriptor>()) as u64;
/// Most bytes of one transfer.
pub const MAX_BYTES: u64 = 4 << 20;

/// Longest set-up that an engine can have.
pub const MAX_SETUP_NS: u64 = 1_000_000_000;
/// Highest bandwidth that an engine can have.
pub const MAX_BANDWIDTH_MBPS: u64 = 100_000;

/// Bits of [`Descriptor::flags`]: exactly one of them, nothing else.
pub mod flag {
    /// `destination` gets the bytes at `source`.
    pub const COPY: u64 = 1;
    /// `destination` gets the eight bytes of the word `source`, again and again.
    pub const FILL: u64 = 2;
}

/// How a transfer ended, in [`Descriptor::status`]; nothing was written unless it is [`DONE`].
///
/// [`DONE`]: status::DONE
pub mod status {
    /// All bytes are where they should be.
    pub const DONE: u16 = 1;
    /// Source or destination is outside RAM.
    pub const ADDRESS: u16 = 2;
    /// Source or destination is neither local nor global memory: reserved, staging, the uncached
    /// window, or nobody's.
    pub const PROTECTED: u16 = 3;
    /// No bytes, or more than [`super::MAX_BYTES`].
    pub const LENGTH: u16 = 4;
    /// Source and destination share a byte.
    pub const OVERLAP: u16 = 5;
    /// Not exactly one of [`super::flag`].
    pub const FLAGS: u16 = 6;
    /// The ring is damaged: a descriptor that is not the one announced or, in [`super::Status`],
    /// more of them than the ring has.
    pub const QUEUE: u16 = 7;
}

/// A place in a session of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Epoch of the channel's owner.
    pub epoch: u16,
    /// Which of that epoch's sessions.
    pub generation: u16,
    /// Descriptors before this place; wraps.
    pub index: u32,
}

impl Position {
    /// As a word: `[epoch:16 | generation:16 | index:32]`.
    pub const fn pack(self) -> u64 {
        pack_session(self.epoch, self.generation, self.index)
    }

    /// Takes [`Position::pack`] apart.
    pub const fn unpack(word: u64) -> Position {
        let (epoch, generation, index) = unpack_session(word);
        Position { epoch, generation, index }
    }

    /// Another place in the same session.
    pub const fn at(self, index: u32) -> Position {
        Position { index, ..self }
    }

    /// Do both belong to one session?
    pub const fn same_session(self, other: Position) -> bool {
        self.epoch == other.epoch && self.generation == other.generation
    }
}

/// [`Descriptor::status`] of the descriptor at `position`: `[one of status:16 | generation:16 |
/// index:32]`, so that what an earlier lap or session left there is not taken for it.
pub const fn pack_status(position: Position, status: u16) -> u64 {
    pack_session(status, position.generation, position.index)
}

/// The status in a word of [`pack_status`]; `None` when it is not of the descriptor at `position`.
pub const fn unpack_status(word: u64, position: Position) -> Option<u16> {
    let (status, generation, index) = unpack_session(word);
    if generation == position.generation && index == position.index { Some(status) } else { None }
}

/// One transfer.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Descriptor {
    // Written by the driver.
    /// Physical address, or the pattern of a fill.
    pub source: u64,
    /// Physical address.
    pub destination: u64,
    /// How many.
    pub bytes: u64,
    /// One of [`flag`].
    pub flags: u64,
    /// [`Position::pack`] of this descriptor: a slot that was not written anew is found out.
    pub position: u64,
    // Written by the engine.
    /// [`pack_status`].
    pub status: u64,
    /// soc time, in ns, when it was done.
    pub time: u64,
    /// Spare.
    pub spare: u64,
}

/// What the engine is, written by the soc before any domain runs; but for `interrupts`, for ever.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Engine {
    /// [`MAGIC`].
    pub magic: u64,
    /// Channels it has.
    pub channels: u64,
    /// ns from the start of a transfer to its first byte.
    pub setup_ns: u64,
    /// MB (10^6 bytes) a second, all channels together.
    pub bandwidth_mbps: u64,
    /// Counts up with every interrupt.
    pub interrupts: u64,
    /// Spare.
    pub spare: [u64; 3],
}

/// A channel, as its driver writes it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    /// [`Position::pack`]: descriptors before it are the engine's. The soc clears it when it fences
    /// a dead holder.
    pub submitted: u64,
    /// Index of the domain for which the channel works, from the next session on: its interrupts
    /// go there, and its transfers end with it.
    pub holder: u64,
    /// [`Position::pack`]: outcomes before it were read, and their descriptors are free. Written by
    /// the holder; the engine does not mind it.
    pub taken: u64,
    /// Spare.
    pub spare: [u64; 5],
}

/// A channel, as the engine writes it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// Index of the domain that it belongs to where kernels do not share the engine.
    pub owner: u64,
    /// [`Position::pack`]: descriptors before it have ended.
    pub completed: u64,
    /// 0, or why the session is over ([`status::QUEUE`]); what had not ended was dropped.
    pub fault: u64,
    /// Spare.
    pub spare: [u64; 5],
}

/// A domain, as those who drive the engine for it write it; the engine does not mind it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    /// Not 0: somebody there waits for free descriptors.
    pub wants: u64,
    /// Spare.
    pub spare: [u64; 7],
}

/// Register block of the engine, 4 KiB.
#[repr(C, align(4096))]
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// Written by the soc.
    pub engine: Engine,
    /// Written by the channels' drivers.
    pub control: [Control; MAX_CHANNELS],
    /// Written by the soc.
    pub status: [Status; MAX_CHANNELS],
    /// Written by the domains' drivers.
    pub waiting: [Waiting; MAX_DOMAINS],
    /// Unused.
    pub rest: [u64; 512 - 8 - 2 * 8 * MAX_CHANNELS - 8 * MAX_DOMAINS],
}

/// Offset of a word of channel `channel`'s [`Control`] line in the register block.
pub const fn control_at(channel: usize, field: usize) -> usize {
    core::mem::offset_of!(Registers, control) + channel * size_of::<Control>() + field
}

/// Offset of a word of channel `channel`'s [`Status`] line in the register block.
pub const fn status_at(channel: usize, field: usize) -> usize {
    core::mem::offset_of!(Registers, status) + channel * size_of::<Status>() + field
}

/// Offset of [`Waiting::wants`] of domain `domain` in the register block.
pub const fn wants_at(domain: usize) -> usize {
    core::mem::offset_of!(Registers, waiting) + domain * size_of::<Waiting>()
}

/// Offset of a word of the descriptor at ring index `index` of `channel` in the device's memory.
pub const fn descriptor_at(channel: usize, index: u32, field: usize) -> usize {
    let slot = index as usize % RING;
    channel * RING_BYTES as usize + slot * size_of::<Descriptor>() + field
}

const _: () = assert!(size_of::<Descriptor>() == 64 && size_of::<Engine>() == 64);
const _: () = assert!(size_of::<Control>() == 64 && size_of::<Status>() == 64);
const _: () = assert!(size_of::<Waiting>() == 64);
const _: () = assert!(size_of::<Registers>() == 4096);
const _: () = assert!(RING.is_power_of_two() && RING_BYTES.is_multiple_of(64));
const _: () = assert!(MIN_CHANNELS <= MAX_CHANNELS);
