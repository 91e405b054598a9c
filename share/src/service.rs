//! The [`Service`] trait: a state, and a `step` that changes it.
//!
//! Contract: **a step never blocks.** It waits for nothing, holds nothing when it returns, and
//! needs nothing but memory from its own heap. A request that cannot be answered yet is *parked*:
//! the state records the caller's token. The event that ends the wait calls [`Effects::wake`] with
//! that token. The caller's kernel then sends [`Event::Again`] with the same token and request, and
//! the caller gets its answer, is parked again, or learns that its record is gone.
//!
//! ```text
//!                Request                             Effects::wake(token)
//!   caller ----------------> step --- Parked ------> waiting ------> step with Again
//!                              |                        |
//!                              | Done(reply)            | Cancel (the caller gave up),
//!                              v                        v Gone (its kernel died)
//!                           finished              record removed
//! ```
//!
//! `bulk` is the caller's memory. A step that runs in the caller's kernel accesses it directly;
//! otherwise messages carry it. Data therefore moves in the step that its receiver started, unless
//! it is short enough to be delivered with the wake ([`Effects::give`]). A service can tell neither
//! which of these happened nor in which mode it is shared.

use crate::plain::Plain;
use base::id::{DomainId, Epoch};
use base::port::Words;
use core::cmp::Ordering;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Identifies one request: kernel, epoch of that kernel, thread, and the thread's request number.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Token {
    pub epoch: u16,
    pub kernel: u8,
    /// Always 0.
    pub reserved: u8,
    /// The thread's request number. A wake for an earlier request does not match.
    pub sequence: u32,
    /// The kernel's own thread id.
    pub thread: u64,
}

impl Token {
    pub fn new(kernel: DomainId, epoch: Epoch, thread: u64, sequence: u32) -> Token {
        Token { epoch: epoch.0, kernel: kernel.0, reserved: 0, sequence, thread }
    }

    /// Returns all fields as two words, which compare faster than five fields.
    #[inline]
    fn words(self) -> (u64, u64) {
        let life = u64::from(self.epoch) | u64::from(self.kernel) << 16;
        (life | u64::from(self.reserved) << 24 | u64::from(self.sequence) << 32, self.thread)
    }

    pub fn kernel(self) -> DomainId {
        DomainId(self.kernel)
    }

    pub fn epoch(self) -> Epoch {
        Epoch(self.epoch)
    }
}

impl Ord for Token {
    #[inline]
    fn cmp(&self, other: &Token) -> Ordering {
        self.words().cmp(&other.words())
    }
}

impl PartialOrd for Token {
    #[inline]
    fn partial_cmp(&self, other: &Token) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An input of a service's state machine.
#[derive(Debug)]
pub enum Event<'a, R> {
    /// A new request, which does not change during the step. `bulk` holds the caller's data or room
    /// for the reply's.
    Request { token: Token, request: &'a R, bulk: &'a mut [u8] },
    /// A parked request, repeated unchanged after a wake or a timeout.
    Again { token: Token, request: &'a R, bulk: &'a mut [u8] },
    /// The caller of a parked request gave up. It expects no answer.
    Cancel(Token),
    /// An epoch of a kernel has ended. Callers of that epoch that are parked no longer exist.
    Gone(DomainId, Epoch),
    /// The timer that was set with [`Effects::timer`] has fired, possibly before its time.
    Timer,
    /// The service's device may have something: its interrupt came to this kernel, or this kernel
    /// now serves the device's interrupts instead of another one.
    Device,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<R> {
    Done(R),
    /// No answer yet; the state holds the token.
    Parked,
    /// The event needs no answer: all but [`Event::Request`] and [`Event::Again`].
    NoReply,
}

impl<R> Answer<R> {
    /// Returns the same answer with what `change` makes of its reply.
    #[inline]
    pub fn map<T>(self, change: impl FnOnce(R) -> T) -> Answer<T> {
        match self {
            Answer::Done(reply) => Answer::Done(change(reply)),
            Answer::Parked => Answer::Parked,
            Answer::NoReply => Answer::NoReply,
        }
    }
}

/// A service's device, as the executing kernel reaches it. Valid for one step: another kernel may
/// execute the next one.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    /// The uncached window.
    pub words: &'a dyn Words,
    /// Physical address of the window's start.
    pub window: u64,
    /// Offset of the device's registers in the window.
    pub registers: usize,
    /// Offset of the device's memory in the window.
    pub memory: usize,
    /// Size of the device's memory.
    pub memory_size: usize,
    /// Bit mask of the device's parts that this service drives.
    pub parts: u64,
    /// Rings the soc's doorbell with the given vector.
    pub ring: &'a dyn Fn(u32),
    /// The vector that makes the device look at its queues.
    pub kick: u32,
}

