//! Operations of a simulated kernel, and their effects on the world.

use base::id::Epoch;
use kernel_msg::CallError;

use crate::payload::Bytes;

/// An effect of a completed operation.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The doorbell of a peer was rung.
    Ring(usize),
    /// A request or notice was taken from a ring.
    Taken(u64),
    /// A call was accepted.
    Began(u64),
    /// Call `.0` to epoch `.2` of peer `.1` ended.
    Ended(u64, usize, Epoch, Result<Bytes, CallError>),
    /// A call's caller was killed: its result is not delivered.
    Abandoned(u64),
    /// A call to a peer failed before it was sent.
    Refused(usize, CallError),
    /// The protocol code reported a violated invariant.
    Broken(String),
}

/// An operation of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The first operation after boot: page, peers, one poll.
    Boot,
    /// A doorbell: attend and poll.
    Bell,
    /// Poll, as at the release of a lock.
    Poll,
    /// A step of an actor.
    Act(usize),
    /// A handler thread was created, or could not be.
    Make(bool),
    /// Tries to stop attending.
    Leave,
    /// Learns the state of a peer from the chip page.
    Learn(usize, Option<Epoch>),
}

/// Parameters of a kernel, from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Temper {
    /// Number of kernels on the chip.
    pub domains: usize,
    /// Maximum bytes of filler in a payload.
    pub filler: u64,
    /// Maximum handlers of the pool.
    pub handlers: u16,
    /// Number of urgent calls, of 8.
    pub urgent: u64,
    /// Maximum nested calls of a handler.
    pub nested: u64,
}
