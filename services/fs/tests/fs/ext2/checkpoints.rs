//! Checkpoints: a block is written to its place once for several transactions, after their commits;
//! and mistakes about that, planted into traces, which cuts must find.

use super::disk::Done;
use super::planted::{MAGIC, SUPER, is_commit, super_at};
use super::tools::{assert_clean, make};
use super::torn::{Trace, cut_at, record};
use super::tree::tree;
use crate::common::Solo;
use abi::fs::flag;
use std::collections::BTreeSet;
use std::ops::Range;

const NEW: u16 = flag::READ | flag::WRITE | flag::CREATE | flag::EXCLUSIVE;
const DESCRIPTOR: u8 = 1;

/// Makes some files, each with a sync.
fn make_files(solo: &mut Solo, numbers: Range<u32>) {
    let root = solo.root();
    for number in numbers {
        let name = format!("file-{number}");
        let file = solo.with(|c| c.open(root, name.as_bytes(), NEW)).unwrap();
        solo.with(|c| c.write_at(file, 0, &[number as u8; 1000])).unwrap();
        solo.with(|c| c.sync(file)).unwrap();
        solo.with(|c| c.close(file)).unwrap();
    }
    solo.with(|c| c.close(root)).unwrap();
}

/// Returns how often the file system's superblock, in block 0, was written since the last call.
fn super_writes(solo: &mut Solo) -> usize {
    let trace = solo.disk.as_mut().unwrap().trace.replace(Vec::new()).unwrap_or_default();
    trace.iter().filter(|event| matches!(event, Done::Write(0, _))).count()
}

#[test]
fn a_block_of_many_transactions_is_placed_once() {
    let mut solo = Solo::on_disk(make(4096, 16 * 1024, &[]), 1, 0).mount();
    super_writes(&mut solo);
    make_files(&mut solo, 0..1);
    assert_eq!(super_writes(&mut solo), 1, "it is marked as in need of a replay");
    make_files(&mut solo, 1..30);
    assert_eq!(super_writes(&mut solo), 0);
    let root = solo.root();
    solo.with(|c| c.settle(root)).unwrap();
    assert_eq!(super_writes(&mut solo), 2, "it is placed, and then marked clean");
}

/// At most an eighth of the cache, 128 blocks, is unplaced, however large the log is.
#[test]
fn a_checkpoint_follows_when_much_is_unplaced() {
    let mut solo = Solo::on_disk(make(4096, 65_536, &["-J", "size=16"]), 3, 0).mount();
    let root = solo.root();
    let mut made = 0;
    super_writes(&mut solo);
    let mut make_directory = |solo: &mut Solo| {
        let name = format!("directory-{made}");
        solo.with(|c| c.mkdir(root, name.as_bytes())).unwrap();
        let inside = solo.with(|c| c.open(root, name.as_bytes(), flag::READ)).unwrap();
        solo.with(|c| c.sync(inside)).unwrap();
        solo.with(|c| c.close(inside)).unwrap();
        made += 1;
    };
    (0..60).for_each(|_| make_directory(&mut solo));
    assert_eq!(super_writes(&mut solo), 1, "it is marked as in need of a replay");
    (60..130).for_each(|_| make_directory(&mut solo));
    assert_eq!(super_writes(&mut solo), 1);
}

/// A service that died did not write to any place; its successor finds all in the log.
#[test]
fn a_new_life_replays_the_transactions_of_the_one_before() {
    let image = make(4096, 16 * 1024, &[]);
    let mut solo = Solo::on_disk(image, 2, 0).mount();
    make_files(&mut solo, 0..1);
    super_writes(&mut solo);
    make_files(&mut solo, 1..40);
    assert_eq!(super_writes(&mut solo), 0);
    let before = tree(&mut solo);
    let mut solo = Solo::on_disk(solo.disk.take().unwrap().seen, 3, 0).mount();
    assert_eq!(tree(&mut solo), before);
    make_files(&mut solo, 40..50);
    assert_eq!(tree(&mut solo).len(), before.len() + 10);
}

