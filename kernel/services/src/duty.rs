//! What this kernel does for all kernels, according to the states of all domains in the chip page.
//!
//! - It serves the interrupts of the devices that they share, or not: `kernel_power::duty`.
//! - It takes the timers that kernels leave which rest, or not: `kernel_power::timers`.
//! - While no other domain runs, it keeps the locks between domains after its steps, and does not
//!   look for messages.
//! - It reads the console, or not: the console's home does while it lives, and otherwise the first
//!   domain that is not dead. One that rests is woken by a key.

use crate::idle;
use crate::kernel::Kernel;
use crate::services::{ALL_DUE, NONE_DUE, Timers};
use abi::boot::{MAX_DOMAINS, device};
use abi::soc::{command, state};
use arch::lock::Lock;
use base::id::DomainId;
use base::port::Words;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_power::duty::{self, Look, State};
use kernel_power::timers::{self, Take};
use kernel_sched::WaitQueue;
use kernel_sched::table::Table;

/// Wait queue of the thread that waits until this kernel reads the console.
static CONSOLE: WaitQueue = WaitQueue::new();
/// Whether this kernel read the console at the last look.
static READS: Lock<bool> = Lock::new(kernel_node::ranks::DEVICE, false);

/// For each domain, how often it had started to run when its timers were last taken.
static TAKEN: [AtomicU64; MAX_DOMAINS] = [const { AtomicU64::new(0) }; MAX_DOMAINS];

/// What this kernel has announced before its rest.
#[derive(Clone, Copy, Debug)]
pub struct Announcement {
    /// Chip time at which the rest ends; `u64::MAX`: none.
    pub until: u64,
    /// The doorbells of shared devices end the rest.
    pub listens: bool,
    /// The earliest timer that is left to other kernels; `u64::MAX`: none.
    left: u64,
}

/// Looks whether other domains run. To be called on core 0 with interrupts masked, whenever one may
/// have begun to run or stopped; the caller looks for messages afterwards.
pub fn look_at_others(kernel: &Kernel) {
    let is_still = |domain: DomainId| match kernel.soc.state(domain).1 {
        state::RESTING | state::OFF => true,
        found => state::is_over(found),
    };
    let are_still = kernel.others().all(is_still);
    idle::set_others_run(!are_still);
    // Messages are looked for after the states were read, and after that store.
    kernel.soc.own_locks().barrier();
    if are_still {
        arch::domain_lock::keep();
    } else {
        release_locks(kernel);
    }
}

/// Releases the locks that this kernel keeps, until the next look at the others.
pub fn release_locks(kernel: &Kernel) {
    arch::domain_lock::release_kept(&kernel.soc.own_locks());
}

/// Looks at the states of all domains. To be called whenever one may have changed.
pub fn look(kernel: &Kernel) {
    kernel.services.look_at_homes(kernel);
    let serves = || served_kinds(kernel);
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
    if timers::takes(&states(kernel), kernel.me.index()) {
        take_timers(kernel);
    }
}

/// The same for a domain that was stopped.
pub fn look_again(kernel: &Kernel) {
    look(kernel);
    kernel.devices.look_again(kernel);
    // For measurements: no driver has to look.
    #[cfg(feature = "trials")]
    if !kernel.devices.have_news() {
        crate::services::looked(kernel.devices.taken_over_at());
    }
}

/// Returns the kinds of shared devices that this kernel serves, one bit each.
fn served_kinds(kernel: &Kernel) -> u64 {
    let states = states(kernel);
    let home = |kind| kernel.services.home_of_driver(kind).map(DomainId::index);
    let is_ours = |kind: &u32| duty::server(&states, home(*kind)) == Some(kernel.me.index());
    let kinds = abi::service::ALL.into_iter().filter_map(|service| service.drives);
    kinds.filter(is_ours).fold(0, |kinds, kind| kinds | 1 << kind)
}

/// Returns whether this kernel reads the console: runs the monitor, and programs at the terminal.
pub fn reads_console(kernel: &Kernel) -> bool {
    let Some(home) = console_home(kernel) else { return false };
    let is_dead = |domain: DomainId| match kernel.soc.state(domain) {
        // It has died before.
        (epoch, state::BOOTING) => epoch > 1,
        // It has not started yet, and no key starts it.
        (0, _) => true,
        (_, found) => state::is_over(found),
    };
    if !kernel.devices.shares(device::CONSOLE) {
        return home == kernel.me;
    }
    let all = (0..kernel.blob.domains().len() as u8).map(DomainId);
    let mut domains = core::iter::once(home).chain(all);
    domains.find(|&domain| !is_dead(domain)) == Some(kernel.me)
}

