//! What the process table is asked, and what it answers: one table over all kernels.
//!
//! A request is 64 bytes, a reply 48; a new process's beginning ([`crate::program::Begin`]) and
//! lists lie in *bulk*, memory of the asker. Numbers of errors are WASI's (preview 1).
//!
//! ```text
//!   Spawn --> Waiting --Next--> Starting --Begun(0)--> Running --Ended--> Ended --Wait--> gone
//!    (the asker is parked)          |  Begun(error): Spawn answers it, nothing is left
//!                                   +--> its kernel is gone, or was told to stop it: Ended
//! ```
//!
//! | op | fields | bulk | answer |
//! | --- | --- | --- | --- |
//! | Spawn | kernel, parent, group (0: the parent's), [`flag`], length | in: beginning | `pid` |
//! | Next | | room for a beginning | [`News`] in `kind`; `pid`; what it brings |
//! | Begun | pid, status: an error or 0; memory | | |
//! | Ended | pid, kind ([`End`]), status, cpu, memory, messages | | |
//! | Account | pid, cpu, memory, messages | | |
//! | Wait | parent, pid (as `waitpid`), HANG_NOT | | `pid`, `kind`, `status`, cpu, memory |
//! | Kill | pid (negative: a group; 0: the parent's group), signal, parent: who asks, ANYBODY | | |
//! | Group | parent: who asks, pid (0: itself), group (0: its own) | | |
//! | About | pid | room for one [`Listed`] | one [`Listed`] |
//! | List | pid: list those above it | room | [`Listed`]s in bulk |
//! | Leave | pid | | nobody will wait for it |
//! | Adopt | pid, parent, group, kernel, memory, WATCHED, DOOMED, length | in: its name | |
//! | Load | | room for a u32 a kernel | how many processes each kernel has that have not ended |

use crate::codes::codes;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// What is asked.
    Op {
        /// A new process on a kernel. Answers when it runs there, or why it does not.
        Spawn = 1,
        /// A kernel asks what it is to do next; it waits for that.
        Next = 2,
        /// A kernel began what [`Op::Next`] gave it, or could not.
        Begun = 3,
        /// A process came to its end.
        Ended = 4,
        /// What a process has used so far.
        Account = 5,
        /// A child's end. The record goes with the answer.
        Wait = 6,
        /// A signal for a process or for a group.
        Kill = 7,
        /// Puts a process into a group.
        Group = 8,
        /// One process.
        About = 9,
        /// Processes in the order of their numbers.
        List = 10,
        /// Who watched a process does so no more.
        Leave = 11,
        /// A kernel tells a table that began anew of a process that it runs.
        Adopt = 12,
        /// How many processes there are on each kernel.
        Load = 13,
    }
}

codes! {
    /// How it went: WASI's numbers, and one of ours.
    Errno {
        /// Well.
        Success = 0,
        /// The beginning is too long.
        Toobig = 1,
        /// No such program, or not for this system.
        Acces = 2,
        /// All places for processes are taken; nothing has ended yet.
        Again = 6,
        /// A file that is handed over is none.
        Badf = 8,
        /// There is no such child.
        Child = 12,
        /// An address that is none.
        Fault = 21,
        /// The waiting was ended.
        Intr = 27,
        /// The request makes no sense.
        Inval = 28,
        /// The program could not be read.
        Io = 29,
        /// Too many files.
        Mfile = 33,
        /// No such program.
        Noent = 44,
        /// It is no program that runs here.
        Noexec = 45,
        /// No memory for it.
        Nomem = 48,
        /// Not made for this.
        Nosys = 52,
        /// Not allowed.
        Perm = 63,
        /// No such process.
        Srch = 71,
        /// A directory that its manifest names is not there.
        Notcapable = 76,
        /// The kernel that it was to run on is not there.
        Hostunreach = 23,
        /// The table began anew meanwhile. Programs see WASI's `stale`.
        Restarted = 256,
    }
}

impl Op {
    /// May a program ask this? The others are the kernels' own: what they run, and what becomes of
    /// it, only they say.
    pub const fn is_for_programs(self) -> bool {
        matches!(self, Op::Spawn | Op::Wait | Op::Kill | Op::Group | Op::About | Op::List)
    }
}

impl Errno {
    /// WASI's number.
    pub const fn wasi(self) -> u16 {
        match self {
            Errno::Restarted => 72,
            other => other as u16,
        }
    }
}

codes! {
    /// What [`Op::Next`] brings.
    News {
        /// A process to begin: `pid`, `parent` in `value`, its beginning in bulk.
        Begin = 1,
        /// A process to stop: `pid`, the signal in `status`.
        Stop = 2,
        /// A process is in another group: `pid`, `group`.
        Group = 3,
    }
}

codes! {
    /// How a process ended.
    End {
        /// It said so: `status` is its exit code.
        Exit = 1,
        /// A signal: `status` is its number.
        Signal = 2,
        /// A trap: `status` is [`crate::program::trap`].
        Trap = 3,
        /// Its kernel died.
        Lost = 4,
    }
}

codes! {
    /// Where a process is in its life.
    State {
        /// Its kernel has not heard of it.
        Waiting = 1,
        /// Its kernel loads it.
        Starting = 2,
        /// It runs, or waits for something.
        Running = 3,
        /// It ended, and nobody asked how.
        Ended = 4,
    }
}

