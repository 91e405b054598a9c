//! Memory that kernels share: the protocol of `kernel_dsm` meets page table, caches and doorbells.
//!
//! ```text
//!   a load or store faults --> access --> Complete here, or Get to the home
//!                                              |  waits, attending: serves others meanwhile
//!   a doorbell, or a waiting core --> poll --> Grant: mapped, the access continues
//!                                         \--> Revoke: unmapped, flushed, cleaned, answered
//! ```
//! The fault path runs with interrupts masked on whatever stack faulted, allocates nothing, and
//! takes one leaf lock, which is never held across a wait. A waiting core takes it by `try_lock`.
//!
//! A page that goes is unmapped first and cleaned then, through a second mapping that is uncached,
//! and never read or written through: caches are maintained by physical line, and a mapping that
//! caches could bring lines back.
//!
//! A page that died with its kernel faults until its service has had it mended.
//!
//! What it needs of its kernel are [`Ports`]; the protocol itself is pure, and elsewhere.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod board;
mod machine;
mod ports;
#[cfg(test)]
mod tests;

use abi::boot::{BLOCK, MAX_CORES, MAX_DOMAINS};
use abi::soc::{state, unpack_state};
use alloc::vec;
use arch::lock::{Guard, Lock, Rank};
use arch::types::{Fault, Mapping, Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::id::{CoreId, Epoch};
use board::{Block, Links};
pub use board::{new, place};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_dsm::instruction::Instruction;
use kernel_dsm::types::LeaveError;
use kernel_dsm::{Access, AccessError, Config, Dsm, Hold, Page, PeerFault, Start, Want};
use machine::{By, Chip, Leaving, Machine, State, wait};
pub use ports::Ports;

/// Pages of the shared block.
const PAGES: u32 = (BLOCK / PAGE) as u32;
/// How long a granted page stays at least, and at most.
const HOLD_NS: u64 = 2_000;
const LIMIT_NS: u64 = 50_000;
/// A page that moves so often within so many ns is reported.
const THRASH: kernel_dsm::thrash::Limit =
    kernel_dsm::thrash::Limit { moves: 200, window: 10_000_000 };
/// Between two complaints.
const COMPLAIN_NS: u64 = 1_000_000_000;
/// Rounds of a waiting core between two looks at the chip page.
const ROUNDS: u32 = 4;
/// Looks at the links in such a round.
const LOOKS: u32 = 64;
/// Rounds after which the kernels that could end the wait are assumed to be stopped.
const STALLED: u32 = 64;
/// How often a domain that is to leave has lost pages mended first.
const LEAVES: usize = 4;

impl Thrashing {
    /// Where the page begins in the block.
    pub fn offset(&self) -> u64 {
        u64::from(self.page) * PAGE
    }
}

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// The page is here now.
    Page,
    /// It died with its kernel.
    Loss,
    /// It is none of these.
    Other,
}

/// When the last fault here entered, asked for its page, and had it: ticks of this domain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trip {
    /// The fault handler was entered.
    pub entered: u64,
    /// The page was asked for.
    pub asked: u64,
    /// It was there.
    pub done: u64,
}

/// A page that kernels take from each other all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thrashing {
    /// Its number in the shared block.
    pub page: Page,
    /// How often it moved within so many ns.
    pub moves: u32,
    /// See there.
    pub window: u64,
}

/// The shared block of this kernel.
pub struct Coherence<P: Ports> {
    base: PhysAddr,
    index: usize,
    epoch: Epoch,
    chip: Chip<P>,
    state: Lock<State<P>>,
    /// Of the whole chip, when this domain left.
    lives_over: AtomicU64,
    faults: AtomicU64,
    broken: AtomicU64,
    /// When a page was complained about last.
    complained: AtomicU64,
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
        let (instructions, told) = ([Instruction::default(); MAX_CORES], [0; MAX_DOMAINS]);
        let state = State { chip, dsm, links, machine, instructions, told };
        Some(Coherence {
            base,
            index,
            epoch,
            chip,
            state: Lock::new(rank, state),
            lives_over: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            complained: AtomicU64::new(0),
            trip: [const { AtomicU64::new(0) }; 3],
        })
    }
}

impl<P: Ports> Coherence<P> {
    /// Comes to the others, after a boot.
    pub fn start(&self) {
        self.come(if self.epoch.0 == 1 { Start::Founding } else { Start::Join });
    }

