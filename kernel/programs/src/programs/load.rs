//! Loads programs: finds and reads the image, checks its seal, and makes it executable. Keeps
//! recently used programs in a cache.
//!
//! Contract: only images that were sealed with this board's key become code. In the cache, a
//! program is identified by its file's device, node, size and times; a file that has changed is
//! read again.

use super::Trace;
use super::file::{Image, Known, Named, errno};
use super::preferences::Preferences;
use super::seam::{self, Frozen};
use abi::process::Errno;
use abi::program::right;
use abi::quota::Budget;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::port::Trace as _;
use kernel_engine::{
    Engine, EngineError, Guest, Lent, Limits, LoadError, Program, Ran, Region, Seal, Start,
};
use kernel_process::Process;
use kernel_services::files::with_files;
use kernel_services::kernel::Kernel;
use kernel_services::session::Session;

/// Number of programs in the cache.
const KEPT: usize = 16;
/// What the engine keeps about an image is at most this fraction of the image's size: a quarter.
const BESIDE: u64 = 4;

/// The manifest in a program's image.
pub struct Manifest {
    /// Arguments that follow the process's own; each ends with a NUL.
    pub arguments: Vec<u8>,
    /// `NAME=VALUE`, each ends with a NUL.
    pub environment: Vec<u8>,
    pub preopens: Vec<Directory>,
    /// Rules of what it may reach, each NUL terminated; `None`: what its parent may.
    pub net: Option<Vec<u8>>,
    /// Ports of the listeners that it starts with.
    pub listen: Vec<u16>,
    /// Limit on memory in bytes; 0 for the default.
    pub memory: u64,
    /// Limit on descriptors; 0 for the default.
    pub files: u32,
    /// Limits of the tree or branch that a process of it begins; 0 for the default.
    pub tree: Budget,
    /// The kernel that is to run it.
    pub preferences: Arc<Preferences>,
    /// Bits of [`abi::program::right`].
    pub rights: u32,
    /// BLAKE3 of the .wasm file.
    pub source: [u8; 32],
}

/// A preopened directory of a manifest.
pub struct Directory {
    /// From the root.
    pub path: Vec<u8>,
    /// Name in the program.
    pub name: Vec<u8>,
    /// The program may change its contents.
    pub write: bool,
    /// The program gets it from any parent; otherwise its parent must have it.
    pub is_grant: bool,
}

/// A program that can be run.
pub struct Loaded<G: Guest> {
    program: Program<G>,
    pub manifest: Manifest,
}

/// What a program says of the kernel that is to run it; and the program, if this kernel has loaded
/// it.
pub type Found<G> = (Arc<Preferences>, Option<Arc<Loaded<G>>>);

type Kept<G> = VecDeque<(Known, Arc<Loaded<G>>)>;

/// The engine of this kernel, and its cache of programs.
pub struct Programs<G: Guest> {
    engine: Engine<G>,
    /// The cache; the most recently used program is first.
    kept: Lock<Kept<G>>,
}

impl<G: Guest> Programs<G> {
    /// Creates the engine and an empty cache.
    pub fn new(_: &Kernel) -> Result<Programs<G>, EngineError> {
        let kept = Lock::new(kernel_node::ranks::PROGRAMS, VecDeque::with_capacity(KEPT + 1));
        Ok(Programs { engine: Engine::new(arch::cpu::ISA, seam::PLATFORM)?, kept })
    }

    /// Runs a program to its end, for its main thread. The calling thread must be on a stack for
    /// programs ([`super::stack`]).
    pub fn run(
        &self,
        loaded: &Loaded<G>,
        (process, limits): (Arc<Process>, Limits),
        guest: G,
    ) -> Ran<G> {
        self.engine.run(&loaded.program, process, guest, limits)
    }

    /// The same for another thread of it, with its number.
    pub fn run_thread(
        &self,
        loaded: &Loaded<G>,
        (process, limits): (Arc<Process>, Limits),
        guest: G,
        start: (Start, u32),
    ) -> Ran<G> {
        self.engine.run_thread(&loaded.program, process, guest, limits, start)
    }

    /// Returns the region of a program of another kernel's process, in memory that that one lends.
    pub fn region_in(&self, loaded: &Loaded<G>, lent: Arc<dyn Lent>) -> Option<Arc<Region>> {
        self.engine.region_in(&loaded.program, lent)
    }

    /// As [`Programs::load`]; without memory for it, empties the cache and tries again.
    pub fn load_or_forget(
        &self,
        session: &Session,
        directory: Option<u64>,
        path: &[u8],
    ) -> Result<Arc<Loaded<G>>, Errno> {
        match self.load(session, directory, path) {
            Err(Errno::Nomem) => {
                self.forget();
                self.load(session, directory, path)
            }
            other => other,
        }
    }

    /// Returns the program `path`, from the cache or its file. `path` starts at the file service's
    /// handle `directory`, or else at the root.
    pub fn load(
        &self,
        session: &Session,
        directory: Option<u64>,
        path: &[u8],
    ) -> Result<Arc<Loaded<G>>, Errno> {
        let named = Named::new(arch::cpu::ISA, session, directory, path);
        match self.find(named.look()?) {
            Some(known) => Ok(known),
            None => self.load_image(session, named.open()?, path),
        }
    }

    /// Returns the program in another kernel's open file, called `name`.
    pub fn load_handle(
        &self,
        session: &Session,
        handle: u64,
        name: &[u8],
    ) -> Result<Arc<Loaded<G>>, Errno> {
        let own = with_files(session, |client| client.dup(handle)).map_err(errno)?;
        self.load_image(session, Image::of(session, own, None)?, name)
    }