/// Flags of requests. Those that an op does not know are refused.
pub mod flag {
    /// Spawn: in a group of its own, which has its number.
    pub const NEW_GROUP: u16 = 1;
    /// Spawn, Adopt: somebody who is no process asks for its end.
    pub const WATCHED: u16 = 1 << 1;
    /// Wait: answers `pid` 0 where it would wait.
    pub const HANG_NOT: u16 = 1 << 2;
    /// Adopt: it was told to end, and begins nobody any more.
    pub const DOOMED: u16 = 1 << 3;
    /// Kill: whoever it is. Without it: who asks, those that descend from it, and its group.
    pub const ANYBODY: u16 = 1 << 4;
}

/// Signals, as WASI numbers them.
pub mod signal {
    /// Nothing: is it there?
    pub const NONE: u16 = 0;
    /// The terminal is gone.
    pub const HUP: u16 = 1;
    /// From the keyboard.
    pub const INT: u16 = 2;
    /// Quit.
    pub const QUIT: u16 = 3;
    /// Abort.
    pub const ABRT: u16 = 6;
    /// At once.
    pub const KILL: u16 = 9;
    /// A pipe nobody reads.
    pub const PIPE: u16 = 13;
    /// Please end.
    pub const TERM: u16 = 15;
    /// The last one that there is.
    pub const LAST: u16 = 30;
    /// Those that end nobody who does not handle them (and nobody can): CHLD, CONT, URG, WINCH.
    pub const IGNORED: u32 = 1 << 16 | 1 << 17 | 1 << 22 | 1 << 27;
}

/// Most processes at one time, the ended ones that nobody asked about among them.
pub const PROCESSES: usize = 256;
/// Most bytes of a process's name.
pub const NAME: usize = 32;
/// Numbers of processes are below this.
pub const LAST_PID: u32 = 1 << 30;

/// A request.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Request {
    /// [`Op`].
    pub op: u16,
    /// [`flag`].
    pub flags: u16,
    /// Which kernel it is to run on.
    pub kernel: u16,
    /// [`signal`].
    pub signal: u16,
    /// Which process, or as the op says.
    pub pid: i32,
    /// Whose child; who asks. 0: the system.
    pub parent: u32,
    /// Of which group.
    pub group: u32,
    /// [`End`].
    pub kind: u32,
    /// Exit code, signal, trap; an [`Errno`].
    pub status: u32,
    /// Bytes of bulk that are sent.
    pub length: u32,
    /// Time on a core, in ns.
    pub cpu: u64,
    /// Most bytes of memory it had.
    pub memory: u64,
    /// Requests to services.
    pub messages: u64,
    /// 0.
    pub reserved: u64,
}

impl Request {
    /// All else is 0.
    pub fn new(op: Op) -> Request {
        Request { op: op as u16, ..Request::default() }
    }

    /// How much of a bulk of `bulk` bytes the table reads.
    pub fn sent(&self, bulk: usize) -> usize {
        match Op::from_code(self.op) {
            Some(Op::Spawn | Op::Adopt) => (self.length as usize).min(bulk),
            _ => 0,
        }
    }
}

/// A reply.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Reply {
    /// [`Errno`].
    pub error: u16,
    /// 0.
    pub reserved: u16,
    /// Which process.
    pub pid: u32,
    /// [`End`] or [`News`].
    pub kind: u32,
    /// Exit code, signal, trap.
    pub status: u32,
    /// Bytes at the beginning of bulk that were written.
    pub filled: u32,
    /// Its group.
    pub group: u32,
    /// Its parent.
    pub value: u64,
    /// Time on a core, in ns.
    pub cpu: u64,
    /// Most bytes of memory it had.
    pub memory: u64,
}

impl Reply {
    /// It went wrong.
    pub fn error(error: Errno) -> Reply {
        Reply { error: error as u16, ..Reply::default() }
    }

    /// How it went; a number that is none is [`Errno::Io`].
    pub fn errno(&self) -> Errno {
        Errno::from_code(self.error).unwrap_or(Errno::Io)
    }
}

/// One process, for people and for programs.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Listed {
    /// Its number.
    pub pid: u32,
    /// Its parent's; 0: the system.
    pub parent: u32,
    /// Its group.
    pub group: u32,
    /// Its kernel.
    pub kernel: u16,
    /// [`State`].
    pub state: u16,
    /// [`End`], once it ended.
    pub kind: u32,
    /// Exit code, signal, trap.
    pub status: u32,
    /// When it was asked for, in ns of the chip.
    pub began: u64,
    /// Time on a core, in ns, when its kernel last told: about once a second.
    pub cpu: u64,
    /// Most bytes of memory.
    pub memory: u64,
    /// Requests to services.
    pub messages: u64,
    /// Its name, NUL padded.
    pub name: [u8; NAME],
}

const _: () = assert!(size_of::<Request>() == 64 && align_of::<Request>() == 8);
const _: () = assert!(size_of::<Reply>() == 48 && align_of::<Reply>() == 8);
const _: () = assert!(size_of::<Listed>() == 88 && align_of::<Listed>() == 8);
