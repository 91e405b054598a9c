//! A scheduler with one core on virtual time, which jumps to the next armed timer when no thread
//! can run.

use arch::cpu::machine::Machine;
use arch::handlers::Handlers;
use arch::trap;
use base::id::CoreId;
use base::port::Stacks;
use kernel_sched::Scheduler;
use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};

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
    Handlers { interrupt: |interrupt, _| here().on_interrupt(interrupt), fault: |_, _| () };

/// The scheduler of this core, and the channel to its test.
type Here = (&'static Scheduler, Sender<(u64, u64)>);

std::thread_local!(static HERE: Cell<Option<&'static Here>> = const { Cell::new(None) });

// A context stays on the host thread of its one core, so a thread-local belongs to that core.
#[inline(never)]
fn this() -> &'static Here {
    HERE.get().expect("set before anything runs")
}

/// Returns the scheduler of this core.
pub fn here() -> &'static Scheduler {
    this().0
}

/// Runs `threads` on a core of their own and returns the channel for their reports.
pub fn run(threads: &'static [fn(usize)]) -> Receiver<(u64, u64)> {
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

/// Reports to the test and ends this host thread's part.
pub fn report(what: (u64, u64)) {
    this().1.send(what).expect("the test listens");
    loop {
        std::thread::park();
    }
}
