//! An address that is mapped to one memory after another, on all cores. If the image has a seeded
//! bug (`arch::seeded`), a flush of the TLB or a barrier is missing, and the sanitizer's model of
//! TLBs must report it. Without one it must report nothing.
//!
//! ```text
//! map -> all cores read -> unmap, flush -> write by another address -> map other memory -> ...
//! ```

use super::{Command, Failure, Outcome, Session, number};
use arch::lock::Lock;
use arch::mmu::PageTable;
use arch::seeded::page::store;
use arch::types::{MapError, Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::id::CoreId;
use base::port::Frames;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_node::memory::{FRAMES, TABLE};
use kernel_node::shootdown;
use kernel_services::kernel::Kernel;

pub const COMMANDS: &[Command] = &[Command {
    name: "remap",
    arguments: "[ROUNDS]",
    help: "map an address to one memory after another; all cores read it",
    run: remap,
}];

/// Above all spaces of programs.
const AT: VirtAddr = VirtAddr(0xffff_e000_0000_0000);
/// Two pages.
const ORDER: u8 = 1;
const BYTES: u64 = PAGE << ORDER;
/// What one last-level table maps.
const TABLE_BYTES: u64 = 2 << 20;
const _: () = assert!(AT.0.is_multiple_of(TABLE_BYTES));

/// The value that each core must read, and the number of wrong ones.
static EXPECTED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

const NO_MEMORY: Failure = Failure::Failed("no memory");
const NOT_MAPPED: Failure = Failure::Failed("the pages cannot be mapped or unmapped");

fn remap(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let rounds = number(arguments, 0, 3)?;
    let table = TABLE.get().ok_or(NO_MEMORY)?;
    WRONG.store(0, Ordering::Relaxed);
    for round in 0..rounds {
        let memory = [(); 2].map(|()| FRAMES.allocate(ORDER));
        let [Some(first), Some(second)] = memory else { return Err(NO_MEMORY) };
        let done = one_round(session.kernel, table, [first, second], 2 * round);
        [first, second].into_iter().for_each(|memory| FRAMES.free(memory, ORDER));
        done?;
    }
    let wrong = WRONG.load(Ordering::Relaxed);
    writeln!(out, "  mapped {} times, {wrong} wrong", 2 * rounds)?;
    if wrong == 0 { Ok(()) } else { Err(Failure::Failed("a core has read old memory")) }
}

fn one_round(
    kernel: &'static Kernel,
    table: &Lock<PageTable>,
    memory: [PhysAddr; 2],
    value: u64,
) -> Outcome {
    let [first, second] = memory;
    show(kernel, table, first, value)?;
    // Refused, unless the seeded bug is that.
    let _ = map(table, second);
    hide(table)?;
    // The memory gets another use.
    fill_all(first, u64::MAX);
    show(kernel, table, second, value + 1)?;
    hide(table)?;
    half(table, [first, second])?;
    let unlinked = table.lock().prune(AT, TABLE_BYTES).ok_or(NOT_MAPPED)?;
    shootdown::flush_all(AT, TABLE_BYTES);
    fill(unlinked, 0);
    FRAMES.free(unlinked, 0);
    Ok(())
}

/// Maps memory where its second page is in the way: nothing may be left of the first.
fn half(table: &Lock<PageTable>, [first, second]: [PhysAddr; 2]) -> Outcome {
    let one =
        |at, memory| table.lock().map(&FRAMES, at, memory, PAGE, Memory::Cached, Rights::ReadWrite);
    one(AT.plus(PAGE), second).map_err(|_| NOT_MAPPED)?;
    if map(table, first) != Err(MapError::Overlap) {
        return Err(Failure::Failed("a page was mapped over another one"));
    }
    fill_all(first, u64::MAX);
    table.lock().unmap(AT.plus(PAGE), PAGE).map_err(|_| NOT_MAPPED)?;
    flush(AT.plus(PAGE), PAGE);
    Ok(())
}

/// Flushes what `unmap` has not flushed.
fn flush(at: VirtAddr, bytes: u64) {
    if !arch::mmu::BROADCAST {
        shootdown::flush_all(at, bytes);
    }
}

/// Maps memory that contains `value`, and reads it on all cores.
fn show(kernel: &'static Kernel, table: &Lock<PageTable>, memory: PhysAddr, value: u64) -> Outcome {
    fill_all(memory, value);
    map(table, memory).map_err(|_| NOT_MAPPED)?;
    EXPECTED.store(value, Ordering::Relaxed);
    for core in 0..kernel.domain().cores as usize {
        if !shootdown::is_online(core) {
            continue;
        }
        let reader = kernel.spawn("reader", Some(CoreId(core as u8)), read, 0);
        kernel.scheduler.join(reader.map_err(|_| NO_MEMORY)?);
    }
    Ok(())
}

/// Unmaps it, and flushes it on all cores.
fn hide(table: &Lock<PageTable>) -> Outcome {
    table.lock().unmap(AT, BYTES).map_err(|_| NOT_MAPPED)?;
    flush(AT, BYTES);
    Ok(())
}

fn map(table: &Lock<PageTable>, memory: PhysAddr) -> Result<(), MapError> {
    table.lock().map(&FRAMES, AT, memory, BYTES, Memory::Cached, Rights::ReadWrite)
}

/// Writes the first word of both pages.
fn fill_all(memory: PhysAddr, value: u64) {
    (0..BYTES / PAGE).for_each(|page| fill(memory.plus(page * PAGE), value));
}

/// Writes the first word of a page, by the address in the map of all memory.
fn fill(page: PhysAddr, value: u64) {
    store(page.to_virt(), value);
}

/// Thread: reads both pages.
fn read(_: usize) {
    let expected = EXPECTED.load(Ordering::Relaxed);
    let is_wrong = |&page: &u64| arch::probe::load(AT.plus(page * PAGE).0) != Some(expected);
    let wrong = (0..BYTES / PAGE).filter(is_wrong).count();
    WRONG.fetch_add(wrong as u64, Ordering::Relaxed);
}
