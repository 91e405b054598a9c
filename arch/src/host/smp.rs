//! Cores are threads, which a test starts itself.

use base::addr::PhysAddr;
use base::id::CoreId;

use crate::types::StartError;

pub fn start(
    _core: CoreId,
    _entry: extern "C" fn(usize) -> !,
    _stack_top: usize,
    _arg: usize,
    _root: PhysAddr,
) -> Result<(), StartError> {
    Err(StartError::Refused(-1))
}
