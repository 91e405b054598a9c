//! Random operations of three kernels that start and end processes, kill, wait, give up and die.
//! After each one, judged only by what the table lists:
//!
//! - no number is given twice, and no end is reported twice;
//! - what a kernel has fetched of a process before it has begun, Begun returns;
//! - a child with a living parent, or a watched process, is removed by a successful Wait and by
//!   nothing else; a process for which no Wait will come is removed when it ends;
//! - no caller stays parked that could be answered, and none of a dead kernel;
//! - when all processes have ended, all callers have been answered;
//! - all of this holds even if half of the wakes of kernels parked in Next are lost, once the
//!   table's timer has fired.

use crate::common::*;
use abi::process::{End, Errno, Listed, Op, PROCESSES, Reply, Request, State, flag, signal};
use abi::quota::RESERVED_PROCESSES;
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use share::{Event, Token};
use std::collections::{BTreeMap, BTreeSet};

const KERNELS: u64 = 3;

struct Play {
    world: World,
    random: Prng,
    seed: u64,
    /// A kernel dies about once in `32 * deaths` operations.
    deaths: u64,
    /// Half of the wakes of kernels parked in Next get lost.
    loses: bool,
    parked: BTreeMap<Token, (Request, Vec<u8>)>,
    /// The processes that each kernel runs, and whether each was reported as started.
    runs: [BTreeMap<u32, bool>; KERNELS as usize],
    /// The watched processes, and the kernel that watches each.
    watched: BTreeMap<u32, u8>,
    given: BTreeSet<u32>,
    fetched: BTreeSet<u32>,
    /// The signals and groups that kernels have fetched of processes that have not begun.
    early: BTreeMap<u32, [u32; 2]>,
    reported: BTreeSet<u32>,
    /// Processes that this operation may remove without reporting their end.
    excused: BTreeSet<u32>,
}

fn state(listed: &Listed) -> State {
    State::from_code(listed.state).unwrap()
}

fn is_wanted(listed: &Listed, request: &Request, asker: &Listed) -> bool {
    match request.pid {
        1.. => listed.pid == request.pid as u32,
        0 => listed.group == asker.group,
        -1 => true,
        _ => listed.group == request.pid.unsigned_abs(),
    }
}

impl Play {
    fn new(seed: u64) -> Play {
        Play {
            world: World::new(),
            random: Prng::new(seed),
            seed,
            deaths: 4,
            loses: false,
            parked: BTreeMap::new(),
            runs: [const { BTreeMap::new() }; KERNELS as usize],
            watched: BTreeMap::new(),
            given: BTreeSet::new(),
            fetched: BTreeSet::new(),
            early: BTreeMap::new(),
            reported: BTreeSet::new(),
            excused: BTreeSet::new(),
        }
    }

    fn list(&mut self) -> BTreeMap<u32, Listed> {
        // The token is of a kernel; listing changes nothing.
        let (token, mut bulk) = (self.world.token(0), vec![0; PROCESSES * size_of::<Listed>()]);
        let reply = self.world.ask(token, Request::new(Op::List), &mut bulk).unwrap();
        bulk.truncate(reply.filled as usize);
        let all = processes::client::Client(&mut |_, to: &mut [u8]| {
            to[..bulk.len()].copy_from_slice(&bulk);
            reply
        })
        .list_some(0, PROCESSES)
        .unwrap();
        all.into_iter().map(|listed| (listed.pid, listed)).collect()
    }

    fn pick<T: Copy>(&mut self, from: impl IntoIterator<Item = T>) -> Option<T> {
        let all = Vec::from_iter(from);
        (!all.is_empty()).then(|| all[self.random.below(all.len() as u64) as usize])
    }

    fn ask(&mut self, kernel: u8, request: Request, mut bulk: Vec<u8>) {
        let token = self.world.token(kernel);
        let reply = self.world.ask(token, request, &mut bulk);
        self.received(token, request, bulk, reply);
        self.drain();
    }

