//! The chip's interconnect and devices, and the supervisor of the QEMUs that play its domains.
//!
//! ```text
//! main  board ---- config                      the configuration
//!  |      |------- lives                       the number of starts
//!         |
//!     supervisor -- power (pure) -- qemu, qmp  the emulators and their power
//!         |------- judge (pure), executed      which domain hangs
//!         |------- control                     pen's requests
//!         |------- memory, fabric              words and doorbells shared with kernels
//!       helper (a thread)                      the gateway, a process beside the QEMUs
//!       virtio (a thread each) -- memory, fabric
//!       dma (a thread) -- memory, fabric           the supervisor fences its channels
//! ```

pub mod board;
pub mod config;
pub mod control;
pub mod dma;
pub mod executed;
pub mod eye;
pub mod fabric;
pub mod gate;
pub mod helper;
pub mod judge;
pub mod lives;
pub mod logging;
pub mod memory;
pub mod power;
pub mod qemu;
pub mod qmp;
pub mod supervisor;
pub mod virtio;
