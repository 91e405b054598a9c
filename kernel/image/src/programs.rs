//! Programs in this kernel: where their memory lies, what their faults come to, and the engine that
//! runs them. The concept is in `docs/design/programs.md`; who is who is in
//! `docs/design/processes.md`.
//!
//! A fault of a program comes here behind the pages that kernels share:
//! ```text
//!   in an open part of a space: its page comes, and the instruction again
//!   code of a program, anything else: a trap; wasmtime ends the program
//! ```
//! Contract: what programs are promised is there, with [`KEPT`] beside it for their kernel. Should
//! the kernel have used so much of its own that [`LAST`] is touched, pages of programs do not come
//! any more: who touches one ends for want of memory, and nobody else. What the kernel itself
//! touches for a program comes from the last, up to a bound; that program ends behind it.

mod load;
mod seam;
pub mod stack;

use crate::balloon;
use crate::kernel::Kernel;
pub use crate::memory::SPACES;
use crate::memory::{FRAMES, TABLE};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use arch::lock::Lock;
use arch::trap::TrapFrame;
use arch::types::Fault;
use base::addr::{PAGE, VirtAddr};
pub use kernel_mem::spaces::is_inside;
use kernel_mem::spaces::{self, FaultOutcome, PageSource, SpaceError};
pub use load::{Loaded, Manifest, Programs, refusal};

/// Frames that programs leave to their kernel, in bytes: for stacks of threads, its heap, what each
/// core has put by, and what private pipes hold.
const KEPT: u64 = (4 << 20) + PIPE_BYTES;
/// Most pipes that only programs of one kernel know, and what they may take of its heap.
pub const PIPES: usize = 64;
const PIPE_BYTES: u64 = (PIPES * fs::vfs::pipe::CAPACITY) as u64;
/// What is not for pages of programs.
const LAST: u64 = 2 << 20;
/// Blocks of the pool that programs leave to the kernels.
const POOL_KEPT: usize = 1;
/// How often, and after how long, who found a block on its way looks again.
const TRIES: u32 = 50;
const PAUSE_NS: u64 = 2_000_000;

/// Where memory for programs comes from.
fn memory() -> Option<PageSource<'static>> {
    Some(PageSource { table: TABLE.get()?, frames: &FRAMES })
}

/// Bytes that may still be promised.
pub fn room() -> u64 {
    // In this order: a page that comes meanwhile counts twice, not never.
    let promised = SPACES.promised();
    let free = (FRAMES.free_count() as u64 * PAGE).saturating_sub(KEPT);
    // Tables of the page table come with what they map.
    let tables = free.div_ceil(spaces::TABLE) * PAGE;
    free.saturating_sub(tables).saturating_sub(promised)
}

/// May so many bytes more be promised?
pub fn has_room(bytes: u64) -> bool {
    room() >= bytes
}

/// Takes blocks from the pool until so many bytes may be promised; with nothing to spare there it
/// asks the other kernels for blocks. From a thread without locks.
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

/// What a process takes of its kernel before it has memory of its own: its thread's stack, and what
/// is known of it.
const BEGUN: u64 = 64 << 10;

/// Is there room for one process more? Its memory it asks for itself.
pub fn has_room_to_begin() -> bool {
    if !has_room(BEGUN) {
        stack::forget();
        if let Some(kernel) = crate::kernel::get() {
            make_room(kernel, BEGUN);
        }
    }
    has_room(BEGUN)
}

/// Has the kernel hardly anything left?
fn is_short() -> bool {
    FRAMES.free_count() as u64 * PAGE < LAST
}

/// Opens `bytes` bytes at `start`; all of them are sure to be had when they are touched. Where
/// there is no room, spare stacks go, and blocks come from the pool. From a thread without locks.
fn open(start: VirtAddr, bytes: u64) -> Result<(), SpaceError> {
    match promise(start, bytes) {
        Err(SpaceError::NoMemory) => {
            stack::forget();
            if let Some(kernel) = crate::kernel::get() {
                make_room(kernel, bytes);
            }
            promise(start, bytes)
        }
        done => done,
    }
}

/// Two who find the same room must not both be promised it.
fn promise(start: VirtAddr, bytes: u64) -> Result<(), SpaceError> {
    static ONE: Lock<()> = Lock::new(crate::ranks::PROMISES, ());
    let _one = ONE.lock();
    if has_room(bytes) { SPACES.open(start, bytes) } else { Err(SpaceError::NoMemory) }
}

/// Opens them, and takes the memory now.
fn commit(start: VirtAddr, bytes: u64) -> Result<(), SpaceError> {
    open(start, bytes)?;
    SPACES.commit(start, bytes, memory().ok_or(SpaceError::NoMemory)?)
}

fn release(start: VirtAddr) {
    if let Some(from) = memory() {
        SPACES.release(start, from, &crate::shootdown::flush_all);
    }
}

/// Says for whom there is no memory any more, and sees to it that its process ends.
pub type RanShort = fn(&TrapFrame) -> Short;

/// A fault in an open part of a program's memory: its page comes, and the instruction is tried
/// again. Any context of the fault handler; waits for locks only, and who touches a program's
/// memory holds none.
#[cold]
#[inline(never)]
pub fn demand(frame: &mut TrapFrame, fault: Fault, ran_short: RanShort) -> bool {
    let Fault::Page { address, .. } = fault else { return false };
    let Some(from) = memory().filter(|_| is_inside(address)) else { return false };
    match is_short() && SPACES.is_open(address) {
        true => demand_short(frame, address, from, ran_short),
        false => SPACES.handle_fault(address, from) == FaultOutcome::Mapped,
    }
}

/// The same where there is no memory any more.
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
            // As if it had called that: what fills memory for a program holds nothing.
            frame.set_pc(way_out);
            true
        }
    }
}

/// Who touched a page for which there is no memory.
pub enum Short {
    /// The program: it traps.
    Code,
    /// Its kernel, for it: that gets the page, and the program ends behind it.
    Kernel,
    /// The same, too often for that: the program ends now, by way of this address.
    Much(u64),
}

/// A fault of a program's code, which goes on in wasmtime: that ends the program.
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

/// Has a page of program memory read, page by page, so that it is there: a step that uses it must
/// not find that there is no memory. False: there is none.
pub fn touch(bytes: &[u8]) -> bool {
    let (first, last) = (bytes.as_ptr() as u64, bytes.as_ptr() as u64 + bytes.len() as u64);
    if !is_inside(first) {
        return true;
    }
    let mut page = first & !(PAGE - 1);
    while page < last {
        if arch::probe::load(page).is_none() && !comes(page) {
            return false;
        }
        page += PAGE;
    }
    true
}

/// A page of program memory that is not there.
#[cold]
#[inline(never)]
fn comes(page: u64) -> bool {
    let demand = |from| !is_short() && SPACES.handle_fault(page, from) == FaultOutcome::Mapped;
    memory().is_some_and(demand)
}

/// Where the programs of some threads trapped last.
static TRACES: Lock<BTreeMap<usize, Vec<u64>>> = Lock::new(crate::ranks::TRACES, BTreeMap::new());

/// Return addresses of a trap, innermost first.
pub struct Trace;

impl Trace {
    /// Most frames.
    const FRAMES: usize = 24;

    fn thread() -> Option<usize> {
        Some(crate::kernel::get()?.scheduler.current().index())
    }

    /// Keeps where the calling thread's program is.
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

    /// What was kept for the calling thread.
    pub fn take() -> Vec<u64> {
        let found = Self::thread().and_then(|thread| TRACES.lock().remove(&thread));
        found.unwrap_or_default()
    }
}
