//! Windows: memory that two programs share. A home of `unsafe`: the memory is accessed by its
//! address, as another program accesses it, too.
//!
//! Contract: the pages stay allocated until the system has ended the window, and no reference to
//! their bytes exists. Bytes are copied by atomic accesses.

#![allow(unsafe_code)]

use super::page::{PAGE, Page};
use crate::{Errno, ffi};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// A part of a window that is copied at once.
enum Part<'a> {
    Byte(&'a AtomicU8),
    Word(&'a AtomicU64),
}

/// Pages that are, or may become, a window.
struct Shared {
    /// Only owns the memory.
    _pages: Vec<Page>,
    /// Where it begins.
    start: usize,
    length: usize,
    /// The system shows it.
    is_open: AtomicBool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if *self.is_open.get_mut() {
            let _ = ffi::window_close(self.start as *const u8);
        }
    }
}

/// Memory that this program shares with another one, or will: a window.
///
/// The program that makes a window sends it as a message's [`Block`](super::Block), and afterwards
/// only this program should store there. The receiver gets it as a window if its channel
/// [takes windows](super::Channel::take_windows), and as a copy otherwise. Only programs with
/// threads have windows; others fail with [`Errno::NOTSUP`].
///
/// On two kernels the memory is not coherent. So the sender calls [`Window::flush`] for what it has
/// stored, then tells the receiver by a message, and the receiver calls [`Window::refresh`] before
/// it loads. On one kernel the receiver may see stores earlier.
///
/// A process has at most 8 windows, and its tree 1 MiB of them ([`Errno::NOBUFS`]).
///
/// Dropping the last handle ends the program's part of the window.
#[derive(Clone)]
pub struct Window(Arc<Shared>);

impl Window {
    /// Returns a window of zeros, in whole pages, that has not been sent.
    pub fn zeroed(length: usize) -> Window {
        let count = length.div_ceil(PAGE).max(1);
        let mut pages = Vec::with_capacity(count);
        pages.resize(count, Page::ZERO);
        Window::of(pages, count * PAGE, false)
    }

    /// Returns the window that a message has brought into these pages.
    pub(crate) fn received(pages: Vec<Page>, length: usize) -> Window {
        Window::of(pages, length, true)
    }

    fn of(mut pages: Vec<Page>, length: usize, is_open: bool) -> Window {
        let (start, is_open) = (pages.as_mut_ptr() as usize, AtomicBool::new(is_open));
        Window(Arc::new(Shared { _pages: pages, start, length, is_open }))
    }

    /// Returns whether it is the same one.
    pub(crate) fn is(&self, other: &Window) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no window is empty")]
    pub fn len(&self) -> usize {
        self.0.length
    }

    /// Returns the address and the length of its memory.
    pub(crate) fn place(&self) -> [u32; 2] {
        [self.start() as u32, self.len() as u32]
    }

    /// Notes that it was sent.
    pub(crate) fn mark_sent(&self) {
        self.0.is_open.store(true, Ordering::Relaxed);
    }

    fn start(&self) -> usize {
        self.0.start
    }

    /// Calls `work` for the parts of a range, with their offsets in it.
    fn each(&self, range: Range<usize>, mut work: impl FnMut(usize, Part<'_>)) {
        let (end, mut next) = (range.end.min(self.len()), range.start);
        while next < end {
            let at = self.start() + next;
            if next.is_multiple_of(8) && end - next >= 8 {
                // SAFETY: within the pages, aligned, and accessed as an atomic only.
                work(next - range.start, Part::Word(unsafe { AtomicU64::from_ptr(at as *mut _) }));
                next += 8;
            } else {
                // SAFETY: as above.
                work(next - range.start, Part::Byte(unsafe { AtomicU8::from_ptr(at as *mut _) }));
                next += 1;
            }
        }
    }

    /// Copies bytes out of it, as far as it goes.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        self.each(at..at.saturating_add(into.len()), |offset, part| match part {
            Part::Byte(byte) => into[offset] = byte.load(Ordering::Relaxed),
            Part::Word(word) => into[offset..offset + 8]
                .copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()),
        });
    }

    /// Copies bytes into it, as far as it goes.
    pub fn write(&self, at: usize, from: &[u8]) {
        self.each(at..at.saturating_add(from.len()), |offset, part| match part {
            Part::Byte(byte) => byte.store(from[offset], Ordering::Relaxed),
            Part::Word(word) => {
                let bytes = from[offset..].first_chunk().copied().unwrap_or_default();
                word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
            }
        });
    }

    /// Makes what this program has stored in a range visible to the receiver, which it tells
    /// afterwards by a message. For the program that has sent the window.
    pub fn flush(&self, range: Range<usize>) -> Result<(), Errno> {
        let (at, length) = self.range(range)?;
        ffi::window_flush(at, length)
    }

    /// Makes a range show what the sender has made visible. For the program that has received the
    /// window. Fails with [`Errno::CONNRESET`] if the sender's kernel has died, or a kernel that
    /// the window's message came through.
    pub fn refresh(&self, range: Range<usize>) -> Result<(), Errno> {
        let (at, length) = self.range(range)?;
        ffi::window_refresh(at, length)
    }

    fn range(&self, range: Range<usize>) -> Result<(*const u8, u32), Errno> {
        let length = range.end.checked_sub(range.start).filter(|_| range.end <= self.len());
        let length = length.ok_or(Errno::INVAL)?;
        Ok(((self.start() + range.start) as *const u8, length as u32))
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a window of {} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_at_any_offset_and_not_beyond_the_end() {
        let window = Window::zeroed(PAGE + 1);
        assert_eq!(window.len(), 2 * PAGE);
        let bytes: Vec<u8> = (1..=40).collect();
        for at in [0, 1, 7, 8, PAGE - 3, 2 * PAGE - 40] {
            window.write(at, &bytes);
            let mut found = [0; 42];
            window.read(at, &mut found[1..41]);
            assert_eq!((&found[1..41], found[0], found[41]), (&bytes[..], 0, 0));
        }
        let mut found = [9; 4];
        window.write(2 * PAGE - 2, &[1, 2, 3, 4]);
        window.read(2 * PAGE - 2, &mut found);
        assert_eq!(found, [1, 2, 9, 9]);
        window.read(usize::MAX, &mut found);
        assert_eq!(window.refresh(0..2 * PAGE + 1), Err(Errno::INVAL));
    }
}
