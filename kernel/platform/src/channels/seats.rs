//! For each slot of the table: the threads that wait for its end.
//!
//! Contract: a thread that waits has put its token here under the lock of the table, so no wake is
//! missed. A wake takes all tokens of a slot; a thread that is woken looks again. A *taker* is a
//! thread that looks here for a short message, and perhaps its block: if it is the only one that
//! waits, such a message is put here for it, and never into the queue. It takes the message
//! ([`Seats::take`], [`Seats::take_block`]) or gives it up ([`Seats::remove`]) before it waits
//! again; another one is not delivered meanwhile. A taker that has found the message elsewhere
//! stands up first ([`Seats::vacate`]).

use alloc::boxed::Box;
use kernel_channel::EndId;
use kernel_contract::Block;
use kernel_sched::ThreadId;

/// Threads that may wait for one end at the same time.
const WAITERS: usize = 4;
/// No thread.
const NONE: u64 = 0;
/// The most bytes of a message that is delivered to a thread.
const SHORT: usize = 64;

struct Seat {
    /// Tokens of threads. Those that exist come first.
    threads: [u64; WAITERS],
    /// The thread that takes a short message, how many bytes of fields at most, and of a block if
    /// it takes one.
    taker: u64,
    room: usize,
    block_room: Option<usize>,
    /// The thread for which the message is; none: there is no message.
    receiver: u64,
    tag: u16,
    length: u16,
    bytes: [u8; SHORT],
    block: Option<Block>,
}

const EMPTY: Seat = Seat {
    threads: [NONE; WAITERS],
    taker: NONE,
    room: 0,
    block_room: None,
    receiver: NONE,
    tag: 0,
    length: 0,
    bytes: [0; SHORT],
    block: None,
};

/// One seat for each slot.
pub struct Seats(Box<[Seat]>);

impl Seats {
    pub fn new(count: usize) -> Seats {
        Seats((0..count).map(|_| EMPTY).collect())
    }

    fn seat(&mut self, end: EndId) -> Option<&mut Seat> {
        self.0.get_mut(end.slot())
    }

    /// Notes that a thread waits. Returns false if too many others do.
    pub fn add(&mut self, end: EndId, thread: u64) -> bool {
        self.seat(end).is_some_and(|seat| {
            if seat.taker == thread {
                seat.taker = NONE;
            }
            seat.add(thread)
        })
    }

    /// Notes that a thread waits, and takes a message of at most `room` bytes of fields, and so
    /// many of a block if it takes one. Returns false if too many others wait.
    #[inline]
    pub fn add_taker(
        &mut self,
        end: EndId,
        thread: u64,
        (room, block_room): (usize, Option<usize>),
    ) -> bool {
        self.seat(end).is_some_and(|seat| {
            (seat.taker, seat.room, seat.block_room) = (thread, room, block_room);
            seat.add(thread)
        })
    }

    /// Returns whether a thread waits, and was not woken since.
    pub fn waits(&self, end: EndId, thread: u64) -> bool {
        self.0.get(end.slot()).is_some_and(|seat| seat.threads.contains(&thread))
    }

    /// Forgets a thread, with the message that was delivered to it. Returns whether no other one
    /// waits.
    pub fn remove(&mut self, end: EndId, thread: u64) -> bool {
        let Some(seat) = self.seat(end) else { return true };
        if seat.receiver == thread {
            seat.block = None;
        }
        for it in [&mut seat.taker, &mut seat.receiver] {
            if *it == thread {
                *it = NONE;
            }
        }
        if let Some(at) = seat.threads.iter().position(|it| *it == thread) {
            seat.threads.copy_within(at + 1.., at);
            seat.threads[WAITERS - 1] = NONE;
        }
        seat.threads[0] == NONE
    }

    /// Wakes all threads that wait for an end, by `wake`. Returns whether there was one.
    pub fn wake(&mut self, end: EndId, wake: &mut impl FnMut(ThreadId)) -> bool {
        let Some(seat) = self.seat(end).filter(|seat| seat.threads[0] != NONE) else {
            return false;
        };
        seat.taker = NONE;
        for thread in &mut seat.threads {
            match core::mem::replace(thread, NONE) {
                NONE => break,
                thread => wake(ThreadId::from_token(thread)),
            }
        }
        true
    }

    /// Returns whether the only thread that waits for an end takes a message of so many bytes of
    /// fields, and of a block if it has one.
    pub fn takes(&self, end: EndId, bytes: usize, block: Option<usize>) -> bool {
        let seat = self.0.get(end.slot()).filter(|seat| bytes <= SHORT && seat.takes(bytes));
        seat.is_some_and(|seat| block.is_none() || block <= seat.block_room)
    }

