//! The kernel heap: small objects in slabs by size class, large objects in frames of their own, no
//! more than they need.
//!
//! A slab is a block of frames, aligned to its size, that starts with a header. Freed objects form
//! a list through their first word; objects that were never used start at offset `fresh`. A class
//! lists its slabs with room. It keeps one empty slab and returns others to the frame allocator:
//!
//! ```text
//!   allocate frames -> [ has room, in the list ] --last object taken--> [ full, not in the list ]
//!                           |    ^----------------object freed-----------------'
//!                       last object freed: kept if it is the only empty slab, else frames freed
//! ```
//!
//! Callers pass the layout of what they free (`GlobalAlloc`), so no lookup is needed. Cores keep
//! some small objects ([`magazines`]), so that most operations take no lock. To shrink an object is
//! to allocate another one, unless it stays in its class, or has as many frames.

use core::alloc::Layout;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};

use arch::lock::Lock;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;

use crate::frames::MAX_ORDER;
use crate::ranks;
use crate::raw::Word;

pub(crate) mod magazines;

/// Object sizes in ascending order. Sizes that are not powers of two guarantee an alignment of 16
/// only.
const SIZES: [usize; CLASSES] =
    [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];
const CLASSES: usize = 14;
/// The largest size, and what all are multiples of.
const LARGEST: usize = SIZES[CLASSES - 1];
const STEP: usize = SIZES[0];
/// The smallest class for each size, in steps.
const CLASS_OF: [u8; LARGEST / STEP + 1] = classes();
/// Slabs of objects up to this size have one frame, others four.
const SMALL: usize = 512;
/// Size of a slab's header.
const HEADER: usize = 64;

/// Memory use of the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of objects, rounded up to their size classes: live ones, and those that cores keep.
    pub used: usize,
    /// Bytes of frames that the heap holds.
    pub taken: usize,
}

/// The slabs of one size class.
struct Class {
    /// The first slab with room, or 0.
    head: usize,
    /// Number of empty slabs in the list, at most one.
    empty: usize,
}

/// The heap. Callers pass the frame allocator to each operation.
pub struct Heap {
    classes: [Lock<Class>; CLASSES],
    used: AtomicUsize,
    taken: AtomicUsize,
}

/// How an object of some layout is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    Class(usize),
    /// So many frames.
    Frames(usize),
    TooLarge,
}

const fn classes() -> [u8; LARGEST / STEP + 1] {
    let mut of = [0; LARGEST / STEP + 1];
    let (mut at, mut class) = (0, 0);
    while at < of.len() {
        class += (SIZES[class] < at * STEP) as usize;
        of[at] = class as u8;
        at += 1;
    }
    of
}

#[inline]
pub(crate) fn backing(layout: Layout) -> Backing {
    let (size, align) = (layout.size(), layout.align());
    // A power of two that is at least `align` is aligned to it.
    let fits = if align <= STEP { size } else { size.max(align).next_power_of_two() };
    if let Some(&class) = CLASS_OF.get(fits.div_ceil(STEP)) {
        return Backing::Class(class.into());
    }
    // A run is aligned to the power of two that is no smaller.
    match size.max(align).div_ceil(PAGE as usize) {
        frames if frames <= 1 << MAX_ORDER => Backing::Frames(frames),
        _ => Backing::TooLarge,
    }
}

const fn slab_order(size: usize) -> u8 {
    if size <= SMALL { 0 } else { 2 }
}

const fn slab_bytes(size: usize) -> usize {
    (PAGE as usize) << slab_order(size)
}

/// Returns the offset of a slab's first object.
const fn first(size: usize) -> usize {
    if size.is_power_of_two() && size > HEADER { size } else { HEADER }
}

impl Default for Heap {
    fn default() -> Self {
        Heap::new()
    }
}

impl Heap {
    pub const fn new() -> Self {
        Heap {
            classes: [const { Lock::new(ranks::HEAP, Class { head: 0, empty: 0 }) }; CLASSES],
            used: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        }
    }

    /// Allocates memory for `layout` and returns its virtual address.
    pub fn allocate(&self, frames: &dyn Frames, layout: Layout) -> Option<NonZeroUsize> {
        match backing(layout) {
            Backing::Class(class) => {
                let mut object = [0];
                self.take(frames, class, &mut object);
                NonZeroUsize::new(object[0])
            }
            Backing::Frames(count) => {
                let run = frames.allocate_run(count)?;
                let bytes = PAGE as usize * count;
                self.taken.fetch_add(bytes, Ordering::Relaxed);
                self.used.fetch_add(bytes, Ordering::Relaxed);
                NonZeroUsize::new(run.to_virt().0 as usize)
            }
            Backing::TooLarge => None,
        }
    }

    /// Frees what [`Heap::allocate`] returned for the same layout.
    pub fn free(&self, frames: &dyn Frames, at: NonZeroUsize, layout: Layout) {
        match backing(layout) {
            Backing::Class(class) => self.give(frames, class, &[at.get()]),
            Backing::Frames(count) => {
                frames.free_run(VirtAddr(at.get() as u64).to_phys(), count);
                let bytes = PAGE as usize * count;
                self.taken.fetch_sub(bytes, Ordering::Relaxed);
                self.used.fetch_sub(bytes, Ordering::Relaxed);
            }
            Backing::TooLarge => {}
        }
    }

