//! The RV64 part: M-mode. It loads the kernel and enters it in S-mode on hart 0; the other harts
//! wait here. Afterwards it is the kernel's SBI, with only the calls to start and stop a hart
//! (HSM). A call clobbers what a C call may clobber.
//!
//! ```text
//!            hart_start(entry)            hart looks
//!  stopped ---------------------> started ----------> runs in S-mode
//!     ^  slot.entry = 0    slot.entry != 0                |
//!     +---------------------------------------------------+ hart_stop
//! ```

use core::arch::{asm, naked_asm};

use crate::Arguments;

/// Returns where the stub was loaded. Its code does not depend on where that is.
pub fn base() -> u64 {
    let at: u64;
    // SAFETY: computes an address. The compiler would load one that the linker has computed.
    unsafe { asm!("lla {at}, _start", at = out(reg) at, options(pure, nomem, nostack)) };
    at
}

pub const ISA: u32 = abi::boot::isa::RISCV64;

/// 16550: data register at 0; line status at 5, with bit 5 set when the transmitter is empty.
const UART: u64 = 0x1000_0000;
/// CLINT: one word per hart that raises its M-mode software interrupt.
const SOFTWARE_INTERRUPT: u64 = 0x200_0000;
/// Number of harts that can be started.
const HARTS: usize = abi::boot::MAX_CORES;

/// menvcfg: Sstc, Svpbmt, and Zicbom with real invalidation for S-mode.
const ENVIRONMENT: u64 = 1 << 63 | 1 << 62 | 0xf0;
/// Exceptions delegated to S-mode: all but its own ecall (9).
const DELEGATED: u64 = 0xffff & !(1 << 9);
/// Software, timer and external interrupts of S-mode.
const DELEGATED_INTERRUPTS: u64 = 0x222;

/// Where each hart goes: entry (0: none) and argument. Used only by the assembly below.
#[repr(C, align(16))]
struct Slots(core::cell::UnsafeCell<[[u64; 2]; HARTS]>);
// SAFETY: the assembly below orders its accesses with fences; one starter per hart.
unsafe impl Sync for Slots {}

static SLOTS: Slots = Slots(core::cell::UnsafeCell::new([[0; 2]; HARTS]));

#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.entry")]
extern "C" fn _start() -> ! {
    naked_asm!(
        "csrw mie, zero",
        "lla t0, {trap}",
        "csrw mtvec, t0",
        "li t0, -1", // S-mode may use all of memory
        "csrw pmpaddr0, t0",
        "li t0, 0x1f",
        "csrw pmpcfg0, t0",
        "li t0, {delegated}",
        "csrw medeleg, t0",
        "li t0, {interrupts}",
        "csrw mideleg, t0",
        "li t0, 7",
        "csrw mcounteren, t0",
        "li t0, {environment}",
        "csrw 0x30a, t0",
        "csrr t0, mhartid",
        "bnez t0, 1f",
        "lla sp, __stack_top",
        "mv s0, zero",
        "mv ra, zero",
        "tail {main}",
        "1: tail {park}",
        trap = sym trap,
        delegated = const DELEGATED,
        interrupts = const DELEGATED_INTERRUPTS,
        environment = const ENVIRONMENT as i64,
        main = sym crate::stub_main,
        park = sym park,
    )
}

/// Waits until this hart's slot is filled, then enters it: S-mode, MMU off, a0 = hart, a1 =
/// argument. The interrupt is cleared before the slot is read, so that none is lost.
#[unsafe(naked)]
extern "C" fn park() -> ! {
    naked_asm!(
        "li t0, 8", // wake up for M-mode software interrupts only, and do not take them
        "csrw mie, t0",
        "csrci mstatus, 8",
        "csrr a0, mhartid",
        "li t0, {harts}",
        "bgeu a0, t0, 3f",
        "slli t0, a0, 2",
        "li t1, {software}",
        "add t1, t1, t0",
        "lla t2, {slots}",
        "slli t0, a0, 4",
        "add t2, t2, t0",
        "1: sw zero, (t1)",
        "fence iorw, iorw",
        "ld t0, 0(t2)",
        "bnez t0, 2f",
        "wfi",
        "j 1b",
        "2: fence rw, rw",
        "fence.i",
        "ld a1, 8(t2)",
        "csrw satp, zero",
        "csrw mie, zero",
        "csrw mepc, t0",
        "li t0, 0x19aa", // MPP, SPP, and the interrupt enables of S-mode
        "csrc mstatus, t0",
        "li t0, 0x800", // MPP = S
        "csrs mstatus, t0",
        "mret",
        "3: wfi",
        "j 3b",
        harts = const HARTS,
        software = const SOFTWARE_INTERRUPT,
        slots = sym SLOTS,
    )
}

