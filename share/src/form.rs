//! The form of a service: a state, and a `step` that changes it.
//!
//! Contract: **a step never blocks.** It waits for nobody, holds nothing when it returns, and asks
//! for nothing but memory of its own heap. A request that cannot be answered yet is *parked*: a
//! record in the state, with the token of who asked. What ends the wait calls [`Effects::wake`]
//! with that token; whoever asked then sends [`Event::Again`] with the same token and request, on
//! its own kernel, and is answered, parked once more, or told that it was forgotten.
//!
//! ```text
//!              Request / Again                     Effects::wake(token)
//!   asked ----------------------> step: Parked ------------------------> asked again
//!              step: Done(reply)       |  Cancel (the asker gave up), Gone (its kernel died)
//!   asked ----------------------> over +-------------------------------> record removed
//! ```
//!
//! `bulk` is memory of the asker, reached by the step directly where it runs in the asker's kernel,
//! and carried by messages where it does not. So data moves in a step that its receiver began, or
//! is given with the wake where a little is all that it waits for ([`Effects::give`]). A service
//! cannot tell the difference, nor in which mode it is shared.

use crate::plain::Plain;
use base::id::{DomainId, Epoch};
use base::port::Words;
use core::cmp::Ordering;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Who asked: a thread of a kernel in one of that kernel's lives, and its how manieth request.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Token {
    /// The kernel's life.
    pub epoch: u16,
    /// The kernel.
    pub kernel: u8,
    /// 0.
    pub reserved: u8,
    /// Counts the thread's requests, so that a late wake finds nobody.
    pub sequence: u32,
    /// The thread, as its kernel names it.
    pub thread: u64,
}

impl Token {
    /// Of a thread of `kernel`.
    pub fn new(kernel: DomainId, epoch: Epoch, thread: u64, sequence: u32) -> Token {
        Token { epoch: epoch.0, kernel: kernel.0, reserved: 0, sequence, thread }
    }

    /// Its fields as two words, for a quick order.
    #[inline]
    fn words(self) -> (u64, u64) {
        let life = u64::from(self.epoch) | u64::from(self.kernel) << 16;
        (life | u64::from(self.reserved) << 24 | u64::from(self.sequence) << 32, self.thread)
    }

    /// The kernel.
    pub fn kernel(self) -> DomainId {
        DomainId(self.kernel)
    }

    /// That kernel's life.
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

/// What happens to a service.
#[derive(Debug)]
pub enum Event<'a, R> {
    /// Somebody asks. `bulk` is what it sends, or room for what it wants.
    Request {
        /// Who.
        token: Token,
        /// What.
        request: R,
        /// The asker's memory.
        bulk: &'a mut [u8],
    },
    /// Who was parked and woken asks again, with what it asked before.
    Again {
        /// Who.
        token: Token,
        /// What.
        request: R,
        /// The asker's memory.
        bulk: &'a mut [u8],
    },
    /// Who is parked waits no more. No answer is expected.
    Cancel(Token),
    /// A kernel died, or ended a life: whoever was parked from there will not come back.
    Gone(DomainId, Epoch),
    /// The time that [`Effects::timer`] asked for has come.
    Timer,
}

/// What a step answers to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<R> {
    /// This.
    Done(R),
    /// Nothing yet: the token is in the state's records.
    Parked,
    /// Nothing was asked ([`Event::Cancel`], [`Event::Gone`], [`Event::Timer`]).
    Heard,
}

/// The device that a service drives, as the kernel reaches it that executes the step. A state keeps
/// nothing of it: another kernel may execute the next step.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    /// The uncached window.
    pub words: &'a dyn Words,
    /// Offset of the device's registers there.
    pub registers: usize,
    /// Offset of its memory.
    pub memory: usize,
    /// Its parts that the state of this service is about, a bit each.
    pub parts: u64,
    /// Rings the soc at a vector.
    pub ring: &'a dyn Fn(u32),
    /// The vector at which the device looks.
    pub kick: u32,
}

/// What a step may ask of the kernel that runs it. All of it but [`Effects::give`] happens behind
/// the step.
pub trait Effects {
    /// Who is parked under this token may ask again.
    fn wake(&mut self, token: Token);
    /// Who is parked under this token has these bytes as its answer ([`Service::given`]), and is
    /// woken. False: that cannot be, and nothing has happened. Where it asked in another kernel it
    /// cannot: a wake may be lost, and costs a second; a lost answer would be lost.
    fn give(&mut self, _token: Token, _bytes: &[u8]) -> bool {
        false
    }
    /// Everybody who is parked may ask again: the state that knew them is gone.
    fn wake_all(&mut self);
    /// Sends [`Event::Timer`] at this time (soc ns), or earlier; a later call of the same step
    /// replaces an earlier one. Where kernels share the state, the one that executed this step
    /// sends it.
    fn timer(&mut self, at: u64);
    /// What a clock on the wall says (ns since 1970) at a step's time.
    fn time_of_day(&self, now: u64) -> u64 {
        now
    }
    /// The device that the service drives, if it drives one and the board has it.
    fn device(&self) -> Option<Device<'_>> {
        None
    }
}

/// A service.
pub trait Service: Sized {
    /// What can be asked.
    type Request: Plain;
    /// What is answered.
    type Reply: Plain;

    /// Its name, as in board files.
    const NAME: &'static str;

    /// A new one, at its beginning or behind the loss of its state. `lives` counts its starts, so
    /// that a handle made in an earlier life can be told from one of this.
    fn start(lives: u32) -> Self;

    /// Bytes at the beginning of a bulk of `bulk` bytes that the request sends.
    fn sent(request: &Self::Request, bulk: usize) -> usize;

    /// Bytes at the beginning of bulk that hold an answer.
    fn filled(reply: &Self::Reply) -> usize;

    /// The reply to a request that a step gave so many bytes ([`Effects::give`]): they are in bulk.
    fn given(_request: &Self::Request, _length: usize) -> Option<Self::Reply> {
        None
    }

    /// One event. `now` is the chip's time in ns.
    fn step(
        &mut self,
        now: u64,
        event: Event<'_, Self::Request>,
        effects: &mut dyn Effects,
    ) -> Answer<Self::Reply>;
}
