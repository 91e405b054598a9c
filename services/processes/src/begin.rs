//! Starting processes: Spawn, the kernel's Next and Begun. After the table has lost its state:
//! Adopt.
//!
//! A kernel that starts a process itself (HERE) may fetch a task about it before the thread that
//! starts it has the reply. It ignores that task; Begun returns what it has missed.

use crate::name;
use crate::record::{Life, Record, Watch, is_number};
use crate::service::{
    BEGINNINGS, Call, Halt, Key, Processes, REQUESTED_BEGINNINGS, Result, SPAWNS, Spawning,
    TREE_BEGINNINGS,
};
use abi::boot::MAX_DOMAINS;
use abi::process::{End, Errno, News, Reply, State, flag, pack_life, signal, unpack_life};
use abi::quota::Quota;
use alloc::boxed::Box;
use alloc::vec::Vec;
use share::Token;

impl Processes {
    /// Spawn: records a process. Parks the caller until the process's kernel has started it, unless
    /// that is the caller's, which does so now.
    pub(crate) fn do_spawn(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let (token, request) = (call.token, call.request);
        let flags = call.flags(flag::NEW_GROUP | flag::WATCHED | flag::HERE)?;
        let group = self.group_of_new(call, flags)?;
        let (kernel, life) = (domain(request.kernel)?, Life::of(token));
        let (is_here, sent) = (flags & flag::HERE != 0, call.sent()?);
        if is_here && kernel != life.kernel {
            return Err(Errno::Inval.into());
        }
        let quota = self.records.get(request.parent).map_or(Quota::default(), |r| r.quota);
        if !self.records.has_room(quota) || !is_here && self.spawns.len() >= SPAWNS {
            return Err(Errno::Again.into());
        }
        let mut record = Record::new(kernel, request.parent, group, call.now);
        if is_here {
            record.name = name::padded(sent);
            (record.state, record.epoch) = (State::Starting, life.epoch);
        } else {
            record.name = name::of(sent);
            record.begin = self.kept(sent, quota.tree.owner)?;
        }
        record.asker = Some(token);
        if flags & flag::WATCHED != 0 {
            record.watch = Watch::By(life);
        }
        let pid = self.add(record, quota);
        if is_here {
            let record = self.records.get(pid).ok_or(Errno::Io)?;
            return Ok(started(pid, record));
        }
        self.spawns.insert(token, Spawning { pid, outcome: None });
        self.call(kernel, call.effects);
        Err(Halt::Wait)
    }

    /// Adds a requested process whose parent has this quota. Returns its number.
    fn add(&mut self, mut record: Record, quota: Quota) -> u32 {
        record.order = self.records.tick();
        let pid = self.records.fresh();
        record.quota = quota.of_child(pid);
        if record.group == 0 {
            record.group = pid;
        }
        self.records.insert(pid, record);
        pid
    }

    /// Returns the group of a new process; 0 if it is to have its own.
    fn group_of_new(&self, call: &Call<'_>, flags: u16) -> Result<u32> {
        let (parent, group) = (call.request.parent, call.request.group);
        let (is_new, is_watched) = (flags & flag::NEW_GROUP != 0, flags & flag::WATCHED != 0);
        if is_new && group != 0 || is_watched && parent != 0 {
            return Err(Errno::Inval.into());
        }
        let record = self.records.get(parent).filter(|record| !record.is_over());
        let of_parent = match (parent, record) {
            (0, _) => 0,
            (_, Some(record)) if record.doom.is_some() => return Err(Errno::Intr.into()),
            (_, record) => record.ok_or(Errno::Srch)?.group,
        };
        match group {
            0 if is_new => Ok(0),
            0 => Ok(of_parent),
            _ if !is_number(group) => Err(Errno::Inval.into()),
            _ if self.may_join(parent, group) => Ok(group),
            _ => Err(Errno::Perm.into()),
        }
    }

