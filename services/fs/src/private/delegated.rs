//! A private pipe that programs of one other kernel use, too: its *guest*. The pipe stays with the
//! kernel that made it, its home, which executes the guest's requests.
//!
//! ```text
//!   offer --> lend (the guest counts its uses of an end) --> hear, answer ... --> release
//!                                                   guest dies: forget_guest --------'
//! ```
//! Contract: each read and write of the guest gets one answer, in the order in which they were
//! answerable; [`PrivatePipe::answer`] sends answers, and keeps one that has no room to be sent
//! until it is called again. Bytes leave the pipe only if they were sent. What the pipe cannot do
//! here, or not well, is answered with [`Outcome::Elsewhere`]: the guest then asks to have the pipe
//! leave. That is so if more than [`MOST`] bytes are in it: the service carries much with less
//! work, because pages move there.

use super::wire::{Ask, MOST, Message, Outcome};
use super::{Answer, End, PrivatePipe, Side, State};
use crate::vfs::pipe::Pipe;
use abi::fs::{Errno, Op, Reply, Request, flag};
use alloc::vec::Vec;
use base::id::Life;

/// The most reads and writes of one end that a guest may have without an answer.
pub const ASKS: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// Of so many bytes at most.
    Read(u32),
    /// The answer to a write, or to a read that was cancelled.
    Answer(Outcome),
}

/// The other kernel, and what it does.
#[derive(Debug)]
pub(super) struct Guest {
    life: Option<Life>,
    /// How many uses of each end it has.
    uses: [u32; 2],
    /// What it has asked and has no answer to, by its ids, in order.
    asks: Vec<(u64, Waiting)>,
    /// Handles of the file service whose last use was the guest's: a thread closes them.
    over: [Option<u64>; 2],
}

/// The other kernel has violated the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// What followed from a use that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    Nothing,
    /// An end was closed, so callers that wait may continue.
    Closed,
    /// A thread is to close a handle of the file service ([`PrivatePipe::take_over`]).
    Over,
}

/// What [`PrivatePipe::answer_guest`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Bytes were read, so callers that wait to write may continue.
    pub has_read: bool,
    /// Something was sent.
    pub has_sent: bool,
}

impl Guest {
    pub const fn none() -> Guest {
        Guest { life: None, uses: [0; 2], asks: Vec::new(), over: [None; 2] }
    }

    /// A new pipe has none.
    pub(super) fn begin(&mut self) {
        (self.life, self.uses) = (None, [0; 2]);
    }

    /// Returns whether nothing is kept for it.
    pub(super) fn is_done(&self) -> bool {
        self.asks.is_empty() && self.over == [None; 2]
    }

    fn is_idle(&self) -> bool {
        self.uses == [0; 2] && self.is_done()
    }
}

impl PrivatePipe {
    /// Returns the guest's life, if it has an end.
    pub fn guest(&self) -> Option<Life> {
        self.guest.life.filter(|_| self.guest.uses != [0; 2])
    }

    /// Returns whether the guest waits for an answer.
    #[inline]
    pub fn is_asked(&self) -> bool {
        !self.guest.asks.is_empty()
    }

    /// Allows another kernel to use an end. [`Answer::Done`] if it may, by the same handle.
    pub fn offer(&mut self, handle: u64, to: Life) -> Answer {
        if !self.knows(handle) {
            return Answer::Done(Reply::error(Errno::Badf));
        }
        let place = match &self.state {
            State::Free | State::Leaving => return Answer::Waits,
            State::Shared(handles) => return Answer::Elsewhere(handles[Side::of(handle) as usize]),
            State::Here(_) => &mut self.guest,
        };
        if place.life != Some(to) {
            if !place.is_idle() || place.asks.try_reserve_exact(2 * ASKS).is_err() {
                return Answer::Leave;
            }
            place.life = Some(to);
        }
        Answer::Done(Reply { handle, ..Reply::default() })
    }

