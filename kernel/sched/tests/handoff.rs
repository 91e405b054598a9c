//! A wake that is kept until its waker blocks is never lost, and interrupts are masked meanwhile.

mod one_core;

use arch::cpu;
use kernel_sched::{Handoff, ThreadId};
use one_core::{here, report, run};
use std::cell::RefCell;
use std::time::Duration;

std::thread_local!(static ASLEEP: RefCell<Vec<ThreadId>> = const { RefCell::new(Vec::new()) });
std::thread_local!(static ENDED: RefCell<u64> = const { RefCell::new(0) });

// A context stays on the host thread of its one core.
#[inline(never)]
fn asleep() -> Vec<ThreadId> {
    ASLEEP.take()
}

#[inline(never)]
fn ended() -> u64 {
    ENDED.with_borrow_mut(|count| {
        *count += 1;
        *count
    })
}

/// Blocks until it is woken.
fn sleeper(_: usize) {
    ASLEEP.with_borrow_mut(|all| all.push(here().current()));
    here().park();
    assert!(cpu::irqs_on());
    if ended() == 2 {
        report((2, 0));
    }
}

fn begun() -> Handoff<'static> {
    let mut handoff = Handoff::begin(here());
    let threads = asleep();
    assert_eq!(threads.len(), 2, "both sleep");
    threads.into_iter().for_each(|thread| handoff.wake(thread));
    assert!(!cpu::irqs_on());
    handoff
}

/// Wakes both, and does not block.
fn changes_its_mind(_: usize) {
    drop(begun());
    assert!(cpu::irqs_on());
}

/// Wakes both, and has been woken itself, so it does not block either.
fn has_a_permit(_: usize) {
    here().wake(here().current());
    begun().block();
    assert!(cpu::irqs_on());
}

/// Wakes both, and blocks forever.
fn blocks(_: usize) {
    begun().block();
}

#[test]
fn all_threads_are_woken_whatever_their_waker_does() {
    for waker in [
        &[sleeper as fn(usize), sleeper, changes_its_mind],
        &[sleeper, sleeper, has_a_permit],
        &[sleeper, sleeper, blocks],
    ] {
        let told = run(waker).recv_timeout(Duration::from_secs(60));
        assert_eq!(told, Ok((2, 0)));
    }
}

/// Wakes the thread that sleeps, and is woken by it.
fn first(_: usize) {
    for round in 0..1000 {
        let mut handoff = Handoff::begin(here());
        asleep().into_iter().for_each(|thread| handoff.wake(thread));
        ASLEEP.with_borrow_mut(|all| all.push(here().current()));
        handoff.block();
        assert_eq!(here().running_on(0), here().current(), "in round {round}");
    }
    report((1000, 0));
}

#[test]
fn two_threads_hand_the_core_to_each_other() {
    let told = run(&[first, first]).recv_timeout(Duration::from_secs(60));
    assert_eq!(told, Ok((1000, 0)));
}
