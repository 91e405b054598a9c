//! virtio devices whose registers are plain memory ([`abi::soc::DeviceRegisters`]).
//!
//! Registers cannot trap on this chip: a driver writes them, increments `sequence` and rings; the
//! change has taken effect when the device has written `acknowledged`. Each device runs in its own
//! thread ([`run`]), so a slow disk does not delay other devices. A driver's error causes
//! DEVICE_NEEDS_RESET and a line in the log, nothing else.

pub mod block;
pub mod console;
pub mod cut;
pub mod net;
pub mod rng;
#[cfg(test)]
mod tests;
pub mod vsock;

use crate::fabric::{Doorbell, Fabric};
use crate::memory::{MemoryError, Ram};
use abi::soc::{DeviceRegisters, MAX_QUEUES, QueueRegisters};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::Read;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT};
use vm_memory::{GuestAddress, GuestMemoryMmap};

/// VIRTIO_F_VERSION_1.
pub const VERSION_1: u64 = 1 << virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
/// Maximum entries of a queue.
pub const QUEUE_MAX: u16 = 256;

/// Bytes of the configuration space.
const CONFIG: usize = size_of::<[u64; 32]>();

/// Device status bits (virtio 1.3, 2.1).
mod status {
    pub const DRIVER_OK: u64 = 4;
    pub const FEATURES_OK: u64 = 8;
    pub const NEEDS_RESET: u64 = 64;
}

