//! Random histories of three kernels, whose messages go to and fro, are received and dropped, while
//! kernels die and return.

use super::*;
use base::prng::Prng;
use std::collections::{BTreeMap, BTreeSet};

const KERNELS: usize = 3;
const SECRET: u64 = 77;
const LIMITS: BlockLimits =
    BlockLimits { blocks: 6, blocks_of_tree: 5, bytes: 600, of_tree: 400, peers: 2 };

enum Sent {
    /// A name, and the number that is in its block.
    Data(BlockName, u64),
    Notice(BlockNotice),
    /// The sender learns that a life of another kernel is over, after all that that one has sent.
    Death(Life),
}

struct Kernel {
    life: Life,
    blocks: Blocks<u64>,
    /// Names in its queues, each with the number that must be in its block.
    held: Vec<(BlockName, u64)>,
}

struct World {
    random: Prng,
    kernels: Vec<Kernel>,
    /// What is on its way to a kernel, by sender.
    links: BTreeMap<(usize, usize), VecDeque<(Life, Sent)>>,
    /// The lives that have had each message, by the number in its block.
    paths: BTreeMap<u64, BTreeSet<(u8, u16)>>,
    dead: BTreeSet<(u8, u16)>,
    next: u64,
    lost: u64,
    read: u64,
}

fn life(kernel: usize, epoch: u16) -> Life {
    Life { kernel: DomainId(kernel as u8), epoch: Epoch(epoch) }
}

fn key(life: Life) -> (u8, u16) {
    (life.kernel.0, life.epoch.0)
}

impl Kernel {
    fn new(life: Life) -> Kernel {
        Kernel { life, blocks: Blocks::new(life, LIMITS), held: Vec::new() }
    }
}

