//! Memory: holes, budgets, short counts.

use crate::common::Solo;
use abi::fs::{Errno, Op, Request, STEP, flag};
use fs::ramfs::RESERVED;
use fs::ramfs::memory::{CHUNK_COST, ENTRY, NODE};

const CREATE: u16 = flag::READ | flag::WRITE | flag::CREATE;

fn free(solo: &mut Solo, root: u64) -> u64 {
    solo.with(|c| c.space(root)).unwrap().1
}

#[test]
fn a_hole_reads_as_zeros_and_takes_no_memory() {
    let mut solo = Solo::new(1 << 20);
    let root = solo.root();
    let file = solo.with(|c| c.open(root, b"f", CREATE)).unwrap();
    let before = free(&mut solo, root);
    solo.with(|c| {
        c.write_at(file, 1 << 40, b"end").unwrap();
        c.write_at(file, 5, b"begin").unwrap();
        let mut bulk = [9; 100];
        assert_eq!(c.read_at(file, (1 << 40) - 50, &mut bulk), Ok(53));
        assert!(bulk[..50].iter().all(|b| *b == 0) && &bulk[50..53] == b"end");
        assert_eq!(c.read_at(file, 1 << 30, &mut bulk), Ok(100));
        assert_eq!(bulk, [0; 100]);
    });
    assert_eq!(before - free(&mut solo, root), 2 * CHUNK_COST);
    solo.with(|c| {
        c.set_size(file, 7).unwrap();
        c.set_size(file, 20).unwrap();
        let mut bulk = [9; 30];
        assert_eq!(c.read_at(file, 0, &mut bulk), Ok(20));
        assert_eq!(
            &bulk[..20],
            b"\0\0\0\0\0be\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "truncated bytes are zero"
        );
        c.set_size(file, 0).unwrap();
    });
    assert_eq!(free(&mut solo, root), before);
}

#[test]
fn a_full_file_system_loses_nothing() {
    let mut solo = Solo::new(10 * CHUNK_COST);
    let root = solo.root();
    let file = solo.with(|c| c.open(root, b"f", CREATE)).unwrap();
    assert_eq!(free(&mut solo, root), 10 * CHUNK_COST - NODE - ENTRY - 2);
    solo.with(|c| {
        let all = vec![7; 40_960];
        assert_eq!(c.write(file, &all), Ok(9 * 4096), "short: what there was space for");
        assert_eq!(c.write(file, b"more"), Err(Errno::Nospc));
        assert_eq!(c.write_at(file, 4000, &[8; 200]), Ok(200), "what is there can be changed");
        assert_eq!(c.stat(file).unwrap().size, 9 * 4096);
        for at in 0.. {
            match c.mkdir(root, format!("{at}").as_bytes()) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error, Errno::Nospc);
                    break;
                }
            }
        }
        let listed = c.list(root, 1000).unwrap();
        let long = [b'n'; 255];
        assert_eq!(c.rename(root, b"0", root, &long), Err(Errno::Nospc));
        assert_eq!(c.link(root, b"f", root, &long), Err(Errno::Nospc));
        assert_eq!(c.symlink(root, &long, b"l"), Err(Errno::Nospc));
        assert_eq!(c.list(root, 1000), Ok(listed));
        assert_eq!(c.rename(root, b"0", root, b"1"), Ok(()), "needs nothing");
        let mut bulk = vec![0; 40_960];
        assert_eq!(c.read_at(file, 0, &mut bulk), Ok(9 * 4096));
        assert!(bulk[..4000].iter().all(|b| *b == 7) && bulk[4000..4200].iter().all(|b| *b == 8));
        c.set_size(file, 4096).unwrap();
        assert_eq!(c.write_at(file, 4096, &all), Ok(8 * 4096));
    });
}

#[test]
fn large_requests_are_cut_short() {
    let mut solo = Solo::new(1 << 24);
    let root = solo.root();
    let file = solo.with(|c| c.open(root, b"f", CREATE)).unwrap();
    let mut bulk = vec![1; 1 << 20];
    assert_eq!(solo.with(|c| c.write(file, &bulk)), Ok(STEP));
    solo.with(|c| c.set_size(file, 1 << 20)).unwrap();
    assert_eq!(solo.with(|c| c.read_at(file, 0, &mut bulk)), Ok(STEP));
    let reserve = Request { length: 1 << 30, ..Request::new(Op::Allocate, file) };
    assert_eq!(solo.ask(reserve, &mut []).value, RESERVED);
    let before = free(&mut solo, root);
    assert_eq!(solo.with(|c| c.write_at(file, 0, &bulk)), Ok(STEP));
    assert_eq!(free(&mut solo, root), before, "it was reserved already");
}

