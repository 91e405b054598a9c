//! Accesses that may fault, for self-tests and for inspecting memory of unknown state: where a
//! plain access would end the kernel, a probe reports the fault.

use crate::trap::TrapFrame;
use crate::types::Fault;
use core::sync::atomic::{AtomicU64, Ordering};

/// A value and a flag, returned in two registers.
#[repr(C)]
pub(crate) struct Outcome {
    pub value: u64,
    pub faulted: u64,
}

unsafe extern "C" {
    fn probe_load(address: u64) -> Outcome;
    fn probe_store(address: u64, value: u64) -> Outcome;
    fn probe_execute(address: u64) -> Outcome;
    fn probe_fixed();
    fn probe_execute_fixed();
}

/// Target of the [`execute_faults`] in progress, or 0.
static TARGET: AtomicU64 = AtomicU64::new(0);

/// Loads the word at `address`; `None` if that faults.
pub fn load(address: u64) -> Option<u64> {
    // SAFETY: `recover` handles a fault of its one load.
    let outcome = unsafe { probe_load(address & !7) };
    (outcome.faulted == 0).then_some(outcome.value)
}

/// Returns whether the word at `address` can be stored to. It keeps its value.
pub fn can_rewrite(address: u64) -> bool {
    !rewrite_faults(address & !7)
}

/// Returns whether the instruction at `address` can be fetched. If it can, it is executed: use this
/// only for an address that must not be executable or holds a return. One call at a time.
pub fn can_execute(address: u64) -> bool {
    !execute_faults(address)
}

/// A forbidden access and its result.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    pub name: &'static str,
    /// It faulted, as it must.
    pub refused: bool,
}

/// Tries accesses that W^X and the guard pages must refuse. Harmless if they do not: stores write
/// back the same value, and the data executed is a return instruction. One call at a time.
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

/// A return instruction, in data: never executed unless protection is broken.
static RETURN: AtomicU64 =
    AtomicU64::new(if crate::cpu::ISA == abi::boot::isa::AARCH64 { 0xd65f_03c0 } else { 0x8067 });

/// Stores to `address` the value that it has; returns whether that faulted.
fn rewrite_faults(address: u64) -> bool {
    let Some(value) = load(address) else { return true };
    // SAFETY: the word keeps its value; `recover` handles a fault.
    unsafe { probe_store(address, value).faulted != 0 }
}

/// Runs the return instruction at `address`; returns whether the fetch faulted.
fn execute_faults(address: u64) -> bool {
    TARGET.store(address, Ordering::Relaxed);
    // SAFETY: the target is one return instruction; `recover` handles a fault.
    let outcome = unsafe { probe_execute(address) };
    TARGET.store(0, Ordering::Relaxed);
    outcome.faulted != 0
}

/// For the fault handler: resumes a probe that faulted. Returns false if `fault` is not a probe's.
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