impl World {
    fn new(seed: u64) -> World {
        let kernel = |at| Kernel::new(life(at, 1));
        World {
            random: Prng::new(seed),
            kernels: (0..KERNELS).map(kernel).collect(),
            links: BTreeMap::new(),
            paths: BTreeMap::new(),
            dead: BTreeSet::new(),
            next: 0,
            lost: 0,
            read: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn put(&mut self, at: usize) {
        self.next += 1;
        let (tag, length) = (self.next, 1 + self.random.below(200) as u32);
        let kernel = &mut self.kernels[at];
        // Of one channel, as all may be.
        if let Ok(name) = kernel.blocks.put((tag, length), 1 + tag as u32 % 2, SECRET) {
            kernel.held.push((name, tag));
            self.paths.insert(tag, [key(kernel.life)].into());
        }
    }

    /// Sends a message on, and what this kernel has to say of blocks.
    fn forward(&mut self, from: usize, to: usize) {
        if let Some((name, tag)) = self.pick(from) {
            let there = self.kernels[to].life;
            self.kernels[from].blocks.leaves(&name, there);
            self.paths.get_mut(&tag).unwrap().insert(key(there));
            self.send(from, to, Sent::Data(name, tag));
        }
        self.notices(from);
    }

    fn notices(&mut self, from: usize) {
        for to in (0..KERNELS).filter(|to| *to != from) {
            while let Some(notice) = self.kernels[from].blocks.next_notice(DomainId(to as u8)) {
                self.send(from, to, Sent::Notice(notice));
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, sent: Sent) {
        let sender = self.kernels[from].life;
        self.links.entry((from, to)).or_default().push_back((sender, sent));
    }

    fn pick(&mut self, at: usize) -> Option<(BlockName, u64)> {
        let count = self.kernels[at].held.len();
        let which = (count > 0).then(|| self.below(count))?;
        Some(self.kernels[at].held.swap_remove(which))
    }

    /// A program receives a message, or it is dropped.
    fn take(&mut self, at: usize, reads: bool) {
        let Some((name, tag)) = self.pick(at) else { return };
        if reads {
            // Whatever life home is in.
            let home = &self.kernels[name.home.kernel.index()];
            let found = home.blocks.read(name.id, name.secret).copied();
            let has_died = self.paths[&tag].iter().any(|life| self.dead.contains(life));
            assert!(found == Some(tag) || found.is_none() && has_died, "{name:?}");
            self.read += u64::from(found.is_some());
            self.lost += u64::from(found.is_none());
        }
        self.kernels[at].blocks.take(&name);
    }

    fn deliver(&mut self, from: usize, to: usize) {
        let Some((_, sent)) = self.links.entry((from, to)).or_default().pop_front() else { return };
        let kernel = &mut self.kernels[to];
        match sent {
            Sent::Data(name, tag) => {
                kernel.blocks.arrives(&name);
                kernel.held.push((name, tag));
            }
            Sent::Notice(notice) => {
                kernel.blocks.hear(notice);
            }
            Sent::Death(life) => kernel.blocks.died(life),
        }
    }

    /// A kernel dies and returns. What is on its way to it is lost; what it has sent may be, too.
    fn die(&mut self, at: usize) {
        let former = self.kernels[at].life;
        self.dead.insert(key(former));
        self.kernels[at] = Kernel::new(life(at, former.epoch.0 + 1));
        for other in (0..KERNELS).filter(|other| *other != at) {
            let Life { kernel, epoch } = self.kernels[other].life;
            let former = Life { kernel, epoch: Epoch(epoch.0 - 1) };
            self.kernels[at].blocks.died(former);
        }
        for other in (0..KERNELS).filter(|other| *other != at) {
            self.links.insert((other, at), VecDeque::new());
            let kept = self.below(3);
            let link = self.links.entry((at, other)).or_default();
            link.truncate(kept);
            link.push_back((former, Sent::Death(former)));
        }
    }

    fn settle(&mut self) {
        for _ in 0..10 {
            for at in 0..KERNELS {
                self.notices(at);
            }
            for from in 0..KERNELS {
                for to in 0..KERNELS {
                    while self.links.get(&(from, to)).is_some_and(|link| !link.is_empty()) {
                        self.deliver(from, to);
                    }
                }
            }
        }
    }

    fn step(&mut self) {
        let (at, other) = (self.below(KERNELS), 1 + self.below(KERNELS - 1));
        let other = (at + other) % KERNELS;
        match self.below(40) {
            0..=7 => self.put(at),
            8..=18 => self.forward(at, other),
            19..=23 => self.take(at, true),
            24..=25 => self.take(at, false),
            26 if self.below(4) == 0 => self.die(at),
            27..=29 => self.notices(at),
            _ => self.deliver(at, other),
        }
    }

    /// Nothing is on its way: each block has its name, and home knows of its kernel.
    fn check(&self) {
        let mut named = BTreeSet::new();
        for kernel in &self.kernels {
            assert!(kernel.blocks.notices.is_empty());
            for (name, tag) in &kernel.held {
                assert!(named.insert(*tag), "a block with two names");
                let home = &self.kernels[name.home.kernel.index()];
                if let Some(block) = home.blocks.find(name.id, name.secret) {
                    let is_away = home.life.kernel != kernel.life.kernel;
                    assert!(!is_away || block.to.contains(kernel.life));
                }
            }
        }
        for kernel in &self.kernels {
            assert!(kernel.blocks.stored().all(|it| named.contains(&it.memory)), "a lost block");
            assert!(kernel.blocks.used().1 <= LIMITS.bytes);
        }
    }
}

#[test]
fn no_block_is_lost_while_kernels_live_and_none_is_left() {
    let (mut read, mut lost) = (0, 0);
    for seed in 0..20_000 {
        let mut world = World::new(seed);
        for _ in 0..6 {
            (0..40).for_each(|_| world.step());
            world.settle();
            world.check();
        }
        (read, lost) = (read + world.read, lost + world.lost);
    }
    assert!(read > 10_000 && lost > 100, "{read} {lost}");
}

#[test]
fn a_name_is_its_words() {
    let home = life(5, 0xfffe);
    let is_window = true;
    let name =
        BlockName { home, id: 7 << 16 | 3, secret: 99, length: 1 << 22, place: 77, is_window };
    assert_eq!(BlockName::of_words(name.words()), name);
}

#[test]
fn a_block_in_its_message_is_kept_nowhere() {
    let [mut home, mut other] = [0, 1].map(|kernel| Blocks::new(life(kernel, 1), LIMITS));
    let name = home.in_message(5, 9);
    assert!(name.is_in_message() && BlockName::of_words(name.words()) == name);
    home.leaves(&name, life(1, 1));
    other.arrives(&name);
    other.leaves(&name, life(2, 1));
    assert_eq!((home.take(&name), other.take(&name)), (None, None));
    assert_eq!((home.used(), other.has_notice(DomainId(0))), ((0, 0), false));
    let kept = home.put((7, 0), 1, 5).unwrap();
    assert!(!kept.is_in_message(), "it would stay for ever");
}

#[test]
fn limits_hold_for_all_and_for_a_tree() {
    let mut blocks = Blocks::new(life(0, 1), LIMITS);
    let first = blocks.put((1, 300), 1, 1).unwrap();
    assert_eq!(blocks.put((2, 101), 1, 2), Err(2));
    let second = blocks.put((3, 300), 2, 3).unwrap();
    assert_eq!(blocks.put((4, 1), 3, 4), Err(4));
    assert_eq!((blocks.take(&first), blocks.take(&first)), (Some(1), None));
    assert_eq!(blocks.used(), (1, 300));
    assert_eq!(blocks.read(second.id, 4), None);
    assert_eq!(blocks.read(second.id, 3), Some(&3));
    let empty = (0..6).filter(|tag| blocks.put((*tag, 0), 4, 5).is_ok()).count();
    assert_eq!(empty, LIMITS.blocks_of_tree);
}

#[test]
fn a_kernel_that_names_blocks_it_does_not_have_fills_no_memory() {
    let mut blocks: Blocks<u64> = Blocks::new(life(0, 1), LIMITS);
    let capacity = blocks.notices.capacity();
    for id in 0..10_000 {
        for kernel in [0, 1] {
            let name = BlockName {
                home: life(kernel, 2),
                id,
                secret: 5,
                length: 1,
                place: 0,
                is_window: false,
            };
            blocks.arrives(&name);
            assert_eq!(blocks.take(&name), None);
        }
    }
    assert_eq!((blocks.notices.len(), blocks.notices.capacity()), (12, capacity));
    // What another kernel is to hear has its place.
    let name =
        BlockName { home: life(2, 1), id: 1, secret: 5, length: 1, place: 0, is_window: false };
    assert_eq!((blocks.take(&name), blocks.has_notice(DomainId(2))), (None, true));
    blocks.died(life(1, 2));
    assert!(!blocks.has_notice(DomainId(1)));
    let nowhere = BlockName { home: life(3, 1), ..name };
    assert_eq!([&name, &nowhere].map(|name| blocks.may_arrive(name)), [true, false]);
}

/// A page of memory that home lends, free again when this is dropped.
struct Page {
    number: usize,
    lent: std::rc::Rc<std::cell::RefCell<[bool; 4]>>,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.lent.borrow_mut()[self.number] = false;
    }
}

/// A reader copies a block word by word from memory that home lends, while home's other blocks come
/// and go, and kernels die through which the message has gone.
#[test]
fn a_copy_is_the_block_if_home_has_it_afterwards() {
    const READER: usize = 1;
    let (mut good, mut stale) = (0, 0);
    for seed in 0..3000 {
        let mut random = Prng::new(seed);
        let mut blocks = Blocks::new(life(0, 1), LIMITS);
        let lent = std::rc::Rc::new(std::cell::RefCell::new([false; 4]));
        let mut memory = [[0; 4]; 4];
        let mut contents = 0;
        let mut put = |blocks: &mut Blocks<Page>, memory: &mut [[u64; 4]; 4]| {
            let number = lent.borrow().iter().position(|is_lent| !is_lent)?;
            lent.borrow_mut()[number] = true;
            contents += 1;
            memory[number] = [contents; 4];
            let page = Page { number, lent: lent.clone() };
            blocks.put((page, 32), 1, SECRET).ok().map(|name| (name, contents))
        };
        let Some((name, expected)) = put(&mut blocks, &mut memory) else { continue };
        // It came through the third kernel, which may die.
        let stops = [life(2, 1), life(READER, 1)];
        blocks.leaves(&name, stops[0]);
        blocks.hear(BlockNotice { id: name.id, secret: SECRET, fate: Fate::Moved(stops[1]) });
        let place = blocks.read(name.id, name.secret).map(|page| page.number).unwrap();
        let mut copy = Vec::new();
        let mut others = Vec::new();
        while copy.len() < 4 {
            match random.below(6) {
                0 => blocks.died(stops[0]),
                1 => others.extend(put(&mut blocks, &mut memory)),
                2 if !others.is_empty() => drop(blocks.take(&others.swap_remove(0).0)),
                _ => copy.push(memory[place][copy.len()]),
            }
        }
        let is_block = copy == [expected; 4];
        if blocks.read(name.id, name.secret).is_some() {
            assert!(is_block, "seed {seed}: {copy:?} instead of {expected}");
            good += 1;
        } else if !is_block {
            stale += 1;
        }
    }
    assert!(good > 500 && stale > 100, "{good} copies were good, {stale} were refused as stale");
}
