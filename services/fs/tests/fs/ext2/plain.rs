//! The exercise against the model, and compatibility with e2fsprogs.

use super::disk::Done;
use super::tools::{Image, assert_clean, make};
use crate::common::{Pair, Solo, token};
use abi::fs::{Errno, Op, Request, flag, kind};
use fs::exercise::exercise;

const NEW: u16 = flag::READ | flag::WRITE | flag::CREATE;

/// Runs the exercise on a disk and checks the image afterwards.
fn exercised(block: usize, options: &[&str], seeds: std::ops::Range<u64>) {
    let image = make(block, 16 * 1024, options);
    for seed in seeds {
        let mut solo = Solo::on_disk(image.clone(), seed, 0).mount();
        let limits = solo.limits();
        let mut pair = Pair::on(solo, limits);
        exercise(seed, 1000, &mut |request, bulk| pair.ask(request, bulk))
            .unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        pair.assert_clean();
        assert_clean(&pair.solo.unmount(), &format!("seed {seed}, blocks of {block}"));
    }
}

#[test]
fn random_operations_match_the_model() {
    exercised(4096, &[], 0..8);
    exercised(1024, &["-g", "2048"], 10..18);
    exercised(2048, &["-I", "128"], 20..24);
}

/// A sync ends although another caller keeps writing: it waits only for earlier changes.
#[test]
fn a_sync_ends_although_another_caller_keeps_writing() {
    let mut solo = Solo::on_disk(make(1024, 4096, &[]), 7, 0).mount();
    let root = solo.root();
    let file = solo.with(|c| c.open(root, b"file", NEW)).unwrap();
    solo.with(|c| c.write_at(file, 0, b"before")).unwrap();
    let begin = Request::new(Op::Sync, file);
    let offset = solo.ask(begin, &mut []).value;
    assert_ne!(offset, 0);
    let wait = Request { offset, ..begin };
    let mut waits = 0;
    while solo.ask_as(token(0, 2), wait, &mut []).is_none() {
        waits += 1;
        assert!(waits < 100, "it waits for what came later");
        solo.with(|c| c.write_at(file, 0, b"later ")).unwrap();
        solo.pump();
    }
    assert_ne!(waits, 0);
    let later = solo.ask(begin, &mut []).value;
    assert!(later > offset, "what came later is not on the device");
    // A generation that does not exist in this mount.
    let none = Request { offset: later + 1, ..begin };
    assert_eq!(solo.ask(none, &mut []).errno(), Errno::Io);
    solo.with(|c| c.close(file)).unwrap();
    solo.with(|c| c.close(root)).unwrap();
    assert_clean(&solo.unmount(), "a writer that never stops");
}

/// Returns bytes without a short period.
fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at / 7 + at / 1009) as u8 ^ seed).collect()
}

/// Writes all of `data`, in as many requests as it takes.
fn write_all(solo: &mut Solo, file: u64, mut offset: u64, mut data: &[u8]) {
    while !data.is_empty() {
        let part = &data[..data.len().min(65_536)];
        let done = solo.with(|c| c.write_at(file, offset, part)).unwrap();
        (offset, data) = (offset + done as u64, &data[done..]);
    }
}

fn read_all(solo: &mut Solo, file: u64, mut offset: u64, length: usize) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), vec![0; 65_536]);
    while all.len() < length {
        let done = solo.with(|c| c.read_at(file, offset, &mut piece)).unwrap();
        assert_ne!(done, 0);
        all.extend(&piece[..done]);
        offset += done as u64;
    }
    all.truncate(length);
    all
}

/// Returns offsets that need zero, one, two and three levels of pointers.
fn far(block: usize) -> [u64; 4] {
    let (block, fan) = (block as u64, block as u64 / 4);
    [0, 12 * block - 5, (12 + fan) * block - 5, (12 + fan + fan * fan) * block - 5]
}

