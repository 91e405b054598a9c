//! Sleepers and the chip-wide clock: it stands still while a domain is inactive, is set anew at
//! every wake, and its local counter begins at 0 after a power-off. A deadline stays what it is.
//!
//! One core on virtual time: it jumps to the next armed timer whenever nobody can run.

use arch::cpu::machine::Machine;
use arch::types::Handlers;
use arch::{cpu, time, trap};
use base::id::CoreId;
use base::port::Stacks;
use kernel_sched::{Scheduler, WaitQueue};
use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Never freed: a thread of the host stays on them when its test has ended.
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

/// The scheduler of this core, and where its test listens.
type Here = (&'static Scheduler, Sender<(u64, u64)>);

std::thread_local!(static HERE: Cell<Option<&'static Here>> = const { Cell::new(None) });

// A context stays on the host thread of its one core, so a thread-local is that core's own.
#[inline(never)]
fn here() -> &'static Here {
    HERE.get().expect("set before anything runs")
}

/// Runs `threads` on a core of their own; what they tell comes out.
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

/// Reports (ticks, chip time) and ends the host thread's part in this.
fn tell() {
    here().1.send((cpu::clock(), time::soc_time())).expect("the test listens");
    loop {
        std::thread::park();
    }
}

const DEADLINE: u64 = 1_000_000;

fn sleeper(_: usize) {
    here().0.sleep_until(DEADLINE);
    tell();
}

fn waiter(_: usize) {
    static NEVER: WaitQueue = WaitQueue::new();
    assert!(!here().0.wait_until(&NEVER, Some(DEADLINE), || false));
    tell();
}

/// Chip time goes on without this domain by so much.
fn behind(_: usize) {
    time::set_offset(5_000_000);
    here().0.clock_changed();
}

/// The clock was ahead.
fn ahead(_: usize) {
    time::set_offset(-400_000);
    here().0.clock_changed();
}

#[test]
fn a_deadline_that_passed_meanwhile_has_come_at_once() {
    for threads in [&[sleeper as fn(usize), behind], &[waiter, behind]] {
        let (ticks, now) = run(threads).recv().expect("it wakes");
        assert!(ticks < DEADLINE / 2, "woke at {ticks}, long after the clock was set");
        assert!(now >= DEADLINE);
    }
}

#[test]
fn a_deadline_that_moved_away_is_not_early() {
    for threads in [&[sleeper as fn(usize), ahead], &[waiter, ahead]] {
        let (ticks, now) = run(threads).recv().expect("it wakes");
        assert!(now >= DEADLINE, "woke at chip time {now}");
        assert!((DEADLINE + 400_000..DEADLINE + 500_000).contains(&ticks), "woke at {ticks}");
    }
}
