//! The requests of the process table, and what follows from ends.

use super::{Got, Life, Process, Table, UNKNOWN, Watch, is_here};
use abi::process::{End, Errno, News, Reply, Request, State, flag, signal};

type Result<T = Reply> = core::result::Result<T, Errno>;

impl Table {
    /// The process is requested. A failed request has its outcome at once. One that its kernel
    /// starts itself starts.
    pub(super) fn spawn(
        &mut self,
        caller: u32,
        life: Life,
        request: &Request,
        got: Option<&Got>,
    ) -> Option<()> {
        let group = match self.group_of_new(request) {
            Ok(group) => group,
            Err(error) => {
                if !is_here(request) {
                    self.outcomes.insert(caller, Some(error));
                }
                return got.is_none_or(|got| got.reply.errno() == error).then_some(());
            }
        };
        if is_here(request) && got.is_some_and(|got| got.reply.error != 0) {
            return None;
        }
        let shown = got.map(|got| got.reply).filter(|reply| reply.error == 0);
        let pid = match shown {
            Some(reply) if self.is_used(reply.pid) => return None,
            Some(reply) => reply.pid,
            None => (UNKNOWN..).find(|pid| !self.is_used(*pid))?,
        };
        let watch = match request.flags & flag::WATCHED {
            0 => Watch::Nobody,
            _ => Watch::By(life),
        };
        let group = if group == 0 { pid } else { group };
        let process = Process { group, watch, asker: Some(caller), ..Process::new(request.parent) };
        if is_here(request) {
            let process = Process { state: State::Starting, life, is_here: true, ..process };
            self.processes.insert(pid, process);
            let right = (News::Begin as u32, life.1.into(), group);
            return shown.is_none_or(|it| (it.kind, it.status, it.group) == right).then_some(());
        }
        self.processes.insert(pid, Process { life: (request.kernel as u8, 0), ..process });
        self.order.push(pid);
        Some(())
    }

    /// A process that its kernel was to start itself is not started: the caller has no reply.
    pub(super) fn withdrawn(&mut self, caller: u32) -> Option<()> {
        let is_it = |p: &Process| p.is_here && p.asker == Some(caller);
        let pid = *self.find(is_it).first()?;
        self.remove(pid);
        Some(())
    }

    /// Returns the group of a new process; 0 if it is to have its own.
    fn group_of_new(&self, request: &Request) -> Result<u32> {
        let of_parent = match request.parent {
            0 => 0,
            pid => {
                let parent = self.living(pid)?;
                if parent.doom.is_some() {
                    return Err(Errno::Intr);
                }
                parent.group
            }
        };
        match request.group {
            0 if request.flags & flag::NEW_GROUP != 0 => Ok(0),
            0 => Ok(of_parent),
            group if self.may_join(request.parent, group) => Ok(group),
            _ => Err(Errno::Perm),
        }
    }

    /// The outcome of a Spawn. A process that waits for a kernel which has died may fail.
    pub(super) fn started(&mut self, caller: u32, reply: Reply) -> Option<()> {
        if let Some(outcome) = self.outcomes.remove(&caller) {
            return (reply.errno() == outcome.unwrap_or(Errno::Success)).then_some(());
        }
        let is_it = |p: &Process| p.asker == Some(caller) && p.state == State::Waiting;
        let pid = *self.find(is_it).first()?;
        let is_away = self.kernels.get(&self.processes[&pid].life.0).is_some_and(|k| k.1);
        self.remove(pid);
        (is_away && reply.errno() == Errno::Hostunreach).then_some(())
    }

    pub(super) fn begun(&mut self, life: Life, request: &Request) -> Result {
        let pid = request.pid as u32;
        let is_over = request.status != 0;
        if let Some(life) = self.unnamed_here.remove(&pid)
            && !is_over
        {
            self.unnamed.insert(pid, life);
        }
        let process = self.own(life, pid, is_over)?;
        if process.state != State::Starting {
            return Err(Errno::Inval);
        }
        if !is_over {
            process.state = State::Running;
            let (group, status) = (process.group, process.doom.unwrap_or(0).into());
            self.settle(pid, None);
            return Ok(Reply { group, status, ..Reply::default() });
        }
        let error = u16::try_from(request.status).ok().and_then(Errno::from_code);
        self.fail(pid, error.unwrap_or(Errno::Io));
        Ok(Reply::default())
    }

    pub(super) fn ended(&mut self, life: Life, request: &Request) -> Result {
        let end = u16::try_from(request.kind).ok().and_then(End::from_code);
        let pid = request.pid as u32;
        self.own(life, pid, true)?;
        self.end(pid, end.ok_or(Errno::Inval)?, request.status);
        Ok(Reply::default())
    }

