//! Compiled programs do not run on a host.

use crate::types::Called;

pub fn called<C: Called>() -> u64 {
    0
}
