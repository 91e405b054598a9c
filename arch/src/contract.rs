//! The contract of `arch`: what each ISA directory (`aarch64/`, `riscv64/`, `host/`) exports, and
//! what it promises. Each line names one item with its signature, so the compiler checks that every
//! directory has it; nothing here runs. The directories document only what is particular to them.
//!
//! Two more things belong to the contract and cannot be named here:
//! - `_start`, where the stub enters the kernel image. A boot page table maps the image's region
//!   (cacheable, without an alias), the UART, and the 16 MiB blocks of the blob and of the staging
//!   area (uncached, read-only). With the MMU and the FPU on and a stack, `_start` calls
//!   `extern "Rust" fn kernel_main(blob_pa: u64, domain: u64, epoch: u64) -> !`.
//! - the assembly of [`crate::rescue`] and `crate::probe`, in files of these names.

use core::fmt;

use abi::boot::Blob;
use base::addr::{PhysAddr, VirtAddr};
use base::id::{CoreId, DomainId, Vector};
use base::port::Frames;

use crate::handlers::Handlers;
use crate::imp;
use crate::types::*;

// cpu: the executing core.

// Index of this core in its domain.
const _: fn() -> CoreId = imp::cpu::core;
// Masks interrupts; returns whether they were unmasked. `irqs_restore(true)` unmasks them.
const _: fn() -> bool = imp::cpu::irqs_off;
const _: fn(bool) = imp::cpu::irqs_restore;
// Returns whether interrupts are unmasked.
const _: fn() -> bool = imp::cpu::irqs_on;
// Sleeps until an interrupt is pending; may return early. Interrupts are masked.
const _: fn() = imp::cpu::wait;
// A hint for spin loops.
const _: fn() = imp::cpu::relax;
// Takes the interrupts that are pending, if they are unmasked, before it returns.
const _: fn() = imp::cpu::take_interrupts;
// Sleeps forever with interrupts masked.
const _: fn() -> ! = imp::cpu::halt;
// A word of this core: the kernel keeps the pointer to its per-core structure there.
const _: fn(usize) = imp::cpu::set_local;
const _: fn() -> usize = imp::cpu::local;
// The local counter: in ticks, its frequency, and in ns.
const _: fn() -> u64 = imp::cpu::clock;
const _: fn() -> u64 = imp::cpu::clock_hz;
const _: fn() -> u64 = imp::cpu::clock_ns;
// One of `abi::boot::isa`.
const _: u32 = imp::cpu::ISA;

// context: the registers of a thread that is not running, those that calls preserve.

type Entry = extern "C" fn(usize) -> !;
type Context = imp::context::Context;
// A context for the thread that runs already; `switch` fills it.
const _: Context = Context::empty();
// `new(stack_top, entry, arg)`: a thread that will run `entry(arg)`, with interrupts masked.
const _: unsafe fn(usize, Entry, usize) -> Context = Context::new;
// `switch(from, to)`: saves the running thread in `from` and continues `to`; returns when another
// thread switches back. Interrupts are masked.
const _: unsafe extern "C" fn(*mut Context, *const Context) = imp::context::switch;
// `on_stack(top, entry, arg)`: calls `entry(arg)` on another stack and returns.
const _: unsafe extern "C" fn(usize, extern "C" fn(usize), usize) = imp::context::on_stack;

// trap: entry to the kernel's handlers.
//
// An interrupt is acknowledged and ended at the controller *before* its handler is called, with
// interrupts masked, so the handler may switch threads and return much later. The frame is on the
// interrupted thread's stack, except after a stack overflow (a fault with `sp` in a guard page),
// when it is on an emergency stack of the core.

