//! Thread contexts: the registers that the calling convention preserves.

use core::arch::naked_asm;

#[repr(C)]
pub struct Context {
    ra: usize,
    sp: usize,
    s: [usize; 12],
    fs: [u64; 12],
}

const _: () = assert!(size_of::<Context>() == 26 * 8);

impl Context {
    pub const fn empty() -> Self {
        Context { ra: 0, sp: 0, s: [0; 12], fs: [0; 12] }
    }

    /// # Safety
    /// `stack_top` is 16-byte aligned and ends a stack that belongs to this thread, above an
    /// unmapped page.
    pub unsafe fn new(stack_top: usize, entry: extern "C" fn(usize) -> !, arg: usize) -> Self {
        let mut context = Context::empty();
        context.ra = first_run as *const () as usize;
        context.sp = stack_top;
        context.s[1] = entry as usize;
        context.s[2] = arg;
        context
    }
}

/// First code of a new thread. `s0` is 0: the outermost frame record.
#[unsafe(naked)]
unsafe extern "C" fn first_run() {
    naked_asm!("mv a0, s2", "mv ra, zero", "jr s1")
}

/// # Safety
/// Interrupts are masked; both are valid; `to` was filled by `new` or `switch` and is not running.
#[unsafe(naked)]
pub unsafe extern "C" fn switch(from: *mut Context, to: *const Context) {
    naked_asm!(
        ".option push",
        ".option arch, +d", // the assembler of naked functions does not know the target's features
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
        "sd s\\n, 16+8*\\n(a0)",
        "fsd fs\\n, 112+8*\\n(a0)",
        ".endr",
        "sd ra, 0(a0)",
        "sd sp, 8(a0)",
        "ld ra, 0(a1)",
        "ld sp, 8(a1)",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
        "ld s\\n, 16+8*\\n(a1)",
        "fld fs\\n, 112+8*\\n(a1)",
        ".endr",
        "ret",
        ".option pop",
    )
}

/// # Safety
/// `top` is 16-byte aligned and ends a stack, above an unmapped page, that nothing else uses
/// meanwhile.
#[unsafe(naked)]
pub unsafe extern "C" fn on_stack(top: usize, entry: extern "C" fn(usize), argument: usize) {
    naked_asm!(
        "addi sp, sp, -32",
        "sd ra, 24(sp)",
        "sd s0, 16(sp)",
        "sd s1, 8(sp)",
        "addi s0, sp, 32",
        "mv s1, sp",
        "mv sp, a0",
        "mv a0, a2",
        "jalr a1",
        "mv sp, s1",
        "ld ra, 24(sp)",
        "ld s0, 16(sp)",
        "ld s1, 8(sp)",
        "addi sp, sp, 32",
        "ret",
    )
}
