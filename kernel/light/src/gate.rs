//! The gate: decides when light threads may run, on the kernel with the normal threads.
//!
//! ```text
//!            time (1), rest (2): Resume                       enter: Suspend
//!   Closed -----------------------------> Open -----------------------------> Closing
//!     ^                                    |                                     |
//!     +-- Stopped: the last light thread has ended --+-- Stopped, peer_rests (3) +
//!
//!   any --- end: End ---> Ending --- Stopped: no light thread is left ---> Over
//!   any --- peer_died ---> Over (lost)
//! ```
//! A normal thread **enters** before it uses the process's memory, in program code or in the kernel
//! on its behalf, and leaves when it waits. (1) None has been inside for a while, and a light
//! thread is runnable. (2) This kernel is about to rest. (3) Until then, threads that enter wait.
//!
//! A gate is used under one lock. No method waits; times are chip time in ns.
//!
//! # What the caller does
//! - A returned message is sent, without loss, and wakes the weak kernel if it rests; only a
//!   Suspend need not ([`Gate::peer_rests`]). Two threads may send theirs in either order.
//! - Before it sends a Resume, the process's memory is written back and unmapped here.
//! - After any call, threads that wait may have to ask [`Gate::may_run`] again, and [`Gate::due`]
//!   may have changed.
//! - A thread waits for its permission without a lock. It may leave meanwhile.
//! - Light threads are created by a call. [`Gate::end`] comes after the calls that are in progress.
//! - The memory of an ended process is freed when the gate is over.

use crate::message::{FromLight, Lights, Permission, Report, ToLight};
use crate::sequence::Sequence;
use crate::threads::{Place, Threads};

/// When the gate opens. Both bound the number of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delays {
    /// Time without a normal thread inside.
    pub quiet_ns: u64,
    /// Time after which a runnable light thread no longer waits for `quiet_ns`, only for a moment
    /// without a normal thread inside. Keeps threads that block often and briefly from starving it.
    pub patience_ns: u64,
}

/// The answer to a thread that enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Entry {
    /// Send this first.
    pub send: Option<ToLight>,
    /// Then wait until [`Gate::may_run`] no longer says Awaited.
    pub must_wait: bool,
}

/// Whether this kernel may rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Rest {
    /// It may, once this is sent.
    Ready(Option<ToLight>),
    /// A normal thread is inside, or an answer is awaited.
    NotYet,
}

/// How a gate has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// By [`Gate::end`]; no light thread is left.
    Ended,
    /// The weak kernel died, and the light threads with it. The process ends as lost.
    Lost,
}

/// A message that this protocol cannot have sent: the peer is at fault. The gate is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unexpected;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum GateState {
    Closed,
    Open,
    Closing,
    Ending,
    Over(End),
}

/// The gate of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    state: GateState,
    /// Number of the last message that was sent.
    seq: Sequence,
    /// Normal threads that have entered.
    inside: Threads,
    lights: Lights,
    /// Number of the newest report.
    reported: Sequence,
    /// When a thread last left. While `inside` is empty: since when it is.
    quiet_since: u64,
    /// Since when a runnable light thread waits at a closed gate.
    waiting_since: Option<u64>,
    delays: Delays,
}

impl Gate {
    /// Creates a closed gate, for a process whose first light thread is being created. The group
    /// begins with the same `first` number.
    pub const fn new(first: Sequence, delays: Delays) -> Gate {
        Gate {
            state: GateState::Closed,
            seq: first,
            inside: Threads::NONE,
            lights: Lights::Absent,
            reported: first,
            quiet_since: 0,
            waiting_since: None,
            delays,
        }
    }

    fn advance(&mut self, state: GateState) -> Sequence {
        self.state = state;
        self.seq = self.seq.next();
        self.seq
    }

    fn open(&mut self) -> ToLight {
        self.waiting_since = None;
        ToLight::Resume(self.advance(GateState::Open))
    }

    /// Reports that a normal thread wants to use the process's memory.
    pub fn enter(&mut self, thread: Place) -> Entry {
        self.inside.insert(thread);
        let must_suspend = self.state == GateState::Open;
        let send = must_suspend.then(|| ToLight::Suspend(self.advance(GateState::Closing)));
        Entry { send, must_wait: self.state == GateState::Closing }
    }

    /// Returns whether a normal thread that has entered may continue. One that has not gets no
    /// permission.
    pub fn may_run(&self, thread: Place) -> Permission {
        match self.state {
            GateState::Closed if self.inside.contains(thread) => Permission::Granted,
            GateState::Closed | GateState::Open | GateState::Closing => Permission::Awaited,
            GateState::Ending | GateState::Over(_) => Permission::Refused,
        }
    }