/// Reading more than the cache holds does not evict what only the log has.
#[test]
fn unplaced_blocks_are_not_read_from_their_places() {
    let mut solo = Solo::on_disk(make(1024, 8192, &[]), 4, 0).mount();
    let root = solo.root();
    let (large, most) = (vec![7; 40_000], 3_000_000);
    let file = solo.with(|c| c.open(root, b"large", NEW)).unwrap();
    let mut size = 0;
    while size < most {
        size += solo.with(|c| c.write_at(file, size as u64, &large)).unwrap();
    }
    solo.with(|c| c.settle(root)).unwrap();
    make_files(&mut solo, 0..20);
    let (mut piece, mut at) = (vec![0; 40_000], 0);
    while at < size {
        at += solo.with(|c| c.read_at(file, at as u64, &mut piece)).unwrap();
    }
    solo.with(|c| c.close(file)).unwrap();
    let found = tree(&mut solo);
    for number in 0..20 {
        assert_eq!(found[&format!("file-{number}")], Some(vec![number as u8; 1000]));
    }
    make_files(&mut solo, 20..30);
    assert_clean(&solo.unmount(), "unmounted");
}

/// Requests that change the blocks of a checkpoint while a driver takes one write after the other
/// do not change what it writes: after a cut, when the log is empty, nothing of them is there.
#[test]
fn a_checkpoint_writes_nothing_that_is_not_committed() {
    let mut changes = 0;
    for seed in 0..8 {
        let mut solo = Solo::served(make(1024, 8192, &[]), seed).mount();
        make_files(&mut solo, 0..20);
        let (before, root) = (tree(&mut solo), solo.root());
        solo.disk.as_mut().unwrap().begin_trace();
        solo.ext2().begin_to_settle();
        // A step in which it begins, before there are changes.
        solo.with(|c| c.stat(root)).unwrap();
        let is_emptied = |events: &[Done]| {
            let empties = |event: &Done| {
                matches!(event, Done::Write(_, data) if data.starts_with(&MAGIC)
                    && data[7] == SUPER && word(data, 28) == 0)
            };
            let at = events.iter().position(empties);
            at.is_some_and(|at| events[at..].iter().any(|it| matches!(it, Done::Flush)))
        };
        while !is_emptied(solo.disk.as_ref().unwrap().trace.as_ref().unwrap()) {
            let name = format!("late-{changes}");
            solo.with(|c| c.mkdir(root, name.as_bytes())).unwrap();
            changes += 1;
        }
        let durable = solo.disk.take().unwrap().durable;
        let mut after = Solo::on_disk(durable, seed, 0).mount();
        assert_eq!(tree(&mut after), before, "seed {seed}");
        assert_clean(&after.unmount(), "unmounted");
    }
    assert!(changes > 20, "{changes}");
}

fn word(block: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(block[at..at + 4].try_into().unwrap())
}

/// Returns the blocks in a descriptor.
fn tags(descriptor: &[u8]) -> Vec<u32> {
    let (mut all, mut at) = (Vec::new(), 12);
    loop {
        let flags = word(descriptor, at + 4);
        all.push(word(descriptor, at));
        at += if flags & 2 == 0 { 32 } else { 16 };
        if flags & 8 != 0 {
            return all;
        }
    }
}

/// The writes of a checkpoint in a trace.
struct Checkpoint {
    /// The flush before the first commit since the last checkpoint.
    flush: usize,
    /// Writes to places, of blocks that the log has.
    places: Vec<usize>,
}

/// Returns the checkpoints of a trace.
fn checkpoints(trace: &Trace) -> Vec<Checkpoint> {
    let (mut logged, mut all) = (BTreeSet::new(), Vec::new());
    let (mut flush, mut committed) = (0, None);
    for (number, event) in trace.events.iter().enumerate() {
        match event {
            Done::Flush => flush = number,
            Done::Write(..) if is_commit(event) => committed = committed.or(Some(flush)),
            Done::Write(at, data) => {
                let descriptors = data
                    .chunks(trace.block)
                    .filter(|it| it.starts_with(&MAGIC) && it[7] == DESCRIPTOR);
                logged.extend(descriptors.flat_map(tags));
                // The mark that it is clean, or not, is a superblock of its own.
                let is_mark = *at / 1024 <= 1 && data.len() == trace.block;
                if !logged.contains(&((at / trace.block) as u32)) || is_mark {
                    continue;
                }
                if let Some(flush) = committed.take() {
                    all.push(Checkpoint { flush, places: Vec::new() });
                }
                all.iter_mut().last().unwrap().places.push(number);
            }
        }
    }
    all
}

/// Puts the events into another order. What was synced before an event counts when all events that
/// were before it have happened.
fn reorder(trace: &mut Trace, order: &[usize]) {
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, old)| places[*old] = place);
    for (until, _) in &mut trace.synced {
        *until = places[..*until].iter().max().map_or(0, |last| last + 1);
    }
    let events = std::mem::take(&mut trace.events);
    trace.events = order.iter().map(|old| events[*old].clone()).collect();
}

