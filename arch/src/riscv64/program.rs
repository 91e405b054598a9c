//! Where code of programs calls one of ours with nothing in between.

use crate::types::Called;

/// What a program's code may call for `C`.
pub fn called<C: Called>() -> u64 {
    entry::<C> as *const () as u64
}

/// Cranelift's convention for such code is C's, but that numbers of 32 bits are not extended: the
/// context of who is called, that of who calls, and what it gives.
extern "C" fn entry<C: Called>(_: u64, context: u64, first: u64, second: u64, third: u64) -> u64 {
    C::call(context, first, second, third)
}
