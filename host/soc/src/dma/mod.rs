//! The DMA engine: copies and fills RAM with realistic timing, and interrupts on completion.
//!
//! ```text
//! kick, time, power --> mod (thread, host clock) --> engine (rings, registers, data) --> limits
//!                                                        |
//!                                                     arbiter (when transfers end; pure)
//! ```
//! Only this file knows the clock: a transfer does not end before it is due, and ends as soon after
//! as the host schedules this thread; in the lab, exactly then. `docs/design/dma.md` is the manual.

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

/// An engine shared by its thread and the supervisor. Clones refer to the same engine.
#[derive(Clone)]
pub struct Handle {
    engine: Arc<Mutex<Engine>>,
    fabric: Fabric,
    name: String,
    kick: usize,
}

impl Handle {
    /// Creates a handle for the engine of `device`.
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

    /// Locks the engine. The lock is held for one turn at most: a few copies.
    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report<T>(&self, result: Result<T, MemoryError>) -> Option<T> {
        result.inspect_err(|e| log::error!("Device {}: {e}.", self.name)).ok()
    }

    /// Records that a domain runs under `epoch` from now on; called before it does.
    pub fn powered(&self, domain: usize, epoch: u16) {
        self.engine().powered(domain, epoch);
    }

    /// Fences a domain that cannot run now. After return, none of its transfers moves data any
    /// more.
    pub fn fence(&self, domain: usize) {
        let result = self.engine().fence(domain, self.now());
        self.report(result);
        // Transfers of other channels may end earlier now.
        if let Some(kick) = self.fabric.own(self.kick) {
            self.fabric.gate().expect(self.kick);
            kick.ring();
        }
    }

    /// Returns the time to the next deadline; `None`: wait for a doorbell only.
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

/// The engine's thread; returns when `stop` is rung.
pub fn run(handle: &Handle, stop: &Doorbell) {
    let Some(kick) = handle.fabric.own(handle.kick) else { return };
    loop {
        let gate = handle.fabric.gate();
        let timeout = gate.visit(|| {
            kick.take(); // before looking: a later ring causes another turn
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
