//! The messages between a gate and its group.
//!
//! Both kernels may reorder and repeat them, but lose none as long as both live. The death of
//! either loses all that are on their way, and ends the process. A message names its process and
//! the epochs of both kernels; the transport drops one of an older epoch.

use crate::sequence::Sequence;

/// From the gate. The number rises with each message; the newest one is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToLight {
    /// Light threads must leave program code. Answered with [`FromLight::Stopped`].
    Suspend(Sequence),
    /// Light threads may run.
    Resume(Sequence),
    /// The process ends, and so do its light threads. Answered when none is left.
    End(Sequence),
}

/// From the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FromLight {
    /// No light thread is in program code, nor returns there before a newer [`ToLight::Resume`].
    /// `seq` is the newest number that the group has received: of a Suspend, of an End, or of a
    /// Resume that it returns because its last thread has ended.
    Stopped { seq: Sequence, report: Report },
    /// What the last report said has changed. Sent only while the light threads are stopped.
    Changed(Report),
}

impl FromLight {
    /// The answer to [`ToLight::End`] for a process that has no group here: none of its light
    /// threads was created, or the last one has ended.
    pub const fn without_group(seq: Sequence) -> FromLight {
        let report = Report { number: seq, lights: Lights::Absent };
        FromLight::Stopped { seq, report }
    }
}

/// What the light threads want, as of the message with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// Rises with each message of the group. An older report is ignored.
    pub number: Sequence,
    pub lights: Lights,
}

/// What the light threads of a process want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lights {
    /// There is none.
    Absent,
    /// All of them are blocked, or in a kernel call or a fault.
    Blocked,
    /// At least one would execute program code if it were allowed to.
    Runnable,
}

/// Whether a thread may return to program code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    Granted,
    /// Not yet. Ask again after the next message.
    Awaited,
    /// Never again: the process has ended or is lost, and the thread must end.
    Refused,
}
