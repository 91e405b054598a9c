//! One kernel, assembled: boots, wires the crates together, and holds the only global state.
//!
//! Modules import downwards only (`./pen check cycles`):
//!
//! - [`boot`], [`cores`], [`power`], [`clock`]   from `kernel_main` to the idle loop, and back
//! - [`interrupts`], [`idle`], [`panic`]         who gets what happens to a core
//! - [`monitor`], [`procs`]                      people, and other kernels, ask this one
//! - [`trials`]                                  commands for tests and measurements only
//! - [`commands`], [`procfs`]                    what can be asked, typed or read
//! - [`host`], [`terminal`], [`disk`]            threads that serve others
//! - [`processes`], [`programs`]                 processes that live here, and what runs them
//! - [`files`], [`transfers`], [`session`]       services as this kernel's threads ask them
//! - [`kernel`]                                  all parts, and the one place that finds them
//! - [`services`]                                what kernels do for programs
//! - [`platform`]                                what services stand on
//! - [`peers`], [`coherence`], [`devices`], [`balloon`], [`twins`]   drivers
//! - [`node`]                                    what every part knows of its kernel
//! - [`soc`], [`shootdown`], [`memory`], [`arenas`], [`blob`], [`symbols`], [`print`], [`ranks`]
#![no_std]
#![no_main]

extern crate alloc;

mod arenas;
mod balloon;
mod blob;
mod boot;
mod clock;
mod coherence;
mod commands;
mod cores;
mod counts;
mod devices;
mod disk;
mod files;
mod host;
mod idle;
mod interrupts;
mod kernel;
mod memory;
mod monitor;
mod movable;
mod node;
mod panic;
mod peers;
mod platform;
mod power;
mod print;
mod processes;
mod procfs;
mod procs;
mod programs;
mod ranks;
mod services;
mod session;
mod shootdown;
mod soc;
mod symbols;
mod terminal;
#[cfg_attr(not(feature = "trials"), allow(dead_code, reason = "so far only trials use it"))]
mod transfers;
#[cfg(feature = "trials")]
mod trials;
mod twins;
