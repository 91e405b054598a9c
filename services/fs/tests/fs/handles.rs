//! Handles: owners, lifetime, duplicates.

use crate::common::{Solo, token};
use abi::fs::{Errno, Op, Request, flag};
use base::id::{DomainId, Epoch};
use fs::Vfs;
use fs::vfs::handles::HANDLES;
use share::{Event, Service, Token};

const BUDGET: u64 = 1 << 20;
const RW: u16 = flag::READ | flag::WRITE | flag::CREATE;

#[test]
fn a_handle_of_an_earlier_life_is_restarted_and_a_closed_one_bad() {
    let mut solo = Solo::new(BUDGET);
    let root = solo.root();
    let file = solo.with(|c| c.open(root, b"f", RW)).unwrap();
    solo.vfs = Vfs::start(4);
    // These take no handle.
    let others = [
        Op::Root,
        Op::Pipe,
        Op::Poll,
        Op::NextIo,
        Op::NextJob,
        Op::JobDone,
        Op::Mounts,
        Op::Unmount,
    ];
    for op in Op::ALL.iter().filter(|op| !others.contains(op)) {
        let request = Request { length: 1, ..Request::new(*op, file) };
        assert_eq!(solo.ask(request, &mut [0]).errno(), Errno::Restarted, "{op:?}");
    }
    let root = solo.root();
    solo.with(|c| {
        assert_eq!(c.open(root, b"f", flag::READ), Err(Errno::Noent), "the files are lost");
        c.close(root).unwrap();
        assert_eq!(c.close(root), Err(Errno::Badf));
        assert_eq!(c.stat(root), Err(Errno::Badf));
        assert_eq!(c.stat(0), Err(Errno::Badf));
        assert_eq!(c.close(file), Err(Errno::Restarted));
    });
    assert_eq!(Errno::Restarted.wasi(), 72);
}

#[test]
fn a_reused_slot_has_a_new_handle() {
    let mut solo = Solo::new(BUDGET);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..5000 {
        let root = solo.root();
        assert!(seen.insert(root));
        solo.with(|c| c.close(root)).unwrap();
    }
}

#[test]
fn duplicates_share_a_position_and_outlive_the_first() {
    let mut solo = Solo::new(BUDGET);
    let root = solo.root();
    solo.with(|c| {
        let one = c.open(root, b"f", RW).unwrap();
        let two = c.dup(one).unwrap();
        let other = c.open(root, b"f", RW).unwrap();
        assert_eq!(c.write(one, b"abc"), Ok(3));
        assert_eq!(c.write(two, b"def"), Ok(3));
        c.close(one).unwrap();
        let mut bulk = [0; 10];
        assert_eq!(c.read(two, &mut bulk), Ok(0));
        assert_eq!(c.read(other, &mut bulk), Ok(6));
        assert_eq!(&bulk[..6], b"abcdef");
    });
}

#[test]
fn two_kernels_use_one_handle_and_its_owners_death_closes_it() {
    let mut solo = Solo::new(BUDGET);
    let (main, shadow) = (token(0, 1), token(1, 1));
    let root = solo.with_as(shadow, |c| c.root()).unwrap();
    let file = solo.with_as(main, |c| c.open(root, b"f", RW)).unwrap();
    let kept = solo.with_as(shadow, |c| c.dup(file)).unwrap();
    assert_eq!(solo.with_as(shadow, |c| c.write(file, b"shadow")), Ok(6));
    assert_eq!(solo.with_as(main, |c| c.write(file, b"main")), Ok(4));
    solo.tell(Event::Gone(DomainId(0), Epoch(2)));
    assert!(solo.with_as(shadow, |c| c.stat(file)).is_ok(), "another life of that kernel");
    solo.tell(Event::Gone(DomainId(0), Epoch(1)));
    assert_eq!(solo.with_as(shadow, |c| c.stat(file)), Err(Errno::Badf));
    assert_eq!(solo.with_as(shadow, |c| c.stat(kept)).map(|s| s.size), Ok(10));
    solo.tell(Event::Gone(DomainId(1), Epoch(1)));
    assert_eq!(solo.vfs.census(), (0, 0));
}

#[test]
fn a_file_without_names_lives_until_its_last_handle_is_closed() {
    let mut solo = Solo::new(BUDGET);
    let root = solo.root();
    let free = solo.with(|c| c.space(root)).unwrap().1;
    let (dead, live) = solo.with(|c| {
        let live = c.open(root, b"f", RW).unwrap();
        c.write(live, &[7; 5000]).unwrap();
        c.unlink(root, b"f").unwrap();
        assert_eq!(c.stat(live).map(|s| (s.links, s.size)), Ok((0, 5000)));
        let dead = c.open(root, b"f", RW).unwrap();
        assert_ne!(c.stat(dead).unwrap().node, c.stat(live).unwrap().node);
        (dead, live)
    });
    solo.with(|c| {
        let mut bulk = [0; 6000];
        assert_eq!(c.read_at(live, 0, &mut bulk), Ok(5000));
        assert!(bulk[..5000].iter().all(|b| *b == 7));
        c.close(live).unwrap();
        c.close(dead).unwrap();
        c.unlink(root, b"f").unwrap();
        assert_eq!(c.space(root).unwrap().1, free);
    });
}

#[test]
fn without_a_free_handle_nothing_is_created() {
    let mut solo = Solo::new(BUDGET);
    let root = solo.root();
    for _ in 1..HANDLES {
        solo.with(|c| c.dup(root)).unwrap();
    }
    solo.with(|c| {
        assert_eq!(c.dup(root), Err(Errno::Nfile));
        assert_eq!(c.root(), Err(Errno::Nfile));
        assert_eq!(c.pipe(0), Err(Errno::Nfile));
        assert_eq!(c.open(root, b"new", RW), Err(Errno::Nfile));
        assert_eq!(c.stat_path(root, b"new", 0), Err(Errno::Noent));
        c.close(root).unwrap();
    });
    solo.with(|c| c.root()).unwrap();
    solo.tell(Event::Gone(DomainId(0), Epoch(1)));
    assert_eq!(solo.vfs.census(), (0, 0));
}

#[test]
fn the_number_of_links_is_limited() {
    let mut solo = Solo::new(64 << 20);
    let root = solo.root();
    solo.with(|c| {
        let file = c.open(root, b"f", RW).unwrap();
        for at in 1..65_535u32 {
            c.link(root, b"f", root, format!("{at}").as_bytes()).unwrap();
        }
        assert_eq!(c.link(root, b"f", root, b"more"), Err(Errno::Mlink));
        assert_eq!(c.stat(file).unwrap().links, 65_535);
    });
}

#[test]
fn tokens_of_one_thread_differ() {
    let of = |sequence| Token::new(DomainId(0), Epoch(1), 7, sequence);
    assert_ne!(of(1), of(2));
}
