//! Driver of the coherence protocol: connects `kernel_dsm` to page table, caches and doorbells.
//! The **shared block** is the memory that all kernels of the board access through it.
//!
//! ```text
//!   a load or store faults --> access --> completes here, or sends Get to the home
//!                                              |  waits in `attend`, and serves others meanwhile
//!   a doorbell, or a waiting core --> poll --> Grant: map the page, the access continues
//!                                         \--> Revoke: unmap, flush, clean, answer
//! ```
//! The fault path runs with interrupts masked, on the stack that faulted. It does not allocate. It
//! takes one leaf lock, which is never held across a wait; a waiting core uses `try_lock`.
//!
//! A page that this kernel gives up is unmapped first and then cleaned, through a second, uncached
//! mapping of the block. That mapping is used for cache maintenance only, which works by physical
//! line; a cached one could bring lines back into the cache.
//!
//! A page whose contents died with its owner is **lost**: accesses to it fail until the state of
//! the service that it belongs to has been discarded and [`Coherence::mend`] was called.
//! What the driver needs of its kernel is in [`Ports`].
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod board;
mod faults;
mod machine;
mod ports;
#[cfg(test)]
mod tests;

use abi::boot::{BLOCK, MAX_CORES, MAX_DOMAINS};
use abi::soc::{state, unpack_state};
use alloc::sync::Arc;
use alloc::vec;
use arch::lock::{Guard, Lock, Rank};
use arch::types::{Mapping, Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::id::{CoreId, Epoch};
use board::{Block, Links};
pub use board::{new, place};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub use faults::{FaultOutcome, Trip};
use kernel_dsm::instruction::Instruction;
use kernel_dsm::types::LeaveError;
use kernel_dsm::{Config, Dsm, Hold, Page, PeerFault, Start};
use machine::{By, Chip, Leaving, Machine, State};
pub use ports::Ports;

/// Pages of the shared block.
const PAGES: u32 = (BLOCK / PAGE) as u32;
/// Minimum residence of a granted page in ns, and the maximum if its instruction is not known to
/// have retired.
const HOLD_NS: u64 = 2_000;
const LIMIT_NS: u64 = 50_000;
/// A page that moves this often within this time (ns) is reported.
const THRASH: kernel_dsm::thrash::Limit =
    kernel_dsm::thrash::Limit { moves: 200, window: 10_000_000 };
/// Minimum time between two reports of thrashing.
const COMPLAIN_NS: u64 = 1_000_000_000;
/// How often a domain tries to leave; lost pages are mended after each failed attempt.
const LEAVES: usize = 4;

impl Thrashing {
    /// Returns the page's byte offset in the block.
    pub fn offset(&self) -> u64 {
        u64::from(self.page) * PAGE
    }
}

/// A page that kernels take from each other too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thrashing {
    /// Its number in the shared block.
    pub page: Page,
    /// How often it moved within `window`.
    pub moves: u32,
    /// In ns.
    pub window: u64,
}

/// The shared block of this kernel.
pub struct Coherence<P: Ports> {
    base: PhysAddr,
    index: usize,
    epoch: Epoch,
    chip: Chip<P>,
    state: Lock<State<P>>,
    faults: AtomicU64,
    broken: AtomicU64,
    /// Local time at which thrashing was last reported.
    complained: AtomicU64,
    /// For each core: whether it has faulted, and may have pins since, after it last released a
    /// service's lock.
    faulted: [AtomicBool; MAX_CORES],
    /// [`Machine::lost`].
    lost: Arc<AtomicBool>,
    /// The [`Trip`] of the last fault.
    trip: [AtomicU64; 3],
}

impl<P: Ports> Coherence<P> {
    fn over(
        config: Config,
        epoch: Epoch,
        (ports, rank): (P, Rank),
        Block { base, index, pages }: Block,
        Links { outboxes, links, vector }: Links,
    ) -> Option<Coherence<P>> {
        let chip = Chip { ports, me: config.me, count: config.domains };
        let words = kernel_dsm::table::words(config.protocol, config.domains, PAGES);
        let dsm = Dsm::new(config, epoch, vec![0; words])?;
        let machine = Machine::new(ports, outboxes, vector, base, pages);
        let lost = machine.lost.clone();
        let (instructions, told) = ([Instruction::default(); MAX_CORES], [0; MAX_DOMAINS]);
        let (known, has_joined) = ([0; MAX_DOMAINS], false);
        let state = State { chip, dsm, links, machine, instructions, told, known, has_joined };
        Some(Coherence {
            base,
            index,
            epoch,
            chip,
            state: Lock::new(rank, state),
            faults: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            complained: AtomicU64::new(0),
            faulted: [const { AtomicBool::new(false) }; MAX_CORES],
            lost,
            trip: [const { AtomicU64::new(0) }; 3],
        })
    }
}

