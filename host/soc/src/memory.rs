//! The RAM file, and the words in it that the soc shares with kernels.
//!
//! All accesses are whole aligned `u64` words, and the soc stores only to its own words. The two
//! exceptions concern domains that are fenced and cannot write: their pages are cleared, and
//! their attempts at locks end.

use crate::eye::Eye;
use crate::judge::Facts;
use abi::boot::{
    BLOB_MAGIC, Blob, MAX_CORES, MAX_DOMAINS, MAX_REGIONS, Region, StubTable, VERSION, Window,
};
use abi::hang::Wait;
use abi::lock::LockWord;
use abi::soc::{ChipPage, DomainPage, DomainStatus, state, unpack_state};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::mem::offset_of;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestRegionMmap,
    guest_memory,
};

/// Why shared memory could not be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// A system call failed.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// The file could not be mapped.
    #[error("cannot map {0}: {1}")]
    Map(PathBuf, String),
    /// An address outside RAM, or unaligned.
    #[error("no such address in RAM: {0}")]
    Address(#[from] guest_memory::Error),
    /// The blob is not one that we and the kernels understand.
    #[error("the blob is rejected: {0}")]
    Blob(&'static str),
    /// An image does not fit into its place.
    #[error("{0} has {1} bytes, but its place in memory only {2}")]
    TooLarge(PathBuf, u64, u64),
}

/// Words of a pattern that are written at a time.
const FILL: usize = 512;

/// The chip's memory, by physical address. Clones share it.
#[derive(Clone, Debug)]
pub struct Ram {
    memory: GuestMemoryMmap,
    eye: Eye,
}

impl Ram {
    /// Creates the file (all zero, sparse) and maps it. An existing file is unlinked, not changed,
    /// because another process may still read it.
    pub fn create(path: &Path, size: u64, base_pa: u64) -> Result<Ram, MemoryError> {
        let failed = |e| MemoryError::Io(path.to_owned(), e);
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        file.set_len(size).map_err(failed)?;
        Ram::map(path, file, size, base_pa)
    }

    /// Maps the file of a running board, as a QEMU does.
    pub fn attach(path: &Path, base_pa: u64) -> Result<Ram, MemoryError> {
        let failed = |e| MemoryError::Io(path.to_owned(), e);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        Ram::map(path, file, size, base_pa)
    }

    fn map(path: &Path, file: File, size: u64, base_pa: u64) -> Result<Ram, MemoryError> {
        let failed = |e: String| MemoryError::Map(path.to_owned(), e);
        let size = usize::try_from(size).map_err(|e| failed(e.to_string()))?;
        let offset = Some(FileOffset::new(file, 0));
        let region = GuestRegionMmap::from_range(GuestAddress(base_pa), size, offset)
            .map_err(|e| failed(e.to_string()))?;
        let memory =
            GuestMemoryMmap::from_regions(vec![region]).map_err(|e| failed(e.to_string()))?;
        Ok(Ram { memory, eye: Eye::default() })
    }

    /// Returns the same memory, whose accesses are reported to `eye`.
    pub fn seen_by(&self, eye: Eye) -> Ram {
        Ram { eye, ..self.clone() }
    }

    /// Returns the same memory, as the device with these registers accesses it.
    pub fn of_device(&self, registers: u64) -> Ram {
        self.seen_by(self.eye.of_device(registers))
    }

    /// Returns the observer of the accesses; those through [`Ram::guest`] must be reported to it
    /// explicitly.
    pub fn eye(&self) -> &Eye {
        &self.eye
    }

    /// Returns the memory in the form that virtqueues need.
    pub fn guest(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    /// Loads a word (acquire).
    pub fn load(&self, pa: u64) -> Result<u64, MemoryError> {
        let value = self.memory.load(GuestAddress(pa), Ordering::Acquire)?;
        self.eye.reads(pa, 8);
        Ok(value)
    }

    /// Stores a word (release).
    pub fn store(&self, pa: u64, value: u64) -> Result<(), MemoryError> {
        self.memory.store(value, GuestAddress(pa), Ordering::Release)?;
        self.eye.writes(pa, 8);
        Ok(())
    }

    /// Copies bytes to memory that no kernel reads yet.
    pub fn write(&self, pa: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.memory.write_slice(bytes, GuestAddress(pa))?;
        self.eye.writes(pa, bytes.len() as u64);
        Ok(())
    }

    /// Copies bytes inside RAM; the two ranges do not overlap.
    pub fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), MemoryError> {
        let slice = |at| self.memory.get_slice(GuestAddress(at), bytes as usize);
        slice(from)?.copy_to_volatile_slice(slice(to)?);
        self.eye.reads(from, bytes);
        self.eye.writes(to, bytes);
        Ok(())
    }

    /// Fills a range with repetitions of the eight bytes of `word`, the last one cut off.
    pub fn fill(&self, word: u64, to: u64, bytes: u64) -> Result<(), MemoryError> {
        let slice = self.memory.get_slice(GuestAddress(to), bytes as usize)?;
        let pattern = word.to_le_bytes().repeat(FILL);
        for at in (0..slice.len()).step_by(pattern.len()) {
            slice.offset(at).map_err(guest_memory::Error::from)?.copy_from(&pattern);
        }
        self.eye.writes(to, bytes);
        Ok(())
    }

    /// Copies a file to memory that no kernel reads yet, at most `most` bytes; 0: up to the end of
    /// RAM.
    pub fn write_file(&self, pa: u64, path: &Path, most: u64) -> Result<u64, MemoryError> {
        let bytes = std::fs::read(path).map_err(|e| MemoryError::Io(path.to_owned(), e))?;
        let size = bytes.len() as u64;
        if most != 0 && size > most {
            return Err(MemoryError::TooLarge(path.to_owned(), size, most));
        }
        self.write(pa, &bytes)?;
        Ok(size)
    }
}

/// A kernel's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its sequence number, returned with the answer.
    pub sequence: u64,
    /// One of [`abi::soc::command`].
    pub command: u64,
    /// First argument.
    pub arg0: u64,
    /// Second argument.
    pub arg1: u64,
}