#[test]
fn the_memory_of_a_large_file_is_free_at_once() {
    let mut solo = Solo::new(1 << 23);
    let root = solo.root();
    let empty = free(&mut solo, root);
    for round in 0..5 {
        solo.with(|c| {
            let file = c.open(root, b"f", CREATE).unwrap();
            let (bulk, mut at) = (vec![round + 1; STEP], 0);
            loop {
                match c.write_at(file, at, &bulk) {
                    Ok(done) => at += done as u64,
                    Err(error) => break assert_eq!(error, Errno::Nospc),
                }
            }
            assert!(at > 8_000_000, "{at}");
            c.unlink(root, b"f").unwrap();
            c.close(file).unwrap();
            // Reused chunks show nothing of their earlier contents.
            let file = c.open(root, b"g", CREATE).unwrap();
            c.write_at(file, 100, b"x").unwrap();
            let mut bulk = [9; 101];
            c.read_at(file, 0, &mut bulk).unwrap();
            assert!(bulk[..100].iter().all(|b| *b == 0));
            c.close(file).unwrap();
            c.unlink(root, b"g").unwrap();
        });
        assert_eq!(free(&mut solo, root), empty);
    }
}

#[test]
fn offsets_at_the_limit_fail_or_are_cut_short() {
    let mut solo = Solo::new(1 << 20);
    let root = solo.root();
    let file = solo.with(|c| c.open(root, b"f", CREATE)).unwrap();
    let largest = i64::MAX as u64;
    solo.with(|c| {
        assert_eq!(c.write_at(file, largest - 2, b"abcd"), Ok(2));
        assert_eq!(c.write_at(file, largest, b"a"), Err(Errno::Fbig));
        assert_eq!(c.write_at(file, u64::MAX, b"a"), Err(Errno::Fbig));
        assert_eq!(c.read_at(file, u64::MAX, &mut [0; 9]), Ok(0));
        assert_eq!(c.read_at(file, largest - 1, &mut [0; 9]), Ok(1));
        assert_eq!(c.set_size(file, u64::MAX), Err(Errno::Fbig));
        assert_eq!(c.stat(file).unwrap().size, largest);
    });
    for (offset, length) in [(u64::MAX, u64::MAX), (1, u64::MAX), (largest, 1), (u64::MAX, 1)] {
        let request = Request { offset, length, ..Request::new(Op::Allocate, file) };
        assert_eq!(solo.ask(request, &mut []).errno(), Errno::Fbig);
    }
    let seek = |offset: i64, flags| Request {
        offset: offset.cast_unsigned(),
        flags,
        ..Request::new(Op::Seek, file)
    };
    assert_eq!(solo.ask(seek(1, flag::END), &mut []).errno(), Errno::Overflow);
    assert_eq!(solo.ask(seek(-1, 0), &mut []).errno(), Errno::Inval);
    assert_eq!(solo.ask(seek(i64::MIN, flag::END), &mut []).errno(), Errno::Inval);
    assert_eq!(solo.ask(seek(-3, flag::END), &mut []).value, largest - 3);
}

#[test]
fn writing_sets_times_and_reading_does_not() {
    let mut solo = Solo::new(1 << 20);
    let root = solo.root();
    let file = solo.with(|c| c.open(root, b"f", CREATE)).unwrap();
    let made = solo.with(|c| c.stat(file)).unwrap();
    assert_eq!((made.accessed, made.modified), (made.changed, made.changed));
    let written = solo.with(|c| {
        c.write(file, b"a").unwrap();
        c.stat(file).unwrap()
    });
    assert!(written.modified > made.modified && written.accessed == made.accessed);
    let read = solo.with(|c| {
        c.read_at(file, 0, &mut [0]).unwrap();
        c.stat(file).unwrap()
    });
    assert_eq!(read, written);
    let flags = flag::ACCESSED | flag::MODIFIED_NOW;
    solo.ask(Request { flags, accessed: 5, ..Request::new(Op::SetTimes, file) }, &mut []);
    let set = solo.with(|c| c.stat(file)).unwrap();
    assert!(set.accessed == 5 && set.modified > read.modified && set.changed == set.modified);
}

#[test]
fn file_times_are_wall_clock_times() {
    let mut solo = Solo::new(1 << 20);
    let day = 1_767_225_600_000_000_000;
    solo.woken.1 = day;
    let root = solo.root();
    solo.with(|c| c.mkdir(root, b"d")).unwrap();
    let times = solo.with(|c| c.stat_path(root, b"d", 0)).unwrap();
    let now = day..=day + solo.now;
    assert!(now.contains(&times.modified) && now.contains(&times.changed));
}
