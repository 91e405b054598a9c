//! Moves of running processes between kernels: each outcome, and random histories in which never
//! more than one kernel runs a process.

use crate::common::*;
use abi::process::{End, Errno, Op, Reply, Request, State, flag, signal};
use abi::quota::Quota;
use base::prng::Prng;
use processes::client::{Account, News};
use share::{Event, Token};
use std::collections::BTreeMap;

fn move_to(pid: u32, kernel: u16) -> Request {
    Request { pid: pid as i32, kernel, ..Request::new(Op::Move) }
}

/// Returns a Depart and its bulk.
fn depart(pid: u32, kernel: u16) -> (Request, Vec<u8>) {
    let bulk = vec![7; 100];
    let length = bulk.len() as u32;
    (Request { pid: pid as i32, kernel, length, ..Request::new(Op::Depart) }, bulk)
}

/// A process that kernel 1 passes to kernel 2, as a caller on kernel 0 has asked.
struct Moving {
    world: World,
    pid: u32,
    shell: u32,
    /// The callers of Move and of Depart.
    asker: Token,
    origin: Token,
}

impl Moving {
    fn new() -> Moving {
        let mut world = World::new();
        (0..3).for_each(|kernel| assert_eq!(world.next(kernel), None));
        let shell = world.shell();
        let pid = world.run(1, shell, 0);
        let asker = world.park(0, move_to(pid, 2), &mut []);
        assert_eq!(world.next(1), Some(News::Move { pid, kernel: 2 }));
        assert_eq!(world.next(1), None, "it gets that once");
        let (request, mut bulk) = depart(pid, 2);
        let origin = world.park(1, request, &mut bulk);
        world.take_woken();
        Moving { world, pid, shell, asker, origin }
    }

    /// Returns what the callers of Move and of Depart get, which must have been woken.
    fn outcomes(&mut self) -> [Errno; 2] {
        let woken = self.world.take_woken();
        assert!(woken.contains(&self.asker) && woken.contains(&self.origin), "{woken:?}");
        let (request, mut bulk) = depart(self.pid, 2);
        let departed = self.world.again(self.origin, request, &mut bulk);
        let moved = self.world.again(self.asker, move_to(self.pid, 2), &mut []);
        [moved, departed].map(|reply| reply.as_ref().map(Reply::errno).unwrap())
    }

    fn begun(&mut self, how: Result<u64, Errno>) -> Result<(), Errno> {
        let pid = self.pid;
        self.world.with(2, |c| c.begun(pid, Quota::default(), how).map(|_| ()))
    }

    fn ended(&mut self, kernel: u8) -> Result<(), Errno> {
        let pid = self.pid;
        self.world.with(kernel, |c| c.ended(pid, End::Exit, 0, Account::default()))
    }
}

#[test]
fn a_process_moves_and_moves_back() {
    let mut it = Moving::new();
    assert_eq!(it.ended(1), Err(Errno::Perm), "kernel 1 does not run it meanwhile");
    assert_eq!(it.world.fetch(2), it.pid);
    assert_eq!(it.begun(Ok(5)), Ok(()));
    assert_eq!(it.outcomes(), [Errno::Success; 2]);
    let listed = it.world.about(it.pid).unwrap();
    assert_eq!((listed.kernel, listed.parent), (2, it.shell));
    let back = it.world.park(0, move_to(it.pid, 1), &mut []);
    assert_eq!(it.world.next(2), Some(News::Move { pid: it.pid, kernel: 1 }));
    let (request, mut bulk) = depart(it.pid, 1);
    it.world.park(2, request, &mut bulk);
    assert_eq!(it.world.fetch(1), it.pid);
    let pid = it.pid;
    it.world.with(1, |c| c.begun(pid, Quota::default(), Ok(1))).unwrap();
    assert!(it.world.again(back, move_to(pid, 1), &mut []).is_some_and(|r| r.error == 0));
    assert_eq!(it.ended(1), Ok(()));
    let end = it.world.with(0, |c| c.wait(it.shell, pid as i32)).unwrap();
    assert_eq!((end.pid, end.end), (pid, End::Exit));
}

