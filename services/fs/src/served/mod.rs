//! A file system that a server implements: each operation becomes a job, which the server takes and
//! answers ([`abi::served`]).
//!
//! ```text
//!   request --Stop::Wait--> job: ahead --NextJob--> taken --JobDone--> the caller's log; wakes it
//!   repeated by the same caller: operations in its log are answered from there
//!   the VFS has the reply, or the caller is gone: the log is dropped
//! ```
//! Contract: a request that waited is repeated from its start. So all answers that it received are
//! kept in a log of *that request* and given to it again: each repetition gets one job further
//! whatever others do, and a change is made once. Nothing is kept beyond a request, so a later one
//! sees the current state. A malformed answer, a dead server and no answer within [`DEADLINE`] are
//! [`Errno::Io`]. All tables are bounded.

mod answers;
mod jobs;

use crate::filesystem::{Entry, FileSystem, Kind, Make, Node, Result, Space, Stop, Times};
use abi::fs::{Dirent, Errno, Stat};
use abi::served::{DATA, Job, ROOT, Task, given};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use answers::{is_sound, stat_in};
use base::id::{DomainId, Epoch};
pub use jobs::{JOBS, Told};
use jobs::{Jobs, Pending};
use share::{Effects, Token};
use zerocopy::FromBytes;

/// Maximum number of requests at a time; others wait.
pub const ASKERS: usize = 32;
/// Maximum number of answers that one request may need; a path with more names is too long.
pub const DEEP: usize = 128;
/// Maximum number of answers kept in all logs.
const ANSWERS: usize = 320;
/// Maximum memory of such a file system, in bytes.
pub const MEMORY: u64 = 256 * 1024;
/// Time after which an unanswered job has failed, in ns.
pub const DEADLINE: u64 = 5_000_000_000;
/// Key of callers that wait for a free log or job. Job numbers are larger.
const ROOM: u64 = 0;

/// An operation, without its times: these differ when the request is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ask {
    job: Job,
    bulk: Vec<u8>,
}

/// An answer of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its meaning depends on the task.
    pub value: u64,
    pub data: Vec<u8>,
}

/// The result of a job.
type Said = core::result::Result<Found, Errno>;

/// A file system with a server.
#[derive(Debug)]
pub struct Served {
    /// Number of the server.
    number: u64,
    jobs: Jobs,
    logs: BTreeMap<Token, Vec<(Ask, Said)>>,
    /// The caller of the current request, and its time.
    asker: Token,
    now: u64,
    ready: Vec<u64>,
}

impl Served {
    /// Creates the file system of server `number`. Job numbers contain `lives`.
    pub fn new(number: u64, lives: u32) -> Served {
        let (jobs, asker) = (Jobs::new(number, lives), Token::default());
        Served { number, jobs, logs: BTreeMap::new(), asker, now: 0, ready: Vec::new() }
    }

    /// Returns the number of the server.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Sets the caller and the time of the operations that follow.
    pub fn begin(&mut self, asker: Token, now: u64) {
        (self.asker, self.now) = (asker, now);
    }

    /// Drops the logs and jobs of these callers. Returns whether there were any, so that others
    /// have room.
    pub fn forget(&mut self, whose: impl Fn(Token) -> bool) -> bool {
        let before = self.logs.len() + self.jobs.len();
        self.logs.retain(|token, _| !whose(*token));
        self.jobs.retain(|job| !whose(job.asker));
        let is_room = self.logs.len() + self.jobs.len() != before;
        if is_room {
            self.say_ready(ROOM);
        }
        is_room
    }

    /// Wakes servers if there are jobs.
    pub fn call(&mut self, now: u64, effects: &mut dyn Effects) {
        self.jobs.call(now, effects);
    }

