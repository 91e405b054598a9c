//! What a kernel knows of ends of private pipes that another kernel keeps: the guest's part of
//! [`super::delegated`].
//!
//! ```text
//!   dup at home --add--> Home ---moved---> Service ---close of the last handle---> nothing
//!                          `---kernels_died---> Lost -------------^
//! ```
//! Contract: a kernel counts its programs' handles of an end itself, and notifies the home of the
//! first and the last one. An end stays until what was asked about it has its answers, even if the
//! last handle is closed before. An ask is answered once, by its home or by the home's death; until
//! then its thread waits, also if it does not want the answer any more (it cancels the ask, and its
//! home answers at once). So no bytes are lost that a thread has not received. Nothing here waits
//! or sends: the kernel does.

use super::wire::{MOST, Outcome};
use super::{ASKS, Fault, Side};
use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::vec::Vec;
use base::id::Life;

/// The most ends. A program gets further ones from the file service.
const ENDS: usize = 64;
/// The most asks without an answer.
const PLACES: usize = 32;

/// After so many writes to an end, each at most [`SOON_NS`] after the one before, a thread
/// continues to write.
const MANY: u32 = 8;
const SOON_NS: u64 = 1_000_000;

/// The last writes of a thread to an end, since it has read one.
#[derive(Debug, Default)]
pub struct Wrote {
    handle: u64,
    count: u32,
    /// When the last one was.
    at: u64,
}

impl Wrote {
    /// Notes a read or a write. Returns whether the thread continues to write, without waiting for
    /// anything: then the file service is better, which delays wakes.
    pub fn continues(&mut self, handle: u64, side: Side, now_ns: u64) -> bool {
        let is_next = self.handle == handle && now_ns.wrapping_sub(self.at) < SOON_NS;
        let count = match side {
            Side::Reader => 0,
            Side::Writer if is_next => self.count + 1,
            Side::Writer => 1,
        };
        *self = Wrote { handle, count, at: now_ns };
        count > MANY
    }
}

/// Where an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its home answers requests for it.
    Home(Life),
    /// The file service does, under this handle of this kernel.
    Service(u64),
    /// Its home has died, and the pipe with it.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct End {
    handle: u64,
    place: Place,
    /// Handles of programs here.
    handles: u32,
    /// How many uses its home counts; 0 after it was notified that they are over.
    uses: u32,
    /// Asks about it that are not taken.
    asks: usize,
}

/// What is left to do for an end, after a handle was closed or an ask has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// There are others, or asks, or the pipe is lost.
    Nothing,
    /// To tell its home that so many uses are over.
    Home(Life, u32),
    /// To close this handle of the file service.
    Service(u64),
}

/// Whether a handle was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    Yes,
    /// Yes; and the use that its home has counted is over, because the pipe has left meanwhile.
    Moved,
    /// There is no room. That use is over, too.
    No,
}

#[derive(Debug)]
struct Ask {
    /// Its place, and how many asks there were before it.
    id: u64,
    home: Life,
    handle: u64,
    thread: u64,
    room: Room,
    outcome: Option<Outcome>,
    bytes: [u8; MOST],
}

/// The most bytes that an ask moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Read(u32),
    Write(u32),
}

/// The ends, and what was asked of their homes.
#[derive(Debug)]
pub struct Far {
    ends: Vec<End>,
    asks: Box<[Ask]>,
    /// The places of asks that are used, one bit each.
    used: u32,
    /// How many asks there were.
    count: u64,
}

const _: () = assert!(PLACES <= u32::BITS as usize);

impl Default for Far {
    fn default() -> Self {
        Self::new()
    }
}

impl Far {
    pub fn new() -> Far {
        let home = super::home(0);
        let free = || Ask {
            id: 0,
            home,
            handle: 0,
            thread: 0,
            room: Room::Write(0),
            outcome: None,
            bytes: [0; MOST],
        };
        let asks = (0..PLACES).map(|_| free()).collect();
        Far { ends: Vec::with_capacity(ENDS), asks, used: 0, count: 0 }
    }

    fn end(&mut self, handle: u64) -> Option<&mut End> {
        self.ends.iter_mut().find(|end| end.handle == handle)
    }

    /// Returns where an end is; `None` if it was not added, or its last handle is closed.
    pub fn place(&self, handle: u64) -> Option<Place> {
        let end = self.ends.iter().find(|end| end.handle == handle && end.handles != 0)?;
        Some(end.place)
    }

    /// Adds a handle of an end, a use of which its home has counted.
    pub fn add(&mut self, handle: u64) -> Added {
        if let Some(end) = self.end(handle) {
            end.handles += 1;
            let is_home = matches!(end.place, Place::Home(_));
            end.uses += u32::from(is_home);
            return if is_home { Added::Yes } else { Added::Moved };
        }
        if self.ends.len() == ENDS {
            return Added::No;
        }
        let place = Place::Home(super::home(handle));
        self.ends.push(End { handle, place, handles: 1, uses: 1, asks: 0 });
        Added::Yes
    }

    /// Duplicates a handle. Returns false if there is none.
    pub fn dup(&mut self, handle: u64) -> bool {
        let end = self.end(handle).filter(|end| end.handles != 0);
        end.map(|end| end.handles += 1).is_some()
    }

