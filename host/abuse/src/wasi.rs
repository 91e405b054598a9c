//! The functions that programs call. The bytes are a hostile program: they determine the imports
//! that are called, with which arguments and memory. The functions run on the real file service
//! and the real process table.
//!
//! ```text
//!   bytes --[`input`]--> an action --[`kernel_process::call`]--> [`world`]: fs, processes
//!                                  \--> [`watch`]: are all properties intact?
//! ```
//! Rules:
//! - nothing panics, and every result is an error of WASI's;
//! - memory changes only in the result areas of a call ([`results`]);
//! - the number of descriptors stays within its limit, and rights never grow;
//! - files outside the preopened directory are neither changed nor read;
//! - at the end all resources are freed: the services have no handle and no process.

pub mod imports;
mod input;
mod results;
mod watch;
mod world;

use crate::Target;
use base::prng::Prng;
use input::{Deed, Input};
use kernel_process::table::Preopen;
use kernel_process::wasi::rights;
use kernel_process::{
    Bytes, FUNCTIONS, Function, GuestMemory, Installed, Object, Process, Scratch, SharedMemory,
    Stop,
};
use std::cell::RefCell;
use watch::Watch;
use world::World;

/// Bytes of the program's memory.
pub const MEMORY: usize = 1 << 16;
/// Most descriptors of a process.
pub const DESCRIPTORS: u32 = 24;
/// Its manifest.
pub const INSTALLED: Installed = Installed { folders: true, signals: false };
/// Maximum number of bytes used.
const LONGEST: usize = 1 << 16;

/// Memory that is only copied to and from.
struct Cells(RefCell<Vec<u8>>);

impl SharedMemory for Cells {
    fn size(&self) -> usize {
        self.0.borrow().len()
    }

    fn start(&self) -> u64 {
        0
    }

    fn touch(&self, _at: usize, _length: usize) -> bool {
        true
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[at..][..into.len()]);
    }

    fn store(&self, at: usize, from: &[u8]) {
        self.0.borrow_mut()[at..][..from.len()].copy_from_slice(from);
    }
}

/// A process, its memory, and its environment.
struct Session {
    process: Process,
    memory: Vec<u8>,
    /// The memory is that of a program with threads.
    shared: bool,
    world: World,
    watch: Watch,
}

/// The target. Its outcomes: a function succeeded.
pub const TARGET: Target = Target {
    name: "wasi",
    about: "the functions that programs call, on the real services",
    daily: 3000,
    nightly: 100_000,
    run: exercise,
    seed: bytes_of,
    outcomes,
};

/// Does what the bytes encode. Returns which functions succeeded, one bit each.
fn exercise(bytes: &[u8]) -> u64 {
    let mut input = Input::new(&bytes[..bytes.len().min(LONGEST)]);
    let restricted = input.chance();
    let mut session = Session::new(restricted, input.chance());
    let mut worked = 0;
    while let Some(deed) = input.deed() {
        worked |= session.carry_out(&deed);
    }
    session.end();
    worked
}

fn bytes_of(seed: u64) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    let length = 64 + prng.below(4096);
    (0..length).map(|_| prng.next() as u8).collect()
}

/// Functions that never succeed here: they do not return, or need a terminal.
const NEVER: [&str; 2] = ["proc_exit", "terminal"];

/// Each function succeeds at some point.
fn outcomes() -> Vec<(u32, &'static str)> {
    let all = (0..).zip(FUNCTIONS).map(|(place, function)| (place, function.name));
    // An outcome is a bit of a word: the last functions, of options and channels, have none.
    all.filter(|(place, name)| *place < u64::BITS && !NEVER.contains(name)).collect()
}

impl Session {
    fn new(restricted: bool, shared: bool) -> Session {
        let mut world = World::new();
        let mut process = Process::new(DESCRIPTORS).unwrap();
        process.add_arguments(b"it\0-v\0").unwrap();
        process.add_environment(b"A=b\0").unwrap();
        for (number, handle) in (0..).zip(world.streams()) {
            process.give(&mut world, number, handle, (rights::STREAM, 0), None).unwrap();
        }
        let jail = world.jail();
        let all = if restricted { rights::READ_ONLY } else { rights::INHERITING };
        let at_path = Preopen { name: b"/jail", is_path: true };
        process.give(&mut world, 3, jail, (all, all), Some(at_path)).unwrap();
        let file = world.file();
        process.give(&mut world, 4, file, (all & rights::FILE, 0), None).unwrap();
        for (number, handle) in (5..).zip(world.connection()) {
            let (object, given) = (Object::Socket(handle), (rights::SOCKET, 0));
            process.give_object(&mut world, number, object, given, None).unwrap();
        }
        let mut memory = vec![0; MEMORY];
        input::furnish(&mut memory);
        let watch = Watch::new(&process, &mut world);
        Session { process, memory, shared, world, watch }
    }

    /// Does one action. Returns the function if it succeeded, as a bit.
    fn carry_out(&mut self, deed: &Deed) -> u64 {
        for (at, bytes) in &deed.writes {
            let (from, to) = (*at as usize, (*at as usize + bytes.len()).min(MEMORY));
            self.memory[from..to].copy_from_slice(&bytes[..to - from]);
        }
        let Some((place, numbers)) = &deed.call else { return 0 };
        let worked = u64::from(self.call(*place, numbers) == Ok(0));
        worked.checked_shl(*place as u32).unwrap_or(0)
    }

    fn call(&mut self, place: usize, numbers: &[u64]) -> Result<u16, Stop> {
        let (function, before) = (&FUNCTIONS[place], self.memory.clone());
        let answer = self.enter(function, numbers);
        let what = || format!("{}({numbers:x?}) = {answer:x?}", function.name);
        if let Ok(error) = answer {
            assert!(error <= 76, "{}: no error of WASI's", what());
        }
        let allowed = results::of(function.name, numbers, &before);
        if let Some(at) = watch::changed(&before, &self.memory, &allowed) {
            panic!("{}: changed memory at {at:#x}, where no result is: {allowed:x?}", what());
        }
        let Session { process, world, watch, .. } = self;
        watch.look(process, world, function.name, numbers, &what);
        answer
    }

    /// Calls a function with the memory, or with one that threads share.
    fn enter(&mut self, function: &Function, numbers: &[u64]) -> Result<u16, Stop> {
        let mut scratch = Scratch::default();
        let Session { process, memory, world, .. } = self;
        if !self.shared {
            let mut memory = GuestMemory::new(Bytes::Own(memory), &mut scratch);
            return (function.entry)(process, &mut memory, world, numbers);
        }
        let cells = Cells(RefCell::new(std::mem::take(memory)));
        let mut copied = GuestMemory::new(Bytes::Shared(&cells), &mut scratch);
        let answer = (function.entry)(process, &mut copied, world, numbers);
        *memory = cells.0.into_inner();
        answer
    }

    fn end(mut self) {
        self.watch.nothing_was_read(&self.memory);
        self.process.close_all(&mut self.world);
        assert_eq!(self.process.descriptors(), 0);
        self.world.end();
    }
}