#[test]
fn a_process_that_cannot_move_stays() {
    let mut world = World::new();
    (0..3).for_each(|kernel| assert_eq!(world.next(kernel), None));
    let pid = world.run(1, 0, 0);
    assert_eq!(world.errno(0, move_to(pid, 1), &mut []), Errno::Success, "it is there");
    assert_eq!(world.errno(0, move_to(pid, 7), &mut []), Errno::Hostunreach);
    assert_eq!(world.errno(0, move_to(999, 2), &mut []), Errno::Srch);
    let asker = world.park(0, move_to(pid, 2), &mut []);
    assert_eq!(world.errno(0, move_to(pid, 0), &mut []), Errno::Busy);
    assert_eq!(world.next(1), Some(News::Move { pid, kernel: 2 }));
    assert_eq!(world.with(2, |c| c.stay(pid, Errno::Notsup)), Err(Errno::Perm));
    assert_eq!(world.with(1, |c| c.stay(pid, Errno::Success)), Err(Errno::Inval));
    assert_eq!(world.with(1, |c| c.stay(pid, Errno::Notsup)), Ok(()));
    assert_eq!(world.take_woken(), [asker]);
    let reply = world.again(asker, move_to(pid, 2), &mut []).unwrap();
    assert_eq!(reply.errno(), Errno::Notsup);
    let (request, mut bulk) = depart(pid, 2);
    assert_eq!(world.errno(1, request, &mut bulk), Errno::Inval, "nothing asks for it any more");
}

#[test]
fn a_move_that_nothing_waits_for_is_called_off() {
    let mut world = World::new();
    (0..3).for_each(|kernel| assert_eq!(world.next(kernel), None));
    let pid = world.run(1, 0, 0);
    let askers = [0; 2].map(|_| world.park(0, move_to(pid, 2), &mut []));
    world.tell(Event::Cancel(askers[0]));
    assert_eq!(world.errno(0, move_to(pid, 0), &mut []), Errno::Busy);
    assert_eq!(world.next(1), Some(News::Move { pid, kernel: 2 }));
    world.tell(Event::Cancel(askers[1]));
    let (request, mut bulk) = depart(pid, 2);
    assert_eq!(world.errno(1, request, &mut bulk), Errno::Inval);
    // One that has asked for it itself leaves, and so gives up.
    let by_itself = Request { parent: pid, ..move_to(pid, 2) };
    let own = world.park(1, by_itself, &mut []);
    world.tell(Event::Cancel(own));
    assert_eq!(world.next(1), Some(News::Move { pid, kernel: 2 }));
    world.park(1, request, &mut bulk);
    assert_eq!(world.fetch(2), pid);
}

#[test]
fn only_an_ancestor_or_the_group_moves_a_process() {
    let mut world = World::new();
    (0..3).for_each(|kernel| assert_eq!(world.next(kernel), None));
    let [one, other] = [0; 2].map(|_| world.run(1, 0, flag::NEW_GROUP));
    let child = world.run(1, one, 0);
    let by = |parent, pid, flags| Request { parent, flags, ..move_to(pid, 2) };
    assert_eq!(world.errno(0, by(other, child, 0), &mut []), Errno::Perm);
    world.park(0, by(one, child, 0), &mut []);
    world.park(0, by(other, one, flag::ANY_PROCESS), &mut []);
}

#[test]
fn one_that_does_not_begin_at_its_destination_is_given_back() {
    let mut it = Moving::new();
    it.world.fetch(2);
    assert_eq!(it.begun(Err(Errno::Nomem)), Ok(()));
    assert_eq!(it.outcomes(), [Errno::Nomem; 2]);
    assert_eq!(it.world.about(it.pid).unwrap().kernel, 1);
    assert_eq!(it.begun(Ok(1)), Err(Errno::Perm), "too late");
    assert_eq!(it.ended(1), Ok(()));
}

#[test]
fn one_whose_destination_dies_is_given_back() {
    for is_fetched in [false, true] {
        let mut it = Moving::new();
        if is_fetched {
            it.world.fetch(2);
        }
        it.world.gone(2);
        assert_eq!(it.outcomes(), [Errno::Hostunreach; 2]);
        assert_eq!(it.world.state(it.pid), Some(State::Running));
        assert_eq!(it.ended(1), Ok(()));
    }
}