    /// Reports that a normal thread no longer uses the process's memory: it waits, or has ended,
    /// whether or not it had its permission.
    pub fn leave(&mut self, thread: Place, now: u64) {
        if self.inside.remove(thread) {
            self.quiet_since = now;
        }
    }

    /// Handles a message of the group.
    pub fn receive(&mut self, message: FromLight, now: u64) -> Result<(), Unexpected> {
        match message {
            FromLight::Stopped { seq, report } => self.acknowledged(seq, report, now),
            FromLight::Changed(report) => {
                self.report(report, now);
                Ok(())
            }
        }
    }

    /// Handles [`FromLight::Stopped`]. An old one only reports.
    pub fn acknowledged(
        &mut self,
        seq: Sequence,
        report: Report,
        now: u64,
    ) -> Result<(), Unexpected> {
        if seq.is_after(self.seq) {
            return Err(Unexpected);
        }
        if seq == self.seq {
            self.state = match self.state {
                GateState::Open | GateState::Closing => GateState::Closed,
                GateState::Ending if report.lights != Lights::Absent => return Err(Unexpected),
                GateState::Ending => GateState::Over(End::Ended),
                state => state,
            };
        }
        self.report(report, now);
        Ok(())
    }

    /// Returns whether the answer to a Suspend is awaited.
    pub fn is_closing(&self) -> bool {
        self.state == GateState::Closing
    }

    /// Reports that the weak kernel is RESTING, seen after the last Suspend was sent. So none of
    /// its threads is in program code, and before one returns there it handles the Suspend. It need
    /// not be woken, and its answer is not awaited.
    pub fn peer_rests(&mut self, now: u64) {
        if self.state == GateState::Closing {
            self.state = GateState::Closed;
            self.settle(now);
        }
    }

    /// Handles a report of what the light threads want.
    pub fn report(&mut self, report: Report, now: u64) {
        if report.number.is_after(self.reported) {
            self.reported = report.number;
            self.lights = report.lights;
        }
        self.settle(now);
    }

    /// Notes whether a light thread waits at the closed gate.
    fn settle(&mut self, now: u64) {
        let waits = self.state == GateState::Closed && self.lights == Lights::Runnable;
        self.waiting_since = waits.then(|| self.waiting_since.unwrap_or(now));
    }

    /// Returns when [`Gate::time`] has something to do.
    pub fn due(&self) -> Option<u64> {
        let waiting_since = self.waiting_since.filter(|_| self.inside.is_empty())?;
        let quiet = self.quiet_since.saturating_add(self.delays.quiet_ns);
        Some(quiet.min(waiting_since.saturating_add(self.delays.patience_ns)))
    }

    /// Opens the gate if it is time.
    #[must_use]
    pub fn time(&mut self, now: u64) -> Option<ToLight> {
        (self.state == GateState::Closed && self.due().is_some_and(|due| due <= now))
            .then(|| self.open())
    }

    /// Prepares a rest of this kernel: opens the gate, so that a light thread that becomes runnable
    /// meanwhile need not wake this kernel.
    pub fn rest(&mut self) -> Rest {
        match (self.state, self.lights) {
            _ if !self.inside.is_empty() => Rest::NotYet,
            (GateState::Closing | GateState::Ending, _) => Rest::NotYet,
            (GateState::Closed, Lights::Blocked | Lights::Runnable) => {
                Rest::Ready(Some(self.open()))
            }
            _ => Rest::Ready(None),
        }
    }

    /// Ends the process, in any state. Its normal threads get no further permission; they end
    /// without waiting for the light ones.
    #[must_use]
    pub fn end(&mut self) -> Option<ToLight> {
        if matches!(self.state, GateState::Ending | GateState::Over(_)) {
            return None;
        }
        self.waiting_since = None;
        Some(ToLight::End(self.advance(GateState::Ending)))
    }

    /// Reports that the weak kernel has died. No answer is awaited any longer.
    pub fn peer_died(&mut self) {
        self.waiting_since = None;
        if self.state != GateState::Over(End::Ended) {
            self.state = GateState::Over(End::Lost);
        }
    }

    /// Returns how the gate has ended. Then no light thread of the process is left.
    pub fn outcome(&self) -> Option<End> {
        match self.state {
            GateState::Over(end) => Some(end),
            _ => None,
        }
    }
}
