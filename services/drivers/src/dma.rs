//! The DMA engine: batches of transfers on the channels of this kernel.
//!
//! ```text
//!               1                    1 the engine says that the session is open; whatever was in
//!   opening --------> open             flight in the one before is lost, and ends as that now
//!      ^               |             2 a fault, or words that cannot be the engine's: a new
//!      +------ 2 ------+               generation
//! ```
//! A batch goes to one channel, in order, and takes a slot a transfer until its outcome is taken.
//! **A batch that has ended, however, is not touched by the engine any more**: that is why a broken
//! session ends its batches only when the next one is open. Full: [`SubmitError::Busy`], nothing is
//! changed; the caller waits for the interrupt.
//!
//! Caches are the caller's business, and so is whose memory it is; the engine refuses what is
//! neither local nor global memory.

use crate::transport::{Bus, InitError, PATIENCE};
use abi::boot::Device;
use abi::dma::{
    Control, Descriptor, Engine, MAGIC, MAX_CHANNELS, Position, RING, RING_BYTES, Registers,
    Status, control_at, descriptor_at, flag, status, status_at, unpack_status,
};
use base::id::{DomainId, Epoch};
use base::port::Words;
use core::mem::offset_of;

/// Most channels that one kernel uses; the engine may have dealt it more.
pub const CHANNELS: usize = 8;
/// Most transfers of a batch.
pub const BATCH: usize = RING;

/// One transfer. Anything can be asked for; the engine refuses what makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Physical address, or the pattern of a fill.
    pub source: u64,
    /// Physical address.
    pub destination: u64,
    /// How many.
    pub bytes: u64,
    /// One of [`flag`].
    pub flags: u64,
}

impl Transfer {
    /// Bytes at `source` go to `destination`.
    pub const fn copy(source: u64, destination: u64, bytes: u64) -> Self {
        Transfer { source, destination, bytes, flags: flag::COPY }
    }

    /// `bytes` bytes at `destination` get the eight bytes of `pattern`, again and again.
    pub const fn fill(pattern: u64, destination: u64, bytes: u64) -> Self {
        Transfer { source: pattern, destination, bytes, flags: flag::FILL }
    }
}

/// Why a batch was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// No channel is open and has room: wait for the interrupt and ask again.
    Busy,
    /// No transfer, or more than [`BATCH`].
    Count,
}

/// Why a transfer of a batch was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Outside RAM.
    Address,
    /// RAM that is neither local nor global memory.
    Protected,
    /// No bytes, or too many.
    Length,
    /// Source and destination share a byte.
    Overlap,
    /// Neither copy nor fill.
    Flags,
    /// The engine found another descriptor than we announced.
    Queue,
    /// The session broke before it ended; it may have been done, or not.
    Lost,
    /// A status that we do not know.
    Unknown(u16),
}

impl Refusal {
    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Refusal::Address => "an address outside RAM",
            Refusal::Protected => "neither local nor global memory",
            Refusal::Length => "no bytes, or more than a transfer can have",
            Refusal::Overlap => "source and destination overlap",
            Refusal::Flags => "neither a copy nor a fill",
            Refusal::Queue => "not the descriptor that was announced",
            Refusal::Lost => "the channel broke before it ended",
            Refusal::Unknown(_) => "a status that this driver does not know",
        }
    }

    const fn of(status: u16) -> Option<Refusal> {
        Some(match status {
            status::DONE => return None,
            status::ADDRESS => Refusal::Address,
            status::PROTECTED => Refusal::Protected,
            status::LENGTH => Refusal::Length,
            status::OVERLAP => Refusal::Overlap,
            status::FLAGS => Refusal::Flags,
            status::QUEUE => Refusal::Queue,
            other => Refusal::Unknown(other),
        })
    }
}

