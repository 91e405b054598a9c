//! Accesses that may fault, for self-tests and for looking at memory of unknown state: a probe
//! answers `None` where a plain access would end the kernel.

use crate::trap::TrapFrame;
use crate::types::Fault;
use core::sync::atomic::{AtomicU64, Ordering};

/// Value and whether it faulted, as two registers.
#[repr(C)]
struct Outcome {
    value: u64,
    faulted: u64,
}

unsafe extern "C" {
    fn probe_load(address: u64) -> Outcome;
    fn probe_store(address: u64, value: u64) -> Outcome;
    fn probe_execute(address: u64) -> Outcome;
    fn probe_fixed();
    fn probe_execute_fixed();
}

/// Address that a [`execute`] under way jumps to; 0 for none.
static TARGET: AtomicU64 = AtomicU64::new(0);

/// Loads the word at `address`; `None` when that faults.
pub fn load(address: u64) -> Option<u64> {
    // SAFETY: a fault of the one load in it is brought back by `recover`.
    let outcome = unsafe { probe_load(address & !7) };
    (outcome.faulted == 0).then_some(outcome.value)
}

/// Can the word at `address` be stored to? It keeps its value.
pub fn can_rewrite(address: u64) -> bool {
    !rewrite_faults(address & !7)
}

/// Can the instruction at `address` be fetched? It is not executed unless it can, so this is for
/// what must not be, or begins with a return. One at a time.
pub fn can_execute(address: u64) -> bool {
    !execute_faults(address)
}

/// One forbidden access and whether it was refused.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// What was tried.
    pub name: &'static str,
    /// Did it fault, as it must?
    pub refused: bool,
}

/// Tries what W^X and the guards must refuse. Harmless where they do not: stores write back the
/// value that was there, and the data that is executed is one return instruction. One at a time.
pub fn self_test() -> [Check; 6] {
    let layout = crate::image::layout();
    let code = core::ptr::addr_of!(RETURN) as u64;
    [
        Check { name: "read at address 0", refused: load(0).is_none() },
        Check { name: "read below 2 MiB", refused: load((2 << 20) - 8).is_none() },
        Check {
            name: "read of a stack guard",
            refused: load(layout.boot_stack.0 - base::addr::PAGE).is_none(),
        },
        Check { name: "write to code", refused: rewrite_faults(layout.text.0) },
        Check { name: "write to constants", refused: rewrite_faults(layout.rodata.0) },
        Check { name: "execution of data", refused: execute_faults(code) },
    ]
}

/// A return instruction of either ISA, in data: never executed unless protection is broken.
static RETURN: AtomicU64 =
    AtomicU64::new(if crate::cpu::ISA == abi::boot::isa::AARCH64 { 0xd65f_03c0 } else { 0x8067 });

/// Stores to `address` what is there: did that fault?
fn rewrite_faults(address: u64) -> bool {
    let Some(value) = load(address) else { return true };
    // SAFETY: the word keeps its value; a fault is brought back by `recover`.
    unsafe { probe_store(address, value).faulted != 0 }
}

/// Runs the instruction at `address`, a return: did the fetch fault?
fn execute_faults(address: u64) -> bool {
    TARGET.store(address, Ordering::Relaxed);
    // SAFETY: the target is one return instruction; a fault is brought back by `recover`.
    let outcome = unsafe { probe_execute(address) };
    TARGET.store(0, Ordering::Relaxed);
    outcome.faulted != 0
}

/// For the fault handler: brings a fault of a probe back to it.
pub fn recover(frame: &mut TrapFrame, fault: Fault) -> bool {
    if !matches!(fault, Fault::Page { .. } | Fault::Unaligned { .. } | Fault::Other(_)) {
        return false;
    }
    let pc = frame.pc();
    let target = TARGET.load(Ordering::Relaxed);
    if pc == probe_load as *const () as u64 || pc == probe_store as *const () as u64 {
        frame.set_pc(probe_fixed as *const () as u64);
    } else if target != 0 && pc == target {
        frame.set_pc(probe_execute_fixed as *const () as u64);
    } else {
        return false;
    }
    true
}