#[test]
fn one_whose_origin_dies_on_the_way_is_lost() {
    for is_fetched in [false, true] {
        let mut it = Moving::new();
        if is_fetched {
            it.world.fetch(2);
        }
        it.world.gone(1);
        assert_eq!(it.world.next(2), None);
        let end = it.world.with(0, |c| c.wait(it.shell, it.pid as i32)).unwrap();
        assert_eq!(end.end, End::Lost);
        assert_eq!(it.begun(Ok(1)), Err(Errno::Srch), "it does not run there");
        let reply = it.world.again(it.asker, move_to(it.pid, 2), &mut []).unwrap();
        assert_eq!(reply.errno(), Errno::Srch);
    }
}

#[test]
fn one_that_is_killed_on_the_way_ends() {
    let mut it = Moving::new();
    it.world.with(0, |c| c.kill(0, it.pid as i32, signal::TERM)).unwrap();
    assert_eq!(it.outcomes(), [Errno::Srch, Errno::Success], "its origin drops it");
    assert_eq!(it.world.next(2), None);
    let end = it.world.with(0, |c| c.wait(it.shell, it.pid as i32)).unwrap();
    assert_eq!((end.end, end.status), (End::Signal, signal::TERM.into()));

    // After it was fetched, the other kernel ends it; or gives it back, and it ends then.
    for is_told in [false, true] {
        let mut it = Moving::new();
        it.world.fetch(2);
        let pid = it.pid;
        it.world.with(0, |c| c.kill(0, pid as i32, signal::TERM)).unwrap();
        if is_told {
            assert_eq!(it.world.next(2), Some(News::Stop { pid, signal: signal::TERM }));
        }
        assert_eq!(it.begun(Err(Errno::Nomem)), Ok(()));
        assert_eq!(it.outcomes(), [Errno::Nomem; 2]);
        assert!(matches!(it.world.next(1), Some(News::Stop { pid: it, .. }) if it == pid));
    }
    // Its kernel has the signal before it passes it on.
    let mut world = World::new();
    (0..3).for_each(|kernel| assert_eq!(world.next(kernel), None));
    let pid = world.run(1, 0, 0);
    world.park(0, move_to(pid, 2), &mut []);
    world.with(0, |c| c.kill(0, pid as i32, signal::TERM)).unwrap();
    let (request, mut bulk) = depart(pid, 2);
    assert_eq!(world.errno(1, request, &mut bulk), Errno::Intr);
}

#[test]
fn a_restarted_table_lets_neither_kernel_run_it() {
    let mut it = Moving::new();
    it.world.fetch(2);
    it.world.table = World::of_life(2).table;
    it.world.tell_all();
    let (request, mut bulk) = depart(it.pid, 2);
    let reply = it.world.again(it.origin, request, &mut bulk).unwrap();
    assert_eq!(reply.errno(), Errno::Restarted);
    assert_eq!(it.begun(Ok(1)), Err(Errno::Srch));
}

/// What a kernel does with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Starts,
    Runs,
    Departs(Token, u16),
}

/// Kernels that move processes about, by the contract of Depart.
struct Play {
    world: World,
    random: Prng,
    does: [BTreeMap<u32, Doing>; 3],
    moves: u32,
}

impl Play {
    fn ask(&mut self, kernel: u8, request: Request) -> Option<Reply> {
        let (token, mut bulk) = (self.world.token(kernel), vec![7; 100]);
        let reply = self.world.ask(token, request, &mut bulk);
        if let (Some(Op::Depart), None) = (Op::from_code(request.op), reply) {
            let doing = Doing::Departs(token, request.kernel);
            self.does[usize::from(kernel)].insert(request.pid as u32, doing);
        }
        reply
    }

    /// The woken callers of Depart get their outcomes.
    fn drain(&mut self) {
        for token in self.world.take_woken() {
            let does = &mut self.does[usize::from(token.kernel)];
            let departs = |(&pid, &doing): (&u32, &Doing)| match doing {
                Doing::Departs(by, kernel) if by == token => Some((pid, kernel)),
                _ => None,
            };
            let Some((pid, kernel)) = does.iter().find_map(departs) else { continue };
            let (request, mut bulk) = depart(pid, kernel);
            match self.world.again(token, request, &mut bulk).map(|reply| reply.errno()) {
                None => {}
                Some(Errno::Success) => {
                    does.remove(&pid);
                    self.moves += 1;
                }
                Some(_) => drop(does.insert(pid, Doing::Runs)),
            }
        }
    }

