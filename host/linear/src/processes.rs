//! The process table where processes are killed, kernels die and the table loses its state.
//!
//! ```text
//!   Spawn --> Waiting --Next--> Starting --Begun(0)--> Running --Ended--> Ended --Wait--> gone
//!   Spawn, HERE ----------------^
//! ```
//!
//! Contract: a history of requests of kernels in their lives, of ends of those lives, and of losses
//! of the table, that some order explains. The rules are those of docs/design/processes.md:
//!
//! - Each process has a number of its own, ends once, and its end is reported once: to its parent,
//!   or to the kernel that watches it.
//! - A dead kernel's processes have ended, those that it watched are killed, and no request of that
//!   life takes effect afterwards.
//! - A table that has lost its state is empty. Each kernel names the processes that it runs
//!   (`Adopt`) before it takes its next task, and reports the end of one that ends meanwhile.
//!
//! A Spawn takes effect twice: when the process is requested, and when its outcome is known; see
//! [`split`]. One of a process that the caller's kernel starts itself takes effect once. If its
//! caller gets no reply, the process is withdrawn later. Limits, accounts and names are not
//! compared, nor the order of two tasks of which one is not the start of a process. A caller names
//! only processes that a Spawn or a Next has returned.

use crate::check::{Call, Spec};
use abi::process::{End, Errno, Listed, News, Op, Reply, Request, State, flag, signal};
use std::collections::{BTreeMap, BTreeSet};

mod rules;

/// A kernel and the number of its life, which rises.
pub type Life = (u8, u16);

/// What happens at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A request of a caller in one life of a kernel. Of a Spawn: the request of the process.
    Request { caller: u32, life: Life, request: Request },
    /// Its kernel asks for a task. `is_settled`: it is not reporting the end of any process.
    Next { caller: u32, life: Life, is_settled: bool },
    /// The outcome of the Spawn that this caller is making.
    Started { caller: u32 },
    /// The process of a Spawn without a reply is not started.
    Withdrawn { caller: u32 },
    /// This life waits for a process of the system.
    Watches { life: Life, pid: u32 },
    /// The table learns that this life has ended.
    Died(Life),
    /// The table loses its state and starts its next life.
    Restarted,
}

/// A reply, with the records of a List.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Got {
    /// The reply.
    pub reply: Reply,
    /// What it listed.
    pub listed: Vec<Listed>,
}

/// Adds the second effect of each Spawn that has returned; each Spawn gets a caller of its own.
/// A Wait of the system that has returned made its kernel the watcher when it began to wait.
pub fn split(history: &mut Vec<Call<Ask, Got>>) {
    let mut outcomes = Vec::new();
    for (call, number) in history.iter_mut().zip(0..) {
        let Ask::Request { caller, life, request } = &mut call.ask else { continue };
        let (life, pid) = (*life, request.pid as u32);
        let second = match Op::from_code(request.op) {
            Some(Op::Spawn) => {
                *caller = number;
                match (is_here(request), call.reply.is_some()) {
                    (false, _) => Call { ask: Ask::Started { caller: number }, ..call.clone() },
                    (true, true) => continue,
                    (true, false) => {
                        let ask = Ask::Withdrawn { caller: number };
                        outcomes.push(Call { ask, who: call.who | SECOND, ..call.clone() });
                        continue;
                    }
                }
            }
            Some(Op::Wait) if request.parent == 0 => {
                Call { ask: Ask::Watches { life, pid }, reply: None, ..call.clone() }
            }
            _ => continue,
        };
        if call.reply.is_some() {
            outcomes.push(Call { who: call.who | SECOND, ..second });
        }
    }
    history.append(&mut outcomes);
}

fn is_here(request: &Request) -> bool {
    request.flags & flag::HERE != 0
}

/// Marks the caller of a second effect: both may take effect at any time of the call.
const SECOND: u32 = 1 << 31;
/// Processes whose numbers no reply has shown yet have numbers from here on.
const UNKNOWN: u32 = 1 << 30;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    state: State,
    /// The kernel that runs it; the life is 0 until that kernel has fetched it.
    life: Life,
    /// 0: the system.
    parent: u32,
    group: u32,
    watch: Watch,
    /// The caller of Spawn, until the outcome is known.
    asker: Option<u32>,
    /// A signal, and a new group, that its kernel has not fetched.
    stop: Option<u16>,
    is_regrouped: bool,
    /// The signal that ends it. It may not start processes.
    doom: Option<u16>,
    /// Its kernel starts it itself, and may not know its number yet.
    is_here: bool,
    end: Option<(End, u32)>,
}

/// Which kernel will wait for the end of a process of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    Nobody,
    /// The table has restarted since.
    Somebody,
    By(Life),
}

