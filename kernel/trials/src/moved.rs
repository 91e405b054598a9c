//! A thread that continues on another core amid cache maintenance. With the planted bug
//! (`arch::seeded`), the old core does not complete what it has begun, and the coherence sanitizer
//! must report that a device writes lines which are still dirty.
//!
//! ```text
//! core 0:   pusher runs | this thread maintains ...   | pusher runs, this thread waits
//! core 1:   .......... pusher runs ............ | idle, continues this thread ...
//! ```
//! A *pusher* on each core runs at a higher priority than this thread, in turn with the others. It
//! starts a little before the one before it ends, so that the thread that it interrupts waits for a
//! core when that one becomes free.

use super::{Command, Failure, Outcome, Session};
use abi::dma::MAX_BYTES;
use base::id::CoreId;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};
use dma::Transfer;
use kernel_sched::PRIORITY_SERVE;
use kernel_services::kernel;
use kernel_services::transfers::{self, Buffer};

pub const COMMANDS: &[Command] = &[Command {
    name: "moved",
    arguments: "",
    help: "cache maintenance by a thread that is moved to another core meanwhile",
    run: moved,
}];

const BYTES: u64 = 64 << 10;
/// How long a pusher runs alone, and how much longer while the next one runs already, in ns.
const TURN: u64 = 20_000_000;
const OVERLAP: u64 = 2_000_000;
/// How often the thread must be moved, and the most attempts at that.
const MOVES: u64 = 10;
const ROUNDS: u64 = 10_000;

const _: () = assert!(BYTES <= MAX_BYTES);

static ENDS: AtomicBool = AtomicBool::new(false);

fn moved(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let mut buffer = Buffer::new(BYTES as usize).ok_or(Failure::Failed("no memory"))?;
    let fill = Transfer::fill(u64::MAX, buffer.address().0, BYTES);
    ENDS.store(false, Ordering::Relaxed);
    let pushers: alloc::vec::Vec<_> = (0..kernel.domain().cores)
        .map_while(|core| {
            let core = CoreId(core as u8);
            let argument = usize::from(core.0);
            kernel.scheduler.spawn("pusher", PRIORITY_SERVE, Some(core), pusher, argument).ok()
        })
        .collect();
    let (mut moves, mut wrong) = (0, 0);
    for _ in 0..ROUNDS {
        buffer.clear();
        let before = arch::cpu::core();
        buffer.hand_over();
        moves += u64::from(arch::cpu::core() != before);
        let filled = transfers::transfer(session, &mut [fill]);
        buffer.take_back();
        let is_full = buffer.words().all(|word| word.load(Ordering::Relaxed) == u64::MAX);
        wrong += u64::from(filled.is_err() || !is_full);
        if moves == MOVES {
            break;
        }
    }
    ENDS.store(true, Ordering::Relaxed);
    pushers.into_iter().for_each(|pusher| kernel.scheduler.join(pusher));
    writeln!(out, "  moved {moves} times, {wrong} wrong")?;
    if wrong == 0 { Ok(()) } else { Err(Failure::Failed("not everything was filled")) }
}

/// The pusher of core `me`.
fn pusher(me: usize) {
    let Some(kernel) = kernel::get() else { return };
    let cores = u64::from(kernel.domain().cores);
    while !ENDS.load(Ordering::Relaxed) {
        let now = arch::time::soc_time();
        let turn = now / TURN;
        if turn % cores == me as u64 {
            let end = (turn + 1) * TURN + OVERLAP;
            while arch::time::soc_time() < end {
                core::hint::spin_loop();
            }
        }
        let turn = arch::time::soc_time() / TURN;
        let wait = (me as u64 + cores - turn % cores) % cores;
        kernel.scheduler.sleep_until((turn + wait) * TURN);
    }
}