/// Moves some events to before another one.
fn move_before(trace: &mut Trace, moved: &[usize], before: usize) {
    let rest = (0..trace.events.len()).filter(|it| !moved.contains(it));
    let (first, last): (Vec<_>, Vec<_>) = rest.partition(|it| *it < before);
    reorder(trace, &[&first, moved, &last].concat());
}

/// Returns whether some cut there is not survived.
fn is_found(trace: &Trace, mut range: Range<usize>) -> bool {
    range.any(|at| {
        (0..6).any(|seed| {
            let image = cut_at(trace, at, seed);
            let check = std::panic::AssertUnwindSafe(|| trace.check(image, at, seed));
            // Nonsense that a replay writes may also fail the mount.
            !matches!(std::panic::catch_unwind(check), Ok(Ok(_)))
        })
    })
}

/// Returns of how many traces the mistake was planted in, and in how many it is found. `plant`
/// returns where to look for it.
fn found(
    seeds: impl Iterator<Item = u64>,
    plant: impl Fn(&mut Trace) -> Option<Range<usize>>,
) -> (usize, usize) {
    let (mut planted, mut found) = (0, 0);
    for seed in seeds {
        let mut trace = record(seed, 150);
        let Some(range) = plant(&mut trace) else { continue };
        planted += 1;
        found += usize::from(is_found(&trace, range));
    }
    println!("planted in {planted} traces, found in {found}");
    (planted, found)
}

/// Traces with a log in use from the beginning, and never marked clean.
fn warm() -> impl Iterator<Item = u64> {
    (0..8).map(|seed| 4 * seed + 1)
}

/// Returns whether an event moves the tail to another transaction, or empties the log.
fn moves_tail(trace: &Trace, event: &Done, empties: bool) -> bool {
    let Done::Write(at, data) = event else { return false };
    let is_super = *at == super_at(trace) && data.starts_with(&MAGIC) && data[7] == SUPER;
    is_super && (word(data, 28) == 0) == empties
}

/// A checkpoint writes to the places before any of its transactions is committed.
#[test]
fn a_place_written_before_the_commit_is_found() {
    let (planted, found) = found((0..12).filter(|seed| seed % 4 != 1), |trace| {
        let first = checkpoints(trace).into_iter().next()?;
        move_before(trace, &first.places, first.flush);
        Some(first.flush..first.flush + first.places.len() + 2)
    });
    assert!(planted > 3 && found > 3);
}

/// The tail moves when the places are about to be written.
#[test]
fn a_tail_that_moves_before_the_places_are_durable_is_found() {
    let (planted, found) = found(warm(), |trace| {
        let moved = trace.events.iter().position(|it| moves_tail(trace, it, false))?;
        let last = checkpoints(trace).into_iter().rfind(|it| it.places[0] < moved)?;
        move_before(trace, &[moved], last.places[0]);
        Some(last.places[0]..last.places[0] + last.places.len() + 2)
    });
    assert!(planted > 2 && found > 2);
}

/// The log is emptied without a flush after the places are written.
#[test]
fn a_log_that_is_emptied_before_the_places_are_durable_is_found() {
    let (planted, found) = found((0..16).filter(|seed| seed % 4 != 1), |trace| {
        let emptied = trace.events.iter().position(|it| moves_tail(trace, it, true))?;
        let is_flush = |event: &Done| matches!(event, Done::Flush);
        let flush = trace.events[..emptied].iter().rposition(is_flush)?;
        let next = emptied + trace.events[emptied..].iter().position(is_flush)?;
        move_before(trace, &[flush], next);
        Some(flush..next)
    });
    assert!(planted > 3 && found > 3);
}

/// The cuts of other tests meet checkpoints: before the log is emptied, and because it is full.
#[test]
fn traces_have_checkpoints_of_several_transactions() {
    let (mut full, mut settled, mut most) = (0, 0, 0);
    for seed in 0..32 {
        let trace = record(seed, 150);
        let all = checkpoints(&trace);
        *(if seed % 4 == 1 { &mut full } else { &mut settled }) += all.len();
        let commits = trace.events.iter().filter(|it| is_commit(it)).count();
        most = most.max(commits / all.len().max(1));
    }
    println!(
        "{full} of a full log or a large transaction, {settled} others; {most} commits in one"
    );
    assert!(full > 4 && settled > 20 && most > 3);
}
