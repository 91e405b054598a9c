//! The devices that this kernel drives: those whose home it is, and the DMA engine. The driver of
//! the DMA engine is a service.
//!
//! A driver is a state machine that a lock protects. The device's interrupt only wakes the threads
//! that wait for the device; they poll it. Interrupts are edge-triggered and may be spurious.
//!
//! - [`disk`]: requests to the block device
//! - [`dma`]: access to the DMA engine
//! - [`streams`]: streams of bytes to and from the host

mod disk;
pub mod dma;
pub mod streams;

use abi::boot::{Device, device};
use arch::attend::Attending;
use arch::lock::Lock;
use arch::shared::Window;
use base::id::{DomainId, Vector};
use core::fmt;
use core::sync::atomic::AtomicBool;
use drivers::block::Block;
use drivers::console::Console;
use drivers::rng::Rng;
use drivers::transport::Bus;
use kernel_node::Node;
use kernel_sched::WaitQueue;
use share::Mode;

/// A driver and the threads that wait for its device.
pub struct Slot<T> {
    driver: Lock<Option<T>>,
    waiting: WaitQueue,
    vector: u32,
}

impl<T> Slot<T> {
    fn new() -> Self {
        Slot {
            driver: Lock::new(kernel_node::ranks::DEVICE, None),
            waiting: WaitQueue::new(),
            vector: u32::MAX,
        }
    }

    /// Returns the bit of the device's vector; 0 without the device.
    fn bit(&self) -> u64 {
        if self.driver.lock().is_some() { 1 << self.vector } else { 0 }
    }

    /// Unmasks the device's interrupt, and lets the waiting threads poll once: an interrupt that
    /// was raised while it was masked is lost.
    fn unmask(&self, node: &Node) {
        let started = self.driver.lock().is_some();
        if started {
            arch::irq::unmask(Vector(self.vector as u8));
            self.waiting.wake_all(&node.scheduler);
        }
    }
}

/// The devices of this kernel.
pub struct Devices {
    console: Slot<Console>,
    block: Slot<Block>,
    /// Set when a file system uses the disk.
    pub disk_is_taken: AtomicBool,
    rng: Slot<Rng>,
    /// Streams to and from the host.
    pub streams: Slot<streams::Link>,
    dma: dma::Slot,
}

/// Returns whether domain `me` uses a device. All domains use the DMA engine.
fn is_mine(found: &Device, me: DomainId) -> bool {
    found.kind == device::DMA || found.home == u32::from(me.0)
}

fn bus(node: &Node) -> Bus<'_, Window> {
    Bus { words: node.window, window: node.blob.window.base, attend: &Attending, kick: &*node.kick }
}

impl Devices {
    /// Creates the slots of the devices that domain `me` uses, without drivers.
    pub fn new(blob: &abi::boot::Blob, me: DomainId) -> Self {
        let mut devices = Devices {
            console: Slot::new(),
            block: Slot::new(),
            disk_is_taken: AtomicBool::new(false),
            rng: Slot::new(),
            streams: Slot::new(),
            dma: dma::Slot::new(),
        };
        for found in blob.devices().iter().filter(|found| is_mine(found, me)) {
            match found.kind {
                device::CONSOLE => devices.console.vector = found.vector,
                device::BLOCK => devices.block.vector = found.vector,
                device::RNG => devices.rng.vector = found.vector,
                device::VSOCK => devices.streams.vector = found.vector,
                device::DMA => devices.dma.vector = found.vector,
                _ => {}
            }
        }
        devices
    }

    /// Starts the drivers. One that fails is logged and left out. `dma` is the mode of the DMA
    /// driver's service.
    pub fn start(&self, node: &'static Node, dma: Mode) {
        let bus = bus(node);
        for found in node.blob.devices().iter().filter(|found| is_mine(found, node.me)) {
            let name = abi::boot::text(&found.name);
            if found.kind == device::DMA {
                match self.dma.start(node, found, dma) {
                    Ok(()) => arch::irq::unmask(Vector(found.vector as u8)),
                    Err(why) => kernel_node::log!("device {name}: not started: {why:?}"),
                }
                continue;
            }
            let started = match found.kind {
                device::CONSOLE => Console::start(&bus, found)
                    .map(|console| *self.console.driver.lock() = Some(console)),
                device::BLOCK => {
                    Block::start(&bus, found).map(|block| *self.block.driver.lock() = Some(block))
                }
                device::RNG => {
                    Rng::start(&bus, found).map(|rng| *self.rng.driver.lock() = Some(rng))
                }
                device::VSOCK => self.streams.start(node, found),
                _ => continue,
            };
            match started {
                Ok(()) => arch::irq::unmask(Vector(found.vector as u8)),
                Err(why) => kernel_node::log!("device {name}: not started: {why:?}"),
            }
        }
    }

