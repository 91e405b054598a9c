//! Small objects that a core keeps for its next allocations: a magazine for each size class, in
//! front of the heap's locks.
//!
//! Usually, allocating and freeing an object is a pop and a push, with interrupts masked and
//! without a lock. An empty magazine is refilled, and a full one emptied, by half its size under
//! one lock. No operation polls for messages.
//!
//! An object that is kept keeps its slab. So [`Magazines::flush_core`] empties a core's magazines
//! when there is no memory, and before blocks of frames are given away.

use arch::lock::{CoreLocal, note_acquire, note_release};
use base::port::Frames;

use super::{CLASSES, Heap};
use crate::ranks;

/// Objects of one class that a core keeps at most: 42 KiB of all classes together.
const SIZE: usize = 6;
/// How many are moved at once.
const BATCH: usize = SIZE / 2;

#[derive(Clone, Copy)]
struct Magazine {
    count: usize,
    objects: [usize; SIZE],
}

/// The magazines of all cores.
pub(crate) struct Magazines(CoreLocal<[Magazine; CLASSES]>);

impl Magazines {
    pub(crate) const fn new() -> Magazines {
        Magazines(CoreLocal::new([Magazine { count: 0, objects: [0; SIZE] }; CLASSES]))
    }

    /// Allocates an object of a class. Returns its address; 0: there is no memory.
    #[inline]
    pub(crate) fn take(&self, heap: &Heap, frames: &dyn Frames, class: usize) -> usize {
        let kept = self.0.with(|all| {
            check_order();
            let Magazine { count, objects } = &mut all[class];
            let left = count.checked_sub(1)?;
            *count = left;
            objects.get(left).copied()
        });
        kept.unwrap_or_else(|| self.refill_and_take(heap, frames, class))
    }

    #[cold]
    #[inline(never)]
    fn refill_and_take(&self, heap: &Heap, frames: &dyn Frames, class: usize) -> usize {
        self.0.with(|all| {
            let Magazine { count, objects } = &mut all[class];
            if *count == 0 {
                *count = heap.take(frames, class, &mut objects[..BATCH]);
            }
            let Some(left) = count.checked_sub(1) else { return 0 };
            *count = left;
            objects[left]
        })
    }

    /// Frees an object of a class.
    #[inline]
    pub(crate) fn give(&self, heap: &Heap, frames: &dyn Frames, class: usize, object: usize) {
        let is_kept = self.0.with(|all| {
            check_order();
            let Magazine { count, objects } = &mut all[class];
            let place = objects.get_mut(*count);
            *count += usize::from(place.is_some());
            place.map(|place| *place = object).is_some()
        });
        if !is_kept {
            self.empty_and_give(heap, frames, class, object);
        }
    }

    #[cold]
    #[inline(never)]
    fn empty_and_give(&self, heap: &Heap, frames: &dyn Frames, class: usize, object: usize) {
        self.0.with(|all| {
            let Magazine { count, objects } = &mut all[class];
            if *count == SIZE {
                heap.give(frames, class, &objects[BATCH..]);
                *count = BATCH;
            }
            objects[*count] = object;
            *count += 1;
        });
    }

    /// Frees all objects that this core keeps.
    pub(crate) fn flush_core(&self, heap: &Heap, frames: &dyn Frames) {
        self.0.with(|all| {
            check_order();
            for (class, Magazine { count, objects }) in all.iter_mut().enumerate() {
                if *count != 0 {
                    heap.give(frames, class, &objects[..*count]);
                    *count = 0;
                }
            }
        });
    }
}

/// In debug builds: any operation may take a lock of the heap. With interrupts masked, as the
/// record of locks is the core's.
#[inline]
fn check_order() {
    note_acquire(ranks::HEAP);
    note_release(ranks::HEAP);
}
