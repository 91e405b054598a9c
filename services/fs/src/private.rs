//! A pipe whose ends are all in one kernel. It is private to that kernel, while the service's pipes
//! are shared like its whole state. Both are a [`crate::vfs::pipe::Pipe`].
//!
//! ```text
//!   Free ---open---> Here ---leave---> Leaving ---left---> Shared
//!    ^                | ^                 |                  |
//!    |                | `-left(failed)----'                  |
//!    `---both ends closed------------------------------------'
//! ```
//!
//! Contract: only the kernel that made it knows what the handles of a private pipe mean, and one
//! other kernel, which has it executed there ([`delegated`], [`far`]). [`is_private`] tells them
//! from the service's. Duplicates share one number and are counted. A request that is not supported
//! here, or that comes from a third kernel, makes the pipe *leave*: it becomes a pipe of the
//! service with the bytes that are in it, and its handles refer to that one. Programs notice no
//! difference except in time. Nothing here waits or sends requests: the kernel does, and it holds
//! one lock per pipe.

mod delegated;
pub mod far;
pub mod wire;

use crate::vfs::length;
use crate::vfs::opening::SETTABLE;
use crate::vfs::pipe::Pipe;
use abi::fs::{Errno, Op, Reply, Request, flag};
use abi::quota::{Budget, Quota};
use base::id::{DomainId, Epoch, Life};
pub use delegated::{ASKS, Answered, Fault, Released};

/// Set in handles of private pipes only. Below it: the kernel that made the pipe, its epoch, a
/// number, the pipe's place, and the side.
const PRIVATE: u64 = 1 << 63;
const KERNEL_AT: u32 = 49;
const EPOCH_AT: u32 = 33;
const NUMBER_AT: u32 = 9;
const PLACE_AT: u32 = 1;

/// Returns whether this is a handle of a private pipe.
#[inline]
pub fn is_private(handle: u64) -> bool {
    handle & PRIVATE != 0
}

/// Returns the index of its pipe.
#[inline]
pub fn place(handle: u64) -> usize {
    (handle >> PLACE_AT) as usize & ((1 << (NUMBER_AT - PLACE_AT)) - 1)
}

/// Returns the kernel that made its pipe.
#[inline]
pub fn home(handle: u64) -> Life {
    Life {
        kernel: DomainId((handle >> KERNEL_AT) as u8),
        epoch: Epoch((handle >> EPOCH_AT) as u16),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The read end.
    Reader = 0,
    /// The write end.
    Writer = 1,
}

impl Side {
    #[inline]
    pub fn of(handle: u64) -> Side {
        if handle & 1 == 0 { Side::Reader } else { Side::Writer }
    }

    pub fn other(self) -> Side {
        if self == Side::Reader { Side::Writer } else { Side::Reader }
    }
}

#[derive(Debug)]
enum State {
    Free,
    Here(Pipe),
    Leaving,
    /// The service's handles. The handle of a closed end is closed.
    Shared([u64; 2]),
}

#[derive(Clone, Copy, Debug, Default)]
struct End {
    handles: u32,
    flags: u16,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done; the state of the pipe has not changed for the other end.
    Done(Reply),
    /// Done, and callers that wait at the other end may continue.
    Changed(Reply),
    /// Not done: ask again after the pipe has changed.
    Waits,
    /// The service handles it, under this handle.
    Elsewhere(u64),
    /// The pipe must leave first.
    Leave,
}

/// The result of a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// This many bytes were moved. Unless it is 0, callers that wait at the other end may continue.
    Bytes(usize),
    Failed(Errno),
    /// See [`Answer::Waits`].
    Waits,
    /// Not handled by this function: use [`PrivatePipe::ask`].
    Ask,
}

/// The pipe on its way to the service.
#[derive(Debug)]
pub struct Parcel {
    pipe: Pipe,
    /// Flags of both ends.
    pub flags: [u16; 2],
    /// What it is charged to.
    pub quota: Quota,
}

impl Parcel {
    /// Returns the bytes in the pipe.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.pipe.all()
    }
}