    /// Every woken caller repeats its request, in random order.
    fn drain(&mut self) {
        let mut woken = self.world.take_woken();
        while !woken.is_empty() {
            let token = woken.swap_remove(self.random.below(woken.len() as u64) as usize);
            if self.loses && self.is_lost(token) {
                continue;
            }
            let parked = self.parked.remove(&token);
            let (request, mut bulk) = parked.expect("a woken caller was parked, once");
            let reply = self.world.again(token, request, &mut bulk);
            self.received(token, request, bulk, reply);
            woken.extend(self.world.take_woken());
        }
    }

    /// Returns whether this wake is lost; only wakes of callers of Next are.
    fn is_lost(&mut self, token: Token) -> bool {
        let (request, _) = self.parked.get(&token).expect("a woken caller was parked");
        request.op == Op::Next as u16 && self.random.chance(1, 2)
    }

    /// Lets the table's timer fire, without losing wakes, until the table sets it no more.
    fn catch_up(&mut self) {
        let loses = std::mem::replace(&mut self.loses, false);
        // Processes may be waiting for a kernel that does not come back.
        let waiting = self.list().into_values().filter(|listed| state(listed) == State::Waiting);
        self.excused.extend(waiting.map(|listed| listed.pid));
        for round in 0.. {
            assert!(round < 13, "seed {}: the table keeps setting its timer", self.seed);
            if !self.world.tick() {
                break;
            }
            self.drain();
        }
        self.loses = loses;
    }

    fn received(&mut self, token: Token, request: Request, bulk: Vec<u8>, reply: Option<Reply>) {
        let Some(reply) = reply else {
            self.parked.insert(token, (request, bulk));
            return;
        };
        assert_ne!(reply.errno(), Errno::Restarted);
        if reply.error != 0 {
            return;
        }
        let (seed, pid) = (self.seed, reply.pid);
        match Op::from_code(request.op).unwrap() {
            Op::Spawn => {
                assert!(self.given.insert(pid), "seed {seed}: {pid} twice");
                if request.flags & flag::WATCHED != 0 && !self.reported.contains(&pid) {
                    self.watched.insert(pid, token.kernel);
                }
                if request.flags & flag::HERE != 0 {
                    self.starts_here(token, pid);
                }
            }
            Op::Begun if request.status == 0 => {
                let [stop, group] = self.early.remove(&(request.pid as u32)).unwrap_or_default();
                assert!(stop == 0 || reply.status != 0, "seed {seed}: {request:?} {reply:?}");
                let now = self.list().get(&(request.pid as u32)).map_or(0, |listed| listed.group);
                assert!(group == 0 || reply.group == now, "seed {seed}: {request:?} {reply:?}");
            }
            Op::Next if reply.kind == 1 => {
                assert!(self.fetched.insert(pid), "seed {seed}: {pid} twice");
                self.runs[usize::from(token.kernel)].insert(pid, false);
            }
            Op::Next => {
                let runs = &self.runs[usize::from(token.kernel)];
                let has_begun = runs.get(&pid).copied();
                let has_begun = has_begun.unwrap_or_else(|| panic!("seed {seed}: {pid} runs not"));
                let early = self.early.entry(pid).or_default();
                match reply.kind {
                    _ if has_begun => {}
                    2 => early[0] = reply.status,
                    _ => early[1] = reply.group,
                }
            }
            Op::Wait if pid != 0 => {
                assert!(self.reported.insert(pid), "seed {seed}: {pid} was reported twice");
                self.watched.remove(&pid);
            }
            Op::Leave => {
                self.watched.remove(&(request.pid as u32));
            }
            _ => {}
        }
    }

    /// A kernel starts a process itself, or has lost the reply.
    fn starts_here(&mut self, token: Token, pid: u32) {
        if self.random.chance(1, 8) {
            self.excused.insert(pid);
            self.watched.remove(&pid);
            self.world.tell(Event::Cancel(token));
            return;
        }
        self.fetched.insert(pid);
        self.runs[usize::from(token.kernel)].insert(pid, false);
    }

