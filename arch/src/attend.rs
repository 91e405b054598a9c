//! The one way to wait for something that another core or domain must do.
//!
//! [`until`] runs the installed hook between two looks at the condition: it serves the DSM queue,
//! the shootdown queue and urgent messages. The hook neither allocates, nor locks, nor waits, and
//! runs with interrupts masked; that rule is what keeps two domains from deadlocking. A caller
//! that came with interrupts unmasked can be interrupted and preempted between two rounds.
//!
//! **Who waits for a [`crate::lock::Lock`] has a place in its queue already**, so it serves nothing
//! that locks: that could be the same lock, and would come behind that place for ever.

pub(crate) mod percore;

use percore::{hook, per_core};

use crate::cpu;
use crate::lock;

hook! { static WAITING: fn(Waits); }
hook! { static RELEASED: fn(); }
hook! { static STALLED: fn(); }

/// What a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// A lock: nothing that locks is served meanwhile. Whoever has it is about to release it.
    Lock,
    /// Anything else: everything is served.
    Event,
}

/// What a core knows about its waiting.
struct State {
    spent: u64,
    /// In a round of some wait: one that begins in there is part of it.
    waiting: bool,
    /// In the hook.
    inside: bool,
}

per_core! { static STATE: State = State { spent: 0, waiting: false, inside: false }; }

/// Installs what a waiting core does meanwhile; once, before a second core runs.
pub fn install(hook: fn(Waits)) {
    WAITING.set(hook);
}

/// Installs what runs when a core releases its outermost lock, interrupts still masked: messages
/// are polled there. It may lock, and it does not recur. Once, before a second core runs.
pub fn install_released(hook: fn()) {
    RELEASED.set(hook);
}

/// Installs what is done when somebody has kept a lock between domains for long: its domain may
/// have been stopped there. May wait. Once, before a second core runs.
pub fn install_stalled(hook: fn()) {
    STALLED.set(hook);
}

/// Runs the hook of [`install_stalled`].
#[cold]
#[inline(never)]
pub(crate) fn stalled() {
    if let Some(hook) = STALLED.get() {
        hook();
    }
}

/// Runs the hook of [`install_released`]; called by `lock`. A call, so that it has a name in
/// `tests/reach.toml`.
#[inline(never)]
pub(crate) fn released() {
    if let Some(hook) = RELEASED.get() {
        hook();
    }
}

/// Ticks of `cpu::clock` that this core has spent waiting, so that a measurement can subtract them;
/// of waits within waits, each tick once. A thread that moves to another core finds that core's.
pub fn spent() -> u64 {
    STATE.with(|state| state.spent)
}

/// Returns when `ready` does. In debug builds, a leaf lock held here is a violation.
#[inline]
pub fn until(mut ready: impl FnMut() -> bool) {
    lock::assert_may_wait();
    if !ready() {
        wait(Waits::Event, &mut ready);
    }
}

/// [`until`] for the locks themselves.
#[inline]
pub(crate) fn until_locked(mut ready: impl FnMut() -> bool) {
    if !ready() {
        wait(Waits::Lock, &mut ready);
    }
}

/// The same as a port.
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
        cpu::irqs_restore(on);
        if done {
            return;
        }
        cpu::relax();
    }
}

/// One run of the hook; a hook that waits after all does not recur.
fn serve(waits: Waits) {
    let Some(hook) = WAITING.get() else { return };
    if !STATE.with(|state| core::mem::replace(&mut state.inside, true)) {
        lock::apart(|| hook(waits));
        STATE.with(|state| state.inside = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_wait_within_a_wait_is_spent_once() {
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
    fn waiting_serves_with_interrupts_masked_and_never_recurs() {
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
        assert_eq!(SERVED.get(), 5, "a condition that holds costs nothing");
    }
}
