//! Waiting for a message of another kernel without sleep.
//!
//! Contract: a thread that waits for such a message *watches*: for [`WATCH_NS`] it takes messages
//! out of the streams itself. Its core attends meanwhile, so the peers do not ring. It is a thread
//! like others: interrupts are handled between two looks, and it stops when another one is ready.

use crate::peers::{Execute, Heard, Peers, Take};
use arch::time::local_ns;
use kernel_node::Node;
use kernel_sched::Handoff;

/// How long a thread watches. A program on another kernel that answers at once does so in this
/// time: in the lab a short call takes 25 us, and took 62 us when both sides slept. A longer wait
/// costs so much time of a core that would have slept.
const WATCH_NS: u64 = 50_000;
/// After one look in so many, interrupts are handled.
const OFTEN: u32 = 4;
/// One look in so many is for everything that may have come, and for other threads.
const SELDOM: u32 = 16;

/// What a thread does before others may run.
pub type Pause<'a> = &'a mut dyn FnMut(&mut Handoff<'_>);

/// Watches for a short time, for the calling thread. What comes in streams is executed by
/// `execute`, or taken by `take` ([`Peers::hear_streams`]); `pause` is called each time before
/// interrupts are handled and other threads may run. Returns whether something was taken, or
/// `is_over` has returned true. Interrupts are masked then, as after [`Handoff::begin`].
///
/// `is_over` is asked after each look that has executed something, so `execute` need not wake this
/// thread; and else after one look in [`SELDOM`].
pub fn watch(
    (node, peers): (&Node, &Peers),
    handoff: &mut Handoff<'_>,
    (execute, take, pause): (Execute<'_>, Take<'_>, Pause<'_>),
    mut is_over: impl FnMut() -> bool,
) -> bool {
    let began = local_ns();
    node.attendance.enter(&node.own_page);
    for round in 1u32.. {
        let heard = peers.hear_streams(execute, take);
        if heard == Heard::Taken {
            return true;
        }
        // What was executed may have taken long.
        let is_seldom = round.is_multiple_of(SELDOM) || heard == Heard::Executed;
        if is_seldom {
            peers.look_at_calls(node);
            if is_over() {
                return true;
            }
        }
        if is_seldom || round.is_multiple_of(OFTEN) {
            let is_late = local_ns().wrapping_sub(began) > WATCH_NS;
            if is_late || is_seldom && node.scheduler.has_ready() {
                break;
            }
            pause(handoff);
            handoff.breathe();
            node.attendance.enter(&node.own_page);
        }
        arch::cpu::relax();
    }
    false
}
