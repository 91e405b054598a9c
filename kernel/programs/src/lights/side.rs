//! One side of the turn of a process, without threads, memory and notices: what follows when a
//! thread enters or leaves, a notice arrives, time passes, or the kernel is about to rest. Pure; it
//! combines `kernel_light`'s gate or group with the place of the memory.
//!
//! ```text
//!   memory: Here --> Going --> Away --> Coming --> Here
//!             open, rest,     |  put_away   fetched
//!             begin_to_stop   +--------- decide: Fetch
//! ```
//! Contract: a side is used under one lock. A message that gives the turn away is sent when the
//! memory is Away. A thread is inside while the memory is Here, and this side has the turn.

use abi::light::{LightNotice, lights, notice};
use base::id::Epoch;
use kernel_light::{
    Delays, FromLight, Gate, Group, Lights, Permission, Place, Report, Rest, Sequence, ToLight,
};

/// When the gate opens (docs/design/light-threads.md).
const DELAYS: Delays = Delays { quiet_ns: 200_000, patience_ns: 20_000_000 };
/// Interval at which cores are interrupted while light threads must leave.
const LOOK_NS: u64 = 200_000;
/// Interval at which a side that awaits an answer looks whether the other kernel is stopped.
const ANSWER_NS: u64 = 20_000_000;
/// The number with which both sides begin.
const FIRST: u32 = 1;

/// Which side of the turn this kernel has.
#[derive(Debug)]
pub(super) enum Role {
    Strong(Gate),
    Weak(Group),
}

/// Where the memory is, and the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Here,
    Going,
    Away,
    Coming,
}

/// What a thread that waits for its turn does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Wait,
    Refused,
    Fetch,
    Inside,
}

pub struct Side {
    pub(super) role: Role,
    pub(super) memory: Memory,
    /// Light threads: all of this kernel, or those begun on the other one. Then threads of this
    /// kernel that are inside, and those that are or wait for it.
    pub(super) threads: u32,
    pub(super) inside: u32,
    pub(super) wanting: u32,
    /// The epoch of the other kernel; `None` until it has a light thread.
    pub(super) peer: Option<Epoch>,
    /// No thread enters any more.
    pub(super) is_over: bool,
    /// Its memory or descriptors could not be passed on: the process must end.
    pub(super) is_broken: bool,
    /// A light thread is being begun on the other kernel.
    pub(super) begins: bool,
    /// The gate opens at this time at the earliest.
    pub(super) not_before: u64,
    /// How a light thread has ended the program: the kind and the status.
    pub(super) ended: Option<(u32, u32)>,
}

/// What follows when a turn is passed on.
pub(super) struct Passing {
    /// To be sent when the memory is away.
    pub(super) message: Option<Message>,
    /// The memory is Going: the caller puts it away first.
    pub(super) goes: bool,
}

/// A message of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    To(ToLight),
    From(FromLight),
}

impl Message {
    pub(super) fn notice(self, pid: u32) -> LightNotice {
        let code = |lights| match lights {
            Lights::Absent => lights::ABSENT,
            Lights::Blocked => lights::BLOCKED,
            Lights::Runnable => lights::RUNNABLE,
        };
        let of_report = |kind, number, report: Report| LightNotice {
            pid,
            kind,
            number,
            report: report.number.0,
            value: code(report.lights),
            other: 0,
        };
        let to = |kind, Sequence(number)| LightNotice { pid, kind, number, ..Default::default() };
        match self {
            Message::To(ToLight::Resume(number)) => to(notice::RESUME, number),
            // The end of a process is a call, not a notice.
            Message::To(ToLight::Suspend(number) | ToLight::End(number)) => {
                to(notice::SUSPEND, number)
            }
            Message::From(FromLight::Stopped { seq, report }) => {
                of_report(notice::STOPPED, seq.0, report)
            }
            Message::From(FromLight::Changed(report)) => of_report(notice::CHANGED, 0, report),
        }
    }
}

