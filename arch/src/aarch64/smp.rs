//! Starting the domain's other cores.

use core::arch::naked_asm;
use core::cell::UnsafeCell;

use abi::boot::MAX_CORES;
use base::addr::{PhysAddr, VirtAddr};
use base::id::CoreId;

use super::entry::{BOOT_TABLE, kernel_regime, mmu_on};
use super::registers::{CPACR, KERNEL_ASID};
use super::{cache, psci};
use crate::types::StartError;

/// PSCI: no such core.
const INVALID_PARAMETERS: i64 = -2;

/// What a core needs before it has a stack. Read with the MMU off, so it has a cache line of its
/// own.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Start {
    ttbr1: u64,
    entry: usize,
    stack_top: usize,
    argument: usize,
}

struct Starts(UnsafeCell<[Start; MAX_CORES]>);
// SAFETY: element k is written by `start` while core k is off, and read by core k only.
unsafe impl Sync for Starts {}

static STARTS: Starts =
    Starts(UnsafeCell::new([Start { ttbr1: 0, entry: 0, stack_top: 0, argument: 0 }; MAX_CORES]));

pub fn start(
    core: CoreId,
    entry: extern "C" fn(usize) -> !,
    stack_top: usize,
    arg: usize,
    root: PhysAddr,
) -> Result<(), StartError> {
    if core.index() >= MAX_CORES {
        return Err(StartError::NoSuchCore);
    }
    let start =
        Start { ttbr1: root.0 | KERNEL_ASID, entry: entry as usize, stack_top, argument: arg };
    let place = STARTS.0.get().cast::<Start>().wrapping_add(core.index());
    // SAFETY: in bounds by the check above; the core is off, so it is not reading.
    unsafe { place.write(start) };
    cache::clean(place as usize, size_of::<Start>());
    let physical = |address: usize| VirtAddr(address as u64).to_phys().0;
    let code = physical(secondary as *const () as usize);
    match psci::cpu_on(u64::from(core.0), code, physical(place as usize)) {
        0 => Ok(()),
        INVALID_PARAMETERS => Err(StartError::NoSuchCore),
        error => Err(StartError::Refused(error)),
    }
}

/// Entry of a secondary core: MMU off, x0 its [`Start`].
#[unsafe(naked)]
#[unsafe(link_section = ".text.entry")]
extern "C" fn secondary() -> ! {
    naked_asm!(
        "msr daifset, #15",
        "mov x9, #{cpacr}",
        "msr cpacr_el1, x9",
        "isb",
        "ldp x9, x20, [x0]",
        "ldp x21, x22, [x0, #16]",
        "mov x0, x9",
        "adrp x1, {table}",
        "bl {mmu_on}",
        "bl {regime}",
        "mov sp, x21",
        "mov x0, x22",
        "mov x29, xzr",
        "mov x30, xzr",
        "br x20",
        cpacr = const CPACR,
        table = sym BOOT_TABLE,
        mmu_on = sym mmu_on,
        regime = sym kernel_regime,
    )
}
