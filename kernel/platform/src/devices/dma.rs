//! The DMA engine: its address, and the threads that wait for it. Its driver is a service
//! (`dma::Dma`); `transfers` in `kernel/services` is its client.

use super::Devices;
use abi::boot::{Blob, Device as Found, device};
use arch::lock::{Lock, Once};
use base::id::Vector;
use dma::port::{NotOurs, Port};
use dma::watch::Rest;
use dma::{Books, Pace, Seen, Ticket};
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
    /// How long transfers of this kernel wait while the engine's home makes small ones, in ns.
    home_first_ns: u64,
}

/// The engine, and the threads that wait for it.
pub struct Slot {
    found: Option<&'static Found>,
    pub waiting: WaitQueue,
    place: Once<Place>,
    books: Lock<Books>,
    pace: Lock<Pace>,
}

impl Slot {
    pub(super) fn new(blob: &'static Blob) -> Slot {
        Slot {
            found: blob.devices().iter().find(|found| found.kind == device::DMA),
            waiting: WaitQueue::new(),
            place: Once::new(),
            books: Lock::new(kernel_node::ranks::DEVICE, Books::new()),
            pace: Lock::new(kernel_node::ranks::DEVICE, Pace::new()),
        }
    }

    /// Starts to use the engine, if the board has one. One that is not ours is logged and not used.
    pub(super) fn start(&self, node: &'static Node, mode: Mode) {
        let Some(found) = self.found else { return };
        if let Err(why) = self.find(node, found, mode) {
            let name = abi::boot::text(&found.name);
            kernel_node::log!("device {name}: not started: {why:?}");
        }
    }

    /// Checks the engine that the board describes. In a mode that does not share the driver, each
    /// domain has channels of its own.
    fn find(&self, node: &'static Node, found: &Found, mode: Mode) -> Result<(), NotOurs> {
        let offset = |at: u64| (at - node.blob.window.base) as usize;
        let (registers, memory) = (offset(found.registers), offset(found.memory));
        let memory_size = found.memory_size as usize;
        let (kick, parts) = (found.kick, u64::MAX);
        let mut place = Place { registers, memory, memory_size, kick, parts, home_first_ns: 0 };
        let port = Port(place.device(node));
        let parts = match mode {
            Mode::Private | Mode::Independent => port.dealt_to(node.me),
            Mode::Shadowed | Mode::Partitioned | Mode::Delegated(_) => u64::MAX,
        };
        (place.parts, place.home_first_ns) = (parts, port.home_first_ns(node.me));
        Port(place.device(node)).check(found.memory_size)?;
        let _ = self.place.set(place);
        Ok(())
    }

    /// Unmasks the engine's interrupt, and lets the waiting threads look once.
    pub(super) fn unmask(&self, node: &Node) {
        if let Some(found) = self.found.filter(|_| self.is_there()) {
            arch::irq::unmask(Vector(found.vector as u8));
            self.waiting.wake_all(&node.scheduler);
        }
    }

    /// Handles a doorbell with `vector`.
    pub(super) fn interrupt(&self, node: &Node, vector: u32) {
        if self.found.is_some_and(|found| found.vector == vector) {
            self.waiting.wake_all(&node.scheduler);
        }
    }

    /// Returns the bit of the engine's vector; 0 without the engine.
    pub(super) fn bit(&self) -> u64 {
        self.found.filter(|_| self.is_there()).map_or(0, |found| 1 << found.vector)
    }

    /// Returns whether the engine was found.
    pub fn is_there(&self) -> bool {
        self.place.get().is_some()
    }
}

impl Place {
    fn device(&self, node: &'static Node) -> Device<'static> {
        let Place { registers, memory, memory_size, kick, parts, .. } = *self;
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

    /// Waits until this kernel may begin a batch, which is at once unless the engine's home makes
    /// small transfers.
    pub fn dma_pace(&self, node: &Node, port: &Port<'static>) {
        let first = self.dma.place.get().map_or(0, |place| place.home_first_ns);
        if first == 0 {
            return;
        }
        let ask = || {
            let ended = port.ended_at_home();
            self.dma.pace.lock().ask(arch::time::soc_time(), ended, first)
        };
        while let Some(again) = ask() {
            node.scheduler.sleep_until(again);
        }
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
