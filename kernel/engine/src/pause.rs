//! What each function of the kernel does first.

use crate::guest::Guest;
use crate::inside::Inside;
use crate::stopped::Stopped;
use kernel_process::Stop;
use wasmtime::{Caller, Error, Result};

/// Lets a light thread wait that must stop. To be called first by each function.
#[inline]
pub fn pause<G: Guest>(caller: &mut Caller<'_, Inside<G>>) -> Result<()> {
    caller.data_mut().guest.pause().map_err(|_| Error::new(Stopped(Stop::Interrupted)))
}