    /// Copies the start data, if they and all others that no kernel has fetched yet are within the
    /// limits. `tree` is that of the process that requests it, 0 for the system.
    pub(crate) fn kept(&self, beginning: &[u8], tree: u32) -> Result<Box<[u8]>> {
        let limits = [BEGINNINGS, REQUESTED_BEGINNINGS, TREE_BEGINNINGS];
        let checked = if tree == 0 { 1 } else { limits.len() };
        let kept = self.records.begin_bytes(tree);
        let mut pairs = kept.into_iter().zip(limits).take(checked);
        let is_over = pairs.any(|(kept, limit)| kept + beginning.len() > limit);
        let mut copy = Vec::new();
        if is_over || copy.try_reserve_exact(beginning.len()).is_err() {
            return Err(Errno::Nomem.into());
        }
        copy.extend_from_slice(beginning);
        Ok(copy.into_boxed_slice())
    }

    /// Spawn or Depart repeated after a wake: returns the outcome.
    pub(crate) fn spawned(&mut self, token: Token) -> Result<Reply> {
        let Spawning { pid, outcome } = *self.spawns.get(&token).ok_or(Errno::Restarted)?;
        let outcome = outcome.ok_or(Halt::Wait)?;
        self.spawns.remove(&token);
        outcome?;
        let epoch = self.records.get(pid).map_or(0, |record| record.epoch);
        Ok(Reply { pid, status: epoch.into(), ..Reply::default() })
    }

    /// Next: returns the oldest task of the calling kernel.
    pub(crate) fn do_next(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let life = Life::of(call.token);
        loop {
            let news = self.records.iter().filter_map(|(&pid, r)| Some((r.news(life)?, pid)));
            let (_, pid) = news.min().ok_or(Halt::Park(Key::Next(life.kernel)))?;
            match self.news(pid, life, call.bulk) {
                Ok(reply) => return Ok(reply),
                Err(error) => self.fail(pid, error, call.effects),
            }
        }
    }

    /// Returns the task that concerns `pid`, and marks it as fetched.
    fn news(
        &mut self,
        pid: u32,
        life: Life,
        bulk: &mut [u8],
    ) -> core::result::Result<Reply, Errno> {
        let record = self.records.get_mut(pid).ok_or(Errno::Srch)?;
        let group = record.group;
        if let Some(stop) = record.stop.take() {
            let (kind, status) = (News::Stop as u32, stop.signal.into());
            return Ok(Reply { pid, kind, status, ..Reply::default() });
        }
        if record.regrouped.take().is_some() {
            return Ok(Reply { pid, kind: News::Group as u32, group, ..Reply::default() });
        }
        if let Some(destination) = record.destination.as_mut()
            && destination.order.take().is_some()
        {
            let (kind, status) = (News::Move as u32, destination.kernel.into());
            return Ok(Reply { pid, kind, status, ..Reply::default() });
        }
        let bytes = record.begin.len();
        bulk.get_mut(..bytes).ok_or(Errno::Toobig)?.copy_from_slice(&record.begin);
        record.begin = Box::default();
        record.state = State::Starting;
        record.epoch = life.epoch;
        let status = match record.watch {
            Watch::By(life) => pack_life(life.kernel, life.epoch),
            Watch::Nobody | Watch::Somebody => 0,
        };
        Ok(Reply { status, filled: bytes as u32, ..started(pid, record) })
    }

    /// Begun: the kernel has started the process, or has failed to.
    pub(crate) fn do_begun(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let request = call.request;
        let (pid, record) = self.own(call)?;
        if record.state != State::Starting {
            return Err(Errno::Inval.into());
        }
        if request.status == Errno::Success as u32 {
            record.state = State::Running;
            record.memory = record.memory.max(request.memory);
            record.quota.lower_to(pid, request.quota());
            let (group, status) = (record.group, record.doom.unwrap_or(signal::NONE).into());
            self.moves_no_more(pid, None, call.effects);
            self.settle(pid, Ok(()), call.effects);
            return Ok(Reply { group, status, ..Reply::default() });
        }
        let code = u16::try_from(request.status).ok().and_then(Errno::from_code);
        self.fail(pid, code.unwrap_or(Errno::Io), call.effects);
        Ok(Reply::default())
    }

