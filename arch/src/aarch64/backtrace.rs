//! Return addresses by frame pointers. Believes nothing: every record is checked to be aligned,
//! above the last one and mapped, and there is a bound, so a broken stack ends the list early.

use core::arch::asm;
use core::ops::Range;

use abi::boot::VA_OFFSET;

use super::{cpu, registers::read};

/// Most frames visited.
const MAX_FRAMES: usize = 64;

/// The caller's frame pointer.
#[inline(always)]
pub fn fp() -> u64 {
    let fp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, x29", out(reg) fp, options(nomem, nostack)) };
    fp
}

/// Visits the return address of each frame from the one at `fp` outwards, of code at `pc`.
/// `of_programs`: is it code that Cranelift made?
pub fn frames(from: (u64, u64), of_programs: &dyn Fn(u64) -> bool, visit: &mut dyn FnMut(u64)) {
    redirect(from, VA_OFFSET..u64::MAX, of_programs, &mut |pc| {
        visit(pc);
        None
    });
}

/// The same, for code that was interrupted at `pc`, by records within `stack`. The first for which
/// `visit` says so returns to another address. That it may is for the caller to know, as of the pc
/// of a [`super::trap::TrapFrame`].
pub fn redirect(
    (_, fp): (u64, u64),
    stack: Range<u64>,
    _of_programs: &dyn Fn(u64) -> bool,
    visit: &mut dyn FnMut(u64) -> Option<u64>,
) {
    let mut at = fp;
    for _ in 0..MAX_FRAMES {
        let inside = stack.contains(&at) && stack.contains(&at.wrapping_add(15));
        if !inside || at % 8 != 0 || !is_readable(at) || !is_readable(at + 8) {
            return;
        }
        // SAFETY: aligned, and both words were just seen to be mapped.
        let [next, pc] = unsafe { (at as *const [u64; 2]).read_volatile() };
        if pc == 0 {
            return;
        }
        if let Some(to) = visit(pc) {
            // SAFETY: that word was just read, and lies in a stack.
            unsafe { ((at + 8) as *mut u64).write_volatile(to) };
            return;
        }
        if next <= at {
            return;
        }
        at = next;
    }
}

/// Asks the MMU.
fn is_readable(va: u64) -> bool {
    let on = cpu::irqs_off();
    // SAFETY: translates only; the answer is in PAR_EL1, which nothing else uses in between.
    unsafe { asm!("at s1e1r, {}", "isb", in(reg) va, options(nostack)) };
    let answer = read!("par_el1");
    cpu::irqs_restore(on);
    answer & 1 == 0
}
