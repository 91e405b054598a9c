//! The DMA engine: its address, and the threads that wait for it. Its driver is a service
//! (`dma::Dma`); `transfers` in `kernel/services` is its client.

use super::Devices;
use abi::boot::Device as Found;
use arch::lock::{Lock, Once};
use dma::port::{NotOurs, Port};
use dma::watch::Rest;
use dma::{Books, Seen, Ticket};
use kernel_node::Node;
use kernel_sched::WaitQueue;
use share::{Device, Mode};

/// Offsets of the engine's registers and memory in the uncached window, its doorbell vector, and
/// the bit set of channels that this kernel may use.
struct Place {
    registers: usize,
    memory: usize,
    memory_size: usize,
    kick: u32,
    parts: u64,
}

/// The engine, and the threads that wait for it.
pub struct Slot {
    pub vector: u32,
    pub waiting: WaitQueue,
    place: Once<Place>,
    books: Lock<Books>,
}

impl Slot {
    pub(super) fn new() -> Slot {
        Slot {
            vector: u32::MAX,
            waiting: WaitQueue::new(),
            place: Once::new(),
            books: Lock::new(kernel_node::ranks::DEVICE, Books::new()),
        }
    }

    /// Finds the engine that the board describes, and checks it. In a mode that does not share the
    /// driver, each domain has channels of its own.
    pub fn start(&self, node: &'static Node, found: &Found, mode: Mode) -> Result<(), NotOurs> {
        let offset = |at: u64| (at - node.blob.window.base) as usize;
        let (registers, memory) = (offset(found.registers), offset(found.memory));
        let memory_size = found.memory_size as usize;
        let mut place = Place { registers, memory, memory_size, kick: found.kick, parts: u64::MAX };
        let port = Port(place.device(node));
        let parts = match mode {
            Mode::Private | Mode::Independent => port.dealt_to(node.me),
            Mode::Shadowed | Mode::Partitioned | Mode::Delegated(_) => u64::MAX,
        };
        place.parts = parts;
        Port(place.device(node)).check(found.memory_size)?;
        let _ = self.place.set(place);
        Ok(())
    }

    /// Returns the bit of the engine's vector; 0 without the engine.
    pub(super) fn bit(&self) -> u64 {
        if self.is_there() { 1 << self.vector } else { 0 }
    }

    /// Returns whether the engine was found.
    pub fn is_there(&self) -> bool {
        self.place.get().is_some()
    }
}

impl Place {
    fn device(&self, node: &'static Node) -> Device<'static> {
        let Place { registers, memory, memory_size, kick, parts } = *self;
        let (words, window, ring) = (&node.window, node.blob.window.base, &*node.kick);
        Device { words, window, registers, memory, memory_size, parts, ring, kick }
    }
}

impl Devices {
    /// Returns the engine, for a step of the driver.
    pub fn dma_device(&self, node: &'static Node) -> Option<Device<'static>> {
        Some(self.dma.place.get()?.device(node))
    }
}

impl Devices {
    /// Returns the engine's port; `None` if the board has no engine, or it did not start.
    pub fn dma_port(&self, node: &'static Node) -> Option<Port<'static>> {
        self.dma_device(node).map(Port)
    }

    /// Waits until the engine is done with all batches that this kernel has in progress now.
    pub fn dma_settle(&self, node: &Node, port: &Port<'static>) {
        let mut rest = Rest::of(port, node.me);
        node.scheduler.wait(&self.dma.waiting, || rest.is_over(port));
    }

    /// Waits until a batch ends or its channel breaks.
    pub fn dma_wait(&self, node: &Node, port: &Port<'static>, ticket: &Ticket) -> Seen {
        let mut seen = Seen::Waiting;
        node.scheduler.wait(&self.dma.waiting, || {
            seen = ticket.look(port);
            seen != Seen::Waiting
        });
        seen
    }

    /// Frees the descriptors of a batch whose outcome was read.
    pub fn dma_read(&self, port: &Port<'static>, ticket: &Ticket) {
        self.dma.books.lock().read(port, ticket);
    }
}