    /// Adopt: the kernel reports a process that it runs. Repeating it has no effect.
    pub(crate) fn do_adopt(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let (request, life) = (call.request, Life::of(call.token));
        match request.kind {
            0 => {}
            lost if lost == End::Lost as u32 => return self.adopt_lost(call),
            _ => return Err(Errno::Inval.into()),
        }
        let flags = call.flags(flag::WATCHED | flag::KILLED)?;
        let (pid, is_watched) = (call.pid()?, flags & flag::WATCHED != 0);
        let group = if request.group == 0 { pid } else { request.group };
        let numbers = is_number(pid) && is_number(group);
        let parent = request.parent == 0 || is_number(request.parent) && request.parent != pid;
        let here = domain(request.kernel)? == life.kernel;
        if !numbers || !parent || !here || is_watched && request.parent != 0 {
            return Err(Errno::Inval.into());
        }
        let name = name::padded(call.sent()?);
        if let Some(record) = self.records.get(pid) {
            let is_it = record.is_of(life) && !record.is_over();
            return if is_it { Ok(Reply::default()) } else { Err(Errno::Inval.into()) };
        }
        if self.records.is_full() {
            return Err(Errno::Again.into());
        }
        let is_orphan = self.records.get(request.parent).is_some_and(Record::is_over);
        let parent = if is_orphan { 0 } else { request.parent };
        let mut record = Record::new(life.kernel, parent, group, call.now);
        record.state = State::Running;
        record.epoch = life.epoch;
        let watcher = unpack_life(request.status).filter(|_| is_watched);
        let watcher = watcher.map(|(kernel, epoch)| Life { kernel, epoch });
        record.watch = match watcher {
            Some(watcher) => Watch::By(watcher),
            None if is_watched => Watch::Somebody,
            None => Watch::Nobody,
        };
        record.doom = (flags & flag::KILLED != 0).then_some(signal::KILL);
        record.memory = request.memory;
        record.quota = request.quota();
        record.name = name;
        self.records.insert(pid, record);
        if watcher.is_some_and(|watcher| self.is_over(watcher)) {
            self.abandon(pid, call.effects);
        }
        Ok(Reply::default())
    }

    /// Adopt of a child that was lost with its kernel: the kernel of its parent reports it. It has
    /// ended, and the parent may wait for it. Fails with `Srch` if the table does not know the
    /// parent (yet), and with `Inval` if it knows the child.
    fn adopt_lost(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let (request, pid) = (call.request, call.pid()?);
        let group = if request.group == 0 { pid } else { request.group };
        let kernel = domain(request.kernel)?;
        let parent = self.records.get(request.parent).filter(|record| !record.is_over());
        let parent = parent.ok_or(Errno::Srch)?;
        if !parent.is_of(Life::of(call.token)) {
            return Err(Errno::Perm.into());
        }
        if !is_number(pid) || !is_number(group) || self.records.get(pid).is_some() {
            return Err(Errno::Inval.into());
        }
        if self.records.is_full() {
            return Err(Errno::Again.into());
        }
        let quota = parent.quota.of_child(pid);
        let mut record = Record::new(kernel, request.parent, group, call.now);
        record.quota = quota;
        record.state = State::Ended;
        record.end = Some((End::Lost, 0));
        record.order = self.records.tick();
        record.name = name::padded(b"?");
        self.records.insert(pid, record);
        self.tell_watchers(pid, call.effects);
        Ok(Reply::default())
    }
}

/// Returns what a kernel needs to know to start a process, besides its start data and its watcher.
fn started(pid: u32, record: &Record) -> Reply {
    let (kind, status, group) = (News::Begin as u32, record.epoch.into(), record.group);
    let (value, [cpu, memory]) = (record.parent.into(), record.quota.words());
    Reply { pid, kind, status, group, value, cpu, memory, ..Reply::default() }
}

/// Returns the kernel's index, if there can be such a kernel.
pub(crate) fn domain(kernel: u16) -> Result<u8> {
    let number = u8::try_from(kernel).ok().filter(|&number| usize::from(number) < MAX_DOMAINS);
    number.ok_or(Errno::Inval.into())
}