    /// Comes to the others again, after a power-off.
    pub fn come_back(&self) {
        let mut state = self.state.lock();
        state.machine.leaving = Leaving::No;
        state.drop_messages();
        drop(state);
        let running = |id| {
            let (_, now) = unpack_state(self.chip.ports.state_word(id));
            now != state::OFF && !state::is_over(now)
        };
        let lost = self.chip.lives_over() != self.lives_over.load(Ordering::Relaxed);
        let alone = !self.chip.others().any(running);
        self.come(if alone { Start::First { lost } } else { Start::Join });
    }

    fn come(&self, start: Start) {
        let mut state = self.state.lock();
        state.chip();
        state.step(|dsm, out| dsm.start(arch::time::local_ns(), start, out));
        self.poll_locked(&mut state);
    }

    /// Hands all pages over, before a power-off; no other core of this domain runs. What is lost
    /// is mended by `mend`. False: this domain is needed, and stays.
    pub fn leave(&self, mend: impl Fn()) -> bool {
        for _ in 0..LEAVES {
            let mut begun = Err(LeaveError::Busy);
            arch::attend::until(|| {
                if let Some(mut state) = self.state.try_lock() {
                    state.machine.leaving = Leaving::No;
                    begun = state.step(|dsm, out| dsm.leave(out));
                    self.poll_locked(&mut state);
                }
                begun != Err(LeaveError::Busy)
            });
            if begun.is_ok() && self.has_left() {
                self.lives_over.store(self.chip.lives_over(), Ordering::Relaxed);
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

    /// Index of the shared block in the global region.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Runs `work` while no page comes or goes, with a judge of mappings of the shared block: is it
    /// held like that? Others it does not mind.
    pub fn still<R>(&self, work: impl FnOnce(&dyn Fn(&Mapping) -> bool) -> R) -> R {
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

    /// The first byte of the shared block.
    pub fn base(&self) -> VirtAddr {
        self.base.to_virt()
    }

    fn poll_locked(&self, state: &mut Guard<'_, State<P>>) {
        self.judge(state.poll(By::Other));
    }

    fn judge(&self, polled: Result<(), PeerFault>) {
        if polled.is_err() {
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A doorbell of the protocol rang, and interrupted the code at `pc`.
    pub fn heard(&self, pc: u64) {
        let mut state = self.state.lock();
        let (begun, before) = (arch::cpu::clock(), state.machine.counts[1]);
        self.judge(state.poll(By::Doorbell { pc }));
        let machine = &mut state.machine;
        let given = machine.counts[1] - before;
        if given > 0 {
            machine.served.0 += given;
            machine.served.1 += arch::cpu::clock().wrapping_sub(begun);
        }
    }

    /// Between two looks of a waiting core.
    pub fn serve(&self) {
        if let Some(mut state) = self.state.try_lock()
            && state.has_work()
        {
            self.poll_locked(&mut state);
        }
    }

    /// The chip page may have changed.
    pub fn look_at_chip(&self) {
        let mut state = self.state.lock();
        state.chip();
        self.poll_locked(&mut state);
    }

    /// This core released a service: its pages may go. Answers a page that thrashes, once a second
    /// at most.
    #[must_use]
    pub fn released(&self) -> Option<Thrashing> {
        let (now, core) = (arch::time::local_ns(), arch::cpu::core());
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

    /// The instruction at `pc` cannot reach a byte of the shared block: waits for its page.
    pub fn fault(&self, pc: u64, fault: Fault) -> Met {
        let Fault::Page { address, access } = fault else { return Met::Other };
        let Some(at) = address.checked_sub(self.base().0).filter(|&at| at < BLOCK) else {
            return Met::Other;
        };
        let want = match access {
            arch::types::Access::Read => Want::Read,
            arch::types::Access::Write => Want::Write,
            arch::types::Access::Execute => return Met::Other,
        };
        let entered = arch::cpu::clock();
        self.faults.fetch_add(1, Ordering::Relaxed);
        let begin = |state: &mut State<P>, core: CoreId| {
            let lower = state.instructions[core.index()].faulted(pc, at, PAGE);
            let page = (lower.unwrap_or(at) / PAGE) as Page;
            let access = Access { page, crosses: lower.is_some(), want };
            state.step(|dsm, out| dsm.access(arch::time::local_ns, core, access, out))
        };
        let (met, asked) = self.request(begin);
        let times = [entered, asked, arch::cpu::clock()];
        self.trip.iter().zip(times).for_each(|(word, time)| word.store(time, Ordering::Relaxed));
        if met { Met::Page } else { Met::Loss }
    }

    /// Of the last fault.
    pub fn trip(&self) -> Trip {
        let [entered, asked, done] = [0, 1, 2].map(|at| self.trip[at].load(Ordering::Relaxed));
        Trip { entered, asked, done }
    }

    /// Pages given up for others so far, and the ns that took.
    pub fn served(&self) -> (u64, u64) {
        let (pages, ticks) = self.state.lock().machine.served;
        (pages, arch::time::to_ns(ticks, arch::cpu::clock_hz()))
    }

    /// Begins something that ends with a `Complete` for this core, and waits for that. Did it end
    /// well, and when did it begin to wait?
    fn request(
        &self,
        begin: impl FnOnce(&mut State<P>, CoreId) -> Result<(), AccessError>,
    ) -> (bool, u64) {
        let core = arch::cpu::core();
        let begun = {
            let mut state = self.state.lock();
            state.machine.waits[core.index()] = wait::PENDING;
            begin(&mut state, core)
        };
        let asked = arch::cpu::clock();
        (begun.is_ok() && self.await_core(core) == wait::DONE, asked)
    }

    fn await_core(&self, core: CoreId) -> u64 {
        let result = |state: &State<P>| state.machine.waits[core.index()];
        self.wait(|state| Some(result(state)).filter(|&result| result != wait::PENDING))
    }

    /// Waits until `look` finds something. Wakes all stopped kernels when that takes long: one of
    /// them may have the page, and only its home knows which.
    fn wait<T>(&self, mut look: impl FnMut(&State<P>) -> Option<T>) -> T {
        let (mut found, mut rounds) = (None, 0);
        loop {
            arch::attend::until(|| {
                if let Some(mut state) = self.state.try_lock() {
                    // Another core may have handled this message.
                    found = look(&state);
                    if found.is_none() {
                        self.round(&mut state, &mut rounds);
                        found = look(&state);
                    }
                }
                found.is_some() || rounds == STALLED
            });
            if let Some(found) = found.take() {
                return found;
            }
            rounds = 0;
            self.chip.others().for_each(|id| self.chip.ports.wake_stopped(id));
        }
    }

    /// What a waiting core does beside [`Coherence::serve`]: no doorbell announces its answer, so
    /// it looks often. Nor does one announce a change of the chip page, for a fault waits with
    /// interrupts masked.
    fn round(&self, state: &mut Guard<'_, State<P>>, rounds: &mut u32) {
        *rounds += 1;
        self.judge(state.watch(LOOKS));
        if rounds.is_multiple_of(ROUNDS) && state.is_behind() {
            state.chip();
            self.poll_locked(state);
        }
    }

    /// The pages of `bytes` bytes at `at`.
    fn pages(&self, at: usize, bytes: usize) -> Range<Page> {
        let first = (at as u64).saturating_sub(self.base().0) / PAGE;
        first as Page..PAGES.min((first + bytes as u64 / PAGE) as Page)
    }

    /// Is none of those bytes known to be lost? The home knows; others meet a loss when they
    /// touch it.
    pub fn is_whole(&self, at: usize, bytes: usize) -> bool {
        let mut state = self.state.lock();
        if !state.machine.lost || !state.dsm.is_home() {
            return true;
        }
        state.machine.lost = (0..PAGES).any(|page| state.dsm.is_lost(page));
        !self.pages(at, bytes).any(|page| state.dsm.is_lost(page))
    }

    /// Makes memory of those bytes again, of any contents: their service was discarded.
    pub fn mend(&self, at: usize, bytes: usize) {
        let pages = self.pages(at, bytes);
        self.look_at_chip();
        self.request(|state, core| {
            let (now, count) = (arch::time::local_ns(), pages.len() as u32);
            state.step(|dsm, out| dsm.reset(now, core, pages.start, count, out))
        });
    }

    /// Faults, messages, pages given up, cleaned, thrashing, sessions broken.
    pub fn counts(&self) -> [u64; 6] {
        let [sent, given, cleaned, thrashed] = self.state.lock().machine.counts;
        let faults = self.faults.load(Ordering::Relaxed);
        [faults, sent, given, cleaned, thrashed, self.broken.load(Ordering::Relaxed)]
    }
}
