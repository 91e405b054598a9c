//! Calls to M-mode: the Hart State Management extension of the SBI, implemented by the stub, which
//! clobbers what a C call may clobber.

use core::arch::asm;

const HSM: u64 = 0x48_534d;
const START: u64 = 0;
const STOP: u64 = 1;

/// SBI error: invalid parameter.
pub(super) const INVALID_PARAMETER: i64 = -3;

/// Starts a stopped hart in S-mode at physical address `entry`, MMU off, with a0 = hart, a1 =
/// `opaque`.
///
/// # Safety
/// The code at `entry` can run in that state.
pub(super) unsafe fn hart_start(hart: u64, entry: u64, opaque: u64) -> Result<(), i64> {
    let error: i64;
    // SAFETY: the caller's obligation; M-mode preserves what a C call preserves.
    unsafe {
        asm!("ecall", inlateout("a0") hart as i64 => error, in("a1") entry, in("a2") opaque,
            in("a6") START, in("a7") HSM, clobber_abi("C"), options(nostack))
    };
    if error == 0 { Ok(()) } else { Err(error) }
}

pub(super) fn hart_stop() {
    // SAFETY: this hart has nothing left to run.
    unsafe { asm!("ecall", in("a6") STOP, in("a7") HSM, clobber_abi("C"), options(nostack)) };
}
