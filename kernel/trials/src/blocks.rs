//! Measures frames and blocks: `bench balloon` in work of this core, `bench balloon-soc` in chip
//! time, which is meaningful in the lab.
//!
//! Frames are allocated and freed at random, after a warm-up, and are not zeroed. Blocks are taken
//! and returned with 0, 25 and 75 % of them in use by movable pages, whose contents are checked
//! afterwards.

use super::measure::{Watch, record};
use super::{Failure, Outcome};
use alloc::vec::Vec;
use base::addr::PhysAddr;
use base::port::Frames;
use base::prng::Prng;
use core::fmt::Write;
use kernel_mem::frames::span::FRAMES as BLOCK_FRAMES;
use kernel_monitor::commands::{audit, explain_balloon as explain};
use kernel_node::memory::FRAMES;
use kernel_node::movable;
use kernel_platform::balloon::Balloons;
use kernel_services::kernel::Kernel;

/// Sizes that are allocated: names and orders.
const SIZES: [(&str, u8); 3] = [("4k", 0), ("256k", 6), ("1m", 8)];
/// Percentages of a block that are in use when it is returned.
const SHARES: [u64; 3] = [0, 25, 75];
/// Most chunks, and most frames in them, that are allocated at once: more than a core's frame
/// cache holds, and half of the memory of a small kernel.
const OUT: u64 = 256;
const OUT_FRAMES: u64 = 24 << 8;

/// How to measure: the clock in ns, and the names of records.
pub struct Measure {
    clock: fn() -> u64,
    /// Whether names of records contain the kernel's.
    by_kernel: bool,
}

/// This core's work, without its waits.
pub const WORK: Measure = Measure { clock: Watch::worked_ns, by_kernel: false };

/// Chip time, including waits. The records are those of K2's table 4.
pub const CHIP: Measure = Measure { clock: arch::time::soc_time, by_kernel: true };

/// Total time and number of operations.
#[derive(Clone, Copy, Default)]
struct Cost {
    total: u64,
    times: u64,
}

impl Cost {
    fn add(&mut self, ns: u64) {
        self.total += ns;
        self.times += 1;
    }
}

/// Measures `rounds` allocations and frees of each size, and up to 16 transfers of blocks.
pub fn bench(kernel: &'static Kernel, out: &mut dyn Write, rounds: u64, by: &Measure) -> Outcome {
    for (size, order) in SIZES {
        let (allocating, freeing) = churn(order, rounds, by)?;
        if by.by_kernel {
            let me = abi::boot::text(&kernel.domain().name);
            say(out, format_args!("k2.t4.{me}_{size}"), allocating)?;
        } else {
            say(out, format_args!("memory.alloc_{size}"), allocating)?;
            say(out, format_args!("memory.free_{size}"), freeing)?;
        }
    }
    let balloons = kernel.balloons.as_ref();
    let balloons = balloons.ok_or(Failure::Failed("this board has no memory to share"))?;
    for percent in SHARES {
        let times = (rounds / 8).clamp(1, 16);
        let (deflating, inflating) = blocks(kernel, balloons, percent, times, by)?;
        tell_blocks(kernel, out, by, percent, [deflating, inflating])?;
    }
    audit(kernel, out)
}

fn tell_blocks(
    kernel: &Kernel,
    out: &mut dyn Write,
    by: &Measure,
    percent: u64,
    [deflating, inflating]: [Cost; 2],
) -> Outcome {
    let me = abi::boot::text(&kernel.domain().name);
    match (by.by_kernel, percent) {
        (true, 0) => say(out, format_args!("k2.t4.deflate_{me}"), deflating)?,
        (false, 0) => say(out, format_args!("balloon.deflate"), deflating)?,
        _ => {}
    }
    match by.by_kernel {
        true => say(out, format_args!("k2.t4.inflate{percent}_{me}"), inflating),
        false => say(out, format_args!("balloon.inflate_{percent}"), inflating),
    }
}

fn say(out: &mut dyn Write, name: core::fmt::Arguments<'_>, cost: Cost) -> Outcome {
    let mut text = kernel_node::print::Text::<40>::new();
    let fits = write!(text, "{name}").is_ok();
    let name = core::str::from_utf8(text.as_bytes()).ok().filter(|_| fits);
    let name = name.ok_or(Failure::Failed("a record's name is too long"))?;
    record(out, name, cost.total, cost.times)
}

/// Allocates and frees frames at random, after a warm-up. Returns the cost of both.
fn churn(order: u8, rounds: u64, by: &Measure) -> Result<(Cost, Cost), Failure> {
    let mut prng = Prng::new(u64::from(order));
    let count = (OUT_FRAMES >> order).min(OUT);
    let mut slots: Vec<Option<PhysAddr>> = Vec::new();
    slots.try_reserve_exact(count as usize).map_err(|_| Failure::Failed("no memory"))?;
    slots.resize(count as usize, None);
    let (mut allocating, mut freeing) = (Cost::default(), Cost::default());
    for round in 0..2 * rounds {
        let slot = &mut slots[prng.below(count) as usize];
        let start = (by.clock)();
        let cost = match slot.take() {
            Some(chunk) => {
                FRAMES.free(chunk, order);
                &mut freeing
            }
            None => {
                *slot = FRAMES.allocate(order);
                &mut allocating
            }
        };
        let took = (by.clock)().wrapping_sub(start);
        if round >= rounds {
            cost.add(took);
        }
    }
    slots.into_iter().flatten().for_each(|chunk| FRAMES.free(chunk, order));
    Ok((allocating, freeing))
}

/// Repeats `times` times: takes a block, fills `percent` of it with pages, returns it and checks
/// the pages. Returns the cost of taking and of returning.
fn blocks(
    kernel: &'static Kernel,
    balloons: &Balloons,
    percent: u64,
    times: u64,
    by: &Measure,
) -> Result<(Cost, Cost), Failure> {
    let (mut deflating, mut inflating) = (Cost::default(), Cost::default());
    let pages = BLOCK_FRAMES as u64 * percent / 100;
    for _ in 0..times {
        let start = (by.clock)();
        balloons.deflate(kernel).map_err(explain)?;
        deflating.add((by.clock)().wrapping_sub(start));
        let made = movable::fill(pages);
        let start = (by.clock)();
        let given = balloons.inflate(kernel);
        inflating.add((by.clock)().wrapping_sub(start));
        let found = movable::check();
        movable::drop_pages(made);
        let moved = given.map_err(explain)?.moved as u64;
        if (made, moved) != (pages, pages) {
            return Err(Failure::Failed("not all pages were in the block"));
        }
        if found.wrong != 0 || (found.pages as u64) < pages {
            return Err(Failure::Failed("a page that was moved is lost or wrong"));
        }
    }
    Ok((deflating, inflating))
}
