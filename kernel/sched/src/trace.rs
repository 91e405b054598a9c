//! The bounded structured log. A trace point records a name and two numbers, with time and core.
//! When the log is full, the oldest record is dropped and counted.

use arch::lock::{Lock, Rank};
use base::port::Trace;

/// Number of records kept.
pub const RECORDS: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// soc time in ns.
    pub time: u64,
    pub core: u8,
    pub name: &'static str,
    pub a: u64,
    pub b: u64,
}

const EMPTY: Record = Record { time: 0, core: 0, name: "", a: 0, b: 0 };

struct Ring {
    records: [Record; RECORDS],
    written: u64,
}

pub struct TraceLog(Lock<Ring>);

impl Default for TraceLog {
    fn default() -> Self {
        Self::new()
    }
}

impl TraceLog {
    pub const fn new() -> Self {
        let rank = Rank::leaf(240, "trace");
        TraceLog(Lock::new(rank, Ring { records: [EMPTY; RECORDS], written: 0 }))
    }

    /// Returns the number of records dropped to make room for newer ones.
    pub fn dropped(&self) -> u64 {
        self.0.lock().written.saturating_sub(RECORDS as u64)
    }

    /// Visits the last `count` records, oldest first, without holding the lock during `visit`.
    pub fn for_last(&self, count: usize, visit: &mut dyn FnMut(&Record)) {
        let written = self.0.lock().written;
        let from = written.saturating_sub(count.min(RECORDS) as u64);
        for number in from..written {
            let record = {
                let ring = self.0.lock();
                let kept = ring.written - number <= RECORDS as u64;
                kept.then(|| ring.records[number as usize % RECORDS])
            };
            if let Some(record) = record {
                visit(&record);
            }
        }
    }
}

impl Trace for TraceLog {
    fn event(&self, name: &'static str, a: u64, b: u64) {
        let record = Record { time: arch::time::soc_time(), core: arch::cpu::core().0, name, a, b };
        let mut ring = self.0.lock();
        let place = ring.written as usize % RECORDS;
        ring.records[place] = record;
        ring.written += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_and_counts_the_rest() {
        let log = TraceLog::new();
        for n in 0..RECORDS as u64 + 10 {
            log.event("n", n, 0);
        }
        assert_eq!(log.dropped(), 10);
        let mut seen = Vec::new();
        log.for_last(3, &mut |record| seen.push(record.a));
        let last = RECORDS as u64 + 9;
        assert_eq!(seen, [last - 2, last - 1, last]);
    }
}
