//! What runs have done: a run in which no kernel dies, or no request succeeds, proves nothing.

use crate::layout::TOTALS;
use crate::raw;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    Steps,
    Deaths,
    Stops,
    Doorbells,
    /// A cache got a page of the shared block.
    PagesMoved,
    /// A cache wrote a page back without being asked.
    Evictions,
    /// A service started again without its state.
    Losses,
    Writes,
    Reads,
    Removals,
    Pipes,
    Sockets,
    Calls,
    Processes,
    /// Processes that a kernel has started without a task.
    Here,
    PagesFilled,
    /// Blocks that left the balloons' common pool, or returned to it, as each kernel's first caller
    /// sees.
    BlocksMoved,
    /// Conversations over channels; answers, blocks and ends in them; and calls that went the
    /// shortest way, without a block and with one.
    Talks,
    Answers,
    BlocksPassed,
    BlocksInMessages,
    WindowsRead,
    EndsPassed,
    ShortWays,
    BlocksAtSeats,
    /// Answers of calls for files and pipes that an order explains, and of calls to the process
    /// table.
    FilesExplained,
    ProcessesExplained,
    /// Histories whose search was given up.
    TooLong,
}

const NAMES: [&str; COUNTS] = [
    "steps",
    "deaths",
    "stops",
    "doorbells",
    "pages moved",
    "evictions",
    "services lost",
    "writes",
    "reads",
    "removals",
    "pipes",
    "sockets",
    "calls",
    "processes",
    "started here",
    "pages filled",
    "blocks moved",
    "talks",
    "answers",
    "blocks passed",
    "blocks in messages",
    "windows read",
    "ends passed",
    "calls the shortest way",
    "blocks the shortest way",
    "answers about files explained",
    "answers about processes explained",
    TOO_LONG,
];

/// The only one that may stay 0.
const TOO_LONG: &str = "histories too long to search";

const COUNTS: usize = Count::TooLong as usize + 1;

/// One number for each [`Count`]; of requests, those that succeeded.
#[derive(Default)]
pub struct Counts([AtomicU64; COUNTS]);

impl Counts {
    pub fn get(&self, what: Count) -> u64 {
        self.0[what as usize].load(Relaxed)
    }

    pub fn add(&self, what: Count, number: u64) -> u64 {
        self.0[what as usize].fetch_add(number, Relaxed) + number
    }

    pub fn add_all(&self, other: &Counts) {
        for (mine, others) in self.0.iter().zip(&other.0) {
            mine.fetch_add(others.load(Relaxed), Relaxed);
        }
    }

    /// What has never happened.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = NAMES.iter().zip(&self.0).filter(|(_, count)| count.load(Relaxed) == 0);
        let missing = missing.filter(|(name, _)| **name != TOO_LONG);
        missing.map(|(name, _)| *name).collect()
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut line = String::new();
        for (name, count) in NAMES.iter().zip(&self.0) {
            let comma = if line.is_empty() { "" } else { ", " };
            write!(line, "{comma}{} {name}", count.load(Relaxed))?;
        }
        f.write_str(&line)
    }
}

/// What every process sees.
struct Shared {
    /// Sums over all runs without a failure.
    totals: Counts,
    /// Runs of an enumeration, and failures among them.
    runs: AtomicU64,
    failures: AtomicU64,
    /// For each domain, the first and the last step of its callers in the run that ended last.
    spans: [[AtomicU64; 2]; 2],
}

fn shared() -> &'static Shared {
    raw::shared(TOTALS)
}

/// Maps it, before any process is forked.
pub fn map() {
    raw::map("the totals", TOTALS, size_of::<Shared>() as u64);
}

/// Returns the sums over all runs without a failure.
pub fn totals() -> &'static Counts {
    &shared().totals
}

/// Adds a run without a failure: its counts, and the first and last steps of the callers of each
/// domain.
pub fn add(counts: &Counts, spans: impl Iterator<Item = (u64, u64)>) {
    totals().add_all(counts);
    for ([from, to], (first, last)) in shared().spans.iter().zip(spans) {
        from.store(first, Relaxed);
        to.store(last, Relaxed);
    }
}

/// Returns the first and the last step of each domain's callers in the run that ended last.
pub fn spans() -> [(u64, u64); 2] {
    shared().spans.each_ref().map(|[first, last]| (first.load(Relaxed), last.load(Relaxed)))
}

/// Counts a run of an enumeration. Returns the runs so far, and the failures among them.
pub fn add_run(is_good: bool) -> (u64, u64) {
    let failures = shared().failures.fetch_add((!is_good).into(), Relaxed) + u64::from(!is_good);
    (shared().runs.fetch_add(1, Relaxed) + 1, failures)
}

/// Returns the runs of an enumeration, and the failures among them.
pub fn runs() -> (u64, u64) {
    (shared().runs.load(Relaxed), shared().failures.load(Relaxed))
}
