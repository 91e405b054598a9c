//! The one door to the machine. Everything below is the **contract**: each ISA directory exports
//! exactly these names (checked in `contract.rs`), nothing outside this crate contains asm or
//! `cfg(target_arch)`. Types are in [`types`].
//!
//! Neutral, written once here:
//! - [`attend`]  the one way to wait; hook installed by image
//! - [`backtrace`]  return addresses by frame pointers, and sending a frame elsewhere (built on
//!   `imp::backtrace`)
//! - [`exclusion`]  a value that one step at a time reaches, of one kernel or of all
//! - [`hold`]    work that keeps its core, and the heap that it allocates from
//! - [`lock`]    `Lock<T>`: ticket lock, interrupts off while held, rank-checked in debug builds
//! - [`shared`]  words between domains, publish/consume, hardware spinlocks (built on `imp::words`)
//! - `probe`     accesses that may fault and come back; boards only (asm in each ISA's `probe.rs`)
//! - [`rescue`]  work that is given up when memory it needs is lost (asm in each ISA's `rescue.rs`)
//! - `seeded`  planted bugs, in kernels that are built for the sanitizer's tests only
//! - [`time`]    soc_time = local clock + calibrated offset, never running backwards
//!
//! Per ISA (`aarch64/`, `riscv64/`, `host/`), with the same names and signatures:
//!
//! ```text
//! cpu:      core() -> CoreId                     this core's index in its domain
//!   irqs_off() -> bool                   masks interrupts, returns whether they were on
//!   irqs_restore(on: bool)
//!   irqs_on() -> bool                    are they unmasked?
//!   wait()                               WFI with interrupts masked; returns when one pends
//!   relax()                              in spin loops
//!   halt() -> !                          masked, for ever, in WFI
//!   set_local(ptr: usize), local()->usize  the core's own word (kernel's per-core struct)
//!   clock() -> u64, clock_hz() -> u64    the local counter, raw ticks
//!   clock_ns() -> u64                    the same in ns
//!   ISA: u32                             abi::boot::isa
//! context:  struct Context                       callee-saved registers incl. FP, sp, pc
//!   Context::empty(), unsafe Context::new(stack_top: usize, entry: extern "C" fn(usize) -> !,
//!       arg: usize)
//!   unsafe extern "C" switch(from: *mut Context, to: *const Context)     interrupts masked
//!   unsafe extern "C" on_stack(top: usize, entry: extern "C" fn(usize), arg: usize)
//!        calls `entry(arg)` on another stack, and comes back
//! trap:     struct TrapFrame                     all registers at an exception, FP included
//!     pc() set_pc(u64) sp() set_sp(u64) fp() cause() address()  and Display (a register dump)
//!     call(target: u64, [u64; 4])     goes on as if `target` were called with these; no return
//!   enum Interrupt { Timer, Core(u8), Doorbell(Vector), None }   (in trap_types.rs, neutral)
//!   enum Access { Read, Write, Execute }; enum Fault { Page{address,access}, Illegal,
//!       Breakpoint, Unaligned{address}, Other(u64) }
//!   struct Handlers { interrupt: fn(Interrupt, &mut TrapFrame),
//!       fault: fn(&mut TrapFrame, Fault) }                                          (neutral)
//!   install(handlers: &'static Handlers)     on every core, before unmasking
//!   The interrupt entry acknowledges at the controller BEFORE calling `interrupt`, and ends it
//!   there too, so a handler may switch threads and return much later. Called with interrupts
//!   masked. Stack overflow is caught: a fault with sp in a guard runs on an emergency stack.
//! irq:      init(blob: &Blob, DomainId)              on core 0: controllers and core 0's own part;
//!                                            doorbells routed to core 0, all masked
//!   init_core()                              on every other core
//!   unmask(Vector), mask(Vector)             at this domain's own controller; pending is kept
//!   send_core(CoreId, kind: u8)              0..=3: kinds of core-to-core interrupt
//! timer:    set(deadline_ticks: u64), stop()         one-shot on the local clock
//! mmu:      struct PageTable; PageTable::new(&dyn Frames) -> Result<_, MapError>
//!        its frames are zeroed here through the linear map: until `activate` they lie in the
//!       image (bss)
//!   map(&mut self, &dyn Frames, VirtAddr, PhysAddr, bytes: u64, Memory, Rights) -> Result<(),
//!       MapError>
//!        largest pages that fit (2 MiB, 1 GiB); refuses overlap, unaligned, W+X
//!   unmap(&mut self, VirtAddr, bytes) -> Result<(), MapError>   splits large pages never: whole
//!       mappings; flushes this core
//!   pages(&mut self, &dyn Frames, VirtAddr, PhysAddr, bytes, Memory) -> Result<Pages, MapError>
//!   struct Pages: set(&self, page: u64, Option<Rights>)      one store; the caller flushes
//!   prune(&mut self, VirtAddr, most: u64) -> Option<PhysAddr>    unhooks the lowest table on the
//!       way there if it is empty and can map at most `most` bytes; the caller flushes all that it
//!       could map (2 MiB or more, so that walks are forgotten too), then frees it
//!   tables() -> usize                        how many it has, each a frame
//!   walk(&self, &mut dyn FnMut(Mapping))     every leaf
//!   find(&self, VirtAddr) -> Option<Mapping>     the leaf that maps an address
//!   unsafe activate(&self)                   as the kernel's table on this core, lower half empty
//!   root() -> PhysAddr
//!   Memory { Cached, Uncached, Device }, Rights { Read, ReadWrite, ReadExecute }, Mapping,
//!       MapError: neutral (mmu_types.rs)
//!   flush(VirtAddr, bytes)                   this core's TLB;  BROADCAST: bool  flush reaches
//!       all cores of the domain
//!   DEVICE_RANGES: &[(u64 pa, u64 bytes)]    what the kernel's table must map as Device
//! cache:    clean(va: usize, bytes), invalidate(..), clean_invalidate(..), sync_code(va, bytes);
//! LINE: usize words:    unsafe load64/store64/load32/store32(ptr), barrier(), swap64(ptr, v)
//! (spinlock bank only);
//!   all #[inline(never)] #[link_section = ".text.xdomain"]
//! doorbell: init(blob: &Blob) -> Result<(), DoorbellError>    find the PCI device, BARs, MSI-X;
//! all vectors
//!   ring(slot: u32, vector: u32)
//! smp:      start(core: CoreId, entry: extern "C" fn(usize) -> !, stack_top: usize, arg: usize,
//! root: PhysAddr) -> Result<(), StartError> power:    suspend(save: &mut Resume, off: &mut dyn
//! FnMut(warm_entry_pa: u64))
//!       saves the core's state, calls `off` (asks the soc, then waits for ever); returns after a
//!       warm
//!       boot through the stub with MMU, vectors and stack as before (controllers need
//!       `irq::init` again);
//!       returns as well when `off` does. Core 0 only, the others are off; Resume::empty() is const
//!   cpu_off() -> !                           this core (never core 0), until smp::start
//! program:  called::<C: Called>() -> u64      address of what code of programs calls as an import,
//!       with nothing of wasmtime's in between: `C::call` (types.rs)
//! early:    put(byte: u8)                            this domain's own UART, polled; the early log
//! backtrace: fp() -> u64                     the caller's frame pointer
//!   record(fp: u64, of_program: bool) -> u64   where a frame has its caller's pointer and the
//!       return address; of_program: of code that Cranelift made
//!   is_readable(va: u64) -> bool             may this core read there, by the table it uses?
//! image:    layout() -> ImageLayout {text, rodata, data, bss.. start/end VAs from linker
//! symbols}  (neutral type)
//!   staging_pa() -> u64                      where this image was staged (its symbols are there)
//! entry:    the kernel's `_start`: boot page table for the image's own region only (cacheable,
//! no alias)
//!   + UART, the blob's and the staging area's 16 MiB blocks (uncached, read-only),
//!   MMU and FPU on, stack, then `extern "Rust" fn kernel_main(blob_pa: u64, domain: u64, epoch:
//!       u64) -> !`
//! ```
#![cfg_attr(target_os = "none", no_std)]

use arch_copy as _;

pub mod attend;
pub mod backtrace;
pub mod exclusion;
pub mod hold;
pub mod lock;
#[cfg(target_os = "none")]
pub mod probe;
pub mod rescue;
#[cfg(feature = "seeded")]
pub mod seeded;
pub mod shared;
pub mod time;
pub mod types;

mod contract;

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
#[path = "aarch64/mod.rs"]
mod imp;
#[cfg(all(target_os = "none", target_arch = "riscv64"))]
#[path = "riscv64/mod.rs"]
mod imp;
#[cfg(not(target_os = "none"))]
#[path = "host/mod.rs"]
mod imp;

#[cfg(not(feature = "seeded"))]
pub use imp::cache;
#[cfg(feature = "seeded")]
pub use seeded::cache;

pub use imp::{
    context, cpu, doorbell, early, image, irq, mmu, power, program, smp, timer, trap, words,
};