/// A batch in flight; [`Dma::finish`] takes it back.
#[must_use = "its slots stay taken until it is finished"]
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Index in our own list.
    channel: u8,
    count: u8,
    /// Place of its first transfer.
    first: u32,
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Transfers that were done.
    pub done: u32,
    /// The first that was not: its number in the batch, and why.
    pub refused: Option<(u32, Refusal)>,
    /// soc time, in ns, when the engine was through with the last one; 0 when all are lost.
    pub time: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    InFlight,
    Ended { refusal: Option<Refusal>, time: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Open,
}

/// One channel. *Places* count transfers since the driver started, over all sessions.
#[derive(Clone, Copy, Debug)]
struct Channel {
    /// The engine's number of it.
    number: usize,
    phase: Phase,
    /// The session; its index is that of the next descriptor.
    session: Position,
    /// Place of the session's first transfer.
    base: u32,
    /// Place of the next transfer that has not ended.
    ended: u32,
    /// Place of the oldest transfer whose slot is not free.
    oldest: u32,
    /// By place.
    slots: [Slot; RING],
}

impl Channel {
    fn new(number: usize, session: Position) -> Self {
        let slots = [Slot::Free; RING];
        Channel { number, phase: Phase::Opening, session, base: 0, ended: 0, oldest: 0, slots }
    }

    /// Place of the next transfer.
    fn next(&self) -> u32 {
        self.base.wrapping_add(self.session.index)
    }

    fn slot(&mut self, place: u32) -> &mut Slot {
        &mut self.slots[place as usize % RING]
    }

    fn room(&self) -> usize {
        match self.phase {
            Phase::Open => RING - self.next().wrapping_sub(self.oldest) as usize,
            Phase::Opening => 0,
        }
    }

    /// Everything in flight is lost.
    fn lose(&mut self) {
        while self.ended != self.next() {
            *self.slot(self.ended) = Slot::Ended { refusal: Some(Refusal::Lost), time: 0 };
            self.ended = self.ended.wrapping_add(1);
        }
    }

    /// The session is over; the next one is to be announced.
    fn reopen(&mut self) {
        self.base = self.next();
        let generation = self.session.generation.wrapping_add(1);
        self.session = Position { generation, ..self.session.at(0) };
        self.phase = Phase::Opening;
    }

    /// Takes a finished batch out.
    fn take(&mut self, ticket: &Ticket) -> Outcome {
        let mut outcome = Outcome { done: 0, refused: None, time: 0 };
        for number in 0..u32::from(ticket.count) {
            let slot = self.slot(ticket.first.wrapping_add(number));
            if let Slot::Ended { refusal, time } = core::mem::replace(slot, Slot::Free) {
                outcome.done += u32::from(refusal.is_none());
                outcome.time = outcome.time.max(time);
                outcome.refused = outcome.refused.or(refusal.map(|why| (number, why)));
            }
        }
        while self.oldest != self.ended && *self.slot(self.oldest) == Slot::Free {
            self.oldest = self.oldest.wrapping_add(1);
        }
        outcome
    }
}

/// The driver.
pub struct Dma {
    /// Offsets in the window.
    registers: usize,
    rings: usize,
    kick: u32,
    count: usize,
    channels: [Channel; CHANNELS],
    /// Sessions that ended by a fault, or by words that cannot be the engine's.
    pub broken: u32,
}

