//! Moves of running processes to other kernels.
//!
//! ```text
//!   Move: destination --Next--> its kernel, the origin: it cannot --Stay--> Move returns why
//!     (the caller waits)            \--Depart--> Waiting at the destination, as after Spawn
//!                                        |  (the origin waits)
//!                                        +--> Begun(0): it runs there; Depart and Move return
//!                                        +--> Begun(error), or that kernel dies: given back to
//!                                             the origin; Depart and Move return why
//! ```
//! Contract: one kernel at most runs the process. The origin does not run it while it waits in
//! Depart, and then only after an error; the destination does not before its Begun was accepted. If
//! the origin dies in between, the process is lost. A table that has restarted knows of no Depart:
//! the origin gets [`Errno::Restarted`] and the destination's Begun fails, so neither runs it.

use crate::begin::domain;
use crate::record::{Destination, Life, Stop};
use crate::service::{Call, Halt, Key, Processes, Result, SPAWNS, Spawning};
use abi::process::{Errno, Reply, State, flag};
use alloc::boxed::Box;
use share::Effects;

impl Processes {
    /// Move: asks the kernel of a process to pass it on, and parks the caller until it has moved.
    pub(crate) fn do_move(&mut self, call: &mut Call<'_>, again: bool) -> Result<Reply> {
        let flags = call.flags(flag::ANY_PROCESS)?;
        let (pid, kernel) = (call.pid()?, domain(call.request.kernel)?);
        let record = self.records.get(pid).filter(|record| !record.is_over()).ok_or(Errno::Srch)?;
        if flags & flag::ANY_PROCESS == 0 && !self.reaches(call.request.parent, pid) {
            return Err(Errno::Perm.into());
        }
        match record.destination {
            Some(destination) if destination.kernel == kernel => {
                return Err(Halt::Park(Key::Moved(pid)));
            }
            Some(_) => return Err(Errno::Busy.into()),
            None if record.kernel == kernel => return Ok(Reply { pid, ..Reply::default() }),
            None if again => return Err(record.refusal.unwrap_or(Errno::Again).into()),
            None if record.state != State::Running => return Err(Errno::Again.into()),
            None => {}
        }
        let at = usize::from(kernel);
        if self.newest.get(at) == Some(&0) || self.away.get(at) != Some(&false) {
            return Err(Errno::Hostunreach.into());
        }
        let (order, is_own) = (Some(self.records.tick()), call.request.parent == pid);
        if let Some(record) = self.records.get_mut(pid) {
            record.destination = Some(Destination { kernel, order, is_own });
            record.refusal = None;
            let origin = record.kernel;
            self.call(origin, call.effects);
        }
        Err(Halt::Park(Key::Moved(pid)))
    }

    /// Depart: the process waits for its new kernel, and the caller for the outcome. After an error
    /// it is to move no more.
    pub(crate) fn do_depart(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let (pid, _) = self.own(call)?;
        let departed = self.depart(pid, call);
        if let Err(Halt::Failed(why)) = departed {
            self.moves_no_more(pid, Some(why), call.effects);
        }
        departed
    }

    fn depart(&mut self, pid: u32, call: &mut Call<'_>) -> Result<Reply> {
        let (token, kernel) = (call.token, domain(call.request.kernel)?);
        let record = self.records.get(pid).ok_or(Errno::Srch)?;
        let is_meant = record.destination.is_some_and(|it| it.kernel == kernel);
        if record.state != State::Running || !is_meant {
            return Err(Errno::Inval.into());
        }
        if record.doom.is_some() {
            // Its kernel ends it.
            return Err(Errno::Intr.into());
        }
        if self.away.get(usize::from(kernel)) != Some(&false) {
            return Err(Errno::Hostunreach.into());
        }
        if self.spawns.len() >= SPAWNS {
            return Err(Errno::Again.into());
        }
        let begin = self.kept(call.sent()?, record.quota.tree.owner)?;
        let order = self.records.tick();
        if let Some(record) = self.records.get_mut(pid) {
            record.origin = Some(Life::of(token));
            (record.kernel, record.epoch, record.state) = (kernel, 0, State::Waiting);
            (record.begin, record.order, record.asker) = (begin, order, Some(token));
            // The new kernel gets it with the process.
            record.regrouped = None;
        }
        self.spawns.insert(token, Spawning { pid, outcome: None });
        self.call(kernel, call.effects);
        Err(Halt::Wait)
    }

    /// Stay: the process's kernel does not pass it on.
    pub(crate) fn do_stay(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let why = u16::try_from(call.request.status).ok().and_then(Errno::from_code);
        let why = why.filter(|why| *why != Errno::Success).ok_or(Errno::Inval)?;
        let (pid, _) = self.own(call)?;
        self.moves_no_more(pid, Some(why), call.effects);
        Ok(Reply::default())
    }

    /// Ends a move; `why` it failed, if it did. Callers of Move are woken.
    pub(crate) fn moves_no_more(
        &mut self,
        pid: u32,
        why: Option<Errno>,
        effects: &mut dyn Effects,
    ) {
        let Some(record) = self.records.get_mut(pid) else { return };
        record.origin = None;
        if record.destination.take().is_some() {
            record.refusal = why;
            self.parked.wake(Key::Moved(pid), effects);
        }
    }

    /// A caller of Move has given up. Without another one, the process is to move no more, unless
    /// it is on its way, or has asked for it itself: it gives up when it leaves.
    pub(crate) fn give_up_move(&mut self, pid: u32) {
        let is_wanted = self.asked.values().any(|key| *key == Key::Moved(pid));
        let Some(record) = self.records.get_mut(pid) else { return };
        let is_own = record.destination.is_some_and(|destination| destination.is_own);
        if !is_wanted && !is_own && record.origin.is_none() {
            record.destination = None;
        }
    }

    /// Gives a process that moves back to its origin, which runs it again. Returns false for
    /// another process.
    pub(crate) fn give_back(&mut self, pid: u32, why: Errno, effects: &mut dyn Effects) -> bool {
        let order = self.records.tick();
        let Some(record) = self.records.get_mut(pid) else { return false };
        let Some(origin) = record.origin else { return false };
        (record.kernel, record.epoch, record.state) = (origin.kernel, origin.epoch, State::Running);
        record.begin = Box::default();
        // The other kernel may have fetched these.
        record.regrouped = Some(order);
        if let Some(signal) = record.doom {
            record.stop.get_or_insert(Stop { order, signal });
        }
        self.call(origin.kernel, effects);
        self.moves_no_more(pid, Some(why), effects);
        self.settle(pid, Err(why), effects);
        true
    }
}
