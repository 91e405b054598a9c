//! Mistakes planted into what was written, which cuts must find; and logs that hold anything.

use super::disk::Done;
use super::tools::{Image, make};
use super::torn::{Trace, any_cut, record};
use crate::common::Solo;
use base::prng::Prng;
use fs::ext2::ReadOnly;

pub const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
const COMMIT: u8 = 2;
pub const SUPER: u8 = 4;
const REVOKE: u8 = 5;

pub fn is_commit(event: &Done) -> bool {
    matches!(event, Done::Write(_, data) if data.starts_with(&MAGIC) && data[7] == COMMIT)
}

/// Removes these events.
fn without(trace: &mut Trace, removed: impl Fn(&[Done], usize) -> bool) {
    let events = std::mem::take(&mut trace.events);
    let gone: Vec<bool> = (0..events.len()).map(|at| removed(&events, at)).collect();
    for (until, _) in &mut trace.synced {
        *until -= gone[..*until].iter().filter(|gone| **gone).count();
    }
    trace.events = events.into_iter().zip(gone).filter(|(_, gone)| !gone).map(|it| it.0).collect();
}

/// The commit is written without waiting for its copies and data.
fn early_commit(trace: &mut Trace) {
    let next_write = |events: &[Done]| events.iter().position(|it| matches!(it, Done::Write(..)));
    without(trace, |events, at| {
        let next = next_write(&events[at..]);
        matches!(events[at], Done::Flush) && next.is_some_and(|next| is_commit(&events[at + next]))
    });
}

/// A sync, and the writes to the places, do not wait for the commit.
fn unflushed_commit(trace: &mut Trace) {
    without(trace, |events, at| {
        let before = events[..at].iter().rev().find(|it| matches!(it, Done::Write(..)));
        matches!(events[at], Done::Flush) && before.is_some_and(is_commit)
    });
}

/// CRC-32C, bit by bit.
fn crc32c(mut sum: u32, bytes: &[u8]) -> u32 {
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = sum >> 1 ^ if sum & 1 == 0 { 0 } else { 0x82f6_3b78 };
        }
    }
    sum
}

/// Puts the checksum at the end of a block of the log.
fn seal(seed: u32, block: &mut [u8]) {
    let at = block.len() - 4;
    block[at..].fill(0);
    let sum = crc32c(seed, block);
    block[at..].copy_from_slice(&sum.to_be_bytes());
}

/// Blocks of revocations revoke nothing.
fn no_revocations(trace: &mut Trace) {
    let (block, seed) = (trace.block, seed_of(trace));
    for event in &mut trace.events {
        let Done::Write(_, data) = event else { continue };
        for block in data.chunks_mut(block) {
            if block.starts_with(&MAGIC) && block[7] == REVOKE {
                let before = block.to_vec();
                seal(seed, block);
                assert_eq!(before, block, "the seal of the journal");
                block[12..16].copy_from_slice(&16u32.to_be_bytes());
                seal(seed, block);
            }
        }
    }
}

/// Returns the seed of the checksums: that of the UUID, which the journal's superblock has.
fn seed_of(trace: &Trace) -> u32 {
    crc32c(u32::MAX, &trace.image[super_at(trace) + 48..][..16])
}

/// Number of traces in which a mistake must be found.
const SEEDS: u64 = 8;

/// Returns whether some cut of some trace is not survived.
fn is_found(plant: fn(&mut Trace)) -> bool {
    (0..SEEDS).any(|seed| {
        let mut trace = record(seed, 150);
        plant(&mut trace);
        (0..25).any(|cut| {
            let (at, image) = any_cut(&trace, cut);
            let check = std::panic::AssertUnwindSafe(|| trace.check(image, at, cut));
            // Nonsense that a replay writes may also fail the mount.
            !matches!(std::panic::catch_unwind(check), Ok(Ok(_)))
        })
    })
}

/// Returns the blocks of the log of this kind, each with its index, in the order of their writes.
fn written(trace: &Trace, kind: u8) -> Vec<(usize, Box<[u8]>)> {
    let (first, mut all) = (super_at(trace), Vec::new());
    for event in &trace.events {
        let Done::Write(at, data) = event else { continue };
        for (block, at) in data.chunks(trace.block).zip((*at..).step_by(trace.block)) {
            if block.starts_with(&MAGIC) && block[7] == kind {
                all.push(((at - first) / trace.block, block.into()));
            }
        }
    }
    all
}

/// The traces contain what the cuts are to test.
#[test]
fn traces_revoke_move_the_tail_and_reach_the_end_of_the_log() {
    let (mut revoke, mut moved, mut again) = (0, 0, 0);
    for seed in (0..8).map(|seed| 4 * seed + 1) {
        let trace = record(seed, 150);
        revoke += written(&trace, REVOKE).len();
        let starts = written(&trace, SUPER);
        let starts = starts.iter().map(|(_, block)| block[28..32].to_vec());
        let before = trace.image[super_at(&trace) + 28..][..4].to_vec();
        let starts: Vec<_> = std::iter::once(before).chain(starts).collect();
        moved += starts.windows(2).filter(|it| it.iter().all(|at| *at != [0; 4])).count();
        let commits = written(&trace, COMMIT);
        again += commits.windows(2).filter(|it| it[0].0 > it[1].0).count();
    }
    println!("{revoke} blocks of revocations, {moved} moves of the tail, {again} rounds");
    assert!(revoke > 4 && moved > 2 && again > 2);
}

