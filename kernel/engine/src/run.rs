//! One program from its first instruction to its end.
//!
//! ```text
//!   Program + Guest --instantiate--> _start --> returns, proc_exit: Exit
//!                                           --> a trap: Trap
//!                                           --> told to stop, in a call or in a loop: Signal
//! ```
//! A program that is to stop is stopped by its kernel, which lets it go on, or come back from what
//! it has called, at [`Program::way_out`]: the trap there is the signal's.

use crate::imports::{self, Inside};
use crate::program::Program;
use crate::settings;
use crate::short;
use abi::process::signal;
use abi::program::trap;
use alloc::string::{String, ToString};
use kernel_process::{Process, Stop, System};
use wasmtime::{Linker, Store, Trap};

/// Who runs a program: its way to the kernel.
pub trait Guest: System + Send + Sync + 'static {
    /// The signal by which it is to end, if somebody sent one.
    fn stop_signal(&self) -> Option<u16>;

    /// Has its kernel so many bytes to spare?
    fn has_room(&self, bytes: u64) -> bool;

    /// Was there no memory for a page that it touched, or its kernel for it?
    fn is_short(&self) -> bool;

    /// It has so many bytes of memory now, or is about to.
    fn has_memory(&self, bytes: u64);
}

/// What a program may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of memory.
    pub memory: u64,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With an exit code.
    Exit(u32),
    /// By a signal.
    Signal(u16),
    /// By a trap: `abi::program::trap`, and what happened, for people.
    Trap(u32, String),
    /// The engine could not begin it, and says why: there was no memory, or less than it may have.
    NoMemory(String),
}

/// What is left of a program that ran.
pub struct Ran<G> {
    /// How it ended.
    pub end: End,
    /// Its descriptors, still open.
    pub process: Process,
    /// Who ran it.
    pub guest: G,
}

/// Why there is no engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError(pub String);

/// The runtime of a kernel.
pub struct Engine<G: Guest> {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<Inside<G>>,
}

impl<G: Guest> Engine<G> {
    /// For code of `isa`, this kernel's own.
    pub fn new(isa: u32) -> Result<Engine<G>, EngineError> {
        let failed = |why: wasmtime::Error| EngineError(why.to_string());
        let wasmtime = wasmtime::Engine::new(&settings::config(isa)).map_err(failed)?;
        let mut linker = Linker::new(&wasmtime);
        imports::define(&mut linker).map_err(failed)?;
        Ok(Engine { wasmtime, linker })
    }

    /// Runs it, on the caller's stack.
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

/// A program that was told to end, on its way out through the engine.
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
        // It was stopped, or would have been a moment later.
        Some(Trap::UnreachableCodeReached) if guest.stop_signal().is_some() => {
            End::Signal(guest.stop_signal().unwrap_or(signal::KILL))
        }
        Some(&which) => End::Trap(code(which), which.to_string()),
        // It was loaded, so all that it imports is there: what is left is memory that the engine
        // wanted for it and did not get, here or from its platform.
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
