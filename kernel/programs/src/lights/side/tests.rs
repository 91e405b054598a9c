//! Two sides and the notices between them, in random order, some of them twice.

use super::*;
use std::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    Outside,
    Waits,
    Inside,
}

/// One kernel, with the threads of the process that it has.
struct Kernel {
    side: Side,
    threads: [Thread; 2],
    /// Notices that the other kernel has sent.
    arrived: Vec<LightNotice>,
    /// The memory is being put away, if it goes; then this is sent.
    going: Option<Passing>,
    rests: bool,
}

impl Kernel {
    fn new(side: Side) -> Kernel {
        let threads = [Thread::Outside; 2];
        Kernel { side, threads, arrived: Vec::new(), going: None, rests: false }
    }

    fn uses_memory(&self) -> bool {
        self.side.memory != Memory::Away
    }
}

struct World {
    kernels: [Kernel; 2],
    now: u64,
    seed: u64,
    entries: [u32; 2],
}

const STRONG: usize = 0;
const WEAK: usize = 1;

impl World {
    fn new(seed: u64) -> World {
        let mut weak = Side::weak(Epoch(1));
        weak.threads = 2;
        let kernels = [Kernel::new(Side::strong()), Kernel::new(weak)];
        World { kernels, now: 1_000_000, seed, entries: [0; 2] }
    }

