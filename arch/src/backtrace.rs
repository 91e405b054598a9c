//! Return addresses by frame pointers. Believes nothing: every record is checked to be aligned,
//! above the last one and mapped, and there is a bound, so a broken stack ends the list early.

use crate::imp::backtrace::{is_readable, record};
use core::ops::Range;

pub use crate::imp::backtrace::fp;

/// Most frames visited.
const MAX_FRAMES: usize = 64;

/// Visits the return address of each frame from the one at `fp` outwards, of code at `pc`.
/// `of_programs`: is it code that Cranelift made?
pub fn frames(from: (u64, u64), of_programs: &dyn Fn(u64) -> bool, visit: &mut dyn FnMut(u64)) {
    redirect(from, 0..u64::MAX, of_programs, &mut |pc| {
        visit(pc);
        None
    });
}

/// The same, for code that was interrupted at `pc`, by records within `stack`: where code has not
/// yet made its frame, what is taken for one may be anything. The first for which `visit` says so
/// returns to another address. That it may is for the caller to know, as of the pc of a
/// [`crate::trap::TrapFrame`].
pub fn redirect(
    (pc, fp): (u64, u64),
    stack: Range<u64>,
    of_programs: &dyn Fn(u64) -> bool,
    visit: &mut dyn FnMut(u64) -> Option<u64>,
) {
    let (mut within, mut at, mut below) = (pc, fp, 0);
    for _ in 0..MAX_FRAMES {
        let record = record(at, of_programs(within));
        // Of two frames side by side, one a program's, the pointers may be the same.
        let inside = record > below
            && record >= stack.start
            && record.checked_add(16).is_some_and(|e| e <= stack.end);
        if !inside || !record.is_multiple_of(8) || !is_readable(record) || !is_readable(record + 8)
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
        (at, within, below) = (next, pc, record);
    }
}
