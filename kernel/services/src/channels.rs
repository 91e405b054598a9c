//! A thread that uses ends of channels: it sends, waits for messages, and fetches blocks that are
//! on another kernel. What happens to ends and messages is in `kernel_platform::channels`.
//!
//! Contract: a thread that waits is queued under the lock of the channels, and is woken by a
//! message, a close, or by what makes [`User::is_stopped`] true. Once it has sent, a call is not
//! made again.

use crate::idle;
use crate::session::Session;
use abi::channel::{FetchBlock, LendBlock, LentAt};
use abi::msg::MAX_PAYLOAD;
use core::ops::Range;
use kernel_contract::exchange::{Arrived, Brief, Called, Known, Outgoing, Room};
use kernel_contract::{Block, Hash};
use kernel_msg::Refusal;
use kernel_node::Node;
use kernel_platform::channels::{BlockName, Brought, Failure, Find, LENT, place_in};
use kernel_platform::peers::{CallFailure, Peers, Procedure, with_room};
use kernel_sched::Handoff;
use zerocopy::IntoBytes;

/// A thread that uses ends.
pub struct User<'a, S> {
    pub session: &'a Session,
    /// The process tree that is charged for ends and blocks.
    pub tree: u32,
    /// Whether it must not wait any more.
    pub is_stopped: S,
}

/// Why nothing was sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    Channel(Failure),
    /// There is no memory for the block of the next message, or it did not arrive in time. The
    /// message can be received later.
    NoMemory,
    Silent,
    /// The thread must not wait any more.
    Stopped,
}

/// Why there is no copy of a block.
enum Unbrought {
    /// Its kernel died, or has freed it.
    Lost,
    Failed(Failed),
}

impl From<Failed> for Unbrought {
    fn from(why: Failed) -> Unbrought {
        Unbrought::Failed(why)
    }
}

