//! A hostile program, encoded as bytes: they determine the imports that are called, with which
//! arguments and memory. The functions run on the real file service and the real process table.
//!
//! ```text
//!   bytes --[`input`]--> an action --[`kernel_process::call`]--> [`world`]: fs, processes
//!                                  \--> [`watch`]: are all properties intact?
//! ```
//! Contract: [`exercise`] takes any bytes and panics if one of these properties is violated:
//!
//! - nothing panics, and every result is an error of WASI's;
//! - memory changes only in the result areas of a call ([`results`]);
//! - the number of descriptors stays within its limit, and rights never grow;
//! - files outside the preopened directory are neither changed nor read;
//! - at the end all resources are freed: the services have no handle and no process.
//!
//! So it is a target for a fuzzer (`fuzz/`), and with bytes from a seed an ordinary test.
#![allow(clippy::unwrap_used, reason = "what cannot be is what it looks for")]

pub mod imports;
mod input;
mod results;
mod watch;
mod world;

use base::prng::Prng;
use input::{Deed, Input};
use kernel_process::wasi::rights;
use kernel_process::{FUNCTIONS, Installed, Process, Stop};
use watch::Watch;
use world::World;

/// Bytes of the program's memory.
pub const MEMORY: usize = 1 << 16;
/// Its manifest.
pub const INSTALLED: Installed = Installed { descriptors: 24, folders: true, signals: false };
/// Maximum number of bytes used.
const LONGEST: usize = 1 << 16;

/// A process, its memory, and its environment.
struct Session {
    process: Process,
    memory: Vec<u8>,
    world: World,
    watch: Watch,
}

/// Does what the bytes encode. Returns which functions succeeded, one bit each.
pub fn exercise(bytes: &[u8]) -> u64 {
    let mut input = Input::new(&bytes[..bytes.len().min(LONGEST)]);
    let restricted = input.chance();
    let mut session = Session::new(restricted);
    let mut worked = 0;
    while let Some(deed) = input.deed() {
        worked |= session.carry_out(&deed);
    }
    session.end();
    worked
}

/// Returns the bytes of a seed.
pub fn bytes_of(seed: u64) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    let length = 64 + prng.below(4096);
    (0..length).map(|_| prng.next() as u8).collect()
}

impl Session {
    fn new(restricted: bool) -> Session {
        let mut world = World::new();
        let mut process = Process::new(INSTALLED.descriptors).unwrap();
        process.add_arguments(b"it\0-v\0").unwrap();
        process.add_environment(b"A=b\0").unwrap();
        for (number, handle) in (0..).zip(world.streams()) {
            process.give(&mut world, number, handle, (rights::STREAM, 0), None).unwrap();
        }
        let jail = world.jail();
        let all = if restricted { rights::READ_ONLY } else { rights::INHERITING };
        process.give(&mut world, 3, jail, (all, all), Some(b"/jail")).unwrap();
        let file = world.file();
        process.give(&mut world, 4, file, (all & rights::FILE, 0), None).unwrap();
        let mut memory = vec![0; MEMORY];
        input::furnish(&mut memory);
        let watch = Watch::new(&mut process, &mut world);
        Session { process, memory, world, watch }
    }

    /// Does one action. Returns the function if it succeeded, as a bit.
    fn carry_out(&mut self, deed: &Deed) -> u64 {
        for (at, bytes) in &deed.writes {
            let (from, to) = (*at as usize, (*at as usize + bytes.len()).min(MEMORY));
            self.memory[from..to].copy_from_slice(&bytes[..to - from]);
        }
        let Some((place, numbers)) = &deed.call else { return 0 };
        u64::from(self.call(*place, numbers) == Ok(0)) << place
    }

    fn call(&mut self, place: usize, numbers: &[u64]) -> Result<u16, Stop> {
        let (function, before) = (&FUNCTIONS[place], self.memory.clone());
        let (memory, world) = (&mut self.memory, &mut self.world);
        let answer = (function.entry)(&mut self.process, memory, world, numbers);
        let what = || format!("{}({numbers:x?}) = {answer:x?}", function.name);
        if let Ok(error) = answer {
            assert!(error <= 76, "{}: no error of WASI's", what());
        }
        let allowed = results::of(function.name, numbers, &before);
        if let Some(at) = watch::changed(&before, memory, &allowed) {
            panic!("{}: changed memory at {at:#x}, where no result is: {allowed:x?}", what());
        }
        let Session { process, world, watch, .. } = self;
        watch.look(process, world, function.name, numbers, &what);
        answer
    }

    fn end(mut self) {
        self.watch.nothing_was_read(&self.memory);
        self.process.close_all(&mut self.world);
        assert_eq!(self.process.descriptors(), 0);
        self.world.end();
    }
}