/// The state that replies depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table {
    processes: BTreeMap<u32, Process>,
    /// The waiting processes in the order of their requests, and the ended ones in that of their
    /// ends.
    order: Vec<u32>,
    /// Outcomes of Spawns that no [`Ask::Started`] has taken.
    outcomes: BTreeMap<u32, Option<Errno>>,
    /// The newest life of each kernel, and whether it has ended.
    kernels: BTreeMap<u8, (u16, bool)>,
    /// Kernels that have made a request since the table lost its state.
    heard: BTreeSet<u8>,
    /// How often the table has lost its state, and up to which loss each caller has been told.
    losses: u32,
    told: BTreeMap<u32, u32>,
    /// Processes that ran when the table lost its state, and that their kernels must name.
    unnamed: BTreeMap<u32, Life>,
    /// The same of those that their kernels were starting themselves: only when they have begun.
    unnamed_here: BTreeMap<u32, Life>,
    /// Processes whose end was reported when the table did not know them.
    over: BTreeSet<u32>,
}

/// The specification.
pub struct Processes;

impl Spec for Processes {
    type State = Table;
    type Ask = Ask;
    type Reply = Got;

    fn accept(&self, state: &Table, ask: &Ask, got: Option<&Got>) -> Option<Table> {
        let mut behind = state.clone();
        match *ask {
            Ask::Request { caller, life, request } => {
                behind.lives(life)?;
                behind.request(caller, life, &request, got)?;
            }
            Ask::Next { caller, life, is_settled } => {
                behind.lives(life)?;
                behind.next(caller, life, is_settled, got)?;
            }
            Ask::Started { caller } => behind.started(caller, got?.reply)?,
            Ask::Withdrawn { caller } => behind.withdrawn(caller)?,
            Ask::Watches { life, pid } => {
                behind.lives(life)?;
                behind.watched(life, pid).ok()?;
            }
            Ask::Died(life) => behind.died(life),
            Ask::Restarted => behind.lose(),
        }
        Some(behind)
    }

    fn only_looks(&self, ask: &Ask, got: &Got) -> bool {
        let Ask::Request { request, .. } = ask else { return false };
        match Op::from_code(request.op) {
            Some(Op::List) => true,
            Some(Op::Wait) => request.parent != 0 && got.reply.pid == 0 && !is_restarted(got),
            Some(Op::Kill) => request.signal == signal::NONE || got.reply.error != 0,
            Some(Op::Group) => got.reply.error != 0,
            _ => false,
        }
    }
}

fn is_restarted(got: &Got) -> bool {
    got.reply.errno() == Errno::Restarted
}

impl Table {
    /// Notes that a kernel in this life makes a request. `None` if the life has ended.
    fn lives(&mut self, life: Life) -> Option<()> {
        let (newest, is_away) = self.kernels.get(&life.0).copied().unwrap_or((life.1, false));
        if life.1 < newest || life.1 == newest && is_away {
            return None;
        }
        if life.1 > newest {
            self.bury((life.0, newest));
        }
        self.kernels.insert(life.0, (life.1, false));
        self.heard.insert(life.0);
        Some(())
    }

    fn died(&mut self, life: Life) {
        let newest = self.kernels.get(&life.0).map_or(0, |known| known.0);
        if newest > life.1 {
            return;
        }
        self.bury(life);
        self.kernels.insert(life.0, (life.1, true));
        if !self.heard.contains(&life.0) {
            // The table does not know whether this is an old death: they wait for the next life.
            return;
        }
        for pid in self.find(|p| p.life == (life.0, 0) && p.state == State::Waiting) {
            self.fail(pid, Errno::Hostunreach);
        }
    }

    fn lose(&mut self) {
        let runs = |p: &Process| matches!(p.state, State::Starting | State::Running);
        // Outcomes that were not fetched are lost.
        self.outcomes.values_mut().for_each(|outcome| *outcome = Some(Errno::Restarted));
        let all = std::mem::take(&mut self.processes);
        for (pid, process) in all {
            if let Some(caller) = process.asker.filter(|_| !process.is_here) {
                self.outcomes.insert(caller, Some(Errno::Restarted));
            }
            if runs(&process) && pid < UNKNOWN {
                let unnamed = match process.is_here {
                    true => &mut self.unnamed_here,
                    false => &mut self.unnamed,
                };
                unnamed.insert(pid, process.life);
            }
        }
        self.order.clear();
        self.heard.clear();
        self.losses += 1;
    }

    fn request(
        &mut self,
        caller: u32,
        life: Life,
        request: &Request,
        got: Option<&Got>,
    ) -> Option<()> {
        let op = Op::from_code(request.op)?;
        if op == Op::Wait && got.is_some_and(is_restarted) {
            return self.tell(caller);
        }
        let right = match op {
            Op::Spawn => return self.spawn(caller, life, request, got),
            Op::List => return self.list(got),
            Op::Begun => self.begun(life, request),
            Op::Ended => self.ended(life, request),
            Op::Wait => match self.wait(life, request).transpose() {
                Some(right) => right,
                // The waiter is recorded before there is a reply.
                None => return got.is_none().then_some(()),
            },
            Op::Kill => self.kill(request),
            Op::Group => self.regroup(request),
            Op::Adopt => self.adopt(life, request),
            Op::Next | Op::Leave | Op::Account | Op::About | Op::Load => return None,
            // No history has them.
            Op::Move | Op::Depart | Op::Stay => return None,
        };
        let right = right.unwrap_or_else(Reply::error);
        let plain = |reply: Reply| (reply.error, reply.pid, reply.kind, reply.status, reply.group);
        got.is_none_or(|got| plain(got.reply) == plain(right)).then_some(())
    }

