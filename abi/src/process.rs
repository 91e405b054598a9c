//! Requests to the process table, and its replies. There is one table for all kernels.
//!
//! A request has 64 bytes, a reply 48. The start data of a new process ([`crate::program::Begin`])
//! and lists are in the *bulk*, a buffer of the caller. Error numbers are those of WASI preview 1.
//!
//! ```text
//!   Spawn --> Waiting --Next--> Starting --Begun(0)--> Running --Ended--> Ended --Wait--> gone
//!    (the caller waits)         ^   |  Begun(error): Spawn returns it; no record remains
//!   Spawn, HERE (does not wait) +   +--> its kernel died, or had to stop it: Ended
//!
//!   Running --Depart--> Waiting, at another kernel --Next--> Starting --Begun(0)--> Running there
//!                          \--> Begun(error), or that kernel died: Running where it was
//! ```
//!
//! | op | fields | bulk | reply |
//! | --- | --- | --- | --- |
//! | Spawn | kernel, parent, group (0: parent's), [`flag`], length | start data | `pid`, epoch |
//! | Spawn, HERE | the same | its name | as [`News::Begin`]; epoch |
//! | Next | | room for start data | [`News`] in `kind`; `pid`; see there |
//! | Begun | pid, status: an error or 0; memory; quota, lowered | | group, [`signal`] in `status` |
//! | Ended | pid, kind ([`End`]), status, cpu, memory, messages | | |
//! | Account | pid, cpu, memory, messages | | |
//! | Wait | parent, pid (as `waitpid`), NO_HANG | | `pid`, `kind`, `status`, cpu, memory |
//! | Kill | pid (negative: a group; 0: own group), signal, parent: the caller, ANY_PROCESS | | |
//! | Group | parent: the caller, pid (0: itself), group (0: its own) | | |
//! | About | pid | room for one [`Listed`] | one [`Listed`] |
//! | List | pid: only those above it | room | [`Listed`]s in bulk |
//! | Leave | pid | | |
//! | Adopt | pid, parent, group, kernel, memory, quota, flags, watcher, length | its name | |
//! | Adopt, kind Lost | pid, parent, group, kernel | | |
//! | Load | | room for a u32 per kernel | number of live processes of each kernel |
//! | Move | pid, kernel, parent: the caller, ANY_PROCESS | | |
//! | Depart | pid, kernel, length | start data for that kernel | `pid`, epoch |
//! | Stay | pid, status: an error | | |
//!
//! Where the table says quota, `cpu` and `messages` are the process's [`Quota`]. The epoch of the
//! process's kernel, and the life of a kernel that watches it ([`pack_life`], 0 if that is not
//! known), are in `status`.

use crate::codes::codes;
pub use crate::quota::PROCESSES;
use crate::quota::Quota;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// Operations. The table above has their fields.
    Op {
        /// Creates a process on a kernel. Returns when it runs there, or with the reason why it
        /// does not.
        Spawn = 1,
        /// Takes the next task of the calling kernel, waiting for one.
        Next = 2,
        /// Reports that the kernel has started a process that [`Op::Next`] or its own [`Op::Spawn`]
        /// gave it, or has failed to. Returns its group, and the signal that is to end it, if there
        /// is one: the kernel may have fetched those tasks before it knew the process.
        Begun = 3,
        /// Reports the end of a process.
        Ended = 4,
        /// Reports the resources that a process has used so far.
        Account = 5,
        /// Reaps a child that has ended: returns how it ended and removes the record.
        Wait = 6,
        /// Signals a process or a group.
        Kill = 7,
        /// Moves a process to a group.
        Group = 8,
        /// Describes one process.
        About = 9,
        /// Lists processes by ascending pid.
        List = 10,
        /// Gives up waiting for a process that was spawned as WATCHED.
        Leave = 11,
        /// Tells a restarted table of a process that the calling kernel runs; or of a child of such
        /// a process that was lost with its kernel.
        Adopt = 12,
        /// Counts the processes of each kernel.
        Load = 13,
        /// Moves a running process to another kernel. Returns when it runs there, or with the
        /// reason why it does not.
        Move = 14,
        /// Passes a process of the calling kernel to the one that it is to move to. Returns when it
        /// runs there; after an error the caller runs it, as before.
        Depart = 15,
        /// Reports why a process that is to move cannot.
        Stay = 16,
    }
}

