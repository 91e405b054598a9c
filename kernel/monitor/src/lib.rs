//! What people and programs see of one kernel: the monitor on the console, its commands, the same
//! as files in `/proc` and `/dev`, and the console as a terminal.
//!
//! Contract: a command gets words and writes text; it does not know whether a person, a file or
//! another kernel has requested it. The only state is in statics, because threads start without an
//! argument: the terminal's handles, and the commands that a test image adds.
//!
//! - [`monitor`]: the command line on the console
//! - [`commands`]: what it executes
//! - [`procfs`]: the same as files; [`namefs`]: the names of channels as files
//! - [`terminal`]: programs on the console
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod commands;
pub mod monitor;
pub mod namefs;
pub mod procfs;
pub mod terminal;
