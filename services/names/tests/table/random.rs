//! Random histories of three kernels that register, remove, close, look, watch, give up, die and
//! return, against a model: a map, a set of watchers, and rules that need no more than a line each.

use crate::common::*;
use abi::names::{
    Errno, NAMES, Op, Reply, Request, SYSTEM_NAMES, TREE_NAMES, TREE_WATCHES, WATCHES, lives,
};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use share::{Event, Token};
use std::collections::{BTreeMap, BTreeSet};

const KERNELS: u64 = 3;

/// What the model knows of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    kernel: u8,
    epoch: u16,
    door: u64,
    contract: [u8; 16],
    tree: u32,
    pid: u32,
}

struct Play {
    world: World,
    random: Prng,
    seed: u64,
    /// How many names are used; more than there may be in some histories.
    texts: u64,
    names: BTreeMap<String, Known>,
    watchers: BTreeMap<Token, Request>,
    /// For each kernel, its newest life that the service knows to be over.
    over: [u16; KERNELS as usize],
    edition: u64,
    /// The results of Register that came.
    seen: BTreeSet<Errno>,
}

impl Play {
    fn new(seed: u64) -> Play {
        let mut world = World::of_life(seed as u32 + 1);
        let edition = world.edition();
        Play {
            world,
            random: Prng::new(seed),
            seed,
            texts: if seed.is_multiple_of(2) { 20 } else { 3 * NAMES as u64 },
            names: BTreeMap::new(),
            watchers: BTreeMap::new(),
            over: [0; KERNELS as usize],
            edition,
            seen: BTreeSet::new(),
        }
    }

    fn text(&mut self) -> String {
        let number = self.random.below(self.texts);
        match number % 10 {
            9 => format!("kernel/{number}"),
            8 => format!("service/fs/{number}"),
            0 | 3 | 6 => format!("n{number}"),
            _ => format!("n{}/{number}", number % 7),
        }
    }

    /// Sends a request whose result the model knows. All watchers are woken exactly if the names
    /// have changed.
    fn ask(&mut self, kernel: u8, request: Request, expected: Errno, has_changed: bool) -> Reply {
        let reply = self.world.done(kernel, request, &mut []);
        assert_eq!(reply.errno(), expected, "seed {}: {request:?}", self.seed);
        assert_eq!(reply.edition, self.edition + u64::from(has_changed), "seed {}", self.seed);
        self.settle(has_changed);
        reply
    }

    fn settle(&mut self, has_changed: bool) {
        self.edition += u64::from(has_changed);
        let mut woken = self.world.take_woken();
        woken.sort_unstable();
        let expected: Vec<Token> = match has_changed {
            true => self.watchers.keys().copied().collect(),
            false => Vec::new(),
        };
        assert_eq!(woken, expected, "seed {}", self.seed);
        for token in woken {
            let request = self.watchers.remove(&token).unwrap();
            if token.epoch != self.world.epochs[usize::from(token.kernel)] {
                continue; // its kernel has died since
            }
            let reply = self.world.again(token, request, &mut []);
            assert_eq!(reply.map(|reply| reply.edition), Some(self.edition));
        }
    }

    fn is_over(&self, kernel: u8) -> bool {
        self.world.epochs[usize::from(kernel)] <= self.over[usize::from(kernel)]
    }

    fn register(&mut self, kernel: u8) {
        let (text, random) = (self.text(), &mut self.random);
        let known = Known {
            kernel,
            epoch: self.world.epochs[usize::from(kernel)],
            door: random.below(6),
            contract: [random.below(2) as u8; 16],
            tree: random.below(6) as u32,
            pid: random.below(2) as u32,
        };
        let (expected, is_new) = self.result_of_register(&text, known);
        let Known { door, contract, tree, pid, .. } = known;
        let name = name(&text);
        let request = Request { name, door, contract, tree, pid, ..Request::new(Op::Register) };
        if is_new {
            self.names.insert(text, known);
        }
        self.seen.insert(expected);
        self.ask(kernel, request, expected, is_new);
    }