    fn spawn(&mut self, kernel: u8, parent: Option<u32>) {
        let flags = match self.random.below(4) {
            0 => flag::NEW_GROUP,
            _ => 0,
        };
        let watched = if self.random.chance(1, 2) { flag::WATCHED } else { 0 };
        let (parent, flags) = parent.map_or((0, flags | watched), |parent| (parent, flags));
        let at = self.random.below(KERNELS) as u16;
        let is_here = at == u16::from(kernel) && self.random.chance(1, 2);
        let (request, bulk) = spawn(at, parent, if is_here { flags | flag::HERE } else { flags });
        self.ask(kernel, request, bulk);
    }

    fn end(&mut self, kernel: u8, pid: u32) {
        self.runs[usize::from(kernel)].remove(&pid);
        let (kind, status) = (End::Exit as u32, pid);
        let pid = pid as i32;
        self.ask(kernel, Request { pid, kind, status, ..Request::new(Op::Ended) }, Vec::new());
    }

    fn begun(&mut self, kernel: u8, pid: u32) {
        let status = if self.random.chance(1, 5) { Errno::Noexec as u32 } else { 0 };
        let runs = &mut self.runs[usize::from(kernel)];
        if status == 0 {
            runs.insert(pid, true);
        } else {
            runs.remove(&pid);
            self.watched.remove(&pid);
            self.excused.insert(pid);
        }
        let pid = pid as i32;
        self.ask(kernel, Request { pid, status, ..Request::new(Op::Begun) }, Vec::new());
    }

    fn wait(&mut self, kernel: u8, before: &BTreeMap<u32, Listed>, parent: Option<u32>) {
        let flags = if self.random.chance(1, 3) { flag::NO_HANG } else { 0 };
        let any = self.pick(before.keys().copied()).unwrap_or(9) as i32;
        let watched = self.watched.keys().copied().collect::<Vec<_>>();
        let (parent, pid) = match (parent, self.random.below(4)) {
            (Some(parent), 0) => (parent, any),
            (Some(parent), 1) => (parent, 0),
            (Some(parent), 2) => (parent, -(before[&parent].group as i32)),
            (Some(parent), _) => (parent, -1),
            (None, _) => (0, self.pick(watched).map_or(any, |pid| pid as i32)),
        };
        self.ask(kernel, Request { flags, ..wait(parent, pid) }, Vec::new());
    }

    fn cancel(&mut self, before: &BTreeMap<u32, Listed>) {
        if let Some(token) = self.pick(self.parked.keys().copied().collect::<Vec<_>>()) {
            let (request, _) = self.parked.remove(&token).unwrap();
            if request.op == Op::Spawn as u16 {
                let waiting = before.values().filter(|listed| state(listed) == State::Waiting);
                self.excused.extend(waiting.map(|listed| listed.pid));
            }
            self.world.tell(Event::Cancel(token));
            self.drain();
        }
    }

    /// A kernel dies. Either the table learns it first, or the next life's request comes first.
    fn die(&mut self, kernel: u8, before: &BTreeMap<u32, Listed>) {
        let at = usize::from(kernel);
        let epoch = Epoch(self.world.epochs[at]);
        self.world.epochs[at] += 1;
        self.parked.retain(|token, _| token.kernel != kernel);
        self.watched.retain(|_, by| *by != kernel);
        self.runs[at].clear();
        let unbegun = |l: &&Listed| matches!(state(l), State::Waiting | State::Starting);
        let there = before.values().filter(|l| l.kernel == u16::from(kernel)).filter(unbegun);
        self.excused.extend(there.map(|listed| listed.pid));
        if self.random.chance(1, 2) {
            self.ask(kernel, Request::new(Op::Next), vec![0; 100]);
        }
        for _ in 0..1 + self.random.below(2) {
            self.world.tell(Event::Gone(DomainId(kernel), epoch));
            self.drain();
        }
    }

