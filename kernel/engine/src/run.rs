//! A program from its first instruction to its end.
//!
//! ```text
//!   Program + Guest --instantiate--> _start --> returns, proc_exit: Exit
//!                                           --> a trap: Trap
//!                                           --> killed, in a call or in a loop: Signal
//! ```
//! To kill a program, its kernel redirects it to [`Program::way_out`], at once or on return from
//! what it has called. The trap there counts as the signal.

use crate::engine::Engine;
use crate::guest::Guest;
use crate::imports::Stopped;
use crate::inside::{Inside, Limits};
use crate::program::Program;
use crate::short;
use abi::process::signal;
use abi::program::trap;
use alloc::string::{String, ToString};
use kernel_process::{Process, Stop};
use wasmtime::{Store, Trap};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By returning or `proc_exit`, with this exit code.
    Exit(u32),
    Signal(u16),
    /// By a trap: one of `abi::program::trap`, and a message for people.
    Trap(u32, String),
    /// wasmtime could not start it, with this message: out of memory, or its limit is too low.
    NoMemory(String),
}

/// Result of a run.
pub struct Ran<G> {
    pub end: End,
    pub process: Process,
    pub guest: G,
}

impl<G: Guest> Engine<G> {
    /// Runs a program on the caller's stack.
    pub fn run(&self, program: &Program<G>, process: Process, guest: G, limits: Limits) -> Ran<G> {
        let inside = Inside { process, guest, memory: None, limits, tables: 0 };
        let mut store = Store::new(&self.wasmtime, inside);
        store.limiter(|inside| inside);
        let done = start(program, &mut store);
        let Inside { process, guest, .. } = store.into_data();
        let end = done.map_or_else(|why| ended(&why, &guest), |()| End::Exit(0));
        Ran { end, process, guest }
    }
}

fn start<G: Guest>(program: &Program<G>, store: &mut Store<Inside<G>>) -> wasmtime::Result<()> {
    if let Some(signal) = store.data().guest.stop_signal() {
        return Err(wasmtime::Error::new(Stopped(Stop::Signal(signal))));
    }
    let instance = program.ready.instantiate(&mut *store)?;
    let memory = instance.get_memory(&mut *store, "memory");
    store.data_mut().memory = memory;
    let begin = instance.get_typed_func::<(), ()>(&mut *store, "_start")?;
    short::shorten(program, store, begin.func());
    begin.call(store, ())
}

fn ended<G: Guest>(why: &wasmtime::Error, guest: &G) -> End {
    if let Some(&Stopped(stop)) = why.downcast_ref() {
        return match stop {
            Stop::Exit(code) => End::Exit(code),
            Stop::Signal(signal) => End::Signal(signal),
            Stop::Interrupted if !guest.is_short() => {
                End::Signal(guest.stop_signal().unwrap_or(signal::KILL))
            }
            Stop::Interrupted => short(),
        };
    }
    if guest.is_short() {
        return short();
    }
    match why.downcast_ref::<Trap>() {
        // It was killed, or would have been a moment later.
        Some(Trap::UnreachableCodeReached) if guest.stop_signal().is_some() => {
            End::Signal(guest.stop_signal().unwrap_or(signal::KILL))
        }
        Some(&which) => End::Trap(code(which), which.to_string()),
        // All imports exist: loading has checked them. The remaining cause is memory that wasmtime
        // did not get, from the kernel's heap or from its platform functions.
        None => End::NoMemory(why.to_string()),
    }
}

fn short() -> End {
    End::Trap(trap::NO_MEMORY, String::from("no memory for a page that it touched"))
}

fn code(which: Trap) -> u32 {
    match which {
        Trap::StackOverflow => trap::STACK,
        Trap::MemoryOutOfBounds | Trap::HeapMisaligned => trap::MEMORY,
        Trap::TableOutOfBounds | Trap::IndirectCallToNull | Trap::BadSignature => trap::TABLE,
        Trap::NullReference | Trap::ArrayOutOfBounds | Trap::CastFailure => trap::TABLE,
        Trap::UnreachableCodeReached => trap::UNREACHABLE,
        Trap::IntegerOverflow | Trap::IntegerDivisionByZero => trap::NUMBER,
        Trap::BadConversionToInteger => trap::NUMBER,
        Trap::AllocationTooLarge => trap::NO_MEMORY,
        _ => trap::OTHER,
    }
}
