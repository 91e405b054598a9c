//! A file system whose nodes live elsewhere: each operation becomes a job, which somebody takes,
//! does and answers ([`abi::served`]).
//!
//! ```text
//!   asked --Stop::Wait--> a job: ahead --NextJob--> out --JobDone--> the asker's log, wakes it
//!   asked again, by the same: whatever is in its log is answered from there
//!   the VFS has the answer, or nobody wants it any more: the log is dropped
//! ```
//! Contract: a request is performed anew from its beginning each time that it waited, so what it
//! was told is kept for *it* and said again: a walk comes one job further each time whatever others
//! do, a change is done once, and who asks later hears what is true then. Nothing is kept beyond a
//! request. Who answers nonsense has answered [`Errno::Io`]; so has who is gone, and who does not
//! answer within [`DEADLINE`]. All tables are bounded.

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

/// Most who ask at a time; others wait.
pub const ASKERS: usize = 32;
/// Most answers that one request needs; a path with more names is too long.
pub const DEEP: usize = 128;
/// Most answers that are kept in all.
const ANSWERS: usize = 512;
/// Bytes that all of it may take.
pub const MEMORY: u64 = 384 * 1024;
/// When a job that was not answered has failed, in ns.
pub const DEADLINE: u64 = 5_000_000_000;
/// What who found no room waits for; jobs have larger numbers.
const ROOM: u64 = 0;

/// What is asked, without the times: those differ when it is asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ask {
    job: Job,
    bulk: Vec<u8>,
}

/// What a server found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// A number; which one, the task says.
    pub value: u64,
    /// Bytes.
    pub data: Vec<u8>,
}

/// What became of a job.
type Said = core::result::Result<Found, Errno>;

/// The file system.
#[derive(Debug)]
pub struct Served {
    /// What it is called among the served ones.
    number: u64,
    jobs: Jobs,
    logs: BTreeMap<Token, Vec<(Ask, Said)>>,
    /// Whose request this is, and when.
    asker: Token,
    now: u64,
    ready: Vec<u64>,
}

impl Served {
    /// Of the server `number`; the first job has a number of the service's `lives`.
    pub fn new(number: u64, lives: u32) -> Served {
        let (jobs, asker) = (Jobs::new(number, lives), Token::default());
        Served { number, jobs, logs: BTreeMap::new(), asker, now: 0, ready: Vec::new() }
    }

    /// What it is called.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Who asks what comes next, and when.
    pub fn begin(&mut self, asker: Token, now: u64) {
        (self.asker, self.now) = (asker, now);
    }

    /// These have their answer, or wait no more; true: somebody may come in their place.
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

    /// Wakes who serves, if there is anything to do.
    pub fn call(&mut self, now: u64, effects: &mut dyn Effects) {
        self.jobs.call(now, effects);
    }

    /// The next job for who serves from now on; `None`: it will be called.
    pub fn take(
        &mut self,
        by: Token,
        room: usize,
        afresh: bool,
    ) -> core::result::Result<Option<Told<'_>>, Errno> {
        if afresh || self.jobs.is_another(by) {
            // What was taken before is not being done: who knows how far it came?
            self.fail(|job| job.by.is_some());
        }
        self.jobs.take(by, room)
    }

    /// Is this one of its jobs?
    pub fn has(&self, number: u64) -> bool {
        self.jobs.has(number)
    }

    /// What became of a job.
    pub fn done(&mut self, by: Token, number: u64, said: Said) -> core::result::Result<(), Errno> {
        let job = self.jobs.finish(by, number)?;
        let sound = said.as_ref().map_or(Ok(()), |found| is_sound(&job.ask.job, found));
        self.keep(number, job, sound.and(said));
        sound.map_err(|_| Errno::Inval)
    }

    /// What the kernel of `by` serves from now on; nobody has anything of the last one any more.
    pub fn renew(&mut self, number: u64, by: Token) {
        self.forget(|_| true);
        self.number = number;
        self.jobs.renew(number, by);
    }

    /// It is not served any more, and who serves it is called to hear that. Nobody is number 0.
    pub fn end(&mut self, effects: &mut dyn Effects) {
        self.number = 0;
        self.jobs.end(effects);
        self.fail(|_| true);
    }

    /// A kernel's life has ended: nobody of it asks or serves any more; true: it served.
    pub fn gone(&mut self, kernel: DomainId, epoch: Epoch) -> bool {
        let theirs = |token: Token| (token.kernel(), token.epoch()) == (kernel, epoch);
        self.forget(theirs);
        let served = self.jobs.gone(kernel, epoch);
        if served {
            self.fail(|_| true);
        }
        served
    }

    /// Nobody of these listens any more.
    pub fn deafen(&mut self, who: impl Fn(Token) -> bool) {
        self.jobs.deafen(who);
    }

    /// These jobs have failed.
    fn fail(&mut self, which: impl Fn(&Pending) -> bool) {
        for (number, job) in self.jobs.extract(which) {
            self.keep(number, job, Err(Errno::Io));
        }
    }

    /// Keeps what became of a job for who asked, and wakes it.
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

    /// What became of this, or a wait for it.
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

    /// The same where there are names.
    fn named(&mut self, job: Job, name: &[u8], other: &[u8]) -> Result<Found> {
        let length = |text: &[u8]| u16::try_from(text.len()).map_err(|_| Errno::Nametoolong);
        let job = Job { name: length(name)?, other: length(other)?, ..job };
        if usize::from(job.other) > DATA {
            return Err(Errno::Nametoolong.into());
        }
        self.ask(job, &[name, other].concat())
    }

    /// What this request was told of a node already.
    fn told(&self, node: Node) -> Option<Stat> {
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
        if let Some(stat) = self.told(node) {
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
        while let Ok((head, behind)) = Dirent::read_from_prefix(rest) {
            let (name, behind) = behind.split_at_checked(head.name as usize).ok_or(Errno::Io)?;
            let kind = Kind::from_code(head.kind).ok_or(Errno::Io)?;
            let cookie = head.next.saturating_sub(1);
            if !each(Entry { cookie, name, node: head.node, kind }) {
                return Ok(false);
            }
            rest = behind;
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

    /// Nodes are the server's: one that was removed while it was open is gone.
    fn hold(&mut self, _node: Node) -> Result<()> {
        Ok(())
    }

    /// Generations are nothing that a server knows: it waits by itself.
    fn sync(&mut self, node: Node, data_only: bool, _behind: u64) -> Result<u64> {
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