    /// Gives the next job to `by`, whose kernel is a server from now on. `None`: it will be woken.
    /// With `afresh`, what its kernel had taken before fails.
    pub fn take(
        &mut self,
        by: Token,
        room: usize,
        afresh: bool,
        now: u64,
    ) -> core::result::Result<Option<Told<'_>>, Errno> {
        // Jobs that an earlier life of the kernel took may be half done.
        let is_lost = |(kernel, epoch)| kernel == by.kernel() && (afresh || epoch != by.epoch());
        self.fail(|job| job.by.is_some_and(is_lost));
        self.jobs.take(by, room, now)
    }

    pub fn has(&self, number: u64) -> bool {
        self.jobs.has(number)
    }

    /// Records the answer to a job for its caller.
    pub fn done(
        &mut self,
        by: Token,
        number: u64,
        said: Said,
        now: u64,
    ) -> core::result::Result<(), Errno> {
        let job = self.jobs.finish(by, number, now)?;
        let sound = said.as_ref().map_or(Ok(()), |found| is_sound(&job.ask.job, found));
        self.keep(number, job, sound.and(said));
        sound.map_err(|_| Errno::Inval)
    }

    /// Starts serving `number` from the kernel of `by`. All callers of the previous servers are
    /// forgotten.
    pub fn renew(&mut self, number: u64, by: Token) {
        self.forget(|_| true);
        self.number = number;
        self.jobs.renew(number, by);
    }

    /// Ends the service: pending jobs fail, and the waiting servers are woken. No server has number
    /// 0.
    pub fn end(&mut self, effects: &mut dyn Effects) {
        self.number = 0;
        self.jobs.end(effects);
        self.fail(|_| true);
    }

    /// A kernel's life has ended. Forgets its callers and fails the jobs that it took. If it was
    /// the last server, fails all jobs and returns true.
    pub fn gone(&mut self, kernel: DomainId, epoch: Epoch) -> bool {
        let theirs = |token: Token| (token.kernel(), token.epoch()) == (kernel, epoch);
        self.forget(theirs);
        let was_last = self.jobs.gone(kernel, epoch);
        self.fail(|job| was_last || job.by == Some((kernel, epoch)));
        was_last
    }

    /// Drops the waiting servers for which `which` holds. Returns whether another one has to be
    /// called.
    pub fn deafen(&mut self, which: impl Fn(Token) -> bool) -> bool {
        self.jobs.deafen(which)
    }

    /// Fails these jobs.
    fn fail(&mut self, which: impl Fn(&Pending) -> bool) {
        for (number, job) in self.jobs.extract(which) {
            self.keep(number, job, Err(Errno::Io));
        }
    }

    /// Records the result of a job in its caller's log and wakes the caller.
    fn keep(&mut self, number: u64, job: Pending, said: Said) {
        self.logs.entry(job.asker).or_default().push((job.ask, said));
        self.say_ready(number);
        self.say_ready(ROOM);
    }

    fn say_ready(&mut self, key: u64) {
        if !self.ready.contains(&key) {
            self.ready.push(key);
        }
    }

    /// Returns the result of this operation for the current request. Without one it creates a job,
    /// and waits.
    fn ask(&mut self, job: Job, bulk: &[u8]) -> Result<Found> {
        let plain = Job { now: 0, accessed: 0, modified: 0, ..job };
        let same = |ask: &Ask| ask.job == plain && ask.bulk == bulk;
        let log = self.logs.get(&self.asker);
        if let Some((_, said)) = log.and_then(|log| log.iter().find(|(ask, _)| same(ask))) {
            return said.clone().map_err(Stop::Failed);
        }
        let known = log.map_or(0, Vec::len);
        if let Some((number, since)) = self.jobs.find(self.asker, same) {
            if self.now <= since.saturating_add(DEADLINE) {
                return Err(Stop::Wait(number));
            }
            self.jobs.retain(|job| job.number != number);
            return Err(Errno::Io.into());
        }
        if !self.jobs.is_served() {
            return Err(Errno::Io.into());
        }
        if known >= DEEP {
            return Err(Errno::Nametoolong.into());
        }
        if self.jobs.len() >= JOBS || (known == 0 && self.logs.len() >= ASKERS) {
            return Err(Stop::Wait(ROOM));
        }
        if self.logs.values().map(Vec::len).sum::<usize>() >= ANSWERS {
            return Err(Errno::Nomem.into());
        }
        let mut copy = Vec::new();
        copy.try_reserve_exact(bulk.len()).map_err(|_| Errno::Nomem)?;
        copy.extend_from_slice(bulk);
        let ask = Ask { job: plain, bulk: copy };
        let number = self.jobs.push(self.asker, ask, job, self.now);
        Err(Stop::Wait(number))
    }

    /// The same for operations with names.
    fn named(&mut self, job: Job, name: &[u8], other: &[u8]) -> Result<Found> {
        let length = |text: &[u8]| u16::try_from(text.len()).map_err(|_| Errno::Nametoolong);
        let job = Job { name: length(name)?, other: length(other)?, ..job };
        if usize::from(job.other) > DATA {
            return Err(Errno::Nametoolong.into());
        }
        self.ask(job, &[name, other].concat())
    }

    /// Returns the metadata of a node, if this request has received them before.
    fn known_stat(&self, node: Node) -> Option<Stat> {
        let log = self.logs.get(&self.asker)?;
        let found = log.iter().filter_map(|(_, said)| stat_in(said.as_ref().ok()?));
        found.rev().find(|stat| stat.node == node)
    }
}

fn job(task: Task, node: Node) -> Job {
    Job { task: task as u16, node, ..Job::default() }
}

impl FileSystem for Served {
    fn root(&mut self) -> Node {
        ROOT
    }

    fn lookup(&mut self, directory: Node, name: &[u8]) -> Result<Node> {
        let found = self.named(job(Task::Lookup, directory), name, &[])?;
        Ok(stat_in(&found).ok_or(Errno::Io)?.node)
    }

    fn parent(&mut self, directory: Node) -> Result<Node> {
        Ok(self.ask(job(Task::Parent, directory), &[])?.value)
    }

    fn kind(&mut self, node: Node) -> Result<Kind> {
        if node == ROOT {
            return Ok(Kind::Directory);
        }
        let stat = self.stat(node)?;
        Ok(Kind::from_code(stat.kind).ok_or(Errno::Io)?)
    }

