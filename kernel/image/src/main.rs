//! The kernel image: boots one domain, and connects the kernel crates to each other and to the
//! machine.
//!
//! Three structs hold the kernel, and each contains the one before: `kernel_node::Node` (this
//! domain and the machine), `kernel_platform::Platform` (a node with its drivers) and
//! `kernel_services::kernel::Kernel` (a platform with its services). A function takes the smallest
//! one that it needs.
//!
//! The modules, from the top down. A module imports only from its own row and from rows below it;
//! `./pen check cycles` checks that there are no cycles:
//!
//! - [`boot`], [`cores`], [`power`], [`rest`]: from reset to the idle loop, power-off and rest, and
//!   back
//! - [`interrupts`], [`panic`]: interrupts and faults, the end of the kernel
//! - [`procs`]: procedures that peers can call
//! - [`host`], [`disk`]: threads that serve the host and the disk
//!
//! The crates [`kernel_monitor`], [`kernel_programs`], [`kernel_services`], [`kernel_platform`] and
//! [`kernel_node`] are below all of them, in this order. Images for tests and measurements also
//! contain `kernel_trials`, which is above the monitor.
#![no_std]
#![no_main]

extern crate alloc;

mod boot;
mod cores;
mod disk;
mod host;
mod interrupts;
mod panic;
mod power;
mod procs;
mod rest;
