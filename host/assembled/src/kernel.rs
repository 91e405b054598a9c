//! One kernel: the parts as shipped, in a process of its own. What the image adds on a board
//! (programs, the monitor, devices, power-off) is left out; callers take the place of programs.

use crate::chip::{Broken, MINE};
use crate::raw;
use crate::turn::control;
use crate::{callers, processes, talks};
use abi::boot::Blob;
use arch::handlers::Handlers;
use arch::mmu::PageTable;
use arch::trap::TrapFrame;
use arch::types::{Fault, Interrupt};
use base::addr::{PAGE, PhysAddr};
use base::id::{CoreId, DomainId, Epoch, Life};
use base::port::Stacks;
use kernel_msg::{Refusal, Request};
use kernel_node::memory::BootFrames;
use kernel_platform::peers::Procedures;
use kernel_sched::{PRIORITY_SERVE, SpawnError};
use kernel_services::kernel::{self, Kernel};
use kernel_services::{assembly, hooks, interrupts, procedures};
use std::sync::Mutex;

static HANDLERS: Handlers = Handlers { interrupt, fault };

fn interrupt(interrupt: Interrupt, frame: &mut TrapFrame) {
    let _own = arch::hold::HandlerScope::new();
    match kernel::get() {
        Some(kernel) => {
            interrupts::serve(kernel, interrupt, frame);
            interrupts::end(kernel, interrupt);
        }
        None => interrupts::count_interrupt(interrupt),
    }
}

fn fault(frame: &mut TrapFrame, fault: Fault) {
    let _own = arch::hold::HandlerScope::new();
    if !interrupts::fault(frame, fault) {
        panic!("{fault:x?} at pc {:#x}", frame.pc());
    }
}

/// Stacks from the host, with a guard page.
struct HostStacks;

static STACKS: HostStacks = HostStacks;
static FREE: Mutex<([usize; 64], usize)> = Mutex::new(([0; 64], 0));

impl Stacks for HostStacks {
    fn allocate(&self) -> Option<usize> {
        let mut free = FREE.lock().ok()?;
        let count = free.1;
        if count == 0 {
            return Some(raw::stack());
        }
        free.1 -= 1;
        Some(free.0[count - 1])
    }

    fn release(&self, top: usize) {
        if let Ok(mut free) = FREE.lock() {
            let count = free.1;
            if let Some(place) = free.0.get_mut(count) {
                *place = top;
                free.1 += 1;
            }
        }
    }
}

struct OurProcedures;

impl Procedures for OurProcedures {
    fn urgent(
        &self,
        request: &Request,
        payload: &[u8],
        reply: &mut [u8],
    ) -> Result<usize, Refusal> {
        procedures::urgent(kernel::get().ok_or(Refusal::Refused)?, request, payload, reply)
    }

    fn blockable(&'static self, request: &Request, payload: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        procedures::blockable(kernel::get().ok_or(Refusal::Refused)?, request, payload)
    }

    fn answered(&self, _: &Request) {}

    fn stream(&self, from: DomainId, epoch: Epoch, payload: &[u8]) {
        let Some(kernel) = kernel::get() else { return };
        let is_planted = |broken: Broken| broken.is_set() && control().below(8) == 0;
        if !is_planted(Broken::Lose) {
            procedures::stream(kernel, Life { kernel: from, epoch }, payload);
        }
        if is_planted(Broken::Twice) {
            procedures::stream(kernel, Life { kernel: from, epoch }, payload);
        }
    }

    fn stream_room(&self, _: DomainId) {
        if let Some(kernel) = kernel::get() {
            procedures::stream_room(kernel);
        }
    }

    fn spawn_handler(&'static self, core: CoreId, argument: usize) -> Result<(), SpawnError> {
        let kernel = kernel::get().ok_or(SpawnError::NoMemory)?;
        let made = kernel.scheduler.spawn("handler", PRIORITY_SERVE, Some(core), handler, argument);
        made.map(|_| ())
    }
}

fn handler(argument: usize) {
    let Some(kernel) = kernel::get() else { return };
    kernel.peers.work(kernel, &OurProcedures, argument);
}

/// Bytes of local memory that its image leaves to a kernel: little, so that it soon asks for more
/// of the chip's. The home of both fs and net needs 20 MiB for their arenas, channels 2, and what
/// callers say over them 2.
const ROOM: u64 = 26 << 20;

/// Returns the memory that counts as occupied by the kernel's image.
fn image(blob: &Blob, d: usize) -> (PhysAddr, PhysAddr) {
    let start = blob.domains()[d].image_pa;
    let Some(local) = blob.local_region(start, PAGE) else { panic!("the image has no place") };
    (PhysAddr(start), PhysAddr(local.base + local.size - ROOM))
}

/// The body of a kernel's process.
pub fn run(blob: &Blob, d: usize, epoch: u64, cache: raw::File) -> ! {
    while !control().wait_for_turn(d) {}
    std::panic::set_hook(Box::new(panicked));
    MINE.start(d, blob.soc_slot, cache);
    arch::cpu::chip::install(&MINE);
    arch::trap::install(&HANDLERS);
    raw::catch_faults();
    let Ok(blob) = kernel_node::blob::read(blob.window.base) else { panic!("no valid blob") };
    let me = DomainId(d as u8);
    kernel_node::blob::set_me(me);
    let Ok(table) = PageTable::new(&BootFrames) else { panic!("no page table") };
    assembly::start_memory(blob, me, table, image(blob, d));
    raw::use_kernels_heap(true);
    arch::irq::init(blob, me);
    let Some(kernel) = assembly::assemble(blob, (me, Epoch(epoch as u16)), &STACKS, None) else {
        panic!("a part of the kernel is not in the board's uncached window");
    };
    hooks::up();
    assembly::open(kernel, &OurProcedures);
    start_callers(kernel);
    kernel.scheduler.run()
}

fn start_callers(kernel: &'static Kernel) {
    if kernel.spawn("processes", None, processes::serve, 0).is_err() {
        panic!("no memory for the thread of processes");
    }
    talks::start(kernel);
    if kernel.spawn("server", None, talks::serve, 0).is_err() {
        panic!("no memory for the thread that serves channels");
    }
    for index in 0..callers::count_of_kernel() as usize {
        if kernel.spawn("caller", None, callers::caller, index).is_err() {
            panic!("no memory for a caller");
        }
    }
}

fn panicked(info: &std::panic::PanicHookInfo<'_>) {
    raw::use_kernels_heap(false);
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let what = info.payload_as_str().unwrap_or("?");
    let backtrace = std::backtrace::Backtrace::capture();
    control().fail(&format!("a kernel panicked at {place}: {what}\n{backtrace}"));
    raw::exit(1)
}
