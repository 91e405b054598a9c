//! Windows: memory that two programs share, as this kernel has it ([`kernel_mem::spaces::Shown`]).
//!
//! Contract: the memory of a window is in bulk memory, where other kernels can read it, or in
//! frames of this kernel's own if there is no room. It is charged to the process tree that has sent
//! it, until no message has it and no program shows it.

use super::{SPACES, memory, promise_for_now};
use alloc::sync::Arc;
use arch::lock::Lock;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use core::fmt;
use kernel_contract::Shared;
use kernel_mem::raw;
use kernel_mem::spaces::{MAX_WINDOWS, OwnFrames, Shown, SpaceError};
use kernel_node::bulk::Pages;
use kernel_node::memory::FRAMES;
use kernel_node::shootdown::flush_all;
use kernel_platform::channels::Channels;

/// The most bytes of all windows of a kernel: they leave half of the bulk memory to blocks.
const BYTES: u64 = 2 << 20;
/// The most bytes of those of a process tree.
const OF_TREE: u64 = BYTES / 2;
/// The most windows of a process tree.
const COUNT_OF_TREE: usize = MAX_WINDOWS / 2;
/// Bytes of a page.
const IN_PAGE: usize = PAGE as usize;

/// Why there is no memory for a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// The kernel, or the process tree, has as many as it may have.
    Charge,
    Memory,
}

/// What is charged: process trees, with bytes.
struct Charges([Option<(u32, u64)>; MAX_WINDOWS]);

static CHARGES: Lock<Charges> =
    Lock::new(kernel_node::ranks::WINDOWS, Charges([None; MAX_WINDOWS]));

impl Charges {
    /// Returns how many there are of a tree, or of all, and their bytes.
    fn of(&self, tree: Option<u32>) -> (usize, u64) {
        let is_counted = |it: &&(u32, u64)| tree.is_none_or(|tree| tree == it.0);
        let all = self.0.iter().flatten().filter(is_counted);
        all.fold((0, 0), |(count, sum), it| (count + 1, sum + it.1))
    }

    /// Charges bytes to a tree. Returns where that is noted.
    fn add(&mut self, tree: u32, bytes: u64) -> Option<usize> {
        let ((_, all), (count, its)) = (self.of(None), self.of(Some(tree)));
        let fits = all + bytes <= BYTES && its + bytes <= OF_TREE && count < COUNT_OF_TREE;
        let place = self.0.iter().position(Option::is_none).filter(|_| fits)?;
        *self.0.get_mut(place)? = Some((tree, bytes));
        Some(place)
    }

    fn end(&mut self, place: usize) {
        if let Some(charge) = self.0.get_mut(place) {
            *charge = None;
        }
    }
}

/// Returns the number of windows that this kernel has memory for, and their bytes.
pub fn census() -> (usize, u64) {
    CHARGES.lock().of(None)
}

/// A charge, until it is dropped.
struct Charge(usize);

impl Charge {
    fn new(tree: u32, bytes: u64) -> Option<Charge> {
        CHARGES.lock().add(tree, bytes).map(Charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        CHARGES.lock().end(self.0);
    }
}

enum Frames {
    Bulk(Pages),
    Own(OwnFrames),
}

/// The memory of a window.
struct Window {
    frames: Frames,
    channels: &'static Channels,
    _charge: Charge,
}

impl Window {
    /// Calls `work` for the pages of a range: with the frame, the offset in it, and the range of
    /// the bytes within what is copied.
    fn each(
        &self,
        at: usize,
        bytes: usize,
        mut work: impl FnMut(PhysAddr, usize, core::ops::Range<usize>),
    ) {
        let mut done = 0;
        while done < bytes {
            let (page, offset) = ((at + done) / IN_PAGE, (at + done) % IN_PAGE);
            let Some(frame) = self.frame(page) else { return };
            let part = (IN_PAGE - offset).min(bytes - done);
            work(frame, offset, done..done + part);
            done += part;
        }
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a window of {} pages", self.pages())
    }
}

impl Shown for Window {
    fn pages(&self) -> usize {
        match &self.frames {
            Frames::Bulk(pages) => pages.count(),
            Frames::Own(frames) => frames.pages(),
        }
    }

