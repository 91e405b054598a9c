//! Waiting for a message of another kernel without sleep.
//!
//! Contract: a thread that waits for such a message *watches*: for [`WATCH_NS`] it takes messages
//! out of the streams itself. Its core attends meanwhile, so the peers do not ring. It is a thread
//! like others: interrupts are handled between two looks, and it stops when another one is ready.

use crate::peers::{Execute, Peers};
use arch::time::local_ns;
use kernel_node::Node;
use kernel_sched::Handoff;

/// How long a thread watches. A program on another kernel that answers at once does so in this
/// time: in the lab a short call takes less than 40 us, and 62 us if both sides sleep. A longer
/// wait costs so much time of a core that would have slept.
const WATCH_NS: u64 = 50_000;
/// Before one look in so many, interrupts are handled.
const OFTEN: u32 = 4;
/// One look in so many is for everything that may have come, and for other threads.
const SELDOM: u32 = 16;

/// Watches for a short time, for the calling thread. What comes in streams is executed by `hear`.
/// Returns whether `is_over` has returned true. Interrupts are masked then, as after
/// [`Handoff::begin`].
pub fn watch(
    (node, peers): (&Node, &Peers),
    handoff: &mut Handoff<'_>,
    hear: Execute<'_>,
    mut is_over: impl FnMut() -> bool,
) -> bool {
    let began = local_ns();
    handoff.breathe();
    let (mut round, mut has_heard): (u32, bool) = (0, false);
    loop {
        round = round.wrapping_add(1);
        // What was heard may have taken long.
        let is_seldom = round.is_multiple_of(SELDOM) || has_heard;
        let is_often = round % OFTEN == 1 || has_heard;
        if is_often {
            handoff.breathe();
            node.attendance.enter(&node.own_page);
        }
        has_heard = peers.hear_streams(hear);
        if is_seldom {
            peers.poll(node);
        }
        if (has_heard || is_seldom) && is_over() {
            return true;
        }
        let is_late = is_often && local_ns().wrapping_sub(began) > WATCH_NS;
        if is_late || is_seldom && node.scheduler.has_ready() {
            return false;
        }
        arch::cpu::relax();
    }
}
