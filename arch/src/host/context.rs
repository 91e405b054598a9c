//! Thread contexts: the registers that the System V ABI preserves, on the thread's stack.

use core::arch::naked_asm;

/// The stack pointer; the registers are on the stack, in the order of [`switch`].
#[repr(C)]
pub struct Context {
    sp: usize,
}

/// Default values of MXCSR and the x87 control word.
const FPU: usize = 0x037f_0000_1f80;

impl Context {
    pub const fn empty() -> Self {
        Context { sp: 0 }
    }

    /// # Safety
    /// `stack_top` is 16-byte aligned and ends a stack that belongs to this thread.
    pub unsafe fn new(stack_top: usize, entry: extern "C" fn(usize) -> !, arg: usize) -> Self {
        let frame = [FPU, 0, 0, arg, entry as usize, 0, 0, first as *const () as usize];
        let sp = stack_top - size_of_val(&frame);
        // SAFETY: the stack that ends at `stack_top` is ours, by the caller's obligation.
        unsafe { (sp as *mut [usize; 8]).write(frame) };
        Context { sp }
    }
}

/// First code of a new thread: without a caller, so that backtraces end.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn first() -> ! {
    naked_asm!("mov rdi, r13", "xor ebp, ebp", "call r12", "ud2")
}

/// # Safety
/// Interrupts are masked; both are valid; `to` was made by [`Context::new`] or saved here, and not
/// continued since. No other core continues `from` before this function has saved it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C" fn switch(from: *mut Context, to: *const Context) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rdi], rsp",
        "mov rsp, [rsi]",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// # Safety
/// `top` is 16-byte aligned and ends a stack that nothing else uses meanwhile.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C" fn on_stack(top: usize, entry: extern "C" fn(usize), argument: usize) {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        "ret",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    struct Pair {
        main: Context,
        other: Context,
        log: Vec<u32>,
    }

    extern "C" fn other(arg: usize) -> ! {
        let pair = arg as *mut Pair;
        for i in 0.. {
            // SAFETY: `main` waits in `switch`, and `pair` outlives this context.
            unsafe {
                (*pair).log.push(i);
                switch(&raw mut (*pair).other, &raw const (*pair).main);
            }
        }
        unreachable!()
    }

    #[test]
    fn switching_alternates_between_two_contexts() {
        let mut stack = std::vec![0u128; 4096];
        let top = stack.as_mut_ptr_range().end as usize;
        let pair = Box::into_raw(Box::new(Pair {
            main: Context::empty(),
            other: Context::empty(),
            log: Vec::new(),
        }));
        // SAFETY: the stack is this test's, and `pair` lives until the end.
        unsafe {
            (*pair).other = Context::new(top, other, pair as usize);
            for _ in 0..3 {
                (*pair).log.push(100);
                switch(&raw mut (*pair).main, &raw const (*pair).other);
            }
            assert_eq!((*pair).log, [100, 0, 100, 1, 100, 2]);
            drop(Box::from_raw(pair));
        }
    }
}
