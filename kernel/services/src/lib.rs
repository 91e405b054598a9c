//! The shared services as one kernel reaches them, and the kernel as a whole: a
//! [`kernel_platform::Platform`] with its services.
//!
//! Contract: a request is made in the same way in every mode of a service; [`services`] says what
//! happens then. The statics are the kernel itself, its access to the soc and its trace log; only
//! entry points read them ([`kernel`]).
//!
//! - [`services`]: files, sockets, processes, names, DMA, frames
//! - [`kernel`]: all parts together, and the global variables that lead to them
//! - [`assembly`]: puts them together and starts them
//! - [`interrupts`], [`hooks`], [`idle`]: what a core does when it is interrupted, waits or sleeps
//! - [`hangs`]: waits that last too long
//! - [`procedures`]: what it does for peers
//! - [`clock`]: the clock after this domain was stopped
//! - [`session`]: for which caller a thread acts, and the errors of commands
//! - [`duty`]: whether this kernel serves the interrupts of shared devices
//! - [`channels`]: a thread that uses ends of channels
//! - [`homes`]: moves a shadowed service to another kernel
//! - [`power`]: what this kernel counts of its domain's time and energy, and what others have
//! - [`files`], [`names`], [`transfers`], [`console`], [`disk`], [`host`], [`random`]: clients of
//!   the services of files and names, and of the drivers
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod assembly;
pub mod channels;
pub mod clock;
pub mod console;
pub mod disk;
pub mod duty;
pub mod files;
pub mod hangs;
pub mod homes;
pub mod hooks;
pub mod host;
pub mod idle;
pub mod interrupts;
pub mod kernel;
pub mod names;
pub mod power;
pub mod procedures;
pub mod random;
mod registered;
pub mod services;
pub mod session;
pub mod transfers;
