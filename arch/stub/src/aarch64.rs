//! The AArch64 part: EL1, MMU and caches off.

use core::arch::{asm, naked_asm};

use crate::Arguments;

/// Returns where the stub was loaded. Its code does not depend on where that is.
pub fn base() -> u64 {
    let at: u64;
    // SAFETY: computes an address. The compiler would load one that the linker has computed.
    unsafe { asm!("adr {at}, _start", at = out(reg) at, options(pure, nomem, nostack)) };
    at
}

pub const ISA: u32 = abi::boot::isa::AARCH64;

/// PL011: data register at 0; control at 0x30, with the UART and its transmitter enabled.
const UART: u64 = 0x0900_0000;

/// Core 0 enters here; the others are off until PSCI starts them in the kernel.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.entry")]
extern "C" fn _start() -> ! {
    naked_asm!(
        "msr daifset, #15",
        "mov x0, #(3 << 20)", // the compiler may use FP registers
        "msr cpacr_el1, x0",
        "isb",
        "adrp x0, __stack_top",
        "add x0, x0, :lo12:__stack_top",
        "mov sp, x0",
        "mov x29, xzr",
        "mov x30, xzr",
        "b {main}",
        main = sym crate::stub_main,
    )
}

pub fn put(byte: u8) {
    // SAFETY: UART registers, which nothing else in this domain uses while the stub runs.
    unsafe {
        ((UART + 0x30) as *mut u32).write_volatile(0x101);
        (UART as *mut u32).write_volatile(byte.into());
    }
}

pub fn halt() -> ! {
    loop {
        // SAFETY: touches no memory; interrupts are masked.
        unsafe { asm!("wfi", options(nomem, nostack)) };
    }
}

/// Copies `bytes` (a multiple of 16) in steps of 128, then 16.
pub fn copy(to: u64, from: u64, bytes: u64) {
    // SAFETY: both ranges are RAM of this domain, by the checked header, and not otherwise in use.
    unsafe {
        asm!(
            "2: subs {n}, {n}, #128",
            "b.lo 3f",
            "ldp q0, q1, [{from}]",
            "ldp q2, q3, [{from}, #32]",
            "ldp q4, q5, [{from}, #64]",
            "ldp q6, q7, [{from}, #96]",
            "stp q0, q1, [{to}]",
            "stp q2, q3, [{to}, #32]",
            "stp q4, q5, [{to}, #64]",
            "stp q6, q7, [{to}, #96]",
            "add {from}, {from}, #128",
            "add {to}, {to}, #128",
            "b 2b",
            "3: add {n}, {n}, #128",
            "4: cbz {n}, 5f",
            "ldr q0, [{from}], #16",
            "str q0, [{to}], #16",
            "sub {n}, {n}, #16",
            "b 4b",
            "5:",
            n = inout(reg) bytes => _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _,
            out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            options(nostack),
        );
    }
}

/// Zeroes `bytes` (a multiple of 16) in steps of 128, then 16.
pub fn zero(to: u64, bytes: u64) {
    // SAFETY: memory of the image, by the checked header, and not otherwise in use.
    unsafe {
        asm!(
            "movi v0.2d, #0",
            "movi v1.2d, #0",
            "2: subs {n}, {n}, #128",
            "b.lo 3f",
            "stp q0, q1, [{to}]",
            "stp q0, q1, [{to}, #32]",
            "stp q0, q1, [{to}, #64]",
            "stp q0, q1, [{to}, #96]",
            "add {to}, {to}, #128",
            "b 2b",
            "3: add {n}, {n}, #128",
            "4: cbz {n}, 5f",
            "str q0, [{to}], #16",
            "sub {n}, {n}, #16",
            "b 4b",
            "5:",
            n = inout(reg) bytes => _,
            to = inout(reg) to => _,
            out("v0") _, out("v1") _,
            options(nostack),
        );
    }
}

/// No effect: with the MMU off, stores go to memory.
pub fn clean(_at: u64, _bytes: u64) {}

/// Makes the copied image executable and jumps to it.
pub fn enter(pc: u64, arguments: Arguments) -> ! {
    // SAFETY: `pc` is the entry of the image just copied, or the resume address of the sleeping
    // one.
    unsafe {
        asm!(
            "dsb sy",
            "ic iallu",
            "dsb sy",
            "isb",
            "br {pc}",
            pc = in(reg) pc,
            in("x0") arguments.blob,
            in("x1") arguments.domain,
            in("x2") arguments.epoch,
            in("x3") arguments.staging,
            options(noreturn),
        )
    }
}
