//! Loads programs: finds and reads the image, checks its seal, and makes it executable. Keeps
//! recently used programs in a cache.
//!
//! Contract: only images that were sealed with this board's key become code. In the cache, a
//! program is identified by its file's device, node, size and times; a file that has changed is
//! read again.

use super::Trace;
use super::preferences::Preferences;
use super::seam::{self, Buffer, Frozen};
use abi::boot::isa;
use abi::fs::{Errno as FileError, Stat, flag, kind};
use abi::process::Errno;
use abi::program::{IMAGE_BYTES, ImageHead, right};
use abi::quota::Budget;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::port::Trace as _;
use fs::client::Client;
use kernel_engine::{
    Engine, EngineError, Guest, Lent, Limits, LoadError, Program, Ran, Region, Seal, Start,
};
use kernel_process::Process;
use kernel_seal::Refused;
use kernel_services::files::with_files;
use kernel_services::kernel::Kernel;
use kernel_services::session::Session;

/// Number of programs in the cache.
const KEPT: usize = 16;
/// What the engine keeps about an image is at most this fraction of the image's size: a quarter.
const BESIDE: u64 = 4;
/// Most bytes of one read.
const PIECE: usize = 64 << 10;

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

/// Identifies the version of a file.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    device: u64,
    node: u64,
    size: u64,
    modified: u64,
    changed: u64,
}

impl Known {
    /// Fails if it cannot be an image.
    fn of(stat: &Stat) -> Result<Known, Errno> {
        let Stat { device, node, size, modified, changed, .. } = *stat;
        match stat.kind == kind::FILE && size <= IMAGE_BYTES {
            true => Ok(Known { device, node, size, modified, changed }),
            false => Err(Errno::Noexec),
        }
    }
}

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
    /// `these`, or else from the start of its image. The seal is not checked.
    pub fn preferences(
        these: Option<&Programs<G>>,
        session: &Session,
        directory: Option<u64>,
        path: &[u8],
    ) -> Result<Arc<Preferences>, Errno> {
        let named = Named::new(arch::cpu::ISA, session, directory, path);
        if let Some(these) = these
            && let Some(loaded) = these.find(named.look()?)
        {
            return Ok(loaded.manifest.preferences.clone());
        }
        named.open()?.preferences().map(Arc::new)
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

/// Opens the image of a program for ISA `isa`. Returns its handle, which the caller closes.
pub fn open_image(
    session: &Session,
    isa: u32,
    directory: Option<u64>,
    path: &[u8],
) -> Result<u64, Errno> {
    let image = Named::new(isa, session, directory, path).open()?;
    let handle = image.handle;
    // The handle stays open.
    core::mem::forget(image);
    Ok(handle)
}

/// Returns what is wrong with the image of the program `path` for ISA `isa`, or `None` if there is
/// no image or it is valid. For the user, after a program failed to start; reads the whole image
/// again.
#[cold]
pub fn refusal(session: &Session, path: &[u8], isa: u32) -> Option<&'static str> {
    let mut bytes = match Named::new(isa, session, None, path).open() {
        Ok(file) => file.read().ok()?,
        // A directory, or larger than any image.
        Err(Errno::Noexec) => return Some(Refused::Size.text()),
        Err(_) => return None,
    };
    let key = &session.kernel.blob.given.program_key;
    kernel_seal::check(bytes.fill(), isa, key).err().map(Refused::text)
}

/// An image's open file; dropping this closes it.
struct Image<'a> {
    session: &'a Session,
    handle: u64,
    known: Known,
}

fn errno(why: FileError) -> Errno {
    match why {
        FileError::Noent | FileError::Notdir => Errno::Noent,
        FileError::Perm => Errno::Perm,
        FileError::Nomem => Errno::Nomem,
        FileError::Nfile => Errno::Nfile,
        FileError::Badf => Errno::Badf,
        FileError::Restarted => Errno::Restarted,
        _ => Errno::Io,
    }
}

/// An image by its path.
struct Named<'a> {
    session: &'a Session,
    /// Where the path starts; `None`: at the root.
    directory: Option<u64>,
    path: Vec<u8>,
}

impl<'a> Named<'a> {
    /// The image of the program `path` for ISA `isa`.
    fn new(isa: u32, session: &'a Session, directory: Option<u64>, path: &[u8]) -> Named<'a> {
        let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
        let relative = if directory.is_none() { &path[slashes..] } else { path };
        let path = [relative, b".", isa::name(isa).as_bytes()].concat();
        Named { session, directory, path }
    }

    /// Returns the version of the file, without opening it.
    fn look(&self) -> Result<Known, Errno> {
        let stat = self.ask(|client, from| client.stat_path(from, &self.path, flag::FOLLOW))?;
        Known::of(&stat)
    }

    fn open(&self) -> Result<Image<'a>, Errno> {
        let how = flag::READ | flag::FOLLOW;
        let (handle, stat) = self.ask(|client, from| client.open_known(from, &self.path, how))?;
        Image::of(self.session, handle, stat)
    }

    /// Asks the file service something about the path from a directory.
    fn ask<R>(
        &self,
        what: impl FnOnce(&mut Client<'_>, u64) -> Result<R, FileError>,
    ) -> Result<R, Errno> {
        let asked = with_files(self.session, |client| match self.directory {
            Some(directory) => what(client, directory),
            None => client.at_root(what),
        });
        asked.map_err(errno)
    }
}

impl<'a> Image<'a> {
    /// Returns the image in an open file, whose handle it takes, with the file's metadata if they
    /// are known.
    fn of(session: &'a Session, handle: u64, stat: Option<Stat>) -> Result<Image<'a>, Errno> {
        let mut image = Image { session, handle, known: Known::default() };
        let stat = match stat {
            Some(stat) => stat,
            None => with_files(session, |client| client.stat(handle)).map_err(errno)?,
        };
        image.known = Known::of(&stat)?;
        Ok(image)
    }

    fn preferences(&self) -> Result<Preferences, Errno> {
        let mut head = [0; size_of::<ImageHead>()];
        let read = |at: usize, to: &mut [u8]| {
            with_files(self.session, |client| client.read_at(self.handle, at as u64, to))
                .map_err(errno)
        };
        let count = read(0, &mut head)?;
        let found =
            head.get(..count).and_then(kernel_seal::Preferences::of).ok_or(Errno::Noexec)?;
        let mut endpoints = vec![0; found.endpoints.len()];
        if !endpoints.is_empty() && read(found.endpoints.start, &mut endpoints)? < endpoints.len() {
            return Err(Errno::Noexec);
        }
        Ok(Preferences::of_head(&found, &endpoints))
    }

    fn read(&self) -> Result<Buffer, Errno> {
        let size = self.known.size as usize;
        let mut buffer = Buffer::new(size).ok_or(Errno::Nomem)?;
        let bytes = buffer.fill();
        let mut done = 0;
        while done < size {
            let end = size.min(done + PIECE);
            let piece = &mut bytes[done..end];
            let read =
                with_files(self.session, |client| client.read_at(self.handle, done as u64, piece));
            match read.map_err(errno)? {
                // The file has become shorter meanwhile.
                0 => return Err(Errno::Noexec),
                count => done += count,
            }
        }
        Ok(buffer)
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        // Fails only if the service has restarted; then there is no such handle.
        let _ = with_files(self.session, |client| client.close(self.handle));
    }
}
