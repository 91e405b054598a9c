//! What callers asked and were answered, in memory that outlives their kernels. One process has the
//! turn at a time, so the place of an entry is its time.
//!
//! ```text
//!   entry: kind, call, caller, kernel, life, is settled, length, length, then two pieces
//!     a call begins     (request, bulk);  its place in the order is its number
//!     it returns        (reply, what it filled)
//!     it fails          the service did not answer
//!     a kernel dies
//! ```

use crate::layout::HISTORY;
use crate::raw;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes for all entries; a run fills a twentieth.
const BYTES: u64 = 8 << 20;
/// Words of an entry before its pieces.
const WORDS: usize = 8;

/// The head of the history: bytes and entries so far.
struct Head {
    used: AtomicU64,
    entries: AtomicU64,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Files = 1,
    Table,
    Returned,
    Failed,
    Died,
}

/// An entry.
#[derive(Clone, Debug)]
pub struct Entry {
    pub kind: Kind,
    /// The call's number; of a call that begins, its own place.
    pub call: u64,
    pub caller: u32,
    pub life: (u8, u16),
    /// Of a request for a task: no end of a process is being reported.
    pub is_settled: bool,
    pub pieces: [Vec<u8>; 2],
}

/// One caller of one kernel's life.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub number: u32,
    pub life: (u8, u16),
}

/// Callers of one life of a kernel, at most.
pub const THREADS: u32 = 1024;

impl Caller {
    /// `thread` is below [`THREADS`] and names the thread in its kernel.
    pub fn new(life: (u8, u16), thread: u32) -> Caller {
        let kernel = u32::from(life.1) * 4 + u32::from(life.0);
        Caller { number: kernel * THREADS + thread, life }
    }
}

/// Maps it, in the process that forks the kernels.
pub fn map() {
    raw::map("the history", HISTORY, BYTES);
}

fn head() -> &'static Head {
    raw::shared(HISTORY)
}

/// Appends an entry. Returns its place in the order.
fn append(kind: Kind, call: u64, caller: Caller, is_settled: bool, pieces: [&[u8]; 2]) -> u64 {
    let (head, lengths) = (head(), pieces.map(|piece| piece.len() as u64));
    let place = head.entries.fetch_add(1, Relaxed);
    let call = if matches!(kind, Kind::Files | Kind::Table) { place } else { call };
    let life = caller.life;
    let first = [kind as u64, call, caller.number.into(), life.0.into(), life.1.into()];
    let words = first.into_iter().chain([is_settled.into()]).chain(lengths);
    let size = 8 * WORDS as u64 + lengths.iter().sum::<u64>().next_multiple_of(8);
    let mut at = HISTORY + size_of::<Head>() as u64 + head.used.fetch_add(size, Relaxed);
    assert!(at + size <= HISTORY + BYTES, "the history is full");
    for word in words {
        raw::store(at, 8, word);
        at += 8;
    }
    for piece in pieces {
        raw::write(at, piece);
        at += piece.len() as u64;
    }
    place
}

/// Notes that a call begins. Returns its number.
pub fn invoked(kind: Kind, caller: Caller, is_settled: bool, request: &[u8], bulk: &[u8]) -> u64 {
    append(kind, 0, caller, is_settled, [request, bulk])
}

/// Notes that a call has returned.
pub fn returned(call: u64, caller: Caller, reply: &[u8], filled: &[u8]) {
    append(Kind::Returned, call, caller, false, [reply, filled]);
}

/// Notes that the service did not answer a call: it may have taken effect until now.
pub fn failed(call: u64, caller: Caller) {
    append(Kind::Failed, call, caller, false, [&[], &[]]);
}

/// Notes that a kernel's life has ended.
pub fn died(life: (u8, u16)) {
    append(Kind::Died, 0, Caller { number: 0, life }, false, [&[], &[]]);
}

/// Returns all entries in order.
pub fn all() -> Vec<Entry> {
    let end = HISTORY + size_of::<Head>() as u64 + head().used.load(Relaxed);
    let mut at = HISTORY + size_of::<Head>() as u64;
    let mut entries = Vec::new();
    while at < end {
        let words: [u64; WORDS] = std::array::from_fn(|word| raw::load(at + 8 * word as u64, 8));
        let kinds = [Kind::Files, Kind::Table, Kind::Returned, Kind::Failed, Kind::Died];
        let kind = kinds.into_iter().find(|kind| *kind as u64 == words[0]);
        let Some(kind) = kind else { panic!("an entry of kind {}", words[0]) };
        at += 8 * WORDS as u64;
        let first = raw::read(at, words[6]);
        let second = raw::read(at + words[6], words[7]);
        at += (words[6] + words[7]).next_multiple_of(8);
        entries.push(Entry {
            kind,
            call: words[1],
            caller: words[2] as u32,
            life: (words[3] as u8, words[4] as u16),
            is_settled: words[5] != 0,
            pieces: [first, second],
        });
    }
    entries
}
