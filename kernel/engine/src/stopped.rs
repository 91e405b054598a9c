//! The end of a program, as an error of wasmtime's.

use kernel_process::Stop;

/// Carries the end of a program through wasmtime.
#[derive(Clone, Copy, Debug)]
pub struct Stopped(pub Stop);

impl core::fmt::Display for Stopped {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl core::error::Error for Stopped {}