impl<P: Ports> Coherence<P> {
    /// Joins the other domains after a cold boot.
    pub fn start(&self) {
        self.join(if self.epoch.0 == 1 { Start::Founding } else { self.start_again() });
    }

    /// Joins the other domains again after a warm boot. Discards the messages that arrived while
    /// this domain was off.
    pub fn come_back(&self) {
        let mut state = self.state.lock();
        state.machine.leaving = Leaving::No;
        state.has_joined = false;
        state.drop_messages();
        drop(state);
        self.join(self.start_again());
    }

    /// Returns how this domain joins the others: as the first, if none of them is up.
    fn start_again(&self) -> Start {
        let is_up = |id| {
            let (_, now) = unpack_state(self.chip.ports.state_word(id));
            !state::has_left(now) && !state::is_over(now)
        };
        match self.chip.others().any(is_up) {
            true => Start::Join,
            false => Start::First { lost: self.chip.has_lost() },
        }
    }

    fn join(&self, start: Start) {
        let mut state = self.state.lock();
        state.chip();
        state.step(|dsm, out| dsm.start(arch::time::local_ns(), start, out));
        state.has_joined = true;
        state.be_first_if_alone(); // the others left or died since `start_again` read their states
        self.poll_locked(&mut state);
    }

    /// Gives up all pages before a power-off; no other core of this domain may run. `mend` is
    /// called after each failed attempt and must mend the lost pages that keep a home from leaving.
    /// Returns false if this domain must stay.
    pub fn leave(&self, mend: impl Fn()) -> bool {
        for _ in 0..LEAVES {
            let (mut begun, mut settled) = (Err(LeaveError::Busy), u64::MAX);
            arch::attend::until(|| {
                if let Some(mut state) = self.state.try_lock() {
                    state.machine.leaving = Leaving::No;
                    state.chip();
                    // What is lost from now on counts as not handled.
                    settled = state.losses_told();
                    state.machine.lost_in_leaving = false;
                    begun = state.step(|dsm, out| dsm.leave(out));
                    self.poll_locked(&mut state);
                }
                begun != Err(LeaveError::Busy)
            });
            if begun.is_ok() && self.has_left() {
                // A claim that ends while this domain leaves may lose pages of an earlier death.
                let has_lost = self.state.lock().machine.lost_in_leaving;
                self.chip.ports.settle(if has_lost { u64::MAX } else { settled });
                return true;
            }
            mend();
        }
        false
    }

    fn has_left(&self) -> bool {
        let ended = |now: &Leaving| *now != Leaving::No;
        self.wait(|state| Some(state.machine.leaving).filter(ended)) == Leaving::Left
    }

    /// Returns the index of the shared block in the global region.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Runs `work` while no page moves. `work` gets a predicate: whether a mapping of the page
    /// table is allowed by the rights that this domain holds. It is true for all uncached mappings
    /// and those outside the shared block.
    pub fn with_pages_fixed<R>(&self, work: impl FnOnce(&dyn Fn(&Mapping) -> bool) -> R) -> R {
        let state = self.state.lock();
        let held = |leaf: &Mapping| {
            let at = leaf.phys.0.wrapping_sub(self.base.0);
            let wanted = match leaf.rights {
                Rights::Read => Hold::Read,
                _ => Hold::Write,
            };
            leaf.memory != Memory::Cached
                || at >= BLOCK
                || state.dsm.hold((at / PAGE) as Page) >= Some(wanted)
        };
        work(&held)
    }

    /// Returns the address of the shared block.
    pub fn base(&self) -> VirtAddr {
        self.base.to_virt()
    }

    fn poll_locked(&self, state: &mut Guard<'_, State<P>>) {
        self.count_invalid(state.poll(By::Other));
    }

