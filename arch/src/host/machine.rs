//! The chip around the cores of one simulated domain.
//!
//! A test makes a machine, and each thread that stands for one of its cores enters it. A thread
//! that enters none is core 0 of a machine of its own, in real time.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::vec::Vec;

use abi::boot::MAX_CORES;
use base::id::{CoreId, Vector};

use super::chip::chip;
use super::frame::TrapFrame;
use crate::handlers::Handlers;
use crate::types::Interrupt;

const NEVER: u64 = u64::MAX;
/// Pending bit of the timer; core-to-core kinds are bits 0 to 3.
const TIMER: u32 = 1 << 4;
/// First pending bit of the doorbell vectors.
const DOORBELL: u32 = 8;
/// Ticks by which a round of `cpu::relax` advances a virtual clock.
const RELAX: u64 = 100;

struct Core {
    pending: AtomicU32,
    deadline: AtomicU64,
}

/// Pending interrupts, timers and the clock. Ticks are ns.
pub struct Machine {
    cores: [Core; MAX_CORES],
    virtual_clock: Option<AtomicU64>,
    start: Instant,
    changed: Mutex<()>,
    wake: Condvar,
    rung: Mutex<Vec<(u32, u32)>>,
    unmasked: AtomicU32,
}

impl Machine {
    fn new(virtual_clock: Option<u64>) -> Arc<Machine> {
        let core = || Core { pending: AtomicU32::new(0), deadline: AtomicU64::new(NEVER) };
        Arc::new(Machine {
            cores: core::array::from_fn(|_| core()),
            virtual_clock: virtual_clock.map(AtomicU64::new),
            start: Instant::now(),
            changed: Mutex::new(()),
            wake: Condvar::new(),
            rung: Mutex::new(Vec::new()),
            unmasked: AtomicU32::new(0),
        })
    }

    /// A machine on the host's clock.
    pub fn real_time() -> Arc<Machine> {
        Machine::new(None)
    }

    /// A machine on a virtual clock, which [`Machine::advance`] and `cpu::relax` advance. When core
    /// 0 waits with an armed timer, the clock jumps to the deadline. For one core.
    pub fn virtual_time() -> Arc<Machine> {
        Machine::new(Some(0))
    }

    /// Makes this thread core `core` of this machine, with interrupts masked and no handlers.
    #[inline(never)]
    pub fn enter(self: &Arc<Machine>, core: CoreId) {
        HERE.with_borrow_mut(|here| *here = Some(self.clone()));
        CORE.set(core.0);
        IRQS_ON.set(false);
        HANDLERS.set(None);
    }

    /// Advances a virtual clock.
    pub fn advance(&self, ticks: u64) {
        if let Some(clock) = &self.virtual_clock {
            clock.fetch_add(ticks, Ordering::SeqCst);
        }
    }

    /// The armed deadline of `core`.
    pub fn deadline(&self, core: CoreId) -> Option<u64> {
        let deadline = self.cores[core.index()].deadline.load(Ordering::SeqCst);
        (deadline != NEVER).then_some(deadline)
    }

    /// Rings a doorbell of this domain. It is delivered to core 0 when unmasked.
    pub fn doorbell(&self, vector: Vector) {
        self.pend(CoreId(0), 1 << (DOORBELL + u32::from(vector.0)));
    }

    /// Returns what this domain has rung since the last call, as (slot, vector).
    pub fn take_rung(&self) -> Vec<(u32, u32)> {
        core::mem::take(&mut hold(&self.rung))
    }

    pub(super) fn record_ring(&self, slot: u32, vector: u32) {
        hold(&self.rung).push((slot, vector));
    }