    /// Handles a request of the guest that never waits. `Op::Dup` counts another use of the end.
    pub fn ask_for_guest(&mut self, from: Life, request: &Request) -> Answer {
        let side = Side::of(request.handle) as usize;
        let op = Op::from_code(request.op);
        let is_guest = self.guest.life == Some(from);
        if !self.knows(request.handle) || !is_guest && op != Some(Op::Dup) {
            return Answer::Done(Reply::error(Errno::Badf));
        }
        match op {
            // Another kernel has become the guest since this one was offered the end.
            Some(Op::Dup) if self.is_here() && !is_guest => Answer::Leave,
            Some(Op::Dup) if self.is_here() => {
                let answer = self.ask(request, &mut []);
                if let Answer::Done(Reply { error: 0, .. }) = answer {
                    // At most the handles.
                    self.guest.uses[side] += 1;
                }
                answer
            }
            Some(Op::Dup) => match &self.state {
                State::Shared(handles) => Answer::Elsewhere(handles[side]),
                _ => Answer::Waits,
            },
            _ if self.guest.uses[side] == 0 => Answer::Done(Reply::error(Errno::Badf)),
            Some(Op::Stat | Op::SetFlags | Op::Sync | Op::Datasync) => self.ask(request, &mut []),
            // Only a request that is not supported here.
            _ => match &self.state {
                State::Shared(handles) => Answer::Elsewhere(handles[side]),
                State::Here(_) => Answer::Leave,
                State::Free | State::Leaving => Answer::Waits,
            },
        }
    }

    /// Counts uses of an end by the guest as over.
    pub fn release(&mut self, from: Life, handle: u64, uses: u32) -> Released {
        let side = Side::of(handle);
        let held = self.guest.uses[side as usize];
        let is_right = self.guest.life == Some(from) && handle & !1 == self.name;
        if !is_right || uses == 0 || held < uses {
            return Released::Nothing;
        }
        self.release_side(side, uses)
    }

    fn release_side(&mut self, side: Side, uses: u32) -> Released {
        let held = &mut self.guest.uses[side as usize];
        *held -= uses;
        if *held == 0 && side == Side::Reader {
            // A guest that keeps to the protocol has no reads then.
            let reads = self.guest.asks.iter_mut().map(|(_, waiting)| waiting);
            reads.filter(|waiting| matches!(waiting, Waiting::Read(_))).for_each(|waiting| {
                *waiting = Waiting::Answer(Outcome::Failed(Errno::Badf));
            });
        }
        self.ends[side as usize].handles -= uses - 1;
        match self.close(side) {
            Answer::Elsewhere(handle) => {
                self.guest.over[side as usize] = Some(handle);
                Released::Over
            }
            Answer::Changed(_) => Released::Closed,
            Answer::Done(_) | Answer::Waits | Answer::Leave => Released::Nothing,
        }
    }

    /// Counts all uses by a kernel that is dead as over. Returns whether it was the guest.
    pub fn forget_guest(&mut self, is_dead: impl Fn(Life) -> bool) -> bool {
        let is_guest = self.guest.life.is_some_and(is_dead);
        if is_guest {
            self.guest.asks.clear();
            let uses = self.guest.uses;
            for (side, uses) in [Side::Reader, Side::Writer].into_iter().zip(uses) {
                if uses != 0 {
                    self.release_side(side, uses);
                }
            }
            self.guest.life = None;
        }
        is_guest
    }

    /// Returns the handles of the file service that the caller closes.
    pub fn take_over(&mut self) -> [Option<u64>; 2] {
        core::mem::take(&mut self.guest.over)
    }