codes! {
    /// Results: WASI's numbers, and one of ours.
    Errno {
        Success = 0,
        /// The start data are too long.
        Toobig = 1,
        /// There is no such program, or it was not installed for this board.
        Acces = 2,
        /// The process tree has as many processes as its quota allows, or the table is full.
        Again = 6,
        /// A file to pass on is not open.
        Badf = 8,
        Child = 12,
        /// It is on its way to another kernel.
        Busy = 10,
        /// A bad address.
        Fault = 21,
        /// The wait was interrupted.
        Intr = 27,
        /// The request is malformed.
        Inval = 28,
        Io = 29,
        Mfile = 33,
        /// No kernel has the platform that the program's manifest requires.
        Nodev = 43,
        /// The process tree has as many handles as its quota allows, or there are no more.
        Nfile = 41,
        Noent = 44,
        /// Not a program that this kernel can run.
        Noexec = 45,
        /// Out of memory.
        Nomem = 48,
        /// The operation is not supported.
        Nosys = 52,
        /// Its program cannot move while it runs.
        Notsup = 58,
        Perm = 63,
        Srch = 71,
        /// A directory that the manifest names does not exist, or the parent may not use it so.
        Notcapable = 76,
        /// The requested kernel is not running.
        Hostunreach = 23,
        /// The table was restarted meanwhile. Programs see WASI's `stale`.
        Restarted = 256,
    }
}

impl Op {
    /// Returns whether a program may send this. The others are reserved for kernels.
    pub const fn is_for_programs(self) -> bool {
        matches!(
            self,
            Op::Spawn | Op::Wait | Op::Kill | Op::Group | Op::About | Op::List | Op::Move
        )
    }
}

impl Errno {
    /// Returns the number that a program gets.
    pub const fn wasi(self) -> u16 {
        match self {
            Errno::Restarted => 72,
            other => other as u16,
        }
    }
}

codes! {
    /// Tasks that [`Op::Next`] returns.
    News {
        /// Start a process: `pid`, `parent` in `value`, its quota in `cpu` and `memory`, the life
        /// of its watcher in `status`, start data in the bulk.
        Begin = 1,
        /// Stop a process: `pid`, the signal in `status`.
        Stop = 2,
        /// A process has moved to another group: `pid`, `group`.
        Group = 3,
        /// A process is to move to another kernel: `pid`, the kernel in `status`. Answered by
        /// [`Op::Depart`] or [`Op::Stay`].
        Move = 4,
    }
}

codes! {
    /// How a process ended.
    End {
        /// It exited; `status` is its exit code.
        Exit = 1,
        /// It was killed by a signal; `status` is its number.
        Signal = 2,
        /// It trapped; `status` is one of [`crate::program::trap`].
        Trap = 3,
        /// Its kernel died.
        Lost = 4,
    }
}

codes! {
    /// States of a process; the diagram above has the transitions.
    State {
        /// Its kernel has not taken it yet.
        Waiting = 1,
        /// Its kernel is loading it.
        Starting = 2,
        /// It runs or is blocked.
        Running = 3,
        /// It has ended and has not been reaped.
        Ended = 4,
    }
}

/// Flags of requests. A flag that the operation does not define is refused.
pub mod flag {
    /// Spawn: in a new group with the pid as its number.
    pub const NEW_GROUP: u16 = 1;
    /// Spawn, Adopt: a kernel thread, not a process, will wait for it.
    pub const WATCHED: u16 = 1 << 1;
    /// Wait: return `pid` 0 instead of waiting.
    pub const NO_HANG: u16 = 1 << 2;
    /// Adopt: it has been killed and may not start processes.
    pub const KILLED: u16 = 1 << 3;
    /// Kill, Move: any process. Without it only the caller, its descendants and its group.
    pub const ANY_PROCESS: u16 = 1 << 4;
    /// Spawn: the caller's kernel starts it, and knows its start data.
    pub const HERE: u16 = 1 << 5;
}

/// Signals, WASI's numbers.
pub mod signal {
    /// No signal; tests whether the process exists.
    pub const NONE: u16 = 0;
    pub const HUP: u16 = 1;
    /// Interrupt from the keyboard.
    pub const INT: u16 = 2;
    pub const QUIT: u16 = 3;
    pub const ABRT: u16 = 6;
    /// Killed; cannot be handled.
    pub const KILL: u16 = 9;
    /// Write to a pipe without readers.
    pub const PIPE: u16 = 13;
    pub const TERM: u16 = 15;
    /// The highest signal.
    pub const LAST: u16 = 30;
    /// Bit mask of the signals that do not end a process: CHLD, CONT, URG, WINCH. (Programs cannot
    /// install handlers.)
    pub const IGNORED: u32 = 1 << 16 | 1 << 17 | 1 << 22 | 1 << 27;
}

