//! The one way to wait for something that another core or domain must do.
//!
//! [`until`] alternates between testing its condition and running the installed hook, which serves
//! the DSM queue, the TLB shootdown queue and urgent messages. The hook runs with interrupts
//! masked, neither allocates nor waits, and takes its first lock with `try_lock`: these rules keep
//! two domains from deadlocking on each other. A caller with interrupts unmasked may be interrupted
//! and preempted between two rounds.
//!
//! **A core that waits for a [`crate::lock::Lock`] already has a ticket**, so it must not serve
//! anything that waits for a lock: a wait for the same lock would never end, because that ticket
//! comes first.

pub(crate) mod percore;
mod stall;

pub(crate) use stall::core_stalled;
pub use stall::{Patience, Stall, install_core_stalled, install_stalled};

use percore::{hook, per_core};

use core::sync::atomic::{AtomicU32, Ordering};

use crate::cpu;
use crate::hold;
use crate::order;

hook! { static WAITING: fn(Waits); }
hook! { static RELEASED: fn(); }
hook! { static SELDOM: fn(); }

/// What a core is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// A lock, whose holder is about to release it. Nothing that waits for a lock may be served.
    Lock,
    /// Anything else. Everything may be served.
    Event,
}

/// Why a core that releases its outermost lock runs the hook of [`install_released`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Messages may arrive.
    Messages = 1,
    /// Memory is short.
    Memory = 2,
}

/// The present reasons, one bit each. Until the kernel knows more, messages may arrive.
static REASONS: AtomicU32 = AtomicU32::new(Reason::Messages as u32);

const SELDOM_ROUNDS: u32 = 256;

/// Wait state of a core.
struct State {
    spent: u64,
    /// Number of rounds of all waits.
    rounds: u32,
    /// A round of some wait is in progress; a nested wait is part of it.
    waiting: bool,
    /// The hook is running.
    inside: bool,
    /// Number of waits in unpreempted work that have begun and not ended, each in an interrupt of
    /// the one before.
    waits: u32,
}

per_core! {
    static STATE: State =
        State { spent: 0, rounds: 0, waiting: false, inside: false, waits: 0 };
}

/// Installs the hook that waiting cores run. Called once, before a second core runs.
pub fn install(hook: fn(Waits)) {
    WAITING.set(hook);
}

/// Installs the hook that runs when a core releases its outermost lock, with interrupts masked,
/// while there is a [`Reason`]; it polls for messages. It may lock, and is not entered recursively.
/// It allocates from the heap of the code that had the lock, which may be a step's ([`hold`]).
/// Called once, before a second core runs.
pub fn install_released(hook: fn()) {
    RELEASED.set(hook);
}

/// Installs the hook that a waiting core runs once in [`SELDOM_ROUNDS`], under the same conditions
/// as that of [`install`], for what need not be noticed soon. Called once, before a second core
/// runs.
pub fn install_seldom(hook: fn()) {
    SELDOM.set(hook);
}

/// Begins or ends a reason to run the hook of [`install_released`].
pub fn set_reason(reason: Reason, is_given: bool) {
    match is_given {
        true => REASONS.fetch_or(reason as u32, Ordering::AcqRel),
        false => REASONS.fetch_and(!(reason as u32), Ordering::AcqRel),
    };
}

/// Returns whether there is this reason.
#[inline]
pub fn has_reason(reason: Reason) -> bool {
    REASONS.load(Ordering::Acquire) & reason as u32 != 0
}

/// Returns whether there is any reason.
#[inline]
pub(crate) fn has_reasons() -> bool {
    REASONS.load(Ordering::Relaxed) != 0
}

/// Runs the hook of [`install_released`]. Not inlined, so that `tests/reach.toml` can name it.
#[inline(never)]
pub(crate) fn released() {
    if let Some(hook) = RELEASED.get() {
        hook();
    }
}

