//! The record of a process, and the allocation of process numbers.
//!
//! Contract: a number belongs to one process at a time. It is not given out while a process has it,
//! a group has it, a child names it as its parent, or a tree or branch began with it. Numbers rise
//! from [`first`] and wrap to [`FIRST`].

use abi::process::{End, Errno, LAST_PID, Listed, NAME, PROCESSES, State};
use abi::quota::{Budget, Quota, RESERVED_PROCESSES};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Iter;
use share::Token;

/// The lowest number. 1 is never used, because -1 means "any" where groups are named.
pub const FIRST: u32 = 2;
/// Distance between the first numbers of two successive lives of the table.
pub const STRIDE: u32 = 1 << 20;

/// Returns the first number of a table's life. A restarted table learns only a moment later which
/// processes still run, so each life starts at a different number.
pub const fn first(lives: u32) -> u32 {
    let skipped = lives.saturating_sub(1) as u64 * STRIDE as u64;
    FIRST + (skipped % (LAST_PID - FIRST) as u64) as u32
}

/// One life of a kernel, from its start to its death or restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub kernel: u8,
    /// Counts the kernel's lives.
    pub epoch: u16,
}

impl Life {
    /// Returns the caller's kernel and its life.
    pub fn of(token: Token) -> Life {
        Life { kernel: token.kernel, epoch: token.epoch }
    }
}

/// Whether a kernel thread, not a parent process, will wait for the end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    Nobody,
    /// One will, but the table has restarted since and does not know in which kernel it is.
    Somebody,
    /// One in this life of a kernel will.
    By(Life),
}

/// A signal that the process's kernel has not fetched yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Position in the order of all events.
    pub order: u64,
    pub signal: u16,
}

/// A kernel that a process is to move to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    pub kernel: u8,
    /// Position of the request in the order of all events, until the process's kernel has fetched
    /// it.
    pub order: Option<u64>,
    /// The process itself has asked for it.
    pub is_own: bool,
}

/// The table's record of one process.
#[derive(Debug)]
pub struct Record {
    /// 0: the system.
    pub parent: u32,
    pub group: u32,
    /// The budgets that it counts in, also after its parent has ended.
    pub quota: Quota,
    /// Index of the kernel it runs on.
    pub kernel: u8,
    /// The life of that kernel, set when it fetches the process.
    pub epoch: u16,
    pub state: State,
    /// Used only if the parent is the system.
    pub watch: Watch,
    /// The caller of Spawn, until the outcome is known.
    pub asker: Option<Token>,
    /// Position of its Spawn, later of its end, in the order of all events.
    pub order: u64,
    /// Its start data, until its kernel fetches them.
    pub begin: Box<[u8]>,
    pub stop: Option<Stop>,
    /// Set while its kernel has yet to learn its new group: position in the order of all events.
    pub regrouped: Option<u64>,
    /// Where it is to move, until it has or cannot.
    pub destination: Option<Destination>,
    /// Where it ran before, while it moves: from Depart to the outcome.
    pub origin: Option<Life>,
    /// Why it did not move when it was last to.
    pub refusal: Option<Errno>,
    /// The signal that ends it, whether or not its kernel knows yet. It may not start processes, so
    /// a signal to a group also reaches every member that would have been started later.
    pub doom: Option<u16>,
    /// How it ended, with the exit code, signal or trap.
    pub end: Option<(End, u32)>,
    /// Time of the Spawn request, in ns.
    pub began: u64,
    /// CPU time in ns.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
    /// Number of requests to services.
    pub messages: u64,
    /// NUL padded.
    pub name: [u8; NAME],
}

impl Record {
    /// Creates the record of a process that was requested at `now` and waits for `kernel` to fetch
    /// it.
    pub fn new(kernel: u8, parent: u32, group: u32, now: u64) -> Record {
        Record {
            parent,
            group,
            quota: Quota::default(),
            kernel,
            epoch: 0,
            state: State::Waiting,
            watch: Watch::Nobody,
            asker: None,
            order: 0,
            begin: Box::default(),
            stop: None,
            regrouped: None,
            destination: None,
            origin: None,
            refusal: None,
            doom: None,
            end: None,
            began: now,
            cpu: 0,
            memory: 0,
            messages: 0,
            name: [0; NAME],
        }
    }

