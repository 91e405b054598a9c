//! The engine: connects rings and registers in memory with the arbiter. The caller passes the time.
//!
//! Words written by domains are loaded once and checked; words written by the engine are never read
//! back. So an invalid input, accidental or malicious, affects only its own channel: an invalid
//! descriptor ends with its status, an inconsistent ring ends the session with a fault in the
//! channel's status line.
//!
//! Data moves at the end of a transfer: until then the destination is unchanged, and a dropped
//! transfer never changes it.

use super::arbiter::{Arbiter, Ended, Event, Timing};
use super::limits::{Found, Limits, Transfer};
use crate::config;
use crate::fabric::Fabric;
use crate::memory::{MemoryError, Ram};
use abi::dma::{
    Control, Descriptor, MAGIC, Position, RING, Registers, Status, control_at, descriptor_at,
    pack_status, status, status_at,
};
use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};

/// A domain as the holder of channels.
#[derive(Clone, Debug)]
pub struct Holder {
    /// Name for the log.
    pub name: String,
    /// Slot of its doorbells.
    pub slot: usize,
    /// Its epoch, while it has power.
    pub epoch: Option<u16>,
    /// It has unread results since its last interrupt.
    news: bool,
}

impl Holder {
    /// Creates a holder without power.
    pub fn new(name: &str, slot: usize) -> Holder {
        Holder { name: name.to_string(), slot, epoch: None, news: false }
    }
}

struct Channel {
    /// Index of the domain that the session belongs to, or that the channel was assigned to.
    holder: usize,
    /// The open session; its index counts the descriptors taken.
    session: Option<Position>,
    /// Number of descriptors of the session that have ended.
    completed: u32,
    /// Descriptors taken and not ended: the transfer, or the status that rejects it.
    queued: VecDeque<Result<Transfer, u16>>,
    /// The session has ended with a fault.
    broken: bool,
}

/// The engine.
pub struct Engine {
    name: String,
    ram: Ram,
    fabric: Fabric,
    registers: u64,
    rings: u64,
    vector: usize,
    limits: Limits,
    holders: Vec<Holder>,
    /// The domain whose channels have a weight, and that weight.
    home: (usize, u64),
    arbiter: Arbiter,
    channels: Vec<Channel>,
    interrupts: u64,
}

impl Engine {
    /// Creates the engine and initializes its registers. Channels are assigned to the domains in
    /// turn, beginning with the engine's home.
    pub fn new(
        device: &config::Device,
        dma: &config::Dma,
        holders: Vec<Holder>,
        limits: Limits,
        ram: Ram,
        fabric: Fabric,
    ) -> Result<Engine, MemoryError> {
        let timing = Timing { setup_ns: dma.setup_ns, bandwidth_mbps: dma.bandwidth_mbps };
        let count = usize::from(dma.channels);
        let domains = holders.len();
        let channel = |index| Channel {
            holder: (usize::from(dma.home) + index) % domains,
            session: None,
            completed: 0,
            queued: VecDeque::new(),
            broken: false,
        };
        let engine = Engine {
            name: device.name.clone(),
            ram,
            fabric,
            registers: device.registers,
            rings: dma.rings,
            vector: usize::from(device.vector),
            limits,
            holders,
            home: (usize::from(dma.home), dma.home_weight),
            arbiter: Arbiter::new(timing, count),
            channels: (0..count).map(channel).collect(),
            interrupts: 0,
        };
        engine.describe(dma)?;
        Ok(engine)
    }

    fn describe(&self, dma: &config::Dma) -> Result<(), MemoryError> {
        for (index, channel) in self.channels.iter().enumerate() {
            self.tell(index, offset_of!(Status, owner), channel.holder as u64)?;
        }
        let word = |field: usize, value| self.store(offset_of!(Registers, engine) + field, value);
        word(offset_of!(abi::dma::Engine, channels), u64::from(dma.channels))?;
        word(offset_of!(abi::dma::Engine, setup_ns), dma.setup_ns)?;
        word(offset_of!(abi::dma::Engine, home_first_ns), dma.home_first_ns)?;
        word(offset_of!(abi::dma::Engine, bandwidth_mbps), dma.bandwidth_mbps)?;
        word(offset_of!(abi::dma::Engine, magic), MAGIC)
    }

