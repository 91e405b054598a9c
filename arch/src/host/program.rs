//! No program's code runs on a host.

use crate::types::Called;

/// Nothing that could be called.
pub fn called<C: Called>() -> u64 {
    0
}
