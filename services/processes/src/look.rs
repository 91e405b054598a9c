//! Queries about processes, resource accounts, and moving a process to another group.

use crate::record::is_number;
use crate::service::{Call, Key, Processes, Result};
use abi::boot::MAX_DOMAINS;
use abi::process::{Errno, Listed, Reply, State};
use zerocopy::IntoBytes;

impl Processes {
    /// Account: the kernel reports what a process has used so far.
    pub(crate) fn do_account(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let request = call.request;
        self.own(call)?.1.account(request.cpu, request.memory, request.messages);
        Ok(Reply::default())
    }

    /// About: describes one process.
    pub(crate) fn do_about(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let pid = call.pid()?;
        let listed = self.records.get(pid).ok_or(Errno::Srch)?.listed(pid);
        let room = call.bulk.get_mut(..size_of::<Listed>()).ok_or(Errno::Inval)?;
        room.copy_from_slice(listed.as_bytes());
        Ok(Reply { pid, filled: size_of::<Listed>() as u32, ..Reply::default() })
    }

    /// List: fills the bulk with processes above a number.
    pub(crate) fn do_list(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let above = u32::try_from(call.request.pid).map_err(|_| Errno::Inval)?;
        let rooms = call.bulk.chunks_exact_mut(size_of::<Listed>());
        if rooms.len() == 0 {
            return Err(Errno::Inval.into());
        }
        let mut filled = 0;
        for (room, (pid, record)) in rooms.zip(self.records.above(above)) {
            room.copy_from_slice(record.listed(pid).as_bytes());
            filled += size_of::<Listed>() as u32;
        }
        Ok(Reply { filled, ..Reply::default() })
    }

    /// Load: counts the live processes of each kernel, for as many kernels as the bulk has room
    /// for.
    pub(crate) fn do_load(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let mut counts = [0u32; MAX_DOMAINS];
        for (_, record) in self.records.iter().filter(|(_, record)| !record.is_over()) {
            if let Some(count) = counts.get_mut(usize::from(record.kernel)) {
                *count += 1;
            }
        }
        let rooms = call.bulk.chunks_exact_mut(size_of::<u32>());
        if rooms.len() == 0 {
            return Err(Errno::Inval.into());
        }
        let mut filled = 0;
        for (room, count) in rooms.zip(counts) {
            room.copy_from_slice(&count.to_le_bytes());
            filled += size_of::<u32>() as u32;
        }
        Ok(Reply { filled, ..Reply::default() })
    }

    /// Group: moves a process. A process may move itself and its children; the system may move any.
    pub(crate) fn do_group(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let asker = call.request.parent;
        let pid = match u32::try_from(call.request.pid) {
            Ok(0) => asker,
            Ok(pid) => pid,
            Err(_) => return Err(Errno::Inval.into()),
        };
        if pid == 0 {
            return Err(Errno::Inval.into());
        }
        let record = self.records.get(pid).filter(|record| !record.is_over());
        let parent = record.ok_or(Errno::Srch)?.parent;
        if asker != 0 && asker != pid && asker != parent {
            return Err(Errno::Perm.into());
        }
        let group = self.group_for(asker, pid, call.request.group)?;
        let order = self.records.tick();
        if let Some(record) = self.records.get_mut(pid) {
            record.group = group;
            // A kernel that has not fetched the process yet gets the group with it.
            record.regrouped = (record.state != State::Waiting).then_some(order);
            let kernel = record.kernel;
            self.call(kernel, call.effects);
        }
        // A waiter for members of a group may have none left: the parent, or the process itself.
        self.tell_watchers(pid, call.effects);
        self.parked.wake(Key::Child(pid), call.effects);
        Ok(Reply { pid, group, ..Reply::default() })
    }

    /// Returns the group that `asker` requests for `pid`.
    fn group_for(&self, asker: u32, pid: u32, group: u32) -> Result<u32> {
        if group == 0 || group == pid {
            return Ok(pid);
        }
        if !is_number(group) {
            return Err(Errno::Inval.into());
        }
        if self.may_join(asker, group) { Ok(group) } else { Err(Errno::Perm.into()) }
    }

    /// Returns whether `asker` may put processes into this group: it or a descendant must be in it.
    pub(crate) fn may_join(&self, asker: u32, group: u32) -> bool {
        let is_own = |pid| self.is_above(asker, pid);
        self.records.iter().any(|(&pid, record)| record.group == group && is_own(pid))
    }
}
