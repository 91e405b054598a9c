//! Descriptors: small numbers, handles of the file service behind them, and what they may do.
//!
//! Contract: never more than the limit; a new descriptor gets the lowest number that is free.
//! Nothing here asks the file service: who takes a descriptor out gives its handle back.

use crate::errno::Errno;
use crate::wasi::{filetype, rights};
use abi::fs::Stat;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most descriptors, when nobody says otherwise.
pub const DESCRIPTORS: u32 = 256;

/// What a number leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The file service's handle, which is this process's own.
    pub handle: u64,
    /// What it may be used for.
    pub rights: u64,
    /// What that which is opened through it may be used for, at most.
    pub inheriting: u64,
    /// [`filetype`].
    pub kind: u8,
    /// Those of its flags that the file service does not know.
    pub syncs: u16,
}

impl Descriptor {
    /// Something of this kind, with what of these rights makes sense for it.
    pub fn new(handle: u64, kind: u8, base: u64, inheriting: u64) -> Descriptor {
        let (most, passed) = rights::of_kind(kind);
        Descriptor { handle, rights: base & most, inheriting: inheriting & passed, kind, syncs: 0 }
    }

    /// What has this `stat`. Of character devices terminals alone are in no file system; the others
    /// have positions, which is how programs tell them from terminals.
    pub fn of(handle: u64, stat: &Stat, base: u64, inheriting: u64) -> Descriptor {
        let is_device = stat.kind == filetype::CHARACTER && stat.device != 0;
        let rights = if is_device { filetype::FILE } else { stat.kind };
        Descriptor { kind: stat.kind, ..Descriptor::new(handle, rights, base, inheriting) }
    }

    /// Does it have positions?
    pub fn has_positions(&self) -> bool {
        let is_device = self.kind == filetype::CHARACTER && self.rights & rights::FD_SEEK != 0;
        matches!(self.kind, filetype::FILE | filetype::BLOCK) || is_device
    }

    /// Only with all of these rights.
    #[inline]
    pub fn with(self, rights: u64) -> Result<Descriptor, Errno> {
        if self.rights & rights == rights { Ok(self) } else { Err(Errno::NOTCAPABLE) }
    }
}

/// A descriptor, and its name when it is a preopened directory.
#[derive(Debug)]
pub struct Slot {
    /// What it leads to.
    pub descriptor: Descriptor,
    /// What the program knows the directory as.
    pub name: Option<Box<[u8]>>,
}

/// All descriptors of a process.
#[derive(Debug)]
pub struct Table {
    slots: Vec<Option<Slot>>,
    limit: u32,
}

impl Table {
    /// None yet, and never more than `limit`.
    pub fn new(limit: u32) -> Table {
        Table { slots: Vec::new(), limit }
    }

    /// What a number leads to.
    #[inline]
    pub fn get(&self, number: u32) -> Result<Descriptor, Errno> {
        self.slot(number).map(|slot| slot.descriptor)
    }

    /// The same with its name.
    #[inline]
    pub fn slot(&self, number: u32) -> Result<&Slot, Errno> {
        match self.slots.get(number as usize) {
            Some(Some(slot)) => Ok(slot),
            _ => Err(Errno::BADF),
        }
    }

    /// What a number leads to, to change it.
    pub fn get_mut(&mut self, number: u32) -> Result<&mut Descriptor, Errno> {
        match self.slots.get_mut(number as usize) {
            Some(Some(slot)) => Ok(&mut slot.descriptor),
            _ => Err(Errno::BADF),
        }
    }

    /// The lowest number that is free, at `from` or above. Putting something there does not fail.
    pub fn free(&mut self, from: u32) -> Result<u32, Errno> {
        let from = from as usize;
        let taken = self.slots.get(from..).unwrap_or(&[]);
        let found = taken.iter().position(Option::is_none).unwrap_or(taken.len());
        let number = u32::try_from(from.saturating_add(found)).map_err(|_| Errno::MFILE)?;
        self.reach(number)
            .map_err(|error| if error == Errno::BADF { Errno::MFILE } else { error })?;
        Ok(number)
    }

    /// Makes room for a number; [`Errno::BADF`] when it is beyond the limit.
    fn reach(&mut self, number: u32) -> Result<(), Errno> {
        if number >= self.limit {
            return Err(Errno::BADF);
        }
        let more = (number as usize + 1).saturating_sub(self.slots.len());
        self.slots.try_reserve(more).map_err(|_| Errno::NOMEM)?;
        for _ in 0..more {
            self.slots.push(None);
        }
        Ok(())
    }

    /// Puts something at a number; what was there comes back.
    pub fn put(&mut self, number: u32, slot: Slot) -> Result<Option<Slot>, Errno> {
        self.reach(number)?;
        let place = self.slots.get_mut(number as usize).ok_or(Errno::BADF)?;
        Ok(place.replace(slot))
    }

    /// Takes out what a number leads to.
    pub fn take(&mut self, number: u32) -> Result<Slot, Errno> {
        self.slots.get_mut(number as usize).and_then(Option::take).ok_or(Errno::BADF)
    }

    /// Takes out any.
    pub fn take_any(&mut self) -> Option<Slot> {
        while let Some(last) = self.slots.pop() {
            if last.is_some() {
                return last;
            }
        }
        None
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}
