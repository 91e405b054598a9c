//! What passes between a process and the channels of its kernel. Ends are handles of that kernel.

use crate::ENDPOINTS;
use crate::automaton::Automaton;
use crate::block::Block;
use crate::types::{Hash, Side};
use alloc::boxed::Box;

/// A contract, as a process gave it to its kernel.
pub type Known = Automaton<Box<[u8]>>;

/// The longest block that kernels carry, and the most bytes of blocks that a contract may allow to
/// be unread in one direction. A contract itself may allow more ([`crate::BLOCK`]).
pub const LONGEST_BLOCK: usize = 4 << 20;

/// What an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub contract: Hash,
    pub side: Side,
}

/// A message to send.
#[derive(Debug)]
pub struct Outgoing<'a> {
    pub tag: u16,
    pub bytes: &'a [u8],
    /// Taken when it is sent. Pages of a program that are not sent must return there.
    pub block: &'a mut Option<Block>,
    pub ends: [Option<u64>; ENDPOINTS],
}

/// Room for a message to receive.
#[derive(Debug)]
pub struct Room<'a> {
    pub bytes: &'a mut [u8],
    /// Bytes of its block that the caller can take.
    pub block: usize,
    /// Whether there is memory for them. Without it, a block that is to be copied is not received.
    pub has_memory: bool,
    /// That memory, if only the caller can access it: a block may be copied there before it is
    /// certain that it is received. What remains of one that is not is zeros.
    pub place: Option<&'a mut [u8]>,
    /// How many ends the caller can take.
    pub ends: usize,
    pub windows: Windows,
}

/// How a caller receives windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// As blocks, with the bytes that they have then.
    AsBlocks,
    /// As windows, for which it has prepared nothing yet: they are not received.
    Unprepared,
    /// As windows, in room that it has reserved.
    Prepared,
}

/// A received message. Its bytes are at the start of the room.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrived {
    pub tag: u16,
    pub length: usize,
    pub block: Option<Block>,
    /// If the block is a window that the caller takes as one: what the kernel calls it, until the
    /// caller releases it. The block is its memory, or, from another kernel, a copy.
    pub window: Option<WindowName>,
    pub ends: [Cargo; ENDPOINTS],
}

/// What a kernel calls a window that a process has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowName(pub [u64; 4]);

/// The shortest way of a call: a message of fields, perhaps with a block, and what is received
/// after it.
#[derive(Debug)]
pub struct Brief<'a> {
    pub tag: u16,
    pub fields: &'a [u8],
    /// Room for the fields that are received.
    pub into: &'a mut [u8],
    pub block: Option<BriefBlock<'a>>,
}

/// The blocks of a call.
#[derive(Debug)]
pub struct BriefBlock<'a> {
    /// The one that is to be sent, which is taken when it is; then the one that was received.
    pub block: &'a mut Option<Block>,
    /// The longest one that the caller takes.
    pub room: usize,
}

/// What became of a message that was to be sent so, with one to be received after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// Nothing has happened: the usual way sends it, or says why not.
    Refused,
    /// It was sent. The usual way receives.
    Sent,
    /// It was sent, and a message of so many bytes of fields was received, with its block.
    Arrived { tag: u16, length: u16 },
}

/// A place for an end in a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cargo {
    Nothing,
    /// The end was closed on its way: a kernel died, or had no room.
    Lost,
    End(u64),
}
