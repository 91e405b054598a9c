//! The contract of `lib.rs`, checked by the compiler: each line names one thing that every ISA
//! directory must export, with its signature. Nothing here runs.

use core::fmt;

use abi::boot::Blob;
use base::addr::{PhysAddr, VirtAddr};
use base::id::{CoreId, DomainId, Vector};
use base::port::Frames;

use crate::imp;
use crate::types::*;

// cpu
const _: fn() -> CoreId = imp::cpu::core;
const _: fn() -> bool = imp::cpu::irqs_off;
const _: fn(bool) = imp::cpu::irqs_restore;
const _: fn() -> bool = imp::cpu::irqs_on;
const _: fn() = imp::cpu::wait;
const _: fn() = imp::cpu::relax;
const _: fn() -> ! = imp::cpu::halt;
const _: fn(usize) = imp::cpu::set_local;
const _: fn() -> usize = imp::cpu::local;
const _: fn() -> u64 = imp::cpu::clock;
const _: fn() -> u64 = imp::cpu::clock_hz;
const _: fn() -> u64 = imp::cpu::clock_ns;
const _: u32 = imp::cpu::ISA;

// context
type Entry = extern "C" fn(usize) -> !;
type Context = imp::context::Context;
const _: Context = Context::empty();
const _: unsafe fn(usize, Entry, usize) -> Context = Context::new;
const _: unsafe extern "C" fn(*mut Context, *const Context) = imp::context::switch;
const _: unsafe extern "C" fn(usize, extern "C" fn(usize), usize) = imp::context::on_stack;

// trap
type TrapFrame = imp::trap::TrapFrame;
const _: fn(&TrapFrame) -> u64 = TrapFrame::pc;
const _: fn(&mut TrapFrame, u64) = TrapFrame::set_pc;
const _: fn(&mut TrapFrame, u64) = TrapFrame::set_sp;
const _: fn(&TrapFrame) -> u64 = TrapFrame::sp;
const _: fn(&mut TrapFrame, u64, [u64; 4]) = TrapFrame::call;
const _: fn(&TrapFrame) -> u64 = TrapFrame::fp;
const _: fn(&TrapFrame) -> u64 = TrapFrame::cause;
const _: fn(&TrapFrame) -> u64 = TrapFrame::address;
const _: fn(&TrapFrame, &mut fmt::Formatter<'_>) -> fmt::Result = <TrapFrame as fmt::Display>::fmt;
const _: fn(&'static Handlers) = imp::trap::install;

// irq, timer
const _: fn(&Blob, DomainId) = imp::irq::init;
const _: fn() = imp::irq::init_core;
const _: fn(Vector) = imp::irq::unmask;
const _: fn(Vector) = imp::irq::mask;
const _: fn(CoreId, u8) = imp::irq::send_core;
const _: fn(u64) = imp::timer::set;
const _: fn() = imp::timer::stop;

// mmu
type Table = imp::mmu::PageTable;
type Map =
    fn(&mut Table, &dyn Frames, VirtAddr, PhysAddr, u64, Memory, Rights) -> Result<(), MapError>;
const _: fn(&dyn Frames) -> Result<Table, MapError> = Table::new;
const _: Map = Table::map;
const _: fn(&mut Table, VirtAddr, u64) -> Result<(), MapError> = Table::unmap;
const _: fn(&Table, &mut dyn FnMut(Mapping)) = Table::walk;
const _: fn(&Table, VirtAddr) -> Option<Mapping> = Table::find;
const _: unsafe fn(&Table) = Table::activate;
const _: fn(&Table) -> PhysAddr = Table::root;
const _: fn(&mut Table, VirtAddr, u64) -> Option<PhysAddr> = Table::prune;
const _: fn(&Table) -> usize = Table::tables;
type Pages = imp::mmu::Pages;
type MakePages =
    fn(&mut Table, &dyn Frames, VirtAddr, PhysAddr, u64, Memory) -> Result<Pages, MapError>;
const _: MakePages = Table::pages;
const _: fn(&Pages, u64, Option<Rights>) = Pages::set;
const _: fn(VirtAddr, u64) = imp::mmu::flush;
const _: bool = imp::mmu::BROADCAST;
const _: &[(u64, u64)] = imp::mmu::DEVICE_RANGES;

// cache
const _: fn(usize, usize) = imp::cache::clean;
const _: fn(usize, usize) = imp::cache::invalidate;
const _: fn(usize, usize) = imp::cache::clean_invalidate;
const _: fn(usize, usize) = imp::cache::sync_code;
const _: usize = imp::cache::LINE;

// words
const _: unsafe extern "C" fn(*const u64) -> u64 = imp::words::load64;
const _: unsafe extern "C" fn(*mut u64, u64) = imp::words::store64;
const _: unsafe extern "C" fn(*const u32) -> u32 = imp::words::load32;
const _: unsafe extern "C" fn(*mut u32, u32) = imp::words::store32;
const _: unsafe extern "C" fn(*mut u64, u64) -> u64 = imp::words::swap64;
const _: extern "C" fn() = imp::words::barrier;

// doorbell
const _: fn(&Blob) -> Result<(), DoorbellError> = imp::doorbell::init;
const _: fn(u32, u32) = imp::doorbell::ring;

// smp, power
type Start = fn(CoreId, Entry, usize, usize, PhysAddr) -> Result<(), StartError>;
const _: Start = imp::smp::start;
const _: imp::power::Resume = imp::power::Resume::empty();
const _: fn(&mut imp::power::Resume, &mut dyn FnMut(u64)) = imp::power::suspend;
const _: fn() -> ! = imp::power::cpu_off;

// program
struct Nothing;
impl Called for Nothing {
    extern "C" fn call(_: u64, _: u64, _: u64, _: u64) -> u64 {
        0
    }
}
const _: fn() -> u64 = imp::program::called::<Nothing>;

// early, backtrace, image
const _: fn(u8) = imp::early::put;
const _: fn() -> u64 = imp::backtrace::fp;
const _: fn(u64, bool) -> u64 = imp::backtrace::record;
const _: fn(u64) -> bool = imp::backtrace::is_readable;
const _: fn() -> ImageLayout = imp::image::layout;
const _: fn() -> u64 = imp::image::staging_pa;
