//! What the engine needs from a process's kernel.

use kernel_process::System;

/// A process's connection to its kernel.
pub trait Guest: System + Send + Sync + 'static {
    /// Returns the signal that must end the process, if there is one.
    fn stop_signal(&self) -> Option<u16>;

    /// Returns whether the kernel has this many bytes to spare.
    fn has_room(&self, bytes: u64) -> bool;

    /// Returns whether there was no memory for a page that the program touched, or for the kernel
    /// on its behalf.
    fn is_short(&self) -> bool;

    /// Reports the size to which the program's memory is about to grow.
    fn has_memory(&self, bytes: u64);
}
