//! Memory that the allocators own. The unsafe code here accesses memory through the linear map, and
//! only memory that was given to the frame allocator and not handed out (lists in free frames,
//! tags), that the heap allocated from it (slabs), or that its caller owns (frames, and pages of
//! bulk memory). The caller of `add_region` promises that this memory is usable.

use core::sync::atomic::AtomicU8;

use base::addr::PhysAddr;

/// A word of memory that an allocator of this crate owns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word(usize);

impl Word {
    /// Returns the word at virtual address `at`, which is 8-aligned and belongs to the caller.
    #[inline]
    pub(crate) fn at(at: usize) -> Word {
        debug_assert!(at.is_multiple_of(8) && at != 0);
        Word(at)
    }

    #[inline]
    pub(crate) fn get(self) -> u64 {
        // SAFETY: the allocator that made this owns the word and holds the lock of its lists.
        unsafe { (self.0 as *const u64).read() }
    }

    #[inline]
    pub(crate) fn set(self, value: u64) {
        // SAFETY: as in `get`.
        unsafe { (self.0 as *mut u64).write(value) }
    }
}

/// Returns `count` bytes at `at`, forever: the tags of a region, in frames that it reserves.
pub(crate) fn tags(at: PhysAddr, count: usize) -> &'static [AtomicU8] {
    let first = at.to_virt().0 as *mut AtomicU8;
    // SAFETY: the caller of `add_region` promised the region, these frames are never handed out,
    // and any byte is a valid `AtomicU8`.
    unsafe { core::slice::from_raw_parts(first, count) }
}

/// Zeroes the tags of a block. The allocator holds its lock.
pub(crate) fn zero_tags(tags: &'static [AtomicU8]) {
    let first = tags.as_ptr() as usize;
    (first..first + tags.len()).step_by(8).for_each(|at| Word::at(at).set(0));
}

/// Fills frames with zeros. The caller must own them.
pub fn zero(at: PhysAddr, order: u8) {
    let frame = |i: usize| (at.to_virt().0 as usize + i * 4096) as *mut [u64; 512];
    for i in 0..1 << order {
        // SAFETY: frames are writable in the linear map, and the caller owns these.
        unsafe { frame(i).write([0; 512]) };
    }
}

/// Returns the bytes of a frame that `owner` owns, and that is not written meanwhile.
pub(crate) fn bytes<T>(_owner: &T, frame: PhysAddr) -> &[u8; 4096] {
    // SAFETY: frames are readable in the linear map, and this one is its owner's, by the caller's
    // promise, as long as the owner is borrowed.
    unsafe { &*(frame.to_virt().0 as *const [u8; 4096]) }
}

/// Fills a frame with these bytes, at most a frame's, and zeros after them. The caller must own it.
pub(crate) fn fill(frame: PhysAddr, from: &[u8]) {
    let (into, count) = (frame.to_virt().0 as *mut u8, from.len().min(4096));
    // SAFETY: as in `zero`; nothing refers to a frame that its owner is about to fill.
    unsafe {
        into.copy_from_nonoverlapping(from.as_ptr(), count);
        into.add(count).write_bytes(0, 4096 - count);
    }
}

/// Returns the address of `bytes` bytes of a frame.
fn part_of(frame: PhysAddr, at: usize, bytes: usize) -> Option<usize> {
    let is_inside = at.checked_add(bytes).is_some_and(|end| end <= 4096);
    is_inside.then(|| frame.to_virt().0 as usize + at)
}

/// Copies bytes out of a frame that programs access meanwhile, and Rust only by this and
/// [`store_shared`]. The caller must own it.
pub fn load_shared(frame: PhysAddr, at: usize, into: &mut [u8]) {
    if let Some(at) = part_of(frame, at, into.len()) {
        // SAFETY: frames are mapped in the linear map, and the caller owns this one.
        unsafe { arch::racing::load(at, into) };
    }
}

/// Copies bytes into such a frame.
pub fn store_shared(frame: PhysAddr, at: usize, from: &[u8]) {
    if let Some(at) = part_of(frame, at, from.len()) {
        // SAFETY: as in `load_shared`.
        unsafe { arch::racing::store(at, from) };
    }
}

/// Words per frame.
pub(crate) const FRAME_WORDS: usize = 512;
/// Words per cache line.
const LINE_WORDS: usize = 8;

/// Copies a cache line, word by word, so that it compiles to one load and one store per word: a
/// copy of the whole line would become a call of a loop with twice as many instructions.
///
/// # Safety
/// Both lines are mapped, 8-aligned, distinct, and have no other user.
#[inline(always)]
unsafe fn copy_line(from: *const u64, into: *mut u64) {
    // SAFETY: within the lines that the caller promises.
    unsafe {
        let [a, b, c, d] =
            [from.read(), from.add(1).read(), from.add(2).read(), from.add(3).read()];
        let [e, f, g, h] =
            [from.add(4).read(), from.add(5).read(), from.add(6).read(), from.add(7).read()];
        into.write(a);
        into.add(1).write(b);
        into.add(2).write(c);
        into.add(3).write(d);
        into.add(4).write(e);
        into.add(5).write(f);
        into.add(6).write(g);
        into.add(7).write(h);
    }
}

/// Copies a frame. The caller must own both frames.
#[inline]
pub(crate) fn copy_frame(from: PhysAddr, to: PhysAddr) {
    let place = |at: PhysAddr| at.to_virt().0 as *mut u64;
    let (from, into) = (place(from), place(to));
    for word in (0..FRAME_WORDS).step_by(4 * LINE_WORDS) {
        // SAFETY: both frames are mapped and have no other user, by the caller's promise; the four
        // lines at `word` are within a frame.
        unsafe {
            let (from, into) = (from.add(word), into.add(word));
            copy_line(from, into);
            copy_line(from.add(LINE_WORDS), into.add(LINE_WORDS));
            copy_line(from.add(2 * LINE_WORDS), into.add(2 * LINE_WORDS));
            copy_line(from.add(3 * LINE_WORDS), into.add(3 * LINE_WORDS));
        }
    }
}