#[test]
fn a_commit_that_does_not_wait_for_its_blocks_is_found() {
    assert!(is_found(early_commit));
}

#[test]
fn a_sync_that_does_not_wait_for_the_commit_is_found() {
    assert!(is_found(unflushed_commit));
}

#[test]
fn missing_revocations_are_found() {
    assert!(is_found(no_revocations));
}

#[test]
fn nothing_is_found_without_a_mistake() {
    assert!(!is_found(|_| {}));
}

/// Returns the offset of the journal's superblock.
pub fn super_at(trace: &Trace) -> usize {
    let is_super = |it: &[u8]| it.starts_with(&MAGIC) && it[7] == SUPER;
    trace.image.chunks(trace.block).position(is_super).unwrap() * trace.block
}

/// A log with any bytes in it is replayed as far as its checksums are right, or refused; with right
/// checksums, too, nothing else happens.
#[test]
fn a_corrupt_log_makes_the_file_system_read_only_at_worst() {
    let (mut refused, mut replayed) = (0, 0);
    for seed in 0..4 {
        let trace = record(seed, 60);
        let (first, sums) = (super_at(&trace), seed_of(&trace));
        for cut in 0..60 {
            let (_, mut image) = any_cut(&trace, cut);
            let mut random = Prng::new(seed << 32 | cut);
            // Of the log, the beginning is in use.
            let log = &mut image[first..first + 200 * trace.block];
            for _ in 0..1 + random.below(8) {
                let at = random.below(200) as usize * trace.block;
                let block = &mut log[at..at + trace.block];
                let most = [64, 1024][random.below(2) as usize];
                let place = random.below(most) as usize & !3;
                let value = [0, u32::MAX, 1, 4, 5, random.next() as u32];
                let value = value[random.below(6) as usize].to_be_bytes();
                block[place..place + 4].copy_from_slice(&value);
                match block[7] {
                    _ if !block.starts_with(&MAGIC) || random.chance(1, 4) => {}
                    SUPER => {
                        block[252..256].fill(0);
                        let sum = crc32c(u32::MAX, &block[..1024]).to_be_bytes();
                        block[252..256].copy_from_slice(&sum);
                    }
                    COMMIT => {}
                    _ => seal(sums, block),
                }
            }
            let mut solo = Solo::on_disk(image, seed, 0);
            super::faults::rummage(&mut solo, cut);
            match solo.ext2().read_only() {
                None => replayed += 1,
                why => refused += u32::from(why == Some(ReadOnly::Unclean)),
            }
        }
    }
    println!("{refused} refused, {replayed} replayed");
    assert!(refused > 10 && replayed > 50);
}

/// A bitmap that begins with the journal's magic number is restored by us and by e2fsck.
#[test]
fn a_block_that_looks_like_one_of_the_journal_is_escaped() {
    let (block, flagged) = (1024, 2);
    let mut image = make(block, 8192, &["-g", "2048", "-N", "512"]);
    let group = &image[2 * block + 32 * flagged..][..8];
    let map = u32::from_le_bytes(group[4..8].try_into().unwrap()) as usize * block;
    image[map..map + 4].copy_from_slice(&MAGIC);
    let mut solo = Solo::on_disk(image, 1, 0).mount();
    let root = solo.root();
    // One of the directories gets the first inode of that group, until it is removed.
    for number in 0..8 {
        solo.with(|c| c.mkdir(root, format!("d{number}").as_bytes())).unwrap();
    }
    solo.with(|c| c.settle(root)).unwrap();
    let image = solo.disk.as_mut().unwrap().begin_trace();
    assert_eq!(image[map], MAGIC[0] | 1);
    for number in 0..8 {
        solo.with(|c| c.rmdir(root, format!("d{number}").as_bytes())).unwrap();
    }
    solo.with(|c| c.settle(root)).unwrap();
    let events = solo.disk.take().unwrap().trace.unwrap();
    let trace = Trace { block, image, events, states: Vec::new(), synced: Vec::new() };
    let mut restored = 0;
    for done in 0..=trace.events.len() {
        let image = trace.cut(done, &mut |_, _| false);
        let theirs = Image::of(&image);
        let (code, said) = theirs.check("-y -E journal_only");
        assert!(code <= 1, "{said}");
        if image[map..].starts_with(&MAGIC) || !theirs.bytes()[map..].starts_with(&MAGIC) {
            continue;
        }
        let ours = Solo::on_disk(image, 1, 0).mount().unmount();
        assert!(ours[map..].starts_with(&MAGIC));
        restored += 1;
    }
    assert!(restored > 0);
}
