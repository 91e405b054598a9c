//! Faults in the shared block, and how a core waits for what another domain must do.
//!
//! ```text
//!   fault --> request --> ended at once, by this domain alone
//!                     \--> wait: poll the links, look at the chip page --> done, or lost
//!                            |  it lasts: tell the kernel, which wakes inactive domains
//!                            '--<--'
//! ```
//! Contract: as in the crate's documentation for the fault path. The driver's lock is not held
//! across a wait.

use super::machine::{State, wait};
use super::{BLOCK, Coherence, PAGES, Ports};
use abi::hang::{Blame, Item};
use arch::attend::Patience;
use arch::lock::Guard;
use arch::types::Fault;
use base::addr::{PAGE, VirtAddr};
use base::id::{CoreId, DomainId};
use core::sync::atomic::Ordering;
use kernel_dsm::{Access, AccessError, Page, Want};

/// A waiting core reads the chip page once in this many rounds.
const ROUNDS: u32 = 4;
/// How often it polls the links in a round.
const LOOKS: u32 = 64;
/// Rounds after which a waiting core tells its kernel that the wait lasts.
const STALLED: u32 = 64;

/// The outcome of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The page is mapped; the instruction can be retried.
    Page,
    /// The page is lost; see the crate's documentation.
    Loss,
    /// Not a load or store in the shared block.
    Other,
}

/// Times of the last fault in the shared block, in ticks of this domain's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trip {
    /// The fault handler was entered.
    pub entered: u64,
    /// The request for the page was sent.
    pub asked: u64,
    /// The wait ended.
    pub done: u64,
}

impl<P: Ports> Coherence<P> {
    /// Handles a fault of the instruction at `pc`: if it is a load or store in the shared block,
    /// requests the page and waits until it is mapped or known to be lost.
    pub fn fault(&self, pc: u64, fault: Fault) -> FaultOutcome {
        let Fault::Page { address, access, is_cached } = fault else {
            return FaultOutcome::Other;
        };
        let Some(at) = address.checked_sub(self.base().0).filter(|&at| at < BLOCK) else {
            return FaultOutcome::Other;
        };
        let want = match access {
            arch::types::Access::Read => Want::Read,
            arch::types::Access::Write => Want::Write,
            arch::types::Access::Execute => return FaultOutcome::Other,
        };
        let entered = arch::cpu::clock();
        self.faults.fetch_add(1, Ordering::Relaxed);
        let begin = |state: &mut State<P>, core: CoreId| {
            let lower = state.instructions[core.index()].faulted(pc, at, PAGE);
            let page = (lower.unwrap_or(at) / PAGE) as Page;
            let access = Access { page, crosses: lower.is_some(), want };
            let begun = state.step(|dsm, out| dsm.access(arch::time::local_ns, core, access, out));
            if state.machine.waits[core.index()] == wait::PENDING || state.dsm.has_pins(core) {
                self.faulted[core.index()].store(true, Ordering::Relaxed);
            }
            begun
        };
        let (met, asked) = self.request(begin);
        let times = [entered, asked, arch::cpu::clock()];
        self.trip.iter().zip(times).for_each(|(word, time)| word.store(time, Ordering::Relaxed));
        if !met {
            return FaultOutcome::Loss;
        }
        // Another core may have requested the page, or more rights to it, and mapped it before this
        // one faulted. Without this the instruction would fault on the same entry forever.
        if is_cached {
            arch::mmu::flush_here(VirtAddr(address));
        }
        FaultOutcome::Page
    }

    /// Returns the times of the last fault, on any core.
    pub fn trip(&self) -> Trip {
        let [entered, asked, done] = [0, 1, 2].map(|at| self.trip[at].load(Ordering::Relaxed));
        Trip { entered, asked, done }
    }

    /// Calls `begin`, which starts a request that ends with [`kernel_dsm::Effect::Complete`] for
    /// this core, and waits for that effect. Returns whether the request succeeded, and when the
    /// wait began.
    pub(super) fn request(
        &self,
        begin: impl FnOnce(&mut State<P>, CoreId) -> Result<(), AccessError>,
    ) -> (bool, u64) {
        let core = arch::cpu::core();
        let (begun, seen) = {
            let mut state = self.state.lock();
            state.machine.waits[core.index()] = wait::PENDING;
            let begun = begin(&mut state, core);
            (begun, state.machine.waits[core.index()])
        };
        let asked = arch::cpu::clock();
        let ended = || match seen {
            wait::PENDING => self.await_core(core),
            ended => ended,
        };
        (begun.is_ok() && ended() == wait::DONE, asked)
    }

    fn await_core(&self, core: CoreId) -> u64 {
        let result = |state: &State<P>| state.machine.waits[core.index()];
        self.wait(|state| Some(result(state)).filter(|&result| result != wait::PENDING))
    }

    /// Waits until `look` finds something. If that takes long, tells the kernel, which wakes all
    /// inactive domains: one of them may have the page, and only the home knows which.
    pub(super) fn wait<T>(&self, mut look: impl FnMut(&State<P>) -> Option<T>) -> T {
        let (mut found, mut rounds, mut patience) = (None, 0, Patience::default());
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
            self.lasts(&mut patience);
        }
    }

    /// This core still waits, for a page or for the end of this domain's leaving.
    #[cold]
    #[inline(never)]
    fn lasts(&self, patience: &mut Patience) {
        let awaited = self.state.lock().dsm.awaited(arch::cpu::core());
        let page = awaited.unwrap_or(PAGES);
        let suspect = match self.blame(page) {
            Some(Blame::Here) => Some(self.chip.me),
            Some(Blame::Peer(id)) => Some(DomainId(id)),
            Some(Blame::Nothing) | None => None,
        };
        patience.lasts(Item::Page(page), suspect);
    }

    /// Returns what holds up requests for `page`, or for page [`PAGES`] this domain's leaving,
    /// after all messages have been handled. `None`: another core is handling messages.
    pub fn blame(&self, page: Page) -> Option<Blame> {
        let mut state = self.state.try_lock()?;
        self.poll_locked(&mut state);
        Some(state.dsm.blame(page))
    }

    /// One round of a waiting core. No doorbell announces its grant, so it polls the links often.
    /// A fault waits with interrupts masked, so it must notice changes of the chip page, too.
    fn round(&self, state: &mut Guard<'_, State<P>>, rounds: &mut u32) {
        *rounds += 1;
        self.count_invalid(state.watch(LOOKS));
        if rounds.is_multiple_of(ROUNDS) && state.is_behind() {
            state.chip();
            self.poll_locked(state);
        }
    }
}
