//! From a file to a program: found, read, authenticated, made executable; kept for the next one
//! who runs it.
//!
//! Contract: only what `pen install` sealed with this board's key becomes code. A program is known
//! by its file: which one, how long, and when it changed; a file that changed is read again.

use super::Trace;
use super::seam::{self, Buffer, Frozen};
use crate::files::with_files;
use crate::kernel::Kernel;
use crate::session::Session;
use abi::boot::isa;
use abi::fs::{Errno as FileError, Stat, flag, kind};
use abi::process::Errno;
use abi::program::{IMAGE_BYTES, ImageHead};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::port::Trace as _;
use kernel_engine::{Engine, EngineError, Guest, Limits, LoadError, Program, Ran, Seal};
use kernel_process::Process;
use kernel_seal::Refused;

/// Programs that are kept though nobody runs them.
const KEPT: usize = 16;
/// What is kept about an image takes this part of its bytes at most.
const BESIDE: u64 = 4;
/// Bytes of one read.
const PIECE: usize = 64 << 10;

/// What the installer wrote about a program.
pub struct Manifest {
    /// Arguments behind those it is given, each with a NUL.
    pub arguments: Vec<u8>,
    /// `NAME=VALUE`, each with a NUL.
    pub environment: Vec<u8>,
    /// Directories that it begins with: the path, its name there, may it change them?
    pub preopens: Vec<(Vec<u8>, Vec<u8>, bool)>,
    /// Most bytes of memory; 0: no limit.
    pub memory: u64,
    /// Most descriptors; 0: as any other.
    pub files: u32,
    /// For which cores: [`abi::program::class`].
    pub class: u32,
    /// [`abi::program::right`]s.
    pub rights: u32,
}

/// A program that can be run.
pub struct Loaded<G: Guest> {
    program: Program<G>,
    /// What it was installed with.
    pub manifest: Manifest,
}

/// Which file a program was.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    device: u64,
    node: u64,
    size: u64,
    modified: u64,
    changed: u64,
}

impl Known {
    fn of(stat: &Stat) -> Known {
        let Stat { device, node, size, modified, changed, .. } = *stat;
        Known { device, node, size, modified, changed }
    }
}

type Kept<G> = VecDeque<(Known, Arc<Loaded<G>>)>;

/// The programs of this kernel, and the engine that runs them.
pub struct Programs<G: Guest> {
    engine: Engine<G>,
    /// The last one that was used first.
    kept: Lock<Kept<G>>,
}

impl<G: Guest> Programs<G> {
    /// None yet.
    pub fn new(_: &Kernel) -> Result<Programs<G>, EngineError> {
        let kept = Lock::new(crate::ranks::PROGRAMS, VecDeque::with_capacity(KEPT + 1));
        Ok(Programs { engine: Engine::new(arch::cpu::ISA, seam::publish)?, kept })
    }

    /// Runs one, on a stack that was made for that.
    pub fn run(&self, loaded: &Loaded<G>, process: Process, guest: G, limits: Limits) -> Ran<G> {
        self.engine.run(&loaded.program, process, guest, limits)
    }

    /// The program `path`, from the file service's handle `directory` or from the root.
    pub fn load(
        &self,
        session: &Session,
        directory: Option<u64>,
        path: &[u8],
    ) -> Result<Arc<Loaded<G>>, Errno> {
        let file = Image::open(session, directory, path)?;
        if let Some(known) = self.find(file.known) {
            return Ok(known);
        }
        self.make_room(session.kernel, file.known.size);
        let begun = arch::time::soc_time();
        let image = file.read()?;
        let read = arch::time::soc_time();
        let image = image.freeze().ok_or(Errno::Nomem)?;
        let loaded = Arc::new(self.make(session.kernel, path, image)?);
        // What was read, and ns: of reading it, and of all else.
        let (reading, rest) = (read - begun, arch::time::soc_time() - read);
        session.kernel.trace.event("program read", file.known.size, reading);
        session.kernel.trace.event("program loaded", file.known.size, rest);
        self.keep(file.known, loaded.clone());
        Ok(loaded)
    }

    /// For which cores the program `path` is: as of the one that `these` keep, or else as the head
    /// of its file says, which is all that is read of it.
    pub fn class(
        these: Option<&Programs<G>>,
        session: &Session,
        directory: Option<u64>,
        path: &[u8],
    ) -> Result<u32, Errno> {
        let file = Image::open(session, directory, path)?;
        match these.and_then(|these| these.find(file.known)) {
            Some(loaded) => Ok(loaded.manifest.class),
            None => file.class(),
        }
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
        // Its memory goes without the lock.
        drop(last);
    }

