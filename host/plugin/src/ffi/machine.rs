//! The part of this QEMU that a domain's seat needs, and the roles of its threads.

use super::{api, hooks};
use crate::class::Isa;
use crate::vectors::Tables;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Value of the counter at which a block reports.
pub const LIMIT: u64 = 1 << 62;

/// The role of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// The thread of this virtual CPU.
    Runner(usize),
    /// The thread that acts for the idle seat.
    Helper,
    /// Any other thread of QEMU.
    Other,
}

thread_local! {
    pub(super) static THREAD: Cell<Thread> = const { Cell::new(Thread::Other) };
}

/// The part of this QEMU that the seat needs.
pub struct Machine {
    pub(super) isa: Isa,
    pub(super) board: Word,
    /// Counter, instructions and exceptions of each core.
    pub(super) words: Vec<OnceLock<[&'static AtomicU64; 3]>>,
    pub(super) doorbell: OnceLock<Option<hooks::Doorbell>>,
    pub(super) tables: Tables,
}

pub(super) struct Word(pub(super) *mut api::Scoreboard);
// SAFETY: a handle that QEMU's functions take from any thread.
unsafe impl Send for Word {}
// SAFETY: as above.
unsafe impl Sync for Word {}

impl Machine {
    pub(super) fn counters(&self) -> [api::Word; 3] {
        [0, 8, 16].map(|offset| api::Word { board: self.board.0, offset })
    }

    fn words(&self, core: usize) -> Option<&[&'static AtomicU64; 3]> {
        self.words.get(core)?.get()
    }

    /// Returns the counter that each block adds to.
    pub fn counter(&self, core: usize) -> u64 {
        self.words(core).map_or(LIMIT, |words| words[0].load(Ordering::Relaxed))
    }

    /// Sets the counter; called in the virtual CPU's thread, or while it idles.
    pub fn set_counter(&self, core: usize, value: u64) {
        if let Some(words) = self.words(core) {
            words[0].store(value, Ordering::Relaxed);
        }
    }

    /// Returns the number of instructions and of exceptions since the start.
    pub fn totals(&self, core: usize) -> [u64; 2] {
        self.words(core).map_or([0; 2], |words| [1, 2].map(|at| words[at].load(Ordering::Relaxed)))
    }

    /// Returns the time to the first timer.
    pub fn deadline_ns(&self) -> Option<u64> {
        // SAFETY: takes its own locks.
        let ahead = unsafe { api::qemu_clock_deadline_ns_all(api::VIRTUAL, api::ALL_TIMERS) };
        u64::try_from(ahead).ok()
    }

    /// Runs timers that are due; the big lock is held.
    pub fn run_timers(&self) {
        // SAFETY: with the big lock, as QEMU's main loop does.
        unsafe { api::qemu_clock_run_timers(api::VIRTUAL) };
    }

    /// Raises a doorbell's interrupt; the big lock is held.
    pub fn interrupt(&self, vector: usize) {
        if let Some(Some(doorbell)) = self.doorbell.get() {
            doorbell.raise(vector);
        }
    }

    /// Returns whether the virtual CPU has work; without the big lock, only a hint.
    pub fn has_work(&self, core: usize) -> bool {
        // SAFETY: the machine's CPUs exist before any callback of ours, and stay.
        unsafe {
            let cpu = api::qemu_get_cpu(core as c_int);
            !cpu.is_null() && api::cpu_has_work(cpu)
        }
    }

    /// Wakes a waiting virtual CPU; the big lock is held.
    pub fn kick(&self, core: usize) {
        // SAFETY: as above.
        unsafe {
            let cpu = api::qemu_get_cpu(core as c_int);
            if !cpu.is_null() {
                api::qemu_cpu_kick(cpu);
            }
        }
    }

    /// Runs `f` with QEMU's big lock, which this thread must not hold.
    pub fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: a lock and its release in one thread.
        unsafe { api::bql_lock_impl(c"lab".as_ptr(), 0) };
        let result = f();
        // SAFETY: as above.
        unsafe { api::bql_unlock() };
        result
    }

    /// Runs `f`; meanwhile the clock returns the seat's time in this thread.
    pub fn as_seat<R>(&self, f: impl FnOnce() -> R) -> R {
        let thread = THREAD.replace(Thread::Helper);
        let result = f();
        THREAD.set(thread);
        result
    }
}
