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
//! Contract: only its kernel knows the handles of a private pipe; [`is_private`] tells them from
//! the service's. Duplicates share one number and are counted. A request that is not supported
//! here, or that comes from another kernel, makes the pipe *leave*: it becomes a pipe of the
//! service with the bytes that are in it, and its handles refer to that one. Programs notice no
//! difference except in time. Nothing here waits or sends requests: the kernel does, and it holds
//! one lock per pipe.

use crate::vfs::length;
use crate::vfs::opening::SETTABLE;
use crate::vfs::pipe::Pipe;
use abi::fs::{Errno, Op, Reply, Request, flag};

/// Set in handles of private pipes only.
const PRIVATE: u64 = 1 << 63;
/// Number of bits of the pipe's index.
const PLACE_BITS: u32 = 16;

/// Returns whether this is a handle of a private pipe.
#[inline]
pub fn is_private(handle: u64) -> bool {
    handle & PRIVATE != 0
}

/// Returns the index of its pipe.
#[inline]
pub fn place(handle: u64) -> usize {
    (handle >> 1) as usize & ((1 << PLACE_BITS) - 1)
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
}

impl Parcel {
    /// Returns the bytes in the pipe.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.pipe.all()
    }
}

/// A slot for one private pipe.
#[derive(Debug)]
pub struct PrivatePipe {
    /// Counts the pipes that used this slot.
    generation: u32,
    state: State,
    ends: [End; 2],
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
        PrivatePipe { generation: 0, state: State::Free, ends: [end; 2] }
    }

    /// Returns whether there is no pipe.
    pub fn is_free(&self) -> bool {
        matches!(self.state, State::Free)
    }

    /// Returns whether there is a pipe and it has not left.
    pub fn is_here(&self) -> bool {
        matches!(self.state, State::Here(_))
    }

    /// Creates a pipe in this slot, which must be free and has index `place`. The reply is that of
    /// [`Op::Pipe`].
    pub fn open(&mut self, place: usize, flags: u16) -> Reply {
        debug_assert!(self.is_free() && place < 1 << PLACE_BITS);
        self.generation = self.generation.wrapping_add(1) & 0x7fff_ffff;
        self.state = State::Here(Pipe::open());
        self.ends = [flag::READ, flag::WRITE].map(|way| End { handles: 1, flags: way | flags });
        let name = u64::from(self.generation) << (PLACE_BITS + 1) | (place as u64) << 1 | PRIVATE;
        Reply { handle: name, other: name | 1, ..Reply::default() }
    }

    fn knows(&self, handle: u64) -> bool {
        let generation = (handle & !PRIVATE) >> (PLACE_BITS + 1);
        let end = self.ends[Side::of(handle) as usize];
        generation == u64::from(self.generation) && end.handles != 0 && !self.is_free()
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
            State::Here(pipe) => Some(Parcel { pipe, flags }),
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
