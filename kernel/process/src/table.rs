//! Descriptors: small numbers for files, sockets and ends of channels, with their rights.
//!
//! There are never more than the limit, and a new descriptor gets the lowest free number. A number
//! can be reserved for what cannot be undone, such as an accept: it is neither free nor a
//! descriptor. This module never calls a service: code that removes a descriptor closes its object.
//!
//! Every call of a program looks a descriptor up, so that takes no lock: each place has a version,
//! which is odd while the place changes. Changes take a lock, under which memory is allocated and
//! nothing else is called.
//! ```text
//!   look up: version --> descriptor --> version: the same, even one, or again
//!   change:  lock --> version + 1 --> descriptor --> version + 2
//! ```

mod place;
mod preopens;
#[cfg(test)]
mod tests;

use crate::errno::Errno;
use crate::object::Object;
use crate::polls::Realm;
use crate::wasi::{filetype, rights};
use abi::fs::Stat;
use abi::quota::HANDLES;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use arch::lock::{Guard, Lock, Once, Rank};
use core::sync::atomic::{AtomicU64, Ordering};
use place::Place;
pub use preopens::{Name, Preopen};

/// Default limit of descriptors.
pub const DESCRIPTORS: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// What it refers to.
    pub object: Object,
    /// What it may be used for.
    pub rights: u64,
    /// Maximum rights of files opened through it.
    pub inheriting: u64,
    /// [`filetype`].
    pub kind: u8,
    /// Flags that the file service does not know ([`super::wasi::fdflags::SYNCS`]).
    pub syncs: u16,
    /// Whether it is of the null device, whose bytes need no service.
    pub is_null: bool,
}

impl Descriptor {
    /// Makes a descriptor without rights.
    const fn bare(object: Object, kind: u8) -> Descriptor {
        Descriptor { object, rights: 0, inheriting: 0, kind, syncs: 0, is_null: false }
    }

    /// Makes a descriptor of a file of this kind, with the rights that apply to the kind.
    pub fn new(handle: u64, kind: u8, base: u64, inheriting: u64) -> Descriptor {
        let (most, passed) = rights::of_kind(kind);
        let (rights, inheriting) = (base & most, inheriting & passed);
        Descriptor { rights, inheriting, ..Descriptor::bare(Object::File(handle), kind) }
    }

    /// Makes a descriptor of a socket of this kind.
    pub fn of_socket(handle: u64, kind: u8, base: u64) -> Descriptor {
        let rights = base & rights::SOCKET;
        Descriptor { rights, ..Descriptor::bare(Object::Socket(handle), kind) }
    }

    /// Makes a descriptor of an end of a channel.
    pub fn of_end(handle: u64, base: u64) -> Descriptor {
        let rights = base & rights::END;
        Descriptor { rights, ..Descriptor::bare(Object::End(handle), filetype::STREAM) }
    }

    /// Makes a descriptor of an object with this `stat`.
    pub fn of_object(object: Object, stat: &Stat, base: u64, inheriting: u64) -> Descriptor {
        match object {
            Object::File(handle) => Descriptor::of(handle, stat, base, inheriting),
            Object::Socket(handle) => Descriptor::of_socket(handle, stat.kind, base),
            Object::End(handle) => Descriptor::of_end(handle, base),
        }
    }

    /// Makes a descriptor of the file with this `stat`. Among character devices only terminals are
    /// outside every file system; the others have positions, which is how programs tell them apart.
    pub fn of(handle: u64, stat: &Stat, base: u64, inheriting: u64) -> Descriptor {
        let is_device = stat.kind == filetype::CHARACTER && stat.device != 0;
        let rights = if is_device { filetype::FILE } else { stat.kind };
        let is_null = stat.is_null();
        Descriptor { kind: stat.kind, is_null, ..Descriptor::new(handle, rights, base, inheriting) }
    }

    /// Returns the handle of its file; [`Errno::INVAL`] for another object.
    #[inline]
    pub fn file(&self) -> Result<u64, Errno> {
        self.object.file()
    }

    /// Returns the handle of a file of which nothing is to be done beside a read or a write.
    #[inline]
    pub(crate) fn plain_file(&self) -> Option<u64> {
        self.object.file().ok().filter(|_| self.syncs == 0)
    }

    /// Returns the handle of its socket, or [`Errno::NOTSOCK`].
    pub fn socket(&self) -> Result<u64, Errno> {
        match self.object {
            Object::Socket(handle) => Ok(handle),
            Object::File(_) | Object::End(_) => Err(Errno::NOTSOCK),
        }
    }

    /// Returns what is neither a handle nor rights as a word.
    pub(crate) fn flags(&self) -> u32 {
        let realm = self.object.parts().1.flag(REALMS);
        let null = if self.is_null { NULL } else { 0 };
        u32::from(self.kind) | u32::from(self.syncs) << 16 | realm | null
    }

