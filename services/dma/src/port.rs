//! The engine's words. Offsets are those of `abi::dma`; who may write which is said there.

use crate::transfer::Transfer;
use abi::boot::MAX_DOMAINS;
use abi::dma::{
    Control, Descriptor, Engine, MAGIC, MAX_CHANNELS, Position, RING_BYTES, Registers, Status,
    control_at, descriptor_at, status_at, wants_at,
};
use base::id::DomainId;
use core::mem::offset_of;
use share::Device;

/// Why a device is not driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOurs {
    /// Another kind of device is there.
    WrongDevice(u64),
    /// Its memory does not hold its rings.
    Memory,
    /// It has no channel for this kernel.
    NoChannel,
}

/// The engine.
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

    /// Is it an engine, with `memory` bytes of memory, and has it channels of this port's parts?
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

    /// Channels it has.
    pub fn channels(&self) -> usize {
        (self.engine(offset_of!(Engine, channels)) as usize).min(MAX_CHANNELS)
    }

    /// Those that were dealt to `domain`, a bit each.
    pub fn dealt_to(&self, domain: DomainId) -> u64 {
        let dealt = |&channel: &usize| self.owner(channel) == u64::from(domain.0);
        (0..self.channels()).filter(dealt).fold(0, |set, channel| set | 1 << channel)
    }

    /// Those that this port may use.
    pub fn ours(&self) -> impl Iterator<Item = usize> + use<> {
        let parts = self.0.parts;
        (0..self.channels()).filter(move |channel| parts >> channel & 1 != 0)
    }

    /// What the engine says of itself: ns of set-up, and MB (10^6 bytes) a second.
    pub fn speed(&self) -> (u64, u64) {
        let field = |at| self.engine(at);
        (field(offset_of!(Engine, setup_ns)), field(offset_of!(Engine, bandwidth_mbps)))
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

    /// Outcomes before `position` were read.
    pub fn take(&self, channel: usize, position: Position) {
        self.barrier(); // they were read before others may write there
        self.set_register(control_at(channel, offset_of!(Control, taken)), position.pack());
    }

    /// Writes the word that the engine looks at, behind all that it announces, and has it look.
    pub(crate) fn announce(&self, channel: usize, position: Position) {
        self.barrier(); // holder and descriptors are seen before the word that announces them
        let at = control_at(channel, offset_of!(Control, submitted));
        self.set_register(at, position.pack());
        self.barrier(); // it is seen before the doorbell
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

    /// What the engine wrote into a descriptor: status and time.
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

    /// Does anybody of the first `domains` domains wait for room? Behind [`Port::take`].
    pub fn is_wanted(&self, domains: usize) -> bool {
        self.barrier(); // who does not see what was taken has said before that it waits
        (0..domains.min(MAX_DOMAINS)).any(|domain| self.wants(domain))
    }
}
