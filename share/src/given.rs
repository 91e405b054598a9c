//! Bytes that a step gives to who is parked in the same kernel: a read that waits is answered in
//! the step of who writes, and the reader need not ask again.
//!
//! ```text
//!   closed --sleeps--> open(sequence) --a step gives--> filling --> filled --asker takes--> closed
//!                           +--the asker comes back, for whatever reason--> closed
//! ```
//! Contract: each thread has one place, for its own requests of this kernel, open while who asked
//! sleeps and never in a step of its own: who comes back closes it and looks into it before it does
//! anything else, so nothing is given to who would not look. What comes before it sleeps goes the
//! usual way. Whoever fills a place is in a step, which is soon over.

use alloc::boxed::Box;
use base::port::Attend;
use core::sync::atomic::{AtomicU64, Ordering};

/// Most bytes that are given.
pub const GIVEN: usize = 128;

const WORD: usize = size_of::<u64>();

/// The low half of a place's state; the high half is the request's sequence.
const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const FILLING: u64 = 2;
/// And how many bytes.
const FILLED: u64 = 3;

#[derive(Debug)]
struct Place {
    state: AtomicU64,
    bytes: [AtomicU64; GIVEN / WORD],
}

/// All places of a kernel.
#[derive(Debug)]
pub struct Given(Box<[Place]>);

fn state(sequence: u32, code: u64) -> u64 {
    u64::from(sequence) << 32 | code
}

impl Given {
    /// So many, all closed.
    pub fn new(threads: usize) -> Given {
        let place = |_| Place {
            state: AtomicU64::new(CLOSED),
            bytes: [const { AtomicU64::new(0) }; GIVEN / WORD],
        };
        Given((0..threads).map(place).collect())
    }

    /// The request `sequence` of a thread, which was parked, may be given something from now on.
    pub fn open(&self, thread: usize, sequence: u32) {
        if let Some(place) = self.0.get(thread) {
            place.state.store(state(sequence, OPEN), Ordering::Release);
        }
    }

    /// For who waits so: false if it does not, or these are too many.
    pub fn put(&self, thread: usize, sequence: u32, bytes: &[u8]) -> bool {
        let Some(place) = self.0.get(thread).filter(|_| bytes.len() <= GIVEN) else { return false };
        let (open, filling) = (state(sequence, OPEN), state(sequence, FILLING));
        let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
        if place.state.compare_exchange(open, filling, order, failed).is_err() {
            return false;
        }
        for (word, chunk) in place.bytes.iter().zip(bytes.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
        place.state.store(state(sequence, FILLED + bytes.len() as u64), Ordering::Release);
        true
    }

    /// Who waited has come back: how many bytes it was given, now in `bulk`.
    pub fn take(
        &self,
        thread: usize,
        sequence: u32,
        bulk: &mut [u8],
        attend: &impl Attend,
    ) -> Option<usize> {
        let place = self.0.get(thread)?;
        let (open, order) = (state(sequence, OPEN), Ordering::Acquire);
        if place.state.compare_exchange(open, CLOSED, order, order).is_ok() {
            return None;
        }
        attend.until(&mut || place.state.load(order) != state(sequence, FILLING));
        let filled = place.state.swap(CLOSED, order);
        let length = filled.checked_sub(state(sequence, FILLED))? as usize;
        for (chunk, word) in bulk.get_mut(..length)?.chunks_mut(WORD).zip(&place.bytes) {
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
    fn a_place_takes_one_gift_while_it_is_open() {
        let (given, mut bulk) = (Given::new(2), [0; GIVEN]);
        assert!(!given.put(1, 7, b"early"));
        given.open(1, 7);
        assert!(!given.put(1, 6, b"late") && !given.put(0, 7, b"other") && !given.put(9, 7, b"?"));
        assert!(!given.put(1, 7, &[0; GIVEN + 1]));
        assert!(given.put(1, 7, b"something") && !given.put(1, 7, b"more"));
        assert_eq!(given.take(1, 7, &mut bulk, &Spin), Some(9));
        assert_eq!(&bulk[..9], b"something");
        assert_eq!(given.take(1, 7, &mut bulk, &Spin), None);
        given.open(1, 8);
        assert_eq!(given.take(1, 8, &mut bulk, &Spin), None);
        assert!(!given.put(1, 8, b"late"));
        for length in 0..=GIVEN {
            let bytes: vec::Vec<u8> = (0..length as u8).collect();
            given.open(0, length as u32);
            assert!(given.put(0, length as u32, &bytes));
            assert_eq!(given.take(0, length as u32, &mut bulk, &Spin), Some(length));
            assert_eq!(bulk[..length], bytes);
        }
    }

    /// Who gives and who gives up at the same time agree on whether it was given.
    #[test]
    fn what_was_put_is_taken_once() {
        const ROUNDS: u32 = 20_000;
        let (given, asks, put) = (Given::new(1), AtomicU32::new(0), AtomicU32::new(0));
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
