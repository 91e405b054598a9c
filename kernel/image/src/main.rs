//! One kernel, assembled: boots, wires the crates together, and holds the only global state.
//!
//! - [`boot`]        from `kernel_main` to the idle loop
//! - [`kernel`]      everything a running kernel is made of
//! - [`interrupts`], [`shootdown`], [`idle`]   who gets what happens to a core
//! - [`soc`], [`power`], [`devices`]           this kernel and its chip
//! - [`disk`]        what file systems ask of the disk
//! - [`balloon`], [`movable`]                blocks of memory that come and go, pages that move
//! - [`processes`]  processes that live here
//! - [`programs`]  programs: their memory, their faults, the engine that runs them
//! - [`peers`], [`handlers`], [`procs`]        this kernel and the others
//! - [`twins`], [`planted`]                references into other kernels' images, and their test
//! - [`monitor`]     the commands on the system console
//! - [`panic`], [`symbols`], [`print`]         the end, and how it is told
#![no_std]
#![no_main]

extern crate alloc;

mod balloon;
mod boot;
mod coherence;
mod devices;
mod disk;
mod handlers;
mod host;
mod idle;
mod interrupts;
mod kernel;
mod memory;
mod monitor;
mod movable;
mod panic;
mod peers;
mod planted;
mod power;
mod print;
mod processes;
mod procfs;
mod procs;
mod programs;
mod ranks;
mod services;
mod shootdown;
mod soc;
mod symbols;
mod terminal;
mod twins;