/// Returns the report in a notice.
fn report_of(notice: &LightNotice) -> Report {
    let lights = match notice.value {
        lights::ABSENT => Lights::Absent,
        lights::BLOCKED => Lights::Blocked,
        _ => Lights::Runnable,
    };
    Report { number: Sequence(notice.report), lights }
}

impl Side {
    /// The side of the normal threads. The process begins there.
    pub(super) fn strong() -> Side {
        Side::new(Role::Strong(Gate::new(Sequence(FIRST), DELAYS)), Memory::Here, None)
    }

    /// The side of the light threads, of a process of this life of the other kernel.
    pub(super) fn weak(epoch: Epoch) -> Side {
        Side::new(Role::Weak(Group::new(Sequence(FIRST))), Memory::Away, Some(epoch))
    }

    fn new(role: Role, memory: Memory, peer: Option<Epoch>) -> Side {
        Side {
            role,
            memory,
            threads: 0,
            inside: 0,
            wanting: 0,
            peer,
            is_over: false,
            is_broken: false,
            begins: false,
            not_before: 0,
            ended: None,
        }
    }

    pub(super) fn is_weak(&self) -> bool {
        matches!(self.role, Role::Weak(_))
    }

    /// Returns whether a notice asks light threads to leave.
    pub(super) fn is_stopping(&self) -> bool {
        matches!(&self.role, Role::Weak(group) if group.is_stopping())
    }

    /// A thread wants to enter. Returns the message that is to be sent first.
    pub(super) fn ask(&mut self, thread: Place) -> Option<Message> {
        self.wanting += 1;
        let lights = self.lights();
        match &mut self.role {
            Role::Strong(gate) => gate.enter(thread).send.map(Message::To),
            Role::Weak(group) => group.changed(lights).map(Message::From),
        }
    }

    fn lights(&self) -> Lights {
        match (self.threads, self.wanting) {
            (0, _) => Lights::Absent,
            (_, 0) => Lights::Blocked,
            _ => Lights::Runnable,
        }
    }

    pub(super) fn decide(&mut self, thread: Place, is_over: bool) -> Next {
        let permission = match &self.role {
            _ if is_over || self.is_over || self.is_broken => Permission::Refused,
            Role::Strong(gate) => gate.may_run(thread),
            Role::Weak(group) => group.may_run(),
        };
        let next = match (permission, self.memory) {
            (Permission::Refused, _) => Next::Refused,
            (Permission::Granted, Memory::Here) => Next::Inside,
            (Permission::Granted, Memory::Away) => Next::Fetch,
            _ => Next::Wait,
        };
        if next == Next::Fetch {
            self.memory = Memory::Coming;
        }
        if next != Next::Wait {
            self.inside += 1;
        }
        next
    }