/// The soc's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// One of [`abi::soc::error`].
    pub error: u64,
    /// The result.
    pub value: u64,
    /// soc time in ns.
    pub time: u64,
}

/// The chip page and the domains' pages.
#[derive(Clone, Debug)]
pub struct Chip {
    ram: Ram,
    chip: u64,
    pages: u64,
    vector: u64,
    domains: usize,
    regions: Vec<Region>,
}

impl Chip {
    /// Finds the pages through the blob at `blob_pa`.
    pub fn new(ram: Ram, blob_pa: u64) -> Result<Chip, MemoryError> {
        let word = |offset: usize| ram.load(blob_pa + offset as u64);
        // Each of these words holds two u32 fields; the layouts are little endian.
        let [low, high] = [|w: u64| w & 0xffff_ffff, |w: u64| w >> 32];
        if word(offset_of!(Blob, magic))? != BLOB_MAGIC {
            return Err(MemoryError::Blob("it has no magic number"));
        }
        let head = word(offset_of!(Blob, version))?;
        if low(head) != u64::from(VERSION) || high(head) != size_of::<Blob>() as u64 {
            return Err(MemoryError::Blob("it was made by another version of the tools"));
        }
        let domains = low(word(offset_of!(Blob, domain_count))?) as usize;
        if domains == 0 || domains > MAX_DOMAINS {
            return Err(MemoryError::Blob("it has too many domains, or none"));
        }
        let window = |field: usize| word(offset_of!(Blob, window) + field);
        let regions = high(word(offset_of!(Blob, domain_count))?) as usize;
        if regions > MAX_REGIONS {
            return Err(MemoryError::Blob("it has too many memory regions"));
        }
        let region = |index: usize| {
            let at = offset_of!(Blob, regions) + index * size_of::<Region>();
            let last = word(at + offset_of!(Region, kind))?;
            Ok::<_, MemoryError>(Region {
                base: word(at + offset_of!(Region, base))?,
                size: word(at + offset_of!(Region, size))?,
                kind: low(last) as u32,
                owner: high(last) as u32,
            })
        };
        Ok(Chip {
            chip: window(offset_of!(Window, chip))?,
            pages: window(offset_of!(Window, domains))?,
            vector: low(word(offset_of!(Blob, vector_chip))?),
            domains,
            regions: (0..regions).map(region).collect::<Result<_, _>>()?,
            ram,
        })
    }

    /// Returns the RAM that contains them.
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// Returns the number of domains in the blob.
    pub fn domains(&self) -> usize {
        self.domains
    }

    /// Returns the memory regions in the blob.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Returns the doorbell vector that announces changes of the chip page.
    pub fn vector(&self) -> u64 {
        self.vector
    }

    fn status(&self, domain: usize, field: usize) -> u64 {
        let line = offset_of!(ChipPage, domains) + domain * size_of::<DomainStatus>();
        self.chip + (line + field) as u64
    }

    fn page(&self, domain: usize, field: usize) -> u64 {
        self.pages + (domain * size_of::<DomainPage>() + field) as u64
    }

    /// Publishes a domain's packed state and its deaths, and counts its wakes.
    pub fn publish(&self, domain: usize, state: u64, deaths: u64) -> Result<(), MemoryError> {
        let at = |field| self.status(domain, field);
        let runs = |word| matches!(unpack_state(word).1, state::BOOTING | state::RUNNING);
        if runs(state) && !runs(self.ram.load(at(offset_of!(DomainStatus, state)))?) {
            let wakes = at(offset_of!(DomainStatus, wakes));
            self.ram.store(wakes, self.ram.load(wakes)? + 1)?;
        }
        self.ram.store(at(offset_of!(DomainStatus, deaths)), deaths)?;
        self.ram.store(at(offset_of!(DomainStatus, state)), state)?;
        fence(Ordering::SeqCst); // the state is visible before the doorbell
        Ok(())
    }

    /// Notes that a domain's epoch ends with pages of the shared block.
    pub fn lost(&self, domain: usize, epoch: u64) -> Result<(), MemoryError> {
        self.ram.store(self.chip + (offset_of!(ChipPage, losses) + 8 * domain) as u64, epoch)?;
        fence(Ordering::SeqCst); // the loss is visible before the state
        Ok(())
    }