/// The quota of the system.
const SYSTEM: Quota = Quota { tree: Budget::of_word(0), branch: Budget::of_word(0) };

/// A slot for one private pipe.
#[derive(Debug)]
pub struct PrivatePipe {
    /// The handle of its read end, the last one's if there is no pipe; 0 before the first one.
    name: u64,
    state: State,
    ends: [End; 2],
    quota: Quota,
    guest: delegated::Guest,
}

impl Default for PrivatePipe {
    fn default() -> Self {
        Self::new()
    }
}

impl PrivatePipe {
    /// Creates an empty slot.
    pub const fn new() -> PrivatePipe {
        let end = End { handles: 0, flags: 0 };
        PrivatePipe {
            name: 0,
            state: State::Free,
            ends: [end; 2],
            quota: SYSTEM,
            guest: delegated::Guest::none(),
        }
    }

    /// Returns whether there is no pipe, and nothing left to do for the last one.
    pub fn is_free(&self) -> bool {
        matches!(self.state, State::Free) && self.guest.is_done()
    }

    /// Returns whether there is a pipe and it has not left.
    pub fn is_here(&self) -> bool {
        matches!(self.state, State::Here(_))
    }

    /// Creates a pipe of kernel `me` in this slot, which must be free and has index `place`. If it
    /// leaves, it is charged to `quota`. The reply is that of [`Op::Pipe`].
    pub fn open(&mut self, me: Life, place: usize, flags: u16, quota: Quota) -> Reply {
        debug_assert!(self.is_free() && place < 1 << (NUMBER_AT - PLACE_AT));
        let number = (self.name >> NUMBER_AT).wrapping_add(1) & ((1 << (EPOCH_AT - NUMBER_AT)) - 1);
        let life = u64::from(me.kernel.0) << KERNEL_AT | u64::from(me.epoch.0) << EPOCH_AT;
        self.name = PRIVATE | life | number << NUMBER_AT | (place as u64) << PLACE_AT;
        (self.state, self.quota) = (State::Here(Pipe::open()), quota);
        self.guest.begin();
        self.ends = [flag::READ, flag::WRITE].map(|way| End { handles: 1, flags: way | flags });
        Reply { handle: self.name, other: self.name | 1, ..Reply::default() }
    }

    fn knows(&self, handle: u64) -> bool {
        let end = self.ends[Side::of(handle) as usize];
        handle & !1 == self.name && end.handles != 0 && !matches!(self.state, State::Free)
    }

    /// Handles a request for one of its handles. A request that must wait changes nothing.
    pub fn ask(&mut self, request: &Request, bulk: &mut [u8]) -> Answer {
        if !self.knows(request.handle) {
            return Answer::Done(Reply::error(Errno::Badf));
        }
        let side = Side::of(request.handle);
        match Op::from_code(request.op) {
            Some(Op::Close) => return self.close(side),
            Some(Op::Dup) => {
                let Some(more) = self.ends[side as usize].handles.checked_add(1) else {
                    return Answer::Done(Reply::error(Errno::Nfile));
                };
                self.ends[side as usize].handles = more;
                return Answer::Done(Reply { handle: request.handle, ..Reply::default() });
            }
            _ => {}
        }
        match &self.state {
            State::Free | State::Leaving => Answer::Waits,
            State::Shared(handles) => Answer::Elsewhere(handles[side as usize]),
            State::Here(_) => match self.transfer(request, bulk) {
                Moved::Ask => self.answer(side, request),
                moved => replied(moved, side),
            },
        }
    }

    /// Handles a plain read or write: the fast path of [`PrivatePipe::ask`].
    #[inline]
    pub fn transfer(&mut self, request: &Request, bulk: &mut [u8]) -> Moved {
        let side = Side::of(request.handle);
        let op = [Op::Read, Op::Write][side as usize] as u16;
        let is_known = request.op == op && request.flags == 0 && self.knows(request.handle);
        let State::Here(pipe) = &mut self.state else { return Moved::Ask };
        if !is_known {
            return Moved::Ask;
        }
        let length = length(request, bulk.len());
        let bulk = &mut bulk[..length];
        let done = match side {
            Side::Reader => Ok(pipe.read(bulk)),
            Side::Writer => pipe.write(bulk),
        };
        match done {
            Ok(Some(done)) => Moved::Bytes(done),
            Ok(None) if self.ends[side as usize].flags & flag::NONBLOCK != 0 => {
                Moved::Failed(Errno::Again)
            }
            Ok(None) => Moved::Waits,
            Err(error) => Moved::Failed(error),
        }
    }

