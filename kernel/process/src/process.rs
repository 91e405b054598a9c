//! A process: its descriptors and its strings. The functions that it may call are methods, in the
//! sibling files, with the names and arguments of the imports. Its threads call them at the same
//! time; what changes is the table of descriptors alone, which allows for that.
//!
//! A process owns the objects of its descriptors. Code that ends a process must call
//! [`Process::close_all`].

use crate::begin::{Limits, StartData};
use crate::ends::Contracts;
use crate::errno::{Done, Errno, Halt};
use crate::object::Object;
use crate::reach::Reach;
use crate::strings::Strings;
use crate::system::System;
use crate::table::{Descriptor, Name, Preopen, Slot, Table, copied};
use crate::wasi::filetype;
use crate::windows::Windows;

pub struct Process {
    pub(crate) table: Table,
    pub(crate) arguments: Strings,
    pub(crate) environment: Strings,
    /// Limits of the processes that it starts.
    pub(crate) limits: Limits,
    /// It may signal any process.
    pub(crate) signals: bool,
    /// What it may reach by sockets.
    pub(crate) reach: Reach,
    pub(crate) contracts: Contracts,
    pub(crate) windows: Windows,
}

/// Settings in a program's manifest for each process that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The process gets its parent's directories.
    pub folders: bool,
    /// The process may signal any process, if its parent may.
    pub signals: bool,
}

impl Process {
    /// Makes a process without files and strings, with at most `descriptors` descriptors.
    pub fn new(descriptors: u32) -> Result<Process, Errno> {
        Ok(Process {
            table: Table::new(descriptors)?,
            arguments: Strings::default(),
            environment: Strings::default(),
            limits: Limits::default(),
            signals: false,
            reach: Reach::default(),
            contracts: Contracts::default(),
            windows: Windows::default(),
        })
    }

    /// Gives a new process what its start data say, as far as the manifest permits, with duplicated
    /// handles. If that fails, it has none.
    pub fn begin(
        &mut self,
        system: &mut dyn System,
        start_data: &StartData<'_>,
        installed: Installed,
    ) -> Done {
        self.limits = start_data.limits;
        self.signals = start_data.signals && installed.signals;
        if let Some(rules) = start_data.net {
            self.reach = Reach::of(rules)?;
        }
        self.fill(system, start_data, installed.folders).inspect_err(|_| self.close_all(system))
    }

    fn fill(&mut self, system: &mut dyn System, from: &StartData<'_>, folders: bool) -> Done {
        self.add_arguments(from.arguments)?;
        self.environment.add(from.environment)?;
        for file in from.passed() {
            let is_wanted = file.preopen.is_some_and(|it| from.folders.has(it.name));
            let dup = file.object.dup(system)?;
            if !folders && !is_wanted {
                let is_directory = dup.is_directory(system);
                if !matches!(is_directory, Ok(false)) {
                    dup.close(system)?;
                    is_directory?;
                    continue;
                }
            }
            let given = (file.rights, file.inheriting);
            self.give_object(system, file.descriptor, dup, given, file.preopen)?;
        }
        Ok(())
    }

    /// Restricts what it may reach to these rules of its manifest, each NUL terminated. Fails with
    /// `NOTCAPABLE` if its parent may not reach all of that.
    pub fn restrict(&mut self, rules: &[u8]) -> Result<(), Errno> {
        let wanted = Reach::of(rules)?;
        if !self.reach.covers(&wanted) {
            return Err(Errno::NOTCAPABLE);
        }
        self.reach = wanted;
        Ok(())
    }

    /// Returns whether it may reach only what rules allow.
    pub fn is_restricted(&self) -> bool {
        self.reach.rules().is_some()
    }

    /// Appends arguments: strings, each NUL terminated.
    pub fn add_arguments(&mut self, block: &[u8]) -> Result<(), Errno> {
        self.arguments.add(block)
    }

    /// Adds environment variables; those that already exist keep their values.
    pub fn add_environment(&mut self, block: &[u8]) -> Result<(), Errno> {
        block.split_inclusive(|byte| *byte == 0).try_for_each(|one| match one {
            one if self.environment.names(one) => Ok(()),
            one => self.environment.add(one),
        })
    }

