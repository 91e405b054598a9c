//! Sleepers and the soc clock, which advances while a domain is inactive and is set again at every
//! wake; after a power-off, the local counter starts at 0. Deadlines do not change. Also a wake
//! that preempts its caller.
//!
//! One core on virtual time, which jumps to the next armed timer when no thread can run.

use arch::cpu::machine::Machine;
use arch::handlers::Handlers;
use arch::{cpu, time, trap};
use base::id::CoreId;
use base::port::Stacks;
use kernel_sched::{Scheduler, WaitQueue};
use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Never freed: a host thread remains on its stacks after its test has ended.
struct Leaked;

impl Stacks for Leaked {
    fn allocate(&self) -> Option<usize> {
        let stack = Box::leak(vec![0u128; 16 << 10].into_boxed_slice());
        Some(stack.as_mut_ptr_range().end as usize)
    }

    fn release(&self, _: usize) {}
}

static HANDLERS: Handlers =
    Handlers { interrupt: |interrupt, _| here().0.on_interrupt(interrupt), fault: |_, _| () };

/// The scheduler of this core, and the channel to its test.
type Here = (&'static Scheduler, Sender<(u64, u64)>);

std::thread_local!(static HERE: Cell<Option<&'static Here>> = const { Cell::new(None) });

// A context stays on the host thread of its one core, so a thread-local belongs to that core.
#[inline(never)]
fn here() -> &'static Here {
    HERE.get().expect("set before anything runs")
}

/// Runs `threads` on a core of their own and returns the channel for their reports.
fn run(threads: &'static [fn(usize)]) -> Receiver<(u64, u64)> {
    let (sender, told) = channel();
    std::thread::spawn(move || {
        Machine::virtual_time().enter(CoreId(0));
        trap::install(&HANDLERS);
        let scheduler: &Scheduler = Box::leak(Box::new(Scheduler::new(1, &Leaked, || true)));
        HERE.set(Some(Box::leak(Box::new((scheduler, sender)))));
        for thread in threads {
            scheduler.spawn("test", 5, None, *thread, 0).expect("there is memory");
        }
        scheduler.run()
    });
    told
}

/// Reports (ticks, soc time) to the test and ends this host thread's part.
fn report() {
    here().1.send((cpu::clock(), time::soc_time())).expect("the test listens");
    loop {
        std::thread::park();
    }
}

const DEADLINE: u64 = 1_000_000;

fn sleeper(_: usize) {
    here().0.sleep_until(DEADLINE);
    report();
}

fn waiter(_: usize) {
    static NEVER: WaitQueue = WaitQueue::new();
    assert!(!here().0.wait_until(&NEVER, Some(DEADLINE), || false));
    report();
}

/// The soc clock has advanced while this domain was inactive.
fn clock_moves_ahead(_: usize) {
    time::set_offset(5_000_000);
    here().0.clock_changed();
}

/// The local clock turns out to be ahead of the soc clock.
fn clock_moves_back(_: usize) {
    time::set_offset(-400_000);
    here().0.clock_changed();
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
    here().0.wait(&CROWDED, || false);
}

/// Each thread that it wakes runs before it does.
fn waker(_: usize) {
    for _ in 0..3 {
        here().0.spawn("stubborn", 6, None, stubborn, 0).expect("there is memory");
    }
    CROWDED.wake_all(here().0);
    report();
}

#[test]
fn a_wake_of_all_ends_though_threads_wait_again() {
    run(&[waker]).recv_timeout(Duration::from_secs(60)).expect("the caller continues");
}
