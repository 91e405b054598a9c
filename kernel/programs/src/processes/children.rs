//! The children that a process has started and not waited for. A process table that has restarted
//! knows nothing of those that were lost with their kernels; [`super::reports`] names them to it.
//!
//! Contract: threads of the process make requests at once, and the table handles them in an order
//! that is not seen here. A child may be waited for before the request that started it returns, and
//! a request that found no child may return after one that started one. Both leave the list right.

use abi::moves::Kin;
use abi::process::{Errno, Op, PROCESSES, Reply, Request, flag};
use alloc::vec::Vec;
use arch::lock::Lock;

/// A child on some kernel, in that kernel's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    pub pid: u32,
    pub group: u32,
    pub kernel: u8,
    pub epoch: u16,
    /// [`List::added`] when it was added.
    number: u64,
}

impl Child {
    /// Returns whether a request to wait, of a process in group `own`, accepts this child.
    fn is_wanted(&self, own: u32, request: &Request) -> bool {
        match request.pid {
            -1 => true,
            0 => self.group == own,
            pid @ 1.. => self.pid == pid.unsigned_abs(),
            group => self.group == group.unsigned_abs(),
        }
    }
}

#[derive(Default)]
struct List {
    all: Vec<Child>,
    /// Number of children added so far.
    added: u64,
    /// Number of requests in progress that start one.
    starting: u32,
    /// Children that were waited for while there were such requests, and that are not in `all`; the
    /// last [`PROCESSES`] of them.
    early: Vec<u32>,
}

/// The children of one process.
pub struct Children(Lock<List>);

/// A request of the process that may change its children. Drop it when the request is over.
pub struct Asking<'a> {
    children: &'a Children,
    op: Option<Op>,
    /// [`List::added`] before the request.
    added: u64,
}

impl Children {
    pub fn new() -> Children {
        Children(Lock::new(kernel_node::ranks::PROCESSES, List::default()))
    }

    /// Prepares for a request, before it is made.
    pub fn before(&self, request: &Request) -> Asking<'_> {
        let op = Op::from_code(request.op);
        let mut list = self.0.lock();
        list.starting += u32::from(op == Some(Op::Spawn));
        Asking { children: self, op, added: list.added }
    }

    /// Returns the children that a request to wait, of a process in group `own`, accepts.
    pub fn wanted(&self, own: u32, request: &Request) -> Vec<Child> {
        let mut found = Vec::new();
        let list = self.0.lock();
        if found.try_reserve(list.all.len()).is_ok() {
            found.extend(list.all.iter().filter(|child| child.is_wanted(own, request)));
        }
        found
    }
}

impl Children {
    /// Returns all, for another kernel; `None` without memory.
    pub fn all(&self) -> Option<Vec<Kin>> {
        let (list, mut all) = (self.0.lock(), Vec::new());
        all.try_reserve_exact(list.all.len()).ok()?;
        let kin = |child: &Child| Kin {
            pid: child.pid,
            group: child.group,
            kernel: child.kernel.into(),
            epoch: child.epoch.into(),
        };
        all.extend(list.all.iter().map(kin));
        Some(all)
    }

    /// Records those that a process had on another kernel. Returns false without memory.
    pub fn are(&self, all: &[Kin]) -> bool {
        let mut list = self.0.lock();
        if list.all.try_reserve(all.len().min(PROCESSES)).is_err() {
            return false;
        }
        for (number, kin) in (1..).zip(all.iter().take(PROCESSES)) {
            let Kin { pid, group, kernel, epoch } = *kin;
            let (kernel, epoch) = (kernel as u8, epoch as u16);
            list.all.push(Child { pid, group, kernel, epoch, number });
            list.added = number;
        }
        true
    }
}

impl Asking<'_> {
    /// Notes what the request has changed; the process is in group `own`.
    pub fn note(&self, own: u32, request: &Request, reply: &Reply) {
        let mut list = self.children.0.lock();
        match (self.op, reply.errno()) {
            (Some(Op::Spawn), Errno::Success) => list.add(own, request, reply),
            (Some(Op::Group), Errno::Success) => {
                let moved = list.all.iter_mut().filter(|child| child.pid == reply.pid);
                moved.for_each(|child| child.group = reply.group);
            }
            // 0: none has ended yet.
            (Some(Op::Wait), Errno::Success) if reply.pid != 0 => list.waited(reply.pid),
            // The table does not know those that were meant; it may not have known of those added
            // since. Which children are in a group is known here only of old.
            (Some(Op::Wait), Errno::Child) if request.pid == -1 || request.pid > 0 => {
                list.all.retain(|child| child.number > self.added || !child.is_wanted(own, request))
            }
            _ => {}
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.op == Some(Op::Spawn) {
            let mut list = self.children.0.lock();
            list.starting -= 1;
            if list.starting == 0 {
                list.early = Vec::new();
            }
        }
    }
}

