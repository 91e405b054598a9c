//! Tests of `manager`: single steps, and two and three kernels under random load, with slow and
//! lost messages, failing transfers, and deaths.

use std::collections::VecDeque;
use std::vec::Vec;

use base::prng::Prng;

use super::*;

const LIMITS: Limits = Limits { low: 1000, reserve: 3000, hold_ns: 1000, retry_ns: (100, 1600) };
const A: DomainId = DomainId(0);
const B: DomainId = DomainId(1);
const C: DomainId = DomainId(2);

fn sample(free: usize, pool: usize, others: &[(DomainId, u32)]) -> Event {
    let mut spare = [None; MAX_DOMAINS];
    others.iter().for_each(|&(peer, frames)| spare[peer.index()] = Some(frames));
    Event::Sampled(Sample { free, pool, spare })
}

fn done(manager: &mut Manager, now: u64, event: Event) -> Vec<Action> {
    manager.step(now, event).iter().collect()
}

#[test]
fn a_kernel_in_need_takes_from_the_pool_first() {
    let mut m = Manager::new(A, LIMITS);
    assert_eq!(done(&mut m, 0, sample(1000, 3, &[(B, 9)])), []);
    assert_eq!(done(&mut m, 1, sample(999, 3, &[(B, 9)])), [Action::Deflate]);
    assert_eq!(done(&mut m, 2, sample(900, 3, &[(B, 9)])), [], "one at a time");
    assert_eq!(done(&mut m, 3, Event::Deflated(true)), []);
    assert_eq!(done(&mut m, 4, sample(990, 3, &[])), [Action::Deflate], "still below");
}

#[test]
fn a_kernel_in_need_asks_all_peers_those_with_most_memory_first() {
    let mut m = Manager::new(A, LIMITS);
    let event = sample(5, 0, &[(B, 10), (C, 20)]);
    assert_eq!(done(&mut m, 0, event), [Action::Ask(C)]);
    assert_eq!(done(&mut m, 1, Event::Answered(B, true)), [], "not asked");
    assert_eq!(done(&mut m, 1, Event::Answered(C, false)), [Action::Ask(B)]);
    assert_eq!(done(&mut m, 2, Event::Answered(B, false)), [Action::WakeAt(102)]);
    assert_eq!(done(&mut m, 50, event), [Action::WakeAt(102)]);
    assert_eq!(done(&mut m, 102, event), [Action::Ask(C)]);
    assert_eq!(done(&mut m, 110, Event::Lost(C)), [Action::Ask(B)]);
    assert_eq!(done(&mut m, 120, Event::Answered(B, false)), [Action::WakeAt(320)], "doubled");
    assert_eq!(done(&mut m, 130, sample(5, 1, &[(B, 0)])), [Action::Deflate], "a block came");
    assert_eq!(done(&mut m, 140, Event::Deflated(false)), [Action::WakeAt(540)], "and went");
    assert_eq!(done(&mut m, 150, sample(5, 1, &[(B, 0)])), [Action::WakeAt(540)], "no hurry");
    assert_eq!(done(&mut m, 540, sample(5, 0, &[(B, 0)])), [Action::Ask(B)]);
    assert_eq!(done(&mut m, 550, Event::Answered(B, true)), [Action::Deflate]);
}

#[test]
fn a_kernel_gives_only_if_it_keeps_its_reserve() {
    let mut m = Manager::new(A, LIMITS);
    let (poor, rich) = (2999 + FRAMES, 3000 + FRAMES);
    done(&mut m, 0, sample(poor, 1, &[(B, 0)]));
    assert_eq!(done(&mut m, 1, Event::Asked(B, poor)), [Action::Answer(B, false)]);
    assert_eq!(done(&mut m, 3, Event::Asked(C, rich)), [Action::Inflate], "some was freed");
    assert_eq!(done(&mut m, 4, Event::Asked(B, rich)), [], "one at a time");
    let answers = [Action::Answer(C, true), Action::Answer(B, false)];
    assert_eq!(
        done(&mut m, 5, Event::Inflated(true)),
        answers,
        "the given block is no longer free"
    );
    assert_eq!(done(&mut m, 7, Event::Asked(B, 9000 + FRAMES)), [Action::Inflate]);
    assert_eq!(done(&mut m, 8, Event::Lost(B)), []);
    assert_eq!(done(&mut m, 9, Event::Inflated(true)), [], "the peer is dead");
}

#[test]
fn a_request_before_the_first_sample_waits_for_it() {
    let mut m = Manager::new(A, LIMITS);
    assert_eq!(done(&mut m, 0, Event::Asked(B, 9)), []);
    assert_eq!(done(&mut m, 1, sample(2000, 1, &[(B, 0)])), [Action::Answer(B, false)]);
}

