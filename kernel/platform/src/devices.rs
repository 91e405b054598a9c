//! The devices that this kernel may use: where they are, and whether it serves their interrupts.
//! Their drivers are services, whose steps get the device from here ([`Devices::lent`]).
//!
//! An interrupt is an edge, wired to all domains. A kernel that serves a device has its interrupt
//! unmasked; the others have it masked. The handler only notes the device and wakes a thread
//! ([`Devices::await_news`]), which has the driver look. A device that several kernels use is
//! served by one of them at a time (`kernel_power::duty`); for a short time both may serve it,
//! which does no harm, because the driver looks at memory and counts completions.
//!
//! - [`dma`]: the DMA engine, which interrupts the kernel that a transfer is for

pub mod dma;

use abi::boot::{Blob, Device as Found, device};
use abi::soc::DeviceRegisters;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::id::{DomainId, Vector};
use base::port::{Trace, Words};
use core::fmt;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_node::Node;
use kernel_sched::WaitQueue;
use share::{Device, Mode};

/// A device that this kernel may use.
struct Place {
    found: &'static Found,
    /// Other kernels use it too.
    is_shared: bool,
}

impl Place {
    fn vector(&self) -> Vector {
        Vector(self.found.vector as u8)
    }

    /// Returns whether the device's kind is one of these, one bit each.
    fn is_of(&self, kinds: u64) -> bool {
        kinds >> self.found.kind & 1 != 0
    }

    /// Returns whether the device has raised its interrupt since its driver last looked, in any
    /// kernel.
    fn has_news(&self, node: &Node) -> bool {
        let registers = (self.found.registers - node.blob.window.base) as usize;
        let load = |field| node.window.load(registers + field);
        load(offset_of!(DeviceRegisters, interrupts)) != load(offset_of!(DeviceRegisters, handled))
    }

    fn lent(&self, node: &'static Node) -> Device<'static> {
        let window = node.blob.window.base;
        Device {
            words: &node.window,
            window,
            registers: (self.found.registers - window) as usize,
            memory: (self.found.memory - window) as usize,
            memory_size: self.found.memory_size as usize,
            parts: u64::MAX,
            ring: &*node.kick,
            kick: self.found.kick,
        }
    }
}

/// Unmasks interrupts. Returns the kinds of the devices, one bit each: their drivers look once,
/// because an interrupt that was raised before may be lost.
fn take_over<'a>(places: impl Iterator<Item = &'a Place>) -> u64 {
    kinds(places.inspect(|place| arch::irq::unmask(place.vector())))
}

/// Returns the kinds of devices, one bit each.
fn kinds<'a>(places: impl Iterator<Item = &'a Place>) -> u64 {
    places.fold(0, |kinds, place| kinds | 1 << place.found.kind)
}

/// The devices of this kernel.
pub struct Devices {
    places: Vec<Place>,
    /// Kinds of the devices that it shares and serves, one bit each; changed under the lock.
    serves_shared: AtomicU64,
    deciding: Lock<()>,
    /// Kinds of devices whose drivers are to look, one bit each.
    news: AtomicU64,
    /// The thread that waits for them.
    waiting: WaitQueue,
    /// Threads that wait until this kernel serves other devices.
    serving: WaitQueue,
    /// Chip time at which this kernel began to serve the devices that it shares, or went on after
    /// it was stopped.
    taken_over: AtomicU64,
    /// Number of threads that wait for a device to complete a request.
    in_flight: AtomicU64,
    dma: dma::Slot,
}

impl Devices {
    /// Finds the devices that domain `me` uses. `is_shared` says whether all kernels share the
    /// driver of a kind of device; otherwise its home is the only one that uses it.
    pub fn new(blob: &'static Blob, me: DomainId, is_shared: impl Fn(u32) -> bool) -> Self {
        let place = |found: &'static Found| Place { found, is_shared: is_shared(found.kind) };
        let all = blob.devices().iter().filter(|found| found.kind != device::DMA).map(place);
        let is_ours = |place: &Place| place.is_shared || place.found.home == u32::from(me.0);
        Devices {
            places: all.filter(is_ours).collect(),
            serves_shared: AtomicU64::new(0),
            deciding: Lock::new(kernel_node::ranks::DEVICE, ()),
            news: AtomicU64::new(0),
            waiting: WaitQueue::new(),
            serving: WaitQueue::new(),
            taken_over: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            dma: dma::Slot::new(blob),
        }
    }

    fn place(&self, kind: u32) -> Option<&Place> {
        self.places.iter().find(|place| place.found.kind == kind)
    }