/// An error of the driver.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A queue is placed at an invalid address.
    #[error("queue {0} is not valid")]
    Queue(usize),
    /// A ring or a chain is corrupt.
    #[error("an invalid descriptor: {0}")]
    Chain(#[from] virtio_queue::Error),
    /// A receive buffer is too small for a frame.
    #[error("a receive buffer of {0} bytes")]
    Small(usize),
    /// A request has no room for its status.
    #[error("a request without room for its status")]
    NoStatus,
    /// Buffers are outside RAM.
    #[error("a buffer could not be used: {0}")]
    Buffer(#[from] std::io::Error),
    /// Registers are outside RAM: the configuration is wrong.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// A chain taken from a queue.
pub type Chain<'m> = DescriptorChain<&'m GuestMemoryMmap>;

/// Reads as much of a chain as `bytes` has room for. Returns the number of bytes.
fn read_chain(chain: Chain<'_>, ram: &Ram, bytes: &mut [u8]) -> Result<usize, Fault> {
    let mut reader = chain.reader(ram.guest())?;
    let mut length = 0;
    while length < bytes.len() {
        match reader.read(&mut bytes[length..])? {
            0 => break,
            n => length += n,
        }
    }
    Ok(length)
}

/// The bytes moved for a chain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Bytes read from the device-readable buffers, from the first on.
    pub read: usize,
    /// Bytes written to the device-writable buffers, from the first on.
    pub written: usize,
    /// Whether the last writable byte was written too: it is the status.
    pub status: bool,
}

/// The specific part of a device.
pub trait Model: Send {
    /// Returns the virtio device id.
    fn id(&self) -> u64;
    /// Returns the features beyond [`VERSION_1`].
    fn features(&self) -> u64 {
        0
    }
    /// Returns the configuration space; what follows these bytes is 0.
    fn config(&self) -> Vec<u8> {
        Vec::new()
    }
    /// Returns whether the configuration space has changed since the last call.
    fn config_changed(&mut self) -> bool {
        false
    }
    /// Returns whether the device can use a buffer of queue `queue` now.
    fn wants(&self, _queue: usize) -> bool {
        true
    }
    /// Returns whether queue `queue` carries data from outside the board.
    fn fills(&self, _queue: usize) -> bool {
        false
    }
    /// Carries out one chain.
    fn serve(&mut self, queue: usize, chain: Chain<'_>, ram: &Ram) -> Result<Moved, Fault>;
    /// Returns what else to wait for.
    fn waits_for(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        Vec::new()
    }
    /// Handles those descriptors that are ready; must not block.
    fn ready(&mut self) {}
    /// Returns when the device must act unasked, in ns of the board; only in the lab.
    fn next_event(&mut self) -> Option<u64> {
        None
    }
    /// Returns whether the device carries out what is in this queue before a reset.
    fn empties(&self, _queue: usize) -> bool {
        false
    }
    /// Resets the device. `taken` is the register of that name.
    fn reset(&mut self, _taken: u64) {}
    /// Called at the end of the board.
    fn finish(&mut self) {}
}

/// A device: its registers, its queues and its model.
pub struct Device<M> {
    /// Name for the log.
    name: String,
    ram: Ram,
    fabric: Fabric,
    registers: u64,
    vector: usize,
    kick: usize,
    sequence: u64,
    interrupts: u64,
    /// Empty unless the driver has set DRIVER_OK.
    queues: Vec<Option<Queue>>,
    /// The driver has made an error since the last reset.
    broken: bool,
    model: M,
}

impl<M: Model> Device<M> {
    /// Creates a device and initializes its registers.
    pub fn new(
        config: &crate::config::Device,
        ram: Ram,
        fabric: Fabric,
        model: M,
    ) -> Result<Self, MemoryError> {
        let device = Device {
            name: config.name.clone(),
            ram,
            fabric,
            registers: config.registers,
            vector: usize::from(config.vector),
            kick: usize::from(config.kick),
            sequence: 0,
            interrupts: 0,
            queues: Vec::new(),
            broken: false,
            model,
        };
        device.store(offset_of!(DeviceRegisters, device_id), device.model.id())?;
        device.store(offset_of!(DeviceRegisters, device_features), device.offered())?;
        device.store(offset_of!(DeviceRegisters, queue_max), u64::from(QUEUE_MAX))?;
        device.store_config()?;
        Ok(device)
    }

    fn store_config(&self) -> Result<(), MemoryError> {
        let mut bytes = [0; CONFIG];
        bytes.iter_mut().zip(self.model.config()).for_each(|(to, from)| *to = from);
        let (words, _) = bytes.as_chunks();
        words.iter().enumerate().try_for_each(|(index, word)| {
            let field = offset_of!(DeviceRegisters, config) + index * size_of::<u64>();
            self.store(field, u64::from_le_bytes(*word))
        })
    }

    fn offered(&self) -> u64 {
        VERSION_1 | self.model.features()
    }

    fn load(&self, field: usize) -> Result<u64, MemoryError> {
        self.ram.load(self.registers + field as u64)
    }

    fn store(&self, field: usize, value: u64) -> Result<(), MemoryError> {
        self.ram.store(self.registers + field as u64, value)
    }

    /// Handles register changes, then everything in the queues.
    pub fn turn(&mut self) {
        self.model.ready();
        let result = self.registers_changed().and_then(|()| self.serve(|_, _| true));
        self.tell(result);
    }

    /// Handles only input from outside the board. The driver's own requests wait for its doorbell:
    /// in the lab they happen at the time of the ring, not when a key happens to be typed.
    fn turn_from_outside(&mut self) {
        self.model.ready();
        let result = self.serve(M::fills);
        self.tell(result);
    }

    /// Serves these queues. Returns whether the driver is interrupted: a buffer was used, or the
    /// configuration has changed.
    fn serve(&mut self, which: impl Fn(&M, usize) -> bool) -> Result<bool, Fault> {
        let used = self.serve_queues(which)?;
        if !self.model.config_changed() {
            return Ok(used);
        }
        self.store_config()?;
        let field = offset_of!(DeviceRegisters, generation);
        self.store(field, self.load(field)?.wrapping_add(1))?;
        // Without queues there is no driver yet.
        Ok(used || !self.queues.is_empty())
    }

    fn tell(&mut self, result: Result<bool, Fault>) {
        match result {
            Ok(true) => self.interrupt(),
            Ok(false) => {}
            Err(fault) => self.needs_reset(&fault),
        }
    }

    fn registers_changed(&mut self) -> Result<(), Fault> {
        let sequence = self.load(offset_of!(DeviceRegisters, sequence))?;
        if sequence == self.sequence {
            return Ok(());
        }
        fence(Ordering::SeqCst); // the fields are read after the sequence number
        self.sequence = sequence;
        let applied = self.apply();
        fence(Ordering::SeqCst); // our stores are visible before the acknowledgement
        self.store(offset_of!(DeviceRegisters, acknowledged), sequence)?;
        applied
    }

    fn apply(&mut self) -> Result<(), Fault> {
        let mut status = self.load(offset_of!(DeviceRegisters, status))?;
        if status == 0 {
            // A driver that has died may have left nonsense.
            let _ = self.serve_queues(M::empties);
            self.queues.clear();
            self.broken = false;
            self.model.reset(self.load(offset_of!(DeviceRegisters, taken))?);
        }
        let accepted = self.load(offset_of!(DeviceRegisters, driver_features))?;
        if accepted & VERSION_1 == 0 || accepted & !self.offered() != 0 {
            status &= !(status::FEATURES_OK | status::DRIVER_OK);
        }
        if self.broken {
            status |= status::NEEDS_RESET;
        }
        let ok = status::FEATURES_OK | status::DRIVER_OK;
        if status & ok == ok && self.queues.is_empty() && !self.broken {
            for index in 0..MAX_QUEUES {
                let queue = self.queue(index)?;
                self.queues.push(queue);
            }
        }
        Ok(self.store(offset_of!(DeviceRegisters, device_status), status)?)
    }

    /// In the lab: lets the board's clock ring the device when it must act unasked.
    pub fn set_alarm(&mut self) {
        self.fabric.gate().alarm(self.kick, self.model.next_event());
    }

    fn queue(&self, index: usize) -> Result<Option<Queue>, Fault> {
        let at = offset_of!(DeviceRegisters, queues) + index * size_of::<QueueRegisters>();
        let size = self.load(at + offset_of!(QueueRegisters, size))?;
        if size == 0 {
            return Ok(None);
        }
        let place = |field| self.load(at + field).map(GuestAddress);
        let mut queue = Queue::new(QUEUE_MAX)?;
        queue.try_set_size(u16::try_from(size).map_err(|_| Fault::Queue(index))?)?;
        queue.try_set_desc_table_address(place(offset_of!(QueueRegisters, descriptors))?)?;
        queue.try_set_avail_ring_address(place(offset_of!(QueueRegisters, driver))?)?;
        queue.try_set_used_ring_address(place(offset_of!(QueueRegisters, device))?)?;
        queue.set_ready(true);
        if queue.is_valid(self.ram.guest()) { Ok(Some(queue)) } else { Err(Fault::Queue(index)) }
    }

    /// Serves queues until all are idle, because one queue may give another one work. Returns
    /// whether a buffer was used.
    fn serve_queues(&mut self, which: impl Fn(&M, usize) -> bool) -> Result<bool, Fault> {
        let mut used = false;
        while self.serve_each(&which)? {
            used = true;
        }
        Ok(used)
    }

    fn serve_each(&mut self, which: &impl Fn(&M, usize) -> bool) -> Result<bool, Fault> {
        let Device { queues, model, ram, .. } = self;
        let memory = ram.guest();
        let mut used = false;
        for (index, queue) in queues.iter_mut().enumerate() {
            let Some(queue) = queue else { continue };
            while which(model, index) && model.wants(index) {
                let Some(chain) = queue.iter(memory)?.next() else { break };
                let head = chain.head_index();
                let moved = model.serve(index, chain.clone(), ram)?;
                see(ram, queue, chain, moved);
                let written = moved.written + usize::from(moved.status);
                queue.add_used(memory, head, written as u32)?;
                used = true;
            }
        }
        Ok(used)
    }

    fn interrupt(&mut self) {
        self.interrupts += 1;
        if let Err(e) = self.store(offset_of!(DeviceRegisters, interrupts), self.interrupts) {
            log::error!("Device {}: {e}.", self.name);
        }
        fence(Ordering::SeqCst); // used rings and count are visible before the interrupt
        self.fabric.ring_all(self.vector);
    }

    fn needs_reset(&mut self, fault: &Fault) {
        log::error!("Device {}: {fault}; it needs a reset by its driver.", self.name);
        self.queues.clear();
        self.broken = true;
        let field = offset_of!(DeviceRegisters, device_status);
        let status = self.load(field).unwrap_or(0) | status::NEEDS_RESET;
        if let Err(e) = self.store(field, status) {
            log::error!("Device {}: {e}.", self.name);
        }
        self.interrupt();
    }
}

/// Reports the accesses for a queue and one of its chains to the sanitizer, before the driver is
/// interrupted. Only the bytes that were moved count, not the sizes of the buffers.
fn see(ram: &Ram, queue: &Queue, chain: Chain<'_>, moved: Moved) {
    let (eye, size) = (ram.eye(), u64::from(queue.size()));
    if !eye.is_open() {
        return;
    }
    // Sizes of the rings: virtio 1.3, 2.7.
    eye.reads(queue.desc_table(), 16 * size);
    eye.reads(queue.avail_ring(), 6 + 2 * size);
    eye.writes(queue.used_ring(), 6 + 8 * size);
    let (mut read, mut written, mut last) = (moved.read as u64, moved.written as u64, None);
    for part in chain.filter(|part| part.len() != 0) {
        let (at, bytes) = (part.addr().0, u64::from(part.len()));
        if part.is_write_only() {
            eye.writes(at, bytes.min(written));
            written -= bytes.min(written);
            last = at.checked_add(bytes - 1);
        } else {
            eye.reads(at, bytes.min(read));
            read -= bytes.min(read);
        }
    }
    if let Some(last) = last.filter(|_| moved.status) {
        eye.writes(last, 1);
    }
}

/// A device's thread; returns when `stop` is rung.
pub fn run<M: Model>(mut device: Device<M>, stop: &Arc<Doorbell>) {
    let fabric = device.fabric.clone();
    let Some(kick) = fabric.own(device.kick) else { return };
    loop {
        let mut waits = vec![PollFd::new(kick, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        let more = device.model.waits_for();
        waits.extend(more.into_iter().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        if let Err(e) = poll(&mut waits, None)
            && e != rustix::io::Errno::INTR
        {
            return log::error!("Device {} cannot wait any more: {e}.", device.name);
        }
        let stops = !waits[1].revents().is_empty();
        drop(waits);
        if stops {
            // What a driver has queued before the end, such as its last words.
            if kick.take() {
                fabric.gate().visit(|| device.turn());
            }
            return device.model.finish();
        }
        fabric.gate().visit(|| {
            // Cleared before looking: a later ring causes another turn.
            if kick.take() {
                device.turn()
            } else {
                device.turn_from_outside()
            }
            device.set_alarm();
        });
        fabric.gate().settled(device.kick);
    }
}
