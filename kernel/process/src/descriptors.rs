//! Functions on descriptors themselves: flags, rights, metadata, renumbering, closing.

use crate::errno::{Done, Errno};
use crate::memory::GuestMemory;
use crate::process::Process;
use crate::system::{System, ask};
use crate::table::Descriptor;
use crate::wasi::{fdflags, fstflags, rights};
use abi::fs::{Op, Request};
use zerocopy::IntoBytes;

/// Bytes of WASI's `filestat`, which is also the file service's layout.
pub(crate) const FILESTAT: u32 = size_of::<abi::fs::Stat>() as u32;

/// Returns `flags`, or an error if there are others than `all`.
pub(crate) fn known(flags: u32, all: u32) -> Result<u16, Errno> {
    if flags & !all == 0 { Ok(flags as u16) } else { Err(Errno::INVAL) }
}

impl Process {
    /// Closes a descriptor, which is gone even if this fails.
    pub fn fd_close(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
    ) -> Done {
        self.table.take(fd)?.object.close(system)
    }

    /// Moves a descriptor to the number of another one, which is closed.
    pub fn fd_renumber(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        to: u32,
    ) -> Done {
        match self.table.renumber(fd, to)? {
            Some(old) => old.object.close(system),
            None => Ok(()),
        }
    }

    /// Returns kind, flags and rights.
    pub fn fd_fdstat_get(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        stat: u32,
    ) -> Done {
        let descriptor = self.table.get(fd)?;
        memory.check(stat, 24)?;
        let flags = self.stat_of_open(system, fd, &descriptor)?.1 | descriptor.syncs;
        let words = [
            u64::from(descriptor.kind) | u64::from(flags) << 16,
            descriptor.rights,
            descriptor.inheriting,
        ];
        memory.store(stat, words.as_bytes())?;
        Ok(())
    }

    pub fn fd_fdstat_set_flags(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        flags: u32,
    ) -> Done {
        let descriptor = self.table.get(fd)?.with(rights::FD_FDSTAT_SET_FLAGS)?;
        let flags = known(flags, fdflags::ALL)?;
        descriptor.object.set_flags(system, flags)?;
        self.table.change(fd, |descriptor| {
            descriptor.syncs = flags & fdflags::SYNCS;
            Ok(())
        })?;
        Ok(())
    }

    /// Reduces rights.
    pub fn fd_fdstat_set_rights(
        &self,
        _memory: &mut GuestMemory<'_>,
        _system: &mut dyn System,
        fd: u32,
        base: u64,
        inheriting: u64,
    ) -> Done {
        self.table.change(fd, |descriptor| {
            if base & !descriptor.rights != 0 || inheriting & !descriptor.inheriting != 0 {
                return Err(Errno::NOTCAPABLE);
            }
            (descriptor.rights, descriptor.inheriting) = (base, inheriting);
            Ok(())
        })?;
        Ok(())
    }

    pub fn fd_filestat_get(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        stat: u32,
    ) -> Done {
        let descriptor = self.table.get(fd)?.with(rights::FD_FILESTAT_GET)?;
        memory.check(stat, FILESTAT)?;
        let (found, _) = self.stat_of_open(system, fd, &descriptor)?;
        memory.store(stat, found.as_bytes())?;
        Ok(())
    }

    pub fn fd_filestat_set_times(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        accessed: u64,
        modified: u64,
        which: u32,
    ) -> Done {
        let descriptor = self.table.get(fd)?.with(rights::FD_FILESTAT_SET_TIMES)?;
        let flags = known(which, fstflags::ALL)?;
        let request = Request::new(Op::SetTimes, descriptor.file()?);
        ask(system, Request { flags, accessed, modified, ..request }, &mut [])?;
        Ok(())
    }

    /// Returns the length of the name of a preopened directory.
    pub fn fd_prestat_get(
        &self,
        memory: &mut GuestMemory<'_>,
        _system: &mut dyn System,
        fd: u32,
        stat: u32,
    ) -> Done {
        let length = self.table.name(fd)?.text.len() as u32;
        // Tag 0 is a directory, the only kind.
        memory.store(stat, [0, length].as_bytes())?;
        Ok(())
    }

    /// Returns that name, without a NUL.
    pub fn fd_prestat_dir_name(
        &self,
        memory: &mut GuestMemory<'_>,
        _system: &mut dyn System,
        fd: u32,
        path: u32,
        length: u32,
    ) -> Done {
        let name = self.table.name(fd)?.text;
        if (length as usize) < name.len() {
            return Err(Errno::NAMETOOLONG.into());
        }
        memory.store(path, &name)?;
        Ok(())
    }

    /// Duplicates a descriptor; position and flags are shared.
    pub fn dup(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        new: u32,
    ) -> Done {
        let descriptor = self.table.get(fd)?;
        memory.check(new, 4)?;
        self.table.free(0)?;
        let second = Descriptor { object: descriptor.object.dup(system)?, ..descriptor };
        let number = self.enter(system, second)?;
        memory.store_u32(new, number)?;
        Ok(())
    }
}
