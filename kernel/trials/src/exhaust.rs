//! `exhaust`: makes memory short. Allocates frames until a given amount is left, including blocks
//! that come from the pool meanwhile, and frees them again.

use super::{Command, Outcome, Session, number};
use alloc::vec::Vec;
use arch::lock::Lock;
use base::addr::{PAGE, PhysAddr};
use base::port::Frames;
use core::fmt::Write;
use kernel_node::memory::FRAMES;

pub const COMMANDS: &[Command] = &[Command {
    name: "exhaust",
    arguments: "[KIB]",
    help: "take this kernel's memory until so much is left; without a number give it back",
    run: exhaust,
}];

/// The allocated frames, with their orders.
static TAKEN: Lock<Vec<(PhysAddr, u8)>> = Lock::new(kernel_node::ranks::TEST, Vec::new());
/// Orders that are allocated, one after the other.
const ORDERS: [u8; 2] = [6, 0];
/// Number of rounds without an allocation after which no more blocks are expected from the pool,
/// and the interval of rounds.
const IDLE_LOOKS: u32 = 10;
const LOOK_NS: u64 = 20_000_000;

fn free_bytes() -> u64 {
    FRAMES.free_count() as u64 * PAGE
}

fn exhaust(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let before = core::mem::take(&mut *TAKEN.lock());
    before.iter().for_each(|&(frame, order)| FRAMES.free(frame, order));
    if !arguments.is_empty() {
        let left = number(arguments, 0, 0)? << 10;
        let (mut taken, mut idle) = (Vec::new(), 0);
        while idle < IDLE_LOOKS {
            let known = taken.len();
            ORDERS.iter().for_each(|&order| take_down_to(left, order, &mut taken));
            idle = if taken.len() == known { idle + 1 } else { 0 };
            session.kernel.scheduler.sleep_until(arch::time::soc_time() + LOOK_NS);
        }
        *TAKEN.lock() = taken;
    }
    writeln!(out, "  {} KiB are left", free_bytes() >> 10)?;
    Ok(())
}

fn take_down_to(left: u64, order: u8, taken: &mut Vec<(PhysAddr, u8)>) {
    while free_bytes() > left + (PAGE << order)
        && let Some(frame) = FRAMES.allocate(order)
    {
        taken.push((frame, order));
    }
}