/// What a step may request of its kernel. Everything but [`Effects::give`] takes effect after the
/// step.
pub trait Effects {
    /// Wakes the caller parked under `token`, which then repeats its request.
    fn wake(&mut self, token: Token);
    /// Delivers `bytes` as the answer to the request parked under `token` ([`Service::given`]) and
    /// wakes its caller. Returns false, without any effect, if that is not possible. Always false
    /// for callers in other kernels: if a wake is lost, the caller repeats its request after a
    /// second, but a lost answer would be lost data.
    fn give(&mut self, _token: Token, _bytes: &[u8]) -> bool {
        false
    }
    /// Returns whether the caller parked under `token` is a thread of the kernel that executes this
    /// step. Of several callers that would do, such a one is woken at the least cost, and without
    /// waking a kernel that rests.
    fn is_near(&self, _token: Token) -> bool {
        true
    }
    /// Returns whether the kernel that executes this step serves the service's device: what the
    /// device has is that kernel's, and others need not be woken for it.
    fn serves(&self) -> bool {
        false
    }
    /// Wakes every parked caller, because the state that recorded them is lost.
    fn wake_all(&mut self);
    /// Requests [`Event::Timer`] at `at` (soc ns) or earlier, from the kernel that executes this
    /// step. A later call in the same step replaces an earlier one.
    fn timer(&mut self, at: u64);
    /// Converts a step's time to wall-clock time (ns since 1970).
    fn time_of_day(&self, now: u64) -> u64 {
        now
    }
    /// Returns a number that cannot be guessed outside the chip, another one for each life of a
    /// kernel at least: for a state that must not be predictable.
    fn seed(&self) -> u64 {
        0
    }
    /// Returns the service's device, if it drives one and the board has it.
    fn device(&self) -> Option<Device<'_>> {
        None
    }
}

/// A service as a state machine without I/O.
pub trait Service: Sized {
    type Request: Plain;
    type Reply: Plain;

    /// The name used in board files.
    const NAME: &'static str;

    /// Creates the initial state. `lives` counts starts: the state puts it into its handles, so
    /// that handles from before a loss of state are recognised as stale.
    fn start(lives: u32) -> Self;

    /// Returns how many bytes at the start of a bulk of `bulk` bytes the request sends.
    fn sent(request: &Self::Request, bulk: usize) -> usize;

    /// Returns how many bytes at the start of bulk the reply fills.
    fn filled(reply: &Self::Reply) -> usize;

    /// Returns the reply to a request answered by [`Effects::give`] with `length` bytes, now in
    /// bulk.
    fn given(_request: &Self::Request, _length: usize) -> Option<Self::Reply> {
        None
    }

    /// Handles one event. `now` is the chip's time in ns.
    fn step(
        &mut self,
        now: u64,
        event: Event<'_, Self::Request>,
        effects: &mut dyn Effects,
    ) -> Answer<Self::Reply>;

    /// The same with a place for the reply, for services whose replies are large: each layer that
    /// returns one copies it.
    #[inline]
    fn step_into(
        &mut self,
        now: u64,
        event: Event<'_, Self::Request>,
        effects: &mut dyn Effects,
        reply: &mut Self::Reply,
    ) -> Answer<()> {
        self.step(now, event, effects).map(|it| *reply = it)
    }
}
