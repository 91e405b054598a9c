//! Kernel functions that compiled code of programs calls directly.

use crate::types::DirectImport;

pub fn import_address<C: DirectImport>() -> u64 {
    entry::<C> as *const () as u64
}

/// Cranelift's convention for such code is that of C, except that 32-bit values are not extended.
/// The first two arguments are the contexts of callee and caller.
extern "C" fn entry<C: DirectImport>(
    _: u64,
    context: u64,
    first: u64,
    second: u64,
    third: u64,
) -> u64 {
    C::call(context, first, second, third)
}