    /// Returns the result of registering a name, and whether that changes something.
    fn result_of_register(&self, text: &str, known: Known) -> (Errno, bool) {
        let count = |which: &dyn Fn(u32) -> bool| {
            self.names.values().filter(|other| which(other.tree)).count()
        };
        let is_below = |low: &str, high: &str| low.starts_with(&format!("{high}/"));
        let is_of_system = ["kernel/", "service/"].iter().any(|part| text.starts_with(part));
        let refused = match self.names.get(text) {
            _ if self.is_over(known.kernel) => Errno::Hostunreach,
            _ if is_of_system && known.tree != 0 => Errno::Perm,
            Some(present) if *present == known => return (Errno::Success, false),
            Some(_) => Errno::Exist,
            None if self.names.keys().any(|other| is_below(other, text)) => Errno::Isdir,
            None if self.names.keys().any(|other| is_below(text, other)) => Errno::Notdir,
            None if known.tree == 0 && count(&|tree| tree == 0) >= SYSTEM_NAMES => Errno::Nospc,
            None if known.tree == 0 => return (Errno::Success, true),
            None if count(&|tree| tree == known.tree) >= TREE_NAMES => Errno::Dquot,
            None if count(&|tree| tree != 0) >= NAMES => Errno::Nospc,
            None => return (Errno::Success, true),
        };
        (refused, false)
    }

    fn remove(&mut self, kernel: u8) {
        let (text, door) = (self.text(), self.random.below(6));
        let epoch = self.world.epochs[usize::from(kernel)];
        let is_its =
            |known: &Known| (known.kernel, known.epoch, known.door) == (kernel, epoch, door);
        let expected = match self.names.get(&text) {
            _ if self.is_over(kernel) => Errno::Hostunreach,
            Some(known) if is_its(known) => Errno::Success,
            _ => Errno::Noent,
        };
        if expected == Errno::Success {
            self.names.remove(&text);
        }
        let request = Request { name: name(&text), door, ..Request::new(Op::Remove) };
        self.ask(kernel, request, expected, expected == Errno::Success);
    }

    fn close(&mut self, kernel: u8) {
        let (door, epoch) = (self.random.below(6), self.world.epochs[usize::from(kernel)]);
        let before = self.names.len();
        let request = Request { door, ..Request::new(Op::Close) };
        if self.is_over(kernel) {
            self.ask(kernel, request, Errno::Hostunreach, false);
            return;
        }
        self.names.retain(|_, k| (k.kernel, k.epoch, k.door) != (kernel, epoch, door));
        let removed = before - self.names.len();
        let reply = self.ask(kernel, request, Errno::Success, removed != 0);
        assert_eq!(reply.count as usize, removed, "seed {}", self.seed);
    }

    fn find(&mut self, kernel: u8) {
        let text = self.text();
        let known = self.names.get(&text).copied();
        let expected = match known {
            _ if self.is_over(kernel) => Errno::Hostunreach,
            Some(_) => Errno::Success,
            None => Errno::Noent,
        };
        let request = Request { name: name(&text), ..Request::new(Op::Find) };
        let reply = self.ask(kernel, request, expected, false);
        if let Some(known) = known.filter(|_| expected == Errno::Success) {
            let found = (reply.kernel, reply.epoch, reply.door, reply.contract);
            assert_eq!(found, (known.kernel.into(), known.epoch, known.door, known.contract));
        }
    }

    fn watch(&mut self, kernel: u8) {
        if self.is_over(kernel) {
            return;
        }
        let tree = self.random.below(3) as u32;
        let of_tree = self.watchers.values().filter(|other| other.tree == tree).count();
        let request = Request { edition: self.edition, tree, ..Request::new(Op::Watch) };
        let token = self.world.token(kernel);
        let reply = self.world.ask(token, request, &mut []);
        let expected = match self.watchers.len() {
            _ if tree != 0 && of_tree >= TREE_WATCHES => Some(Errno::Dquot),
            WATCHES.. => Some(Errno::Again),
            _ => None,
        };
        assert_eq!(reply.map(|reply| reply.errno()), expected, "seed {}", self.seed);
        if expected.is_none() {
            self.watchers.insert(token, request);
        }
    }