/// The only traps of M-mode: calls from S-mode. Runs without a stack.
#[unsafe(naked)]
extern "C" fn trap() -> ! {
    naked_asm!(
        ".balign 4",
        "csrr t0, mcause",
        "li t1, 9",
        "bne t0, t1, 8f",
        "csrr t0, mepc",
        "addi t0, t0, 4",
        "csrw mepc, t0",
        "li t0, 0x48534d", // HSM
        "bne a7, t0, 6f",
        "li t0, 1",
        "beqz a6, 1f",
        "beq a6, t0, 4f",
        "j 6f",
        // hart_start(a0 hart, a1 entry, a2 argument)
        "1: li t0, {harts}",
        "bgeu a0, t0, 5f",
        "beqz a1, 5f",
        "lla t1, {slots}",
        "slli t0, a0, 4",
        "add t1, t1, t0",
        "ld t0, 0(t1)",
        "bnez t0, 7f",
        "sd a2, 8(t1)",
        "fence rw, rw",
        "sd a1, 0(t1)",
        "fence iorw, iorw",
        "li t1, {software}",
        "slli t0, a0, 2",
        "add t1, t1, t0",
        "li t0, 1",
        "sw t0, (t1)",
        "li a0, 0",
        "j 9f",
        // hart_stop()
        "4: csrr t0, mhartid",
        "li t1, {harts}",
        "bgeu t0, t1, 5f",
        "slli t0, t0, 4",
        "lla t1, {slots}",
        "add t1, t1, t0",
        "fence rw, rw",
        "sd zero, 0(t1)",
        "tail {park}",
        "5: li a0, -3", // invalid parameter
        "j 9f",
        "6: li a0, -2", // not supported
        "j 9f",
        "7: li a0, -6", // already available
        "9: li a1, 0",
        "mret",
        "8: lla sp, __stack_top",
        "tail {broken}",
        harts = const HARTS,
        slots = sym SLOTS,
        software = const SOFTWARE_INTERRUPT,
        park = sym park,
        broken = sym broken,
    )
}

/// A trap in M-mode itself.
extern "C" fn broken() -> ! {
    crate::stop("stub: unexpected trap in M-mode\n")
}

pub fn put(byte: u8) {
    // SAFETY: UART registers, which nothing else in this domain uses while the stub runs.
    unsafe {
        while ((UART + 5) as *const u8).read_volatile() & 0x20 == 0 {}
        (UART as *mut u8).write_volatile(byte);
    }
}

pub fn halt() -> ! {
    loop {
        // SAFETY: touches no memory; interrupts are masked.
        unsafe { asm!("wfi", options(nomem, nostack)) };
    }
}

/// Copies `bytes` (a multiple of 16) in steps of 64, then 16.
pub fn copy(to: u64, from: u64, bytes: u64) {
    // SAFETY: both ranges are RAM of this domain, by the checked header, and not otherwise in use.
    unsafe {
        asm!(
            "add {end}, {from}, {n}",
            "andi {n}, {n}, -64",
            "add {n}, {n}, {from}",
            "beq {from}, {n}, 3f",
            "2:",
            "ld a0, 0({from})", "ld a1, 8({from})", "ld a2, 16({from})", "ld a3, 24({from})",
            "ld a4, 32({from})", "ld a5, 40({from})", "ld a6, 48({from})", "ld a7, 56({from})",
            "sd a0, 0({to})", "sd a1, 8({to})", "sd a2, 16({to})", "sd a3, 24({to})",
            "sd a4, 32({to})", "sd a5, 40({to})", "sd a6, 48({to})", "sd a7, 56({to})",
            "addi {from}, {from}, 64",
            "addi {to}, {to}, 64",
            "bne {from}, {n}, 2b",
            "3: beq {from}, {end}, 4f",
            "ld a0, 0({from})", "ld a1, 8({from})",
            "sd a0, 0({to})", "sd a1, 8({to})",
            "addi {from}, {from}, 16",
            "addi {to}, {to}, 16",
            "j 3b",
            "4:",
            n = inout(reg) bytes => _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            end = out(reg) _,
            out("a0") _, out("a1") _, out("a2") _, out("a3") _,
            out("a4") _, out("a5") _, out("a6") _, out("a7") _,
            options(nostack),
        );
    }
}

/// Zeroes `bytes` (a multiple of 16) in steps of 64, then 16.
pub fn zero(to: u64, bytes: u64) {
    // SAFETY: memory of the image, by the checked header, and not otherwise in use.
    unsafe {
        asm!(
            "add {end}, {to}, {n}",
            "andi {n}, {n}, -64",
            "add {n}, {n}, {to}",
            "beq {to}, {n}, 3f",
            "2:",
            "sd zero, 0({to})", "sd zero, 8({to})", "sd zero, 16({to})", "sd zero, 24({to})",
            "sd zero, 32({to})", "sd zero, 40({to})", "sd zero, 48({to})", "sd zero, 56({to})",
            "addi {to}, {to}, 64",
            "bne {to}, {n}, 2b",
            "3: beq {to}, {end}, 4f",
            "sd zero, 0({to})", "sd zero, 8({to})",
            "addi {to}, {to}, 16",
            "j 3b",
            "4:",
            n = inout(reg) bytes => _,
            to = inout(reg) to => _,
            end = out(reg) _,
            options(nostack),
        );
    }
}

/// Cleans `bytes` at `at`: caches are on even without translation.
pub fn clean(at: u64, bytes: u64) {
    for line in (at & !63..at + bytes).step_by(64) {
        // SAFETY: changes no byte.
        unsafe {
            asm!(
                ".option push",
                ".option arch, +zicbom",
                "cbo.clean 0({})",
                ".option pop",
                in(reg) line,
                options(nostack),
            )
        };
    }
}

/// Makes the copied image executable and enters it in S-mode, MMU off, interrupts masked.
pub fn enter(pc: u64, arguments: Arguments) -> ! {
    // SAFETY: `pc` is the entry of the image just copied, or the resume address of the sleeping
    // one.
    unsafe {
        asm!(
            "fence iorw, iorw",
            "fence.i",
            "csrw satp, zero",
            "csrw mepc, {pc}",
            "csrc mstatus, {clear}",
            "csrs mstatus, {supervisor}",
            "mret",
            pc = in(reg) pc,
            clear = in(reg) 0x19aau64,
            supervisor = in(reg) 0x800u64,
            in("a0") arguments.blob,
            in("a1") arguments.domain,
            in("a2") arguments.epoch,
            in("a3") arguments.staging,
            options(noreturn),
        )
    }
}
