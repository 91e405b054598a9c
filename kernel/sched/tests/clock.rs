//! Sleepers and the soc clock, which advances while a domain is inactive and is set again at every
//! wake; after a power-off, the local counter starts at 0. Deadlines do not change. Also a wake
//! that preempts its caller.

mod one_core;

use arch::{cpu, time};
use kernel_sched::WaitQueue;
use one_core::{here, run};
use std::time::Duration;

/// Reports (ticks, soc time).
fn report() {
    one_core::report((cpu::clock(), time::soc_time()));
}

const DEADLINE: u64 = 1_000_000;

fn sleeper(_: usize) {
    here().sleep_until(DEADLINE);
    report();
}

fn waiter(_: usize) {
    static NEVER: WaitQueue = WaitQueue::new();
    assert!(!here().wait_until(&NEVER, Some(DEADLINE), || false));
    report();
}

/// The soc clock has advanced while this domain was inactive.
fn clock_moves_ahead(_: usize) {
    time::set_offset(5_000_000);
    here().clock_changed();
}

/// The local clock turns out to be ahead of the soc clock.
fn clock_moves_back(_: usize) {
    time::set_offset(-400_000);
    here().clock_changed();
}

#[test]
fn a_deadline_that_passed_during_sleep_expires_at_once() {
    for threads in [&[sleeper as fn(usize), clock_moves_ahead], &[waiter, clock_moves_ahead]] {
        let (ticks, now) = run(threads).recv().expect("it wakes");
        assert!(ticks < DEADLINE / 2, "woke at {ticks}, long after the clock was set");
        assert!(now >= DEADLINE);
    }
}

#[test]
fn a_deadline_that_moved_away_does_not_expire_early() {
    for threads in [&[sleeper as fn(usize), clock_moves_back], &[waiter, clock_moves_back]] {
        let (ticks, now) = run(threads).recv().expect("it wakes");
        assert!(now >= DEADLINE, "woke at chip time {now}");
        assert!((DEADLINE + 400_000..DEADLINE + 500_000).contains(&ticks), "woke at {ticks}");
    }
}

static CROWDED: WaitQueue = WaitQueue::new();

/// Waits for a condition that never holds: it waits again after each wake.
fn stubborn(_: usize) {
    here().wait(&CROWDED, || false);
}

/// Each thread that it wakes runs before it does.
fn waker(_: usize) {
    for _ in 0..3 {
        here().spawn("stubborn", 6, None, stubborn, 0).expect("there is memory");
    }
    CROWDED.wake_all(here());
    report();
}

#[test]
fn a_wake_of_all_ends_though_threads_wait_again() {
    run(&[waker]).recv_timeout(Duration::from_secs(60)).expect("the caller continues");
}
