//! The requests to the process table as functions.
//!
//! Contract: an [`Ask`] carries a request to the service and returns its reply, after waiting if
//! the service parks the request. This module does not depend on how that happens.

use crate::name;
use abi::process::{self, End, Errno, Listed, NAME, Op, Reply, Request, flag, signal};
use abi::quota::Quota;
use alloc::vec;
use alloc::vec::Vec;
use zerocopy::FromBytes;

/// Sends a request with its bulk to the service and returns the reply.
pub type Ask<'a> = &'a mut dyn FnMut(Request, &mut [u8]) -> Reply;

pub type Result<T> = core::result::Result<T, Errno>;

/// A process to create.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spawn<'a> {
    /// Index of the kernel to run on.
    pub kernel: u16,
    /// 0: the system.
    pub parent: u32,
    /// 0: the parent's.
    pub group: u32,
    /// [`flag::NEW_GROUP`], [`flag::WATCHED`].
    pub flags: u16,
    /// [`abi::program::Begin`] and the data that follow it.
    pub beginning: &'a [u8],
}

impl Spawn<'_> {
    /// Returns the request, without the length of what is sent.
    fn request(&self) -> Request {
        let Spawn { kernel, parent, group, flags, .. } = *self;
        Request { kernel, parent, group, flags, ..Request::new(Op::Spawn) }
    }
}

/// A process that the calling kernel is to start itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    pub pid: u32,
    pub group: u32,
    pub quota: Quota,
}

/// What a kernel may have missed about a process while it started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    pub group: u32,
    /// The signal that is to end it.
    pub stop: Option<u16>,
}

/// A task that [`Client::next`] returns to a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Start a process; its start data are in the room that the caller gave.
    Begin {
        pid: u32,
        parent: u32,
        group: u32,
        quota: Quota,
        /// The life that watches it ([`process::pack_life`]); 0: none does.
        watcher: u32,
        /// Length of the start data.
        bytes: usize,
    },
    /// Stop a process.
    Stop { pid: u32, signal: u16 },
    /// A process has moved to another group.
    Group { pid: u32, group: u32 },
    /// A process is to move to this kernel.
    Move { pid: u32, kernel: u16 },
}

/// Resources that a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// CPU time in ns.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
    /// Number of requests to services.
    pub messages: u64,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub pid: u32,
    pub end: End,
    /// Exit code, signal or trap.
    pub status: u32,
    /// CPU time in ns.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
}

/// A running process that its kernel reports to a restarted table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Running<'a> {
    pub pid: u32,
    /// 0: the system.
    pub parent: u32,
    pub group: u32,
    /// Index of the kernel that reports it.
    pub kernel: u16,
    /// [`flag::WATCHED`], [`flag::KILLED`].
    pub flags: u16,
    /// The life that watches it ([`process::pack_life`]); 0 if that is not known.
    pub watcher: u32,
    /// Peak memory in bytes so far.
    pub memory: u64,
    pub quota: Quota,
    pub name: &'a [u8],
}

/// The requests as functions, over a callback that carries them.
pub struct Client<'a>(pub Ask<'a>);

fn number(pid: u32) -> Result<i32> {
    i32::try_from(pid).map_err(|_| Errno::Inval)
}

