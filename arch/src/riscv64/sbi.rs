//! Calls to M-mode: the Hart State Management extension of the SBI, which the stub implements.
//! Our stub clobbers what a C call may; other implementations clobber less.

use core::arch::asm;

const HSM: u64 = 0x48_534d;
const START: u64 = 0;
const STOP: u64 = 1;

/// The SBI's code for a parameter that names nothing.
pub(super) const INVALID_PARAMETER: i64 = -3;

/// Starts a stopped hart at physical `entry` in S-mode, MMU off, with a0 = hart, a1 = `opaque`.
///
/// # Safety
/// `entry` is code that can run so.
pub(super) unsafe fn hart_start(hart: u64, entry: u64, opaque: u64) -> Result<(), i64> {
    let error: i64;
    // SAFETY: the caller's obligation; M-mode keeps what a C call keeps.
    unsafe {
        asm!("ecall", inlateout("a0") hart as i64 => error, in("a1") entry, in("a2") opaque,
            in("a6") START, in("a7") HSM, clobber_abi("C"), options(nostack))
    };
    if error == 0 { Ok(()) } else { Err(error) }
}

/// Stops this hart; returns only if M-mode refuses.
pub(super) fn hart_stop() {
    // SAFETY: this hart runs nothing any more.
    unsafe { asm!("ecall", in("a6") STOP, in("a7") HSM, clobber_abi("C"), options(nostack)) };
}
