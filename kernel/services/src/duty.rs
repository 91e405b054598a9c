//! What this kernel does for all kernels, according to the states of all domains in the chip page.
//!
//! - It serves the interrupts of the devices that they share, or not: `kernel_power::duty`.
//! - It reads the console, or not: the first domain that is not dead does. One that rests is woken
//!   by a key.

use crate::kernel::Kernel;
use abi::boot::{MAX_DOMAINS, device};
use abi::soc::{command, state};
use base::id::DomainId;
use core::sync::atomic::{AtomicBool, Ordering};
use kernel_power::duty::{self, State};
use kernel_sched::WaitQueue;

/// Wait queue of the thread that waits until this kernel reads the console.
static CONSOLE: WaitQueue = WaitQueue::new();
/// Whether this kernel read the console at the last look.
static READS: AtomicBool = AtomicBool::new(false);

/// Looks at the states of all domains. To be called whenever one may have changed.
pub fn look(kernel: &Kernel) {
    if kernel.devices.are_shared() {
        kernel.devices.serve_shared(kernel, || server(kernel, None) == Some(kernel.me.index()));
    }
    let reads = reads_console(kernel);
    if READS.swap(reads, Ordering::Relaxed) != reads {
        CONSOLE.wake_all(&kernel.scheduler);
        kernel.services.look_at_patience(kernel);
    }
}

/// Returns whether this kernel reads the console: runs the monitor, and programs at the terminal.
pub fn reads_console(kernel: &Kernel) -> bool {
    let Some((console, _)) = kernel.devices.numbered(kernel, device::CONSOLE) else { return false };
    let is_dead = |domain: DomainId| match kernel.soc.state(domain) {
        // It has died before.
        (epoch, state::BOOTING) => epoch > 1,
        (_, found) => matches!(found, state::DEAD | state::COLD),
    };
    let mut domains = (0..kernel.blob.domains().len() as u8).map(DomainId);
    let alive = domains.find(|&domain| !is_dead(domain));
    let reader = alive.filter(|_| kernel.devices.shares(device::CONSOLE));
    reader.unwrap_or(DomainId(console.home as u8)) == kernel.me
}

/// Returns whether this kernel is the console's home.
pub fn is_console_home(kernel: &Kernel) -> bool {
    let console = kernel.devices.numbered(kernel, device::CONSOLE);
    console.is_some_and(|(found, _)| found.home == u32::from(kernel.me.0))
}

/// Waits until this kernel reads the console.
pub fn await_console(kernel: &Kernel) {
    kernel.scheduler.wait(&CONSOLE, || reads_console(kernel));
}

/// Decides whether the doorbells of shared devices end the coming rest of this domain, and
/// publishes that.
pub fn listens_at_rest(kernel: &Kernel) -> bool {
    let me = Some(kernel.me.index());
    let listens = kernel.devices.are_shared() && server(kernel, Some(State::Resting)) == me;
    kernel.soc.set_listens(listens);
    listens
}

/// Returns whether some domain hears the shared devices once this one is stopped. To be called
/// after the soc has published that it rests. Another one that rests and does not listen is woken:
/// it serves the devices then, and listens at its next rest.
pub fn is_settled(kernel: &Kernel, listens: bool) -> bool {
    match server(kernel, None) {
        Some(index) if index == kernel.me.index() => listens || !kernel.devices.are_shared(),
        Some(index) => {
            let other = DomainId(index as u8);
            if kernel.soc.state(other).1 == state::RESTING && !kernel.soc.listens(other) {
                // If it is awake by now, or dies, it or another one serves the devices.
                let _ = kernel.soc.request(command::WAKE, index as u64, 0);
            }
            true
        }
        None => true,
    }
}

/// Returns which domain serves the devices, with this kernel's state taken as `mine` if given.
pub fn server(kernel: &Kernel, mine: Option<State>) -> Option<usize> {
    let mut states = [State::Other; MAX_DOMAINS];
    let count = kernel.blob.domains().len().min(MAX_DOMAINS);
    for (index, to) in states.iter_mut().enumerate().take(count) {
        *to = match kernel.soc.state(DomainId(index as u8)).1 {
            state::RUNNING => State::Running,
            state::RESTING => State::Resting,
            _ => State::Other,
        };
    }
    if let Some(mine) = mine {
        states[kernel.me.index()] = mine;
    }
    duty::server(&states[..count])
}
