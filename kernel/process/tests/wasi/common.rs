//! A program that calls functions by name, in its kernel.

pub use crate::world::World;
use abi::fs::{Op, flag};
use kernel_process::begin::decode;
use kernel_process::table::Preopen;
use kernel_process::wasi::rights;
use kernel_process::{
    Bytes, FUNCTIONS, GuestMemory, Halt, Installed, Process, SCRATCH, Scratch, SharedMemory, Stop,
};
use std::cell::{Cell, RefCell};

pub const BADF: u16 = 8;
pub const FAULT: u16 = 21;
pub const INVAL: u16 = 28;
pub const NOTCAPABLE: u16 = 76;
/// The directory that each program starts with.
pub const DIR: u64 = 3;
pub const FOLLOW: u64 = 1;
pub const CREAT: u64 = 1;
pub const DIRECTORY: u64 = 2;
pub const ALL: u64 = rights::INHERITING;
/// Returns the name of a preopened directory, which need not be its path.
pub const fn named(name: &[u8]) -> Option<Preopen<'_>> {
    Some(Preopen { name, is_path: false })
}

/// Makes a process with at most `descriptors` descriptors and these start data.
pub fn begun(
    world: &mut World,
    descriptors: u32,
    start_data: &[u8],
    installed: Installed,
) -> Result<Process, Halt> {
    let mut process = Process::new(descriptors)?;
    process.begin(world, &decode(start_data)?, installed).map(|()| process)
}

/// The identity of the process.
pub const PID: u32 = 7;

// Addresses in the program's memory.
pub const PATH: u64 = 0x1000;
pub const OTHER: u64 = 0x2000;
pub const LIST: u64 = 0x3000;
pub const RESULT: u64 = 0x6000;
pub const BUFFER: u64 = 0x8000;
pub const MEMORY: usize = 0x80000;

/// Memory that is only copied to and from, and the number of bytes that were copied out.
pub struct Cells(pub RefCell<Vec<u8>>, pub Cell<usize>);

impl SharedMemory for Cells {
    fn size(&self) -> usize {
        self.0.borrow().len()
    }

    fn start(&self) -> u64 {
        0
    }

    fn touch(&self, at: usize, length: usize) -> bool {
        assert!(at + length <= self.size());
        true
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        self.1.set(self.1.get() + into.len());
        into.copy_from_slice(&self.0.borrow()[at..][..into.len()]);
    }

    fn store(&self, at: usize, from: &[u8]) {
        self.0.borrow_mut()[at..][..from.len()].copy_from_slice(from);
    }
}

pub struct Program {
    pub process: Process,
    pub world: World,
    pub memory: Vec<u8>,
    /// The memory is that of a program with threads.
    pub shared: bool,
    /// Bytes that the last call copied out of it.
    pub copied: usize,
    /// Other ends of standard input and output.
    pub input: u64,
    pub output: u64,
    pub root: u64,
}

impl Program {
    /// Starts with pipes as descriptors 0 to 2, and the root directory as 3.
    pub fn new() -> Program {
        Program::on(World::new())
    }

    pub fn on(mut world: World) -> Program {
        let process = Process::new(64).unwrap();
        let root = world.with(|c| c.root()).unwrap();
        let (stdin, input) = world.with(|c| c.pipe(0)).unwrap();
        let (output, stdout) = world.with(|c| c.pipe(0)).unwrap();
        let stderr = world.with(|c| c.dup(stdout)).unwrap();
        let directory = world.with(|c| c.dup(root)).unwrap();
        let reads = rights::STREAM & !rights::FD_WRITE;
        let writes = rights::STREAM & !rights::FD_READ;
        process.give(&mut world, 0, stdin, (reads, 0), None).unwrap();
        process.give(&mut world, 1, stdout, (writes, 0), None).unwrap();
        process.give(&mut world, 2, stderr, (writes, 0), None).unwrap();
        process.give(&mut world, 3, directory, (ALL, ALL), named(b"/data")).unwrap();
        world.requests.clear();
        let (memory, shared, copied) = (vec![0xee; MEMORY], false, 0);
        Program { process, world, memory, shared, copied, input, output, root }
    }

    /// The same with memory that threads share.
    pub fn with_threads() -> Program {
        Program { shared: true, ..Program::new() }
    }