    /// Delivers a message to the only thread that waits for an end. Returns the thread, which the
    /// caller wakes. `None`: nothing has happened.
    #[inline]
    pub fn deliver(&mut self, end: EndId, (tag, fields): (u16, &[u8])) -> Option<ThreadId> {
        let seat = self.seat(end).filter(|seat| seat.takes(fields.len()))?;
        let thread = seat.taker;
        seat.bytes.get_mut(..fields.len())?.copy_from_slice(fields);
        (seat.receiver, seat.tag, seat.length) = (thread, tag, fields.len() as u16);
        (seat.taker, seat.threads[0]) = (NONE, NONE);
        Some(ThreadId::from_token(thread))
    }

    /// Has a thread stand up that takes a message of so many bytes of fields itself, if it is the
    /// only one that waits. Returns whether it did.
    #[inline]
    pub fn vacate(&mut self, end: EndId, thread: u64, bytes: usize) -> bool {
        let seat = self.seat(end).filter(|seat| seat.taker == thread && seat.takes(bytes));
        seat.is_some_and(|seat| {
            (seat.taker, seat.threads[0]) = (NONE, NONE);
            true
        })
    }

    /// Delivers the block of the message that was just delivered.
    pub fn add_block(&mut self, end: EndId, block: &mut Option<Block>) {
        if let Some(seat) = self.seat(end) {
            seat.block = block.take();
        }
    }

    /// Takes the message that was delivered to a thread. Returns its tag and length.
    #[inline]
    pub fn take(&mut self, end: EndId, thread: u64, into: &mut [u8]) -> Option<(u16, u16)> {
        let seat = self.seat(end).filter(|seat| seat.receiver == thread)?;
        let length = usize::from(seat.length);
        into.get_mut(..length)?.copy_from_slice(seat.bytes.get(..length)?);
        seat.receiver = NONE;
        Some((seat.tag, seat.length))
    }

    /// Takes the block of the message that was just taken.
    pub fn take_block(&mut self, end: EndId) -> Option<Block> {
        self.seat(end)?.block.take()
    }
}

impl Seat {
    #[inline]
    fn takes(&self, bytes: usize) -> bool {
        let [first, second, ..] = self.threads;
        let is_alone = self.taker != NONE && first == self.taker && second == NONE;
        is_alone && self.receiver == NONE && bytes <= self.room
    }