    /// Returns the process that this kernel reports on, perhaps that it is over.
    fn own(&mut self, life: Life, pid: u32, is_over: bool) -> Result<&mut Process> {
        if is_over {
            self.unnamed.remove(&pid);
            self.unnamed_here.remove(&pid);
            self.over.insert(pid);
        }
        let process = self.processes.get_mut(&pid).ok_or(Errno::Srch)?;
        match process {
            process if process.life != life => Err(Errno::Perm),
            process if process.is_over() => Err(Errno::Inval),
            process => Ok(process),
        }
    }

    /// The oldest end that the caller waits for; `None` as long as there is none.
    pub(super) fn wait(&mut self, life: Life, request: &Request) -> Result<Option<Reply>> {
        let wanted = match request.parent {
            0 => vec![self.watched(life, request.pid as u32)?],
            parent => self.children(parent, request.pid)?,
        };
        let over = |pid: &&u32| wanted.contains(*pid) && self.processes[*pid].is_over();
        let Some(pid) = self.order.iter().find(over).copied() else {
            return Ok((request.flags & flag::NO_HANG != 0).then(Reply::default));
        };
        let (kind, status) = self.processes[&pid].end.map_or((0, 0), |(k, s)| (k as u32, s));
        self.remove(pid);
        Ok(Some(Reply { pid, kind, status, ..Reply::default() }))
    }

    /// Makes this kernel the watcher of a process that has none since the table restarted.
    pub(super) fn watched(&mut self, life: Life, pid: u32) -> Result<u32> {
        let process = self.processes.get_mut(&pid).filter(|p| p.watch != Watch::Nobody);
        let process = process.ok_or(Errno::Child)?;
        if process.watch == Watch::Somebody {
            process.watch = Watch::By(life);
        }
        Ok(pid)
    }

    /// Returns the children of `parent` that `pid` names as in `waitpid`; fails if there are none.
    fn children(&self, parent: u32, pid: i32) -> Result<Vec<u32>> {
        let own = self.living(parent)?.group;
        let is_wanted = |child: u32, process: &Process| match pid {
            1.. => child == pid as u32,
            0 => process.group == own,
            -1 => true,
            _ => process.group == pid.unsigned_abs(),
        };
        let all = self.processes.iter().filter(|(_, p)| p.parent == parent);
        let found: Vec<u32> = all.filter(|(pid, p)| is_wanted(**pid, p)).map(|a| *a.0).collect();
        if found.is_empty() { Err(Errno::Child) } else { Ok(found) }
    }

    pub(super) fn kill(&mut self, request: &Request) -> Result {
        let (number, asker) = (request.pid.unsigned_abs(), request.parent);
        let mut targets = match request.pid {
            1.. => self.processes.get(&number).map_or(vec![], |_| vec![number]),
            0 => {
                let group = self.processes.get(&asker).ok_or(Errno::Srch)?.group;
                self.find(|p| p.group == group)
            }
            _ => self.find(|p| p.group == number),
        };
        if targets.is_empty() {
            return Err(Errno::Srch);
        }
        if request.flags & flag::ANY_PROCESS == 0 {
            targets.retain(|pid| self.reaches(asker, *pid));
        }
        if targets.is_empty() {
            return Err(Errno::Perm);
        }
        let ends = request.signal != signal::NONE && 1 << request.signal & signal::IGNORED == 0;
        targets.iter().filter(|_| ends).for_each(|pid| self.stop(*pid, request.signal));
        Ok(Reply::default())
    }

    fn reaches(&self, asker: u32, pid: u32) -> bool {
        let group = |pid| self.processes.get(&pid).map(|p| p.group);
        self.is_above(asker, pid) || group(asker).is_some_and(|own| group(pid) == Some(own))
    }

    /// Returns whether `pid` is `above` or descends from it. All descend from the system (0).
    fn is_above(&self, above: u32, pid: u32) -> bool {
        let up = |pid: &u32| self.processes.get(pid).map(|p| p.parent);
        let mut way = std::iter::successors(Some(pid), up).take(self.processes.len() + 1);
        above == 0 || way.any(|pid| pid == above)
    }

    pub(super) fn regroup(&mut self, request: &Request) -> Result {
        let asker = request.parent;
        let pid = if request.pid == 0 { asker } else { request.pid as u32 };
        let parent = self.living(pid)?.parent;
        if asker != 0 && asker != pid && asker != parent {
            return Err(Errno::Perm);
        }
        let group = if request.group == 0 { pid } else { request.group };
        if group != pid && !self.may_join(asker, group) {
            return Err(Errno::Perm);
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            process.group = group;
            process.is_regrouped = process.state != State::Waiting;
        }
        Ok(Reply { pid, group, ..Reply::default() })
    }