#[test]
fn e2fsprogs_reads_what_we_write() {
    for block in [1024, 4096] {
        let mut solo = Solo::on_disk(make(block, 16 * 1024, &[]), 1, 0).mount();
        let root = solo.root();
        let file = solo.with(|c| c.open(root, b"sparse", NEW)).unwrap();
        for at in far(block) {
            write_all(&mut solo, file, at, b"over the edge");
        }
        let large = bytes(700_000, 3);
        let dense = solo.with(|c| c.open(root, b"dense", NEW)).unwrap();
        write_all(&mut solo, dense, 0, &large);
        let long = vec![b'x'; 900];
        solo.with(|c| c.symlink(root, b"short", b"fast")).unwrap();
        solo.with(|c| c.symlink(root, &long, b"slow")).unwrap();
        for handle in [file, dense, root] {
            solo.with(|c| c.close(handle)).unwrap();
        }
        let image = assert_clean(&solo.unmount(), "others");
        let bytes = image.bytes();
        let text = b"over the edge";
        for (at, byte) in far(block).into_iter().flat_map(|at| (at..).zip(text).step_by(4)) {
            let request = format!("bmap /sparse {}", at / block as u64);
            let said = String::from_utf8(image.debugfs(&request)).unwrap();
            let place = said.trim().parse::<usize>().unwrap() * block;
            assert_eq!(bytes[place + at as usize % block], *byte);
        }
        let said = String::from_utf8_lossy(&image.debugfs("stat /sparse")).into_owned();
        assert!(said.contains("(TIND)"), "{said}");
        assert_eq!(image.debugfs("cat /dense"), large);
        let said = String::from_utf8_lossy(&image.debugfs("stat /fast")).into_owned();
        assert!(said.contains("Fast link dest: \"short\""), "{said}");
        assert_eq!(image.debugfs("cat /slow"), long);
    }
}

#[test]
fn we_read_what_mke2fs_writes() {
    let source = tempfile::tempdir().unwrap();
    let place = |name: &str| source.path().join(name);
    std::fs::create_dir_all(place("deep/deeper")).unwrap();
    std::fs::write(place("deep/deeper/file"), bytes(300_000, 9)).unwrap();
    std::fs::hard_link(place("deep/deeper/file"), place("again")).unwrap();
    std::os::unix::fs::symlink("deep/deeper", place("short")).unwrap();
    std::os::unix::fs::symlink("y".repeat(800), place("long")).unwrap();
    std::fs::create_dir(place("many")).unwrap();
    for number in 0..2000 {
        std::fs::write(place(&format!("many/name-{number}")), b"").unwrap();
    }
    for block in [1024, 2048, 4096] {
        let folder = source.path().to_str().unwrap();
        let image = make(block, 16 * 1024, &["-d", folder, "-N", "4096"]);
        let mut solo = Solo::on_disk(image, 2, 0).mount();
        let root = solo.root();
        for path in ["again", "short/file"] {
            let flags = flag::READ | flag::FOLLOW;
            let file = solo.with(|c| c.open(root, path.as_bytes(), flags)).unwrap();
            assert_eq!(read_all(&mut solo, file, 0, 300_000), bytes(300_000, 9));
            assert_eq!(solo.with(|c| c.stat(file)).unwrap().links, 2);
            solo.with(|c| c.close(file)).unwrap();
        }
        let many = solo.with(|c| c.open(root, b"many", flag::READ)).unwrap();
        let listed = solo.with(|c| c.list(many, 4096)).unwrap();
        assert_eq!(listed.len(), 2002);
        assert!(listed.windows(2).all(|two| two[0].next < two[1].next));
        let stat = solo.with(|c| c.stat_path(root, b"long", 0)).unwrap();
        assert_eq!((stat.kind, stat.size), (kind::LINK, 800));
        assert_clean(&solo.unmount_after(many, root), "only read");
    }
}

