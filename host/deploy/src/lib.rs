//! Programs on a running board, as this host reaches them.
//!
//! ```text
//!   up ----> system: the disk with /bin          exec: a program, its input and output,
//!                       |                        |     and folders of this host
//!                       +--- install: sealed images
//!                                   |
//!                               transfer: streams to the kernels (vsock)
//! ```
//! - [`up`]  the start of a board with its system
//! - [`system`]  the system's disk; [`ext2`] has its tools
//! - [`disks`]  what users' disks need before a start
//! - [`transfer`]  files into a board and out of it
//! - [`install`]  programs for each ISA of a board
//! - [`contracts`]  the contracts that manifests name, and their names by hash
//! - [`reseal`]  another manifest for an installed program
//! - [`place`]  where a program would start, and why
//! - [`exec`]  the execution of a program
//! - [`moves`]  moves of running processes
//! - [`record`]  which programs talk to which
//!
//! Contract: a program here behaves as on any host; what the board does not answer is an error.

pub mod contracts;
pub mod disks;
pub mod exec;
pub mod ext2;
pub mod install;
pub mod moves;
pub mod place;
pub mod record;
pub mod reseal;
pub mod system;
pub mod transfer;
pub mod up;
