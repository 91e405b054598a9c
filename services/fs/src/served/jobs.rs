//! The jobs of one server: those waiting to be taken, and those not answered yet.
//!
//! Contract: a job is given out once. The server is woken when there is a job
//! ([`crate::vfs::listener`]). The kernel that last asked for a job is the server.

use super::Ask;
use crate::vfs::listener::Listener;
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
    /// The kernel that serves, once one has asked for a job.
    server: Option<(DomainId, Epoch)>,
    /// The server died or the file system was unmounted.
    is_gone: bool,
    listener: Listener,
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
            server: None,
            is_gone: false,
            listener: Listener::default(),
        }
    }

    /// Starts serving `number` from the kernel of `by`. The count continues, so no job number of
    /// the previous server is reused.
    pub fn renew(&mut self, number: u64, by: Token) {
        self.life = number << 56 | self.life & ((1 << 56) - 1);
        (self.server, self.is_gone) = (Some((by.kernel(), by.epoch())), false);
        self.listener.came();
    }

    /// Ends the service. A server that waits for a job is woken.
    pub fn end(&mut self, effects: &mut dyn Effects) {
        (self.server, self.is_gone) = (None, true);
        self.listener.dismiss(effects);
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

    /// Returns whether `by` is of another kernel, or another life of it, than the current server.
    pub fn is_another(&self, by: Token) -> bool {
        self.server.is_some_and(|server| server != (by.kernel(), by.epoch()))
    }

    /// Gives the next job to `by`, which is the server from now on. Without one, `by` waits.
    pub fn take(&mut self, by: Token, room: usize) -> Result<Option<Told<'_>>, Errno> {
        let server = (by.kernel(), by.epoch());
        (self.server, self.is_gone) = (Some(server), false);
        self.listener.came();
        let Some(number) = self.ahead.front().copied() else {
            self.listener.listens(by);
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
    pub fn finish(&mut self, by: Token, number: u64) -> Result<Pending, Errno> {
        let server = Some((by.kernel(), by.epoch()));
        if self.all.get(&number).is_none_or(|job| job.by != server) {
            return Err(Errno::Badf);
        }
        self.all.remove(&number).ok_or(Errno::Badf)
    }

    /// A kernel's life has ended. Returns whether it was the server.
    pub fn gone(&mut self, kernel: DomainId, epoch: Epoch) -> bool {
        self.deafen(|token| (token.kernel(), token.epoch()) == (kernel, epoch));
        let served = self.server == Some((kernel, epoch));
        if served {
            (self.server, self.is_gone) = (None, true);
        }
        served
    }

    /// Drops the waiting server if `which` holds for it.
    pub fn deafen(&mut self, which: impl Fn(Token) -> bool) {
        self.listener.deafen(which);
    }

    /// Wakes the waiting server if there is a job.
    pub fn call(&mut self, now: u64, effects: &mut dyn Effects) {
        if !self.ahead.is_empty() {
            self.listener.call(now, effects);
        }
    }
}
