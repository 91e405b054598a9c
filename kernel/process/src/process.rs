//! A process: its descriptors and its strings. What it may call are its methods, in the files
//! beside this one; they have the names and the arguments of the imports.
//!
//! Contract: a process owns the handles behind its descriptors, and who ends it calls
//! [`Process::close_all`].

use crate::begin::{Beginning, Limits};
use crate::errno::{Done, Errno, Halt};
use crate::strings::Strings;
use crate::system::{System, ask};
use crate::table::{Descriptor, Slot, Table};
use crate::wasi::filetype;
use abi::fs::{Op, Request};
use abi::program::BEGIN_DIRECTORY;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes of the room where two paths, or what is gathered, come together. A pipe takes as many in
/// one piece.
pub(crate) const SCRATCH: usize = 4096;

/// A process.
#[derive(Debug)]
pub struct Process {
    pub(crate) table: Table,
    pub(crate) arguments: Strings,
    pub(crate) environment: Strings,
    pub(crate) scratch: Box<[u8]>,
    /// What those get at most that it begins.
    pub(crate) limits: Limits,
    /// May it signal anybody?
    pub(crate) signals: bool,
}

/// What a program's manifest says of each process that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Most descriptors.
    pub descriptors: u32,
    /// It gets directories of who begins it.
    pub folders: bool,
    /// It may signal anybody, if who begins it may.
    pub signals: bool,
}

impl Process {
    /// With no file and no string yet, and never more than `descriptors`.
    pub fn new(descriptors: u32) -> Result<Process, Errno> {
        let mut scratch = Vec::new();
        scratch.try_reserve_exact(SCRATCH).map_err(|_| Errno::NOMEM)?;
        scratch.resize(SCRATCH, 0);
        Ok(Process {
            table: Table::new(descriptors),
            arguments: Strings::default(),
            environment: Strings::default(),
            scratch: scratch.into_boxed_slice(),
            limits: Limits::default(),
            signals: false,
        })
    }

    /// As its beginning says and its program's manifest allows, with handles of its own.
    pub fn begin(
        system: &mut dyn System,
        beginning: &Beginning<'_>,
        installed: Installed,
    ) -> Result<Process, Halt> {
        let mut process = Process::new(installed.descriptors)?;
        process.limits = beginning.limits;
        process.signals = beginning.signals && installed.signals;
        let done = process.fill(system, beginning, installed.folders);
        match done {
            Ok(()) => Ok(process),
            Err(halt) => {
                process.close_all(system);
                Err(halt)
            }
        }
    }

    fn fill(&mut self, system: &mut dyn System, from: &Beginning<'_>, folders: bool) -> Done {
        self.add_arguments(from.arguments)?;
        self.environment.add(from.environment)?;
        for file in from.files().filter(|file| file.descriptor != BEGIN_DIRECTORY) {
            let is_wanted = from.folders && file.name.is_some_and(|name| name != b"/");
            if !folders && !is_wanted && is_directory(system, file.handle)? {
                continue;
            }
            let dup = ask(system, Request::new(Op::Dup, file.handle), &mut [])?;
            let given = (file.rights, file.inheriting);
            self.give(system, file.descriptor, dup.handle, given, file.name)?;
        }
        Ok(())
    }

    /// More arguments, behind those that there are: strings with a NUL each.
    pub fn add_arguments(&mut self, block: &[u8]) -> Result<(), Errno> {
        self.arguments.add(block)
    }

    /// More of the environment, beneath what there is: names that are there stay as they are.
    pub fn add_environment(&mut self, block: &[u8]) -> Result<(), Errno> {
        block.split_inclusive(|byte| *byte == 0).try_for_each(|one| match one {
            one if self.environment.names(one) => Ok(()),
            one => self.environment.add(one),
        })
    }

