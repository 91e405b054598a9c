//! Jobs that wait to be taken or answered, and who serves.
//!
//! Contract: a job is given out once. Who serves is called when there is something to do
//! ([`crate::vfs::listener`]); who asked last is who serves.

use super::Ask;
use crate::vfs::listener::Listener;
use abi::fs::Errno;
use abi::served::Job;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
use share::{Effects, Token};

/// Most jobs at a time.
pub const JOBS: usize = 48;

/// A job that nobody has answered.
#[derive(Debug)]
pub(super) struct Pending {
    pub number: u64,
    pub asker: Token,
    pub ask: Ask,
    /// As it is told: with the times.
    full: Job,
    since: u64,
    /// Who took it.
    pub by: Option<(DomainId, Epoch)>,
}

/// A job, as who serves is told.
#[derive(Debug)]
pub struct Told<'a> {
    /// To answer with.
    pub number: u64,
    /// What is asked.
    pub job: &'a Job,
    /// Names and data.
    pub bulk: &'a [u8],
}

/// All of them.
#[derive(Debug)]
pub(super) struct Jobs {
    all: BTreeMap<u64, Pending>,
    ahead: VecDeque<u64>,
    life: u64,
    last: u32,
    /// Who serves, once somebody has come.
    server: Option<(DomainId, Epoch)>,
    /// It was there, and is no more.
    is_gone: bool,
    listener: Listener,
}

impl Jobs {
    /// Numbers of jobs are `[server:8 | lives:24 | count:32]`.
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

    /// Another number, which the kernel of `by` serves; jobs are counted on, so that none of the
    /// last one's is meant.
    pub fn renew(&mut self, number: u64, by: Token) {
        self.life = number << 56 | self.life & ((1 << 56) - 1);
        (self.server, self.is_gone) = (Some((by.kernel(), by.epoch())), false);
        self.listener.came();
    }

    /// Nobody serves any more; who listens is called.
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

    /// May somebody answer?
    pub fn is_served(&self) -> bool {
        !self.is_gone
    }

    /// The job by which somebody asks this, and since when.
    pub fn find(&self, asker: Token, same: impl Fn(&Ask) -> bool) -> Option<(u64, u64)> {
        let mut all = self.all.values();
        let found = all.find(|job| job.asker == asker && same(&job.ask))?;
        Some((found.number, found.since))
    }

    /// One more; what it is called.
    pub fn push(&mut self, asker: Token, ask: Ask, full: Job, since: u64) -> u64 {
        self.last = self.last.wrapping_add(1);
        let number = self.life | u64::from(self.last);
        self.all.insert(number, Pending { number, asker, ask, full, since, by: None });
        self.ahead.push_back(number);
        number
    }

    /// Drops others.
    pub fn retain(&mut self, which: impl Fn(&Pending) -> bool) {
        self.all.retain(|_, job| which(job));
        self.ahead.retain(|number| self.all.contains_key(number));
    }

    /// Takes these out.
    pub fn extract(&mut self, which: impl Fn(&Pending) -> bool) -> Vec<(u64, Pending)> {
        let chosen = self.all.iter().filter(|(_, job)| which(job)).map(|(number, _)| *number);
        let chosen: Vec<u64> = chosen.collect();
        self.ahead.retain(|number| !chosen.contains(number));
        chosen.into_iter().filter_map(|it| Some((it, self.all.remove(&it)?))).collect()
    }

    /// Does somebody else come to serve?
    pub fn is_another(&self, by: Token) -> bool {
        self.server.is_some_and(|server| server != (by.kernel(), by.epoch()))
    }

    /// The next one, for who serves from now on.
    pub fn take(&mut self, by: Token, room: usize) -> Result<Option<Told<'_>>, Errno> {
        let who = (by.kernel(), by.epoch());
        (self.server, self.is_gone) = (Some(who), false);
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
        job.by = Some(who);
        Ok(Some(Told { number, job: &job.full, bulk: &job.ask.bulk }))
    }

    /// A job that `by` took and has done.
    pub fn finish(&mut self, by: Token, number: u64) -> Result<Pending, Errno> {
        let who = Some((by.kernel(), by.epoch()));
        if self.all.get(&number).is_none_or(|job| job.by != who) {
            return Err(Errno::Badf);
        }
        self.all.remove(&number).ok_or(Errno::Badf)
    }

    /// A kernel's life has ended; true: it served.
    pub fn gone(&mut self, kernel: DomainId, epoch: Epoch) -> bool {
        self.deafen(|token| (token.kernel(), token.epoch()) == (kernel, epoch));
        let served = self.server == Some((kernel, epoch));
        if served {
            (self.server, self.is_gone) = (None, true);
        }
        served
    }

    /// Some do not listen any more.
    pub fn deafen(&mut self, who: impl Fn(Token) -> bool) {
        self.listener.deafen(who);
    }

    /// Calls who listens, if there is anything to do.
    pub fn call(&mut self, now: u64, effects: &mut dyn Effects) {
        if !self.ahead.is_empty() {
            self.listener.call(now, effects);
        }
    }
}