    fn frame(&self, page: usize) -> Option<PhysAddr> {
        match &self.frames {
            Frames::Bulk(pages) => pages.frame(page),
            Frames::Own(frames) => frames.frame(page),
        }
    }
}

impl Shared for Window {
    fn length(&self) -> usize {
        self.pages() * IN_PAGE
    }

    fn place(&self) -> Option<u64> {
        match &self.frames {
            Frames::Bulk(pages) => Some(pages.place()),
            Frames::Own(_) => None,
        }
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        self.each(at, into.len(), |frame, offset, part| {
            raw::load_shared(frame, offset, &mut into[part]);
        });
    }

    fn store(&self, at: usize, from: &[u8]) {
        self.each(at, from.len(), |frame, offset, part| {
            raw::store_shared(frame, offset, &from[part]);
        });
    }

    fn flush(&self, at: usize, bytes: usize) {
        if let Some(place) = self.place() {
            self.channels.flush_window(place + at as u64, bytes);
        }
    }

    fn show(self: Arc<Self>, reserved: u64) -> bool {
        memory().is_some_and(|from| SPACES.show(reserved, self, from, &flush_all))
    }
}

/// Returns memory for a window of whole pages, for a process of this tree.
pub fn make(
    channels: &'static Channels,
    tree: u32,
    length: usize,
) -> Result<Arc<dyn Shared>, Lacking> {
    let (pages, bytes) = (length / IN_PAGE, length as u64);
    let charge = Charge::new(tree, bytes).ok_or(Lacking::Charge)?;
    let frames = match channels.window_room(pages) {
        Some(pages) => Frames::Bulk(pages),
        None => {
            let _promise = promise_for_now(bytes).ok_or(Lacking::Memory)?;
            Frames::Own(OwnFrames::new(pages, &FRAMES).ok_or(Lacking::Memory)?)
        }
    };
    Ok(Arc::new(Window { frames, channels, _charge: charge }))
}

/// Reserves a range of a program of this tree to show a window. Returns the number of the
/// reservation.
pub fn reserve(at: u64, bytes: u64, tree: u32) -> Result<u64, SpaceError> {
    let from = memory().ok_or(SpaceError::NoMemory)?;
    SPACES.reserve_window((VirtAddr(at), bytes), tree, from)
}

/// Ends a reservation, and what it shows.
pub fn end(reserved: u64) {
    if let Some(from) = memory() {
        SPACES.end_window(reserved, from, &flush_all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_tree_and_a_kernel_have_their_limits() {
        let mut charges = Charges([None; MAX_WINDOWS]);
        let first = charges.add(1, OF_TREE - PAGE).unwrap();
        assert_eq!(charges.add(1, 2 * PAGE), None);
        let second = charges.add(1, PAGE).unwrap();
        let third = charges.add(2, OF_TREE).unwrap();
        assert_eq!(charges.add(3, PAGE), None, "the kernel's limit");
        charges.end(first);
        assert_eq!(charges.add(2, PAGE), None, "its own limit");
        assert_eq!(charges.add(3, OF_TREE - PAGE), Some(first));
        [first, second, third].into_iter().for_each(|place| charges.end(place));
        let most = MAX_WINDOWS as u32;
        let all: Vec<usize> = (0..most).map(|one| charges.add(one % 2, PAGE).unwrap()).collect();
        assert_eq!((all.len(), charges.add(99, PAGE)), (MAX_WINDOWS, None));
        charges.end(0);
        assert_eq!(charges.add(1, PAGE), None, "it has half of them");
        assert_eq!(charges.add(0, PAGE), Some(0));
    }
}
