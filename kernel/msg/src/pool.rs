//! Policy for the handler threads of one core: when to create one, when to retire one, and when the
//! out-of-memory handler answers a request. Pure: it takes events and returns what to do.
//!
//! Each request is handed to a handler, queued while some handler can run, or refused; a queued
//! request never depends on blocked handlers only. There are never more than `max` threads.
//!
//! **About to block** means about to wait for something that only the end of another call can
//! provide: a nested blockable call, a lock that sleeps, and also [`Busy`](crate::Busy). A handler
//! that spins in attend for a reply slot is runnable but cannot make progress, and the requests
//! queued after it may be the ones that it waits for (the simulator found that deadlock). Report
//! `will_block` before such a wait.
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
//!   gone                 creating <---- will_block with no handler idle
//! ```
//!
//! **Full**: the queue has no memory of its own; it counts requests in the caller's table of open
//! requests, which reply slots bound. When no handler can run and none can be created, the whole
//! queue is refused at once: the out-of-memory handler answers `NoMemory`.

/// Number of handlers that a core starts with and keeps.
pub const MIN_HANDLERS: u16 = 2;

/// What to do with a request that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// Wake an idle handler with it.
    Hand,
    /// Append it to the queue; the next handler that finishes takes it.
    Queue,
    /// Append it to the queue and create a handler; then report [`Pool::created`] or
    /// [`Pool::failed`].
    QueueAndCreate,
    /// Have the out-of-memory handler answer it with `NoMemory`.
    Refuse,
}

/// What to do when a handler is about to block, or could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shortage {
    /// Nothing.
    None,
    /// Create a handler; then report [`Pool::created`] or [`Pool::failed`].
    Create,
    /// Remove all requests from the queue, this many, and answer them with `NoMemory`.
    RefuseQueue(u16),
}

/// What a handler does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Serve the oldest request of the queue.
    Serve,
    /// Sleep until it is woken with a request.
    Idle,
    Retire,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    max: u16,
    idle: u16,
    running: u16,
    blocked: u16,
    creating: u16,
    queued: u16,
}

impl Pool {
    /// Starts with [`MIN_HANDLERS`] idle handlers, which the caller has created, and never has more
    /// than `max`.
    pub const fn new(max: u16) -> Pool {
        let max = if max < MIN_HANDLERS { MIN_HANDLERS } else { max };
        Pool { max, idle: MIN_HANDLERS, running: 0, blocked: 0, creating: 0, queued: 0 }
    }

    /// Reports that a blockable request has arrived.
    pub fn arrived(&mut self) -> Arrival {
        if self.idle > 0 {
            self.idle -= 1;
            self.running += 1;
            return Arrival::Hand;
        }
        if self.running == 0 && self.creating == 0 {
            if self.is_at_max() {
                return Arrival::Refuse;
            }
            self.creating += 1;
            self.queued += 1;
            return Arrival::QueueAndCreate;
        }
        self.queued += 1;
        Arrival::Queue
    }

    /// Reports that a running handler is about to block.
    pub fn will_block(&mut self) -> Shortage {
        self.running = self.running.saturating_sub(1);
        self.blocked += 1;
        if self.idle > 0 || self.creating > 0 {
            return Shortage::None;
        }
        if !self.is_at_max() {
            self.creating += 1;
            return Shortage::Create;
        }
        self.refuse_unless_served()
    }

    /// Reports that a blocked handler runs again.
    pub fn unblocked(&mut self) {
        self.blocked = self.blocked.saturating_sub(1);
        self.running += 1;
    }

    /// Reports that a handler has answered its request.
    pub fn finished(&mut self) -> Next {
        if self.queued > 0 {
            self.queued -= 1;
            return Next::Serve;
        }
        self.running = self.running.saturating_sub(1);
        if self.idle >= MIN_HANDLERS {
            return Next::Retire;
        }
        self.idle += 1;
        Next::Idle
    }

    /// Reports that a requested handler exists; returns what it starts with.
    pub fn created(&mut self) -> Next {
        self.creating = self.creating.saturating_sub(1);
        self.running += 1;
        self.finished()
    }

    /// Reports that a requested handler could not be created.
    pub fn failed(&mut self) -> Shortage {
        self.creating = self.creating.saturating_sub(1);
        self.refuse_unless_served()
    }

    /// Returns the number of threads, including those being created.
    pub fn threads(&self) -> u16 {
        self.idle + self.running + self.blocked + self.creating
    }

    /// Returns the number of requests that wait for a handler.
    pub fn queued(&self) -> u16 {
        self.queued
    }

    /// Returns the number of handlers that wait for work.
    pub fn idle(&self) -> u16 {
        self.idle
    }

    fn is_at_max(&self) -> bool {
        self.threads() >= self.max
    }

    /// Refuses the queue if no handler is left that could serve it before another call ends.
    fn refuse_unless_served(&mut self) -> Shortage {
        if self.running + self.creating + self.idle > 0 || self.queued == 0 {
            return Shortage::None;
        }
        Shortage::RefuseQueue(core::mem::take(&mut self.queued))
    }
}
