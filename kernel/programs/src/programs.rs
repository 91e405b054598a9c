//! Programs in this kernel: their memory, their faults, and the engine that runs them
//! (docs/design/programs.md).
//!
//! Memory is given to programs on demand: an allocation *promises* it (opens a part of a reserved
//! address space), and a frame is allocated at the first access of each page. The fault handler
//! calls [`demand`] and [`trap`]:
//! ```text
//!   a page in an open part of a space: allocate it, repeat the instruction
//!   any other fault of a program's code: a trap; wasmtime ends the program
//! ```
//! Contract: there are enough frames for all that is promised, and [`KEPT`] more for the kernel. If
//! the kernel uses more than that, so that less than [`LAST`] is free, no pages are allocated for
//! programs any more. A program that touches one then ends; others continue. If the kernel touches
//! one on behalf of a program, it gets the page, up to a limit, and that program ends afterwards.
//!
//! - [`load`]: checks and caches programs; [`file`]: finds and reads their images
//! - [`passing`]: blocks of messages in pages of programs
//! - [`windows`]: memory that two programs share
//! - [`seam`]: the platform functions that wasmtime calls
//! - [`stack`]: stacks of programs
//! - [`preferences`]: what images say of the kernel that is to run them

mod file;
mod load;
pub mod passing;
mod preferences;
mod seam;
pub mod stack;
pub mod windows;

use crate::lights;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use arch::lock::Lock;
use arch::trap::TrapFrame;
use arch::types::{Access, Fault};
use base::addr::{PAGE, VirtAddr};
pub use file::{open_image, refusal};
pub use kernel_mem::spaces::is_inside;
use kernel_mem::spaces::{self, FaultOutcome, PageSource, Promise, SpaceError};
pub use kernel_node::memory::SPACES;
use kernel_node::memory::{FRAMES, TABLE};
use kernel_platform::balloon;
use kernel_services::kernel::Kernel;
pub use load::{Directory, Loaded, Manifest, Programs};
pub use preferences::Preferences;

/// Memory in bytes that is never promised, so that the kernel has it: for stacks of threads, the
/// heap, the cores' frame caches, and private pipes.
const KEPT: u64 = (4 << 20) + PIPE_BYTES;
/// Most private pipes, and the heap memory in bytes that they may take.
pub const PIPES: usize = 64;
const PIPE_BYTES: u64 = (PIPES * fs::vfs::pipe::CAPACITY) as u64;
/// With less free memory than this, in bytes, programs get no pages.
const LAST: u64 = 2 << 20;
/// Blocks of the pool that programs leave to the kernels.
const POOL_KEPT: usize = 1;
/// How often, and at what interval, [`make_room`] retries while another transfer of a block is in
/// progress.
const TRIES: u32 = 1000;
const PAUSE_NS: u64 = 2_000_000;

/// Returns the source of pages for programs.
fn memory() -> Option<PageSource<'static>> {
    Some(PageSource { table: TABLE.get()?, frames: &FRAMES })
}

/// Returns how many bytes may still be promised.
#[inline]
pub fn room() -> u64 {
    // Read in this order, a page that is allocated in between counts twice; in the other order, it
    // would not count at all.
    let promised = SPACES.promised();
    let free = (FRAMES.free_count() as u64 * PAGE).saturating_sub(KEPT);
    // Pages need page tables, too.
    let tables = free.div_ceil(spaces::TABLE) * PAGE;
    free.saturating_sub(tables).saturating_sub(promised)
}

/// Returns whether `bytes` bytes more may be promised.
#[inline]
pub fn has_room(bytes: u64) -> bool {
    room() >= bytes
}

/// Takes blocks from the pool until `bytes` bytes may be promised. When the pool has none to spare,
/// asks the other kernels for blocks. The caller must be a thread and hold no lock.
fn make_room(kernel: &'static Kernel, bytes: u64) {
    let Some(balloons) = &kernel.balloons else { return };
    let mut tries = 0;
    while !has_room(bytes) && tries < TRIES {
        if balloons.pool(kernel) <= POOL_KEPT && !balloons.ask_peers(kernel, &kernel.peers) {
            return;
        }
        match balloons.deflate(kernel) {
            Ok(_) => {}
            Err(balloon::Failure::Busy) => {
                tries += 1;
                kernel.scheduler.sleep_until(arch::time::soc_time() + PAUSE_NS);
            }
            Err(balloon::Failure::Refused(_)) => return,
        }
    }
}

