//! Layout of the DMA engine: its register block, and a ring of descriptors per channel.
//!
//! A channel works for one domain at a time, its *holder*. The driver writes the channel's
//! [`Control`] line and the driver's words of its descriptors; the engine writes everything else.
//! Ring `c` is at the device's memory + `c * RING_BYTES`. Every word is a `u64` with one writer,
//! accessed by aligned 64-bit loads and stores.
//!
//! ```text
//! driver: descriptor; barrier; submitted = (epoch, generation, index + 1); barrier; ring `kick`
//! engine: data; status; barrier; completed = (epoch, generation, index + 1); barrier; interrupt
//! ```
//!
//! A **session** of a channel is identified by its holder's epoch and a generation that the driver
//! counts. A `submitted` word of a new session opens it with as many descriptors as its index says.
//! It is open when `completed` names the same session; by then the transfers of the previous one
//! have been dropped. A session belongs to the domain that `holder` names when the engine first
//! sees it; the engine ignores words with another epoch than that domain's.

use crate::boot::MAX_DOMAINS;
use crate::msg::{pack_session, unpack_session};

/// [`Engine::magic`]: `b"PENUMDMA"`, little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PENUMDMA");
/// Maximum channels of an engine.
pub const MAX_CHANNELS: usize = 16;
/// Minimum channels that a driver can rely on.
pub const MIN_CHANNELS: usize = 4;
/// Descriptors of a ring, a power of two.
pub const RING: usize = 16;
pub const RING_BYTES: u64 = (RING * size_of::<Descriptor>()) as u64;
/// Maximum bytes of a transfer.
pub const MAX_BYTES: u64 = 4 << 20;

/// Maximum set-up time of an engine.
pub const MAX_SETUP_NS: u64 = 1_000_000_000;
/// Maximum bandwidth of an engine.
pub const MAX_BANDWIDTH_MBPS: u64 = 100_000;
/// Maximum of [`Engine::home_first_ns`].
pub const MAX_HOME_FIRST_NS: u64 = 100_000_000;
/// Maximum weight of a channel.
pub const MAX_WEIGHT: u64 = 100;

/// Values of [`Descriptor::flags`].
pub mod flag {
    /// Copy the bytes at `source` to `destination`.
    pub const COPY: u64 = 1;
    /// Fill `destination` with repetitions of the 8-byte word `source`.
    pub const FILL: u64 = 2;
}

/// Result of a transfer, in [`Descriptor::status`]. Nothing is written unless it is [`DONE`].
///
/// [`DONE`]: status::DONE
pub mod status {
    pub const DONE: u16 = 1;
    /// Source or destination is outside RAM.
    pub const ADDRESS: u16 = 2;
    /// Source or destination is neither local nor global memory: reserved, staging, the uncached
    /// window, or unassigned.
    pub const PROTECTED: u16 = 3;
    /// Zero bytes, or more than [`super::MAX_BYTES`].
    pub const LENGTH: u16 = 4;
    /// Source and destination overlap.
    pub const OVERLAP: u16 = 5;
    /// Not exactly one of [`super::flag`].
    pub const FLAGS: u16 = 6;
    /// The ring is corrupt: a descriptor has the wrong position or, in [`super::Status`], more were
    /// submitted than the ring holds.
    pub const QUEUE: u16 = 7;
    /// Source or destination is local memory of another domain than the channel's holder.
    pub const FOREIGN: u16 = 8;
}

/// A position in a session of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Epoch of the holder.
    pub epoch: u16,
    /// Number of the session in that epoch.
    pub generation: u16,
    /// Descriptors before this position; wraps.
    pub index: u32,
}

impl Position {
    /// Packs it into a word: `[epoch:16 | generation:16 | index:32]`.
    pub const fn pack(self) -> u64 {
        pack_session(self.epoch, self.generation, self.index)
    }

    /// Undoes [`Position::pack`].
    pub const fn unpack(word: u64) -> Position {
        let (epoch, generation, index) = unpack_session(word);
        Position { epoch, generation, index }
    }

    /// Returns another position in the same session.
    pub const fn at(self, index: u32) -> Position {
        Position { index, ..self }
    }