impl Dma {
    /// Opens the channels that belong to domain `me`, which runs under `epoch`.
    pub fn start<W: Words>(
        bus: &Bus<W>,
        device: &Device,
        me: DomainId,
        epoch: Epoch,
    ) -> Result<Self, InitError> {
        let registers = (device.registers - bus.window) as usize;
        let engine = |field| bus.words.load(registers + offset_of!(Registers, engine) + field);
        let magic = engine(offset_of!(Engine, magic));
        if magic != MAGIC {
            return Err(InitError::WrongDevice(magic));
        }
        let all = (engine(offset_of!(Engine, channels)) as usize).min(MAX_CHANNELS);
        if device.memory_size < all as u64 * RING_BYTES {
            return Err(InitError::Memory);
        }
        let first = Position { epoch: epoch.0, generation: 0, index: 0 };
        let mut dma = Dma {
            registers,
            rings: (device.memory - bus.window) as usize,
            kick: device.kick,
            count: 0,
            channels: [Channel::new(0, first); CHANNELS],
            broken: 0,
        };
        let owner = |channel| bus.words.load(registers + status_at(channel, OWNER));
        for channel in (0..all).filter(|&channel| owner(channel) == u64::from(me.0)).take(CHANNELS)
        {
            let found =
                Position::unpack(bus.words.load(registers + control_at(channel, SUBMITTED)));
            let again = found.epoch == epoch.0;
            let generation = if again { found.generation.wrapping_add(1) } else { 0 };
            dma.channels[dma.count] = Channel::new(channel, Position { generation, ..first });
            dma.announce(bus, dma.count);
            dma.count += 1;
        }
        dma.wait_until_open(bus)
    }

    fn wait_until_open<W: Words>(mut self, bus: &Bus<W>) -> Result<Self, InitError> {
        if self.count == 0 {
            return Err(InitError::NoChannel);
        }
        (bus.kick)(self.kick);
        let (mut looks, mut open) = (0, false);
        bus.attend.until(&mut || {
            looks += 1;
            self.poll(bus);
            open = self.mine().iter().all(|channel| channel.phase == Phase::Open);
            open || looks == PATIENCE
        });
        if open { Ok(self) } else { Err(InitError::Silent) }
    }

    fn mine(&self) -> &[Channel] {
        &self.channels[..self.count]
    }

    /// The engine's numbers of the channels that this driver uses.
    pub fn channels(&self) -> impl Iterator<Item = usize> {
        self.mine().iter().map(|channel| channel.number)
    }

    /// What the engine says of itself: ns of set-up, and MB (10^6 bytes) a second.
    pub fn speed<W: Words>(&self, bus: &Bus<W>) -> (u64, u64) {
        let engine = self.registers + offset_of!(Registers, engine);
        let load = |field| bus.words.load(engine + field);
        (load(offset_of!(Engine, setup_ns)), load(offset_of!(Engine, bandwidth_mbps)))
    }

    /// Starts a batch on the channel with the most room.
    pub fn submit<W: Words>(
        &mut self,
        bus: &Bus<W>,
        batch: &[Transfer],
    ) -> Result<Ticket, SubmitError> {
        if batch.is_empty() || batch.len() > BATCH {
            return Err(SubmitError::Count);
        }
        self.poll(bus);
        let room = |&index: &usize| self.channels[index].room();
        let best =
            (0..self.count).rev().max_by_key(room).filter(|index| room(index) >= batch.len());
        let index = best.ok_or(SubmitError::Busy)?;
        let first = self.channels[index].next();
        for transfer in batch {
            self.describe(bus, index, transfer);
        }
        bus.words.barrier(); // the descriptors are seen before the word that announces them
        self.announce(bus, index);
        (bus.kick)(self.kick);
        Ok(Ticket { channel: index as u8, count: batch.len() as u8, first })
    }

    fn describe<W: Words>(&mut self, bus: &Bus<W>, index: usize, transfer: &Transfer) {
        let channel = &mut self.channels[index];
        let position = channel.session;
        let store = |field, value| {
            let at = descriptor_at(channel.number, position.index, field);
            bus.words.store(self.rings + at, value);
        };
        store(offset_of!(Descriptor, source), transfer.source);
        store(offset_of!(Descriptor, destination), transfer.destination);
        store(offset_of!(Descriptor, bytes), transfer.bytes);
        store(offset_of!(Descriptor, flags), transfer.flags);
        store(offset_of!(Descriptor, position), position.pack());
        *channel.slot(channel.next()) = Slot::InFlight;
        channel.session = position.at(position.index.wrapping_add(1));
    }