/// Kernel memory of a process in bytes: its thread's stack, and the kernel's records.
const BEGUN: u64 = 64 << 10;

/// Returns whether there is memory for one more process. The memory of its program is requested
/// separately.
pub fn has_room_to_begin() -> bool {
    if !has_room(BEGUN) {
        stack::forget();
        if let Some(kernel) = kernel_services::kernel::get() {
            make_room(kernel, BEGUN);
        }
    }
    has_room(BEGUN)
}

/// Returns whether so little memory is free that programs get no pages.
fn is_short() -> bool {
    FRAMES.free_count() as u64 * PAGE < LAST
}

/// Returns whether a program gets no memory for this page now. A window has its own.
fn is_refused(address: u64) -> bool {
    is_short() && SPACES.is_open(address) && !SPACES.is_foreign(address)
}

/// Opens `bytes` bytes at `start` and promises memory for them. Without enough memory it frees
/// spare stacks and takes blocks from the pool. The caller must be a thread and hold no lock.
fn open(start: VirtAddr, bytes: u64) -> Result<(), SpaceError> {
    match promise(start, bytes) {
        Err(SpaceError::NoMemory) => {
            stack::forget();
            if let Some(kernel) = kernel_services::kernel::get() {
                make_room(kernel, bytes);
                kernel_services::idle::to_program(kernel);
            }
            promise(start, bytes)
        }
        done => done,
    }
}

/// One thread at a time checks what may be promised, and promises it: two must not be promised the
/// same memory.
static PROMISES: Lock<()> = Lock::new(kernel_node::ranks::PROMISES, ());

/// Checks that there is room, and promises it.
fn promise(start: VirtAddr, bytes: u64) -> Result<(), SpaceError> {
    let _one = PROMISES.lock();
    if has_room(bytes) { SPACES.open(start, bytes) } else { Err(SpaceError::NoMemory) }
}

/// Promises memory until the result is dropped, if there is room.
fn promise_for_now(bytes: u64) -> Option<Promise<'static>> {
    let _one = PROMISES.lock();
    has_room(bytes).then(|| SPACES.promise(bytes))
}

/// Opens `bytes` bytes at `start` and allocates their pages at once.
fn commit(start: VirtAddr, bytes: u64) -> Result<(), SpaceError> {
    open(start, bytes)?;
    SPACES.commit(start, bytes, memory().ok_or(SpaceError::NoMemory)?)
}

fn release(start: VirtAddr) {
    if let Some(from) = memory() {
        SPACES.release(start, from, &kernel_node::shootdown::flush_all);
    }
}

/// Decides how the fault handler proceeds when there is no memory for a page, and makes the process
/// end.
pub type RanShort = fn(&TrapFrame) -> Short;

/// Handles a fault in an open part of a program's memory: allocates the page, so that the
/// instruction can be repeated. Returns false for other faults. It takes locks, so code that
/// touches a program's memory must hold none.
#[cold]
#[inline(never)]
pub fn demand(
    frame: &mut TrapFrame,
    fault: Fault,
    ran_short: RanShort,
    lent_is_gone: fn(&TrapFrame) -> Option<u64>,
) -> bool {
    let Fault::Page { address, access: Access::Read | Access::Write, .. } = fault else {
        return false;
    };
    let Some(from) = memory().filter(|_| is_inside(address)) else { return false };
    match is_refused(address) {
        true => demand_short(frame, address, from, ran_short),
        false => {
            SPACES.handle_fault(address, from) == FaultOutcome::Mapped
                || demand_lent(frame, VirtAddr(address), lent_is_gone)
        }
    }
}