    /// Takes what the guest asks. [`PrivatePipe::answer`] must follow. Returns whether callers that
    /// wait to read may continue.
    pub fn hear(&mut self, from: Life, id: u64, handle: u64, ask: Ask<'_>) -> Result<bool, Fault> {
        if self.guest.life != Some(from) {
            // Asked in another life of this kernel, or of the guest.
            return Ok(false);
        }
        let is_known = self.knows(handle) && self.guest.uses[Side::of(handle) as usize] != 0;
        let side = Side::of(handle);
        let (waiting, is_changed) = match ask {
            Ask::Close(_) => return Ok(false),
            Ask::Cancel => {
                let own = self.guest.asks.iter_mut().find(|(known, _)| *known == id);
                if let Some((_, waiting @ Waiting::Read(_))) = own {
                    *waiting = Waiting::Answer(Outcome::Cancelled);
                }
                return Ok(false);
            }
            _ if !is_known => (Waiting::Answer(Outcome::Failed(Errno::Badf)), false),
            Ask::Read(most) if side == Side::Reader => (Waiting::Read(most), false),
            Ask::Write(bytes) if side == Side::Writer => {
                let outcome = self.write_for_guest(bytes);
                (Waiting::Answer(outcome), matches!(outcome, Outcome::Moved(1..)))
            }
            Ask::Read(_) | Ask::Write(_) => (Waiting::Answer(Outcome::Failed(Errno::Badf)), false),
        };
        if self.guest.asks.len() >= 2 * ASKS {
            return Err(Fault);
        }
        self.guest.asks.push((id, waiting));
        Ok(is_changed)
    }

    fn write_for_guest(&mut self, bytes: &[u8]) -> Outcome {
        let fails = self.ends[Side::Writer as usize].flags & flag::NONBLOCK != 0;
        let State::Here(pipe) = &mut self.state else { return Outcome::Elsewhere };
        match pipe.write(bytes) {
            Ok(Some(done)) => Outcome::Moved(done as u32),
            Ok(None) if fails => Outcome::Failed(Errno::Again),
            // It has much in it.
            Ok(None) => Outcome::Elsewhere,
            Err(why) => Outcome::Failed(why),
        }
    }

    /// Answers what the guest has asked and can be answered now. `send` sends an answer to it, or
    /// returns false: then it is kept.
    pub fn answer_guest(&mut self, send: &mut dyn FnMut(Life, &Message<'_>) -> bool) -> Answered {
        let mut done = Answered::default();
        let PrivatePipe { guest, state, ends, .. } = self;
        let Some(life) = guest.life else { return done };
        let fails = ends[Side::Reader as usize].flags & flag::NONBLOCK != 0;
        let mut next = 0;
        while let Some(&(id, waiting)) = guest.asks.get(next) {
            let mut send =
                |outcome, bytes: &[u8]| send(life, &Message::Answer { id, outcome, bytes });
            let is_sent = match (waiting, &mut *state) {
                (Waiting::Answer(outcome), _) => send(outcome, &[]),
                (Waiting::Read(_), State::Free | State::Leaving | State::Shared(_)) => {
                    send(Outcome::Elsewhere, &[])
                }
                (Waiting::Read(most), State::Here(pipe)) => {
                    let Some(outcome) = front(pipe, fails, most) else {
                        next += 1;
                        continue;
                    };
                    let count =
                        if let Outcome::Moved(count) = outcome { count as usize } else { 0 };
                    let is_sent = send(outcome, pipe.all().get(..count).unwrap_or_default());
                    if is_sent {
                        pipe.skip(count);
                        done.has_read |= count != 0;
                    }
                    is_sent
                }
            };
            if !is_sent {
                break;
            }
            done.has_sent = true;
            guest.asks.remove(next);
        }
        done
    }

    /// Returns a handle of the pipe if only the guest has handles, of both ends: then it leaves,
    /// and its home need not be awake for it.
    pub fn is_left_to_guest(&self) -> Option<u64> {
        let is_guests = |(end, uses): (&End, u32)| uses != 0 && end.handles == uses;
        let is_left = self.ends.iter().zip(self.guest.uses).all(is_guests);
        (is_left && self.is_here()).then_some(self.name)
    }
}

/// Returns what a read of the guest finds. `None`: it waits.
fn front(pipe: &Pipe, fails: bool, most: u32) -> Option<Outcome> {
    let held = pipe.held();
    let count = held.min(most as usize);
    match () {
        () if held > MOST => Some(Outcome::Elsewhere),
        () if count == 0 && most != 0 && pipe.writer => {
            fails.then_some(Outcome::Failed(Errno::Again))
        }
        () => Some(Outcome::Moved(count as u32)),
    }
}
