//! Return addresses by frame pointers. Believes nothing: every record is checked to be aligned,
//! above the last one and mapped, and there is a bound, so a broken stack ends the list early.
//! On RV64 a frame pointer points behind its record: the caller's at -16, the return address at -8.

use core::arch::asm;
use core::ops::Range;

use super::mmu;

/// Most frames visited.
const MAX_FRAMES: usize = 64;

/// The caller's frame pointer.
#[inline(always)]
pub fn fp() -> u64 {
    let fp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, s0", out(reg) fp, options(nomem, nostack)) };
    fp
}

/// Visits the return address of each frame from the one at `fp` outwards, of code at `pc`.
/// `of_programs`: is it code that Cranelift made? Its frame pointers point at their records.
pub fn frames(from: (u64, u64), of_programs: &dyn Fn(u64) -> bool, visit: &mut dyn FnMut(u64)) {
    redirect(from, 0..u64::MAX, of_programs, &mut |pc| {
        visit(pc);
        None
    });
}

/// The same, for code that was interrupted at `pc`, by records within `stack`: where code has not
/// yet made its frame, what is taken for one may be anything. The first for which `visit` says so
/// returns to another address. That it may is for the caller to know, as of the pc of a
/// [`super::trap::TrapFrame`].
pub fn redirect(
    (pc, fp): (u64, u64),
    stack: Range<u64>,
    of_programs: &dyn Fn(u64) -> bool,
    visit: &mut dyn FnMut(u64) -> Option<u64>,
) {
    let mut within = pc;
    let mut at = fp;
    for _ in 0..MAX_FRAMES {
        let record = if of_programs(within) { at } else { at.wrapping_sub(16) };
        let inside = stack.contains(&record) && stack.contains(&record.wrapping_add(15));
        if !inside || record % 8 != 0 || !mmu::is_readable(record) || !mmu::is_readable(record + 8)
        {
            return;
        }
        // SAFETY: aligned, and both words were just seen to be mapped.
        let [next, pc] = unsafe { (record as *const [u64; 2]).read_volatile() };
        if pc == 0 {
            return;
        }
        if let Some(to) = visit(pc) {
            // SAFETY: that word was just read, and lies in a stack.
            unsafe { ((record + 8) as *mut u64).write_volatile(to) };
            return;
        }
        if next <= at {
            return;
        }
        (at, within) = (next, pc);
    }
}