    /// Returns the device of a kind as a step of its driver gets it; `None` if this kernel does not
    /// use one.
    pub fn lent(&self, node: &'static Node, kind: u32) -> Option<Device<'static>> {
        match kind {
            device::DMA => self.dma_device(node),
            _ => self.place(kind).map(|place| place.lent(node)),
        }
    }

    /// Returns the device of a kind that this kernel uses, with its number on the board, from 1.
    pub fn numbered(&self, node: &Node, kind: u32) -> Option<(&'static Found, u64)> {
        let found = self.place(kind)?.found;
        let all = node.blob.devices().iter().zip(1..);
        all.into_iter().find(|(other, _)| core::ptr::eq(*other, found))
    }

    /// Starts to serve the devices that only this kernel uses. `dma` is the mode of the DMA
    /// engine's driver.
    pub fn start(&self, node: &'static Node, dma: Mode) {
        self.dma.start(node, dma);
        self.unmask(node);
    }

    /// Decides which of the devices that it shares this kernel serves, by their kinds. Returns
    /// whether that has changed. From any context; of several cores that decide at once, the last
    /// one counts.
    pub fn serve_shared(&self, node: &Node, decide: impl FnOnce() -> u64) -> bool {
        let deciding = self.deciding.lock();
        let shared = |kinds: u64| {
            self.places.iter().filter(move |place| place.is_shared && place.is_of(kinds))
        };
        let serves = decide() & kinds(shared(u64::MAX));
        let before = self.serves_shared.swap(serves, Ordering::AcqRel);
        if serves & !before != 0 {
            self.taken_over.store(arch::time::soc_time(), Ordering::Relaxed);
        }
        shared(before & !serves).for_each(|place| arch::irq::mask(place.vector()));
        let kinds = take_over(shared(serves & !before));
        drop(deciding);
        if before != serves {
            node.trace.event("devices", serves, 0);
            self.serving.wake_all(&node.scheduler);
        }
        self.note(node, kinds);
        before != serves
    }

    fn note(&self, node: &Node, kinds: u64) {
        if kinds != 0 {
            self.news.fetch_or(kinds, Ordering::AcqRel);
            self.waiting.wake_all(&node.scheduler);
        }
    }

    fn served(&self) -> impl Iterator<Item = &Place> {
        let serves = self.serves_shared.load(Ordering::Acquire);
        self.places.iter().filter(move |place| !place.is_shared || place.is_of(serves))
    }

    /// Returns whether this kernel serves the device of a kind.
    pub fn serves(&self, kind: u32) -> bool {
        self.served().any(|place| place.found.kind == kind)
    }

    /// Waits until `done`, which may depend on what this kernel serves.
    pub fn await_serving(&self, node: &Node, done: impl FnMut() -> bool) {
        node.scheduler.wait(&self.serving, done);
    }

    /// Unmasks the interrupts that this kernel serves, after its interrupt controller was set up.
    pub fn unmask(&self, node: &Node) {
        self.note(node, take_over(self.served()));
        self.dma.unmask(node);
    }

    /// Handles a doorbell with `vector`.
    pub fn interrupt(&self, node: &Node, vector: u32) {
        self.note(node, kinds(self.places.iter().filter(|place| place.found.vector == vector)));
        self.dma.interrupt(node, vector);
    }

    /// Waits until a device may have something, and returns the kinds of those devices, one bit
    /// each.
    pub fn await_news(&self, node: &Node) -> u64 {
        let mut kinds = 0;
        node.scheduler.wait(&self.waiting, || {
            kinds = self.news.swap(0, Ordering::AcqRel);
            kinds != 0
        });
        kinds
    }

    /// Returns whether a device that only this kernel uses has something that its driver has not
    /// looked at, or a thread of this kernel waits for the end of a request.
    pub fn are_busy(&self, node: &Node) -> bool {
        let mut own = self.places.iter().filter(|place| !place.is_shared);
        self.have_news()
            || self.in_flight.load(Ordering::Relaxed) != 0
            || !self.dma.waiting.is_empty()
            || own.any(|place| place.has_news(node))
    }

    /// Returns whether drivers are to look at devices.
    pub fn have_news(&self) -> bool {
        self.news.load(Ordering::Acquire) != 0
    }

    /// Returns the chip time at which this kernel began to serve the devices that it shares, or
    /// went on after it was stopped.
    pub fn taken_over_at(&self) -> u64 {
        self.taken_over.load(Ordering::Relaxed)
    }

    /// Has the drivers look at devices that this kernel serves, if those have something: for a
    /// domain that was stopped.
    pub fn look_again(&self, node: &Node) {
        self.taken_over.store(arch::time::soc_time(), Ordering::Relaxed);
        self.note(node, kinds(self.served().filter(|place| place.has_news(node))));
    }

    /// Returns whether a device that kernels share has something that its driver has not looked at,
    /// in any kernel.
    pub fn have_shared_news(&self, node: &Node) -> bool {
        node.window.barrier(); // the states of the domains were read before
        self.places.iter().any(|place| place.is_shared && place.has_news(node))
    }

    /// Runs `work`, a request to a device that takes no longer than the device: meanwhile this
    /// domain does not rest.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let result = work();
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Returns the vectors that this kernel serves, one bit each; of the devices that it shares
    /// only `with_shared`.
    pub fn vectors(&self, with_shared: bool) -> u64 {
        let ours = self.places.iter().filter(|place| with_shared || !place.is_shared);
        ours.fold(self.dma.bit(), |vectors, place| vectors | 1 << place.found.vector)
    }

    /// Returns whether this kernel shares the device of a kind with others.
    pub fn shares(&self, kind: u32) -> bool {
        self.place(kind).is_some_and(|place| place.is_shared)
    }

    /// Returns whether this kernel shares devices with others.
    pub fn are_shared(&self) -> bool {
        self.places.iter().any(|place| place.is_shared)
    }

    /// Writes text to the console without its driver, as much as fits, if this kernel serves it:
    /// for a panic. The driver finds that the device was reset, and opens it again.
    pub fn last_words(&self, node: &'static Node, what: &dyn fmt::Display) {
        use core::fmt::Write;
        let mut text = kernel_node::print::Text::<3000>::new();
        // Text that does not fit is cut.
        let _ = write!(text, "\n{what}");
        let is_ours = |_: &Device<'_>| self.serves(device::CONSOLE);
        if let Some(console) = self.lent(node, device::CONSOLE).filter(is_ours) {
            drivers::console::last_words(&console, text.as_bytes());
        }
    }
}