impl<S: Fn() -> bool> User<'_, S> {
    fn around(&self) -> (&Node, &Peers) {
        (self.session.kernel, &self.session.kernel.peers)
    }

    /// Sends a message.
    pub fn send(
        &self,
        end: u64,
        message: Outgoing<'_>,
        contracts: Find<'_>,
    ) -> Result<(), Failure> {
        let kernel = self.session.kernel;
        let sent = kernel.channels.send(self.around(), (end, self.tree), message, contracts);
        idle::to_program(kernel);
        sent
    }

    /// Sends a message, if there is one, and receives the next one. With `waits`, waits for it.
    pub fn exchange(
        &self,
        end: u64,
        (message, room): (Option<Outgoing<'_>>, &mut Room<'_>),
        terms: (Find<'_>, bool),
    ) -> Result<Arrived, Failed> {
        let mut copied = 0;
        let received = self.exchange_by((end, &mut copied), (message, &mut *room), terms);
        if copied != 0
            && let Some(place) = &mut room.place
        {
            // What was copied there may be of a block that another one has received, or none.
            let block = received.as_ref().ok().and_then(|arrived| arrived.block.as_ref());
            let kept = block.filter(|block| block.is_placed()).map_or(0, Block::len);
            place.get_mut(kept..copied).into_iter().for_each(|foreign| foreign.fill(0));
        }
        received
    }

    /// Does so. Counts the bytes at the start of the room to which a block may have been copied.
    #[inline(always)]
    fn exchange_by(
        &self,
        (end, copied): (u64, &mut usize),
        (mut message, room): (Option<Outgoing<'_>>, &mut Room<'_>),
        (contracts, waits): (Find<'_>, bool),
    ) -> Result<Arrived, Failed> {
        let (kernel, from) = (self.session.kernel, (end, self.tree));
        let (channels, around) = (&kernel.channels, self.around());
        let mut brought = None;
        loop {
            let mut handoff = Handoff::begin(&kernel.scheduler);
            let into = (&mut *room, &mut brought);
            let received = match message.take() {
                Some(message) => {
                    channels.call(around, from, message, into, contracts, &mut handoff)
                }
                None => channels.receive(around, from, into, (contracts, waits), &mut handoff),
            };
            if received == Err(Failure::Empty) && waits {
                if !self.watch(end, &mut handoff) {
                    self.wait_for(end, handoff)?;
                }
                continue;
            }
            drop(handoff);
            idle::to_program(kernel);
            if let Err(Failure::Far(name)) = received {
                // That takes long, and does not look at what peers send.
                let place = room.place.as_deref_mut();
                let bytes = place.as_ref().map_or(0, |place| place.len());
                *copied = bytes.min(name.length as usize).max(*copied);
                let got = self.fetch(name, place);
                idle::to_program(kernel);
                brought = Some(got?);
                continue;
            }
            return received.map_err(Failed::Channel);
        }
    }

    /// Does the same in the shortest way, or leaves it to [`User::exchange`].
    #[inline]
    pub fn call_plain<'c>(
        &self,
        end: u64,
        call: &mut Brief<'_>,
        contracts: impl Fn(&Hash) -> Option<&'c Known>,
    ) -> Result<Called, Failed> {
        let kernel = self.session.kernel;
        let channels = &kernel.channels;
        let mut handoff = Handoff::begin(&kernel.scheduler);
        let at = (kernel.scheduler.current().token(), end);
        let by = (at.0, end, self.tree);
        let called = channels.call_plain(self.around(), by, call, contracts, &mut handoff);
        let called = match called {
            Some(called) => called,
            None => {
                self.wait_for(end, handoff)?;
                handoff = Handoff::begin(&kernel.scheduler);
                channels.take_plain(at, call, &mut handoff)
            }
        };
        drop(handoff);
        idle::to_program(kernel);
        Ok(called)
    }

    /// Waits for an end without sleep, for a short time. Returns whether something has happened to
    /// it.
    fn watch(&self, end: u64, handoff: &mut Handoff<'_>) -> bool {
        let channels = &self.session.kernel.channels;
        !(self.is_stopped)() && channels.watch(self.around(), end, handoff)
    }

    /// Waits for an end, at which the calling thread has a seat, until it is woken.
    #[inline(always)]
    fn wait_for(&self, end: u64, handoff: Handoff<'_>) -> Result<(), Failed> {
        match (self.is_stopped)() {
            true => drop(handoff),
            false => handoff.block(),
        }
        if (self.is_stopped)() {
            let kernel = self.session.kernel;
            kernel.channels.end_wait(kernel, end);
            idle::to_program(kernel);
            return Err(Failed::Stopped);
        }
        Ok(())
    }

    /// Copies a block from the kernel that has it: from the memory that it lends, into the
    /// receiver's room if there is one, or part by part. For one that is in its message, brings
    /// memory.
    fn fetch(&self, name: BlockName, room: Option<&mut [u8]>) -> Result<Brought, Failed> {
        if name.is_in_message() {
            let block = Block::zeroed(name.length as usize).ok_or(Failed::NoMemory)?;
            return Ok(Brought { name, block: Some(block) });
        }
        match self.copy(&name, 0..name.length as usize, room) {
            Ok(block) => Ok(Brought { name, block: Some(block) }),
            Err(Unbrought::Lost) => Ok(Brought { name, block: None }),
            Err(Unbrought::Failed(why)) => Err(why),
        }
    }

    /// Copies a range of a window of another kernel. `None`: that kernel died, or has lost it.
    pub fn copy_window(
        &self,
        name: &BlockName,
        range: Range<usize>,
    ) -> Result<Option<Block>, Failed> {
        let copied = self.copy(name, range, None);
        idle::to_program(self.session.kernel);
        match copied {
            Ok(block) => Ok(Some(block)),
            Err(Unbrought::Lost) => Ok(None),
            Err(Unbrought::Failed(why)) => Err(why),
        }
    }

    /// Copies a range of a block on another kernel.
    fn copy(
        &self,
        name: &BlockName,
        range: Range<usize>,
        room: Option<&mut [u8]>,
    ) -> Result<Block, Unbrought> {
        match self.read_lent(name, range.clone(), room)? {
            Some(block) => Ok(block),
            None => self.fetch_parts(name, range),
        }
    }

    /// Copies a range of a block that its kernel lends. `None`: it does not lend it.
    fn read_lent(
        &self,
        name: &BlockName,
        range: Range<usize>,
        room: Option<&mut [u8]>,
    ) -> Result<Option<Block>, Unbrought> {
        let channels = &self.session.kernel.channels;
        if name.length as usize <= LENT || !channels.has_bulk() {
            return Ok(None);
        }
        let BlockName { id, secret, .. } = *name;
        let mut at = place_in(name).unwrap_or_default();
        let (lend, is_known) = (LendBlock { id, secret }, at != LentAt::default());
        if !is_known
            && self.ask(name, Procedure::LendBlock, lend.as_bytes(), at.as_mut_bytes())? == 0
        {
            return Ok(None);
        }
        if at.length != u64::from(name.length) {
            return Err(Unbrought::Lost);
        }
        let place = at.place.checked_add(range.start as u64).ok_or(Unbrought::Lost)?;
        let part = LentAt { place, length: range.len() as u64 };
        let Some(block) = channels.read_lent(name.home.kernel, part, room) else {
            return Ok(None);
        };
        // It was there all the time if it is there now.
        let end = FetchBlock { id, secret, at: at.length };
        self.ask(name, Procedure::FetchBlock, end.as_bytes(), &mut [])?;
        Ok(Some(block))
    }

    /// Copies a range of a block by calls, a part by each.
    fn fetch_parts(&self, name: &BlockName, range: Range<usize>) -> Result<Block, Unbrought> {
        let mut block = Block::zeroed(range.len()).ok_or(Failed::NoMemory)?;
        let mut part = with_room(MAX_PAYLOAD).map_err(|_| Failed::NoMemory)?;
        part.resize(MAX_PAYLOAD, 0);
        let mut at = 0;
        while at < block.len() {
            let from = (range.start + at) as u64;
            let fetch = FetchBlock { id: name.id, secret: name.secret, at: from };
            let length = self.ask(name, Procedure::FetchBlock, fetch.as_bytes(), &mut part)?;
            // The last part may have more than the range.
            let length = length.min(block.len() - at);
            if length == 0 || !block.write(at, &part[..length]) {
                return Err(Unbrought::Lost);
            }
            at += length;
        }
        Ok(block)
    }

    /// Calls the home of a block.
    fn ask(
        &self,
        name: &BlockName,
        procedure: Procedure,
        request: &[u8],
        answer: &mut [u8],
    ) -> Result<usize, Unbrought> {
        if (self.is_stopped)() {
            return Err(Failed::Stopped.into());
        }
        let called = self.session.call(name.home.kernel, procedure, request, answer);
        called.map_err(|why| match why {
            CallFailure::Refused(Refusal::NoMemory) => Failed::NoMemory.into(),
            // It can be tried again.
            CallFailure::Silent | CallFailure::Limits => Failed::Silent.into(),
            _ => Unbrought::Lost,
        })
    }
}
