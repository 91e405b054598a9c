//! Thread contexts: the registers that the procedure call standard preserves.

use core::arch::naked_asm;

/// [`switch`] relies on this layout.
#[repr(C, align(16))]
pub struct Context {
    /// x19 to x28.
    x: [u64; 10],
    fp: u64,
    pc: u64,
    sp: u64,
    rest: u64,
    /// d8 to d15.
    d: [u64; 8],
}

const _: () = assert!(size_of::<Context>() == 176);

impl Context {
    pub const fn empty() -> Self {
        Context { x: [0; 10], fp: 0, pc: 0, sp: 0, rest: 0, d: [0; 8] }
    }

    /// Starts `entry(arg)` on a new stack.
    ///
    /// # Safety
    /// `stack_top` is 16-byte aligned and ends a stack that belongs to this thread.
    pub unsafe fn new(stack_top: usize, entry: extern "C" fn(usize) -> !, arg: usize) -> Self {
        let mut context = Context::empty();
        context.x[0] = entry as usize as u64;
        context.x[1] = arg as u64;
        context.pc = first as *const () as u64;
        context.sp = stack_top as u64;
        context
    }
}

/// First code of a new thread: without a caller, so that backtraces end.
#[unsafe(naked)]
extern "C" fn first() -> ! {
    naked_asm!("mov x0, x20", "mov x29, xzr", "mov x30, xzr", "br x19")
}

/// # Safety
/// Interrupts are masked; both are valid; `to` was made by [`Context::new`] or saved here, and not
/// continued since. No other core continues `from` before this function has saved it.
#[unsafe(naked)]
pub unsafe extern "C" fn switch(from: *mut Context, to: *const Context) {
    naked_asm!(
        "stp x19, x20, [x0]",
        "stp x21, x22, [x0, #16]",
        "stp x23, x24, [x0, #32]",
        "stp x25, x26, [x0, #48]",
        "stp x27, x28, [x0, #64]",
        "mov x9, sp",
        "stp x29, x30, [x0, #80]",
        "str x9, [x0, #96]",
        "stp d8, d9, [x0, #112]",
        "stp d10, d11, [x0, #128]",
        "stp d12, d13, [x0, #144]",
        "stp d14, d15, [x0, #160]",
        "ldp x19, x20, [x1]",
        "ldp x21, x22, [x1, #16]",
        "ldp x23, x24, [x1, #32]",
        "ldp x25, x26, [x1, #48]",
        "ldp x27, x28, [x1, #64]",
        "ldp x29, x30, [x1, #80]",
        "ldr x9, [x1, #96]",
        "ldp d8, d9, [x1, #112]",
        "ldp d10, d11, [x1, #128]",
        "ldp d12, d13, [x1, #144]",
        "ldp d14, d15, [x1, #160]",
        "mov sp, x9",
        "ret",
    )
}

/// # Safety
/// `top` is 16-byte aligned and ends a stack that nothing else uses meanwhile.
#[unsafe(naked)]
pub unsafe extern "C" fn on_stack(top: usize, entry: extern "C" fn(usize), argument: usize) {
    naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "str x19, [sp, #16]",
        "mov x29, sp",
        "mov x19, sp",
        "mov sp, x0",
        "mov x0, x2",
        "blr x1",
        "mov sp, x19",
        "ldr x19, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "ret",
    )
}
