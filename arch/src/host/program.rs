//! Compiled programs do not run on a host.

use crate::types::DirectImport;

pub fn import_address<C: DirectImport>() -> u64 {
    0
}