// All registers at an exception, restored when the handler returns; `Display` dumps them.
type TrapFrame = imp::trap::TrapFrame;
const _: fn(&TrapFrame) -> u64 = TrapFrame::pc;
const _: fn(&mut TrapFrame, u64) = TrapFrame::set_pc;
const _: fn(&mut TrapFrame, u64) = TrapFrame::set_sp;
const _: fn(&TrapFrame) -> u64 = TrapFrame::sp;
// Continues as if `target` had been called with these arguments. It must not return.
const _: fn(&mut TrapFrame, u64, [u64; 4]) = TrapFrame::call;
const _: fn(&TrapFrame) -> u64 = TrapFrame::fp;
// The registers that describe the exception, as the ISA defines them.
const _: fn(&TrapFrame) -> u64 = TrapFrame::cause;
const _: fn(&TrapFrame) -> u64 = TrapFrame::address;
const _: fn(&TrapFrame, &mut fmt::Formatter<'_>) -> fmt::Result = <TrapFrame as fmt::Display>::fmt;
// On every core, before it unmasks interrupts.
const _: fn(&'static Handlers) = imp::trap::install;

// irq, timer: the interrupt controller of this domain and the timer of this core.

// On core 0, at cold and warm boot: the controller and core 0's part of it. Doorbells are routed to
// core 0, all masked.
const _: fn(&Blob, DomainId) = imp::irq::init;
// On every other core.
const _: fn() = imp::irq::init_core;
// Doorbell vectors; a masked one stays pending.
const _: fn(Vector) = imp::irq::unmask;
const _: fn(Vector) = imp::irq::mask;
// Interrupts a core (or this one) with a kind of 0 to 3; earlier stores are visible there.
const _: fn(CoreId, u8) = imp::irq::send_core;
// One-shot: interrupts this core when the counter reaches that tick, at once if it has passed.
const _: fn(u64) = imp::timer::set;
const _: fn() = imp::timer::stop;

// mmu: the kernel's page table, for the upper half; the lower half is empty. Its frames are reached
// through the linear map: before `activate` they lie in the image (bss). Only `prune` frees tables.
// The caller excludes concurrent changes.

type Table = imp::mmu::PageTable;
type Map =
    fn(&mut Table, &dyn Frames, VirtAddr, PhysAddr, u64, Memory, Rights) -> Result<(), MapError>;
const _: fn(&dyn Frames) -> Result<Table, MapError> = Table::new;
// Maps with the largest pages that fit (2 MiB, 1 GiB), all or nothing: on failure no core has seen
// any of the mapping, so nothing has to be flushed. Refuses overlap and misaligned ranges. `Rights`
// cannot express write with execute.
const _: Map = Table::map;
// Removes whole mappings that fill the range exactly (a large page is never split), all or nothing,
// and flushes the range like `flush`.
const _: fn(&mut Table, VirtAddr, u64) -> Result<(), MapError> = Table::unmap;
// Visits every leaf, by ascending address.
const _: fn(&Table, &mut dyn FnMut(Mapping)) = Table::walk;
// The leaf that maps an address.
const _: fn(&Table, VirtAddr) -> Option<Mapping> = Table::find;
// Makes it the table of this core.
const _: unsafe fn(&Table) = Table::activate;
const _: fn(&Table) -> PhysAddr = Table::root;
// `prune(virt, most)`: unlinks the lowest table on the path to `virt` if it is empty and maps at
// most `most` bytes. The caller flushes that whole range on every core (2 MiB or more, so that
// cached walks go, too) before it frees the frame.
const _: fn(&mut Table, VirtAddr, u64) -> Option<PhysAddr> = Table::prune;
// Number of its tables, one frame each.
const _: fn(&Table) -> usize = Table::tables;
// Frames pass into and out of consecutive pages, one for each place in the slice, without a flush
// between them. Only pages of 4 KiB that are cached, readable and writable pass.
// - `reserve(frames, virt, bytes)`: makes the tables that `give` needs there.
// - `take(virt, frames)`: unmaps the pages; `frames` are all `None`, and stay so where there is
//   none. Returns how many there were. The caller flushes their range before it uses a frame.
// - `give(virt, frames)`: maps the frames in free pages, and removes from the slice what it maps.
//   What remains there had no table, or its page is mapped. Returns how many it has mapped.
// - `missing(virt, pages)`: which of up to 64 consecutive pages of one table are not mapped, a bit
//   each from the lowest on; `None`: there is no table.
type Reserve = fn(&mut Table, &dyn Frames, VirtAddr, u64) -> Result<(), MapError>;
const _: Reserve = Table::reserve;
const _: fn(&mut Table, VirtAddr, &mut [Option<PhysAddr>]) -> usize = Table::take;
const _: fn(&mut Table, VirtAddr, &mut [Option<PhysAddr>]) -> usize = Table::give;
const _: fn(&Table, VirtAddr, usize) -> Option<u64> = Table::missing;
// Pages that are mapped and unmapped one by one with a single store each: their tables exist from
// the start, so `set` neither allocates nor locks. The caller of `set` excludes other callers and,
// when it takes rights away, flushes. When `set` adds rights, a TLB may keep the weaker entry: a
// core that faults because of it calls `flush_here`.
type Pages = imp::mmu::Pages;
type MakePages =
    fn(&mut Table, &dyn Frames, VirtAddr, PhysAddr, u64, Memory) -> Result<Pages, MapError>;
const _: MakePages = Table::pages;
const _: fn(&Pages, u64, Option<Rights>) = Pages::set;
// Drops a range from the TLB: of all cores of the domain with BROADCAST, else of this core only.
const _: fn(VirtAddr, u64) = imp::mmu::flush;
const _: bool = imp::mmu::BROADCAST;
// Drops a page from the TLB of this core.
const _: fn(VirtAddr) = imp::mmu::flush_here;
// Whether a TLB may cache that there is no mapping. If so, a core may fault on a page that another
// core has mapped since.
const _: bool = imp::mmu::CACHES_INVALID;
// Whether the page table allows the access that has just faulted on this core. If so, drops the
// page from its TLB, and the instruction can be repeated. Interrupts are masked.
const _: fn(VirtAddr, Access) -> bool = imp::mmu::is_spurious;
// Physical ranges (start, bytes) that the kernel must map as Device for this crate.
const _: &[(u64, u64)] = imp::mmu::DEVICE_RANGES;

// cache: maintenance of `[va, va + bytes)` to the point of coherency, complete on return.

// Writes dirty lines back.
const _: fn(usize, usize) = imp::cache::clean;
// Drops lines. Dirty data in them are lost, including those that share a line with an end of the
// range.
const _: fn(usize, usize) = imp::cache::invalidate;
// Writes dirty lines back and drops them.
const _: fn(usize, usize) = imp::cache::clean_invalidate;
// Makes instructions just written there visible to fetches of this core.
const _: fn(usize, usize) = imp::cache::sync_code;
// Completes what this core has begun: maintenance of caches and TLBs, and stores to words of other
// domains. A barrier on another core does not, so an interrupted thread may continue elsewhere only
// after this.
const _: fn() = imp::cache::complete;
// Bytes of a line.
const _: usize = imp::cache::LINE;

// words: the only accesses to memory between domains, all in the section `.text.xdomain`. A word is
// aligned, accessed whole, and has one writer.

const _: unsafe extern "C" fn(*const u64) -> u64 = imp::words::load64;
const _: unsafe extern "C" fn(*mut u64, u64) = imp::words::store64;
const _: unsafe extern "C" fn(*const u64, *mut u64, usize) = imp::words::load_all;
const _: unsafe extern "C" fn(*const u64, *mut u64, usize) = imp::words::store_all;
const _: unsafe extern "C" fn(*const u32) -> u32 = imp::words::load32;
const _: unsafe extern "C" fn(*mut u32, u32) = imp::words::store32;
// Accesses after it in the program come after it.
const _: unsafe extern "C" fn(*const u64) -> u64 = imp::words::acquire64;
// Accesses before it in the program come before it.
const _: unsafe extern "C" fn(*mut u64, u64) = imp::words::release64;
// Every domain sees accesses before the barrier before those after it.
const _: extern "C" fn() = imp::words::barrier;

// doorbell: the PCI device that interrupts other domains.

// Finds the device and routes its vectors, at cold and warm boot. Earlier doorbells are lost, so
// the caller looks at memory afterwards.
const _: fn(&Blob) -> Result<(), DoorbellError> = imp::doorbell::init;
// `ring(slot, vector)`: earlier stores are visible to that domain. No effect before `init`.
const _: fn(u32, u32) = imp::doorbell::ring;

// smp, power: starting and stopping cores, and sleep.

// `start(core, entry, stack_top, arg, root)`: starts a core, which is off, in `entry(arg)` on its
// stack and page table, with interrupts masked. The core itself calls `trap::install` and
// `irq::init_core`. One caller at a time per core.
type Start = fn(CoreId, Entry, usize, usize, PhysAddr) -> Result<(), StartError>;
const _: Start = imp::smp::start;
// State of core 0 while the domain is powered off; `suspend` fills it.
const _: imp::power::Resume = imp::power::Resume::empty();
// `suspend(save, off)`: saves core 0 and calls `off` with the physical address of the warm entry.
// `off` cleans what must survive, asks the soc to power off and waits. Returns after a warm boot
// through the stub, with MMU, vectors and stack as before, or when `off` returns. Interrupt
// controllers and doorbell need `init` again. Core 0 only, all others off.
const _: fn(&mut imp::power::Resume, &mut dyn FnMut(u64)) = imp::power::suspend;
// Stops this core (never core 0) until `smp::start`.
const _: fn() -> ! = imp::power::cpu_off;

// program: address of `C::call` for compiled code of programs, which calls it as an import, without
// any code of wasmtime in between, unless it has no result.

struct Nothing;
impl DirectImport for Nothing {
    extern "C" fn call(_: u64, _: u64, _: u64, _: u64, _: u64) -> Direct {
        Direct { result: 0, next: 0 }
    }
}
const _: fn() -> u64 = imp::program::import_address::<Nothing>;

// early, backtrace, image

// Sends a byte to the UART of this domain, polling.
const _: fn(u8) = imp::early::put;
// The frame pointer of the caller.
const _: fn() -> u64 = imp::backtrace::fp;
// `record(fp, of_program)`: address of a frame's record, which holds the caller's frame pointer and
// the return address. `of_program`: the frame is of code that Cranelift compiled.
const _: fn(u64, bool) -> u64 = imp::backtrace::record;
// Returns whether the active page table lets this core read that address.
const _: fn(u64) -> bool = imp::backtrace::is_readable;
const _: fn() -> ImageLayout = imp::image::layout;
// Where this image was staged; its symbols are there.
const _: fn() -> u64 = imp::image::staging_pa;