    /// A watcher gives up, or looks without a wake.
    fn stir(&mut self) {
        let some = self.random.below(self.watchers.len() as u64 + 1) as usize;
        let Some((&token, &request)) = self.watchers.iter().nth(some) else { return };
        if self.random.chance(1, 3) {
            self.watchers.remove(&token);
            self.world.tell(Event::Cancel(token));
        } else {
            assert_eq!(self.world.again(token, request, &mut []), None);
        }
    }

    /// A kernel that is dead returns. Another one dies: the service learns of it at once, or only
    /// after the first request of the next life.
    fn die(&mut self, kernel: u8) {
        let (at, epoch) = (usize::from(kernel), self.world.epochs[usize::from(kernel)]);
        if self.is_over(kernel) {
            self.world.epochs[at] += 1;
        } else if self.random.chance(1, 2) {
            self.watchers.retain(|token, _| token.kernel != kernel);
            let has_changed = self.bury(kernel, epoch);
            self.world.gone(kernel);
            self.settle(has_changed);
        } else {
            self.world.epochs[at] += 1 + self.random.below(2) as u16;
            let has_changed = self.bury(kernel, self.world.epochs[at] - 1);
            assert_eq!(self.world.errno(kernel, Request::new(Op::Find)), Errno::Inval);
            self.settle(has_changed);
            self.watchers.retain(|token, _| token.kernel != kernel);
            self.world.tell(Event::Gone(DomainId(kernel), Epoch(epoch)));
            self.settle(false);
        }
    }

    /// This life of a kernel and its earlier ones are over. Returns whether they had names.
    fn bury(&mut self, kernel: u8, last: u16) -> bool {
        self.over[usize::from(kernel)] = last;
        let before = self.names.len();
        self.names.retain(|_, known| known.kernel != kernel || known.epoch > last);
        before != self.names.len()
    }

    fn judge(&mut self) {
        let listed = self.world.list();
        let seen = listed.iter().map(|l| (l.name.text(), l.kernel, l.epoch, l.pid, l.contract));
        let known = self.names.iter();
        let known = known.map(|(text, k)| {
            let Known { kernel, epoch, pid, contract, .. } = *k;
            (text.as_str(), kernel.into(), epoch, pid, contract)
        });
        assert!(seen.eq(known), "seed {}", self.seed);
        assert_eq!(self.world.service.census(), (self.names.len(), self.watchers.len()));
        assert_eq!(lives(self.edition), self.seed as u32 + 1);
    }
}

fn play(seed: u64, operations: u32) -> BTreeSet<Errno> {
    let mut play = Play::new(seed);
    // Where there are many names, few are removed.
    let rare = if play.texts > NAMES as u64 { 8 } else { 1 };
    for _ in 0..operations {
        let kernel = play.random.below(KERNELS) as u8;
        match play.random.below(40 * rare) {
            0..2 => play.die(kernel),
            2..6 => play.remove(kernel),
            6..8 => play.close(kernel),
            other => match other % 20 {
                0..10 => play.register(kernel),
                10..13 => play.find(kernel),
                13..18 => play.watch(kernel),
                _ => play.stir(),
            },
        }
        if play.random.chance(1, 8) {
            play.judge();
        }
    }
    play.judge();
    play.seen
}

#[test]
fn random_histories_agree_with_a_map() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        seen.append(&mut play(seed, 800));
    }
    let refusals = [
        Errno::Dquot,
        Errno::Exist,
        Errno::Hostunreach,
        Errno::Isdir,
        Errno::Nospc,
        Errno::Notdir,
        Errno::Perm,
    ];
    assert!(refusals.iter().all(|refusal| seen.contains(refusal)), "only {seen:?}");
}