    fn random(&mut self, below: u64) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.seed >> 33) % below) as usize
    }

    fn send(&mut self, from: usize, message: Message) {
        let notice = message.notice(7);
        self.kernels[1 - from].arrived.push(notice);
        let is_suspend = notice.kind == notice::SUSPEND;
        if !is_suspend {
            self.wake(1 - from);
        } else if self.kernels[WEAK].rests {
            let Role::Strong(gate) = &mut self.kernels[STRONG].side.role else { return };
            gate.peer_rests(self.now);
        }
    }

    fn thread(&mut self, kernel: usize, at: usize) {
        let (now, place) = (self.now, Place(at as u8));
        let own = &mut self.kernels[kernel];
        match own.threads[at] {
            Thread::Outside => {
                own.threads[at] = Thread::Waits;
                if let Some(message) = own.side.ask(place) {
                    self.send(kernel, message);
                }
            }
            Thread::Waits => match own.side.decide(place, false) {
                Next::Wait => {}
                Next::Refused => panic!("nothing has ended"),
                Next::Fetch => {
                    own.side.memory = Memory::Here;
                    own.threads[at] = Thread::Inside;
                }
                Next::Inside => own.threads[at] = Thread::Inside,
            },
            Thread::Inside => {
                self.entries[kernel] += 1;
                own.threads[at] = Thread::Outside;
                own.side.leave(place, now);
            }
        }
    }

    /// What the keeper does, in two steps.
    fn tend(&mut self, kernel: usize) {
        let now = self.now;
        let own = &mut self.kernels[kernel];
        if let Some(Passing { message, goes }) = own.going.take() {
            if goes {
                assert_eq!(own.side.memory, Memory::Going);
                own.side.memory = Memory::Away;
            }
            let message = message.or_else(|| own.side.stopped());
            return message.into_iter().for_each(|message| self.send(kernel, message));
        }
        own.going = own.side.open(now).or_else(|| own.side.begin_to_stop());
    }

    fn rest(&mut self, kernel: usize) {
        let own = &mut self.kernels[kernel];
        let is_idle = own.threads.iter().all(|thread| *thread != Thread::Inside);
        if !is_idle || own.going.is_some() {
            return;
        }
        match own.side.rest() {
            Err(()) => return,
            Ok(None) => {}
            Ok(Some(Passing { message, goes })) => {
                if goes {
                    own.side.memory = Memory::Away;
                }
                message.into_iter().for_each(|message| self.send(kernel, message));
            }
        }
        let own = &mut self.kernels[kernel];
        own.rests = own.side.is_away() && own.arrived.is_empty();
    }

    /// A kernel returns from its rest: it handles all notices before its threads run.
    fn wake(&mut self, kernel: usize) {
        let own = &mut self.kernels[kernel];
        if core::mem::take(&mut own.rests) {
            let notices = core::mem::take(&mut own.arrived);
            notices.iter().for_each(|notice| own.side.hear(notice, self.now));
        }
    }

    fn deliver(&mut self, kernel: usize) {
        let count = self.kernels[kernel].arrived.len() as u64;
        if count == 0 {
            return;
        }
        let (at, twice) = (self.random(count), self.random(8) == 0);
        let now = self.now;
        let own = &mut self.kernels[kernel];
        let notice = if twice { own.arrived[at] } else { own.arrived.swap_remove(at) };
        own.side.hear(&notice, now);
    }

    fn step(&mut self) {
        let kernel = self.random(2);
        match self.random(10) {
            // A kernel that rests does nothing until it is woken: by a notice, or by its time.
            _ if self.kernels[kernel].rests => {
                if self.random(4) == 0 {
                    self.wake(kernel);
                }
            }
            0..4 => {
                let at = self.random(2);
                self.thread(kernel, at);
            }
            4..6 => self.tend(kernel),
            6..8 => self.deliver(kernel),
            8 => self.now += [1_000, 100_000, 5_000_000][self.random(3)],
            _ => self.rest(kernel),
        }
        self.check();
    }

    fn check(&self) {
        let [strong, weak] = &self.kernels;
        let is_inside = |kernel: &Kernel| kernel.threads.contains(&Thread::Inside);
        assert!(!(is_inside(strong) && is_inside(weak)), "threads of both kernels are inside");
        assert!(!(strong.uses_memory() && weak.uses_memory()), "both kernels use the memory");
        for own in &self.kernels {
            assert!(!is_inside(own) || own.side.memory == Memory::Here);
            assert!(!own.rests || own.side.is_away(), "it rests with the memory in its caches");
        }
    }

    /// Lets all threads of `kernel` stay outside, and waits until one of the other kernel enters.
    fn must_let_in(&mut self, kernel: usize) {
        for at in 0..2 {
            while self.kernels[kernel].threads[at] != Thread::Outside {
                self.settle(1 - kernel);
                self.thread(kernel, at);
            }
        }
        let before = self.entries[1 - kernel];
        for _ in 0..100 {
            self.settle(kernel);
            (0..2).for_each(|at| self.thread(1 - kernel, at));
            self.check();
        }
        assert!(self.entries[1 - kernel] > before, "a thread waits forever");
    }

    /// Everything is delivered and tended, and time passes; threads of the kernel that `waits` do
    /// nothing, those of the other one leave.
    fn settle(&mut self, waits: usize) {
        (0..2).for_each(|kernel| self.wake(kernel));
        for at in 0..2 {
            if self.kernels[waits].threads[at] == Thread::Inside {
                self.thread(waits, at);
            }
        }
        for kernel in [0, 1, 0, 1] {
            while !self.kernels[kernel].arrived.is_empty() {
                self.deliver(kernel);
            }
            self.tend(kernel);
            self.tend(kernel);
        }
        self.now += 1_000_000;
    }
}

#[test]
fn one_side_at_a_time_uses_the_memory_and_each_gets_its_turn() {
    let mut entries = [0; 2];
    for seed in 0..400 {
        let mut world = World::new(seed);
        for round in 0..40 {
            (0..100).for_each(|_| world.step());
            if round % 8 == 7 {
                world.must_let_in(STRONG);
                world.must_let_in(WEAK);
            }
        }
        (0..2).for_each(|kernel| entries[kernel] += world.entries[kernel]);
    }
    assert!(entries.iter().all(|count| *count > 10_000), "{entries:?}");
}

#[test]
fn nothing_is_sent_while_no_light_thread_wants_to_run() {
    let mut world = World::new(1);
    for _ in 0..1000 {
        world.thread(STRONG, 0);
        world.tend(STRONG);
        world.now += 1_000_000;
    }
    assert!(world.kernels[WEAK].arrived.is_empty() && world.entries[STRONG] > 300);
}
