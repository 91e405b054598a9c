//! What follows when a process ends, a caller gives up or a kernel dies.
//!
//! ```text
//!   a process ends --> its children get parent 0; those that have ended are removed
//!         |            a caller still parked in its Spawn gets the outcome
//!         +--> a parent or watcher will wait for its end: the record stays, waiters are woken
//!         +--> otherwise the record is removed
//! ```

use crate::record::{Life, Record, Watch};
use crate::service::{Call, Key, Processes, Result};
use abi::process::{End, Errno, Reply, State, signal};
use alloc::boxed::Box;
use base::id::{DomainId, Epoch};
use share::Effects;

impl Processes {
    /// Ended: the kernel reports how the process ended.
    pub(crate) fn do_ended(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let request = call.request;
        let code = u16::try_from(request.kind).map_err(|_| Errno::Inval)?;
        let end = End::from_code(code).ok_or(Errno::Inval)?;
        let (pid, record) = self.own(call)?;
        record.account(request.cpu, request.memory, request.messages);
        self.end(pid, end, request.status, call.effects);
        Ok(Reply::default())
    }

    /// Leave: the watcher will not wait for the process any more.
    pub(crate) fn do_leave(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let pid = call.pid()?;
        let record = self.records.get(pid).ok_or(Errno::Srch)?;
        if record.watch == Watch::Nobody {
            return Err(Errno::Inval.into());
        }
        self.orphan(pid, call.effects);
        Ok(Reply::default())
    }

    /// Returns the process that the request is about, if the calling kernel runs it.
    pub(crate) fn own(&mut self, call: &Call<'_>) -> Result<(u32, &mut Record)> {
        let pid = call.pid()?;
        let record = self.records.get_mut(pid).ok_or(Errno::Srch)?;
        if !record.is_of(Life::of(call.token)) {
            return Err(Errno::Perm.into());
        }
        if record.is_over() {
            return Err(Errno::Inval.into());
        }
        Ok((pid, record))
    }

    /// Returns the key under which callers wait for the end of a process.
    fn key(pid: u32, record: &Record) -> Key {
        if record.parent == 0 { Key::Watched(pid) } else { Key::Child(record.parent) }
    }

    /// Wakes the callers that wait for `pid` to end, because its record has changed.
    pub(crate) fn tell_watchers(&mut self, pid: u32, effects: &mut dyn Effects) {
        if let Some(record) = self.records.get(pid) {
            let key = Self::key(pid, record);
            self.parked.wake(key, effects);
        }
    }

    /// Returns whether a parent or a watcher will ask for the end.
    fn has_watcher(&self, record: &Record) -> bool {
        match record.parent {
            0 => record.watch != Watch::Nobody,
            parent => self.records.get(parent).is_some_and(|parent| !parent.is_over()),
        }
    }

    /// Marks the process as ended, and removes the record if no caller will ask for it.
    pub(crate) fn end(&mut self, pid: u32, end: End, status: u32, effects: &mut dyn Effects) {
        let order = self.records.tick();
        let Some(record) = self.records.get_mut(pid) else { return };
        record.state = State::Ended;
        record.end = Some((end, status));
        record.order = order;
        record.stop = None;
        record.begin = Box::default();
        self.moves_no_more(pid, None, effects);
        self.settle(pid, Ok(()), effects);
        self.leave_children(pid, effects);
        if self.records.get(pid).is_some_and(|record| self.has_watcher(record)) {
            self.tell_watchers(pid, effects);
        } else {
            self.records.remove(pid);
        }
    }

    /// Handles a process that failed to start: the caller of Spawn or Depart gets the error. One
    /// that moves is given back; the record of another is removed.
    pub(crate) fn fail(&mut self, pid: u32, error: Errno, effects: &mut dyn Effects) {
        if self.give_back(pid, error, effects) {
            return;
        }
        self.settle(pid, Err(error), effects);
        self.remove(pid, effects);
    }

    /// Removes the record. Waiters are woken, because they may have nothing left to wait for.
    pub(crate) fn remove(&mut self, pid: u32, effects: &mut dyn Effects) {
        self.leave_children(pid, effects);
        self.tell_watchers(pid, effects);
        self.records.remove(pid);
    }

    /// Records the outcome for the caller of Spawn or Depart and wakes it.
    pub(crate) fn settle(
        &mut self,
        pid: u32,
        outcome: core::result::Result<(), Errno>,
        effects: &mut dyn Effects,
    ) {
        let Some(record) = self.records.get_mut(pid) else { return };
        let Some(token) = record.asker.take() else { return };
        // A kernel that starts the process itself is not there.
        if let Some(spawning) = self.spawns.get_mut(&token).filter(|it| it.pid == pid) {
            spawning.outcome = Some(outcome);
            effects.wake(token);
        }
    }

    /// Takes the children from a process that has ended. If it was waiting for one, it is woken.
    fn leave_children(&mut self, pid: u32, effects: &mut dyn Effects) {
        for child in self.records.find(|record| record.parent == pid) {
            self.orphan(child, effects);
        }
    }

    /// Leaves the process without parent and watcher. If it has ended, its record is removed.
    fn orphan(&mut self, pid: u32, effects: &mut dyn Effects) {
        self.tell_watchers(pid, effects);
        let Some(record) = self.records.get_mut(pid) else { return };
        record.parent = 0;
        record.watch = Watch::Nobody;
        if record.is_over() {
            self.records.remove(pid);
        }
    }

    /// Leaves the process without parent and watcher, and kills it.
    pub(crate) fn abandon(&mut self, pid: u32, effects: &mut dyn Effects) {
        self.orphan(pid, effects);
        self.stop(pid, signal::KILL, effects);
    }

    /// Handles the end of a kernel's life. Forgets the callers parked from it, kills the processes
    /// that it watched, and ends those that it ran. A child that one of its processes was spawning
    /// on another kernel loses its parent and continues.
    pub(crate) fn bury(&mut self, life: Life, effects: &mut dyn Effects) {
        self.parked.gone(DomainId(life.kernel), Epoch(life.epoch));
        self.asked.retain(|&token, _| Life::of(token) != life);
        self.spawns.retain(|&token, _| Life::of(token) != life);
        for pid in self.records.find(|record| record.watch == Watch::By(life)) {
            self.abandon(pid, effects);
        }
        // What the new kernel needs of them is lost.
        for pid in self.records.find(|record| record.origin == Some(life)) {
            self.end(pid, End::Lost, 0, effects);
        }
        let lost = |record: &Record| record.is_of(life) && !record.is_over();
        for pid in self.records.find(lost) {
            match self.records.get(pid).map(|record| record.state) {
                Some(State::Starting) => self.fail(pid, Errno::Hostunreach, effects),
                _ => self.end(pid, End::Lost, 0, effects),
            }
        }
    }

    /// Fails all processes that wait for `kernel` to fetch them.
    pub(crate) fn give_up(&mut self, kernel: u8, effects: &mut dyn Effects) {
        let waits = |record: &Record| record.kernel == kernel && record.state == State::Waiting;
        for pid in self.records.find(waits) {
            self.fail(pid, Errno::Hostunreach, effects);
        }
    }
}