/// Packs a kernel and its epoch, which is never 0. 0 is no life.
pub const fn pack_life(kernel: u8, epoch: u16) -> u32 {
    (kernel as u32) << 16 | epoch as u32
}

/// Undoes [`pack_life`]; `None` for 0 and what is no life.
pub const fn unpack_life(life: u32) -> Option<(u8, u16)> {
    let (kernel, epoch) = (life >> 16, life as u16);
    if kernel <= u8::MAX as u32 && epoch != 0 { Some((kernel as u8, epoch)) } else { None }
}

/// Maximum bytes of the name of a process.
pub const NAME: usize = 32;
/// Every pid is below this.
pub const LAST_PID: u32 = 1 << 30;

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Request {
    /// [`Op`].
    pub op: u16,
    /// [`flag`].
    pub flags: u16,
    /// Index of the kernel to run on.
    pub kernel: u16,
    /// [`signal`].
    pub signal: u16,
    /// A process; see the table of operations.
    pub pid: i32,
    /// The parent, or the caller. 0: the system.
    pub parent: u32,
    pub group: u32,
    /// [`End`].
    pub kind: u32,
    /// Exit code, signal or trap; or an [`Errno`].
    pub status: u32,
    /// Bytes of the bulk that are sent.
    pub length: u32,
    /// CPU time in ns.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
    /// Number of requests to services.
    pub messages: u64,
    /// Must be 0.
    pub reserved: u64,
}

impl Request {
    /// Leaves the other fields 0.
    pub fn new(op: Op) -> Request {
        Request { op: op as u16, ..Request::default() }
    }

    /// Returns the quota of a Begun or Adopt.
    pub fn quota(&self) -> Quota {
        Quota::of_words([self.cpu, self.messages])
    }

    /// Returns a Begun or Adopt with a quota.
    pub fn with_quota(self, quota: Quota) -> Request {
        let [cpu, messages] = quota.words();
        Request { cpu, messages, ..self }
    }

    /// Returns how many bytes of a bulk of `bulk` bytes the table reads.
    pub fn sent(&self, bulk: usize) -> usize {
        match Op::from_code(self.op) {
            Some(Op::Spawn | Op::Adopt | Op::Depart) => (self.length as usize).min(bulk),
            _ => 0,
        }
    }
}

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Reply {
    /// [`Errno`].
    pub error: u16,
    pub reserved: u16,
    pub pid: u32,
    /// [`End`] or [`News`].
    pub kind: u32,
    /// Exit code, signal or trap.
    pub status: u32,
    /// Bytes written at the start of the bulk.
    pub filled: u32,
    pub group: u32,
    /// The parent.
    pub value: u64,
    /// CPU time in ns.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
}

impl Reply {
    /// Leaves the other fields 0.
    pub fn error(error: Errno) -> Reply {
        Reply { error: error as u16, ..Reply::default() }
    }

    /// Returns the quota of a process that is to be started.
    pub fn quota(&self) -> Quota {
        Quota::of_words([self.cpu, self.memory])
    }

    /// An unknown number counts as [`Errno::Io`].
    pub fn errno(&self) -> Errno {
        Errno::from_code(self.error).unwrap_or(Errno::Io)
    }
}

/// A record of the process list.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Listed {
    pub pid: u32,
    /// 0: the system.
    pub parent: u32,
    pub group: u32,
    pub kernel: u16,
    /// [`State`].
    pub state: u16,
    /// [`End`], in state [`State::Ended`].
    pub kind: u32,
    /// Exit code, signal or trap.
    pub status: u32,
    /// Time of the Spawn request in ns of soc time.
    pub began: u64,
    /// CPU time in ns as its kernel last reported it, about once a second.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
    /// Number of requests to services.
    pub messages: u64,
    /// NUL padded.
    pub name: [u8; NAME],
}

const _: () = assert!(size_of::<Request>() == 64 && align_of::<Request>() == 8);
const _: () = assert!(size_of::<Reply>() == 48 && align_of::<Reply>() == 8);
const _: () = assert!(size_of::<Listed>() == 88 && align_of::<Listed>() == 8);