impl Solo {
    fn unmount_after(mut self, one: u64, other: u64) -> Vec<u8> {
        self.with(|c| c.close(one)).unwrap();
        self.with(|c| c.close(other)).unwrap();
        self.unmount()
    }
}

#[test]
fn ten_thousand_names_are_added_listed_and_removed() {
    for block in [1024, 4096] {
        let mut solo = Solo::in_a_kernel(make(block, 32 * 1024, &["-N", "12288"]), 4).mount();
        let root = solo.root();
        solo.with(|c| c.mkdir(root, b"d")).unwrap();
        let dir = solo.with(|c| c.open(root, b"d", flag::READ)).unwrap();
        for number in 0..10_000 {
            let name = format!("a file with the number {number}");
            let file = solo.with(|c| c.open(dir, name.as_bytes(), NEW)).unwrap();
            solo.with(|c| c.close(file)).unwrap();
        }
        let listed = solo.with(|c| c.list(dir, 60_000)).unwrap();
        assert_eq!(listed.len(), 10_002);
        for entry in listed.iter().filter(|entry| entry.name.len() > 2).step_by(2) {
            solo.with(|c| c.unlink(dir, &entry.name)).unwrap();
        }
        let left = solo.with(|c| c.list(dir, 3000)).unwrap();
        assert_eq!(left.len(), 5002);
        let kept = |name: &[u8]| listed.iter().find(|e| e.name == name).map(|e| e.next);
        assert!(left.iter().all(|e| kept(&e.name) == Some(e.next)), "cookies stay");
        assert_clean(&solo.unmount_after(dir, root), "ten thousand");
    }
}

#[test]
fn a_file_without_names_lives_until_closed_and_is_freed_in_steps() {
    let image = make(1024, 16 * 1024, &[]);
    let mut solo = Solo::on_disk(image, 5, 0).mount();
    let root = solo.root();
    let before = solo.with(|c| c.space(root)).unwrap().1;
    let file = solo.with(|c| c.open(root, b"f", NEW)).unwrap();
    let data = bytes(5_000_000, 1);
    write_all(&mut solo, file, 0, &data);
    solo.with(|c| c.unlink(root, b"f")).unwrap();
    assert_eq!(solo.with(|c| c.open(root, b"f", flag::READ)), Err(Errno::Noent));
    assert_eq!(read_all(&mut solo, file, 0, data.len()), data);
    assert_eq!(solo.with(|c| c.stat(file)).unwrap().links, 0);
    // Its space can be reused at once: a write that needs it waits until it is freed.
    solo.with(|c| c.close(file)).unwrap();
    let other = solo.with(|c| c.open(root, b"g", NEW)).unwrap();
    write_all(&mut solo, other, 0, &bytes(12_000_000, 2));
    solo.with(|c| c.set_size(other, 100)).unwrap();
    write_all(&mut solo, other, 20_000_000, b"end");
    let middle = read_all(&mut solo, other, 90, 1000);
    assert_eq!(middle[..10], bytes(12_000_000, 2)[90..100]);
    assert!(middle[10..].iter().all(|byte| *byte == 0));
    solo.with(|c| c.unlink(root, b"g")).unwrap();
    solo.with(|c| c.close(other)).unwrap();
    let mut again = Solo::on_disk(
        {
            solo.with(|c| c.close(root)).unwrap();
            solo.unmount()
        },
        6,
        0,
    )
    .mount();
    let root = again.root();
    assert_eq!(again.with(|c| c.space(root)).unwrap().1, before);
    again.with(|c| c.close(root)).unwrap();
    assert_clean(&again.unmount(), "long files");
}

