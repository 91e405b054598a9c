//! The gate: decides when light threads may run, on the kernel with the normal threads.
//!
//! ```text
//!            time (1), rest (2): Resume             before_dispatch: Suspend
//!   Closed -----------------------------> Open -----------------------------> Closing
//!     ^                                    |                                     |
//!     +-- Stopped: the last light thread has ended --+-- Stopped, peer_rests (3) +
//!
//!   any --- end: End ---> Ending --- Stopped: no light thread is left ---> Over
//!   any --- peer_died ---> Over (lost)
//! ```
//! Normal threads execute program code only in Closed. (1) No normal thread has been on a core for
//! a while, and a light thread is runnable. (2) This kernel is about to rest. (3) Until then, cores
//! that have dispatched a normal thread wait.
//!
//! A gate is used under one lock, the scheduler's. No method waits; times are chip time in ns.
//!
//! # What the caller does
//! - A returned message is sent, without loss, and wakes the weak kernel if it rests; only a
//!   Suspend need not ([`Gate::peer_rests`]). Two cores may send theirs in either order.
//! - After any call, other cores that wait may have to ask [`Gate::may_run`] again, and
//!   [`Gate::due`] may have changed.
//! - A core waits for its permission through attend: interrupts enabled, no lock held, serving all
//!   other messages and page requests. The thread may leave the core meanwhile.
//! - Light threads are created by a call. [`Gate::end`] comes after the calls that are in progress.
//! - The memory of an ended process is freed when the gate is over.

use base::id::CoreId;

use crate::cores::Cores;
use crate::message::{FromLight, Lights, Permission, Report, ToLight};
use crate::sequence::Sequence;

/// When the gate opens. Both bound the number of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delays {
    /// Time without a normal thread on a core.
    pub quiet_ns: u64,
    /// Time after which a runnable light thread no longer waits for `quiet_ns`, only for a moment
    /// without a normal thread. Keeps threads that block often and briefly from starving it.
    pub patience_ns: u64,
}

/// The answer to a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Dispatch {
    /// Send this before the switch.
    pub send: Option<ToLight>,
    /// After the switch, wait until [`Gate::may_run`] no longer says Awaited.
    pub must_wait: bool,
}

/// Whether this kernel may rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Rest {
    /// It may, once this is sent.
    Ready(Option<ToLight>),
    /// A normal thread is on a core, or an answer is awaited.
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
    /// Cores on which a normal thread is dispatched.
    cores: Cores,
    lights: Lights,
    /// Number of the newest report.
    reported: Sequence,
    /// When a core was last left. While `cores` is empty: since when it is.
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
            cores: Cores::NONE,
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

    /// Reports that a normal thread of the process is about to run on `core`.
    pub fn before_dispatch(&mut self, core: CoreId) -> Dispatch {
        self.cores.insert(core);
        let must_suspend = self.state == GateState::Open;
        let send = must_suspend.then(|| ToLight::Suspend(self.advance(GateState::Closing)));
        Dispatch { send, must_wait: self.state == GateState::Closing }
    }

    /// Returns whether the normal thread on `core` may return to program code. Asked after each
    /// dispatch. A core without a dispatched thread gets no permission.
    pub fn may_run(&self, core: CoreId) -> Permission {
        match self.state {
            GateState::Closed if self.cores.contains(core) => Permission::Granted,
            GateState::Closed | GateState::Open | GateState::Closing => Permission::Awaited,
            GateState::Ending | GateState::Over(_) => Permission::Refused,
        }
    }

    /// Reports that no normal thread of the process is on `core` any longer: it has blocked, has
    /// been preempted, or has ended, whether or not it had its permission.
    pub fn left(&mut self, core: CoreId, now: u64) {
        if self.cores.remove(core) {
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
        let waiting_since = self.waiting_since.filter(|_| self.cores.is_empty())?;
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
            _ if !self.cores.is_empty() => Rest::NotYet,
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
