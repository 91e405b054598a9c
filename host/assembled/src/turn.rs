//! The state of the simulated chip that all processes share, and the turn: one process runs at a
//! time, and the seed decides which one and for how long.
//!
//! ```text
//!   kernel 0 --\                         each step of a kernel: an access between domains,
//!   kernel 1 ---+-- turn --> one of them a round of a wait, a doorbell, a cache operation
//!   soc --------/
//! ```

use crate::layout::CONTROL;
use crate::raw;
use crate::report::{Count, Counts};
use abi::boot::{BLOCK, MAX_DOMAINS};
use base::addr::PAGE;
use base::prng::Prng;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of the soc among the participants; kernels have their domain's.
pub const SOC: usize = MAX_DOMAINS;
/// Entries of a store buffer.
pub const BUFFER: usize = 12;
/// Pages of the shared block.
pub const PAGES: usize = (BLOCK / PAGE) as usize;
/// Longest message of a failure.
const MESSAGE: usize = 2000;

/// What a participant does.
pub mod state {
    pub const OFF: u32 = 0;
    pub const RUNS: u32 = 1;
    /// Its core waits for an interrupt.
    pub const WAITS: u32 = 2;
}

/// A store that other domains do not see yet.
#[derive(Default)]
pub struct Store {
    pub at: AtomicU64,
    /// 0: the entry is free.
    pub bytes: AtomicU64,
    pub value: AtomicU64,
    /// Order of the stores.
    pub number: AtomicU64,
}

/// A domain with its one core.
pub struct Core {
    pub state: AtomicU32,
    /// INACTIVE: it does not run, whatever its state.
    pub is_stopped: AtomicU32,
    /// Set when it is this domain's turn.
    go: AtomicU32,
    pub pending: AtomicU32,
    pub unmasked: AtomicU32,
    pub deadline: AtomicU64,
    /// Its counter minus chip time.
    pub offset: AtomicI64,
    /// Chip time that a step takes, in ns.
    pub step_ns: AtomicU64,
    /// Number of its steps in all lives.
    steps: AtomicU64,
    /// What that was when its first caller began.
    began: AtomicU64,
    /// The step at which something happens to it; 0: none. See [`crate::points`].
    pub point: AtomicU64,
    pub is_at_point: AtomicU32,
    pub buffer: [Store; BUFFER],
    pub stores: AtomicU64,
    /// For each page of the shared block: bits of [`crate::chip::line`].
    pub pages: [AtomicU8; PAGES],
    /// Callers that have finished, in this life.
    pub finished: AtomicU32,
}

impl Core {
    /// Notes that a caller begins.
    pub fn begin(&self) {
        let _ = self.began.compare_exchange(0, self.steps.load(Relaxed), Relaxed, Relaxed);
    }

    /// Returns the first step of its callers, and its last step so far.
    pub fn span(&self) -> (u64, u64) {
        (self.began.load(Relaxed) + 1, self.steps.load(Relaxed))
    }
}

/// The door at which a kernel's server waits for channels.
pub struct Door {
    /// The life of its kernel; 0: there is none yet.
    pub epoch: AtomicU32,
    pub number: AtomicU64,
}

impl Door {
    /// Returns the epoch and the number.
    pub fn get(&self) -> Option<(u16, u64)> {
        let epoch = self.epoch.load(Relaxed) as u16;
        (epoch != 0).then(|| (epoch, self.number.load(Relaxed)))
    }
}

/// Everything that the processes share beside the board's memory. All zero at first.
pub struct Control {
    pub clock: AtomicU64,
    random: AtomicU64,
    /// Steps until the turn changes.
    left: AtomicU32,
    /// Longest turn.
    pub longest: AtomicU32,
    /// Steps after which a run counts as stuck.
    pub most: AtomicU64,
    pub soc_rung: AtomicU32,
    soc_go: AtomicU32,
    pub cores: [Core; MAX_DOMAINS],
    pub failed: AtomicU32,
    message: [AtomicU8; MESSAGE],
    /// Mixes turns, interrupts and ends of callers: equal for equal seeds.
    pub trace: AtomicU64,
    /// What the chip fails to do: a number of [`crate::chip::Broken`], or 0.
    pub broken: AtomicU32,
    /// What callers do: a number of [`crate::workloads`], or 0.
    pub workload: AtomicU32,
    /// Print the kernels' logs.
    pub is_loud: AtomicU32,
    /// Where the server of each kernel can be reached.
    pub doors: [Door; MAX_DOMAINS],
    /// The ends of a pipe that all callers use; 0 until there is one.
    pub pipe: [AtomicU64; 2],
    /// For the report.
    pub counts: Counts,
}