    fn kill(&mut self, kernel: u8, before: &BTreeMap<u32, Listed>) {
        let Some(listed) = self.pick(before.values().copied()) else { return };
        let signal = [signal::NONE, signal::TERM, signal::KILL, 17][self.random.below(4) as usize];
        let (pid, parent) = match self.random.below(8) {
            0 => (-(listed.group as i32), 0),
            1 => (0, listed.pid),
            _ => (listed.pid as i32, 0),
        };
        self.ask(kernel, Request { pid, parent, signal, ..Request::new(Op::Kill) }, Vec::new());
    }

    fn group(&mut self, kernel: u8, before: &BTreeMap<u32, Listed>) {
        let any = self.pick(before.values().copied()).zip(self.pick(before.values().copied()));
        let Some((one, other)) = any else { return };
        let parent = if self.random.chance(1, 2) { one.parent } else { other.pid };
        let group = if self.random.chance(1, 3) { 0 } else { other.group };
        let pid = one.pid as i32;
        self.ask(kernel, Request { pid, parent, group, ..Request::new(Op::Group) }, Vec::new());
    }

    /// Does one random operation and checks the table. Processes end with a chance of `ends` / 8.
    fn operate(&mut self, ends: u64) {
        let before = self.list();
        let kernel = self.random.below(KERNELS) as u8;
        let runs = &self.runs[usize::from(kernel)];
        let starting: Vec<_> = runs.iter().filter(|run| !*run.1).map(|run| *run.0).collect();
        let running: Vec<_> = runs.iter().filter(|run| *run.1).map(|run| *run.0).collect();
        let parent = self.pick(running);
        match self.random.below(32) {
            0..7 => self.spawn(kernel, parent),
            7..13 => self.ask(kernel, Request::new(Op::Next), vec![0; 100]),
            13..18 => {
                if let Some(pid) = self.pick(starting) {
                    self.begun(kernel, pid);
                }
            }
            18..22 => {
                if let Some(pid) = parent.filter(|_| self.random.chance(ends, 8)) {
                    self.end(kernel, pid);
                }
            }
            22..26 => self.wait(kernel, &before, parent),
            26..28 => self.kill(kernel, &before),
            28 => self.group(kernel, &before),
            29 => self.cancel(&before),
            30 if self.random.chance(1, self.deaths) => self.die(kernel, &before),
            30 => {
                if let Some(pid) = self.pick(self.watched.keys().copied().collect::<Vec<_>>()) {
                    let pid = pid as i32;
                    self.ask(kernel, Request { pid, ..Request::new(Op::Leave) }, Vec::new());
                }
            }
            _ => self.spawn(kernel, None),
        }
        if self.loses {
            self.catch_up();
        }
        self.check(&before);
        self.excused.clear();
    }

    fn check(&mut self, before: &BTreeMap<u32, Listed>) {
        let (seed, after) = (self.seed, self.list());
        let lives = |pid: u32| after.get(&pid).is_some_and(|l| state(l) != State::Ended);
        for (pid, listed) in before.iter().filter(|(pid, _)| !after.contains_key(pid)) {
            let is_wanted = lives(listed.parent) || self.watched.contains_key(pid);
            let is_excused = self.reported.contains(pid) || self.excused.contains(pid);
            assert!(!is_wanted || is_excused, "seed {seed}: {listed:?} is gone");
        }
        for (pid, listed) in &after {
            assert!(listed.parent == 0 || lives(listed.parent), "seed {seed}: {listed:?}");
            let is_watched = listed.parent != 0 || self.watched.contains_key(pid);
            assert!(state(listed) != State::Ended || is_watched, "seed {seed}: {listed:?} stays");
            assert!(!self.reported.contains(pid), "seed {seed}: {listed:?} was reported");
        }
        for (token, (request, _)) in &self.parked {
            assert_eq!(token.epoch, self.world.epochs[usize::from(token.kernel)], "seed {seed}");
            let could = Self::could(*token, request, &after);
            assert!(!could, "seed {seed}: {token:?} waits: {request:?}");
        }
        let (records, asks) = self.world.table.census();
        assert_eq!((records, asks), (after.len(), self.parked.len()), "seed {seed}");
        assert!(records <= PROCESSES);
    }

