//! Access to the engine's words. `abi::dma` defines the offsets and the writer of each word.

use crate::transfer::Transfer;
use abi::boot::MAX_DOMAINS;
use abi::dma::{
    Control, Descriptor, Engine, MAGIC, MAX_CHANNELS, Position, RING_BYTES, Registers, Status,
    control_at, descriptor_at, status_at, wants_at,
};
use base::id::DomainId;
use core::mem::offset_of;
use share::Device;

/// Why a device cannot be driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOurs {
    /// It is a device of another kind.
    WrongDevice(u64),
    /// Its memory is too small for its rings.
    Memory,
    /// It has no channel for this kernel.
    NoChannel,
}

/// The engine's words, as one kernel reaches them.
#[derive(Clone, Copy)]
pub struct Port<'a>(pub Device<'a>);

impl Port<'_> {
    fn register(&self, at: usize) -> u64 {
        self.0.words.load(self.0.registers + at)
    }

    fn set_register(&self, at: usize, value: u64) {
        self.0.words.store(self.0.registers + at, value);
    }

    fn engine(&self, field: usize) -> u64 {
        self.register(offset_of!(Registers, engine) + field)
    }

    /// Checks that the device is an engine whose `memory` bytes hold all rings, and that it has a
    /// channel for this kernel.
    pub fn check(&self, memory: u64) -> Result<(), NotOurs> {
        let magic = self.engine(offset_of!(Engine, magic));
        if magic != MAGIC {
            return Err(NotOurs::WrongDevice(magic));
        }
        if memory < self.channels() as u64 * RING_BYTES {
            return Err(NotOurs::Memory);
        }
        if self.ours().next().is_none() { Err(NotOurs::NoChannel) } else { Ok(()) }
    }

    /// Returns the number of channels.
    pub fn channels(&self) -> usize {
        (self.engine(offset_of!(Engine, channels)) as usize).min(MAX_CHANNELS)
    }

    /// Returns a bit mask of the channels assigned to `domain`.
    pub fn dealt_to(&self, domain: DomainId) -> u64 {
        let dealt = |&channel: &usize| self.owner(channel) == u64::from(domain.0);
        (0..self.channels()).filter(dealt).fold(0, |set, channel| set | 1 << channel)
    }

    /// Iterates over the channels that this instance may use.
    pub fn ours(&self) -> impl Iterator<Item = usize> + use<> {
        let parts = self.0.parts;
        (0..self.channels()).filter(move |channel| parts >> channel & 1 != 0)
    }

    /// Returns the engine's set-up time in ns, and its bandwidth in MB (10^6 bytes) per second.
    pub fn speed(&self) -> (u64, u64) {
        let field = |at| self.engine(at);
        (field(offset_of!(Engine, setup_ns)), field(offset_of!(Engine, bandwidth_mbps)))
    }

    /// Returns how long transfers of `domain` wait while the engine's home makes small ones, in ns;
    /// 0 for the home.
    pub fn home_first_ns(&self, domain: DomainId) -> u64 {
        if self.owner(0) == u64::from(domain.0) {
            return 0;
        }
        self.engine(offset_of!(Engine, home_first_ns))
    }

    /// Returns how many transfers of the engine's home have ended in its current sessions, on the
    /// channels assigned to it. Wraps.
    pub fn ended_at_home(&self) -> u32 {
        let home = self.owner(0);
        let its = |&channel: &usize| self.owner(channel) == home && self.holder(channel) == home;
        let ended = (0..self.channels()).filter(its).map(|channel| self.completed(channel).index);
        ended.fold(0, u32::wrapping_add)
    }

    fn status(&self, channel: usize, field: usize) -> u64 {
        self.register(status_at(channel, field))
    }

    fn control(&self, channel: usize, field: usize) -> u64 {
        self.register(control_at(channel, field))
    }

    pub(crate) fn owner(&self, channel: usize) -> u64 {
        self.status(channel, offset_of!(Status, owner))
    }

    pub(crate) fn completed(&self, channel: usize) -> Position {
        Position::unpack(self.status(channel, offset_of!(Status, completed)))
    }

    pub(crate) fn fault(&self, channel: usize) -> u64 {
        self.status(channel, offset_of!(Status, fault))
    }

    pub(crate) fn submitted(&self, channel: usize) -> Position {
        Position::unpack(self.control(channel, offset_of!(Control, submitted)))
    }

    pub(crate) fn holder(&self, channel: usize) -> u64 {
        self.control(channel, offset_of!(Control, holder))
    }

    pub(crate) fn taken(&self, channel: usize) -> Position {
        Position::unpack(self.control(channel, offset_of!(Control, taken)))
    }

    pub(crate) fn hold(&self, channel: usize, holder: DomainId) {
        self.set_register(control_at(channel, offset_of!(Control, holder)), holder.0.into());
    }

    /// Marks the outcomes before `position` as read, which frees their descriptors.
    pub fn take(&self, channel: usize, position: Position) {
        self.barrier(); // the outcomes are read before another kernel may overwrite them
        self.set_register(control_at(channel, offset_of!(Control, taken)), position.pack());
    }

    /// Announces descriptors to the engine, after all stores that it must see, and rings its
    /// doorbell.
    pub(crate) fn announce(&self, channel: usize, position: Position) {
        self.barrier(); // holder and descriptors are visible before the word that announces them
        let at = control_at(channel, offset_of!(Control, submitted));
        self.set_register(at, position.pack());
        self.barrier(); // it is visible before the doorbell
        (self.0.ring)(self.0.kick);
    }

    pub(crate) fn describe(&self, channel: usize, position: Position, transfer: &Transfer) {
        let store = |field, value| {
            let at = descriptor_at(channel, position.index, field);
            self.0.words.store(self.0.memory + at, value);
        };
        store(offset_of!(Descriptor, source), transfer.source);
        store(offset_of!(Descriptor, destination), transfer.destination);
        store(offset_of!(Descriptor, bytes), transfer.bytes);
        store(offset_of!(Descriptor, flags), transfer.flags);
        store(offset_of!(Descriptor, position), position.pack());
    }

    /// Returns the status and time that the engine wrote to a descriptor.
    pub(crate) fn ended(&self, channel: usize, index: u32) -> (u64, u64) {
        let load = |field| self.0.words.load(self.0.memory + descriptor_at(channel, index, field));
        (load(offset_of!(Descriptor, status)), load(offset_of!(Descriptor, time)))
    }

    pub(crate) fn barrier(&self) {
        self.0.words.barrier();
    }

    pub(crate) fn wants(&self, domain: usize) -> bool {
        self.register(wants_at(domain)) != 0
    }

    pub(crate) fn want(&self, domain: usize, wants: bool) {
        self.set_register(wants_at(domain), wants.into());
    }

    /// Returns whether a caller of the first `domains` domains waits for descriptors. To be called
    /// after [`Port::take`].
    pub fn is_wanted(&self, domains: usize) -> bool {
        self.barrier(); // a waiter that misses what we took has set `wants` before, so we see it
        (0..domains.min(MAX_DOMAINS)).any(|domain| self.wants(domain))
    }
}
