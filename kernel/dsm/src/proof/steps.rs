//! The states of a domain in the model, and the model's steps.

/// The state of a domain according to the chip page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Runs,
    /// It has left, but the chip page still says that it runs.
    Left,
    Slept,
    /// The chip page says that it runs, but it has not started yet.
    Waking,
    Dead,
}

impl Status {
    /// Returns whether the chip page says that the domain runs.
    pub fn is_up(self) -> bool {
        matches!(self, Status::Runs | Status::Left | Status::Waking)
    }
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A core continues: executes, faults, resets, ends a transfer, leaves.
    Run(usize, usize),
    /// A core executes an access that only a stale TLB entry allows.
    Stale(usize, usize),
    Deliver(usize, usize),
    /// A message arrives and takes the fast path.
    DeliverFast(usize, usize),
    /// A shootdown ends.
    Unmapped(usize, usize),
    /// The shootdown of all pages ends.
    AllUnmapped(usize),
    /// Hold times expire.
    Expire(usize),
    /// A dirty line is written back.
    Evict(usize, u32),
    /// A domain reads the chip page.
    Learn(usize),
    /// A domain that left returns and continues its program.
    Wake(usize),
    /// The chip page says that a domain that has left is asleep.
    Publish(usize),
    /// A domain that the chip page says runs starts again.
    Start(usize),
    /// A domain dies; its unread messages are lost or not.
    Kill(usize, bool),
    /// It returns in a new epoch and runs its program once more.
    Restart(usize),
    /// A domain hangs.
    Hang(usize),
    /// Nothing else happens any more, and a waiting core's report leads to this domain, which is
    /// reset.
    Reset(usize),
}
