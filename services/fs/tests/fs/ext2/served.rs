//! Disks driven by requests: the same replies, whatever happens to the driver.

use super::cuts::cut;
use super::disk::Disk;
use super::driver::{DISK, Drivers};
use super::drivers::exercised;
use super::tools::{assert_clean, make};
use crate::common::{Solo, token};
use abi::fs::{Errno, Op, Request, flag, reply_flag};
use base::id::{DomainId, Epoch};
use fs::ext2::memory;
use fs::vfs::devices::DELAY;
use fs::vfs::disks::OUT;
use fs::vfs::listener::PATIENCE;
use share::Event;

const NEW: u16 = flag::READ | flag::WRITE | flag::CREATE;

#[test]
fn random_operations_match_the_model() {
    exercised(4096, 1, |_| {});
    exercised(1024, 2, |_| {});
    exercised(1024, 3, |driver| driver.most = 7);
    exercised(4096, 4, |driver| (driver.most, driver.room) = (OUT, 1000));
}

#[test]
fn missed_wakes_only_cost_time() {
    for seed in 10..14 {
        exercised(1024, seed, |driver| (driver.most, driver.troubles) = (3, (300, 0)));
    }
}

#[test]
fn the_io_of_a_dead_kernel_is_issued_again() {
    for seed in 20..24 {
        exercised(2048, seed, |driver| (driver.most, driver.troubles) = (5, (50, 20)));
    }
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    let mut synced = 0;
    for seed in 300..312 {
        let served = |image, seed| {
            let mut solo = Solo::served(image, seed);
            let driver = solo.drivers.as_mut().unwrap();
            (driver.most, driver.troubles) = (1 + seed as usize % 6, (20, 5));
            solo
        };
        synced += cut(seed, false, served).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    assert!(synced > 12);
}

/// Creates a ramfs, and a disk with a driver that has nothing to do yet.
fn beside(image: &[u8]) -> Solo {
    let (disk, drivers) = (Some(Disk::new(image.to_vec(), 1)), Some(Drivers::new(1)));
    Solo { disk, drivers, ..Solo::new(8 << 20) }
}

#[test]
fn a_disk_is_mounted_once_within_its_memory() {
    let image = make(1024, 16 * 1024, &[]);
    let wanted = memory(&image[1024..2048]).unwrap();
    assert!(wanted < 4 << 20, "{wanted}");
    assert_eq!(memory(&[0; 1024]), None);
    let mut solo = beside(&image);
    let next = Request::new(Op::NextIo, DISK);
    let alone = solo.ask_as(token(0, 7), next, &mut []).unwrap();
    assert_eq!(alone.errno(), Errno::Noent);
    let root = solo.root();
    let mount = |solo: &mut Solo, name: &[u8], disk, bytes| {
        solo.with(|c| c.mkdir(root, name)).unwrap();
        solo.with(|c| c.mount(root, name, disk, bytes, 0))
    };
    assert_eq!(mount(&mut solo, b"a", DISK, 9 << 20), Err(Errno::Nomem));
    assert_eq!(mount(&mut solo, b"b", 65, wanted), Err(Errno::Inval));
    assert_eq!(mount(&mut solo, b"c", DISK, wanted), Ok(()));
    assert_eq!(mount(&mut solo, b"d", DISK, wanted), Err(Errno::Busy));
    assert_eq!(solo.with(|c| c.space(root)).unwrap().0, (8 << 20) - wanted);
    let file = solo.with(|c| c.open(root, b"c/file", NEW)).unwrap();
    assert_eq!(solo.with(|c| c.write_at(file, 5000, b"there")), Ok(5));
    solo.with(|c| c.sync(file)).unwrap();
    assert_eq!(solo.with(|c| c.about(file)), Ok(reply_flag::DISK));
    assert_eq!(solo.with(|c| c.about(root)), Ok(0));
    let disk = solo.disk.as_ref().unwrap();
    assert!(disk.durable.windows(5).any(|bytes| bytes == b"there"));
    solo.with(|c| c.close(file)).unwrap();
    let inside = solo.with(|c| c.open(root, b"c", flag::READ)).unwrap();
    assert_eq!(solo.with(|c| c.settle(inside)), Ok(true));
    let image = assert_clean(&solo.disk.unwrap().durable, "settled");
    assert_eq!(image.debugfs("cat /file")[5000..], *b"there");
}

#[test]
fn a_disk_over_the_root_is_the_root() {
    let image = make(1024, 16 * 1024, &[]);
    let wanted = memory(&image[1024..2048]).unwrap();
    let mut solo = beside(&image);
    let ram = solo.root();
    assert_eq!(solo.with(|c| c.mount(ram, b".", DISK, wanted, 0)), Err(Errno::Inval));
    solo.with(|c| c.mkdir(ram, b"d")).unwrap();
    assert_eq!(solo.with(|c| c.mount(ram, b"d", DISK, wanted, flag::TOP)), Err(Errno::Inval));
    solo.with(|c| c.mount(ram, b".", DISK, wanted, flag::TOP)).unwrap();
    let root = solo.root();
    assert_eq!(solo.with(|c| c.about(root)), Ok(reply_flag::DISK));
    assert_eq!(solo.with(|c| c.stat_path(root, b"d", 0)), Err(Errno::Noent));
    assert_eq!(solo.with(|c| c.stat_path(ram, b"d", 0)).map(|stat| stat.device), Ok(1));
    assert_eq!(solo.with(|c| c.mount(root, b".", 2, 0, flag::TOP)), Err(Errno::Exist));
    assert_eq!(solo.with(|c| c.mount(ram, b".", 2, 0, flag::TOP)), Err(Errno::Exist));
}

#[test]
fn a_disk_that_needs_more_memory_is_not_mounted() {
    let image = make(4096, 16 * 1024, &[]);
    let mut solo = beside(&image);
    let root = solo.root();
    solo.with(|c| c.mkdir(root, b"d")).unwrap();
    let wanted = memory(&image[1024..2048]).unwrap();
    solo.with(|c| c.mount(root, b"d", DISK, wanted - 1, 0)).unwrap();
    let opened = solo.with(|c| c.open(root, b"d/file", NEW));
    assert_eq!(opened, Err(Errno::Io));
}

#[test]
fn a_read_only_mount_reads() {
    let image = make(1024, 4096, &[]);
    let mut solo = beside(&image);
    let root = solo.root();
    solo.with(|c| c.mkdir(root, b"d")).unwrap();
    let wanted = memory(&image[1024..2048]).unwrap();
    solo.with(|c| c.mount(root, b"d", DISK, wanted, flag::READ)).unwrap();
    assert_eq!(solo.with(|c| c.open(root, b"d/file", NEW)), Err(Errno::Rofs));
    let inside = solo.with(|c| c.open(root, b"d", flag::READ)).unwrap();
    assert_eq!(solo.with(|c| c.about(inside)), Ok(reply_flag::DISK | reply_flag::READ_ONLY));
    assert_eq!(solo.with(|c| c.settle(inside)), Ok(true));
    assert_eq!(solo.disk.unwrap().seen, image);
}

/// Changes are written without a request, removed files are freed, and the image is marked clean.
#[test]
fn the_timer_writes_and_marks_clean() {
    let mut solo = Solo::served(make(1024, 4096, &[]), 1).mount();
    let root = solo.root();
    let file = solo.with(|c| c.open(root, b"file", NEW)).unwrap();
    solo.with(|c| c.write_at(file, 0, b"there")).unwrap();
    solo.with(|c| c.close(file)).unwrap();
    for number in 0..100 {
        let name = format!("gone-{number}");
        let file = solo.with(|c| c.open(root, name.as_bytes(), NEW)).unwrap();
        solo.with(|c| c.write_at(file, 30_000, b"soon")).unwrap();
        solo.with(|c| c.close(file)).unwrap();
        solo.with(|c| c.unlink(root, name.as_bytes())).unwrap();
    }
    solo.with(|c| c.close(root)).unwrap();
    let written = |solo: &Solo| {
        let disk = solo.disk.as_ref().unwrap();
        disk.durable.windows(5).any(|bytes| bytes == b"there")
    };
    while solo.pump() {}
    solo.now += DELAY;
    solo.tell(Event::Timer);
    while solo.pump() {}
    assert!(written(&solo));
    let before = solo.disk.as_ref().unwrap().answered;
    solo.now += DELAY;
    solo.tell(Event::Timer);
    while solo.pump() {}
    assert_eq!(solo.disk.as_ref().unwrap().answered, before, "nothing was left to do");
    assert_clean(&solo.disk.unwrap().durable, "written by the timer");
}

/// The kernel that was to deliver the timer may die: then the next step does what is due.
#[test]
fn a_late_write_back_starts_with_the_next_step() {
    let mut solo = Solo::served(make(1024, 4096, &[]), 1).mount();
    let root = solo.root();
    solo.with(|c| c.mkdir(root, b"directory")).unwrap();
    solo.now += DELAY;
    solo.with(|c| c.stat(root)).unwrap();
    while solo.pump() {}
    let durable = &solo.disk.as_ref().unwrap().durable;
    assert!(durable.windows(9).any(|bytes| bytes == b"directory"));
}

/// A waiting driver is woken when there is an I/O, and again if it did not come.
#[test]
fn a_waiting_driver_is_woken_once_and_again_after_a_while() {
    let mut solo = Solo::served(make(1024, 4096, &[]), 1).mount();
    solo.drivers = None;
    solo.tell(Event::Gone(DomainId(2), Epoch(1)));
    let (listener, other) = (token(1, 5), token(0, 1));
    let next = Request::new(Op::NextIo, DISK);
    assert_eq!(solo.ask_as(listener, next, &mut [0; 4096]), None);
    let root = solo.ask_as(other, Request::new(Op::Root, 0), &mut []).unwrap().handle;
    let open = Request { name: 10, flags: flag::READ, ..Request::new(Op::Open, root) };
    let mut path = *b"lost+found";
    solo.take_woken();
    // Resolving the path needs a block.
    assert_eq!(solo.ask_as(other, open, &mut path), None);
    assert_eq!(solo.take_woken(), [listener]);
    assert_eq!(solo.ask_as(other, open, &mut path), None);
    assert_eq!(solo.take_woken(), [], "it was woken");
    solo.now += PATIENCE;
    assert_eq!(solo.ask_as(other, open, &mut path), None);
    assert_eq!(solo.take_woken(), [listener]);
    // It dies after taking the I/O, and the next driver gets the same one.
    let took = solo.ask_as(listener, next, &mut [0; 4096]).unwrap();
    assert_eq!(solo.ask_as(token(2, 1), next, &mut [0; 4096]), None);
    solo.tell(Event::Gone(DomainId(1), Epoch(1)));
    assert_eq!(solo.take_woken(), [token(2, 1)]);
    let again = solo.ask_as(token(2, 1), next, &mut [0; 4096]).unwrap();
    assert_eq!((again.value, again.flags), (took.value, took.flags));
    let afresh = Request { flags: flag::RESTARTED, ..next };
    let again = solo.ask_as(token(2, 1), afresh, &mut [0; 4096]).unwrap();
    assert_eq!((again.value, again.flags), (took.value, took.flags));
    let done = |number| Request { flags: flag::GOOD, ..Request::new(Op::IoDone, number) };
    let late = solo.ask_as(listener, done(took.handle), &mut [0; 1024]).unwrap();
    assert_eq!(late.errno(), Errno::Badf);
    let older = solo.ask_as(listener, done(2 << 32 | 1), &mut []).unwrap();
    assert_eq!(older.errno(), Errno::Restarted);
}
