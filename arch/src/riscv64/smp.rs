//! Starting the secondary harts of the domain.

use core::cell::UnsafeCell;

use abi::boot::{MAX_CORES, VA_OFFSET};
use base::addr::PhysAddr;
use base::id::CoreId;

use super::sbi::{self, INVALID_PARAMETER};
use super::{cache, cpu, entry, irq, pte, vectors};
use crate::types::StartError;

/// Read by `entry::secondary` with the MMU off.
#[repr(C)]
struct Start {
    satp: u64,
    stack_top: usize,
    entry: usize,
    arg: usize,
    hart: usize,
    spare: [u64; 3],
}

#[repr(C, align(64))]
struct Starts(UnsafeCell<[Start; MAX_CORES]>);
// SAFETY: only `start` writes an element, while its core is off.
unsafe impl Sync for Starts {}

static STARTS: Starts = Starts(UnsafeCell::new(
    [const { Start { satp: 0, stack_top: 0, entry: 0, arg: 0, hart: 0, spare: [0; 3] } };
        MAX_CORES],
));

/// `Refused` while the core is on, or not yet off.
pub fn start(
    core: CoreId,
    entry: extern "C" fn(usize) -> !,
    stack_top: usize,
    arg: usize,
    root: PhysAddr,
) -> Result<(), StartError> {
    if u64::from(core.0) >= irq::cores() {
        return Err(StartError::NoSuchCore);
    }
    let hart = cpu::hart_of(core.index());
    let start = Start {
        satp: pte::satp(root.0),
        stack_top,
        entry: entry as usize,
        arg,
        hart: hart as usize,
        spare: [0; 3],
    };
    // SAFETY: in bounds by the check above (there are at most MAX_CORES cores); the core is off, so
    // neither element is in use. If it is on after all, no core reads `start`, and in `hart` only
    // two words are stored, with the values that they have.
    let record = unsafe {
        (*hart).core = core.0.into();
        (*hart).emergency_top = vectors::emergency_top(core.index());
        let record = STARTS.0.get().cast::<Start>().add(core.index());
        record.write(start);
        record
    };
    cache::clean(record as usize, size_of::<Start>());
    let physical = |va: usize| (va as u64).wrapping_sub(VA_OFFSET);
    let at = physical(entry::secondary as *const () as usize);
    // SAFETY: `secondary` expects this state and this record.
    unsafe { sbi::hart_start(core.0.into(), at, physical(record as usize)) }.map_err(|error| {
        if error == INVALID_PARAMETER { StartError::NoSuchCore } else { StartError::Refused(error) }
    })
}