    /// A thread leaves. Returns whether there may be something to do now.
    pub(super) fn leave(&mut self, thread: Place, now: u64) -> bool {
        self.inside = self.inside.saturating_sub(1);
        self.wanting = self.wanting.saturating_sub(1);
        match &mut self.role {
            Role::Strong(gate) => {
                gate.leave(thread, now);
                gate.due().is_some()
            }
            Role::Weak(_) => self.inside == 0 && self.must_stop(),
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        matches!(&self.role, Role::Strong(gate) if gate.is_closing())
    }

    /// Returns whether light threads of this kernel must leave.
    pub(super) fn must_stop(&self) -> bool {
        let Role::Weak(group) = &self.role else { return false };
        group.is_stopping() || self.threads == 0 && group.may_run() == Permission::Granted
    }

    /// Handles a notice of the protocol.
    pub(super) fn hear(&mut self, notice: &LightNotice, now: u64) {
        let number = Sequence(notice.number);
        match (&mut self.role, notice.kind) {
            (Role::Strong(gate), notice::STOPPED) => {
                let message = FromLight::Stopped { seq: number, report: report_of(notice) };
                // One that answers nothing changes nothing.
                let _ = gate.receive(message, now);
            }
            (Role::Strong(gate), notice::CHANGED) => {
                let _ = gate.receive(FromLight::Changed(report_of(notice)), now);
            }
            // The answer comes from `stopped`.
            (Role::Weak(group), notice::SUSPEND) => drop(group.receive(ToLight::Suspend(number))),
            (Role::Weak(group), notice::RESUME) => drop(group.receive(ToLight::Resume(number))),
            _ => {}
        }
    }

    /// The memory leaves, unless it is away because no thread has fetched it in this turn. Returns
    /// whether the caller must put it away.
    pub(super) fn go(&mut self) -> bool {
        let goes = self.memory == Memory::Here;
        if goes {
            self.memory = Memory::Going;
        }
        goes
    }

    /// Returns whether no caller moves the memory.
    fn is_settled(&self) -> bool {
        self.memory == Memory::Here || self.memory == Memory::Away
    }

    /// Opens the gate if it is time.
    pub(super) fn open(&mut self, now: u64) -> Option<Passing> {
        let may_open = self.is_settled() && !self.is_over && !self.is_broken;
        if !may_open || now < self.not_before {
            return None;
        }
        let Role::Strong(gate) = &mut self.role else { return None };
        let message = Some(Message::To(gate.time(now)?));
        Some(Passing { message, goes: self.go() })
    }

    /// Returns whether the light threads have left, which must; the answer is [`Side::stopped`].
    pub(super) fn begin_to_stop(&mut self) -> Option<Passing> {
        let has_left = self.must_stop() && self.inside == 0 && self.is_settled();
        has_left.then(|| Passing { message: None, goes: self.go() })
    }

    /// Returns the answer, after the memory was put away. `None`: a turn has begun and ended
    /// meanwhile, so that must be done again; or it cannot be passed on.
    pub(super) fn stopped(&mut self) -> Option<Message> {
        if self.memory != Memory::Away || self.inside > 0 || self.is_broken {
            return None;
        }
        let lights = self.lights();
        let Role::Weak(group) = &mut self.role else { return None };
        let message = match group.is_stopping() {
            true => {
                // It goes into the answer.
                let _ = group.changed(lights);
                group.stopped()
            }
            false => group.changed(lights),
        };
        message.map(Message::From)
    }

    pub(super) fn due(&self, now: u64) -> Option<u64> {
        match &self.role {
            Role::Strong(gate) if gate.is_closing() => Some(now + ANSWER_NS),
            _ if self.is_over || self.is_broken => None,
            Role::Strong(gate) => gate.due().map(|due| match self.is_settled() {
                true => due.max(self.not_before),
                false => now + LOOK_NS,
            }),
            Role::Weak(_) => self.must_stop().then_some(now + LOOK_NS),
        }
    }

    /// Prepares a rest. `Err`: not yet. `Ok(None)`: nothing is to be done.
    pub(super) fn rest(&mut self) -> Result<Option<Passing>, ()> {
        if !self.is_settled() {
            return Err(());
        }
        let message = match &mut self.role {
            _ if self.is_over || self.is_broken => return Ok(None),
            Role::Strong(gate) => match gate.rest() {
                Rest::NotYet => return Err(()),
                Rest::Ready(None) => return Ok(None),
                Rest::Ready(Some(message)) => Some(Message::To(message)),
            },
            Role::Weak(_) if self.inside > 0 => return Err(()),
            Role::Weak(_) => None,
        };
        Ok(Some(Passing { message, goes: self.go() }))
    }

    pub(super) fn is_away(&self) -> bool {
        match &self.role {
            // What it keeps in its caches is of a turn that it has.
            Role::Strong(_) => true,
            Role::Weak(_) => self.memory == Memory::Away,
        }
    }
}

#[cfg(test)]
mod tests;
