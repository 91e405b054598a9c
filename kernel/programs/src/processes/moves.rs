//! Moves of running processes between kernels (docs/design/moves.md).
//!
//! ```text
//!   call_away: the table asks --> the next call, or the wait, ends: the engine unwinds the program
//!   `passage`: its files are for all kernels, packed --Depart--> it runs there: it is gone here
//!                                                       \-> an error: it continues here
//!   `passage`: unpacked, files of its own --> the engine loads it --> arrived: Begun --> it runs
//! ```
//! Contract: this kernel executes nothing of the process while the table decides where it runs, and
//! continues only if the table says that it runs here. While it departs, the process has another
//! key: it may come back before all that it had here is freed.

use super::{LocalProcess, Processes, ask, reports, with_table};
use crate::programs::open_image;
use ::processes::client::Client;
use abi::moves::{Departed, Image, MAGIC};
use abi::process::{End, Errno, Reply};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::id::DomainId;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use kernel_services::kernel::Kernel;
use kernel_services::services::Patience;
use kernel_services::session::Session;
use share::Mode;
use zerocopy::{FromBytes, IntoBytes};

/// How long a user waits for a process to move. Large memories take seconds.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Distinguishes the key of a process that departs from process numbers.
const DEPARTING: u32 = 1 << 30;

const _: () = assert!(abi::process::LAST_PID <= DEPARTING);

/// Where a process is on its way between kernels.
#[derive(Default)]
pub struct Journey {
    /// The kernel that it is to move to, plus 1; 0: it stays.
    to: AtomicU32,
    /// It comes from another kernel, and does not run yet.
    comes: AtomicBool,
}

impl Journey {
    /// Returns whether the process is to move.
    #[inline]
    pub fn is_called_away(&self) -> bool {
        self.to.load(Ordering::Relaxed) != 0
    }

    /// Returns whether it comes from another kernel, and does not run yet.
    pub fn is_coming(&self) -> bool {
        self.comes.load(Ordering::Relaxed)
    }

    /// Notes that the process is to move no more.
    pub(super) fn call_off(&self) {
        self.to.store(0, Ordering::Relaxed);
    }

    /// Notes that it comes from another kernel, before others see it.
    pub(super) fn comes_in(&self) {
        self.comes.store(true, Ordering::Relaxed);
    }

    /// Returns the kernel that it is to move to.
    pub(super) fn destination(&self) -> Option<DomainId> {
        let to = self.to.load(Ordering::Relaxed).checked_sub(1)?;
        Some(DomainId(to as u8))
    }
}

/// Returns the start data of a process that comes from another kernel, if these are such.
pub fn departed(kernel: &Kernel, beginning: &[u8]) -> Option<Departed> {
    let head = Departed::read_from_bytes(beginning).ok()?;
    let is_there = usize::from(head.kernel) < kernel.blob.domains().len();
    (head.magic == MAGIC && is_there).then_some(head)
}

/// Returns a process of this kernel by its number, also while it departs.
pub fn find(processes: &Processes, pid: u32) -> Option<Arc<LocalProcess>> {
    processes.life(pid).or_else(|| processes.life(pid | DEPARTING))
}

/// Returns whether this is the key of a process that departs.
pub fn is_departing(key: u32) -> bool {
    key & DEPARTING != 0
}

/// Opens the images of a program for all kernels, if it can move.
pub fn images(session: &Session, directory: Option<u64>, path: &[u8]) -> Vec<Image> {
    let mut all: Vec<Image> = Vec::new();
    for domain in session.kernel.blob.domains() {
        if all.iter().any(|image| image.isa == domain.isa) || all.try_reserve(1).is_err() {
            continue;
        }
        // Without one, it does not move to that kernel.
        if let Ok(handle) = open_image(session, domain.isa, directory, path) {
            all.push(Image { handle, isa: domain.isa, reserved: 0 });
        }
    }
    all
}

/// Makes a process leave this kernel as soon as it can, or reports why it does not.
pub fn call_away(session: &Session, processes: &Processes, pid: u32, to: u16) {
    // One that has ended is reported as such. One that departs comes back if it is to move on.
    let Some(life) = find(processes, pid) else { return };
    if let Err(why) = check(session, &life, to) {
        return stays(session, &life, why);
    }
    life.journey.to.store(u32::from(to) + 1, Ordering::Release);
    life.threads.wake(&session.kernel.scheduler);
}