    /// Sets environment variables, in place of those that have the same names.
    pub fn set_environment(&mut self, block: &[u8]) -> Result<(), Errno> {
        block.split_inclusive(|byte| *byte == 0).for_each(|one| self.environment.remove(one));
        self.environment.add(block)
    }

    /// Gives the process a file as descriptor `number`. The rights are those of the descriptor
    /// and of files opened through it; rights that do not apply to the file type are removed.
    pub fn give(
        &self,
        system: &mut dyn System,
        number: u32,
        handle: u64,
        rights: (u64, u64),
        preopen: Option<Preopen<'_>>,
    ) -> Done {
        self.give_object(system, number, Object::File(handle), rights, preopen)
    }

    /// The same for an object of any kind.
    pub fn give_object(
        &self,
        system: &mut dyn System,
        number: u32,
        object: Object,
        rights: (u64, u64),
        preopen: Option<Preopen<'_>>,
    ) -> Done {
        let done = self.adopt(system, number, object, rights, preopen);
        if done.is_err() {
            let _ = object.close(system);
        }
        done
    }

    fn adopt(
        &self,
        system: &mut dyn System,
        number: u32,
        object: Object,
        rights: (u64, u64),
        preopen: Option<Preopen<'_>>,
    ) -> Done {
        let (stat, _) = object.stat(system)?;
        if preopen.is_some() && stat.kind != filetype::DIRECTORY {
            return Err(Errno::NOTDIR.into());
        }
        let name = match preopen {
            Some(Preopen { name, is_path }) => {
                let node = is_path.then_some((stat.device, stat.node));
                Some(Name { text: copied(name)?, node })
            }
            None => None,
        };
        let descriptor = Descriptor::of_object(object, &stat, rights.0, rights.1);
        self.table.put(number, Slot { descriptor, name })?;
        Ok(())
    }

    /// Closes everything, ignoring errors.
    pub fn close_all(&self, system: &mut dyn System) {
        self.windows.end_all(system);
        while let Some(descriptor) = self.table.take_any() {
            let _ = descriptor.object.close(system);
        }
    }

    /// Returns the lowest free descriptor from `from` on.
    pub fn free_descriptor(&self, from: u32) -> Result<u32, Errno> {
        self.table.free(from)
    }

    /// Returns its descriptors.
    pub fn table(&self) -> &Table {
        &self.table
    }

    pub fn descriptors(&self) -> usize {
        self.table.count()
    }

    /// Returns whether a descriptor refers to an end of a channel.
    pub fn has_ends(&self) -> bool {
        let mut found = false;
        self.table.each(&mut |_, it| found |= it.object.end().is_ok());
        found
    }

    /// Returns a descriptor that is not a directory and has these rights.
    #[inline]
    pub(crate) fn data(&self, fd: u32, rights: u64) -> Result<Descriptor, Errno> {
        let descriptor = self.table.get(fd)?;
        if descriptor.kind == filetype::DIRECTORY {
            return Err(Errno::ISDIR);
        }
        descriptor.with(rights)
    }

    /// The same, for files with a position.
    pub(crate) fn positioned(&self, fd: u32, rights: u64) -> Result<Descriptor, Errno> {
        let descriptor = self.table.get(fd)?;
        match descriptor.kind {
            filetype::DIRECTORY => Err(Errno::ISDIR),
            _ if !descriptor.has_positions() => Err(Errno::SPIPE),
            _ => descriptor.with(rights),
        }
    }

    /// Returns the descriptor of a directory with these rights.
    pub(crate) fn directory(&self, fd: u32, rights: u64) -> Result<Descriptor, Errno> {
        let descriptor = self.table.get(fd)?;
        if descriptor.kind != filetype::DIRECTORY {
            return Err(Errno::NOTDIR);
        }
        descriptor.with(rights)
    }

    /// Installs a descriptor at the lowest free number, which it returns. Closes its object on
    /// failure.
    pub(crate) fn enter(
        &self,
        system: &mut dyn System,
        descriptor: Descriptor,
    ) -> Result<u32, Halt> {
        let entered = self.table.add(descriptor);
        if entered.is_err() {
            let _ = descriptor.object.close(system);
        }
        Ok(entered?)
    }
}
