//! The registers of a virtio device: initialization and set-up of queues.
//!
//! To write registers, the driver stores the fields and then `sequence`, and rings the device's
//! doorbell at the soc. The write is complete when `acknowledged` equals `sequence`. If the soc
//! does not respond, the result is [`InitError::Silent`].

use crate::queue::Queue;
use abi::soc::{DeviceRegisters, QueueRegisters};
use base::port::{Attend, Words};
use core::mem::offset_of;

/// Virtio status bits (virtio 1.3, 2.1).
mod status {
    pub const ACKNOWLEDGE: u64 = 1;
    pub const DRIVER: u64 = 2;
    pub const DRIVER_OK: u64 = 4;
    pub const FEATURES_OK: u64 = 8;
    pub const NEEDS_RESET: u64 = 64;
}

/// VIRTIO_F_VERSION_1. Devices without it are not supported.
pub const VERSION_1: u64 = 1 << 32;

/// How often the driver checks for the soc's acknowledgement before it gives up.
pub const PATIENCE: u32 = 50_000_000;

/// What a driver needs from its kernel.
pub struct Bus<'a, W: Words> {
    /// The uncached window.
    pub words: W,
    /// Physical address of the start of the window.
    pub window: u64,
    /// How to wait.
    pub attend: &'a dyn Attend,
    /// Rings the soc's doorbell with a vector.
    pub kick: &'a dyn Fn(u32),
}

/// Why a device could not be initialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitError {
    /// The soc did not acknowledge a write in time.
    Silent,
    /// It is a device of another kind.
    WrongDevice(u64),
    /// It lacks required features.
    Features,
    /// Its queues are smaller than ours.
    QueueTooSmall,
    /// Its memory, as given in the board file, is too small.
    Memory,
}

/// The registers of a device.
#[derive(Clone, Copy, Debug)]
pub struct Transport {
    registers: usize,
    kick: u32,
    sequence: u64,
}

impl Transport {
    fn new(device: &abi::boot::Device, window: u64) -> Self {
        let registers = (device.registers - window) as usize;
        Transport { registers, kick: device.kick, sequence: 0 }
    }

    fn load<W: Words>(&self, bus: &Bus<W>, field: usize) -> u64 {
        bus.words.load(self.registers + field)
    }

    fn store<W: Words>(&self, bus: &Bus<W>, field: usize, value: u64) {
        bus.words.store(self.registers + field, value);
    }

    /// Resets the device and accepts those of its features that are in `wanted`. Fails if its
    /// memory is smaller than `memory`. Returns the accepted features, and the offset of its memory
    /// in the window.
    pub fn open<W: Words>(
        bus: &Bus<W>,
        device: &abi::boot::Device,
        id: u64,
        memory: usize,
        wanted: u64,
    ) -> Result<(Self, u64, usize), InitError> {
        if (device.memory_size as usize) < memory {
            return Err(InitError::Memory);
        }
        let mut transport = Transport::new(device, bus.window);
        let features = transport.start(bus, id, wanted)?;
        Ok((transport, features, (device.memory - bus.window) as usize))
    }

    /// Creates queue `index` at byte offset `at` of the window and passes it to the device.
    pub fn add_queue<W: Words>(
        &mut self,
        bus: &Bus<W>,
        index: usize,
        at: usize,
    ) -> Result<Queue, InitError> {
        let queue = Queue::new(&bus.words, at);
        self.set_queue(bus, index, queue.place(bus.window))?;
        Ok(queue)
    }

    fn start<W: Words>(&mut self, bus: &Bus<W>, id: u64, wanted: u64) -> Result<u64, InitError> {
        self.sequence = self.load(bus, offset_of!(DeviceRegisters, sequence));
        self.set_status(bus, 0)?;
        let found = self.load(bus, offset_of!(DeviceRegisters, device_id));
        if found != id {
            return Err(InitError::WrongDevice(found));
        }
        self.set_status(bus, status::ACKNOWLEDGE | status::DRIVER)?;
        let offered = self.load(bus, offset_of!(DeviceRegisters, device_features));
        let accepted = offered & (wanted | VERSION_1);
        if accepted & VERSION_1 != VERSION_1 {
            return Err(InitError::Features);
        }
        self.store(bus, offset_of!(DeviceRegisters, driver_features), accepted);
        self.set_status(bus, status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK)?;
        let agreed = self.load(bus, offset_of!(DeviceRegisters, device_status));
        if agreed & status::FEATURES_OK == 0 { Err(InitError::Features) } else { Ok(accepted) }
    }

    fn set_queue<W: Words>(
        &mut self,
        bus: &Bus<W>,
        index: usize,
        place: QueueRegisters,
    ) -> Result<(), InitError> {
        if place.size > self.load(bus, offset_of!(DeviceRegisters, queue_max)) {
            return Err(InitError::QueueTooSmall);
        }
        let at = offset_of!(DeviceRegisters, queues) + index * size_of::<QueueRegisters>();
        self.store(bus, at + offset_of!(QueueRegisters, descriptors), place.descriptors);
        self.store(bus, at + offset_of!(QueueRegisters, driver), place.driver);
        self.store(bus, at + offset_of!(QueueRegisters, device), place.device);
        self.store(bus, at + offset_of!(QueueRegisters, size), place.size);
        Ok(())
    }

    /// Ends the initialization: the device may use its queues from now on.
    pub fn finish<W: Words>(&mut self, bus: &Bus<W>) -> Result<(), InitError> {
        let all = status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK | status::DRIVER_OK;
        self.set_status(bus, all)
    }

    fn set_status<W: Words>(&mut self, bus: &Bus<W>, status: u64) -> Result<(), InitError> {
        self.store(bus, offset_of!(DeviceRegisters, status), status);
        bus.words.barrier(); // the fields are visible before the sequence number
        self.sequence += 1;
        self.store(bus, offset_of!(DeviceRegisters, sequence), self.sequence);
        bus.words.barrier(); // the sequence number is visible before the doorbell
        (bus.kick)(self.kick);
        let (mut looks, mut done) = (0, false);
        bus.attend.until(&mut || {
            looks += 1;
            done = self.load(bus, offset_of!(DeviceRegisters, acknowledged)) == self.sequence;
            done || looks == PATIENCE
        });
        bus.words.barrier(); // what the soc wrote before acknowledging is read after this
        if done { Ok(()) } else { Err(InitError::Silent) }
    }

    /// Notifies the device that its queues have new requests.
    pub fn notify<W: Words>(&self, bus: &Bus<W>) {
        bus.words.barrier(); // the available index is visible before the doorbell
        (bus.kick)(self.kick);
    }

    /// Returns whether the device has failed and needs a reset.
    pub fn needs_reset<W: Words>(&self, bus: &Bus<W>) -> bool {
        self.load(bus, offset_of!(DeviceRegisters, device_status)) & status::NEEDS_RESET != 0
    }

    /// Returns a word of the configuration space.
    pub fn config<W: Words>(&self, bus: &Bus<W>, word: usize) -> u64 {
        self.load(bus, offset_of!(DeviceRegisters, config) + 8 * word)
    }
}