    fn store(&self, field: usize, value: u64) -> Result<(), MemoryError> {
        self.ram.store(self.registers + field as u64, value)
    }

    fn tell(&self, channel: usize, field: usize, value: u64) -> Result<(), MemoryError> {
        self.store(status_at(channel, field), value)
    }

    fn ring_word(&self, channel: usize, index: u32, field: usize) -> u64 {
        self.rings + descriptor_at(channel, index, field) as u64
    }

    /// Ends transfers that are due at `now` and takes new descriptors. Returns when the next turn
    /// is due.
    pub fn turn(&mut self, now: u64) -> Result<Option<u64>, MemoryError> {
        self.step(now, Event::Time)?;
        (0..self.channels.len()).try_for_each(|channel| self.look(channel, now))?;
        let next = self.step(now, Event::Time)?;
        self.interrupt()?;
        Ok(next)
    }

    /// Steps the arbiter, and handles the transfers that have ended.
    fn step(&mut self, now: u64, event: Event) -> Result<Option<u64>, MemoryError> {
        let (ended, next) = self.arbiter.step(now, event);
        ended.into_iter().try_for_each(|ended| self.end(ended))?;
        Ok(next)
    }

    /// Reads what a channel's driver has written.
    fn look(&mut self, index: usize, now: u64) -> Result<(), MemoryError> {
        let control = |field| self.ram.load(self.registers + control_at(index, field) as u64);
        let submitted = Position::unpack(control(offset_of!(Control, submitted))?);
        fence(Ordering::SeqCst); // holder, descriptors: read after the word publishing them
        let channel = &self.channels[index];
        let open = channel.session.is_some_and(|session| session.same_session(submitted));
        let holder = match open {
            true => channel.holder,
            false => control(offset_of!(Control, holder))? as usize,
        };
        if self.holders.get(holder).is_none_or(|holder| holder.epoch != Some(submitted.epoch)) {
            return Ok(());
        }
        if !open {
            self.open(index, holder, submitted, now)?;
        }
        let channel = &self.channels[index];
        let fresh = channel.session.map_or(0, |at| submitted.index.wrapping_sub(at.index)) as usize;
        if channel.broken || fresh == 0 {
            return Ok(());
        }
        if fresh > RING - channel.queued.len() {
            return self.fault(index, now);
        }
        (0..fresh).try_for_each(|_| self.take(index, now))
    }

    /// Opens a new session; the previous one is dropped.
    fn open(
        &mut self,
        index: usize,
        holder: usize,
        position: Position,
        now: u64,
    ) -> Result<(), MemoryError> {
        self.drop_queued(index, now, "the channel was reopened")?;
        let (home, weight) = self.home;
        self.arbiter.set_weight(index, if holder == home { weight } else { 1 });
        let channel = &mut self.channels[index];
        let before = core::mem::replace(&mut channel.holder, holder);
        channel.session = Some(position.at(0));
        channel.completed = 0;
        channel.broken = false;
        self.tell(index, offset_of!(Status, fault), 0)?;
        fence(Ordering::SeqCst); // the old fault is cleared before the session is visible
        self.tell(index, offset_of!(Status, completed), position.at(0).pack())?;
        // The holder of the previous session is interrupted, so that its waiters see the end; an
        // empty session has no waiters.
        self.holders[before].news = true;
        self.holders[holder].news |= position.index == 0;
        Ok(())
    }

    fn fault(&mut self, index: usize, now: u64) -> Result<(), MemoryError> {
        self.drop_queued(index, now, "the ring is damaged")?;
        let channel = &mut self.channels[index];
        channel.broken = true;
        let holder = &mut self.holders[channel.holder];
        holder.news = true;
        log::error!("Device {}: {} damaged the ring of channel {index}.", self.name, holder.name);
        self.tell(index, offset_of!(Status, fault), u64::from(status::QUEUE))?;
        Ok(())
    }