    /// Makes a descriptor of its words.
    #[inline]
    pub(crate) fn of_words(handle: u64, flags: u32, rights: u64, inheriting: u64) -> Descriptor {
        let object = Object::of_parts(handle, Realm::of_flags(flags, REALMS));
        let (kind, syncs) = (flags as u8, (flags >> 16) as u16);
        let is_null = flags & NULL != 0;
        Descriptor { object, rights, inheriting, kind, syncs, is_null }
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

/// Bits of [`Descriptor::flags`]: it is a socket, or an end of a channel.
const REALMS: [u32; 2] = [1 << 9, 1 << 11];
/// Bit of [`Descriptor::flags`]: [`Descriptor::is_null`].
const NULL: u32 = 1 << 12;

/// A descriptor, with its name if it is a preopened directory.
#[derive(Debug)]
pub struct Slot {
    pub descriptor: Descriptor,
    pub name: Option<Name>,
}

/// The rank of the table's lock, among those of `kernel_node::ranks`.
const RANK: Rank = Rank::new(56, "descriptors");
/// Places that are allocated at once.
const CHUNK: usize = 32;

/// Names of preopened directories, by number.
type Names = BTreeMap<u32, Name>;

pub struct Table {
    /// Places, allocated when the first of [`CHUNK`] is needed.
    chunks: Box<[Once<Box<[Place]>>]>,
    limit: u32,
    /// Taken by each change.
    names: Lock<Names>,
    /// See [`Table::changes`].
    changes: AtomicU64,
}

impl Table {
    /// Makes an empty table for at most `limit` descriptors.
    pub fn new(limit: u32) -> Result<Table, Errno> {
        // No process can have more handles.
        let limit = limit.min(HANDLES);
        let mut chunks = Vec::new();
        let count = (limit as usize).div_ceil(CHUNK);
        chunks.try_reserve_exact(count).map_err(|_| Errno::NOMEM)?;
        chunks.resize_with(count, Once::new);
        let names = Lock::new(RANK, Names::new());
        let changes = AtomicU64::new(0);
        Ok(Table { chunks: chunks.into_boxed_slice(), limit, names, changes })
    }

    /// Begins a change: counts it, and excludes others.
    fn changing(&self) -> Guard<'_, Names> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.names.lock()
    }

    /// Returns a number that differs after each change. No other thread uses the table.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Returns how many descriptors it can have.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    #[inline]
    fn place(&self, number: u32) -> Option<&Place> {
        self.chunks.get(number as usize / CHUNK)?.get()?.get(number as usize % CHUNK)
    }

    /// Iterates over the numbers that have places, with these.
    fn places(&self) -> impl DoubleEndedIterator<Item = (u32, &Place)> {
        let chunks = self.chunks.iter().enumerate();
        let chunks = chunks.filter_map(|(at, chunk)| Some((at, chunk.get()?)));
        chunks.flat_map(|(at, chunk)| {
            chunk.iter().enumerate().map(move |(index, place)| ((at * CHUNK + index) as u32, place))
        })
    }

    /// Returns a descriptor, or [`Errno::BADF`].
    #[inline]
    pub fn get(&self, number: u32) -> Result<Descriptor, Errno> {
        self.place(number).and_then(Place::load).ok_or(Errno::BADF)
    }

    /// Changes a descriptor, unless `change` fails.
    pub fn change(
        &self,
        number: u32,
        change: impl FnOnce(&mut Descriptor) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let _changes = self.changing();
        let place = self.place(number).ok_or(Errno::BADF)?;
        let mut descriptor = place.load().ok_or(Errno::BADF)?;
        change(&mut descriptor)?;
        place.store(Some(descriptor));
        Ok(())
    }

    /// Returns the lowest free number from `from` on, with its place allocated.
    pub fn free(&self, from: u32) -> Result<u32, Errno> {
        let _no_changes = self.names.lock();
        self.lowest(from)
    }

    /// Fails if there is no room for two more.
    pub fn two_free(&self) -> Result<(), Errno> {
        let _no_changes = self.names.lock();
        let first = self.lowest(0)?;
        self.lowest(first.saturating_add(1)).map(|_| ())
    }

    /// As [`Table::free`]. The caller has the lock.
    fn lowest(&self, from: u32) -> Result<u32, Errno> {
        let is_free = |number: &u32| self.place(*number).is_none_or(Place::is_free);
        let number = (from..self.limit).find(is_free).ok_or(Errno::MFILE)?;
        self.allocated(number).map(|_| number)
    }

    /// Returns the place of a number; [`Errno::BADF`] above the limit. The caller has the lock.
    fn allocated(&self, number: u32) -> Result<&Place, Errno> {
        let chunk = self.chunks.get(number as usize / CHUNK).filter(|_| number < self.limit);
        let chunk = chunk.ok_or(Errno::BADF)?;
        if chunk.get().is_none() {
            let mut places = Vec::new();
            places.try_reserve_exact(CHUNK).map_err(|_| Errno::NOMEM)?;
            places.resize_with(CHUNK, Place::default);
            // Succeeds, under the lock.
            drop(chunk.set(places.into_boxed_slice()));
        }
        self.place(number).ok_or(Errno::BADF)
    }

    /// Stores a descriptor at a free number, or fails with [`Errno::INVAL`].
    pub fn put(&self, number: u32, slot: Slot) -> Result<(), Errno> {
        let mut names = self.changing();
        let place = self.allocated(number)?;
        if !place.is_free() {
            return Err(Errno::INVAL);
        }
        place.store(Some(slot.descriptor));
        if let Some(name) = slot.name {
            names.insert(number, name);
        }
        Ok(())
    }

    /// Stores a descriptor at the lowest free number, which it returns.
    pub fn add(&self, descriptor: Descriptor) -> Result<u32, Errno> {
        let _changes = self.changing();
        let number = self.lowest(0)?;
        self.allocated(number)?.store(Some(descriptor));
        Ok(number)
    }

    /// Reserves the lowest free number, which it returns.
    pub fn reserve(&self) -> Result<u32, Errno> {
        let _changes = self.changing();
        let number = self.lowest(0)?;
        self.allocated(number)?.reserve();
        Ok(number)
    }

    /// Reserves a free number, or fails with [`Errno::INVAL`].
    pub(crate) fn reserve_at(&self, number: u32) -> Result<(), Errno> {
        let _changes = self.changing();
        let place = self.allocated(number)?;
        if !place.is_free() {
            return Err(Errno::INVAL);
        }
        place.reserve();
        Ok(())
    }

    /// Removes a descriptor that passes `check`, and reserves its number.
    pub(crate) fn hold(
        &self,
        number: u32,
        check: impl FnOnce(&Descriptor) -> Result<(), Errno>,
    ) -> Result<Descriptor, Errno> {
        let _changes = self.changing();
        let place = self.place(number).ok_or(Errno::BADF)?;
        let found = place.load().ok_or(Errno::BADF)?;
        check(&found)?;
        place.reserve();
        Ok(found)
    }

    /// Stores a descriptor at a reserved number, or makes that free again. Fails with
    /// [`Errno::BADF`] if it is not reserved.
    pub fn settle(&self, number: u32, descriptor: Option<Descriptor>) -> Result<(), Errno> {
        let _changes = self.changing();
        let place = self.place(number).filter(|place| place.is_reserved()).ok_or(Errno::BADF)?;
        place.store(descriptor);
        Ok(())
    }

    /// Calls `visit` with each reserved number. It must not change the table.
    pub(crate) fn each_reserved(&self, visit: &mut dyn FnMut(u32)) {
        let reserved = self.places().filter(|(_, place)| place.is_reserved());
        reserved.for_each(|(number, _)| visit(number));
    }

    /// Moves a descriptor, with its name, to the number of another one, which it returns, unless
    /// both are the same.
    pub fn renumber(&self, number: u32, to: u32) -> Result<Option<Descriptor>, Errno> {
        let mut names = self.changing();
        let before = self.get(to)?;
        let moved = self.get(number)?;
        if number == to {
            return Ok(None);
        }
        for (number, descriptor) in [(to, Some(moved)), (number, None)] {
            self.allocated(number)?.store(descriptor);
        }
        match names.remove(&number) {
            Some(name) => names.insert(to, name),
            None => names.remove(&to),
        };
        Ok(Some(before))
    }

    /// Removes a descriptor.
    pub fn take(&self, number: u32) -> Result<Descriptor, Errno> {
        let mut names = self.changing();
        let place = self.place(number).ok_or(Errno::BADF)?;
        let found = place.load().ok_or(Errno::BADF)?;
        place.store(None);
        names.remove(&number);
        Ok(found)
    }

    /// Removes the descriptor of an object that has no name, unless the number has become that of
    /// another one.
    pub(crate) fn take_object(&self, number: u32, object: Object) {
        let _changes = self.changing();
        let place = self.place(number);
        if let Some(place) = place.filter(|it| it.load().is_some_and(|it| it.object == object)) {
            place.store(None);
        }
    }

    /// Removes any descriptor.
    pub fn take_any(&self) -> Option<Descriptor> {
        let found = self.places().rev().find(|(_, place)| place.load().is_some());
        self.take(found?.0).ok()
    }

    /// Removes all descriptors, whose objects are the caller's to close.
    pub fn clear(&self) {
        let mut names = self.changing();
        self.places().for_each(|(_, place)| place.store(None));
        names.clear();
    }

    /// Calls `visit` with each descriptor and its number. It must not change the table.
    pub fn each(&self, visit: &mut dyn FnMut(u32, Descriptor)) {
        let found = self.places().filter_map(|(number, place)| Some((number, place.load()?)));
        found.for_each(|(number, descriptor)| visit(number, descriptor));
    }

    /// Returns the number of descriptors.
    pub fn count(&self) -> usize {
        self.places().filter(|(_, place)| place.load().is_some()).count()
    }
}

/// Copies bytes to the heap.
pub(crate) fn copied(bytes: &[u8]) -> Result<Box<[u8]>, Errno> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| Errno::NOMEM)?;
    copy.extend_from_slice(bytes);
    Ok(copy.into_boxed_slice())
}
