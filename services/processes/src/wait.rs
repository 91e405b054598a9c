//! Wait: waiting for the end of a child.
//!
//! The oldest matching end is returned and its record removed, so each end is reported once. A
//! parked waiter is woken by any change of a child, and checks again.

use crate::record::{Life, Record, Watch};
use crate::service::{Call, Halt, Key, Processes, Result};
use abi::process::{Errno, Reply, flag};

/// Which children a caller of Wait accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    One(u32),
    Any,
    Group(u32),
}

impl Wanted {
    fn is(self, pid: u32, record: &Record) -> bool {
        match self {
            Wanted::One(one) => pid == one,
            Wanted::Any => true,
            Wanted::Group(group) => record.group == group,
        }
    }
}

impl Processes {
    /// Wait: returns how a child ended, or parks the caller.
    pub(crate) fn do_wait(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let flags = call.flags(flag::NO_HANG)?;
        let (key, ended) = match call.request.parent {
            0 => self.watched(call)?,
            parent => (Key::Child(parent), self.child(parent, call.request.pid)?),
        };
        let Some(pid) = ended else {
            let hangs = flags & flag::NO_HANG == 0;
            return if hangs { Err(Halt::Park(key)) } else { Ok(Reply::default()) };
        };
        let reply = self.records.get(pid).map(|record| report(pid, record)).unwrap_or_default();
        self.remove(pid, call.effects);
        Ok(reply)
    }

    /// For the system: the key to wait at, and the watched process if it has ended.
    fn watched(&mut self, call: &Call<'_>) -> Result<(Key, Option<u32>)> {
        let pid = call.pid()?;
        let record = self.records.get_mut(pid).filter(|record| record.watch != Watch::Nobody);
        let record = record.ok_or(Errno::Child)?;
        if record.watch == Watch::Somebody {
            record.watch = Watch::By(Life::of(call.token));
        }
        Ok((Key::Watched(pid), record.is_over().then_some(pid)))
    }

    /// For a process: the matching child that ended first, if any. Fails if no child matches.
    fn child(&self, parent: u32, pid: i32) -> Result<Option<u32>> {
        let asker = self.records.get(parent).filter(|record| !record.is_over());
        let asker = asker.ok_or(Errno::Srch)?;
        let wanted = match pid {
            1.. => Wanted::One(pid.unsigned_abs()),
            0 => Wanted::Group(asker.group),
            -1 => Wanted::Any,
            _ => Wanted::Group(pid.unsigned_abs()),
        };
        let (mut any, mut first) = (false, None);
        for (&pid, record) in self.records.iter() {
            if record.parent == parent && wanted.is(pid, record) {
                any = true;
                let is_first = first.is_none_or(|(order, _)| record.order < order);
                if record.is_over() && is_first {
                    first = Some((record.order, pid));
                }
            }
        }
        if any { Ok(first.map(|(_, pid)| pid)) } else { Err(Errno::Child.into()) }
    }
}

fn report(pid: u32, record: &Record) -> Reply {
    let (kind, status) = record.end.map_or((0, 0), |(kind, status)| (kind as u32, status));
    let (cpu, memory) = (record.cpu, record.memory);
    Reply { pid, kind, status, cpu, memory, ..Reply::default() }
}