    #[inline]
    fn add(&mut self, thread: u64) -> bool {
        let place = self.threads.iter_mut().find(|it| **it == thread || **it == NONE);
        place.map(|place| *place = thread).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const END: EndId = EndId::of_word(0);

    fn woken(seats: &mut Seats) -> Vec<u64> {
        let mut all = Vec::new();
        seats.wake(END, &mut |thread| all.push(thread.token()));
        all
    }

    fn delivered(seats: &mut Seats, fields: &[u8]) -> Option<u64> {
        seats.deliver(END, (3, fields)).map(ThreadId::token)
    }

    #[test]
    fn a_message_goes_to_the_only_thread_that_waits() {
        let mut seats = Seats::new(1);
        assert_eq!(delivered(&mut seats, b"none"), None);
        assert!(seats.add_taker(END, 7, (8, None)));
        assert_eq!(delivered(&mut seats, b"too long."), None);
        assert_eq!(delivered(&mut seats, b"message"), Some(7));
        assert!(woken(&mut seats).is_empty(), "it does not wait any more");
        let mut into = [0; 8];
        assert_eq!(seats.take(END, 8, &mut into), None);
        assert_eq!(seats.take(END, 7, &mut into), Some((3, 7)));
        assert_eq!(&into[..7], b"message");
        assert_eq!(seats.take(END, 7, &mut into), None);
    }

    #[test]
    fn nothing_is_delivered_if_others_wait_or_look_in_the_queue() {
        let mut seats = Seats::new(1);
        assert!(seats.add_taker(END, 7, (8, None)) && seats.add(END, 8));
        assert_eq!(delivered(&mut seats, b"two wait"), None);
        assert_eq!(woken(&mut seats), [7, 8]);
        assert!(seats.add(END, 8) && seats.add_taker(END, 7, (8, None)));
        assert_eq!(delivered(&mut seats, b"two wait"), None);
        assert_eq!(woken(&mut seats), [8, 7]);
        assert!(seats.add_taker(END, 7, (8, None)) && seats.add(END, 7));
        assert_eq!(delivered(&mut seats, b"it waits"), None, "it waits in the usual way");
    }

    #[test]
    fn a_thread_that_stops_waiting_gets_no_message_and_leaves_none() {
        let mut seats = Seats::new(1);
        assert!(seats.add_taker(END, 7, (8, None)) && seats.remove(END, 7));
        assert_eq!(delivered(&mut seats, b"gone"), None);
        assert!(seats.add_taker(END, 7, (8, None)));
        assert_eq!(delivered(&mut seats, b"message"), Some(7));
        assert!(seats.remove(END, 7));
        assert_eq!(seats.take(END, 7, &mut [0; 8]), None);
        assert!(seats.add_taker(END, 9, (8, None)));
        assert_eq!(delivered(&mut seats, b"next"), Some(9));
    }

    #[test]
    fn a_message_that_was_not_taken_yet_is_not_replaced() {
        let mut seats = Seats::new(1);
        assert!(seats.add_taker(END, 7, (8, None)));
        assert_eq!(delivered(&mut seats, b"first"), Some(7));
        assert!(seats.add_taker(END, 8, (8, None)));
        assert_eq!(delivered(&mut seats, b"second"), None);
        let mut into = [0; 8];
        assert_eq!(seats.take(END, 7, &mut into), Some((3, 5)));
        assert_eq!(&into[..5], b"first");
        assert_eq!(delivered(&mut seats, b"second"), Some(8));
    }

    #[test]
    fn a_wake_clears_the_seat() {
        let mut seats = Seats::new(1);
        assert!(seats.add_taker(END, 7, (8, None)));
        assert_eq!(woken(&mut seats), [7]);
        assert!(woken(&mut seats).is_empty());
        assert_eq!(delivered(&mut seats, b"late"), None);
    }

    #[test]
    fn four_threads_wait_for_one_end() {
        let mut seats = Seats::new(1);
        assert!((1..=4).all(|thread| seats.add(END, thread)));
        assert!(!seats.add(END, 5) && !seats.add_taker(END, 5, (8, None)) && seats.add(END, 2));
        assert!(!seats.remove(END, 1));
        assert_eq!(woken(&mut seats), [2, 3, 4]);
    }

    #[test]
    fn a_thread_that_waits_alone_takes_a_message_itself() {
        let mut seats = Seats::new(1);
        assert!(!seats.vacate(END, 7, 8), "it does not wait");
        assert!(seats.add_taker(END, 7, (8, None)));
        assert!(!seats.vacate(END, 8, 8), "another one waits");
        assert!(!seats.vacate(END, 7, 9), "there is no room");
        assert!(seats.vacate(END, 7, 8) && !seats.waits(END, 7) && woken(&mut seats).is_empty());
        assert!(!seats.vacate(END, 7, 8), "once");
        assert!(seats.add_taker(END, 7, (8, None)) && seats.add(END, 8));
        assert!(!seats.vacate(END, 7, 8), "two wait");
        assert_eq!(woken(&mut seats), [7, 8]);
        assert!(seats.add_taker(END, 7, (8, None)));
        assert_eq!(delivered(&mut seats, b"fields"), Some(7));
        assert!(!seats.vacate(END, 7, 8), "a message is at the seat");
    }

    #[test]
    fn a_block_goes_to_a_thread_that_has_room_for_it() {
        let mut seats = Seats::new(1);
        assert!(seats.add_taker(END, 7, (8, Some(5))));
        assert!(!seats.takes(END, 1, Some(6)) && !seats.takes(END, 9, Some(5)));
        assert!(seats.takes(END, 1, Some(5)) && seats.takes(END, 1, None));
        assert_eq!(delivered(&mut seats, b"fields"), Some(7));
        let mut block = Block::of(b"block");
        seats.add_block(END, &mut block);
        assert!(block.is_none());
        let mut into = [0; 8];
        assert_eq!(seats.take(END, 7, &mut into), Some((3, 6)));
        block = seats.take_block(END);
        assert_eq!(block.as_ref().map(Block::len), Some(5));

        // A thread that gives its message up leaves no block.
        assert!(seats.add_taker(END, 7, (8, Some(5))));
        assert_eq!(delivered(&mut seats, b"fields"), Some(7));
        seats.add_block(END, &mut block);
        assert!(seats.remove(END, 7));
        assert!(seats.add_taker(END, 8, (8, None)) && !seats.takes(END, 1, Some(0)));
        assert_eq!(delivered(&mut seats, b"next"), Some(8));
        assert_eq!(seats.take(END, 8, &mut into), Some((3, 4)));
        assert!(seats.take_block(END).is_none());
    }
}
