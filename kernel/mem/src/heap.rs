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
//! Callers pass the layout of what they free (`GlobalAlloc`), so no lookup is needed.

use core::alloc::Layout;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};

use arch::lock::Lock;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;

use crate::frames::MAX_ORDER;
use crate::ranks;
use crate::raw::Word;

/// Object sizes in ascending order. Sizes that are not powers of two guarantee an alignment of 16
/// only.
const SIZES: [usize; 14] = [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];
/// Slabs of objects up to this size have one frame, others four.
const SMALL: usize = 512;
/// Size of a slab's header.
const HEADER: usize = 64;

/// Memory use of the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of live objects, rounded up to their size classes.
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
    classes: [Lock<Class>; SIZES.len()],
    used: AtomicUsize,
    taken: AtomicUsize,
}

/// How an object of some layout is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    Class(usize),
    /// So many frames.
    Frames(usize),
    TooLarge,
}

fn backing(layout: Layout) -> Backing {
    let (size, align) = (layout.size(), layout.align());
    let fits = |&class: &usize| class >= size && (align <= 16 || class.is_power_of_two());
    // A power of two that is at least `align` is aligned to it.
    let wanted = |class: &usize| fits(class) && (align <= 16 || *class >= align);
    if let Some(class) = SIZES.iter().position(wanted) {
        return Backing::Class(class);
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
            classes: [const { Lock::new(ranks::HEAP, Class { head: 0, empty: 0 }) }; SIZES.len()],
            used: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        }
    }

    /// Allocates memory for `layout` and returns its virtual address.
    pub fn allocate(&self, frames: &dyn Frames, layout: Layout) -> Option<NonZeroUsize> {
        let (at, bytes) = match backing(layout) {
            Backing::Class(class) => (self.allocate_small(frames, class)?, SIZES[class]),
            Backing::Frames(count) => {
                let bytes = PAGE as usize * count;
                let run = frames.allocate_run(count)?;
                self.taken.fetch_add(bytes, Ordering::Relaxed);
                (run.to_virt().0 as usize, bytes)
            }
            Backing::TooLarge => return None,
        };
        self.used.fetch_add(bytes, Ordering::Relaxed);
        NonZeroUsize::new(at)
    }

    /// Frees what [`Heap::allocate`] returned for the same layout.
    pub fn free(&self, frames: &dyn Frames, at: NonZeroUsize, layout: Layout) {
        let bytes = match backing(layout) {
            Backing::Class(class) => {
                self.free_small(frames, class, at.get());
                SIZES[class]
            }
            Backing::Frames(count) => {
                let bytes = PAGE as usize * count;
                frames.free_run(VirtAddr(at.get() as u64).to_phys(), count);
                self.taken.fetch_sub(bytes, Ordering::Relaxed);
                bytes
            }
            Backing::TooLarge => return,
        };
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns whether an object of layout `from` also has room for layout `to`.
    pub fn resize_in_place(&self, from: Layout, to: Layout) -> bool {
        backing(from) == backing(to)
    }

    pub fn usage(&self) -> Usage {
        Usage { used: self.used.load(Ordering::Relaxed), taken: self.taken.load(Ordering::Relaxed) }
    }

    fn allocate_small(&self, frames: &dyn Frames, index: usize) -> Option<usize> {
        let size = SIZES[index];
        let mut class = self.classes[index].lock();
        if class.head == 0 {
            let slab = Slab(frames.allocate(slab_order(size))?.to_virt().0 as usize);
            self.taken.fetch_add(slab_bytes(size), Ordering::Relaxed);
            slab.format(size);
            class.push(slab);
            class.empty = 1;
        }
        let slab = Slab(class.head);
        if slab.used().get() == 0 {
            class.empty -= 1;
        }
        let object = slab.take(size);
        if slab.is_full(size) {
            class.unlink(slab);
        }
        Some(object)
    }

    fn free_small(&self, frames: &dyn Frames, index: usize, object: usize) {
        let size = SIZES[index];
        let slab = Slab(object & !(slab_bytes(size) - 1));
        let mut class = self.classes[index].lock();
        if slab.is_full(size) {
            class.push(slab);
        }
        slab.give(object);
        if slab.used().get() != 0 {
            return;
        }
        if class.empty == 0 {
            class.empty = 1;
            return;
        }
        class.unlink(slab);
        drop(class);
        self.taken.fetch_sub(slab_bytes(size), Ordering::Relaxed);
        frames.free(slab.frames(), slab_order(size));
    }
}

impl Class {
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