    /// Returns whether an object of layout `from` also has room for layout `to`.
    pub fn resize_in_place(&self, from: Layout, to: Layout) -> bool {
        backing(from) == backing(to)
    }

    pub fn usage(&self) -> Usage {
        Usage { used: self.used.load(Ordering::Relaxed), taken: self.taken.load(Ordering::Relaxed) }
    }

    /// Allocates objects of a size class under one lock, until `into` is full or there is no
    /// memory. Returns their number.
    fn take(&self, frames: &dyn Frames, index: usize, into: &mut [usize]) -> usize {
        let (size, mut taken) = (SIZES[index], 0);
        let mut class = self.classes[index].lock();
        for object in into {
            if class.head == 0 {
                let Some(block) = frames.allocate(slab_order(size)) else { break };
                let slab = Slab(block.to_virt().0 as usize);
                self.taken.fetch_add(slab_bytes(size), Ordering::Relaxed);
                slab.format(size);
                class.push(slab);
                class.empty = 1;
            }
            *object = class.take(size);
            taken += 1;
        }
        self.used.fetch_add(taken * size, Ordering::Relaxed);
        taken
    }

    /// Frees objects of a size class under one lock.
    fn give(&self, frames: &dyn Frames, index: usize, from: &[usize]) {
        let size = SIZES[index];
        let mut class = self.classes[index].lock();
        for &object in from {
            if let Some(slab) = class.give(size, object) {
                self.taken.fetch_sub(slab_bytes(size), Ordering::Relaxed);
                frames.free(slab.frames(), slab_order(size));
            }
        }
        self.used.fetch_sub(from.len() * size, Ordering::Relaxed);
    }
}

impl Class {
    /// Takes an object from the first slab with room.
    fn take(&mut self, size: usize) -> usize {
        let slab = Slab(self.head);
        if slab.used().get() == 0 {
            self.empty -= 1;
        }
        let object = slab.take(size);
        if slab.is_full(size) {
            self.unlink(slab);
        }
        object
    }

    /// Frees an object. Returns its slab if that is empty, and another one is.
    fn give(&mut self, size: usize, object: usize) -> Option<Slab> {
        let slab = Slab(object & !(slab_bytes(size) - 1));
        if slab.is_full(size) {
            self.push(slab);
        }
        slab.give(object);
        if slab.used().get() != 0 {
            return None;
        }
        if self.empty == 0 {
            self.empty = 1;
            return None;
        }
        self.unlink(slab);
        Some(slab)
    }

    fn push(&mut self, slab: Slab) {
        slab.next().set(self.head as u64);
        slab.before().set(0);
        if self.head != 0 {
            Slab(self.head).before().set(slab.0 as u64);
        }
        self.head = slab.0;
    }

    fn unlink(&mut self, slab: Slab) {
        let (next, before) = (slab.next().get() as usize, slab.before().get() as usize);
        if before == 0 {
            self.head = next;
        } else {
            Slab(before).next().set(next as u64);
        }
        if next != 0 {
            Slab(next).before().set(before as u64);
        }
    }
}

/// A slab, given by its virtual address. Only accessed under its class's lock.
#[derive(Clone, Copy)]
struct Slab(usize);

impl Slab {
    fn next(self) -> Word {
        Word::at(self.0)
    }
    fn before(self) -> Word {
        Word::at(self.0 + 8)
    }
    /// The first freed object, or 0.
    fn free(self) -> Word {
        Word::at(self.0 + 16)
    }
    /// The number of live objects.
    fn used(self) -> Word {
        Word::at(self.0 + 24)
    }
    /// Offset of the first object that was never used.
    fn fresh(self) -> Word {
        Word::at(self.0 + 32)
    }

    fn frames(self) -> PhysAddr {
        VirtAddr(self.0 as u64).to_phys()
    }

    fn format(self, size: usize) {
        self.free().set(0);
        self.used().set(0);
        self.fresh().set(first(size) as u64);
    }

    fn is_full(self, size: usize) -> bool {
        self.free().get() == 0 && self.fresh().get() as usize + size > slab_bytes(size)
    }

    /// Takes an object from a slab that is not full.
    fn take(self, size: usize) -> usize {
        self.used().set(self.used().get() + 1);
        let object = self.free().get() as usize;
        if object != 0 {
            self.free().set(Word::at(object).get());
            return object;
        }
        let fresh = self.fresh().get();
        self.fresh().set(fresh + size as u64);
        self.0 + fresh as usize
    }

    fn give(self, object: usize) {
        debug_assert!(self.used().get() != 0, "more was freed than allocated");
        Word::at(object).set(self.free().get());
        self.free().set(object as u64);
        self.used().set(self.used().get() - 1);
    }
}

#[cfg(test)]
mod tests;
