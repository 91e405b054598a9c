//! Mailboxes for short answers that a step delivers together with a wake.
//!
//! For example, the step of a write answers a waiting read, so that the reader need not repeat its
//! request.
//!
//! ```text
//!   closed --caller sleeps--> open(sequence) --put--> filling --> filled --take--> closed
//!                                  +------- take: the caller is back ----------> closed
//! ```
//! Contract: each thread of this kernel has one mailbox, and only steps that this kernel executes
//! fill it. It is open only while its thread sleeps, never during a step of that thread: a thread
//! that wakes up, for whatever reason, first empties and closes its mailbox, so no answer is left
//! in it. If the answer comes before the thread sleeps, the mailbox is still closed; the thread is
//! then woken and repeats its request, as it would without a mailbox. `put` is only called within a
//! step, so the `filling` state is short.

use alloc::boxed::Box;
use base::port::Attend;
use core::sync::atomic::{AtomicU64, Ordering};

/// The capacity of a mailbox in bytes.
pub const MAILBOX_BYTES: usize = 128;

const WORD: usize = size_of::<u64>();

/// States of a mailbox: the low half of its word; the high half is the request's sequence.
const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const FILLING: u64 = 2;
/// `FILLED + n`: the mailbox holds `n` bytes.
const FILLED: u64 = 3;

#[derive(Debug)]
struct Mailbox {
    state: AtomicU64,
    bytes: [AtomicU64; MAILBOX_BYTES / WORD],
}

/// The mailboxes of a kernel's threads.
#[derive(Debug)]
pub struct Mailboxes(Box<[Mailbox]>);

fn state(sequence: u32, code: u64) -> u64 {
    u64::from(sequence) << 32 | code
}

impl Mailboxes {
    /// Creates closed mailboxes for `threads` threads.
    pub fn new(threads: usize) -> Mailboxes {
        let mailbox = |_| Mailbox {
            state: AtomicU64::new(CLOSED),
            bytes: [const { AtomicU64::new(0) }; MAILBOX_BYTES / WORD],
        };
        Mailboxes((0..threads).map(mailbox).collect())
    }

    /// Opens the mailbox of `thread`, whose request `sequence` is parked.
    pub fn open(&self, thread: usize, sequence: u32) {
        if let Some(mailbox) = self.0.get(thread) {
            mailbox.state.store(state(sequence, OPEN), Ordering::Release);
        }
    }

    /// Delivers `bytes` to the request `sequence` of `thread`. Returns false if its mailbox is not
    /// open for that request or `bytes` is longer than [`MAILBOX_BYTES`].
    pub fn put(&self, thread: usize, sequence: u32, bytes: &[u8]) -> bool {
        let Some(mailbox) = self.0.get(thread).filter(|_| bytes.len() <= MAILBOX_BYTES) else {
            return false;
        };
        let (open, filling) = (state(sequence, OPEN), state(sequence, FILLING));
        let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
        if mailbox.state.compare_exchange(open, filling, order, failed).is_err() {
            return false;
        }
        for (word, chunk) in mailbox.bytes.iter().zip(bytes.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
        mailbox.state.store(state(sequence, FILLED + bytes.len() as u64), Ordering::Release);
        true
    }

    /// Closes the mailbox, and returns the length of the answer it held, now copied to `bulk`.
    /// `None`: there was none, or `bulk` is too short for it.
    pub fn take(
        &self,
        thread: usize,
        sequence: u32,
        bulk: &mut [u8],
        attend: &impl Attend,
    ) -> Option<usize> {
        let mailbox = self.0.get(thread)?;
        let (open, order) = (state(sequence, OPEN), Ordering::Acquire);
        if mailbox.state.compare_exchange(open, CLOSED, order, order).is_ok() {
            return None;
        }
        attend.until(&mut || mailbox.state.load(order) != state(sequence, FILLING));
        let filled = mailbox.state.swap(CLOSED, order);
        let length = filled.checked_sub(state(sequence, FILLED))? as usize;
        for (chunk, word) in bulk.get_mut(..length)?.chunks_mut(WORD).zip(&mailbox.bytes) {
            let whole = word.load(Ordering::Relaxed).to_ne_bytes();
            chunk.copy_from_slice(&whole[..chunk.len()]);
        }
        Some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::sync::atomic::AtomicU32;

    struct Spin;

    impl Attend for Spin {
        fn until(&self, ready: &mut dyn FnMut() -> bool) {
            while !ready() {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_mailbox_takes_one_answer_while_it_is_open() {
        let (given, mut bulk) = (Mailboxes::new(2), [0; MAILBOX_BYTES]);
        assert!(!given.put(1, 7, b"early"));
        given.open(1, 7);
        assert!(!given.put(1, 6, b"late") && !given.put(0, 7, b"other") && !given.put(9, 7, b"?"));
        assert!(!given.put(1, 7, &[0; MAILBOX_BYTES + 1]));
        assert!(given.put(1, 7, b"something") && !given.put(1, 7, b"more"));
        assert_eq!(given.take(1, 7, &mut bulk, &Spin), Some(9));
        assert_eq!(&bulk[..9], b"something");
        assert_eq!(given.take(1, 7, &mut bulk, &Spin), None);
        given.open(1, 8);
        assert_eq!(given.take(1, 8, &mut bulk, &Spin), None);
        assert!(!given.put(1, 8, b"late"));
        for length in 0..=MAILBOX_BYTES {
            let bytes: vec::Vec<u8> = (0..length as u8).collect();
            given.open(0, length as u32);
            assert!(given.put(0, length as u32, &bytes));
            assert_eq!(given.take(0, length as u32, &mut bulk, &Spin), Some(length));
            assert_eq!(bulk[..length], bytes);
        }
    }

    /// A delivering thread and a caller that gives up at the same time agree on the outcome.
    #[test]
    fn an_answer_is_taken_exactly_once() {
        const ROUNDS: u32 = 20_000;
        let (given, asks, put) = (Mailboxes::new(1), AtomicU32::new(0), AtomicU32::new(0));
        let mut taken = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let sequence = asks.load(Ordering::Relaxed);
                    if given.put(0, sequence, &sequence.to_le_bytes()) {
                        put.fetch_add(1, Ordering::Relaxed);
                    }
                    if sequence == u32::MAX {
                        return;
                    }
                }
            });
            for sequence in 1..=ROUNDS {
                let mut bulk = [0; 4];
                given.open(0, sequence);
                asks.store(sequence, Ordering::Relaxed);
                (0..sequence % 64).for_each(|_| core::hint::spin_loop());
                if given.take(0, sequence, &mut bulk, &Spin) == Some(4) {
                    assert_eq!(u32::from_le_bytes(bulk), sequence);
                    taken += 1;
                }
            }
            asks.store(u32::MAX, Ordering::Relaxed);
        });
        assert_eq!((put.load(Ordering::Relaxed), taken > 0), (taken, true));
    }
}
