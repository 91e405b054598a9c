//! For each slot of the table: the threads that wait for its end.
//!
//! Contract: a thread that waits has put its token here under the lock of the table, so no wake is
//! missed. A wake takes all tokens of a slot; a thread that is woken looks again.

use alloc::boxed::Box;
use alloc::vec;
use kernel_channel::EndId;
use kernel_sched::ThreadId;

/// Threads that may wait for one end at the same time.
const WAITERS: usize = 4;
/// No thread.
const NONE: u64 = 0;

/// Tokens of threads. Those that exist come first.
type Seat = [u64; WAITERS];

/// One seat for each slot.
pub struct Seats(Box<[Seat]>);

impl Seats {
    pub fn new(count: usize) -> Seats {
        Seats(vec![[NONE; WAITERS]; count].into_boxed_slice())
    }

    fn seat(&mut self, end: EndId) -> Option<&mut Seat> {
        self.0.get_mut(end.slot())
    }

    /// Notes that a thread waits. Returns false if too many others do.
    pub fn add(&mut self, end: EndId, thread: u64) -> bool {
        let Some(seat) = self.seat(end) else { return false };
        let place = seat.iter_mut().find(|it| **it == thread || **it == NONE);
        place.map(|place| *place = thread).is_some()
    }

    /// Forgets a thread. Returns whether no other one waits.
    pub fn remove(&mut self, end: EndId, thread: u64) -> bool {
        let Some(seat) = self.seat(end) else { return true };
        if let Some(at) = seat.iter().position(|it| *it == thread) {
            seat.copy_within(at + 1.., at);
            seat[WAITERS - 1] = NONE;
        }
        seat[0] == NONE
    }

    /// Wakes all threads that wait for an end, by `wake`. Returns whether there was one.
    pub fn wake(&mut self, end: EndId, wake: &mut impl FnMut(ThreadId)) -> bool {
        let Some(seat) = self.seat(end) else { return false };
        let mut threads = seat.iter_mut().take_while(|thread| **thread != NONE).peekable();
        let is_any = threads.peek().is_some();
        threads.for_each(|thread| wake(ThreadId::from_token(core::mem::take(thread))));
        is_any
    }
}
