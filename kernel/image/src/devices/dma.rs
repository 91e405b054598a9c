//! The DMA engine: where it is, and the threads that wait for it. Its driver is a service
//! (`dma::Dma`), in the mode that the board chose; [`crate::transfers`] asks it.

use super::Devices;
use crate::node::Node;
use abi::boot::Device as Found;
use arch::lock::{Lock, Once};
use dma::port::{NotOurs, Port};
use dma::watch::Rest;
use dma::{Books, Seen, Ticket};
use kernel_sched::WaitQueue;
use share::{Device, Mode};

/// Where the engine is.
struct Place {
    registers: usize,
    memory: usize,
    kick: u32,
    parts: u64,
}

/// The engine, and the threads that wait for it.
pub struct Slot {
    pub vector: u32,
    pub waiting: WaitQueue,
    place: Once<Place>,
    #[cfg_attr(not(feature = "trials"), allow(dead_code, reason = "so far only trials use it"))]
    books: Lock<Books>,
}

impl Slot {
    pub fn new() -> Slot {
        Slot {
            vector: u32::MAX,
            waiting: WaitQueue::new(),
            place: Once::new(),
            books: Lock::new(crate::ranks::DEVICE, Books::new()),
        }
    }

    /// Looks whether it is there.
    pub fn start(&self, node: &'static Node, found: &Found, mode: Mode) -> Result<(), NotOurs> {
        let offset = |at: u64| (at - node.blob.window.base) as usize;
        let (registers, memory) = (offset(found.registers), offset(found.memory));
        let mut place = Place { registers, memory, kick: found.kick, parts: u64::MAX };
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

    /// Was it found?
    pub fn is_there(&self) -> bool {
        self.place.get().is_some()
    }
}

impl Place {
    fn device(&self, node: &'static Node) -> Device<'static> {
        let Place { registers, memory, kick: vector, parts } = *self;
        let ring = &*node.kick;
        Device { words: &node.window, registers, memory, parts, ring, kick: vector }
    }
}

impl Devices {
    /// What the DMA driver's step reaches.
    pub fn dma_device(&self, node: &'static Node) -> Option<Device<'static>> {
        Some(self.dma.place.get()?.device(node))
    }
}

#[cfg_attr(not(feature = "trials"), allow(dead_code, reason = "so far only trials use it"))]
impl Devices {
    /// The engine; `None`: this board has none, or it did not start.
    pub fn dma_port(&self, node: &'static Node) -> Option<Port<'static>> {
        self.dma_device(node).map(Port)
    }

    /// Waits until the engine is through with what is under way for this kernel now.
    pub fn dma_settle(&self, node: &Node, port: &Port<'static>) {
        let mut rest = Rest::of(port, node.me);
        node.scheduler.wait(&self.dma.waiting, || rest.is_over(port));
    }

    /// Waits for what becomes of a batch.
    pub fn dma_wait(&self, node: &Node, port: &Port<'static>, ticket: &Ticket) -> Seen {
        let mut seen = Seen::Waiting;
        node.scheduler.wait(&self.dma.waiting, || {
            seen = ticket.look(port);
            seen != Seen::Waiting
        });
        seen
    }

    /// An outcome was read: its descriptors are free.
    pub fn dma_read(&self, port: &Port<'static>, ticket: &Ticket) {
        self.dma.books.lock().read(port, ticket);
    }
}