    /// Handles the other requests that need no service, with the same results as there.
    fn answer(&mut self, side: Side, request: &Request) -> Answer {
        let (State::Here(pipe), end) = (&mut self.state, &mut self.ends[side as usize]) else {
            return Answer::Leave;
        };
        match (Op::from_code(request.op), side) {
            (Some(Op::Stat), _) => {
                Answer::Done(Reply { stat: pipe.stat(), flags: end.flags, ..Reply::default() })
            }
            (Some(Op::SetFlags), _) if request.flags & !SETTABLE == 0 => {
                end.flags = end.flags & !SETTABLE | request.flags;
                Answer::Done(Reply::default())
            }
            // A pipe has no file to sync.
            (Some(Op::Sync | Op::Datasync), _) if request.flags == 0 => {
                Answer::Done(Reply::error(Errno::Inval))
            }
            _ => Answer::Leave,
        }
    }

    fn close(&mut self, side: Side) -> Answer {
        let end = &mut self.ends[side as usize];
        end.handles -= 1;
        if end.handles != 0 {
            return Answer::Done(Reply::default());
        }
        let answer = match &mut self.state {
            State::Here(pipe) => {
                match side {
                    Side::Reader => pipe.reader = false,
                    Side::Writer => pipe.writer = false,
                }
                Answer::Changed(Reply::default())
            }
            State::Shared(handles) => Answer::Elsewhere(handles[side as usize]),
            State::Free | State::Leaving => Answer::Done(Reply::default()),
        };
        if !matches!(self.state, State::Leaving) {
            self.end();
        }
        answer
    }

    /// Frees the slot if both ends are closed.
    fn end(&mut self) {
        if self.ends.iter().all(|end| end.handles == 0) {
            self.state = State::Free;
        }
    }

    /// Starts leaving if the pipe is here. Returns what the service's pipe must hold.
    pub fn leave(&mut self, handle: u64) -> Option<Parcel> {
        if !self.knows(handle) || !self.is_here() {
            return None;
        }
        let flags = self.ends.map(|end| end.flags);
        match core::mem::replace(&mut self.state, State::Leaving) {
            State::Here(pipe) => Some(Parcel { pipe, flags, quota: self.quota }),
            _ => None,
        }
    }

    /// Completes what [`PrivatePipe::leave`] started. `outcome` has the service's handles; or the
    /// parcel, if the pipe cannot leave and stays. Returns those handles whose ends were closed
    /// meanwhile; the caller closes them.
    pub fn left(&mut self, outcome: Result<[u64; 2], Parcel>) -> [Option<u64>; 2] {
        let is_open = self.ends.map(|end| end.handles != 0);
        let mut close = [None; 2];
        match outcome {
            Ok(handles) => {
                self.state = State::Shared(handles);
                let closed = |side: usize| (!is_open[side]).then_some(handles[side]);
                close = [closed(0), closed(1)];
            }
            Err(Parcel { mut pipe, .. }) => {
                [pipe.reader, pipe.writer] = is_open;
                self.state = State::Here(pipe);
            }
        }
        self.end();
        close
    }
}

/// Converts a transfer to an answer.
fn replied(moved: Moved, side: Side) -> Answer {
    match moved {
        Moved::Bytes(done) => {
            let filled = if side == Side::Reader { done as u32 } else { 0 };
            let reply = Reply { value: done as u64, filled, ..Reply::default() };
            if done == 0 { Answer::Done(reply) } else { Answer::Changed(reply) }
        }
        Moved::Failed(error) => Answer::Done(Reply::error(error)),
        Moved::Waits => Answer::Waits,
        Moved::Ask => Answer::Leave,
    }
}