    /// Notes what a domain knew that has left the shared block.
    pub fn left(&self, domain: usize) -> Result<(), MemoryError> {
        let settled = self.ram.load(self.page(domain, offset_of!(DomainPage, settled)))?;
        self.ram.store(self.chip + offset_of!(ChipPage, settled) as u64, settled)?;
        fence(Ordering::SeqCst); // visible before the state
        Ok(())
    }

    /// Returns the pending request of a domain, unless its number is the last one handled.
    pub fn request(&self, domain: usize, handled: u64) -> Result<Option<Request>, MemoryError> {
        let word = |field: usize| self.ram.load(self.page(domain, field));
        let sequence = word(offset_of!(DomainPage, sequence))?;
        if sequence == handled {
            return Ok(None);
        }
        fence(Ordering::SeqCst); // the fields are read after the sequence number
        Ok(Some(Request {
            sequence,
            command: word(offset_of!(DomainPage, command))?,
            arg0: word(offset_of!(DomainPage, arg0))?,
            arg1: word(offset_of!(DomainPage, arg1))?,
        }))
    }

    /// Answers the request `sequence` of a domain.
    pub fn answer(&self, domain: usize, sequence: u64, a: Answer) -> Result<(), MemoryError> {
        self.ram.store(self.status(domain, offset_of!(DomainStatus, error)), a.error)?;
        self.ram.store(self.status(domain, offset_of!(DomainStatus, value)), a.value)?;
        self.ram.store(self.status(domain, offset_of!(DomainStatus, time)), a.time)?;
        fence(Ordering::SeqCst); // the answer is visible before its sequence number
        self.ram.store(self.status(domain, offset_of!(DomainStatus, answered)), sequence)?;
        fence(Ordering::SeqCst); // and that before the doorbell
        Ok(())
    }

    /// Cleans up after a domain that no longer runs: its page and its answers are as after reset,
    /// but for the words of locks ([`DomainPage::fenced`]).
    pub fn fence(&self, domain: usize) -> Result<(), MemoryError> {
        for word in 0..size_of::<DomainPage>() / 8 {
            let at = self.page(domain, word * 8);
            self.ram.store(at, DomainPage::fenced(word, self.ram.load(at)?))?;
        }
        self.ram.store(self.status(domain, offset_of!(DomainStatus, answered)), 0)?;
        self.ram.store(self.status(domain, offset_of!(DomainStatus, demand)), 0)?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Reads what a domain reports about hangs into `facts`.
    pub fn hang_facts(&self, domain: usize, facts: &mut Facts) -> Result<(), MemoryError> {
        let word = |field: usize| self.ram.load(self.page(domain, field));
        facts.epoch =
            unpack_state(self.ram.load(self.status(domain, offset_of!(DomainStatus, state)))?).0;
        facts.answer = word(offset_of!(DomainPage, answer))?;
        for (core, wait) in facts.waits.iter_mut().enumerate() {
            let at = offset_of!(DomainPage, waits) + core * size_of::<Wait>();
            wait.what = word(at + offset_of!(Wait, what))?;
            fence(Ordering::SeqCst); // the other words are read after the one that makes them valid
            wait.beat = word(at + offset_of!(Wait, beat))?;
            wait.locks = word(at + offset_of!(Wait, locks))?;
        }
        for (lock, found) in facts.locks.iter_mut().enumerate() {
            *found = LockWord(word(offset_of!(DomainPage, locks) + 8 * lock)?);
        }
        Ok(())
    }

    /// Returns whether a core of the domain reports a wait.
    pub fn waits(&self, domain: usize) -> Result<bool, MemoryError> {
        for core in 0..MAX_CORES {
            let at = offset_of!(DomainPage, waits) + core * size_of::<Wait>();
            if self.ram.load(self.page(domain, at + offset_of!(Wait, what)))? != 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Publishes a demand to a domain.
    pub fn demand(&self, domain: usize, word: u64) -> Result<(), MemoryError> {
        self.ram.store(self.status(domain, offset_of!(DomainStatus, demand)), word)?;
        fence(Ordering::SeqCst); // the demand is visible before the doorbell
        Ok(())
    }

    /// Writes the boot parameters of a domain's stub.
    pub fn write_stub(&self, pa: u64, table: StubTable) -> Result<(), MemoryError> {
        let StubTable { magic, staging_pa, resume_pa, domain, epoch } = table;
        self.ram.store(pa + offset_of!(StubTable, staging_pa) as u64, staging_pa)?;
        self.ram.store(pa + offset_of!(StubTable, resume_pa) as u64, resume_pa)?;
        self.ram.store(pa + offset_of!(StubTable, domain) as u64, domain)?;
        self.ram.store(pa + offset_of!(StubTable, epoch) as u64, epoch)?;
        self.ram.store(pa + offset_of!(StubTable, magic) as u64, magic)?;
        fence(Ordering::SeqCst); // the stub starts after this
        Ok(())
    }
}
