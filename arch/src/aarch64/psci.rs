//! PSCI, the firmware interface to start and stop cores, through HVC.

use core::arch::asm;

const CPU_OFF: u64 = 0x8400_0002;
const CPU_ON: u64 = 0xc400_0003;

/// Starts core `mpidr` at physical address `entry` with `argument` in x0. Returns 0 or a PSCI
/// error.
pub fn cpu_on(mpidr: u64, entry: u64, argument: u64) -> i64 {
    call(CPU_ON, [mpidr, entry, argument])
}

/// Stops this core; returns only if that is refused.
pub fn cpu_off() -> i64 {
    call(CPU_OFF, [0; 3])
}

fn call(function: u64, arguments: [u64; 3]) -> i64 {
    let mut result = function;
    // SAFETY: by the SMC calling convention x4 to x17 may change (clobber_abi lists them). Memory
    // does not, except as a started core changes it by its own contract.
    unsafe {
        asm!(
            "hvc #0",
            inout("x0") result,
            inout("x1") arguments[0] => _,
            inout("x2") arguments[1] => _,
            inout("x3") arguments[2] => _,
            clobber_abi("C"),
        )
    };
    result as i64
}