    /// Makes a handle, which is the process's from now on, a descriptor of this number. `rights`:
    /// its own, and those of what is opened through it; what of them makes no sense for it goes.
    /// With a name it is a preopened directory.
    pub fn give(
        &mut self,
        system: &mut dyn System,
        number: u32,
        handle: u64,
        rights: (u64, u64),
        name: Option<&[u8]>,
    ) -> Done {
        let done = self.adopt(system, number, handle, rights, name);
        if done.is_err() {
            let _ = system.files(Request::new(Op::Close, handle), &mut []);
        }
        done
    }

    fn adopt(
        &mut self,
        system: &mut dyn System,
        number: u32,
        handle: u64,
        rights: (u64, u64),
        name: Option<&[u8]>,
    ) -> Done {
        let stat = ask(system, Request::new(Op::Stat, handle), &mut [])?.stat;
        if name.is_some() && stat.kind != filetype::DIRECTORY {
            return Err(Errno::NOTDIR.into());
        }
        if self.table.get(number).is_ok() {
            return Err(Errno::INVAL.into());
        }
        let name = name.map(copied).transpose()?;
        let descriptor = Descriptor::of(handle, &stat, rights.0, rights.1);
        self.table.put(number, Slot { descriptor, name })?;
        Ok(())
    }

    /// Gives all handles back. What goes wrong meanwhile is nobody's concern any more.
    pub fn close_all(&mut self, system: &mut dyn System) {
        while let Some(slot) = self.table.take_any() {
            let _ = system.files(Request::new(Op::Close, slot.descriptor.handle), &mut []);
        }
    }

    /// The first descriptor from `from` on that is not taken.
    pub fn free_descriptor(&mut self, from: u32) -> Result<u32, Errno> {
        self.table.free(from)
    }

    /// How many descriptors there are.
    pub fn descriptors(&self) -> usize {
        self.table.count()
    }

    /// What can be read or written: no directory, and with these rights.
    #[inline]
    pub(crate) fn data(&self, fd: u32, rights: u64) -> Result<Descriptor, Errno> {
        let descriptor = self.table.get(fd)?;
        if descriptor.kind == filetype::DIRECTORY {
            return Err(Errno::ISDIR);
        }
        descriptor.with(rights)
    }

    /// The same, and with positions.
    pub(crate) fn positioned(&self, fd: u32, rights: u64) -> Result<Descriptor, Errno> {
        let descriptor = self.table.get(fd)?;
        match descriptor.kind {
            filetype::DIRECTORY => Err(Errno::ISDIR),
            _ if !descriptor.has_positions() => Err(Errno::SPIPE),
            _ => descriptor.with(rights),
        }
    }

    /// A directory with these rights.
    pub(crate) fn directory(&self, fd: u32, rights: u64) -> Result<Descriptor, Errno> {
        let descriptor = self.table.get(fd)?;
        if descriptor.kind != filetype::DIRECTORY {
            return Err(Errno::NOTDIR);
        }
        descriptor.with(rights)
    }

    /// A handle becomes the descriptor `number`, which [`Table::free`] named. It is given back
    /// when that fails.
    pub(crate) fn enter(
        &mut self,
        system: &mut dyn System,
        number: u32,
        descriptor: Descriptor,
    ) -> Done {
        let done = self.table.put(number, Slot { descriptor, name: None });
        if done.is_err() {
            let _ = system.files(Request::new(Op::Close, descriptor.handle), &mut []);
        }
        done?;
        Ok(())
    }
}

fn is_directory(system: &mut dyn System, handle: u64) -> Result<bool, Halt> {
    let stat = ask(system, Request::new(Op::Stat, handle), &mut [])?.stat;
    Ok(stat.kind == filetype::DIRECTORY)
}

/// A copy on the heap.
pub(crate) fn copied(bytes: &[u8]) -> Result<Box<[u8]>, Errno> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| Errno::NOMEM)?;
    copy.extend_from_slice(bytes);
    Ok(copy.into_boxed_slice())
}
