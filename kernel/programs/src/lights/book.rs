//! The book of a process: what both kernels must know of it ([`abi::light`]). Another kernel writes
//! it too, so its words may be anything; what this module returns is within its bounds.

use super::raw;
use abi::light::{BOOK_PAGES, TABLES, state, waiter};
use alloc::vec::Vec;
use base::addr::{PAGE, VirtAddr};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const ORDER: Ordering = Ordering::Relaxed;
/// Most bytes of the descriptors.
pub const ROOM: usize = BOOK_PAGES * PAGE as usize - state::TABLE;

/// Returns the roots of a process's tables, in the first page of its book, which is mapped.
pub fn roots<'a>(book: VirtAddr) -> &'a [AtomicU32] {
    let first = state::ROOTS / 4;
    &raw::entries(book)[first..first + TABLES]
}

/// The state in a book, of which at least the first page is mapped; more for the descriptors.
#[derive(Clone, Copy)]
pub struct State<'a>(&'a [AtomicU64]);

impl State<'_> {
    pub fn of<'a>(book: VirtAddr) -> State<'a> {
        State(raw::words(book, BOOK_PAGES))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.0[at / 8]
    }

    /// Returns the size of the memory in bytes.
    pub fn bytes(&self) -> u64 {
        self.word(state::BYTES).load(ORDER)
    }

    pub fn set_bytes(&self, bytes: u64) {
        self.word(state::BYTES).store(bytes, ORDER);
    }

    /// Returns the number of the next thread; `None` after the last one.
    pub fn next_thread(&self, last: u32) -> Option<u32> {
        let next = (self.word(state::LAST).load(ORDER) as u32).checked_add(1)?;
        if next > last {
            return None;
        }
        self.word(state::LAST).store(next.into(), ORDER);
        Some(next)
    }

    /// Returns a number that differs whenever the descriptors were stored; 0: they never were.
    pub fn version(&self) -> u64 {
        self.word(state::VERSION).load(ORDER)
    }

    /// Stores the descriptors. Returns false if they do not fit.
    pub fn set_descriptors(&self, bytes: &[u8]) -> bool {
        if bytes.len() > ROOM {
            return false;
        }
        self.word(state::VERSION).store(self.version().wrapping_add(1).max(1), ORDER);
        self.word(state::DESCRIPTORS).store(bytes.len() as u64, ORDER);
        for (bytes, word) in bytes.chunks_exact(8).zip(&self.0[state::TABLE / 8..]) {
            if let Some(bytes) = bytes.first_chunk() {
                word.store(u64::from_le_bytes(*bytes), ORDER);
            }
        }
        true
    }

    /// Returns the bytes of the descriptors.
    pub fn descriptors_length(&self) -> usize {
        (self.word(state::DESCRIPTORS).load(ORDER) as usize).min(ROOM)
    }

    /// Returns the descriptors; `None` without memory.
    pub fn descriptors(&self) -> Option<Vec<u8>> {
        let length = self.descriptors_length() / 8;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(8 * length).ok()?;
        let words = &self.0[state::TABLE / 8..state::TABLE / 8 + length];
        words.iter().for_each(|word| bytes.extend_from_slice(&word.load(ORDER).to_le_bytes()));
        Some(bytes)
    }

    fn place(&self, place: usize) -> (&AtomicU64, &AtomicU64) {
        let at = state::WAITERS + 16 * place;
        (self.word(at), self.word(at + 8))
    }

    /// Records that a thread waits at an address. Returns its place, if there is a free one.
    pub fn wait(&self, address: u64, kind: u8) -> Option<usize> {
        let free = |&place: &usize| self.place(place).1.load(ORDER) == 0;
        let place = (0..state::MOST_WAITERS).find(free)?;
        let ticket = self.word(state::TICKET).load(ORDER).wrapping_add(1);
        self.word(state::TICKET).store(ticket, ORDER);
        let (at, word) = self.place(place);
        at.store(address, ORDER);
        word.store(waiter::pack(ticket, kind), ORDER);
        Some(place)
    }

    /// Returns whether the wait at a place was notified.
    pub fn is_notified(&self, place: usize) -> bool {
        let (_, word) = self.place(place % state::MOST_WAITERS);
        waiter::unpack(word.load(ORDER)).1 == waiter::NOTIFIED
    }

    /// Ends the wait at a place. Returns whether it was notified.
    pub fn end_wait(&self, place: usize) -> bool {
        let (_, word) = self.place(place % state::MOST_WAITERS);
        waiter::unpack(word.swap(0, ORDER)).1 == waiter::NOTIFIED
    }

    /// Notifies the thread that has waited longest at an address. Returns its place and kind.
    pub fn notify(&self, address: u64) -> Option<(usize, u8)> {
        let waits = |&place: &usize| {
            let (at, word) = self.place(place);
            let (ticket, kind) = waiter::unpack(word.load(ORDER));
            let is_waiting = kind == waiter::NORMAL || kind == waiter::LIGHT;
            (is_waiting && at.load(ORDER) == address).then_some((ticket, place, kind))
        };
        let places = 0..state::MOST_WAITERS;
        let (ticket, place, kind) = places.filter_map(|place| waits(&place)).min()?;
        self.place(place).1.store(waiter::pack(ticket, waiter::NOTIFIED), ORDER);
        Some((place, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    fn pages() -> Vec<AtomicU64> {
        (0..BOOK_PAGES * PAGE as usize / 8).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn waiting_threads_are_notified_in_their_order_on_both_kernels() {
        let pages = pages();
        let state = State(&pages);
        let kinds = [waiter::NORMAL, waiter::LIGHT, waiter::NORMAL];
        let places = kinds.map(|kind| state.wait(64, kind).unwrap());
        let other = state.wait(68, waiter::LIGHT).unwrap();
        assert_eq!(state.notify(64), Some((places[0], waiter::NORMAL)));
        assert!(state.end_wait(places[0]) && !state.end_wait(other));
        let again = state.wait(64, waiter::NORMAL).unwrap();
        assert_eq!(again, places[0], "the place is used again, and its thread comes last");
        let order = [places[1], places[2], again];
        order.iter().for_each(|place| assert_eq!(state.notify(64).unwrap().0, *place));
        assert_eq!(state.notify(64), None);
        assert_eq!(state.notify(68), None);
    }

    #[test]
    fn places_and_room_are_bounded() {
        let pages = pages();
        let state = State(&pages);
        let all = (0..state::MOST_WAITERS).all(|_| state.wait(0, waiter::LIGHT).is_some());
        assert!(all && state.wait(0, waiter::LIGHT).is_none());
        let bytes: Box<[u8]> = (0..ROOM).map(|at| at as u8).collect();
        assert_eq!(state.version(), 0);
        assert!(state.set_descriptors(&bytes));
        assert_eq!(state.version(), 1);
        assert_eq!(state.descriptors().as_deref(), Some(&bytes[..]));
        assert!(!state.set_descriptors(&[0; ROOM + 8]));
        pages.iter().for_each(|word| word.store(u64::MAX, ORDER));
        assert_eq!(state.descriptors().map(|it| it.len()), Some(ROOM));
        assert_eq!((state.next_thread(100), state.notify(u64::MAX)), (None, None));
        assert!(!state.end_wait(usize::MAX));
    }

    #[test]
    fn thread_numbers_rise_to_the_last_one() {
        let pages = pages();
        let state = State(&pages);
        let numbers: Vec<_> = (0..4).map(|_| state.next_thread(3)).collect();
        assert_eq!(numbers, [Some(1), Some(2), Some(3), None]);
    }
}