#[test]
fn unsupported_images_are_refused_or_read_only() {
    use fs::ext2::{ReadOnly, Unfit};
    let image = make(1024, 2048, &[]);
    let with = |at: usize, value: u32| {
        let mut image = image.clone();
        image[1024 + at..1024 + at + 4].copy_from_slice(&value.to_le_bytes());
        let mut solo = Solo::on_disk(image, 1, 0);
        let root = solo.root();
        let made = solo.with(|c| c.mkdir(root, b"d"));
        (made, solo.ext2().unfit(), solo.ext2().read_only())
    };
    let failed = Err(Errno::Io);
    assert_eq!(with(96, 2 | 0x40), (failed, Some(Unfit::Features(0x40)), None));
    assert_eq!(with(56, 0), (failed, Some(Unfit::Magic), None));
    assert_eq!(with(32, 0), (failed, Some(Unfit::Geometry), None));
    let rofs = Err(Errno::Rofs);
    assert_eq!(with(100, 1 | 0x8), (rofs, None, Some(ReadOnly::Features(8))));
    assert_eq!(with(56, 0xef53), (rofs, None, Some(ReadOnly::Unclean)));
    assert_eq!(with(92, 0), (rofs, None, Some(ReadOnly::NoJournal)));
    assert_eq!(with(1000, 0).0, Ok(()));
}

/// What a sync costs: the data, each changed block twice, two blocks of the journal, two flushes;
/// the first one also marks the device.
#[test]
fn a_sync_takes_two_flushes() {
    let mut solo = Solo::on_disk(make(4096, 16 * 1024, &[]), 1, 0).mount();
    let root = solo.root();
    let mut costs = Vec::new();
    for number in 0..4 {
        solo.disk.as_mut().unwrap().trace = Some(Vec::new());
        let name = format!("file-{number}");
        let file = solo.with(|c| c.open(root, name.as_bytes(), NEW)).unwrap();
        solo.with(|c| c.write_at(file, 0, &[7; 1000])).unwrap();
        solo.with(|c| c.sync(file)).unwrap();
        solo.with(|c| c.close(file)).unwrap();
        while solo.pump() {}
        let trace = solo.disk.as_mut().unwrap().trace.take().unwrap();
        let blocks =
            |event: &Done| if let Done::Write(_, data) = event { data.len() / 4096 } else { 0 };
        let flushes = trace.iter().filter(|event| matches!(event, Done::Flush)).count();
        costs.push((trace.iter().map(blocks).sum::<usize>(), flushes));
    }
    println!("blocks and flushes: {costs:?}");
    // Two bitmaps, the descriptors, the superblock, two blocks of inodes, a directory.
    assert_eq!(costs[1..].iter().map(|cost| cost.1).collect::<Vec<_>>(), [2; 3]);
    assert_eq!(costs[0].1, 3);
    assert!(costs.iter().all(|cost| cost.0 <= 1 + 2 * 7 + 4));
}

#[test]
fn a_hash_tree_is_dropped_when_its_directory_changes() {
    let source = tempfile::tempdir().unwrap();
    std::fs::create_dir(source.path().join("d")).unwrap();
    for number in 0..800 {
        std::fs::write(source.path().join(format!("d/name-{number}")), b"").unwrap();
    }
    let folder = source.path().to_str().unwrap();
    let image = Image::of(&make(1024, 8192, &["-d", folder]));
    image.check("-fyD");
    let said = |image: &Image| String::from_utf8_lossy(&image.debugfs("stat /d")).into_owned();
    assert!(said(&image).contains("Flags: 0x1000"), "{}", said(&image));
    let mut solo = Solo::on_disk(image.bytes(), 1, 0).mount();
    let root = solo.root();
    solo.with(|c| c.unlink(root, b"d/name-77")).unwrap();
    for number in 0..100 {
        let name = format!("d/more-{number}");
        let file = solo.with(|c| c.open(root, name.as_bytes(), NEW)).unwrap();
        solo.with(|c| c.close(file)).unwrap();
    }
    solo.with(|c| c.close(root)).unwrap();
    let image = assert_clean(&solo.unmount(), "hashes");
    assert!(said(&image).contains("Flags: 0x0"), "{}", said(&image));
}
