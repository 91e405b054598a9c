//! What the engine needs from a process's kernel.

use crate::region::{Lent, Region, Start};
use crate::unwound::{Arrival, Unwound};
use alloc::sync::Arc;
use kernel_process::{Interrupted, Process, System};

/// How a wait for a notification ended. The numbers are those of `memory.atomic.wait32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    Notified = 0,
    /// The value was not the expected one.
    Unexpected = 1,
    TimedOut = 2,
}

/// A thread's connection to its kernel.
pub trait Guest: System + Send + Sync + 'static {
    /// Returns the signal that must end the process, if there is one.
    fn stop_signal(&self) -> Option<u16>;

    /// Returns whether the kernel has this many bytes to spare.
    fn has_room(&self, bytes: u64) -> bool;

    /// Returns whether there was no memory for a page that the program touched, or for the kernel
    /// on its behalf.
    fn is_short(&self) -> bool;

    /// Starts a thread of the process, which calls `Engine::run_thread`. Returns its number, or
    /// `None` if there cannot be another one.
    fn begin_thread(&mut self, start: Start) -> Option<u32>;

    /// Starts a light thread of the process: one that runs while no other thread does, if it can be
    /// on another kernel.
    fn begin_light(&mut self, start: Start) -> Result<Option<u32>, Interrupted>;

    /// Called when the program calls a function of the kernel: a light thread that must stop waits
    /// here. Fails if the thread may not use the process any more.
    fn pause(&mut self) -> Result<(), Interrupted>;

    /// Returns the memory for the threads of a program that has light threads, if they can be on
    /// another kernel.
    fn lend(&mut self) -> Option<Arc<dyn Lent>>;

    /// Reports the region that was made in the memory of [`Guest::lend`].
    fn has_region(&mut self, region: &Arc<Region>);

    /// Waits for [`Guest::notify`] at an address, if `is_expected`, until a time of the monotonic
    /// clock. No notification between the check and the wait is lost.
    fn wait_at(
        &mut self,
        address: u64,
        is_expected: &dyn Fn() -> bool,
        deadline: Option<u64>,
    ) -> Result<Waited, Interrupted>;

    /// Wakes up to `count` threads of the process that wait at an address, the first first. Returns
    /// how many.
    fn notify(&mut self, address: u64, count: u32) -> u32;

    /// Reports the size to which the program's memory is about to grow.
    fn has_memory(&self, bytes: u64);

    /// Returns whether the program is to move to another kernel. Then waits end with
    /// [`Interrupted`].
    fn is_called_away(&self) -> bool;

    /// Called when a program that can move calls a function of the kernel, but not if that is the
    /// one that it has left from.
    fn calls(&mut self);

    /// Reports that it cannot move, for lack of memory.
    fn cannot_move(&mut self);

    /// Returns how many bytes of stack its frames and those of its kernel's functions have.
    fn depth(&self) -> u64;

    /// Passes the program, which has left all its functions, to the other kernel. Returns false if
    /// it stays here.
    fn depart(&mut self, process: &Process, memory: &[u8], unwound: &Unwound) -> bool;

    /// Returns what the program was on another kernel, if it comes from there. Once.
    fn arrival(&mut self) -> Option<Arc<dyn Arrival>>;

    /// Reports that all of that is here. Returns false if the program must not run here.
    fn arrived(&mut self) -> bool;
}
