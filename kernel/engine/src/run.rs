//! A program from its first instruction to its end, and each of its threads.
//!
//! ```text
//!   Program + Guest --instantiate--> _start --> returns: Return; proc_exit: Exit
//!                                           --> a trap: Trap
//!                                           --> killed, in a call or in a loop: Signal
//! ```
//! A program that can move to another kernel runs by [`moving::run`].
//!
//! To kill a program, its kernel redirects it to [`Program::way_out`], at once or on return from
//! what it has called. The trap there counts as the signal.

use crate::engine::Engine;
use crate::guest::Guest;
use crate::inside::{Inside, Limits};
use crate::moving::{self, Left};
use crate::program::Program;
use crate::region::{Lent, Region, Start};
use crate::short;
use crate::stopped::Stopped;
use crate::unwound::Moving;
use abi::process::signal;
use abi::program::trap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use kernel_process::{Process, Scratch, Stop};
use wasmtime::{Func, Instance, MemoryType, Store, Trap};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By returning.
    Return,
    /// By `proc_exit`, with this exit code.
    Exit(u32),
    Signal(u16),
    /// By a trap: one of `abi::program::trap`, and a message for people.
    Trap(u32, String),
    /// With another kernel, on which a part of it ran.
    Lost,
    /// Not at all: it runs on another kernel now.
    Left,
    /// wasmtime could not start it, with this message: out of memory, or its limit is too low.
    NoMemory(String),
}

/// Result of a run.
pub struct Ran<G> {
    pub end: End,
    pub guest: G,
}

impl<G: Guest> Engine<G> {
    /// Runs a program on the caller's stack. It ends for this thread; the threads that it has
    /// started are the caller's to end.
    pub fn run(
        &self,
        program: &Program<G>,
        process: Arc<Process>,
        mut guest: G,
        limits: Limits,
    ) -> Ran<G> {
        let lent = if program.is_light() { guest.lend() } else { None };
        let is_lent = lent.is_some();
        let region = match program.shared_memory() {
            None => None,
            Some(kind) => match self.region(kind, limits, lent) {
                Some(region) => Some(region),
                None => return Ran { end: no_room(), guest },
            },
        };
        if let Some(region) = region.as_ref().filter(|_| is_lent) {
            guest.has_region(region);
        }
        self.within(program, (process, guest, limits, region), |store, instance| {
            let begin = instance.get_typed_func::<(), ()>(&mut *store, "_start")?;
            attached(program, store, (instance, begin.func()), |store| {
                moving::run(store, instance, |store| begin.call(store, ()))
            })
        })
    }

    /// Runs a thread of a program, with this number, on the caller's stack.
    pub fn run_thread(
        &self,
        program: &Program<G>,
        process: Arc<Process>,
        guest: G,
        limits: Limits,
        (start, number): (Start, u32),
    ) -> Ran<G> {
        let Start { region, argument } = start;
        let arguments = (number.cast_signed(), argument.cast_signed());
        self.within(program, (process, guest, limits, Some(region)), |store, instance| {
            let begin = instance.get_typed_func::<(i32, i32), ()>(&mut *store, THREAD)?;
            let call = |store: &mut Store<_>| begin.call(store, arguments);
            attached(program, store, (instance, begin.func()), call)
        })
    }

    fn region(
        &self,
        kind: &MemoryType,
        limits: Limits,
        lent: Option<Arc<dyn Lent>>,
    ) -> Option<Arc<Region>> {
        match lent {
            _ if kind.minimum().saturating_mul(kind.page_size()) > limits.memory => None,
            Some(lent) => Region::lent(self.platform, kind, lent, true),
            None => Region::new(self.platform, kind),
        }
    }

    /// Returns the region of a program that runs on another kernel, in memory that that one lends.
    pub fn region_in(&self, program: &Program<G>, lent: Arc<dyn Lent>) -> Option<Arc<Region>> {
        Region::lent(self.platform, program.shared_memory()?, lent, false)
    }

    /// Makes an instance and runs `work` with it.
    fn within(
        &self,
        program: &Program<G>,
        (process, guest, limits, region): (Arc<Process>, G, Limits, Option<Arc<Region>>),
        work: impl FnOnce(&mut Store<Inside<G>>, &Instance) -> wasmtime::Result<()>,
    ) -> Ran<G> {
        let inside = Inside {
            process,
            guest,
            memory: None,
            region,
            scratch: Scratch::default(),
            limits,
            tables: 0,
            moving: program.is_movable().then(Moving::default),
            long: Default::default(),
            left: None,
        };
        let mut store = Store::new(&self.wasmtime, inside);
        store.limiter(|inside| inside);
        let done = match store.data().guest.stop_signal() {
            Some(signal) => Err(wasmtime::Error::new(Stopped(Stop::Signal(signal)))),
            None => program.instantiate(self, &mut store).and_then(|it| work(&mut store, &it)),
        };
        let Inside { guest, region, tables, .. } = store.into_data();
        if let Some(region) = region {
            region.count_tables(0, tables);
        }
        let end = done.map_or_else(|why| ended(&why, &guest), |()| End::Return);
        Ran { end, guest }
    }
}

/// The function in which a thread begins.
const THREAD: &str = "wasi_thread_start";

/// Calls `work` with an instance that knows its memory: its own, or the region that its store
/// holds. `begin` is a function of it.
fn attached<G: Guest>(
    program: &Program<G>,
    store: &mut Store<Inside<G>>,
    (instance, begin): (&Instance, &Func),
    work: impl FnOnce(&mut Store<Inside<G>>) -> wasmtime::Result<()>,
) -> wasmtime::Result<()> {
    let Some(region) = store.data().region.clone() else {
        store.data_mut().memory = instance.get_memory(&mut *store, "memory");
        short::shorten(program, store, begin);
        return work(store);
    };
    let attached = region.attach(store, begin)?;
    short::shorten(program, store, begin);
    let done = work(store);
    region.detach(attached);
    done
}

fn no_room() -> End {
    End::NoMemory(String::from("no memory for it, or its limit is too low"))
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
    if why.is::<Left>() {
        return End::Left;
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
        // The installer has checked imports and exports. The remaining causes are memory that
        // wasmtime did not get, from the kernel's heap or from its platform functions, and an
        // engine that is not the known one.
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
