//! A program from its first instruction to its end.
//!
//! ```text
//!   Program + Guest --instantiate--> _start --> returns, proc_exit: Exit
//!                                           --> a trap: Trap
//!                                           --> killed, in a call or in a loop: Signal
//! ```
//! To kill a program, its kernel redirects it to [`Program::way_out`], at once or on return from
//! what it has called. The trap there counts as the signal.

use crate::imports::{self, Inside};
use crate::program::Program;
use crate::raw::Publish;
use crate::settings;
use crate::short;
use abi::process::signal;
use abi::program::trap;
use alloc::string::{String, ToString};
use kernel_process::{Process, Stop, System};
use wasmtime::{Linker, Store, Trap};

/// A process's connection to its kernel.
pub trait Guest: System + Send + Sync + 'static {
    /// Returns the signal that must end the process, if there is one.
    fn stop_signal(&self) -> Option<u16>;

    /// Returns whether the kernel has this many bytes to spare.
    fn has_room(&self, bytes: u64) -> bool;

    /// Returns whether there was no memory for a page that the program touched, or for the kernel
    /// on its behalf.
    fn is_short(&self) -> bool;

    /// Reports the size of the program's memory, now or in a moment.
    fn has_memory(&self, bytes: u64);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum memory in bytes.
    pub memory: u64,
}

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

/// Reason why the runtime could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError(pub String);

/// The wasmtime runtime of a kernel.
pub struct Engine<G: Guest> {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<Inside<G>>,
}

impl<G: Guest> Engine<G> {
    /// Makes a runtime for code of `isa`, which is this kernel's own and which `publish` makes
    /// executable.
    pub fn new(isa: u32, publish: Publish) -> Result<Engine<G>, EngineError> {
        let failed = |why: wasmtime::Error| EngineError(why.to_string());
        let wasmtime = wasmtime::Engine::new(&settings::config(isa, publish)).map_err(failed)?;
        let mut linker = Linker::new(&wasmtime);
        imports::define(&mut linker).map_err(failed)?;
        Ok(Engine { wasmtime, linker })
    }

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

/// Carries the end of a program through wasmtime.
#[derive(Clone, Copy, Debug)]
pub struct Stopped(pub Stop);

impl core::fmt::Display for Stopped {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl core::error::Error for Stopped {}

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
        // All imports exist, since it was loaded. What remains is memory that wasmtime did not get,
        // for itself or from its platform.
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