/// Returns the state that all processes share.
pub fn control() -> &'static Control {
    raw::shared(CONTROL)
}

/// Maps it, in the process that forks the others.
pub fn map() {
    raw::map("the control page", CONTROL, size_of::<Control>() as u64);
}

impl Control {
    pub fn seed(&self, seed: u64) {
        self.random.store(seed, Relaxed);
    }

    /// Returns the next random number of the run.
    pub fn random(&self) -> u64 {
        let mut random = Prng::new(self.random.load(Relaxed));
        let number = random.next();
        self.random.store(random.state(), Relaxed);
        number
    }

    /// Returns a random number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.random() % bound
    }

    /// Mixes a fact into the trace.
    pub fn note(&self, fact: u64) {
        let mixed = (self.trace.load(Relaxed) ^ fact).wrapping_mul(0x0100_0000_01b3);
        self.trace.store(mixed.rotate_left(23), Relaxed);
    }

    /// Marks the run as failed. It ends when the soc has the turn next.
    pub fn fail(&self, why: &str) {
        if self.failed.swap(1, Relaxed) == 0 {
            for (to, from) in self.message.iter().zip(why.bytes().chain([0])) {
                to.store(from, Relaxed);
            }
        }
    }

    pub fn message(&self) -> String {
        let bytes = self.message.iter().map(|byte| byte.load(Relaxed));
        let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the interrupts that domain `d` can take; a deadline that has passed counts as bit 4.
    pub fn ready(&self, d: usize) -> u32 {
        let core = &self.cores[d];
        let due = core.deadline.load(Relaxed) <= self.local_clock(d);
        let pending = core.pending.load(Relaxed) | u32::from(due) << 4;
        pending & (0xff | core.unmasked.load(Relaxed))
    }

    pub fn local_clock(&self, d: usize) -> u64 {
        self.clock.load(Relaxed).wrapping_add_signed(self.cores[d].offset.load(Relaxed))
    }

    fn can_run(&self, d: usize) -> bool {
        let core = &self.cores[d];
        core.is_stopped.load(Relaxed) == 0
            && match core.state.load(Relaxed) {
                state::RUNS => true,
                state::WAITS => self.ready(d) != 0,
                _ => false,
            }
    }

    /// Returns whether any kernel can run.
    pub fn any_runs(&self) -> bool {
        (0..MAX_DOMAINS).any(|d| self.can_run(d))
    }

    /// Picks the next participant.
    fn next(&self) -> usize {
        let mut able = [0; MAX_DOMAINS + 1];
        let mut count = 0;
        for d in (0..MAX_DOMAINS).filter(|&d| self.can_run(d)) {
            able[count] = d;
            count += 1;
        }
        let at_point = self.cores.iter().any(|core| core.is_at_point.load(Relaxed) != 0);
        if count == 0 || at_point || self.failed.load(Relaxed) != 0 {
            return SOC;
        }
        // The soc looks around once in a while, for what is planned.
        if self.soc_rung.load(Relaxed) != 0 || self.below(32) == 0 {
            able[count] = SOC;
            count += 1;
        }
        able[self.below(count as u64) as usize]
    }

    fn go(&self, participant: usize) -> &AtomicU32 {
        self.cores.get(participant).map_or(&self.soc_go, |core| &core.go)
    }

    /// Waits for the turn. Returns false if it does not come within a second of the host's time.
    pub fn wait_for_turn(&self, me: usize) -> bool {
        raw::take(self.go(me))
    }

    /// Passes the turn on. Returns true if `me` has it again at once.
    pub fn pass(&self, me: usize) -> bool {
        let next = self.next();
        let longest = u64::from(self.longest.load(Relaxed));
        self.left.store(1 + self.below(longest) as u32, Relaxed);
        self.note(next as u64);
        if next == me {
            return true;
        }
        raw::give(self.go(next));
        false
    }

    /// Counts a step. Returns whether the turn is over.
    pub fn step(&self, me: usize) -> bool {
        self.clock.fetch_add(self.cores[me].step_ns.load(Relaxed), Relaxed);
        if self.counts.add(Count::Steps, 1) > self.most.load(Relaxed) {
            self.fail("no end: the callers do not finish");
        }
        let left = self.left.load(Relaxed).saturating_sub(1);
        self.left.store(left, Relaxed);
        let core = &self.cores[me];
        let at_point = core.steps.fetch_add(1, Relaxed) + 1 == core.point.load(Relaxed);
        if at_point {
            core.is_at_point.store(1, Relaxed);
        }
        left == 0 || at_point || self.failed.load(Relaxed) != 0
    }
}