    /// There is room for an image, if programs that nobody runs make it, or the pool does.
    fn make_room(&self, kernel: &'static Kernel, image: u64) {
        // What the engine keeps about it is in the kernel's heap.
        let wanted = image + image / BESIDE;
        if !super::has_room(wanted) {
            self.forget();
            super::make_room(kernel, wanted);
        }
    }

    /// Forgets all that nobody runs, and stacks that nobody uses.
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
                crate::log!("{shown}: {}", why.text());
                Errno::Noexec
            }
            LoadError::NoMemory => Errno::Nomem,
            LoadError::Refused(_) if seam::refusals() != refusals => Errno::Nomem,
            LoadError::NoStart => {
                crate::log!("{shown}: it has no `_start`: a library, not a program");
                Errno::Noexec
            }
            LoadError::Refused(what) | LoadError::Import(what) => {
                crate::log!("{shown}: {what}");
                Errno::Noexec
            }
        })?;
        Ok(Loaded { program, manifest })
    }
}

impl Manifest {
    fn of(image: &kernel_seal::Image<'_>) -> Manifest {
        let preopens = image.preopens().map(|p| (p.path.to_vec(), p.name.to_vec(), p.write));
        Manifest {
            arguments: image.arguments.to_vec(),
            environment: image.environment.to_vec(),
            preopens: preopens.collect(),
            memory: image.memory,
            files: image.files,
            class: image.class,
            rights: image.rights,
        }
    }
}

impl<G: Guest> Loaded<G> {
    /// Is it at an address of its code? Any context.
    pub fn holds(&self, address: u64) -> bool {
        self.program.holds(address)
    }

    /// Where it goes on to end, if it can from `address`. Any context.
    pub fn way_out(&self, address: u64) -> Option<u64> {
        self.program.way_out(address)
    }

    /// Where the calling thread's last trap was, outwards, as lines for people.
    pub fn backtrace(&self) -> Vec<String> {
        let frames = Trace::take();
        let lines = frames.into_iter().filter_map(|pc| {
            let (name, offset) = self.program.name_at(pc)?;
            Some(alloc::format!("in {name} + {offset:#x}"))
        });
        lines.collect()
    }
}

/// What is wrong with the image of the program `path` for a kernel of `isa`, for who is told that
/// the program does not begin: all of it is read once more. `None`: there is none, or a good one.
#[cold]
pub fn refusal(session: &Session, path: &[u8], isa: u32) -> Option<&'static str> {
    let mut bytes = match Image::open_for(isa, session, None, path) {
        Ok(file) => file.read().ok()?,
        // A directory, or larger than any image.
        Err(Errno::Noexec) => return Some(Refused::Size.text()),
        Err(_) => return None,
    };
    let key = &session.kernel.blob.given.program_key;
    kernel_seal::check(bytes.fill(), isa, key).err().map(Refused::text)
}

/// An open file of an image.
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
        FileError::Nfile => Errno::Mfile,
        FileError::Badf => Errno::Badf,
        _ => Errno::Io,
    }
}

impl<'a> Image<'a> {
    /// The one for our ISA.
    fn open(session: &'a Session, directory: Option<u64>, path: &[u8]) -> Result<Image<'a>, Errno> {
        Image::open_for(arch::cpu::ISA, session, directory, path)
    }

    fn open_for(
        isa: u32,
        session: &'a Session,
        directory: Option<u64>,
        path: &[u8],
    ) -> Result<Image<'a>, Errno> {
        let named = [path, b".", isa::name(isa).as_bytes()].concat();
        let from = named.iter().position(|&byte| byte != b'/').unwrap_or(0);
        let relative = if directory.is_none() { &named[from..] } else { &named[..] };
        let opened = with_files(session, |client| {
            let root = match directory {
                Some(handle) => client.dup(handle)?,
                None => client.root()?,
            };
            let handle = client.open(root, relative, flag::READ | flag::FOLLOW);
            client.close(root)?;
            handle
        });
        let handle = opened.map_err(errno)?;
        let mut image = Image { session, handle, known: Known::of(&Stat::default()) };
        let stat = with_files(session, |client| client.stat(handle)).map_err(errno)?;
        if stat.kind != kind::FILE || stat.size > IMAGE_BYTES {
            return Err(Errno::Noexec);
        }
        image.known = Known::of(&stat);
        Ok(image)
    }

    fn class(&self) -> Result<u32, Errno> {
        let mut head = [0; size_of::<ImageHead>()];
        let read = with_files(self.session, |client| client.read_at(self.handle, 0, &mut head));
        let count = read.map_err(errno)?;
        head.get(..count).and_then(kernel_seal::class_of).ok_or(Errno::Noexec)
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
                // It became shorter meanwhile.
                0 => return Err(Errno::Noexec),
                count => done += count,
            }
        }
        Ok(buffer)
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        // It is closed, or its service began anew.
        let _ = with_files(self.session, |client| client.close(self.handle));
    }
}