    pub fn is_over(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns whether `life` has fetched the process and runs it, or ran it until it ended.
    pub fn is_of(&self, life: Life) -> bool {
        self.state != State::Waiting && Life { kernel: self.kernel, epoch: self.epoch } == life
    }

    /// Returns since when (in the order of all events) `life`'s kernel has a task for this process,
    /// if there is one.
    pub fn news(&self, life: Life) -> Option<u64> {
        match self.state {
            State::Waiting => (self.kernel == life.kernel).then_some(self.order),
            State::Starting | State::Running if self.is_of(life) => {
                let moves = self.destination.and_then(|destination| destination.order);
                self.stop.map(|stop| stop.order).or(self.regrouped).or(moves)
            }
            _ => None,
        }
    }

    /// Updates the resources used so far. The memory peak never falls.
    pub fn account(&mut self, cpu: u64, memory: u64, messages: u64) {
        self.cpu = cpu;
        self.memory = self.memory.max(memory);
        self.messages = messages;
    }

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

/// All records, by number.
#[derive(Debug)]
pub struct Records {
    all: BTreeMap<u32, Record>,
    next: u32,
    order: u64,
}

impl Records {
    /// Creates an empty table; `lives` counts the table's lives.
    pub const fn new(lives: u32) -> Records {
        Records { all: BTreeMap::new(), next: first(lives), order: 0 }
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    pub fn is_full(&self) -> bool {
        self.all.len() >= PROCESSES
    }

    /// Returns whether a process with this quota may start one more.
    pub fn has_room(&self, parent: Quota) -> bool {
        let reserved = if parent.tree.owner == 0 { 0 } else { RESERVED_PROCESSES };
        let is_within = |budget: Budget| {
            let counts = |record: &&Record| record.quota.budgets().any(|b| b.owner == budget.owner);
            self.all.values().filter(counts).count() < usize::from(budget.processes)
        };
        self.all.len() < PROCESSES - reserved && parent.budgets().all(is_within)
    }

    /// Returns how many bytes of start data no kernel has fetched yet: of all, of processes that a
    /// process requested, and of those of one tree.
    pub fn begin_bytes(&self, tree: u32) -> [usize; 3] {
        let sum = |wanted: &dyn Fn(&Record) -> bool| {
            let all = self.all.values().filter(|record| wanted(record));
            all.map(|record| record.begin.len()).sum()
        };
        let is_requested = |record: &Record| record.quota.branch.owner != 0;
        let is_of_tree = |record: &Record| record.quota.tree.owner == tree && is_requested(record);
        [sum(&|_| true), sum(&is_requested), sum(&is_of_tree)]
    }

    pub fn get(&self, pid: u32) -> Option<&Record> {
        self.all.get(&pid)
    }

    pub fn get_mut(&mut self, pid: u32) -> Option<&mut Record> {
        self.all.get_mut(&pid)
    }

    /// Iterates in ascending order of numbers.
    pub fn iter(&self) -> Iter<'_, u32, Record> {
        self.all.iter()
    }

    /// Iterates over the records with numbers above `pid`.
    pub fn above(&self, pid: u32) -> impl Iterator<Item = (u32, &Record)> {
        let next = pid.saturating_add(1);
        self.all.range(next..).map(|(&pid, record)| (pid, record))
    }

    /// Returns the numbers of the records for which `wanted` holds.
    pub fn find(&self, wanted: impl Fn(&Record) -> bool) -> Box<[u32]> {
        let found = self.all.iter().filter(|(_, record)| wanted(record));
        found.map(|(&pid, _)| pid).collect()
    }

    /// Returns an unused number. Terminates because there are far more numbers than records.
    pub fn fresh(&mut self) -> u32 {
        loop {
            let pid = self.next;
            self.next = if pid + 1 < LAST_PID { pid + 1 } else { FIRST };
            let names = |record: &Record| {
                let begins = record.quota.budgets().any(|budget| budget.owner == pid);
                record.group == pid || record.parent == pid || begins
            };
            if !self.all.contains_key(&pid) && !self.all.values().any(names) {
                return pid;
            }
        }
    }

    /// Returns the next position in the order of all events.
    pub fn tick(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    pub fn insert(&mut self, pid: u32, record: Record) {
        self.all.insert(pid, record);
    }

    pub fn remove(&mut self, pid: u32) -> Option<Record> {
        self.all.remove(&pid)
    }
}

/// Returns whether a process or a group may have this number.
pub fn is_number(number: u32) -> bool {
    (FIRST..LAST_PID).contains(&number)
}