    /// Takes the next descriptor of the open session.
    fn take(&mut self, index: usize, now: u64) -> Result<(), MemoryError> {
        let Some(session) = self.channels[index].session else { return Ok(()) };
        let word = |field| self.ram.load(self.ring_word(index, session.index, field));
        let found = Found {
            source: word(offset_of!(Descriptor, source))?,
            destination: word(offset_of!(Descriptor, destination))?,
            bytes: word(offset_of!(Descriptor, bytes))?,
            flags: word(offset_of!(Descriptor, flags))?,
            position: word(offset_of!(Descriptor, position))?,
        };
        let transfer = self.limits.check(&found, session, self.channels[index].holder);
        let channel = &mut self.channels[index];
        channel.session = Some(session.at(session.index.wrapping_add(1)));
        channel.queued.push_back(transfer);
        self.step(now, Event::Submit(index, transfer.map_or(0, Transfer::bytes)))?;
        Ok(())
    }

    /// Ends the oldest transfer of a channel: writes the data, the status, then the word that
    /// publishes them.
    fn end(&mut self, Ended { channel: index, at }: Ended) -> Result<(), MemoryError> {
        let channel = &mut self.channels[index];
        // It was dropped, which the arbiter did not know yet.
        let (Some(transfer), Some(session)) = (channel.queued.pop_front(), channel.session) else {
            return Ok(());
        };
        let (place, holder) = (channel.completed, channel.holder);
        channel.completed = place.wrapping_add(1);
        let status = match transfer {
            Ok(Transfer::Copy(from, to, bytes)) => self.ram.copy(from, to, bytes),
            Ok(Transfer::Fill(word, to, bytes)) => self.ram.fill(word, to, bytes),
            Err(_) => Ok(()),
        }
        .map_or(status::ADDRESS, |()| transfer.err().unwrap_or(status::DONE));
        self.ram.store(self.ring_word(index, place, offset_of!(Descriptor, time)), at)?;
        let word = self.ring_word(index, place, offset_of!(Descriptor, status));
        self.ram.store(word, pack_status(session.at(place), status))?;
        fence(Ordering::SeqCst); // data and status are visible before the word that publishes them
        let completed = session.at(place.wrapping_add(1)).pack();
        self.tell(index, offset_of!(Status, completed), completed)?;
        self.holders[holder].news = true;
        Ok(())
    }

    fn drop_queued(&mut self, index: usize, now: u64, why: &str) -> Result<(), MemoryError> {
        let channel = &mut self.channels[index];
        let count = std::mem::take(&mut channel.queued).len();
        if count > 0 {
            let (name, holder) = (&self.name, &self.holders[channel.holder].name);
            log::warn!(
                "Device {name}: transfers of {holder} dropped from channel {index}: {count}; {why}."
            );
        }
        self.step(now, Event::Drop(index))?;
        Ok(())
    }

    /// Interrupts each domain that has news about its own channels, and no other.
    fn interrupt(&mut self) -> Result<(), MemoryError> {
        let told = self.holders.iter_mut();
        let slots = told.filter_map(|h| core::mem::take(&mut h.news).then_some(h.slot));
        let slots = slots.collect::<Vec<_>>();
        if slots.is_empty() {
            return Ok(());
        }
        self.interrupts += 1;
        let field = offset_of!(Registers, engine) + offset_of!(abi::dma::Engine, interrupts);
        self.store(field, self.interrupts)?;
        fence(Ordering::SeqCst); // all results are visible before the interrupt
        slots.into_iter().for_each(|slot| self.fabric.ring(slot, self.vector));
        Ok(())
    }

    /// Records that a domain runs under `epoch` from now on.
    pub fn powered(&mut self, domain: usize, epoch: u16) {
        self.holders[domain].epoch = Some(epoch);
    }

    /// Fences a domain: none of its transfers is done any more, and its words are as after a reset.
    pub fn fence(&mut self, domain: usize, now: u64) -> Result<(), MemoryError> {
        self.holders[domain].epoch = None;
        for index in 0..self.channels.len() {
            let held = control_at(index, offset_of!(Control, holder)) as u64;
            let named = self.ram.load(self.registers + held)? == domain as u64;
            // Only what its own words submitted, seen or not; not what a later holder has
            // submitted.
            if named {
                self.store(control_at(index, offset_of!(Control, submitted)), 0)?;
            }
            if self.channels[index].holder == domain {
                self.drop_queued(index, now, "it was fenced")?;
                self.channels[index].session = None;
            }
        }
        self.interrupt()
    }
}