    fn load_image(
        &self,
        session: &Session,
        file: Image<'_>,
        path: &[u8],
    ) -> Result<Arc<Loaded<G>>, Errno> {
        if let Some(known) = self.find(file.known) {
            return Ok(known);
        }
        self.make_room(session.kernel, file.known.size);
        let begun = arch::time::soc_time();
        let image = file.read()?;
        let read = arch::time::soc_time();
        let image = image.freeze().ok_or(Errno::Nomem)?;
        let loaded = Arc::new(self.make(session.kernel, path, image)?);
        // Both trace events record the size; one records the ns of reading, one those of the rest.
        let (reading, rest) = (read - begun, arch::time::soc_time() - read);
        session.kernel.trace.event("program read", file.known.size, reading);
        session.kernel.trace.event("program loaded", file.known.size, rest);
        self.keep(file.known, loaded.clone());
        Ok(loaded)
    }

    /// Returns what the program `path` says of the kernel that is to run it: from the cache of
    /// `these`, with the program, or else from the start of its image. The seal of that is not
    /// checked.
    pub fn preferences(
        these: Option<&Programs<G>>,
        session: &Session,
        directory: Option<u64>,
        path: &[u8],
    ) -> Result<Found<G>, Errno> {
        let named = Named::new(arch::cpu::ISA, session, directory, path);
        if let Some(these) = these
            && let Some(loaded) = these.find(named.look()?)
        {
            let preferences = loaded.manifest.preferences.clone();
            return Ok((preferences, Some(loaded)));
        }
        let preferences = Arc::new(named.open()?.preferences()?);
        Ok((preferences, None))
    }

    fn find(&self, known: Known) -> Option<Arc<Loaded<G>>> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|entry| entry.0 == known)?;
        let entry = kept.remove(at)?;
        let loaded = entry.1.clone();
        kept.push_front(entry);
        Some(loaded)
    }

    fn keep(&self, known: Known, loaded: Arc<Loaded<G>>) {
        let mut kept = self.kept.lock();
        kept.push_front((known, loaded));
        let last = if kept.len() > KEPT { kept.pop_back() } else { None };
        drop(kept);
        // Freed without holding the lock.
        drop(last);
    }

    /// Makes room for an image: empties the cache and takes blocks from the pool, if necessary.
    fn make_room(&self, kernel: &'static Kernel, image: u64) {
        // The engine's own records of the image are in the kernel's heap.
        let wanted = image + image / BESIDE;
        if !super::has_room(wanted) {
            self.forget();
            super::make_room(kernel, wanted);
        }
    }

    /// Empties the cache, and frees unused stacks. Programs that run stay.
    pub fn forget(&self) {
        super::stack::forget();
        let all = core::mem::take(&mut *self.kept.lock());
        drop(all);
    }

    fn make(&self, kernel: &Kernel, path: &[u8], file: Frozen) -> Result<Loaded<G>, Errno> {
        let shown = String::from_utf8_lossy(path);
        let seal = Seal { isa: arch::cpu::ISA, key: &kernel.blob.given.program_key };
        let refusals = seam::refusals();
        let loaded = Program::load(&self.engine, Box::new(file), seal, Manifest::of);
        let (program, manifest) = loaded.map_err(|why| match why {
            LoadError::Seal(why) => {
                kernel_node::log!("{shown}: {}", why.text());
                Errno::Noexec
            }
            LoadError::NoMemory => Errno::Nomem,
            LoadError::Refused(_) if seam::refusals() != refusals => Errno::Nomem,
            LoadError::NoStart => {
                kernel_node::log!("{shown}: it has no `_start`: a library, not a program");
                Errno::Noexec
            }
            LoadError::Refused(what) | LoadError::Import(what) => {
                kernel_node::log!("{shown}: {what}");
                Errno::Noexec
            }
        })?;
        Ok(Loaded { program, manifest })
    }
}

impl Manifest {
    fn of(image: &kernel_seal::Image<'_>) -> Manifest {
        let preopens = image.preopens().map(|it| Directory {
            path: it.path.to_vec(),
            name: it.name.to_vec(),
            write: it.write,
            is_grant: it.grant,
        });
        let (processes, handles) = (image.tree_processes, image.tree_files);
        Manifest {
            arguments: image.arguments.to_vec(),
            environment: image.environment.to_vec(),
            preopens: preopens.collect(),
            listen: image.listen().collect(),
            net: (image.rights & right::NET == 0).then(|| image.net.to_vec()),
            memory: image.memory,
            files: image.files,
            tree: Budget { owner: 0, processes, handles },
            preferences: Arc::new(Preferences::of_image(image)),
            rights: image.rights,
            source: image.source,
        }
    }
}

impl<G: Guest> Loaded<G> {
    /// Returns whether it has threads and may start light ones.
    pub fn is_light(&self) -> bool {
        self.program.is_light()
    }

    /// Returns whether it can move to another kernel while it runs.
    pub fn is_movable(&self) -> bool {
        self.program.is_movable()
    }

    /// Returns whether `address` is in the program's code. From any context.
    pub fn holds(&self, address: u64) -> bool {
        self.program.holds(address)
    }

    /// Returns the address of the program's way out, a function that traps, if the program can be
    /// diverted at `address`. From any context.
    pub fn way_out(&self, address: u64) -> Option<u64> {
        self.program.way_out(address)
    }

    /// Returns the backtrace of the calling thread's last trap as text, innermost first.
    pub fn backtrace(&self) -> Vec<String> {
        let frames = Trace::take();
        let lines = frames.into_iter().filter_map(|pc| {
            let (name, offset) = self.program.name_at(pc)?;
            Some(alloc::format!("in {name} + {offset:#x}"))
        });
        lines.collect()
    }
}
