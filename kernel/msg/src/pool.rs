//! Policy of the handler threads of one core: when to make one, when to let one go, and when a
//! request is answered by the out-of-memory handler. Pure: events in, what to do out.
//!
//! Contract: each request that arrives is handed to a handler, queued behind one that can run, or
//! refused; a queued request never waits for blocked handlers only. Threads never outnumber `max`.
//!
//! **About to block** means: about to wait for what only another call's end can give. That is a
//! nested blockable call, a lock that sleeps, and also [`Busy`](crate::Busy): a handler that
//! spins in attend for a reply slot can run, but not get on, and those queued behind it may be
//! the ones it waits for (the simulator found that deadlock). Report `will_block` before such a
//! wait.
//!
//! ```text
//!            arrived                     will_block
//!   idle ---------------> running ------------------------> blocked
//!    ^                    |  ^  ^                              |
//!    |  finished,         |  |  +------------------------------+
//!    |  queue empty       |  |            unblocked
//!    +--------------------+  | finished, queue not empty: next request
//!    |  more than two idle   |
//!    v                       | created: takes a queued request, or idles
//!   gone                  making <---- will_block with the pool empty
//! ```
//!
//! **Full**: the queue holds no memory of its own, it counts requests that the caller's table of
//! open requests holds (bounded by reply slots). When no handler can run and none can be made, the
//! queue is refused at once: the out-of-memory handler answers `NoMemory`.

/// Handlers a core starts with and keeps.
pub const KEPT: u16 = 2;

/// What to do with a request that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// Wake an idle handler with it.
    Hand,
    /// Append it to the queue; a handler that can run takes it when it finishes.
    Queue,
    /// Append it to the queue and make a handler; report [`Pool::created`] or [`Pool::failed`].
    QueueAndCreate,
    /// Answer it with `NoMemory` from the out-of-memory handler.
    Refuse,
}

/// What to do when a handler is about to block, or one could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shortage {
    /// Nothing.
    None,
    /// Make a handler; report [`Pool::created`] or [`Pool::failed`].
    Create,
    /// Take this many requests off the queue, all there are, and answer them `NoMemory`.
    RefuseQueue(u16),
}

/// What a handler does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Takes the oldest request off the queue.
    Serve,
    /// Sleeps until it is woken with one.
    Idle,
    /// Ends.
    Retire,
}

/// The handlers of one core.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    max: u16,
    idle: u16,
    running: u16,
    blocked: u16,
    making: u16,
    queued: u16,
}

impl Pool {
    /// Starts with [`KEPT`] idle handlers (which the caller has made) and never has more than
    /// `max`.
    pub const fn new(max: u16) -> Pool {
        let max = if max < KEPT { KEPT } else { max };
        Pool { max, idle: KEPT, running: 0, blocked: 0, making: 0, queued: 0 }
    }

    /// A blockable request arrived.
    pub fn arrived(&mut self) -> Arrival {
        if self.idle > 0 {
            self.idle -= 1;
            self.running += 1;
            return Arrival::Hand;
        }
        if self.running == 0 && self.making == 0 {
            if self.is_at_max() {
                return Arrival::Refuse;
            }
            self.making += 1;
            self.queued += 1;
            return Arrival::QueueAndCreate;
        }
        self.queued += 1;
        Arrival::Queue
    }

    /// A running handler is about to block: its nested call, or a lock that sleeps.
    pub fn will_block(&mut self) -> Shortage {
        self.running = self.running.saturating_sub(1);
        self.blocked += 1;
        if self.idle > 0 || self.making > 0 {
            return Shortage::None;
        }
        if !self.is_at_max() {
            self.making += 1;
            return Shortage::Create;
        }
        self.refuse_if_stuck()
    }

    /// A blocked handler runs again.
    pub fn unblocked(&mut self) {
        self.blocked = self.blocked.saturating_sub(1);
        self.running += 1;
    }

    /// A handler has answered its request.
    pub fn finished(&mut self) -> Next {
        if self.queued > 0 {
            self.queued -= 1;
            return Next::Serve;
        }
        self.running = self.running.saturating_sub(1);
        if self.idle >= KEPT {
            return Next::Retire;
        }
        self.idle += 1;
        Next::Idle
    }

    /// A handler asked for is there; it starts with what this says.
    pub fn created(&mut self) -> Next {
        self.making = self.making.saturating_sub(1);
        self.running += 1;
        self.finished()
    }

    /// A handler asked for could not be made.
    pub fn failed(&mut self) -> Shortage {
        self.making = self.making.saturating_sub(1);
        self.refuse_if_stuck()
    }

    /// Threads, those in the making included.
    pub fn threads(&self) -> u16 {
        self.idle + self.running + self.blocked + self.making
    }

    /// Requests that wait for a handler.
    pub fn queued(&self) -> u16 {
        self.queued
    }

    /// Handlers waiting for work.
    pub fn idle(&self) -> u16 {
        self.idle
    }

    fn is_at_max(&self) -> bool {
        self.threads() >= self.max
    }

    /// Nobody is left who could ever take the queue on without another call ending first.
    fn refuse_if_stuck(&mut self) -> Shortage {
        if self.running + self.making + self.idle > 0 || self.queued == 0 {
            return Shortage::None;
        }
        Shortage::RefuseQueue(core::mem::take(&mut self.queued))
    }
}
