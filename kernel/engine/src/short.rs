//! Direct calls: programs call some functions of the kernel without wasmtime in between, like the
//! vDSO on Linux.
//!
//! Code compiled by Cranelift calls an import through an address in its instance. For a host
//! function that is the address of a trampoline into wasmtime, which then finds the function
//! through the store: a hundred instructions, as many as some calls need in all. So in each new
//! instance the addresses of the functions that are called most are replaced.
//!
//! ```text
//!   program --> entry (arch) --> the function --> its result --> program
//!                                     |
//!                                     +-- it must stop: noted in Inside::left
//!                                           --> the trampoline --> imports: the program ends
//! ```
//! Only wasmtime can end a program, and only the usual way lets one move: a movable program calls
//! nothing but the clock directly. No function here makes the memory of its own thread grow.
//!
//! Everything read from the instance ([`Context`]) is compared with the engine's own answers before
//! anything is written; if they differ, the indirect calls stay.
#![allow(unsafe_code)]

use crate::context::Context;
use crate::guest::Guest;
use crate::inside::Inside;
use crate::program::Program;
use crate::slots::{COUNT, place_of};
use arch::program::import_address;
use arch::types::{Direct, DirectImport};
use core::marker::PhantomData;
use core::slice::from_raw_parts_mut;
use kernel_process::{Bytes, Done, Errno, GuestMemory, Process, Stop, System, clocks, outcome};
use wasmtime::{Func, Store};

/// Declares functions that are called directly, besides the clock: names and arguments.
macro_rules! direct {
    ($($kind:ident: $function:ident($($argument:ident),*);)*) => {
        $(
            struct $kind;

            impl Function for $kind {
                const PLACE: usize = place_of(stringify!($function));

                #[inline]
                fn call(
                    process: &Process,
                    memory: &mut GuestMemory<'_>,
                    system: &mut dyn System,
                    [$($argument,)* ..]: [u64; 4],
                ) -> Done {
                    process.$function(memory, system, $($argument as _),*)
                }
            }
        )*

        /// Returns the address of each, for programs to call.
        fn addresses<G: Guest>() -> [u64; COUNT] {
            let mut all = [0; COUNT];
            all[CLOCK] = import_address::<Clock<G>>();
            $(all[$kind::PLACE] = import_address::<Call<G, $kind>>();)*
            all
        }
    };
}

const CLOCK: usize = place_of("clock_time_get");

direct! {
    Read: fd_read(fd, list, count, done);
    Write: fd_write(fd, list, count, done);
    Send: channel_send(fd, message);
    Receive: channel_receive(fd, message, flags);
    Both: channel_call(fd, message, reply);
}

/// A function that is called directly.
trait Function {
    /// Its place in the list.
    const PLACE: usize;

    fn call(
        process: &Process,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        arguments: [u64; 4],
    ) -> Done;
}

/// Makes the instance of function `begin` call functions directly.
pub fn shorten<G: Guest>(program: &Program<G>, store: &mut Store<Inside<G>>, begin: &Func) {
    let mut slots = program.slots;
    if store.data().moving.is_some() {
        slots = [None; COUNT];
        slots[CLOCK] = program.slots[CLOCK];
    }
    if slots == [None; COUNT] {
        return;
    }
    let (start, least) = match (&store.data().region, store.data().memory) {
        (Some(region), _) => region.extent(),
        (None, Some(memory)) => (memory.data_ptr(&*store) as u64, memory.data_size(&*store) as u64),
        (None, None) => return,
    };
    let data: *const Inside<G> = store.data();
    // The memory of threads may have grown meanwhile.
    let grows = store.data().region.is_some();
    // SAFETY: `slots_of` checked that the module has one memory, its own. The store keeps the
    // instance.
    let context = unsafe { Context::of(store, begin) };
    let known = context.filter(|context| {
        let (base, bytes) = context.memory();
        (context.data(), base) == (data as u64, start) && (bytes == least || grows && bytes > least)
    });
    let long = known.and_then(|context| replace(program, &context, slots));
    debug_assert!(long.is_some(), "the engine is not the version that this was written for");
    store.data_mut().long = long.unwrap_or_default();
}

/// Replaces the addresses in an instance. Returns the former ones.
fn replace<G: Guest>(
    program: &Program<G>,
    context: &Context,
    slots: [Option<u32>; COUNT],
) -> Option<[u64; COUNT]> {
    let slots = slots.map(|slot| slot.map(|slot| context.word(slot)));
    // SAFETY: `slots_of` computed these offsets from the module's imports.
    let long = slots.map(|slot| slot.map_or(0, |word| unsafe { word.read() }));
    // Until now there are the addresses of trampolines in the module's own code.
    if !long.iter().all(|&address| address == 0 || program.holds(address)) {
        return None;
    }
    for (word, address) in slots.into_iter().zip(addresses::<G>()) {
        if let Some(word) = word {
            // SAFETY: as above.
            unsafe { word.write(address) };
        }
    }
    Some(long)
}

/// Returns the data of a program that calls, and the bytes of a memory that is not shared.
///
/// # Safety
/// The context is that of an instance that [`shorten`] checked, and its function waits for this
/// call.
#[inline]
unsafe fn caller<'a, G>(context: u64) -> (&'a mut Inside<G>, &'a mut [u8]) {
    // SAFETY: while the program waits, so do wasmtime and the code that runs it. Nothing else uses
    // the data, nor a memory of one thread, which has these bytes.
    unsafe {
        let context = Context::at(context);
        let inside = &mut *(context.data() as *mut Inside<G>);
        let own: &mut [u8] = match inside.region {
            None => {
                let (base, bytes) = context.memory();
                from_raw_parts_mut(base as *mut u8, bytes as usize)
            }
            Some(_) => &mut [],
        };
        (inside, own)
    }
}

/// A function, as called by a program.
struct Call<G, F>(PhantomData<(G, F)>);

impl<G: Guest, F: Function> DirectImport for Call<G, F> {
    extern "C" fn call(context: u64, first: u64, second: u64, third: u64, fourth: u64) -> Direct {
        // SAFETY: called by a program, through the address that `shorten` wrote.
        let (inside, own) = unsafe { caller::<G>(context) };
        let done = match inside.guest.pause() {
            Ok(()) => outcome(inside.with(own, |process, memory, system| {
                F::call(process, memory, system, [first, second, third, fourth])
            })),
            // The process is about to end, and its memory may not be here.
            Err(_) => Err(Stop::Interrupted),
        };
        match done {
            Ok(result) => Direct { result: result.into(), next: 0 },
            Err(stop) => {
                inside.left = Some(stop);
                Direct { result: 0, next: inside.long[F::PLACE] }
            }
        }
    }
}

/// The clock, which every program asks so often that it has no need of [`System`].
struct Clock<G>(PhantomData<G>);

impl<G: Guest> DirectImport for Clock<G> {
    extern "C" fn call(context: u64, id: u64, _precision: u64, time: u64, _: u64) -> Direct {
        // SAFETY: called by a program, through the address that `shorten` wrote.
        let (inside, own) = unsafe { caller::<G>(context) };
        let result = match inside.guest.pause() {
            Ok(()) => {
                clocks::now(&mut inside.guest, id as u32).and_then(|now| match &inside.region {
                    None => Bytes::Own(own).store_u64(time as u32, now),
                    Some(region) => Bytes::Shared(&**region).store_u64(time as u32, now),
                })
            }
            // The process is about to end, and its memory may not be here.
            Err(_) => Err(Errno::IO),
        };
        Direct { result: result.map_or_else(|why| why.0, |()| 0).into(), next: 0 }
    }
}
