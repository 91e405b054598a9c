//! Descriptors: small numbers for handles of the file service, with their rights.
//!
//! There are never more than the limit, and a new descriptor gets the lowest free number. This
//! module never calls the file service: code that removes a descriptor closes its handle.

use crate::errno::Errno;
use crate::wasi::{filetype, rights};
use abi::fs::Stat;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Default limit of descriptors.
pub const DESCRIPTORS: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Handle of the file service, owned by this process.
    pub handle: u64,
    /// What it may be used for.
    pub rights: u64,
    /// Maximum rights of files opened through it.
    pub inheriting: u64,
    /// [`filetype`].
    pub kind: u8,
    /// Flags that the file service does not know ([`super::wasi::fdflags::SYNCS`]).
    pub syncs: u16,
}

impl Descriptor {
    /// Makes a descriptor of this kind, with the rights that apply to the kind.
    pub fn new(handle: u64, kind: u8, base: u64, inheriting: u64) -> Descriptor {
        let (most, passed) = rights::of_kind(kind);
        Descriptor { handle, rights: base & most, inheriting: inheriting & passed, kind, syncs: 0 }
    }

    /// Makes a descriptor of the file with this `stat`. Among character devices only terminals are
    /// outside every file system; the others have positions, which is how programs tell them apart.
    pub fn of(handle: u64, stat: &Stat, base: u64, inheriting: u64) -> Descriptor {
        let is_device = stat.kind == filetype::CHARACTER && stat.device != 0;
        let rights = if is_device { filetype::FILE } else { stat.kind };
        Descriptor { kind: stat.kind, ..Descriptor::new(handle, rights, base, inheriting) }
    }

    pub fn has_positions(&self) -> bool {
        let is_device = self.kind == filetype::CHARACTER && self.rights & rights::FD_SEEK != 0;
        matches!(self.kind, filetype::FILE | filetype::BLOCK) || is_device
    }

    /// Checks that it has all of these rights.
    #[inline]
    pub fn with(self, rights: u64) -> Result<Descriptor, Errno> {
        if self.rights & rights == rights { Ok(self) } else { Err(Errno::NOTCAPABLE) }
    }
}

/// A descriptor, with its name if it is a preopened directory.
#[derive(Debug)]
pub struct Slot {
    pub descriptor: Descriptor,
    /// Name under which the program knows the directory.
    pub name: Option<Box<[u8]>>,
}

#[derive(Debug)]
pub struct Table {
    slots: Vec<Option<Slot>>,
    limit: u32,
}

impl Table {
    /// Makes an empty table for at most `limit` descriptors.
    pub fn new(limit: u32) -> Table {
        Table { slots: Vec::new(), limit }
    }

    /// Returns a descriptor, or [`Errno::BADF`].
    #[inline]
    pub fn get(&self, number: u32) -> Result<Descriptor, Errno> {
        self.slot(number).map(|slot| slot.descriptor)
    }

    /// The same, with its name.
    #[inline]
    pub fn slot(&self, number: u32) -> Result<&Slot, Errno> {
        match self.slots.get(number as usize) {
            Some(Some(slot)) => Ok(slot),
            _ => Err(Errno::BADF),
        }
    }

    pub fn get_mut(&mut self, number: u32) -> Result<&mut Descriptor, Errno> {
        match self.slots.get_mut(number as usize) {
            Some(Some(slot)) => Ok(&mut slot.descriptor),
            _ => Err(Errno::BADF),
        }
    }

    /// Returns the lowest free number from `from` on, with room reserved: `put` there does not
    /// fail.
    pub fn free(&mut self, from: u32) -> Result<u32, Errno> {
        let from = from as usize;
        let taken = self.slots.get(from..).unwrap_or(&[]);
        let found = taken.iter().position(Option::is_none).unwrap_or(taken.len());
        let number = u32::try_from(from.saturating_add(found)).map_err(|_| Errno::MFILE)?;
        self.reserve(number)
            .map_err(|error| if error == Errno::BADF { Errno::MFILE } else { error })?;
        Ok(number)
    }

    /// Fails if there is no room for two more.
    pub fn two_free(&mut self) -> Result<(), Errno> {
        let first = self.free(0)?;
        self.free(first.saturating_add(1)).map(|_| ())
    }

    /// Stores a descriptor at the lowest free number, which it returns.
    pub fn add(&mut self, slot: Slot) -> Result<u32, Errno> {
        let number = self.free(0)?;
        self.put(number, slot)?;
        Ok(number)
    }

    /// Moves a descriptor to the number of another one, which it returns, unless both are the same.
    pub fn renumber(&mut self, number: u32, to: u32) -> Result<Option<Slot>, Errno> {
        self.get(to)?;
        if number == to {
            return Ok(None);
        }
        let slot = self.take(number)?;
        self.put(to, slot)
    }

    /// Makes room for a number; [`Errno::BADF`] above the limit.
    fn reserve(&mut self, number: u32) -> Result<(), Errno> {
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

    /// Stores a descriptor; returns the previous one with that number.
    pub fn put(&mut self, number: u32, slot: Slot) -> Result<Option<Slot>, Errno> {
        self.reserve(number)?;
        let place = self.slots.get_mut(number as usize).ok_or(Errno::BADF)?;
        Ok(place.replace(slot))
    }

    /// Removes a descriptor.
    pub fn take(&mut self, number: u32) -> Result<Slot, Errno> {
        self.slots.get_mut(number as usize).and_then(Option::take).ok_or(Errno::BADF)
    }

    /// Removes any descriptor.
    pub fn take_any(&mut self) -> Option<Slot> {
        while let Some(last) = self.slots.pop() {
            if last.is_some() {
                return last;
            }
        }
        None
    }

    /// Iterates over the preopened directories.
    pub fn preopens(&self) -> impl Iterator<Item = Descriptor> {
        let named = self.slots.iter().flatten().filter(|slot| slot.name.is_some());
        named.map(|slot| slot.descriptor)
    }

    /// Returns the number of descriptors.
    pub fn count(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}