/// Returns the ticks of `cpu::clock` that this core has spent waiting; nested waits count once. The
/// count belongs to the core: a thread that migrates sees that of its new core.
pub fn spent() -> u64 {
    STATE.with(|state| state.spent)
}

/// Returns whether this core waits in unpreempted work; for an interrupt handler: whether the
/// interrupted code does.
pub fn waits() -> bool {
    STATE.with(|state| state.waits > 0)
}

/// What this core waited for was abandoned.
pub(crate) fn end_waits() {
    STATE.with(|state| state.waits = 0);
}

/// Waits until `ready` returns true. The caller must not hold a leaf lock; debug builds check it.
#[inline]
pub fn until(mut ready: impl FnMut() -> bool) {
    order::assert_may_wait();
    if !ready() {
        wait(Waits::Event, &mut ready);
    }
}

/// [`until`] for locks.
#[inline]
pub(crate) fn until_locked(mut ready: impl FnMut() -> bool) {
    if !ready() {
        wait(Waits::Lock, &mut ready);
    }
}

/// [`until`] as a port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attending;

impl base::port::Attend for Attending {
    fn until(&self, ready: &mut dyn FnMut() -> bool) {
        until(ready);
    }
}

#[cold]
#[inline(never)]
fn wait(waits: Waits, ready: &mut dyn FnMut() -> bool) {
    // Another wait may continue on another core.
    let counts = u32::from(hold::is_held());
    STATE.with(|state| state.waits += counts);
    loop {
        let on = cpu::irqs_off();
        let outermost = !STATE.with(|state| core::mem::replace(&mut state.waiting, true));
        let from = cpu::clock();
        serve(waits);
        let done = ready();
        if outermost {
            let took = cpu::clock().wrapping_sub(from);
            STATE.with(|state| {
                state.waiting = false;
                state.spent = state.spent.wrapping_add(took);
            });
        }
        if done {
            // An abandoned wait may have ended all.
            STATE.with(|state| state.waits = state.waits.saturating_sub(counts));
        }
        cpu::irqs_restore(on);
        if done {
            return;
        }
        cpu::relax();
    }
}

/// Runs the hook once, unless it is already running: a hook that waits does not recurse.
fn serve(waits: Waits) {
    let Some(hook) = WAITING.get() else { return };
    if STATE.with(|state| core::mem::replace(&mut state.inside, true)) {
        return;
    }
    order::with_new_order(|| hook(waits));
    let seldom = STATE.with(|state| {
        state.rounds = state.rounds.wrapping_add(1);
        state.rounds.is_multiple_of(SELDOM_ROUNDS)
    });
    if seldom && let Some(hook) = SELDOM.get() {
        order::with_new_order(hook);
    }
    STATE.with(|state| state.inside = false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn nested_waits_are_counted_once() {
        let machine = cpu::machine::Machine::virtual_time();
        machine.enter(base::id::CoreId(0));
        let (before, start) = (spent(), cpu::clock());
        let mut rounds = 0;
        until(|| {
            let mut inner = 0;
            until(|| {
                machine.advance(1000);
                inner += 1;
                inner > 3
            });
            rounds += 1;
            rounds > 3
        });
        let (waited, passed) = (spent() - before, cpu::clock() - start);
        assert!(waited > 12_000 && waited <= passed, "waited {waited} of {passed}");
    }

    std::thread_local!(static SERVED: Cell<u32> = const { Cell::new(0) });

    #[test]
    fn the_hook_runs_with_interrupts_masked_and_does_not_recurse() {
        install(|_| {
            assert!(!cpu::irqs_on());
            SERVED.set(SERVED.get() + 1);
            let mut rounds = 0;
            until(|| {
                rounds += 1;
                rounds > 3
            });
        });
        cpu::irqs_restore(true);
        until(|| SERVED.get() >= 5);
        assert_eq!(SERVED.get(), 5);
        assert!(cpu::irqs_on());
        until(|| true);
        assert_eq!(SERVED.get(), 5, "a condition that already holds runs no hook");
    }
}