/// [`demand`] in memory that two kernels use.
fn demand_lent(
    frame: &mut TrapFrame,
    address: VirtAddr,
    lent_is_gone: fn(&TrapFrame) -> Option<u64>,
) -> bool {
    let Some(is_mapped) = lights::fault(address) else { return false };
    if is_mapped || is_inside(frame.pc()) {
        return is_mapped;
    }
    // As below: such code holds no lock and owns nothing.
    let way_out = lent_is_gone(frame);
    if let Some(pc) = way_out {
        frame.set_pc(pc);
    }
    way_out.is_some()
}

/// [`demand`] when memory is short.
#[cold]
#[inline(never)]
fn demand_short(
    frame: &mut TrapFrame,
    address: u64,
    from: PageSource<'_>,
    ran_short: RanShort,
) -> bool {
    match ran_short(frame) {
        Short::Code => false,
        Short::Kernel => SPACES.handle_fault(address, from) == FaultOutcome::Mapped,
        Short::Much(way_out) => {
            // Safe, because code that fills memory for a program holds no lock and owns nothing.
            frame.set_pc(way_out);
            true
        }
    }
}

/// What happens after an access to a page that there is no memory for.
pub enum Short {
    /// The program's code made it: the program traps.
    Code,
    /// The kernel made it, on the program's behalf: the kernel gets the page, and the program ends
    /// afterwards.
    Kernel,
    /// As `Kernel`, but too often: execution continues at this address, which ends the program.
    Much(u64),
}

/// Handles a fault of a program's code: the interrupted code continues in wasmtime, which ends the
/// program. Returns false if the fault is not a program's.
#[inline]
pub fn trap(frame: &mut TrapFrame, fault: Fault) -> bool {
    if !is_inside(frame.pc()) {
        return false;
    }
    let address = match fault {
        Fault::Page { address, .. } => Some(address),
        _ => None,
    };
    let arguments =
        [frame.pc(), frame.fp(), u64::from(address.is_some()), address.unwrap_or_default()];
    frame.call(seam::trapped as *const () as u64, arguments);
    true
}

/// Makes sure that all pages of `bytes` are allocated, if that is program memory, so that a step of
/// a service can use them without a fault. Returns false without memory.
pub fn touch(bytes: &[u8]) -> bool {
    touch_range(bytes.as_ptr() as u64, bytes.len() as u64)
}

/// The same for a range of addresses.
fn touch_range(first: u64, bytes: u64) -> bool {
    let last = first + bytes;
    if !is_inside(first) {
        return true;
    }
    let mut page = first & !(PAGE - 1);
    while page < last {
        // While a window changes, its pages are missing for a moment.
        while arch::probe::load(page).is_none() {
            if !allocate_page(page) {
                return false;
            }
        }
        page += PAGE;
    }
    true
}

/// Allocates a page of program memory. Returns false without memory, or if the page is not open.
#[cold]
#[inline(never)]
fn allocate_page(page: u64) -> bool {
    let demand = |from| SPACES.handle_fault(page, from) == FaultOutcome::Mapped;
    !is_refused(page) && memory().is_some_and(demand) || lights::fault(VirtAddr(page)) == Some(true)
}

/// Backtraces of programs that trapped, by thread, until they are taken.
static TRACES: Lock<BTreeMap<usize, Vec<u64>>> =
    Lock::new(kernel_node::ranks::TRACES, BTreeMap::new());

/// Backtraces of traps: the addresses in the program, innermost first.
pub struct Trace;

impl Trace {
    /// Most frames that are recorded.
    const FRAMES: usize = 24;

    fn thread() -> Option<usize> {
        Some(kernel_services::kernel::get()?.scheduler.current().index())
    }

    /// Records the backtrace of the calling thread's program.
    fn note(pc: u64, fp: u64) {
        let mut frames = Vec::with_capacity(Self::FRAMES);
        frames.push(pc);
        arch::backtrace::frames((pc, fp), &is_inside, &mut |pc| {
            if frames.len() < Self::FRAMES && is_inside(pc) {
                frames.push(pc);
            }
        });
        if let Some(thread) = Self::thread() {
            let before = TRACES.lock().insert(thread, frames);
            drop(before);
        }
    }

    /// Removes and returns what was recorded for the calling thread.
    pub fn take() -> Vec<u64> {
        let found = Self::thread().and_then(|thread| TRACES.lock().remove(&thread));
        found.unwrap_or_default()
    }
}
