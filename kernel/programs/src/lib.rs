//! The processes of one kernel: their images, their memory and faults, and the functions of the
//! kernel that they call.
//!
//! Contract: a program reaches this kernel through `kernel_process::System` only. The fault handler
//! calls [`programs::demand`] and [`programs::trap`]; the handler of interrupts stops processes by
//! [`processes::divert`]. These entry points, and the functions that wasmtime calls, receive no
//! kernel as an argument, and so there are statics: the processes, the words that wasmtime keeps
//! for each thread, and the memory that programs were promised.
//!
//! - [`processes`]: processes from their first request to their end
//! - [`programs`]: images, memory and the engine
//! - [`lights`]: processes whose threads run on two kernels in turn
//! - [`moves`]: a process on its way to another kernel
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod lights;
mod moves;
pub mod processes;
pub mod programs;
