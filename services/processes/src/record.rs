//! What is known of a process, and how numbers are given.
//!
//! Contract: a number is given to one process at a time, and to none while a group has it or a
//! child names it as its parent. Numbers rise from [`first`] on and begin again at [`FIRST`].

use abi::process::{End, LAST_PID, Listed, NAME, PROCESSES, State};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Iter;
use share::Token;

/// The first number there is. 1 is none, for -1 has a meaning of its own where groups are named.
pub const FIRST: u32 = 2;
/// Numbers that a life of the table has before it comes to those that the next one begins with.
pub const STRIDE: u32 = 1 << 20;

/// The first number of a table's life: a table that began anew hears only a moment later of what
/// still runs, so it begins elsewhere.
pub const fn first(lives: u32) -> u32 {
    let skipped = lives.saturating_sub(1) as u64 * STRIDE as u64;
    FIRST + (skipped % (LAST_PID - FIRST) as u64) as u32
}

/// A kernel in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The kernel.
    pub kernel: u8,
    /// Which of its lives.
    pub epoch: u16,
}

impl Life {
    /// Of who asks.
    pub fn of(token: Token) -> Life {
        Life { kernel: token.kernel, epoch: token.epoch }
    }
}

/// Does somebody who is no process ask for its end?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// No.
    Nobody,
    /// Somebody, but the table began anew and has not heard who.
    Somebody,
    /// Somebody in this kernel.
    By(Life),
}

/// A signal that its kernel has not heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Its place in the order of all that happened.
    pub order: u64,
    /// The signal.
    pub signal: u16,
}

/// A process.
#[derive(Debug)]
pub struct Record {
    /// Its parent's number; 0: the system.
    pub parent: u32,
    /// Its group.
    pub group: u32,
    /// Its kernel.
    pub kernel: u8,
    /// That kernel's life, once it has heard of the process.
    pub epoch: u16,
    /// Where it is in its life.
    pub state: State,
    /// Who asks for its end, if its parent is the system.
    pub watch: Watch,
    /// Who asked for it and has not been answered.
    pub asker: Option<Token>,
    /// When it was asked for or ended, in the order of all that happened.
    pub order: u64,
    /// Its beginning, until its kernel has it.
    pub begin: Box<[u8]>,
    /// What its kernel has to hear.
    pub stop: Option<Stop>,
    /// Its kernel has to hear of its group: since when, in the order of all that happened.
    pub regrouped: Option<u64>,
    /// It is to end, whether its kernel has heard so or not: it begins nobody any more, so that a
    /// signal for a group reaches all there ever will be of it.
    pub is_doomed: bool,
    /// How it ended, and with which status.
    pub end: Option<(End, u32)>,
    /// When it was asked for, in ns.
    pub began: u64,
    /// Time on a core, in ns.
    pub cpu: u64,
    /// Most bytes of memory.
    pub memory: u64,
    /// Requests to services.
    pub messages: u64,
    /// Its name, NUL padded.
    pub name: [u8; NAME],
}

impl Record {
    /// Waits for `kernel`, asked for at `now`.
    pub fn new(kernel: u8, parent: u32, group: u32, now: u64) -> Record {
        Record {
            parent,
            group,
            kernel,
            epoch: 0,
            state: State::Waiting,
            watch: Watch::Nobody,
            asker: None,
            order: 0,
            begin: Box::default(),
            stop: None,
            regrouped: None,
            is_doomed: false,
            end: None,
            began: now,
            cpu: 0,
            memory: 0,
            messages: 0,
            name: [0; NAME],
        }
    }

    /// Has it ended?
    pub fn is_over(&self) -> bool {
        self.state == State::Ended
    }

    /// Has this life of a kernel heard of it?
    pub fn is_of(&self, life: Life) -> bool {
        self.state != State::Waiting && Life { kernel: self.kernel, epoch: self.epoch } == life
    }

    /// What of it `life`'s kernel has to hear: when that came up.
    pub fn news(&self, life: Life) -> Option<u64> {
        match self.state {
            State::Waiting => (self.kernel == life.kernel).then_some(self.order),
            State::Starting | State::Running if self.is_of(life) => {
                self.stop.map(|stop| stop.order).or(self.regrouped)
            }
            _ => None,
        }
    }

    /// What it has used so far.
    pub fn account(&mut self, cpu: u64, memory: u64, messages: u64) {
        self.cpu = cpu;
        self.memory = self.memory.max(memory);
        self.messages = messages;
    }

    /// For people and for programs.
    pub fn listed(&self, pid: u32) -> Listed {
        let (kind, status) = self.end.map_or((0, 0), |(kind, status)| (kind as u32, status));
        Listed {
            pid,
            parent: self.parent,
            group: self.group,
            kernel: self.kernel.into(),
            state: self.state as u16,
            kind,
            status,
            began: self.began,
            cpu: self.cpu,
            memory: self.memory,
            messages: self.messages,
            name: self.name,
        }
    }
}

/// All of them.
#[derive(Debug)]
pub struct Records {
    all: BTreeMap<u32, Record>,
    next: u32,
    order: u64,
}

impl Records {
    /// None yet, in this life of the table.
    pub const fn new(lives: u32) -> Records {
        Records { all: BTreeMap::new(), next: first(lives), order: 0 }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Is every place taken?
    pub fn is_full(&self) -> bool {
        self.all.len() >= PROCESSES
    }

    /// One.
    pub fn get(&self, pid: u32) -> Option<&Record> {
        self.all.get(&pid)
    }

    /// One, to change it.
    pub fn get_mut(&mut self, pid: u32) -> Option<&mut Record> {
        self.all.get_mut(&pid)
    }

    /// All, by their numbers.
    pub fn iter(&self) -> Iter<'_, u32, Record> {
        self.all.iter()
    }

    /// Those above a number.
    pub fn above(&self, pid: u32) -> impl Iterator<Item = (u32, &Record)> {
        let behind = pid.saturating_add(1);
        self.all.range(behind..).map(|(&pid, record)| (pid, record))
    }

    /// Numbers of those that are `wanted`.
    pub fn find(&self, wanted: impl Fn(&Record) -> bool) -> Box<[u32]> {
        let found = self.all.iter().filter(|(_, record)| wanted(record));
        found.map(|(&pid, _)| pid).collect()
    }

    /// A number that nothing has: there are far more than places.
    pub fn fresh(&mut self) -> u32 {
        loop {
            let pid = self.next;
            self.next = if pid + 1 < LAST_PID { pid + 1 } else { FIRST };
            let names = |record: &Record| record.group == pid || record.parent == pid;
            if !self.all.contains_key(&pid) && !self.all.values().any(names) {
                return pid;
            }
        }
    }

    /// The next place in the order of all that happens.
    pub fn tick(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Puts one in.
    pub fn insert(&mut self, pid: u32, record: Record) {
        self.all.insert(pid, record);
    }

    /// Takes one out.
    pub fn remove(&mut self, pid: u32) -> Option<Record> {
        self.all.remove(&pid)
    }
}

/// Is it a number that a process or a group can have?
pub fn is_number(number: u32) -> bool {
    (FIRST..LAST_PID).contains(&number)
}