    /// Closes a handle; `None` if there is none.
    pub fn close(&mut self, handle: u64) -> Option<Closed> {
        self.end(handle).filter(|end| end.handles != 0)?.handles -= 1;
        Some(self.end_of(handle))
    }

    /// Removes an end without handles and asks.
    fn end_of(&mut self, handle: u64) -> Closed {
        let is_over = |end: &End| end.handle == handle && (end.handles, end.asks) == (0, 0);
        let Some(at) = self.ends.iter().position(is_over) else { return Closed::Nothing };
        let End { place, uses, .. } = self.ends.swap_remove(at);
        match place {
            Place::Home(home) => Closed::Home(home, uses),
            Place::Service(own) => Closed::Service(own),
            Place::Lost => Closed::Nothing,
        }
    }

    /// Notes that an end has left, and that `own` is this kernel's handle of it. Returns how many
    /// uses are over at its home; `None` if that was noted before, or nothing is open: then the
    /// caller closes `own`.
    pub fn moved(&mut self, handle: u64, own: u64) -> Option<u32> {
        let end = self.end(handle).filter(|end| matches!(end.place, Place::Home(_)))?;
        end.place = Place::Service(own);
        Some(core::mem::take(&mut end.uses))
    }

    /// Begins an ask of a thread to the home of an end. Returns its id; `None` if the end is not
    /// there any more, or without room.
    pub fn ask(&mut self, handle: u64, thread: u64, room: Room) -> Option<u64> {
        let at = self.used.trailing_ones() as usize;
        let may_ask = |end: &End| end.handles != 0 && end.asks < ASKS;
        let of = |end: &&mut End| end.handle == handle && may_ask(end);
        let end = self.ends.iter_mut().find(of)?;
        let Place::Home(home) = end.place else { return None };
        let ask = self.asks.get_mut(at)?;
        end.asks += 1;
        self.used |= 1 << at;
        self.count += 1;
        let id = self.count * PLACES as u64 + at as u64;
        (ask.id, ask.home, ask.handle) = (id, home, handle);
        (ask.thread, ask.room, ask.outcome) = (thread, room, None);
        Some(id)
    }

    /// Returns the place of an ask.
    fn index(&self, id: u64) -> Option<usize> {
        let at = id as usize % PLACES;
        (self.used >> at & 1 != 0 && self.asks.get(at)?.id == id).then_some(at)
    }

    /// Ends an ask, which was not sent or has its answer.
    pub fn forget(&mut self, id: u64) -> Closed {
        let Some(at) = self.index(id) else { return Closed::Nothing };
        self.used &= !(1 << at);
        let handle = self.asks[at].handle;
        if let Some(end) = self.end(handle) {
            end.asks -= 1;
        }
        self.end_of(handle)
    }

    /// Takes the answer to an ask. Returns the thread that waits for it; `None` if none does.
    pub fn answered(
        &mut self,
        from: Life,
        id: u64,
        outcome: Outcome,
        bytes: &[u8],
    ) -> Result<Option<u64>, Fault> {
        let own = self.index(id).and_then(|at| self.asks.get_mut(at));
        let waits = |ask: &&mut Ask| ask.home == from && ask.outcome.is_none();
        let Some(ask) = own.filter(waits) else { return Ok(None) };
        let is_right = match (outcome, ask.room) {
            (Outcome::Moved(count), Room::Read(most)) => {
                count <= most && count as usize == bytes.len()
            }
            (Outcome::Moved(count), Room::Write(all)) => count <= all && bytes.is_empty(),
            (Outcome::Failed(_) | Outcome::Cancelled | Outcome::Elsewhere, _) => bytes.is_empty(),
        };
        let place = ask.bytes.get_mut(..bytes.len()).filter(|_| is_right).ok_or(Fault)?;
        place.copy_from_slice(bytes);
        ask.outcome = Some(outcome);
        Ok(Some(ask.thread))
    }

    /// Returns whether an ask has its answer.
    pub fn is_answered(&self, id: u64) -> bool {
        self.index(id).is_some_and(|at| self.asks[at].outcome.is_some())
    }

    /// Ends an ask that has its answer, as [`Far::forget`] does. What was read is then at the start
    /// of `into`.
    pub fn take(&mut self, id: u64, into: &mut [u8]) -> Option<(Outcome, Closed)> {
        let ask = &self.asks[self.index(id)?];
        let outcome = ask.outcome?;
        if let (Outcome::Moved(count), Room::Read(_)) = (outcome, ask.room) {
            let count = count as usize;
            into.get_mut(..count)?.copy_from_slice(ask.bytes.get(..count)?);
        }
        Some((outcome, self.forget(id)))
    }

    /// Ends what was asked of kernels that are dead, and loses their ends.
    pub fn kernels_died(&mut self, is_dead: impl Fn(Life) -> bool, wake: &mut dyn FnMut(u64)) {
        for end in &mut self.ends {
            if matches!(end.place, Place::Home(home) if is_dead(home)) {
                end.place = Place::Lost;
            }
        }
        let used = self.used;
        for (at, ask) in self.asks.iter_mut().enumerate() {
            if used >> at & 1 != 0 && ask.outcome.is_none() && is_dead(ask.home) {
                ask.outcome = Some(Outcome::Failed(Errno::Io));
                wake(ask.thread);
            }
        }
    }

    /// Returns the number of ends.
    pub fn count(&self) -> usize {
        self.ends.len()
    }
}