impl List {
    fn add(&mut self, own: u32, request: &Request, reply: &Reply) {
        if let Some(at) = self.early.iter().position(|&pid| pid == reply.pid) {
            self.early.swap_remove(at);
            return;
        }
        let (pid, kernel, epoch) = (reply.pid, request.kernel as u8, reply.status as u16);
        let group = match request.group {
            _ if request.flags & flag::NEW_GROUP != 0 => pid,
            0 => own,
            group => group,
        };
        self.added += 1;
        let number = self.added;
        // Without room, its end is reported as long as the table is not lost.
        if self.all.len() < PROCESSES && self.all.try_reserve(1).is_ok() && epoch != 0 {
            self.all.push(Child { pid, group, kernel, epoch, number });
        }
    }

    fn waited(&mut self, pid: u32) {
        let before = self.all.len();
        self.all.retain(|child| child.pid != pid);
        let is_known = self.all.len() != before;
        if is_known || self.starting == 0 {
            return;
        }
        if self.early.len() == PROCESSES {
            self.early.remove(0);
        }
        if self.early.try_reserve(1).is_ok() {
            self.early.push(pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 3;

    fn spawn() -> Request {
        Request { kernel: 1, ..Request::new(Op::Spawn) }
    }

    fn wait(pid: i32) -> Request {
        Request { pid, ..Request::new(Op::Wait) }
    }

    fn child(pid: u32) -> Reply {
        Reply { pid, status: 1, ..Reply::default() }
    }

    fn pids(children: &Children) -> Vec<u32> {
        children.wanted(OWN, &wait(-1)).iter().map(|child| child.pid).collect()
    }

    fn start(children: &Children, pid: u32) {
        children.before(&spawn()).note(OWN, &spawn(), &child(pid));
    }

    #[test]
    fn a_child_is_known_until_it_was_waited_for() {
        let children = Children::new();
        start(&children, 7);
        start(&children, 8);
        assert_eq!(pids(&children), [7, 8]);
        children.before(&wait(7)).note(OWN, &wait(7), &child(7));
        assert_eq!(pids(&children), [8]);
        children.before(&wait(-1)).note(OWN, &wait(-1), &Reply::error(Errno::Child));
        assert_eq!(pids(&children), []);
    }

    #[test]
    fn a_child_that_was_waited_for_before_its_start_returned_is_not_added() {
        let children = Children::new();
        let starting = children.before(&spawn());
        children.before(&wait(-1)).note(OWN, &wait(-1), &child(7));
        starting.note(OWN, &spawn(), &child(7));
        drop(starting);
        assert_eq!(pids(&children), []);
        // The table may give its number to another child later.
        start(&children, 7);
        assert_eq!(pids(&children), [7]);
    }

    #[test]
    fn a_start_that_failed_leaves_no_trace_of_others_children() {
        let children = Children::new();
        let starting = children.before(&spawn());
        children.before(&wait(-1)).note(OWN, &wait(-1), &child(7));
        starting.note(OWN, &spawn(), &Reply::error(Errno::Again));
        drop(starting);
        start(&children, 7);
        assert_eq!(pids(&children), [7]);
    }

    #[test]
    fn a_child_that_started_while_a_request_found_none_stays() {
        let children = Children::new();
        start(&children, 6);
        let waiting = children.before(&wait(-1));
        start(&children, 7);
        waiting.note(OWN, &wait(-1), &Reply::error(Errno::Child));
        assert_eq!(pids(&children), [7]);
    }

    #[test]
    fn waiting_while_others_start_children_keeps_the_list_short() {
        let children = Children::new();
        let starting = children.before(&spawn());
        for pid in (0..3 * PROCESSES as u32).flat_map(|pid| [0, pid + 9]) {
            children.before(&wait(-1)).note(OWN, &wait(-1), &child(pid));
        }
        assert_eq!(children.0.lock().early.len(), PROCESSES);
        starting.note(OWN, &spawn(), &child(8 + 3 * PROCESSES as u32));
        assert_eq!(pids(&children), []);
    }

    #[test]
    fn that_a_group_has_no_children_forgets_none() {
        let children = Children::new();
        let grouped = Request { flags: flag::NEW_GROUP, ..spawn() };
        start(&children, 6);
        children.before(&grouped).note(OWN, &grouped, &child(7));
        for pid in [0, -7] {
            children.before(&wait(pid)).note(OWN, &wait(pid), &Reply::error(Errno::Child));
        }
        assert_eq!(pids(&children), [6, 7]);
        assert_eq!(children.wanted(OWN, &wait(-7)).len(), 1);
    }
}