impl Client<'_> {
    fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply> {
        let reply = (self.0)(request, bulk);
        if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
    }

    fn sending(&mut self, request: Request, sent: &[u8]) -> Result<Reply> {
        let length = u32::try_from(sent.len()).map_err(|_| Errno::Toobig)?;
        self.ask(Request { length, ..request }, &mut sent.to_vec())
    }

    fn about_one(&mut self, request: Request, pid: u32) -> Result<Reply> {
        self.ask(Request { pid: number(pid)?, ..request }, &mut [])
    }

    /// Creates a process. Returns its number when it runs.
    pub fn spawn(&mut self, spawn: Spawn<'_>) -> Result<u32> {
        Ok(self.sending(spawn.request(), spawn.beginning)?.pid)
    }

    /// For a kernel: creates a process that it starts itself, with the name that it gives instead
    /// of start data.
    pub fn spawn_here(&mut self, spawn: Spawn<'_>, mut name: [u8; NAME]) -> Result<Started> {
        let (flags, length) = (spawn.flags | flag::HERE, name::text(&name).len() as u32);
        let reply = self.ask(Request { flags, length, ..spawn.request() }, &mut name)?;
        Ok(Started { pid: reply.pid, group: reply.group, quota: reply.quota() })
    }

    /// For a kernel: waits for its next task. `room` receives the start data of a process.
    pub fn next(&mut self, room: &mut [u8]) -> Result<News> {
        let reply = self.ask(Request::new(Op::Next), room)?;
        let (pid, bytes) = (reply.pid, reply.filled as usize);
        match u16::try_from(reply.kind).ok().and_then(process::News::from_code) {
            Some(process::News::Begin) => {
                let parent = u32::try_from(reply.value).map_err(|_| Errno::Io)?;
                let (group, quota, watcher) = (reply.group, reply.quota(), reply.status);
                Ok(News::Begin { pid, parent, group, quota, watcher, bytes })
            }
            Some(process::News::Stop) => {
                let signal = u16::try_from(reply.status).map_err(|_| Errno::Io)?;
                Ok(News::Stop { pid, signal })
            }
            Some(process::News::Group) => Ok(News::Group { pid, group: reply.group }),
            Some(process::News::Move) => {
                let kernel = u16::try_from(reply.status).map_err(|_| Errno::Io)?;
                Ok(News::Move { pid, kernel })
            }
            None => Err(Errno::Io),
        }
    }

    /// For a kernel: reports that the process runs, with the memory that it uses in bytes, or why
    /// it failed to start. If the process began a budget of `quota`, the table lowers it to that.
    /// Returns what the kernel may have missed meanwhile.
    pub fn begun(&mut self, pid: u32, quota: Quota, how: Result<u64>) -> Result<Missed> {
        let (status, memory) = match how {
            Ok(memory) => (0, memory),
            Err(error) => (error as u32, 0),
        };
        let request = Request { status, memory, ..Request::new(Op::Begun) };
        let reply = self.about_one(request.with_quota(quota), pid)?;
        let stop = u16::try_from(reply.status).ok().filter(|&signal| signal != signal::NONE);
        Ok(Missed { group: reply.group, stop })
    }

    /// For a kernel: reports how the process has ended, and what it has used.
    pub fn ended(&mut self, pid: u32, end: End, status: u32, used: Account) -> Result<()> {
        let Account { cpu, memory, messages } = used;
        let kind = end as u32;
        let request = Request { kind, status, cpu, memory, messages, ..Request::new(Op::Ended) };
        self.about_one(request, pid).map(|_| ())
    }

    /// For a kernel: reports what the process has used so far.
    pub fn account(&mut self, pid: u32, used: Account) -> Result<()> {
        let Account { cpu, memory, messages } = used;
        let request = Request { cpu, memory, messages, ..Request::new(Op::Account) };
        self.about_one(request, pid).map(|_| ())
    }

    /// Waits for a child to end; `pid` as in `waitpid`.
    pub fn wait(&mut self, parent: u32, pid: i32) -> Result<Ended> {
        self.waited(parent, pid, 0)?.ok_or(Errno::Io)
    }

    /// Returns a child that has ended, if there is one, without waiting.
    pub fn poll(&mut self, parent: u32, pid: i32) -> Result<Option<Ended>> {
        self.waited(parent, pid, flag::NO_HANG)
    }

    fn waited(&mut self, parent: u32, pid: i32, flags: u16) -> Result<Option<Ended>> {
        let request = Request { parent, pid, flags, ..Request::new(Op::Wait) };
        let Reply { pid, kind, status, cpu, memory, .. } = self.ask(request, &mut [])?;
        if pid == 0 {
            return Ok(None);
        }
        let end = u16::try_from(kind).ok().and_then(End::from_code).ok_or(Errno::Io)?;
        Ok(Some(Ended { pid, end, status, cpu, memory }))
    }

    /// Signals a process, a group (negative `pid`) or the caller's group (0). `asker` is the
    /// caller's number.
    pub fn kill(&mut self, asker: u32, pid: i32, signal: u16) -> Result<()> {
        let request = Request { parent: asker, pid, signal, ..Request::new(Op::Kill) };
        self.ask(request, &mut []).map(|_| ())
    }

    /// Moves `pid` to a kernel. Returns when it runs there. `asker` is the caller's number.
    pub fn move_to(&mut self, asker: u32, pid: u32, kernel: u16) -> Result<()> {
        let request = Request { parent: asker, kernel, ..Request::new(Op::Move) };
        self.about_one(request, pid).map(|_| ())
    }

    /// For a kernel: passes a process to the kernel that it is to move to, with its start data
    /// there. After an error the caller still runs it; [`Errno::Restarted`]: nothing is known of
    /// it, and neither may run it.
    pub fn depart(&mut self, pid: u32, kernel: u16, beginning: &[u8]) -> Result<()> {
        let request = Request { pid: number(pid)?, kernel, ..Request::new(Op::Depart) };
        self.sending(request, beginning).map(|_| ())
    }

    /// For a kernel: reports why a process that is to move cannot.
    pub fn stay(&mut self, pid: u32, why: Errno) -> Result<()> {
        let request = Request { status: why as u32, ..Request::new(Op::Stay) };
        self.about_one(request, pid).map(|_| ())
    }

    /// Returns whether the process exists.
    pub fn is_there(&mut self, pid: u32) -> Result<bool> {
        match self.kill(0, number(pid)?, signal::NONE) {
            Err(Errno::Srch) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Moves `pid` (0: the caller) to a group (0: its own). Returns the group.
    pub fn group(&mut self, asker: u32, pid: u32, group: u32) -> Result<u32> {
        let request = Request { parent: asker, group, ..Request::new(Op::Group) };
        Ok(self.about_one(request, pid)?.group)
    }

    pub fn about(&mut self, pid: u32) -> Result<Listed> {
        let mut room = [0; size_of::<Listed>()];
        self.ask(Request { pid: number(pid)?, ..Request::new(Op::About) }, &mut room)?;
        Listed::read_from_bytes(&room).map_err(|_| Errno::Io)
    }

    /// Lists at most `most` processes with numbers above `above`.
    pub fn list_some(&mut self, above: u32, most: usize) -> Result<Vec<Listed>> {
        let mut bulk = vec![0; most.saturating_mul(size_of::<Listed>())];
        let request = Request { pid: number(above)?, ..Request::new(Op::List) };
        let filled = self.ask(request, &mut bulk)?.filled as usize;
        let all = bulk.chunks_exact(size_of::<Listed>()).take(filled / size_of::<Listed>());
        Ok(all.filter_map(|bytes| Listed::read_from_bytes(bytes).ok()).collect())
    }

    /// Lists all processes. Processes that start or end meanwhile may be missing.
    pub fn list(&mut self) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        loop {
            let above = all.last().map_or(0, |listed: &Listed| listed.pid);
            let some = self.list_some(above, 32)?;
            match some.first() {
                Some(listed) if listed.pid > above => all.extend(some),
                _ => return Ok(all),
            }
        }
    }

    /// Counts the live processes of each of the first `counts.len()` kernels.
    pub fn load(&mut self, counts: &mut [u32]) -> Result<()> {
        let mut room = vec![0; size_of_val(counts)];
        let filled = self.ask(Request::new(Op::Load), &mut room)?.filled as usize;
        let came = room.get(..filled).unwrap_or_default().chunks_exact(size_of::<u32>());
        for (count, bytes) in counts.iter_mut().zip(came) {
            *count = <[u8; 4]>::try_from(bytes).map_or(0, u32::from_le_bytes);
        }
        Ok(())
    }

    /// Gives up waiting for a watched process.
    pub fn leave(&mut self, pid: u32) -> Result<()> {
        self.about_one(Request::new(Op::Leave), pid).map(|_| ())
    }

    /// For a kernel: reports a process that it runs to a restarted table.
    pub fn adopt(&mut self, running: Running<'_>) -> Result<()> {
        let Running { pid, parent, group, kernel, flags, watcher, memory, quota, name } = running;
        let (pid, status) = (number(pid)?, watcher);
        let request = Request { pid, parent, group, kernel, status, ..Request::new(Op::Adopt) };
        self.sending(Request { flags, memory, ..request }.with_quota(quota), name).map(|_| ())
    }

    /// For a kernel: reports to a restarted table that a child of the process `parent`, which this
    /// kernel runs, was lost with its kernel.
    pub fn adopt_lost(&mut self, pid: u32, parent: u32, group: u32, kernel: u16) -> Result<()> {
        let (pid, kind) = (number(pid)?, End::Lost as u32);
        let request = Request { pid, parent, group, kernel, kind, ..Request::new(Op::Adopt) };
        self.ask(request, &mut []).map(|_| ())
    }
}