    /// Writes the word that the engine looks at; ring it afterwards.
    fn announce<W: Words>(&self, bus: &Bus<W>, index: usize) {
        let Channel { number, session, .. } = self.channels[index];
        bus.words.store(self.registers + control_at(number, SUBMITTED), session.pack());
        bus.words.barrier(); // it is seen before the doorbell
    }

    /// The outcome of a batch, or its ticket back: not yet.
    pub fn finish<W: Words>(&mut self, bus: &Bus<W>, ticket: Ticket) -> Result<Outcome, Ticket> {
        self.poll(bus);
        let Some(channel) = self.channels[..self.count].get_mut(usize::from(ticket.channel)) else {
            return Err(ticket);
        };
        // Transfers of a channel end in order.
        let last = ticket.first.wrapping_add(u32::from(ticket.count) - 1);
        if *channel.slot(last) == Slot::InFlight {
            return Err(ticket);
        }
        Ok(channel.take(&ticket))
    }

    /// Announces descriptors on the first channel that were never written, as a damaged kernel
    /// would: both sides must find out, and go on.
    pub fn damage<W: Words>(&mut self, bus: &Bus<W>, count: u32) {
        let Channel { number, session, .. } = self.channels[0];
        let beyond = session.at(session.index.wrapping_add(count));
        bus.words.store(self.registers + control_at(number, SUBMITTED), beyond.pack());
        bus.words.barrier(); // it is seen before the doorbell
        (bus.kick)(self.kick);
    }

    /// Looks at what the engine has written.
    pub fn poll<W: Words>(&mut self, bus: &Bus<W>) {
        for index in 0..self.count {
            let channel = &mut self.channels[index];
            let status = |field| self.registers + status_at(channel.number, field);
            let [fault, completed] = [FAULT, COMPLETED].map(status);
            if channel.phase == Phase::Opening {
                if bus.words.load(completed) != channel.session.pack() {
                    continue;
                }
                bus.words.barrier(); // a fault that is seen now is of this session
                channel.lose();
                channel.phase = Phase::Open;
            }
            let fault = bus.words.load(fault);
            bus.words.barrier(); // what ended before the fault is seen with it
            let completed = Position::unpack(bus.words.load(completed));
            bus.words.barrier(); // statuses are read after the word that announces them
            if self.reap(bus, index, completed).is_none() || fault != 0 {
                self.broken = self.broken.saturating_add(1);
                self.channels[index].reopen();
                self.announce(bus, index);
                (bus.kick)(self.kick);
            }
        }
    }

    /// Takes over what has ended; `None` when that cannot be what the engine wrote.
    fn reap<W: Words>(&mut self, bus: &Bus<W>, index: usize, completed: Position) -> Option<()> {
        let channel = &mut self.channels[index];
        let until = channel.base.wrapping_add(completed.index);
        let fresh = until.wrapping_sub(channel.ended);
        let in_flight = channel.next().wrapping_sub(channel.ended);
        if !completed.same_session(channel.session) || fresh > in_flight {
            return None;
        }
        while channel.ended != until {
            let place = channel.ended.wrapping_sub(channel.base);
            let at = |field| self.rings + descriptor_at(channel.number, place, field);
            let word = bus.words.load(at(offset_of!(Descriptor, status)));
            let code = unpack_status(word, completed.at(place))?;
            let time = bus.words.load(at(offset_of!(Descriptor, time)));
            *channel.slot(channel.ended) = Slot::Ended { refusal: Refusal::of(code), time };
            channel.ended = channel.ended.wrapping_add(1);
        }
        Some(())
    }
}

const OWNER: usize = offset_of!(Status, owner);
const COMPLETED: usize = offset_of!(Status, completed);
const FAULT: usize = offset_of!(Status, fault);
const SUBMITTED: usize = offset_of!(Control, submitted);

#[cfg(test)]
#[path = "dma_tests.rs"]
mod tests;