#[test]
fn a_block_is_kept_in_the_pool_after_the_hold_time() {
    let mut m = Manager::new(A, LIMITS);
    let rich = sample(3000 + 2 * FRAMES, 0, &[(B, 0)]);
    assert_eq!(done(&mut m, 0, rich), [Action::Inflate]);
    assert_eq!(done(&mut m, 1, Event::Inflated(false)), []);
    assert_eq!(done(&mut m, 2, rich), [Action::WakeAt(1001)]);
    assert_eq!(done(&mut m, 1001, rich), [Action::Inflate]);
    done(&mut m, 1002, Event::Inflated(true));
    assert_eq!(done(&mut m, 1003, sample(9000 + 3 * FRAMES, 0, &[])), [], "no peer is there");
}

/// A kernel of the simulation: its memory use, and messages in flight to it.
struct Kernel {
    manager: Manager,
    home: usize,
    blocks: usize,
    used: usize,
    /// The use that its load approaches.
    goal: usize,
    alive: bool,
    /// Arrival time and event.
    inbox: VecDeque<(u64, Event)>,
    /// The end time and action of the transfer in progress.
    doing: Option<(u64, Action)>,
    wake: u64,
    /// Frames freed since it took its last block.
    freed: Option<usize>,
    /// Since when it has needed a block without any progress.
    starving: u64,
}

struct World {
    prng: Prng,
    kernels: Vec<Kernel>,
    pool: usize,
    now: u64,
    moves: usize,
    /// Whether transfers may fail.
    failing: bool,
    bug: Bug,
}

/// A deliberate bug that the simulation must detect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// No kernel gives.
    Greedy,
    /// A kernel overestimates its free memory by two blocks.
    Generous,
}

impl Kernel {
    /// Creates a kernel that boots at `now` with `home` frames of its own.
    fn new(index: usize, home: usize, now: u64) -> Kernel {
        Kernel {
            manager: Manager::new(DomainId(index as u8), LIMITS),
            home,
            blocks: 0,
            used: 0,
            goal: 0,
            alive: true,
            inbox: VecDeque::new(),
            doing: None,
            wake: 0,
            freed: None,
            starving: now,
        }
    }

    fn free(&self) -> usize {
        self.home + self.blocks * FRAMES - self.used
    }
}

impl World {
    fn new(seed: u64, kernels: usize, failing: bool) -> World {
        let mut prng = Prng::new(seed);
        let pool = 1 + prng.below(8) as usize;
        let kernels = (0..kernels).map(|index| Kernel::new(index, 5000, 0)).collect();
        World { prng, kernels, pool, now: 0, moves: 0, failing, bug: Bug::None }
    }

    fn sample(&self, id: usize) -> Event {
        let mut spare = [None; MAX_DOMAINS];
        for (index, kernel) in self.kernels.iter().enumerate() {
            if index != id && kernel.alive {
                spare[index] = Some(kernel.manager.spare(kernel.free()));
            }
        }
        let more = if self.bug == Bug::Generous { 2 * FRAMES } else { 0 };
        let free = self.kernels[id].free();
        let free = if free < LIMITS.low { free } else { free + more };
        Event::Sampled(Sample { free, pool: self.pool, spare })
    }

    fn feed(&mut self, id: usize, event: Event) {
        let actions = self.kernels[id].manager.step(self.now, event);
        for action in actions.iter() {
            let later = self.now + 1 + self.prng.below(40);
            let me = DomainId(id as u8);
            match action {
                Action::WakeAt(at) => self.kernels[id].wake = at,
                Action::Ask(peer) => self.send(peer, later, Event::Asked(me, 0)),
                Action::Answer(peer, gave) => self.send(peer, later, Event::Answered(me, gave)),
                Action::Deflate | Action::Inflate => {
                    let before = self.kernels[id].doing.replace((later, action));
                    assert_eq!(before, None, "one thing at a time");
                }
            }
        }
    }

    fn send(&mut self, to: DomainId, at: u64, event: Event) {
        let to = &mut self.kernels[to.index()];
        if to.alive {
            to.inbox.push_back((at, event));
        }
    }

    /// Takes or gives a block, if that is still possible.
    fn finish(&mut self, id: usize, action: Action) {
        let refuses = self.failing && self.prng.chance(1, 4);
        let kernel = &mut self.kernels[id];
        let event = match action {
            Action::Deflate => {
                let took = self.pool > 0;
                if took {
                    (self.pool, kernel.blocks, kernel.freed) =
                        (self.pool - 1, kernel.blocks + 1, Some(0));
                    self.moves += 1;
                }
                Event::Deflated(took)
            }
            _ => {
                let gives = kernel.blocks > 0 && kernel.free() >= FRAMES && !refuses;
                let gives = gives && self.bug != Bug::Greedy;
                if gives {
                    let freed = kernel.freed.take().unwrap_or(usize::MAX);
                    assert!(freed >= LIMITS.reserve - LIMITS.low, "ping-pong: {freed} freed");
                    (self.pool, kernel.blocks) = (self.pool + 1, kernel.blocks - 1);
                    self.moves += 1;
                }
                Event::Inflated(gives)
            }
        };
        self.feed(id, event);
    }