    /// Calls `work` as an engine does, with the memory.
    pub fn within<R>(
        &mut self,
        work: impl FnOnce(&Process, &mut GuestMemory<'_>, &mut World) -> R,
    ) -> R {
        let mut scratch = Scratch::from(Box::new([0x77; SCRATCH]));
        let Program { process, world, memory, .. } = self;
        if !self.shared {
            return work(process, &mut GuestMemory::new(Bytes::Own(memory), &mut scratch), world);
        }
        let cells = Cells(RefCell::new(std::mem::take(memory)), Cell::new(0));
        let done = work(process, &mut GuestMemory::new(Bytes::Shared(&cells), &mut scratch), world);
        *memory = cells.0.into_inner();
        self.copied = cells.1.get();
        done
    }

    pub fn run(&mut self, name: &str, numbers: &[u64]) -> Result<u16, Stop> {
        let found = FUNCTIONS.iter().find(|function| function.name == name);
        let function = found.unwrap_or_else(|| panic!("{name} is no import"));
        assert_eq!(function.parameters.len(), numbers.len(), "{name}");
        self.within(|process, memory, world| (function.entry)(process, memory, world, numbers))
    }

    /// Calls a function that returns.
    pub fn call(&mut self, name: &str, numbers: &[u64]) -> u16 {
        self.run(name, numbers).unwrap_or_else(|stop| panic!("{name}: {stop:?}"))
    }

    /// Calls a function that succeeds.
    pub fn ok(&mut self, name: &str, numbers: &[u64]) {
        assert_eq!(self.call(name, numbers), 0, "{name} {numbers:x?}");
    }

    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        self.memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    pub fn get(&self, at: u64, length: usize) -> &[u8] {
        &self.memory[at as usize..][..length]
    }

    pub fn u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.get(at, 4).try_into().unwrap())
    }

    pub fn u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.get(at, 8).try_into().unwrap())
    }

    /// Stores a path in memory; returns address and length.
    pub fn path(&mut self, path: &str) -> [u64; 2] {
        self.put(PATH, path.as_bytes());
        [PATH, path.len() as u64]
    }

    /// The same for a second path.
    pub fn other(&mut self, path: &str) -> [u64; 2] {
        self.put(OTHER, path.as_bytes());
        [OTHER, path.len() as u64]
    }

    /// Stores a list of buffers.
    pub fn list(&mut self, pieces: &[(u64, u64)]) -> [u64; 2] {
        for (index, (at, length)) in (0..).zip(pieces) {
            self.put(LIST + 8 * index, &(*at as u32).to_le_bytes());
            self.put(LIST + 8 * index + 4, &(*length as u32).to_le_bytes());
        }
        [LIST, pieces.len() as u64]
    }

    /// Opens a file with the directory's rights that do not allow writing, and `more`.
    pub fn open(&mut self, path: &str, how: u64, base: u64) -> Result<u64, u16> {
        self.open_as(DIR, FOLLOW, path, how, (base, ALL), 0)
    }

    pub fn open_as(
        &mut self,
        fd: u64,
        lookup: u64,
        path: &str,
        how: u64,
        (base, inheriting): (u64, u64),
        flags: u64,
    ) -> Result<u64, u16> {
        let [at, length] = self.path(path);
        let numbers = [fd, lookup, at, length, how, base, inheriting, flags, RESULT];
        match self.call("path_open", &numbers) {
            0 => Ok(u64::from(self.u32(RESULT))),
            error => Err(error),
        }
    }

    /// Creates a file with these contents, opened with all rights.
    pub fn file(&mut self, path: &str, data: &[u8]) -> u64 {
        let fd = self.open(path, CREAT, rights::FILE).unwrap();
        if !data.is_empty() {
            assert_eq!(self.write(fd, data), Ok(data.len()));
            self.ok("fd_seek", &[fd, 0, 0, RESULT]);
        }
        fd
    }

    pub fn write(&mut self, fd: u64, data: &[u8]) -> Result<usize, u16> {
        self.put(BUFFER, data);
        let [list, count] = self.list(&[(BUFFER, data.len() as u64)]);
        match self.call("fd_write", &[fd, list, count, RESULT]) {
            0 => Ok(self.u32(RESULT) as usize),
            error => Err(error),
        }
    }

    pub fn read(&mut self, fd: u64, most: usize) -> Result<Vec<u8>, u16> {
        let [list, count] = self.list(&[(BUFFER, most as u64)]);
        match self.call("fd_read", &[fd, list, count, RESULT]) {
            0 => Ok(self.get(BUFFER, self.u32(RESULT) as usize).to_vec()),
            error => Err(error),
        }
    }

    /// Returns a descriptor's rights, and its inheriting ones.
    pub fn rights(&mut self, fd: u64) -> (u64, u64) {
        self.ok("fd_fdstat_get", &[fd, RESULT]);
        (self.u64(RESULT + 8), self.u64(RESULT + 16))
    }

    /// Returns kind and flags.
    pub fn flags(&mut self, fd: u64) -> (u8, u16) {
        self.ok("fd_fdstat_get", &[fd, RESULT]);
        (self.get(RESULT, 1)[0], u16::from_le_bytes(self.get(RESULT + 2, 2).try_into().unwrap()))
    }

    /// Removes rights.
    pub fn drop_rights(&mut self, fd: u64, base: u64, inheriting: u64) {
        let (own, passed) = self.rights(fd);
        self.ok("fd_fdstat_set_rights", &[fd, own & !base, passed & !inheriting]);
    }

    pub fn mkdir(&mut self, path: &str) -> u16 {
        let [at, length] = self.path(path);
        self.call("path_create_directory", &[DIR, at, length])
    }

    pub fn symlink(&mut self, text: &str, path: &str) -> u16 {
        let ([old, old_length], [new, new_length]) = (self.path(text), self.other(path));
        self.call("path_symlink", &[old, old_length, DIR, new, new_length])
    }

    /// All handles are closed at the end.
    pub fn end(mut self) {
        self.process.close_all(&mut self.world);
        for handle in [self.input, self.output, self.root] {
            self.world.with(|c| c.close(handle)).unwrap();
        }
        assert_eq!(self.world.vfs.census(), (0, 0));
        assert_eq!(self.world.net.census(), [0, 0, 0, 0]);
    }

    /// Returns how often the file service got this request since the last call.
    pub fn asked(&mut self, op: Op) -> usize {
        let count = self.world.requests.iter().filter(|asked| **asked == op as u16).count();
        self.world.requests.clear();
        count
    }
}

/// Opens a file directly in the file service.
pub fn world_file(world: &mut World, path: &[u8], data: &[u8]) {
    world.with(|c| {
        let root = c.root().unwrap();
        let file = c.open(root, path, flag::CREATE | flag::WRITE).unwrap();
        c.write_all(file, data).unwrap();
        c.close(file).unwrap();
        c.close(root).unwrap();
    });
}
