//! No program's code runs on a host.

use crate::types::Called;

/// Called by nobody.
///
/// # Safety
/// None is needed.
pub unsafe extern "C" fn called<C: Called>() {
    crate::cpu::halt()
}
