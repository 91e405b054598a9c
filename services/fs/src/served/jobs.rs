//! The jobs of one file system: those waiting to be taken, and those not answered yet.
//!
//! Contract: a job is given out once. A server is woken when there is a job
//! ([`crate::vfs::listener`]). Each kernel that asks for jobs is a server, until it dies.

use super::Ask;
use crate::vfs::listener::Listeners;
use abi::fs::Errno;
use abi::served::Job;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
use share::{Effects, Token};

/// Maximum number of jobs.
pub const JOBS: usize = 48;

/// A job without an answer.
#[derive(Debug)]
pub(super) struct Pending {
    pub number: u64,
    pub asker: Token,
    pub ask: Ask,
    /// The job as the server receives it: with the times, which `ask` omits.
    full: Job,
    since: u64,
    /// The kernel that took it.
    pub by: Option<(DomainId, Epoch)>,
}

/// A job as the server receives it.
#[derive(Debug)]
pub struct Told<'a> {
    /// To be sent with the answer.
    pub number: u64,
    pub job: &'a Job,
    pub bulk: &'a [u8],
}

#[derive(Debug)]
pub(super) struct Jobs {
    all: BTreeMap<u64, Pending>,
    ahead: VecDeque<u64>,
    life: u64,
    last: u32,
    /// The kernels that serve: those that have asked for a job and live.
    servers: Vec<(DomainId, Epoch)>,
    /// The last server died or the file system was unmounted.
    is_gone: bool,
    waiting: Listeners,
}

impl Jobs {
    /// Creates an empty table. A job number is `[server:8 | lives:24 | count:32]`.
    pub fn new(number: u64, lives: u32) -> Jobs {
        let (all, ahead) = (BTreeMap::new(), VecDeque::new());
        let life = number << 56 | u64::from(lives & 0xff_ffff) << 32;
        Jobs {
            all,
            ahead,
            life,
            last: 0,
            servers: Vec::new(),
            is_gone: false,
            waiting: Listeners::default(),
        }
    }

    /// Starts serving `number` from the kernel of `by`. The count continues, so no job number of
    /// the previous server is reused.
    pub fn renew(&mut self, number: u64, by: Token) {
        self.life = number << 56 | self.life & ((1 << 56) - 1);
        (self.servers, self.is_gone) = (Vec::from([life_of(by)]), false);
        self.waiting = Listeners::default();
    }

    /// Ends the service. Servers that wait for a job are woken.
    pub fn end(&mut self, effects: &mut dyn Effects) {
        (self.servers, self.is_gone) = (Vec::new(), true);
        self.waiting.dismiss(effects);
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn has(&self, number: u64) -> bool {
        self.all.contains_key(&number)
    }

    /// Returns false if jobs will not be answered any more. True also if no server has come yet.
    pub fn is_served(&self) -> bool {
        !self.is_gone
    }

    /// Returns the caller's job for which `same` holds, and when it was created.
    pub fn find(&self, asker: Token, same: impl Fn(&Ask) -> bool) -> Option<(u64, u64)> {
        let mut all = self.all.values();
        let found = all.find(|job| job.asker == asker && same(&job.ask))?;
        Some((found.number, found.since))
    }

    /// Adds a job and returns its number.
    pub fn push(&mut self, asker: Token, ask: Ask, full: Job, since: u64) -> u64 {
        self.last = self.last.wrapping_add(1);
        let number = self.life | u64::from(self.last);
        self.all.insert(number, Pending { number, asker, ask, full, since, by: None });
        self.ahead.push_back(number);
        number
    }

    /// Drops the jobs for which `which` does not hold.
    pub fn retain(&mut self, which: impl Fn(&Pending) -> bool) {
        self.all.retain(|_, job| which(job));
        self.ahead.retain(|number| self.all.contains_key(number));
    }

    /// Removes and returns the jobs for which `which` holds.
    pub fn extract(&mut self, which: impl Fn(&Pending) -> bool) -> Vec<(u64, Pending)> {
        let chosen = self.all.iter().filter(|(_, job)| which(job)).map(|(number, _)| *number);
        let chosen: Vec<u64> = chosen.collect();
        self.ahead.retain(|number| !chosen.contains(number));
        chosen.into_iter().filter_map(|it| Some((it, self.all.remove(&it)?))).collect()
    }

    /// Gives the next job to `by`, whose kernel is a server from now on. Without one, `by` waits.
    pub fn take(&mut self, by: Token, room: usize, now: u64) -> Result<Option<Told<'_>>, Errno> {
        let server = life_of(by);
        self.servers.retain(|(kernel, _)| *kernel != server.0);
        self.servers.push(server);
        self.is_gone = false;
        self.waiting.came(by, now);
        let Some(number) = self.ahead.front().copied() else {
            self.waiting.listens(by);
            return Ok(None);
        };
        let job = self.all.get_mut(&number).ok_or(Errno::Io)?;
        if size_of::<Job>() + job.ask.bulk.len() > room {
            return Err(Errno::Inval);
        }
        self.ahead.pop_front();
        job.by = Some(server);
        Ok(Some(Told { number, job: &job.full, bulk: &job.ask.bulk }))
    }

    /// Removes a job that `by` took and has answered.
    pub fn finish(&mut self, by: Token, number: u64, now: u64) -> Result<Pending, Errno> {
        if self.all.get(&number).is_none_or(|job| job.by != Some(life_of(by))) {
            return Err(Errno::Badf);
        }
        self.waiting.finished(by, now);
        self.all.remove(&number).ok_or(Errno::Badf)
    }

    /// A kernel's life has ended. Returns whether it was the last server.
    pub fn gone(&mut self, kernel: DomainId, epoch: Epoch) -> bool {
        self.deafen(|token| life_of(token) == (kernel, epoch));
        let before = self.servers.len();
        self.servers.retain(|server| *server != (kernel, epoch));
        let was_last = before > 0 && self.servers.is_empty();
        self.is_gone |= was_last;
        was_last
    }

    /// Drops the waiting servers for which `which` holds. Returns whether another one has to be
    /// called.
    pub fn deafen(&mut self, which: impl Fn(Token) -> bool) -> bool {
        self.waiting.deafen(which)
    }

    /// Wakes waiting servers if there are jobs.
    pub fn call(&mut self, now: u64, effects: &mut dyn Effects) {
        self.waiting.call(self.ahead.len(), now, effects);
    }
}

/// Returns the kernel of a caller and its epoch.
fn life_of(token: Token) -> (DomainId, Epoch) {
    (token.kernel(), token.epoch())
}