/// Returns the console's home: the domain that the command line names, or the board.
fn console_home(kernel: &Kernel) -> Option<DomainId> {
    named_home(kernel).or_else(|| {
        let (console, _) = kernel.devices.numbered(kernel, device::CONSOLE)?;
        Some(DomainId(console.home as u8))
    })
}

/// Returns the domain that the command line names as the console's home (`console=NAME`), if the
/// kernels share the console. What runs there runs on that kernel.
pub fn named_home(kernel: &Kernel) -> Option<DomainId> {
    let name = kernel.option("console=").filter(|_| kernel.devices.shares(device::CONSOLE))?;
    let found = kernel.blob.domains().iter().position(|it| abi::boot::text(&it.name) == name)?;
    Some(DomainId(found as u8))
}

/// Returns whether this kernel is the console's home.
pub fn is_console_home(kernel: &Kernel) -> bool {
    console_home(kernel) == Some(kernel.me)
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

/// Returns the earliest deadline for which a rest that begins now would end; `u64::MAX`: none.
pub fn next_deadline(kernel: &Kernel) -> u64 {
    deadline(kernel, duty::listens(&states(kernel), kernel.me.index()))
}

/// The same; `keeps`: this kernel keeps the timers of shared services.
fn deadline(kernel: &Kernel, keeps: bool) -> u64 {
    let beside = kernel.services.timers_thread();
    let next = kernel.scheduler.look(|threads: &Table| threads.next_deadline(beside));
    next.unwrap_or(u64::MAX).min(kernel.services.next_deadline(keeps))
}

/// Decides what ends the coming rest of this domain, and publishes what the others must know of
/// that.
pub fn announce(kernel: &Kernel) -> Announcement {
    let serves = duty::listens(&states(kernel), kernel.me.index());
    let until = deadline(kernel, serves);
    let listens = serves && kernel.devices.are_shared();
    kernel.soc.set_listens(listens);
    let (timers, none) = (kernel.services.shared_timers(), NONE_DUE);
    let (kept, left) = if serves { (timers, none) } else { (none, timers) };
    let earliest = |timers: Timers| timers.into_iter().min().unwrap_or(u64::MAX);
    kernel.soc.set_timers(earliest(kept), &left);
    Announcement { until, listens, left: earliest(left) }
}

/// Returns whether this domain, which the soc has published as RESTING, may be stopped: other
/// domains do what all share, or it is woken for that.
pub fn may_rest(kernel: &Kernel, announced: &Announcement) -> bool {
    let (states, me) = (states(kernel), kernel.me.index());
    let kept = |domain: usize| kernel.soc.kept_timer(DomainId(domain as u8));
    let by_timers = || timers::look(&states, me, announced.left, kept, || take_timers(kernel));
    let listens = |domain: usize| kernel.soc.listens(DomainId(domain as u8));
    let has_completions = || kernel.devices.have_shared_news(kernel);
    let by_devices = || match kernel.devices.are_shared() {
        true => duty::look(&states, me, listens, has_completions),
        false => Look::Rest,
    };
    // After that end, all services look what is due.
    if kernel.services.has_unseen_end(kernel) {
        return false;
    }
    match by_timers().and(by_devices()) {
        Look::Rest => true,
        Look::WakeAndRest(server) => {
            // If it is awake by now, or has died, it or another one does what all share.
            let _ = kernel.soc.request(command::WAKE, server as u64, 0);
            true
        }
        Look::Withdraw => false,
    }
}

/// Takes what other domains have left. Returns whether that changes a timer.
fn take_timers(kernel: &Kernel) -> bool {
    let mut has_taken = false;
    for domain in kernel.others() {
        let (starts, found) = kernel.soc.starts_and_state(domain);
        let taken = &TAKEN[domain.index()];
        let left = match timers::take(state(found), starts, taken.load(Ordering::Relaxed)) {
            Take::Nothing => continue,
            Take::Left => kernel.soc.left_timers(domain),
            Take::All => ALL_DUE,
        };
        has_taken |= kernel.services.take_timers(kernel, &left);
        // Afterwards: another core that looks meanwhile takes them too.
        taken.store(starts, Ordering::Relaxed);
    }
    has_taken
}

/// Returns the states of all domains; places without a domain are [`State::Other`].
fn states(kernel: &Kernel) -> [State; MAX_DOMAINS] {
    let mut states = [State::Other; MAX_DOMAINS];
    for ((to, _), id) in states.iter_mut().zip(kernel.blob.domains()).zip((0..).map(DomainId)) {
        *to = state(kernel.soc.state(id).1);
    }
    states
}

fn state(found: u64) -> State {
    match found {
        state::RUNNING => State::Running,
        state::RESTING => State::Resting,
        state::OFF | state::INACTIVE => State::Stopped,
        _ => State::Other,
    }
}
