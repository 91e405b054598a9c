//! What this kernel does for all kernels, according to the states of all domains in the chip page.
//!
//! - It serves the interrupts of the devices that they share, or not: `kernel_power::duty`.
//! - It reads the console, or not: the first domain that is not dead does. One that rests is woken
//!   by a key.

use crate::kernel::Kernel;
use abi::boot::{MAX_DOMAINS, device};
use abi::soc::{command, state};
use arch::lock::Lock;
use base::id::DomainId;
use kernel_power::duty::{self, Look, State};
use kernel_sched::WaitQueue;

/// Wait queue of the thread that waits until this kernel reads the console.
static CONSOLE: WaitQueue = WaitQueue::new();
/// Whether this kernel read the console at the last look.
static READS: Lock<bool> = Lock::new(kernel_node::ranks::DEVICE, false);

/// Looks at the states of all domains. To be called whenever one may have changed.
pub fn look(kernel: &Kernel) {
    let serves = || duty::server(&states(kernel)) == Some(kernel.me.index());
    let serves_other = kernel.devices.are_shared() && kernel.devices.serve_shared(kernel, serves);
    let has_changed = {
        // Of several cores that look at once, the last one counts.
        let mut before = READS.lock();
        let reads = reads_console(kernel);
        core::mem::replace(&mut *before, reads) != reads
    };
    if has_changed {
        CONSOLE.wake_all(&kernel.scheduler);
    }
    if has_changed || serves_other {
        kernel.services.look_at_patience(kernel);
    }
}

/// Returns whether this kernel reads the console: runs the monitor, and programs at the terminal.
pub fn reads_console(kernel: &Kernel) -> bool {
    let Some((console, _)) = kernel.devices.numbered(kernel, device::CONSOLE) else { return false };
    let is_dead = |domain: DomainId| match kernel.soc.state(domain) {
        // It has died before.
        (epoch, state::BOOTING) => epoch > 1,
        (_, found) => state::is_over(found),
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

/// Returns whether this kernel executes what is done once after the board's start: it is the
/// console's home, in its first life.
pub fn starts_board(kernel: &Kernel) -> bool {
    is_console_home(kernel) && kernel.epoch.0 == 1
}

/// Waits until this kernel reads the console.
pub fn await_console(kernel: &Kernel) {
    kernel.scheduler.wait(&CONSOLE, || reads_console(kernel));
}

/// Decides whether the doorbells of shared devices end the coming rest of this domain, and
/// publishes that.
pub fn listens_at_rest(kernel: &Kernel) -> bool {
    let listens = kernel.devices.are_shared() && duty::listens(&states(kernel), kernel.me.index());
    kernel.soc.set_listens(listens);
    listens
}

/// Returns whether this domain, which the soc has published as RESTING, may be stopped: another one
/// serves the shared devices, or this one hears them.
pub fn may_rest(kernel: &Kernel) -> bool {
    if !kernel.devices.are_shared() {
        return true;
    }
    let listens = |domain: usize| kernel.soc.listens(DomainId(domain as u8));
    let has_completions = || kernel.devices.have_shared_news(kernel);
    match duty::look(&states(kernel), kernel.me.index(), listens, has_completions) {
        Look::Rest => true,
        Look::WakeAndRest(server) => {
            // If it is awake by now, or has died, it or another one looks at the devices.
            let _ = kernel.soc.request(command::WAKE, server as u64, 0);
            true
        }
        Look::Withdraw => false,
    }
}

/// Returns the states of all domains; places without a domain are [`State::Other`].
fn states(kernel: &Kernel) -> [State; MAX_DOMAINS] {
    let mut states = [State::Other; MAX_DOMAINS];
    for ((to, _), id) in states.iter_mut().zip(kernel.blob.domains()).zip((0..).map(DomainId)) {
        *to = match kernel.soc.state(id).1 {
            state::RUNNING => State::Running,
            state::RESTING => State::Resting,
            _ => State::Other,
        };
    }
    states
}
