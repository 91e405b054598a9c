//! The DMA engine: moves bytes between places of RAM, in its own time, and interrupts when done.
//!
//! ```text
//! kick, time, power --> mod (thread, host clock) --> engine (rings, registers, data) --> limits
//!                                                        |
//!                                                     arbiter (when transfers end; pure)
//! ```
//! Only this file knows whose time it is: a transfer does not end before it is due, and ends as
//! soon after as the host lets this thread run; in the lab, exactly then. `docs/design/dma.md` is
//! the manual.

pub mod arbiter;
pub mod engine;
pub mod limits;
#[cfg(test)]
mod tests;

use crate::fabric::{Doorbell, Fabric};
use crate::memory::MemoryError;
use engine::Engine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An engine that its thread and the supervisor share. Clones are the same engine.
#[derive(Clone)]
pub struct Handle {
    engine: Arc<Mutex<Engine>>,
    fabric: Fabric,
    name: String,
    kick: usize,
}

impl Handle {
    /// The engine of `device`.
    pub fn new(engine: Engine, device: &crate::config::Device, fabric: Fabric) -> Handle {
        Handle {
            engine: Arc::new(Mutex::new(engine)),
            fabric,
            name: device.name.clone(),
            kick: usize::from(device.kick),
        }
    }

    fn now(&self) -> u64 {
        self.fabric.gate().now()
    }

    /// Held for one turn at most: a few copies.
    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report<T>(&self, result: Result<T, MemoryError>) -> Option<T> {
        result.inspect_err(|e| log::error!("Device {}: {e}.", self.name)).ok()
    }

    /// A domain runs under `epoch` from now on; called before it does.
    pub fn powered(&self, domain: usize, epoch: u16) {
        self.engine().powered(domain, epoch);
    }

    /// A domain that cannot run now was fenced; when this returns, nothing of it moves any more.
    pub fn fence(&self, domain: usize) {
        let result = self.engine().fence(domain, self.now());
        self.report(result);
        // Others may be done earlier now.
        if let Some(kick) = self.fabric.own(self.kick) {
            self.fabric.gate().expect(self.kick);
            kick.ring();
        }
    }

    /// How long to wait for the next deadline; `None` for ever, or until the lab rings.
    fn turn(&self) -> Option<Timespec> {
        let result = self.engine().turn(self.now());
        let next = self.report(result).flatten();
        if self.fabric.gate().alarm(self.kick, next) {
            return None;
        }
        let wait = next?.saturating_sub(self.now());
        Some(Timespec {
            tv_sec: (wait / 1_000_000_000) as i64,
            tv_nsec: (wait % 1_000_000_000) as i64,
        })
    }
}

/// The engine's thread: until `stop` is rung.
pub fn run(handle: &Handle, stop: &Doorbell) {
    let Some(kick) = handle.fabric.own(handle.kick) else { return };
    loop {
        let gate = handle.fabric.gate();
        let timeout = gate.visit(|| {
            kick.take(); // before looking: a ring that comes later makes another turn
            handle.turn()
        });
        gate.settled(handle.kick);
        let mut waits = [PollFd::new(kick, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        if let Err(e) = poll(&mut waits, timeout.as_ref())
            && e != rustix::io::Errno::INTR
        {
            return log::error!("Device {} cannot wait any more: {e}.", handle.name);
        }
        if !waits[1].revents().is_empty() {
            return;
        }
    }
}