    /// Returns whether `asker` or a descendant of it is in the group.
    fn may_join(&self, asker: u32, group: u32) -> bool {
        self.find(|p| p.group == group).iter().any(|pid| self.is_above(asker, *pid))
    }

    /// A kernel names a process to a table that has lost its state.
    pub(super) fn adopt(&mut self, life: Life, request: &Request) -> Result {
        let pid = request.pid as u32;
        self.unnamed.remove(&pid);
        self.unnamed_here.remove(&pid);
        if let Some(known) = self.processes.get(&pid) {
            let is_it = known.life == life && !known.is_over();
            return if is_it { Ok(Reply::default()) } else { Err(Errno::Inval) };
        }
        let is_orphan = self.processes.get(&request.parent).is_some_and(Process::is_over);
        let parent = if is_orphan { 0 } else { request.parent };
        let mut process = Process::new(parent);
        (process.state, process.life) = (State::Running, life);
        process.group = if request.group == 0 { pid } else { request.group };
        process.doom = (request.flags & flag::KILLED != 0).then_some(signal::KILL);
        if request.flags & flag::WATCHED != 0 {
            process.watch = Watch::Somebody;
        }
        self.processes.insert(pid, process);
        Ok(Reply::default())
    }

    fn living(&self, pid: u32) -> Result<&Process> {
        self.processes.get(&pid).filter(|p| !p.is_over()).ok_or(Errno::Srch)
    }

    /// A signal that ends the process: at once if its kernel has not fetched it.
    fn stop(&mut self, pid: u32, signal: u16) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        match process.state {
            State::Waiting => self.end(pid, End::Signal, signal.into()),
            State::Starting | State::Running => {
                for what in [&mut process.stop, &mut process.doom] {
                    if what.is_none() || signal == signal::KILL {
                        *what = Some(signal);
                    }
                }
            }
            State::Ended => {}
        }
    }

    /// Keeps the end if a parent or a watcher will ask for it.
    fn end(&mut self, pid: u32, end: End, status: u32) {
        self.settle(pid, None);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        (process.state, process.end) = (State::Ended, Some((end, status)));
        (process.stop, process.is_regrouped) = (None, false);
        let (parent, watch) = (process.parent, process.watch);
        self.order.retain(|other| *other != pid);
        self.order.push(pid);
        self.leave_children(pid);
        let is_wanted = match parent {
            0 => watch != Watch::Nobody,
            parent => self.living(parent).is_ok(),
        };
        if !is_wanted {
            self.remove(pid);
        }
    }

    /// The process does not start.
    pub(super) fn fail(&mut self, pid: u32, error: Errno) {
        self.settle(pid, Some(error));
        self.remove(pid);
    }

    fn settle(&mut self, pid: u32, outcome: Option<Errno>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let asker = process.asker.take();
        // A kernel that starts it itself has no outcome to wait for.
        if let Some(caller) = asker.filter(|_| !core::mem::take(&mut process.is_here)) {
            self.outcomes.insert(caller, outcome);
        }
    }

    fn remove(&mut self, pid: u32) {
        self.leave_children(pid);
        self.order.retain(|other| *other != pid);
        self.processes.remove(&pid);
    }

    fn leave_children(&mut self, pid: u32) {
        self.find(|p| p.parent == pid).into_iter().for_each(|child| self.orphan(child));
    }

    fn orphan(&mut self, pid: u32) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        (process.parent, process.watch) = (0, Watch::Nobody);
        if process.is_over() {
            self.remove(pid);
        }
    }

    /// What follows from the end of a kernel's life.
    pub(super) fn bury(&mut self, life: Life) {
        for unnamed in [&mut self.unnamed, &mut self.unnamed_here] {
            unnamed.retain(|_, of| *of != life);
        }
        for pid in self.find(|p| p.watch == Watch::By(life)) {
            self.orphan(pid);
            self.stop(pid, signal::KILL);
        }
        for pid in self.find(|p| p.life == life && !p.is_over()) {
            match self.processes[&pid].state {
                State::Starting => self.fail(pid, Errno::Hostunreach),
                _ => self.end(pid, End::Lost, 0),
            }
        }
    }
}

impl Process {
    fn new(parent: u32) -> Process {
        Process {
            state: State::Waiting,
            life: (0, 0),
            parent,
            group: 0,
            watch: Watch::Nobody,
            asker: None,
            stop: None,
            is_regrouped: false,
            doom: None,
            is_here: false,
            end: None,
        }
    }
}
