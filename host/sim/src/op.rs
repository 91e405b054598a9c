//! What a simulated kernel can do in one go, and what the world must know of it.

use base::id::Epoch;
use kernel_msg::CallError;

use crate::payload::Bytes;

/// What the world must know of an operation that is done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The doorbell of a peer was rung.
    Ring(usize),
    /// A request or notice was taken out of a ring.
    Taken(u64),
    /// A call was accepted.
    Began(u64),
    /// Call `.0` to epoch `.2` of peer `.1` ended.
    Ended(u64, usize, Epoch, Result<Bytes, CallError>),
    /// A call's caller was killed: nobody hears of its end.
    Abandoned(u64),
    /// A call to a peer was refused before it was sent.
    Refused(usize, CallError),
    /// The protocol code reported what must not happen.
    Broken(String),
}

/// What a kernel can do in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// First thing after boot: page, peers, one poll.
    Boot,
    /// A doorbell: attend and poll.
    Bell,
    /// Poll, as at the release of a lock.
    Poll,
    /// One step of an actor.
    Act(usize),
    /// A handler thread was made, or not.
    Make(bool),
    /// Try to stop attending.
    Leave,
    /// The chip page says this of a peer.
    Learn(usize, Option<Epoch>),
}

/// How wild the kernel is; from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Temper {
    /// Kernels of the chip.
    pub domains: usize,
    /// Most bytes of filler in a payload.
    pub filler: u64,
    /// Most handlers of the pool.
    pub handlers: u16,
    /// Of 8 calls, how many are urgent.
    pub urgent: u64,
    /// Most nested calls of a handler.
    pub nested: u64,
}
