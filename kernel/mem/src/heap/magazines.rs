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
use core::num::NonZeroUsize;

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

    /// Takes an object of a class that this core keeps. Returns its address; 0: it keeps none.
    #[inline]
    pub(crate) fn take(&self, class: usize) -> usize {
        self.0.with(|all| {
            check_order();
            let Magazine { count, objects } = &mut all[class];
            let left = count.wrapping_sub(1);
            let Some(object) = objects.get(left) else { return 0 };
            *count = left;
            *object
        })
    }

    /// The same after a magazine that is empty has been refilled; `None`: there is no memory.
    pub(crate) fn refill_and_take(
        &self,
        heap: &Heap,
        frames: &dyn Frames,
        class: usize,
    ) -> Option<NonZeroUsize> {
        self.0.with(|all| {
            let Magazine { count, objects } = &mut all[class];
            if *count == 0 {
                *count = heap.take(frames, class, &mut objects[..BATCH]);
            }
            let left = count.checked_sub(1)?;
            *count = left;
            NonZeroUsize::new(objects[left])
        })
    }

    /// Keeps a free object of a class. Returns false without room.
    #[inline]
    pub(crate) fn give(&self, class: usize, object: usize) -> bool {
        self.0.with(|all| {
            check_order();
            let Magazine { count, objects } = &mut all[class];
            let Some(place) = objects.get_mut(*count) else { return false };
            *count += 1;
            *place = object;
            true
        })
    }

    /// The same after a magazine that is full has been emptied.
    pub(crate) fn empty_and_give(
        &self,
        heap: &Heap,
        frames: &dyn Frames,
        class: usize,
        object: usize,
    ) {
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
