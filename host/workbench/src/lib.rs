//! Boards on this host, from their start to their end.
//!
//! ```text
//!   prepare: board file, kernels, soc, plugin      model: the lab's costs and addresses
//!                  |                                  |
//!                  +----> start: the run folder, the soc <---- machine: QEMU's command lines
//!                                     |                        given: key, seed, time
//!      rig: a test's console <---- instance ----> findings, meter: what the lab has found
//! ```
//! - [`instance`]  a board in its run folder; [`start`], [`given`] and [`life`] add methods
//! - [`processes`]  the socs and QEMUs of this tree
//! - [`profile`]  where a board in the lab spent its cycles; [`symbols`]  functions of its kernels
//! - [`network`]  what the network device is attached to, and published ports
//! - [`run_files`]  names of files in a run folder
//! - [`rig`]  a board under test or measurement; `notes` keeps its output readable
//!
//! Contract: a board that [`rig::Rig`] has started is gone when the rig is dropped, or when this
//! process ends. Programs on a board are no subject here.

pub mod findings;
pub mod given;
pub mod instance;
pub mod life;
pub mod machine;
pub mod meter;
pub mod model;
pub mod network;
mod notes;
pub mod prepare;
pub mod processes;
pub mod profile;
pub mod rig;
pub mod run_files;
pub mod start;
pub mod symbols;