    fn operate(&mut self) {
        let kernel = self.random.below(3) as u8;
        let all: Vec<_> = self.does[usize::from(kernel)].iter().map(|it| (*it.0, *it.1)).collect();
        let chosen = (!all.is_empty()).then(|| all[self.random.below(all.len() as u64) as usize]);
        let (pid, doing) = chosen.map_or((0, None), |(pid, doing)| (pid, Some(doing)));
        let to = self.random.below(3) as u16;
        match (self.random.below(12), doing) {
            (0, _) => {
                let (request, mut bulk) = spawn(to, 0, 0);
                let token = self.world.token(kernel);
                self.world.ask(token, request, &mut bulk);
            }
            (1..5, _) => match self.world.next(kernel) {
                Some(News::Begin { pid, .. }) => {
                    self.does[usize::from(kernel)].insert(pid, Doing::Starts);
                }
                Some(News::Move { pid, kernel: to }) => {
                    let request = match self.random.below(4) {
                        0 => Request { status: Errno::Notsup as u32, ..Request::new(Op::Stay) },
                        _ => depart(pid, to).0,
                    };
                    self.ask(kernel, Request { pid: pid as i32, ..request });
                }
                Some(News::Stop { pid, .. }) => self.end(kernel, pid),
                _ => {}
            },
            (5..8, Some(Doing::Starts)) => {
                let status = if self.random.chance(1, 3) { Errno::Nomem as u32 } else { 0 };
                let begun = Request { pid: pid as i32, status, ..Request::new(Op::Begun) };
                let is_accepted = self.ask(kernel, begun).is_some_and(|reply| reply.error == 0);
                let does = &mut self.does[usize::from(kernel)];
                match is_accepted && status == 0 {
                    true => drop(does.insert(pid, Doing::Runs)),
                    false => drop(does.remove(&pid)),
                }
            }
            (8, Some(Doing::Runs)) if self.random.chance(1, 3) => self.end(kernel, pid),
            (9, Some(_)) => drop(self.ask(kernel, move_to(pid, to))),
            (10, Some(_)) if self.random.chance(1, 3) => {
                let signal = signal::KILL;
                let kill = Request { pid: pid as i32, signal, ..Request::new(Op::Kill) };
                self.ask(kernel, kill);
            }
            (11, _) if self.random.chance(1, 20) => {
                self.world.gone(kernel);
                self.world.epochs[usize::from(kernel)] += 1;
                self.does[usize::from(kernel)].clear();
            }
            _ => {}
        }
        self.drain();
    }

    fn end(&mut self, kernel: u8, pid: u32) {
        let does = &mut self.does[usize::from(kernel)];
        if matches!(does.get(&pid), Some(Doing::Starts | Doing::Runs)) {
            does.remove(&pid);
            let end = Request { pid: pid as i32, kind: 1, ..Request::new(Op::Ended) };
            self.ask(kernel, end);
        }
    }

    fn check(&mut self, seed: u64) {
        let mut runs = BTreeMap::new();
        for (kernel, does) in self.does.clone().into_iter().enumerate() {
            for (pid, _) in does.into_iter().filter(|(_, doing)| *doing == Doing::Runs) {
                let other = runs.insert(pid, kernel);
                assert_eq!(other, None, "seed {seed}: {pid} runs on two kernels");
                let listed = self.world.about(pid);
                let is_there = listed.is_some_and(|it| usize::from(it.kernel) == kernel);
                assert!(is_there, "seed {seed}: {pid} runs on {kernel}: {listed:?}");
            }
        }
    }
}

#[test]
fn one_kernel_at_most_runs_a_process() {
    let mut moves = 0;
    for seed in 0..1000 {
        let (world, random) = (World::new(), Prng::new(seed));
        let does = [const { BTreeMap::new() }; 3];
        let mut play = Play { world, random, does, moves: 0 };
        for _ in 0..300 {
            play.operate();
            play.check(seed);
        }
        moves += play.moves;
        (0..3).for_each(|kernel| play.world.gone(kernel));
        while play.world.tick() {}
        assert_eq!(play.world.table.census(), (0, 0), "seed {seed}");
    }
    assert!(moves > 1000, "{moves} moves");
}
