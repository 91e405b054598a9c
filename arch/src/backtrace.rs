//! Return addresses by frame pointers. Every record is checked to be aligned, above the previous
//! one and mapped, and their number is bounded, so a corrupt stack only ends the list early.

use crate::imp::backtrace::{is_readable, record};
use core::ops::Range;

pub use crate::imp::backtrace::fp;

/// Maximum frames visited.
const MAX_FRAMES: usize = 64;

/// Visits the return address of each frame, outwards from `(pc, fp)`. `of_programs` returns whether
/// a pc is in code that Cranelift compiled.
pub fn frames(from: (u64, u64), of_programs: &dyn Fn(u64) -> bool, visit: &mut dyn FnMut(u64)) {
    redirect(from, 0..u64::MAX, of_programs, &mut |pc| {
        visit(pc);
        None
    });
}

/// Does the same for code that was interrupted at `pc`, limited to records within `stack`: a
/// function that has not set up its frame yet may have anything in the frame pointer. The first
/// frame for which `visit` returns an address will return to that address instead of to its caller.
/// The caller is responsible for that address, as for the pc of a [`crate::trap::TrapFrame`].
pub fn redirect(
    (pc, fp): (u64, u64),
    stack: Range<u64>,
    of_programs: &dyn Fn(u64) -> bool,
    visit: &mut dyn FnMut(u64) -> Option<u64>,
) {
    let (mut within, mut at, mut below) = (pc, fp, 0);
    for _ in 0..MAX_FRAMES {
        let record = record(at, of_programs(within));
        // Adjacent frames, one of them a program's, may have the same frame pointer.
        let inside = record > below
            && record >= stack.start
            && record.checked_add(16).is_some_and(|e| e <= stack.end);
        if !inside || !record.is_multiple_of(8) || !is_readable(record) || !is_readable(record + 8)
        {
            return;
        }
        // SAFETY: aligned, and both words were just found to be mapped.
        let [next, pc] = unsafe { (record as *const [u64; 2]).read_volatile() };
        if pc == 0 {
            return;
        }
        if let Some(to) = visit(pc) {
            // SAFETY: that word was just read, and is in a stack.
            unsafe { ((record + 8) as *mut u64).write_volatile(to) };
            return;
        }
        (at, within, below) = (next, pc, record);
    }
}