    fn count_invalid(&self, polled: Result<(), PeerFault>) {
        if polled.is_err() {
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Handles the protocol's doorbell, which interrupted the code at `pc`.
    pub fn on_doorbell(&self, pc: u64) {
        let mut state = self.state.lock();
        let (begun, before) = (arch::cpu::clock(), state.machine.counts[1]);
        self.count_invalid(state.poll(By::Doorbell { pc }));
        let machine = &mut state.machine;
        let given = machine.counts[1] - before;
        if given > 0 {
            machine.served.0 += given;
            machine.served.1 += arch::cpu::clock().wrapping_sub(begun);
        }
    }

    /// Handles messages if there are any and the lock is free. Called by cores that wait for
    /// something.
    pub fn serve(&self) {
        if let Some(mut state) = self.state.try_lock()
            && state.has_work()
        {
            self.poll_locked(&mut state);
        }
    }

    /// Reads the chip page again, which may have changed, and polls.
    pub fn look_at_chip(&self) {
        let mut state = self.state.lock();
        state.chip();
        self.poll_locked(&mut state);
    }

    /// Ends the pins of this core, which has released a service's lock. Without a fault that waited
    /// or pinned a page it has none, and a poll that defers a revocation waits for the pins itself
    /// ([`State::tick`]). Returns a page that thrashes, if one is due to be reported: at most one
    /// per second.
    #[must_use]
    #[inline]
    pub fn released(&self) -> Option<Thrashing> {
        let core = arch::cpu::core();
        self.faulted[core.index()].load(Ordering::Relaxed).then(|| self.end_pins(core))?
    }

    #[cold]
    #[inline(never)]
    fn end_pins(&self, core: CoreId) -> Option<Thrashing> {
        self.faulted[core.index()].store(false, Ordering::Relaxed);
        let now = arch::time::local_ns();
        let mut state = self.state.lock();
        state.step(|dsm, out| dsm.released(now, core, out));
        let thrashing = state.machine.thrashing.take();
        drop(state);
        let (page, moves) = thrashing?;
        let last = self.complained.load(Ordering::Relaxed);
        if last != 0 && now.saturating_sub(last) <= COMPLAIN_NS {
            return None;
        }
        self.complained.store(now, Ordering::Relaxed);
        Some(Thrashing { page, moves, window: THRASH.window })
    }

    /// Returns the number of pages given up in doorbell interrupts so far, and the time that the
    /// interrupts took, in ns.
    pub fn served(&self) -> (u64, u64) {
        let (pages, ticks) = self.state.lock().machine.served;
        (pages, arch::time::to_ns(ticks, arch::cpu::clock_hz()))
    }

    /// Returns the pages of the `bytes` bytes at address `at`.
    fn pages(&self, at: usize, bytes: usize) -> Range<Page> {
        let first = (at as u64).saturating_sub(self.base().0) / PAGE;
        first as Page..PAGES.min((first + bytes as u64 / PAGE) as Page)
    }

    /// Returns false if some of the `bytes` bytes at address `at` are known to be lost. Only the
    /// home knows; other domains learn of a loss when an access fails ([`FaultOutcome::Loss`]).
    pub fn is_whole(&self, at: usize, bytes: usize) -> bool {
        !self.lost.load(Ordering::Relaxed) || self.are_whole(at, bytes)
    }

    #[cold]
    fn are_whole(&self, at: usize, bytes: usize) -> bool {
        let state = self.state.lock();
        // Only the home knows which; another kernel that becomes the home hears of each.
        let any = state.dsm.is_home() && (0..PAGES).any(|page| state.dsm.is_lost(page));
        self.lost.store(any, Ordering::Relaxed);
        !any || !self.pages(at, bytes).any(|page| state.dsm.is_lost(page))
    }

    /// Makes lost pages in the `bytes` bytes at address `at` usable again, with undefined contents.
    /// The state of their service must have been discarded.
    pub fn mend(&self, at: usize, bytes: usize) {
        let pages = self.pages(at, bytes);
        self.look_at_chip();
        self.request(|state, core| {
            let (now, count) = (arch::time::local_ns(), pages.len() as u32);
            state.step(|dsm, out| dsm.reset(now, core, pages.start, count, out))
        });
    }

    /// Returns the numbers of faults, messages sent, pages given up, pages cleaned and invalidated,
    /// reports of thrashing, and invalid messages from peers.
    pub fn counts(&self) -> [u64; 6] {
        let [sent, given, cleaned, thrashed] = self.state.lock().machine.counts;
        let faults = self.faults.load(Ordering::Relaxed);
        [faults, sent, given, cleaned, thrashed, self.broken.load(Ordering::Relaxed)]
    }
}