    fn stat(&mut self, node: Node) -> Result<Stat> {
        if let Some(stat) = self.known_stat(node) {
            return Ok(stat);
        }
        let found = self.ask(job(Task::Stat, node), &[])?;
        Ok(stat_in(&found).ok_or(Errno::Io)?)
    }

    fn read_link(&mut self, node: Node, into: &mut Vec<u8>) -> Result<()> {
        let found = self.ask(job(Task::ReadLink, node), &[])?;
        into.extend_from_slice(&found.data);
        Ok(())
    }

    fn list(
        &mut self,
        directory: Node,
        from: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<bool> {
        let list = Job { offset: from, length: DATA as u64, ..job(Task::List, directory) };
        let found = self.ask(list, &[])?;
        let mut rest = found.data.as_slice();
        while let Ok((head, tail)) = Dirent::read_from_prefix(rest) {
            let (name, tail) = tail.split_at_checked(head.name as usize).ok_or(Errno::Io)?;
            let kind = Kind::from_code(head.kind).ok_or(Errno::Io)?;
            let cookie = head.next.saturating_sub(1);
            if !each(Entry { cookie, name, node: head.node, kind }) {
                return Ok(false);
            }
            rest = tail;
        }
        Ok(found.value != 0)
    }

    fn read(&mut self, node: Node, offset: u64, into: &mut [u8]) -> Result<usize> {
        let length = into.len().min(DATA);
        let read = Job { offset, length: length as u64, ..job(Task::Read, node) };
        let found = self.ask(read, &[])?;
        for (to, from) in into.iter_mut().zip(&found.data) {
            *to = *from;
        }
        Ok(found.data.len().min(length))
    }

    fn write(&mut self, node: Node, offset: u64, from: &[u8], now: u64) -> Result<usize> {
        let data = from.get(..DATA).unwrap_or(from);
        let length = data.len() as u64;
        let write = Job { offset, length, now, ..job(Task::Write, node) };
        Ok(self.ask(write, data)?.value as usize)
    }

    fn set_size(&mut self, node: Node, size: u64, now: u64) -> Result<()> {
        self.ask(Job { length: size, now, ..job(Task::SetSize, node) }, &[]).map(|_| ())
    }

    fn allocate(&mut self, node: Node, offset: u64, length: u64, now: u64) -> Result<u64> {
        let allocate = Job { offset, length, now, ..job(Task::Allocate, node) };
        Ok(self.ask(allocate, &[])?.value)
    }

    fn set_times(&mut self, node: Node, times: Times, now: u64) -> Result<()> {
        let flag = |time: Option<u64>, flag: u16| if time.is_some() { flag } else { 0 };
        let flags = flag(times.accessed, given::ACCESSED) | flag(times.modified, given::MODIFIED);
        let (accessed, modified) =
            (times.accessed.unwrap_or_default(), times.modified.unwrap_or_default());
        let set = Job { flags, accessed, modified, now, ..job(Task::SetTimes, node) };
        self.ask(set, &[]).map(|_| ())
    }

    fn make(&mut self, directory: Node, name: &[u8], what: Make<'_>, now: u64) -> Result<Node> {
        let (kind, text): (_, &[u8]) = match what {
            Make::Directory => (Kind::Directory, &[]),
            Make::File => (Kind::File, &[]),
            Make::Link(text) => (Kind::Link, text),
        };
        let make = Job { flags: kind.code().into(), now, ..job(Task::Make, directory) };
        let found = self.named(make, name, text)?;
        Ok(stat_in(&found).ok_or(Errno::Io)?.node)
    }

    fn link(&mut self, directory: Node, name: &[u8], node: Node, now: u64) -> Result<()> {
        let link = Job { second: node, now, ..job(Task::Link, directory) };
        self.named(link, name, &[]).map(|_| ())
    }

    fn unlink(&mut self, directory: Node, name: &[u8], now: u64) -> Result<()> {
        self.named(Job { now, ..job(Task::Unlink, directory) }, name, &[]).map(|_| ())
    }

    fn rmdir(&mut self, directory: Node, name: &[u8], now: u64) -> Result<()> {
        self.named(Job { now, ..job(Task::Rmdir, directory) }, name, &[]).map(|_| ())
    }

    fn rename(&mut self, from: Node, name: &[u8], to: Node, new: &[u8], now: u64) -> Result<()> {
        let rename = Job { second: to, now, ..job(Task::Rename, from) };
        self.named(rename, name, new).map(|_| ())
    }

    /// The server owns the nodes: a file that is removed while open is gone.
    fn hold(&mut self, _node: Node) -> Result<()> {
        Ok(())
    }

    /// A server knows no generations: it finishes the sync before it answers.
    fn sync(&mut self, node: Node, data_only: bool, _generation: u64) -> Result<u64> {
        self.ask(Job { flags: data_only.into(), ..job(Task::Sync, node) }, &[]).map(|_| 0)
    }

    fn space(&mut self) -> Result<Space> {
        let found = self.ask(job(Task::Space, ROOT), &[])?;
        let free = found.data.first_chunk().map_or(0, |free| u64::from_le_bytes(*free));
        Ok(Space { total: found.value, free })
    }

    fn ready(&mut self) -> Option<u64> {
        self.ready.pop()
    }
}
