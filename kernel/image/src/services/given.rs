//! Bytes that a step gives to who is parked: a read that waits is answered in the step of who
//! writes, and the reader need not ask again.
//!
//! ```text
//!   closed --asks--> open(sequence) --a step gives--> filling --> filled --asker takes--> closed
//!                          +--the asker comes back, for whatever reason--> closed
//! ```
//! Contract: each thread has one place, for its own requests of this kernel. A step gives to a
//! request only while that waits, and who comes back closes its place before it does anything
//! else, so nothing is given to who would not look. Whoever fills a place is in a step, which is
//! soon over.

use arch::attend;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_sched::{MAX_THREADS, ThreadId};
use kernel_share::{Token, form::GIVEN};

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

/// All places.
#[derive(Debug)]
pub struct Given(alloc::boxed::Box<[Place]>);

fn state(token: Token, code: u64) -> u64 {
    u64::from(token.sequence) << 32 | code
}

impl Given {
    /// All closed.
    pub fn new() -> Given {
        let place = |_| Place {
            state: AtomicU64::new(CLOSED),
            bytes: [const { AtomicU64::new(0) }; GIVEN / WORD],
        };
        Given((0..MAX_THREADS).map(place).collect())
    }

    fn place(&self, token: Token) -> &Place {
        &self.0[ThreadId::from_token(token.thread).index() % MAX_THREADS]
    }

    /// This request of the caller's may be given something from now on.
    pub fn open(&self, token: Token) {
        self.place(token).state.store(state(token, OPEN), Ordering::Release);
    }

    /// For who waits under this token of this kernel: false if it does not, or these are too many.
    pub fn put(&self, token: Token, bytes: &[u8]) -> bool {
        let place = self.place(token);
        let (open, filling) = (state(token, OPEN), state(token, FILLING));
        let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
        if bytes.len() > GIVEN
            || place.state.compare_exchange(open, filling, order, failed).is_err()
        {
            return false;
        }
        for (word, chunk) in place.bytes.iter().zip(bytes.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
        place.state.store(state(token, FILLED + bytes.len() as u64), Ordering::Release);
        true
    }

    /// The caller has come back: how many bytes it was given, now in `bulk`.
    pub fn take(&self, token: Token, bulk: &mut [u8]) -> Option<usize> {
        let place = self.place(token);
        let (open, order) = (state(token, OPEN), Ordering::Acquire);
        if place.state.compare_exchange(open, CLOSED, order, order).is_ok() {
            return None;
        }
        attend::until(|| place.state.load(order) != state(token, FILLING));
        let filled = place.state.swap(CLOSED, order);
        let length = filled.checked_sub(state(token, FILLED))? as usize;
        for (chunk, word) in bulk.get_mut(..length)?.chunks_mut(WORD).zip(&place.bytes) {
            let whole = word.load(Ordering::Relaxed).to_ne_bytes();
            chunk.copy_from_slice(&whole[..chunk.len()]);
        }
        Some(length)
    }
}