    fn load(&mut self, id: usize) {
        let step = self.prng.below(60) as usize;
        let kernel = &mut self.kernels[id];
        if kernel.used < kernel.goal {
            kernel.used += step.min(kernel.goal - kernel.used).min(kernel.free());
        } else {
            let less = step.min(kernel.used - kernel.goal);
            kernel.used -= less;
            if let Some(freed) = &mut kernel.freed {
                *freed += less;
            }
        }
    }

    fn kill(&mut self, id: usize) {
        let blocks = core::mem::take(&mut self.kernels[id].blocks);
        self.pool += blocks;
        self.kernels[id] = Kernel::new(id, self.kernels[id].home, self.now);
        for peer in (0..self.kernels.len()).filter(|&peer| peer != id) {
            let dead = DomainId(id as u8);
            self.kernels[peer].inbox.retain(|(_, event)| match event {
                Event::Asked(from, _) | Event::Answered(from, _) => *from != dead,
                _ => true,
            });
            self.feed(peer, Event::Lost(dead));
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        for id in 0..self.kernels.len() {
            self.load(id);
            while let Some(at) = self.kernels[id].inbox.iter().position(|m| m.0 <= self.now) {
                let (_, mut event) = self.kernels[id].inbox.remove(at).unwrap();
                if let Event::Asked(_, free) = &mut event {
                    *free = self.kernels[id].free();
                }
                self.feed(id, event);
            }
            if let Some((_, action)) = self.kernels[id].doing.take_if(|d| d.0 <= self.now) {
                self.finish(id, action);
            }
            let kernel = &self.kernels[id];
            let pressed = kernel.free() < LIMITS.low;
            if pressed || kernel.wake <= self.now || self.now.is_multiple_of(50) {
                let event = self.sample(id);
                self.feed(id, event);
            }
        }
        self.check();
    }

    /// Checks that no kernel waits long for a block that is available.
    fn check(&mut self) {
        let can_give = |k: &Kernel| k.blocks > 0 && k.free() >= LIMITS.reserve + FRAMES;
        for id in 0..self.kernels.len() {
            let mut others = self.kernels.iter().enumerate().filter(|(index, _)| *index != id);
            let there = self.pool > 0 || others.any(|(_, k)| can_give(k));
            if self.kernels[id].free() >= LIMITS.low || !there {
                self.kernels[id].starving = self.now;
            }
            let since = self.now - self.kernels[id].starving;
            let most = if self.failing { 20_000 } else { 4_000 };
            assert!(since < most, "kernel {id} has starved since {since} at {}", self.now);
        }
    }

    fn new_goals(&mut self) {
        for id in 0..self.kernels.len() {
            let total = 5000 + self.prng.below(6) as usize * FRAMES;
            self.kernels[id].goal = self.prng.below(total as u64) as usize;
        }
    }
}

fn simulate(kernels: usize, failing: bool, deaths: bool) -> usize {
    let mut moves = 0;
    for seed in 0..12 {
        let mut world = World::new(seed, kernels, failing);
        let all = world.pool;
        for tick in 0..30_000 {
            if tick % 1500 == 0 {
                world.new_goals();
            }
            if deaths && world.prng.chance(1, 3000) {
                let id = world.prng.below(kernels as u64) as usize;
                world.kill(id);
            }
            world.tick();
            let held: usize = world.kernels.iter().map(|kernel| kernel.blocks).sum();
            assert_eq!(held + world.pool, all, "seed {seed}");
        }
        // Under constant load no block moves once all needs are met.
        world.failing = false;
        (0..6000).for_each(|_| world.tick());
        let before = world.moves;
        (0..6000).for_each(|_| world.tick());
        assert_eq!(world.moves, before, "seed {seed}: it never comes to rest");
        moves += world.moves;
    }
    moves
}

#[test]
fn two_kernels_share_the_memory() {
    assert!(simulate(2, false, false) > 50);
}

#[test]
fn three_kernels_survive_failing_transfers_and_deaths() {
    assert!(simulate(3, true, false) > 50);
    assert!(simulate(3, false, true) > 50);
    assert!(simulate(3, true, true) > 50);
}

fn with(bug: Bug) {
    for seed in 0..4 {
        let mut world = World::new(seed, 2, false);
        world.bug = bug;
        for tick in 0..30_000 {
            if tick % 1500 == 0 {
                world.new_goals();
            }
            world.tick();
        }
    }
}

#[test]
#[should_panic(expected = "starves")]
fn the_simulation_detects_starvation() {
    with(Bug::Greedy);
}

#[test]
#[should_panic(expected = "ping-pong")]
fn the_simulation_detects_ping_pong() {
    with(Bug::Generous);
}