    /// A caller that waited learns of a loss of the table, once.
    fn tell(&mut self, caller: u32) -> Option<()> {
        let told = self.told.insert(caller, self.losses).unwrap_or(0);
        (told < self.losses).then_some(())
    }

    /// Compares the listed processes. One whose number is not known yet may have any.
    fn list(&self, got: Option<&Got>) -> Option<()> {
        let Some(got) = got else { return Some(()) };
        let known = |pid: u32| if self.processes.contains_key(&pid) { pid } else { 0 };
        let shown = |pid: u32| if pid < UNKNOWN { pid } else { 0 };
        let found = got.listed.iter().map(|l| (known(l.pid), listed(l, known(l.pid) != 0)));
        let right = self.processes.iter().map(|(&pid, p)| (shown(pid), p.shown()));
        let (mut found, mut right) = (Vec::from_iter(found), Vec::from_iter(right));
        found.sort_unstable();
        right.sort_unstable();
        (got.reply.error == 0 && found == right).then_some(())
    }

    /// A kernel fetches a task. Processes start in the order of the requests.
    fn next(&mut self, caller: u32, life: Life, is_settled: bool, got: Option<&Got>) -> Option<()> {
        if got.is_some_and(is_restarted) {
            return self.tell(caller);
        }
        if is_settled && self.is_wrong_about(life) {
            return None;
        }
        // Without a reply the kernel has died: only a process that it would have started matters.
        let Some(Got { reply, .. }) = got else { return self.fetch(None, life) };
        let kind = u16::try_from(reply.kind).ok().and_then(News::from_code)?;
        if kind == News::Begin {
            return self.fetch(Some(reply.pid), life);
        }
        let process = self.processes.get_mut(&reply.pid).filter(|p| p.life == life)?;
        match kind {
            News::Stop => (process.stop.take()? == reply.status as u16).then_some(()),
            _ => {
                let is_new = std::mem::take(&mut process.is_regrouped);
                (is_new && process.group == reply.group).then_some(())
            }
        }
    }

    /// Returns whether a process of this kernel is not here, or is here and has ended.
    fn is_wrong_about(&self, life: Life) -> bool {
        let runs = |pid| self.processes.get(pid).is_some_and(|p| p.life == life && !p.is_over());
        self.unnamed.values().any(|of| *of == life) || self.over.iter().any(runs)
    }

    /// The first process that waits for this kernel, with the number `pid`, is loaded now.
    fn fetch(&mut self, pid: Option<u32>, life: Life) -> Option<()> {
        let waits = |pid: &&u32| {
            let p = &self.processes[pid];
            p.state == State::Waiting && p.life.0 == life.0
        };
        let first = *self.order.iter().find(waits)?;
        let pid = pid.unwrap_or(first);
        if first != pid && (first < UNKNOWN || self.is_used(pid)) {
            return None;
        }
        self.order.retain(|other| *other != first);
        let mut process = self.processes.remove(&first)?;
        (process.state, process.life) = (State::Starting, life);
        if process.group == first {
            process.group = pid;
        }
        self.processes.insert(pid, process);
        Some(())
    }

    /// Returns whether a process, a group or a parent has this number, or a process that its kernel
    /// has yet to name.
    fn is_used(&self, pid: u32) -> bool {
        let names = |p: &Process| p.group == pid || p.parent == pid;
        let is_unnamed = [&self.unnamed, &self.unnamed_here].iter().any(|it| it.contains_key(&pid));
        let is_process = self.processes.contains_key(&pid) || is_unnamed;
        is_process || self.processes.values().any(names)
    }

    fn find(&self, wanted: impl Fn(&Process) -> bool) -> Vec<u32> {
        self.processes.iter().filter(|(_, p)| wanted(p)).map(|(&pid, _)| pid).collect()
    }
}

impl Process {
    fn is_over(&self) -> bool {
        self.state == State::Ended
    }

    fn shown(&self) -> Shown {
        let group = if self.group < UNKNOWN { self.group } else { 0 };
        let (kind, status) = self.end.map_or((0, 0), |(kind, status)| (kind as u32, status));
        (self.parent, group, self.life.0.into(), self.state as u16, kind, status)
    }
}

/// Parent, group, kernel, state, end and status.
type Shown = (u32, u32, u16, u16, u32, u32);

fn listed(l: &Listed, is_known: bool) -> Shown {
    let group = if l.group == l.pid && !is_known { 0 } else { l.group };
    (l.parent, group, l.kernel, l.state, l.kind, l.status)
}