    /// Unmasks the devices' interrupts again, after the interrupt controller was set up again.
    pub fn unmask(&self, node: &Node) {
        self.console.unmask(node);
        self.block.unmask(node);
        self.rng.unmask(node);
        self.streams.unmask(node);
        if self.dma.is_there() {
            arch::irq::unmask(Vector(self.dma.vector as u8));
            self.dma.waiting.wake_all(&node.scheduler);
        }
    }

    /// Returns the vectors of this kernel's devices, one bit each.
    pub fn vectors(&self) -> u64 {
        self.console.bit() | self.block.bit() | self.rng.bit() | self.streams.bit() | self.dma.bit()
    }

    /// Returns whether a device has something for this kernel, or a thread waits for the end of a
    /// request.
    pub fn are_busy(&self, node: &'static Node) -> bool {
        let waits = [&self.block.waiting, &self.rng.waiting, &self.dma.waiting];
        !waits.into_iter().all(WaitQueue::is_empty)
            || self.console_has_news(node)
            || self.streams.has_news(node)
    }

    fn console_has_news(&self, node: &'static Node) -> bool {
        self.console.driver.lock().as_mut().is_some_and(|console| console.has_news(&bus(node)))
    }

    /// Returns whether this kernel has the system console.
    pub fn has_console(&self) -> bool {
        self.console.driver.lock().is_some()
    }

    /// Handles a doorbell with `vector`.
    pub fn interrupt(&self, node: &Node, vector: u32) {
        if vector == self.console.vector {
            self.console.waiting.wake_all(&node.scheduler);
        } else if vector == self.block.vector {
            self.block.waiting.wake_all(&node.scheduler);
        } else if vector == self.rng.vector {
            self.rng.waiting.wake_all(&node.scheduler);
        } else if vector == self.streams.vector {
            self.streams.waiting.wake_all(&node.scheduler);
        } else if vector == self.dma.vector {
            self.dma.waiting.wake_all(&node.scheduler);
        }
    }

    /// Reads input from the console, waiting for at least one byte. Returns the number of bytes.
    pub fn read(&self, node: &'static Node, into: &mut [u8]) -> usize {
        let mut count = 0;
        node.scheduler.wait(&self.console.waiting, || {
            if let Some(console) = &mut *self.console.driver.lock() {
                count = console.read(&bus(node), into);
            }
            count > 0
        });
        count
    }

    /// Writes bytes to the console, with line feeds as in [`Out`].
    pub fn show(&self, node: &'static Node, bytes: &[u8]) {
        for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            if index > 0 {
                self.write(node, b"\r\n");
            }
            self.write(node, line);
        }
    }

    fn write(&self, node: &'static Node, mut from: &[u8]) {
        while !from.is_empty() {
            let mut count = 0;
            node.scheduler.wait(&self.console.waiting, || {
                match &mut *self.console.driver.lock() {
                    Some(console) => count = console.write(&bus(node), from),
                    None => count = from.len(),
                }
                count > 0
            });
            from = &from[count..];
        }
    }

    /// Writes text to the console without waiting, as much as fits: for a panic.
    pub fn last_words(&self, node: &'static Node, what: &dyn fmt::Display) {
        use core::fmt::Write;
        let mut text = kernel_node::print::Text::<3000>::new();
        // Text that does not fit is cut.
        let _ = write!(text, "\n{what}");
        if let Some(mut driver) = self.console.driver.try_lock()
            && let Some(console) = &mut *driver
        {
            console.write(&bus(node), text.as_bytes());
        }
    }

    /// Returns random bytes from the chip's generator. The error is a text for the user.
    pub fn random(&self, node: &'static Node) -> Result<[u8; 32], &'static str> {
        let mut bytes = [0; 32];
        let (mut asked, mut count) = (false, None);
        node.scheduler.wait(&self.rng.waiting, || match &mut *self.rng.driver.lock() {
            None => true,
            Some(rng) => {
                asked = asked || rng.request(&bus(node), 32);
                count = if asked { rng.take(&bus(node), &mut bytes) } else { None };
                count.is_some()
            }
        });
        match count {
            Some(32) => Ok(bytes),
            Some(_) => Err("the random device returned fewer bytes than requested; try again"),
            None => Err("this kernel drives no random device"),
        }
    }
}

/// A writer to the system console, which turns line feeds into carriage return and line feed.
pub struct Out {
    pub node: &'static Node,
    pub devices: &'static Devices,
}

impl fmt::Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.devices.show(self.node, text.as_bytes());
        Ok(())
    }
}