    /// Returns whether this parked caller could be answered.
    fn could(token: Token, request: &Request, after: &BTreeMap<u32, Listed>) -> bool {
        match Op::from_code(request.op).unwrap() {
            Op::Next => {
                let kernel = u16::from(token.kernel);
                after.values().any(|l| state(l) == State::Waiting && l.kernel == kernel)
            }
            Op::Wait if request.parent == 0 => {
                after.get(&(request.pid as u32)).is_none_or(|l| state(l) == State::Ended)
            }
            Op::Wait => {
                let Some(asker) = after.get(&request.parent) else { return true };
                let mut children = after.values().filter(|l| l.parent == asker.pid);
                let wanted = |l: &&Listed| is_wanted(l, request, asker);
                let mut wanted = children.by_ref().filter(wanted).peekable();
                wanted.peek().is_none() || wanted.any(|l| state(l) == State::Ended)
            }
            Op::Spawn => {
                let unbegun = |l: &Listed| matches!(state(l), State::Waiting | State::Starting);
                !after.values().any(unbegun)
            }
            _ => true,
        }
    }

    /// Ends all processes: all callers but those of Next must be answered. Then all kernels die.
    fn finish(&mut self) {
        while self.list().values().any(|listed| state(listed) != State::Ended) {
            for kernel in 0..KERNELS as u8 {
                let before = self.list();
                self.ask(kernel, Request::new(Op::Next), vec![0; 100]);
                for pid in self.runs[usize::from(kernel)].keys().copied().collect::<Vec<_>>() {
                    self.end(kernel, pid);
                }
                self.catch_up();
                self.check(&before);
            }
        }
        let only_next = self.parked.values().all(|(request, _)| request.op == Op::Next as u16);
        assert!(only_next, "seed {}: {:?}", self.seed, self.parked);
        for pid in self.watched.keys().copied().collect::<Vec<_>>() {
            self.ask(0, wait(0, pid as i32), Vec::new());
        }
        assert!(self.watched.is_empty(), "seed {}", self.seed);
        (0..KERNELS as u8).for_each(|kernel| self.world.gone(kernel));
        assert_eq!(self.world.table.census(), (0, 0), "seed {}", self.seed);
        assert!(self.world.take_woken().is_empty(), "seed {}", self.seed);
    }
}

#[test]
fn a_lost_wake_is_repeated() {
    for seed in 0..1000 {
        let mut play = Play::new(seed);
        play.loses = true;
        (0..150).for_each(|_| play.operate(6));
        play.finish();
    }
}

#[test]
fn no_end_is_lost_or_reported_twice() {
    let (mut given, mut reported) = (0, 0);
    for seed in 0..3000 {
        let mut play = Play::new(seed);
        (0..150).for_each(|_| play.operate(6));
        play.finish();
        given += play.given.len();
        reported += play.reported.len();
    }
    println!("{given} processes, {reported} ends reported");
    assert!(given > 20_000 && reported > 5_000, "{given} processes, {reported} ends reported");
}

#[test]
fn a_full_table_keeps_working() {
    for seed in 0..4 {
        let mut play = Play { deaths: 100, ..Play::new(seed) };
        let mut full = 0;
        for _ in 0..12_000 {
            play.operate(1);
            let is_full = play.world.table.census().0 >= PROCESSES - RESERVED_PROCESSES;
            full += u32::from(is_full);
        }
        play.finish();
        assert!(full > 100, "seed {seed}: {full} times");
    }
}
