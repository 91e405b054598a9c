//! `sequence`: times single operations. `pen test lab` compares the cost that the lab charges for
//! each with the board file. Outside the lab the figures are meaningless.

use super::{Command, Failure, Outcome, Session, number, pingpong, record};
use arch::domain_lock::DomainLock;
use arch::shared::Window;
use base::addr::{PAGE, VirtAddr};
use base::port::Words;
use core::fmt::Write;
use core::hint::black_box;

pub const COMMANDS: &[Command] = &[Command {
    name: "sequence",
    arguments: "[COUNT]",
    help: "time one operation of each kind, COUNT times over; prints records",
    run: sequences,
}];

/// Number of the lock that is used. (`ping-pong` uses another one.)
const LOCK: usize = 1;

/// The objects of the operations.
struct Bench {
    word: Window,
    lock: DomainLock,
    line: Line,
}

/// A cache line with nothing else in it.
#[repr(align(64))]
struct Line([u8; arch::cache::LINE]);

impl Bench {
    fn line(&self) -> usize {
        self.line.0.as_ptr().addr()
    }
}

type Operation = fn(&Bench);

/// Names and operations. The lab's check of the same name lists the parts of each.
const OPERATIONS: [(&str, Operation); 9] = [
    ("plain", |bench| {
        black_box(bench);
    }),
    ("barrier", |bench| bench.word.barrier()),
    ("clean", |bench| arch::cache::clean(bench.line(), 1)),
    ("invalidate", |bench| arch::cache::invalidate(bench.line(), 1)),
    ("tlb", |_| arch::mmu::flush(VirtAddr(0), PAGE)),
    ("exception", |_| {
        black_box(arch::probe::load(0));
    }),
    ("load", |bench| {
        black_box(bench.word.load(0));
    }),
    ("store", |bench| bench.word.store(0, 0)),
    ("lock", |bench| {
        drop(bench.lock.acquire());
    }),
];

fn sequences(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let count = number(arguments, 0, 1000)?.clamp(1, 10_000);
    let lock = DomainLock::of(kernel.blob, kernel.me, LOCK);
    let (Some(word), Some(lock)) = (pingpong::word(kernel, kernel.me, 0), lock) else {
        return Err(Failure::Failed("the window is too small"));
    };
    let bench = Bench { word, lock, line: Line([0; arch::cache::LINE]) };
    for (name, operation) in OPERATIONS {
        let ns = timed(&bench, operation, count);
        write!(out, "record sequence.{name} ")?;
        record(out, ns, count)?;
    }
    Ok(())
}

/// Returns the ns of `count` operations, with interrupts masked.
fn timed(bench: &Bench, operation: Operation, count: u64) -> u64 {
    let on = arch::cpu::irqs_off();
    let start = arch::cpu::clock();
    (0..count).for_each(|_| operation(bench));
    let ticks = arch::cpu::clock().wrapping_sub(start);
    arch::cpu::irqs_restore(on);
    arch::time::to_ns(ticks, arch::cpu::clock_hz())
}