fn check(session: &Session, life: &LocalProcess, to: u16) -> Result<(), Errno> {
    let kernel = session.kernel;
    let running = life.running.get().ok_or(Errno::Again)?;
    let domain = kernel.blob.domains().get(usize::from(to)).ok_or(Errno::Hostunreach)?;
    if !running.loaded.is_movable() || running.process.has_ends() {
        return Err(Errno::Notsup);
    }
    let services = &kernel.services;
    let modes = [services.fs.mode(), services.processes.mode()];
    let are_shared = modes.into_iter().all(Mode::is_shared);
    if kernel.balloons.is_none() || kernel.coherence.is_none() || !are_shared {
        return Err(Errno::Nosys);
    }
    life.image(domain.isa).map(|_| ()).ok_or(Errno::Noent)
}

/// Moves a process for a user: waits until it runs on kernel `to`, but not for ever.
pub fn move_to(session: &Session, pid: u32, to: u16) -> Result<(), Errno> {
    let patience = Patience::ENDLESS.until(arch::time::soc_time() + PATIENCE_NS);
    with_table(session, &patience, |table| table.move_to(0, pid, to))
}

/// Reports that a process does not move.
pub fn stays(session: &Session, life: &LocalProcess, why: Errno) {
    life.journey.call_off();
    // Fails if nothing asks for it any more.
    let _ = with_table(session, &Patience::ENDLESS, |table| table.stay(life.pid, why));
}

/// Passes a process to kernel `to`, with its start data there. After an error it runs here, and the
/// move has ended. If the table has lost it, it runs nowhere.
pub fn depart(
    session: &Session,
    processes: &Processes,
    life: &LocalProcess,
    to: DomainId,
    head: &Departed,
) -> Result<(), Errno> {
    let restarts = processes.restarts();
    processes.set_aside(life.pid);
    let outcome = ask_to_depart(session, life.pid, to, head);
    if outcome.is_err() {
        processes.put_back(life.pid);
        if processes.restarts() != restarts {
            // It was not among those that this kernel has reported since.
            reports::name(session, life);
        }
    }
    outcome
}

/// Asks the table, and waits for the outcome.
fn ask_to_depart(session: &Session, pid: u32, to: DomainId, head: &Departed) -> Result<(), Errno> {
    let request = |request, bulk: &mut [u8]| {
        let answer = ask(session, request, bulk, &Patience::ENDLESS);
        // The table's state is shared: no answer means that it is lost.
        answer.ok().flatten().unwrap_or(Reply::error(Errno::Restarted))
    };
    match Client(&mut { request }).depart(pid, to.0.into(), head.as_bytes()) {
        Err(Errno::Restarted) => {
            kernel_node::log!("process {pid} is lost on its way: the process table has restarted");
            Ok(())
        }
        done => done,
    }
}

impl Processes {
    /// Gives a process that departs its own key.
    fn set_aside(&self, pid: u32) {
        let mut living = self.living.lock();
        if let Some(life) = living.remove(&pid) {
            living.insert(pid | DEPARTING, life);
        }
    }

    /// Undoes `set_aside`.
    fn put_back(&self, pid: u32) {
        let mut living = self.living.lock();
        if let Some(life) = living.remove(&(pid | DEPARTING)) {
            living.insert(pid, life);
        }
    }

    /// Returns when this kernel last learnt that the table has restarted.
    fn restarts(&self) -> u64 {
        self.restarted.load(Ordering::Acquire)
    }

    /// Notes that a process of this kernel has ended. From here on it cannot be stopped.
    pub(super) fn leave(&self, life: &LocalProcess, end: End, status: u32) {
        // Succeeds: a process ends once.
        let _ = life.ended.set((end, status));
        self.remove(life);
    }

    /// Removes a process of this kernel, and no other one of the same number.
    pub(super) fn remove(&self, life: &LocalProcess) {
        for key in [life.pid, life.pid | DEPARTING] {
            drop(self.take(key, life));
        }
    }

    /// Removes a process of this kernel by its key, if it has that key.
    pub(super) fn take(&self, key: u32, life: &LocalProcess) -> Option<Arc<LocalProcess>> {
        let mut living = self.living.lock();
        let is_it = living.get(&key).is_some_and(|other| core::ptr::eq(&**other, life));
        if is_it { living.remove(&key) } else { None }
    }
}

/// Reports to the table that a process that has come can run here. Returns whether it may.
pub fn arrived(session: &Session, processes: &Processes, life: &LocalProcess) -> bool {
    let memory = life.memory.load(Ordering::Relaxed);
    let restarts = processes.restarts();
    let begun = with_table(session, &Patience::ENDLESS, |table| {
        table.begun(life.pid, life.quota(), Ok(memory))
    });
    life.journey.comes.store(false, Ordering::Relaxed);
    if begun.is_err() {
        // The table may have taken it for one of this kernel when it restarted.
        reports::report_end(session, life.pid, End::Lost, 0);
    } else if processes.restarts() != restarts {
        reports::name(session, life);
    }
    begun.is_ok()
}