    pub(super) fn mask(&self, vector: Vector, on: bool) {
        let bit = 1 << (DOORBELL + u32::from(vector.0));
        if on {
            self.unmasked.fetch_or(bit, Ordering::SeqCst);
        } else {
            self.unmasked.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    pub(super) fn send(&self, core: CoreId, kind: u8) {
        self.pend(core, 1 << (kind & 3));
    }

    fn pend(&self, core: CoreId, bit: u32) {
        self.cores[core.index()].pending.fetch_or(bit, Ordering::SeqCst);
        let _changed = hold(&self.changed);
        self.wake.notify_all();
    }

    pub(super) fn clock(&self) -> u64 {
        match &self.virtual_clock {
            Some(clock) => clock.load(Ordering::SeqCst),
            None => self.start.elapsed().as_nanos() as u64,
        }
    }

    pub(super) fn set_deadline(&self, deadline: u64) {
        let core = &self.cores[CORE.get() as usize];
        core.pending.fetch_and(!TIMER, Ordering::SeqCst);
        core.deadline.store(deadline, Ordering::SeqCst);
    }

    pub(super) fn relax(&self) {
        match self.virtual_clock {
            Some(_) => self.advance(RELAX),
            None => std::thread::yield_now(),
        }
    }

    /// The pending bits that `core` can take now; a deadline that has passed becomes pending.
    fn ready(&self, core: usize) -> u32 {
        let core = &self.cores[core];
        if core.deadline.load(Ordering::SeqCst) <= self.clock() {
            core.deadline.store(NEVER, Ordering::SeqCst);
            core.pending.fetch_or(TIMER, Ordering::SeqCst);
        }
        let always = (1 << DOORBELL) - 1;
        core.pending.load(Ordering::SeqCst) & (always | self.unmasked.load(Ordering::SeqCst))
    }

    /// Sleeps until an interrupt is pending.
    pub(super) fn wait(&self) {
        let core = CORE.get() as usize;
        let mut changed = hold(&self.changed);
        while self.ready(core) == 0 {
            let deadline = self.cores[core].deadline.load(Ordering::SeqCst);
            if let Some(clock) = &self.virtual_clock {
                assert!(deadline != NEVER, "core {core} waits, and nothing can wake it");
                clock.fetch_max(deadline, Ordering::SeqCst);
                continue;
            }
            let left = deadline.saturating_sub(self.clock()).min(1_000_000_000);
            let waited = self.wake.wait_timeout(changed, Duration::from_nanos(left));
            changed = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn take(&self, core: usize) -> Interrupt {
        let ready = self.ready(core);
        if ready == 0 {
            return Interrupt::None;
        }
        let bit = ready.trailing_zeros();
        self.cores[core].pending.fetch_and(!(1 << bit), Ordering::SeqCst);
        match bit {
            0..=3 => Interrupt::Core(bit as u8),
            4 => Interrupt::Timer,
            _ => Interrupt::Doorbell(Vector((bit - DOORBELL) as u8)),
        }
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

std::thread_local! {
    static HERE: RefCell<Option<Arc<Machine>>> = const { RefCell::new(None) };
    static CORE: Cell<u8> = const { Cell::new(0) };
    static IRQS_ON: Cell<bool> = const { Cell::new(false) };
    static LOCAL: Cell<usize> = const { Cell::new(0) };
    static HANDLERS: Cell<Option<&'static Handlers>> = const { Cell::new(None) };
}

// None of the functions below are inlined: a context may move to another thread in a switch, and
// the address of a thread-local must not be kept across it.

#[inline(never)]
pub fn here() -> Arc<Machine> {
    HERE.with_borrow_mut(|here| here.get_or_insert_with(Machine::real_time).clone())
}

#[inline(never)]
pub(super) fn core_index() -> CoreId {
    CoreId(CORE.get())
}

#[inline(never)]
pub(super) fn local() -> usize {
    LOCAL.get()
}

#[inline(never)]
pub(super) fn set_local(word: usize) {
    LOCAL.set(word);
}

#[inline(never)]
pub(super) fn install(handlers: &'static Handlers) {
    HANDLERS.set(Some(handlers));
}

#[inline(never)]
pub(super) fn irqs_on() -> bool {
    IRQS_ON.get()
}

#[inline(never)]
pub(super) fn set_irqs(on: bool) -> bool {
    IRQS_ON.replace(on)
}

#[inline(never)]
pub(super) fn handlers() -> Option<&'static Handlers> {
    HANDLERS.get()
}

/// Unmasks and delivers pending interrupts. A handler may switch threads; the loop then continues
/// when the interrupted thread runs again, perhaps as another core.
pub(super) fn unmask() {
    set_irqs(true);
    while let Some(handlers) = handlers() {
        let interrupt = match chip() {
            Some(chip) => chip.take(),
            None => here().take(core_index().index()),
        };
        match interrupt {
            Interrupt::None => return,
            interrupt => {
                set_irqs(false);
                (handlers.interrupt)(interrupt, &mut TrapFrame::default());
                set_irqs(true);
            }
        }
    }
}
