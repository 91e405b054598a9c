//! The group: the light threads of one process, on the weak kernel.
//!
//! ```text
//!                      Resume
//!            +------------------------> Allowed (1)
//!            |                          ^     |
//!            |                   Resume |     | Suspend
//!            |      Suspend             |     v
//!   Stopped -+------------------------> Stopping
//!    ^  ^                                |
//!    |  +---- stopped: Stopped ----------+
//!    +------- (1) the last thread has ended: Stopped
//!
//!   any --- End ---> Ending --- no thread is left: Stopped ---> Over
//!   any --- peer_died --------- no thread is left ------------> Over
//! ```
//! Light threads return to program code only in Allowed. A message with a number that is not newer
//! than the last one is ignored, so a Resume that a later Suspend has overtaken does nothing.
//!
//! A group is used under one lock. No method waits, and none needs the other kernel.
//!
//! # What the caller does
//! - It asks [`Group::may_run`] each time before a light thread returns to program code, with
//!   interrupts masked until it is there: after a dispatch, a kernel call, a fault, an interrupt.
//! - When a message makes it stop ([`Stop::Interrupt`]), or the kernel of the normal threads dies,
//!   it interrupts each core that executes program code of the process. It calls
//!   [`Group::stopped`] at a moment when none does. A thread in a kernel call, a fault or a wait is
//!   out of program code already.
//! - A core that waits for a page or a lock handles these messages meanwhile. A kernel that has
//!   rested handles all messages that have arrived before a thread returns to program code.
//! - It calls [`Group::changed`] when what the threads want has changed.
//! - A returned message is sent, without loss, and in any order.
//! - It drops a group that is over. A process is known by its number and the epoch of its kernel;
//!   an End for one without a group is answered by [`FromLight::without_group`].

use crate::message::{FromLight, Lights, Permission, Report, ToLight};
use crate::sequence::Sequence;

/// What follows from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Stop {
    /// Nothing: light threads may run, or the message was old.
    Nothing,
    /// Make the light threads leave program code, if any is there, then call [`Group::stopped`].
    Interrupt,
    /// Send this. No light thread is in program code.
    Answer(FromLight),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum GroupState {
    Stopped,
    Allowed,
    Stopping,
    /// Threads are ending. The answer is sent when none is left.
    Ending,
    /// The same, with no peer to answer.
    Orphaned,
    Over,
}

/// The light threads of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    state: GroupState,
    /// Number of the newest message.
    seq: Sequence,
    lights: Lights,
    /// The last report.
    sent: Report,
}

impl Group {
    /// Creates the group of a process whose gate began with `first`. It is stopped, and has no
    /// thread.
    pub const fn new(first: Sequence) -> Group {
        let lights = Lights::Absent;
        let sent = Report { number: first, lights };
        Group { state: GroupState::Stopped, seq: first, lights, sent }
    }

    fn next_report(&mut self) -> Report {
        self.sent = Report { number: self.sent.number.next(), lights: self.lights };
        self.sent
    }

    fn answer(&mut self, state: GroupState) -> FromLight {
        self.state = state;
        FromLight::Stopped { seq: self.seq, report: self.next_report() }
    }

    /// Handles a message of the gate.
    pub fn receive(&mut self, message: ToLight) -> Stop {
        match message {
            ToLight::Suspend(seq) => self.suspend(seq),
            ToLight::Resume(seq) => {
                self.resume(seq);
                Stop::Nothing
            }
            ToLight::End(seq) => self.end(seq),
        }
    }

    /// Takes the number of a message, if it is newer and the process still lives.
    fn is_news(&mut self, seq: Sequence) -> bool {
        let lives =
            !matches!(self.state, GroupState::Ending | GroupState::Orphaned | GroupState::Over);
        let is_news = lives && seq.is_after(self.seq);
        if is_news {
            self.seq = seq;
        }
        is_news
    }

    /// Handles [`ToLight::Suspend`].
    pub fn suspend(&mut self, seq: Sequence) -> Stop {
        if !self.is_news(seq) {
            return Stop::Nothing;
        }
        self.state = GroupState::Stopping;
        Stop::Interrupt
    }

    /// Handles [`ToLight::Resume`]. Threads that wait for permission ask again.
    pub fn resume(&mut self, seq: Sequence) {
        if self.is_news(seq) {
            self.state = GroupState::Allowed;
        }
    }

    /// Handles [`ToLight::End`]. Each light thread ends when it would return to program code.
    pub fn end(&mut self, seq: Sequence) -> Stop {
        if !self.is_news(seq) {
            return Stop::Nothing;
        }
        if self.lights == Lights::Absent {
            return Stop::Answer(self.answer(GroupState::Over));
        }
        self.state = GroupState::Ending;
        Stop::Interrupt
    }

    /// Reports that no light thread is in program code, after [`Stop::Interrupt`].
    #[must_use]
    pub fn stopped(&mut self) -> Option<FromLight> {
        (self.state == GroupState::Stopping).then(|| self.answer(GroupState::Stopped))
    }

    /// Returns whether light threads must leave program code.
    pub fn is_stopping(&self) -> bool {
        self.state == GroupState::Stopping
    }

    /// Returns whether a light thread may return to program code.
    pub fn may_run(&self) -> Permission {
        match self.state {
            GroupState::Allowed => Permission::Granted,
            GroupState::Stopped | GroupState::Stopping => Permission::Awaited,
            GroupState::Ending | GroupState::Orphaned | GroupState::Over => Permission::Refused,
        }
    }

    /// Reports what the light threads want now.
    #[must_use]
    pub fn changed(&mut self, lights: Lights) -> Option<FromLight> {
        self.lights = lights;
        let is_last = lights == Lights::Absent;
        match self.state {
            GroupState::Stopped if lights != self.sent.lights => {
                Some(FromLight::Changed(self.next_report()))
            }
            // Nothing is left that could run, so nothing needs to be suspended later.
            GroupState::Allowed if is_last => Some(self.answer(GroupState::Stopped)),
            GroupState::Ending if is_last => Some(self.answer(GroupState::Over)),
            GroupState::Orphaned if is_last => {
                self.state = GroupState::Over;
                None
            }
            _ => None,
        }
    }

    /// Reports that the kernel of the normal threads has died, and the process with it. The light
    /// threads must be interrupted; each one ends when it would return to program code.
    pub fn peer_died(&mut self) {
        let is_over = self.lights == Lights::Absent || self.state == GroupState::Over;
        self.state = if is_over { GroupState::Over } else { GroupState::Orphaned };
    }

    /// Returns whether the process has ended and no light thread is left.
    pub fn is_over(&self) -> bool {
        self.state == GroupState::Over
    }
}