    pub const fn same_session(self, other: Position) -> bool {
        self.epoch == other.epoch && self.generation == other.generation
    }
}

/// Packs the [`Descriptor::status`] of the descriptor at `position`: `[status:16 | generation:16 |
/// index:32]`. The position tells it from the status of an earlier lap or session.
pub const fn pack_status(position: Position, status: u16) -> u64 {
    pack_session(status, position.generation, position.index)
}

/// Returns the status in `word`, or `None` if it is not that of the descriptor at `position`.
pub const fn unpack_status(word: u64, position: Position) -> Option<u16> {
    let (status, generation, index) = unpack_session(word);
    if generation == position.generation && index == position.index { Some(status) } else { None }
}

#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Descriptor {
    // Written by the driver.
    /// Physical address; the pattern of a fill.
    pub source: u64,
    /// Physical address.
    pub destination: u64,
    pub bytes: u64,
    /// One of [`flag`].
    pub flags: u64,
    /// [`Position::pack`] of this descriptor, by which the engine detects a stale slot.
    pub position: u64,
    // Written by the engine.
    /// [`pack_status`].
    pub status: u64,
    /// soc time in ns of the completion.
    pub time: u64,
    pub spare: u64,
}

/// Properties of the engine, written by the soc before any domain runs. Only `interrupts` changes.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Engine {
    /// [`MAGIC`].
    pub magic: u64,
    /// Number of channels.
    pub channels: u64,
    /// Time from the start of a transfer to its first byte.
    pub setup_ns: u64,
    /// In 10^6 bytes per second, for all channels together.
    pub bandwidth_mbps: u64,
    /// Incremented with every interrupt.
    pub interrupts: u64,
    /// How long transfers of other domains wait while the home of the engine, which owns the first
    /// channel, makes small ones; 0: not at all.
    pub home_first_ns: u64,
    pub spare: [u64; 2],
}

/// The driver's words of a channel.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    /// [`Position::pack`]: all descriptors before it are submitted. The soc clears it when it
    /// fences a dead holder.
    pub submitted: u64,
    /// Index of the domain that the channel works for, from the next session on: it gets the
    /// interrupts, and its death ends the transfers.
    pub holder: u64,
    /// [`Position::pack`]: results of all descriptors before it were read, so their slots are free.
    /// Written by the holder; the engine does not read it.
    pub taken: u64,
    pub spare: [u64; 5],
}

/// The engine's words of a channel.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// Index of the domain that owns the channel, if kernels do not share the engine.
    pub owner: u64,
    /// [`Position::pack`]: all descriptors before it are completed.
    pub completed: u64,
    /// 0, or why the session has ended ([`status::QUEUE`]); its pending transfers were dropped.
    pub fault: u64,
    pub spare: [u64; 5],
}

/// Words of a domain, for the drivers only; the engine does not read them.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    /// Non-zero: a thread there waits for free descriptors.
    pub wants: u64,
    pub spare: [u64; 7],
}

/// Register block of the engine, 4 KiB.
#[repr(C, align(4096))]
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// Written by the soc.
    pub engine: Engine,
    /// Written by the driver of each channel.
    pub control: [Control; MAX_CHANNELS],
    /// Written by the soc.
    pub status: [Status; MAX_CHANNELS],
    /// Written by the driver of each domain.
    pub waiting: [Waiting; MAX_DOMAINS],
    pub rest: [u64; 512 - 8 - 2 * 8 * MAX_CHANNELS - 8 * MAX_DOMAINS],
}

/// Offset of a field of [`Control`] of `channel` in the register block.
pub const fn control_at(channel: usize, field: usize) -> usize {
    core::mem::offset_of!(Registers, control) + channel * size_of::<Control>() + field
}

/// Offset of a field of [`Status`] of `channel` in the register block.
pub const fn status_at(channel: usize, field: usize) -> usize {
    core::mem::offset_of!(Registers, status) + channel * size_of::<Status>() + field
}

/// Offset of [`Waiting::wants`] of `domain` in the register block.
pub const fn wants_at(domain: usize) -> usize {
    core::mem::offset_of!(Registers, waiting) + domain * size_of::<Waiting>()
}

/// Offset of a field of the descriptor with number `index` of `channel` in the device's memory.
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
