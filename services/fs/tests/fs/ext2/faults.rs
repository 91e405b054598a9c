//! Corrupt images, failing disks, and full disks.

use super::tools::{assert_clean, make};
use crate::common::{Pair, Solo};
use abi::fs::{Errno, flag, kind};
use base::prng::Prng;
use fs::exercise::exercise;

const NEW: u16 = flag::READ | flag::WRITE | flag::CREATE;

/// Creates an image with files, directories and links.
fn filled(block: usize) -> Vec<u8> {
    let mut solo = Solo::on_disk(make(block, 8192, &["-N", "256"]), 1, 0).mount();
    let root = solo.root();
    for name in ["d", "d/e", "d/e/f", "g"] {
        solo.with(|c| c.mkdir(root, name.as_bytes())).unwrap();
    }
    for number in 0..40u64 {
        let name = format!("{}file-{number}", ["", "d/", "d/e/", "g/"][number as usize % 4]);
        let file = solo.with(|c| c.open(root, name.as_bytes(), NEW)).unwrap();
        let offset = number * number * 200_000 % 60_000_000;
        solo.with(|c| c.write_at(file, offset, &vec![number as u8; 500 * number as usize]))
            .unwrap();
        solo.with(|c| c.close(file)).unwrap();
    }
    solo.with(|c| c.symlink(root, b"d/e", b"link")).unwrap();
    solo.with(|c| c.symlink(root, &[b'l'; 500], b"g/long")).unwrap();
    solo.with(|c| c.close(root)).unwrap();
    solo.unmount()
}

/// With a disk that accepts no writes, each sync fails, also for changes after those that could not
/// be written, and no caller waits forever.
#[test]
fn each_sync_to_a_dead_disk_fails() {
    let mut solo = Solo::on_disk(make(1024, 4096, &[]), 3, 0).mount();
    let root = solo.root();
    let [file, other] =
        [&b"file"[..], b"other"].map(|name| solo.with(|c| c.open(root, name, NEW)).unwrap());
    solo.with(|c| c.write_at(file, 0, &[7; 5000])).unwrap();
    solo.with(|c| c.sync(file)).unwrap();
    solo.disk.as_mut().unwrap().failing = (0, 1000);
    for round in 0..4 {
        solo.with(|c| c.write_at(file, round, b"more")).unwrap();
        assert_eq!(solo.with(|c| c.sync(file)), Err(Errno::Io), "round {round}");
        solo.with(|c| c.write_at(other, round, b"more")).unwrap();
        assert_eq!(solo.with(|c| c.sync(other)), Err(Errno::Io), "round {round}");
    }
    // Freed blocks wait for the generation too, and so do names that replace others.
    let _ = solo.with(|c| c.set_size(file, 10));
    assert_eq!(solo.with(|c| c.sync(file)), Err(Errno::Io));
    for _ in 0..20 {
        let _ = solo.with(|c| c.unlink(root, b"other"));
        let _ = solo.with(|c| c.open(root, b"other", NEW).and_then(|file| c.close(file)));
    }
    solo.disk.as_mut().unwrap().failing = (0, 0);
    while solo.with(|c| c.sync(file)).is_err() {}
    for handle in [file, other, root] {
        solo.with(|c| c.close(handle)).unwrap();
    }
    assert_clean(&solo.unmount(), "a disk that was dead");
}

/// Tries all operations on what it finds, and ignores the results.
pub fn rummage(solo: &mut Solo, seed: u64) {
    let mut random = Prng::new(seed);
    let root = solo.root();
    let mut paths = vec![b"d".to_vec()];
    for _ in 0..120 {
        let at = random.below(paths.len() as u64) as usize;
        let path = paths[at].clone();
        let other = [path.as_slice(), b"x"].concat();
        let _ = match random.below(10) {
            0 => solo.with(|c| c.unlink(root, &path)),
            1 => solo.with(|c| c.rmdir(root, &path)),
            2 => solo.with(|c| c.rename(root, &path, root, &other)),
            3 => solo.with(|c| c.link(root, &path, root, &other)),
            4 => solo.with(|c| c.mkdir(root, &other)),
            5 => solo.with(|c| c.stat_path(root, &path, flag::FOLLOW)).map(|_| ()),
            _ => look_into(solo, root, &path, &mut paths, &mut random),
        };
    }
    let _ = solo.with(|c| c.close(root));
}

fn look_into(
    solo: &mut Solo,
    root: u64,
    path: &[u8],
    paths: &mut Vec<Vec<u8>>,
    random: &mut Prng,
) -> Result<(), Errno> {
    let writes = solo.with(|c| c.open(root, path, NEW));
    let handle = match writes {
        Ok(handle) => handle,
        Err(_) => solo.with(|c| c.open(root, path, flag::READ))?,
    };
    let stat = solo.with(|c| c.stat(handle));
    if stat.is_ok_and(|stat| stat.kind == kind::DIRECTORY) {
        let listed = solo.with(|c| c.list_some(handle, 0, 4000));
        for entry in listed.unwrap_or_default().0 {
            if !entry.name.starts_with(b".") && paths.len() < 300 && path.len() < 200 {
                paths.push([path, b"/", &entry.name].concat());
            }
        }
    } else {
        let offset = random.below(70_000_000);
        let mut bytes = vec![7; 5000];
        let _ = solo.with(|c| c.read_at(handle, 0, &mut bytes));
        let _ = solo.with(|c| c.read_at(handle, offset, &mut bytes));
        let _ = solo.with(|c| c.write_at(handle, offset, &bytes));
        if random.chance(1, 2) {
            let _ = solo.with(|c| c.set_size(handle, offset / 3));
        }
        let _ = solo.with(|c| c.sync(handle));
    }
    solo.with(|c| c.close(handle))
}

#[test]
fn corrupt_images_cause_errors_only() {
    for (block, seeds) in [(1024, 0..60u64), (4096, 60..90)] {
        let image = filled(block);
        for seed in seeds {
            let mut random = Prng::new(seed);
            let mut image = image.clone();
            for _ in 0..1 + random.below(40) {
                // In the superblock, descriptors, bitmaps, inodes, and the first directories.
                let at = 1024 + random.below(120 * 1024);
                let last = |at: u64| at + 4 < 1024 + 104 && at > 1024 + 50;
                let bytes = &mut image[at as usize..at as usize + 4];
                match random.below(if last(at) { 1 } else { 4 }) {
                    0 => bytes[0] ^= 1 << random.below(8),
                    1 => bytes.fill(0xff),
                    2 => bytes.copy_from_slice(&(random.below(4096) as u32).to_le_bytes()),
                    _ => bytes.fill(0),
                }
            }
            let mut solo = Solo::on_disk(image, seed, 0);
            rummage(&mut solo, seed);
        }
    }
}

#[test]
fn cyclic_pointers_do_not_cause_endless_loops() {
    for block in [1024usize, 4096] {
        let mut image = filled(block);
        // Every block of pointers, and every directory, points to itself and to its neighbours.
        let blocks = (image.len() / block) as u32;
        let mut random = Prng::new(5);
        for place in 60 * 1024 / block..blocks as usize {
            let bytes = &mut image[place * block..(place + 1) * block];
            if bytes.iter().filter(|byte| **byte != 0).count() < 40 {
                for word in bytes.chunks_exact_mut(4) {
                    let to = place as u32 + random.below(3) as u32 - 1;
                    word.copy_from_slice(&to.to_le_bytes());
                }
            }
        }
        for seed in 0..5 {
            rummage(&mut Solo::on_disk(image.clone(), seed, 0), seed);
        }
    }
}

#[test]
fn occasional_disk_failures_change_nothing() {
    let image = make(1024, 16 * 1024, &["-g", "2048"]);
    let mut failed = 0;
    for seed in 0..10 {
        let mut solo = Solo::on_disk(image.clone(), seed, 0).mount();
        let limits = solo.limits();
        let (mut pair, mut asked) = (Pair::on(solo, limits), 0);
        exercise(seed, 1000, &mut |request, bulk| {
            asked += 1;
            let failing = if (20..1000).contains(&asked) { (50, 10) } else { (0, 0) };
            pair.solo.disk.as_mut().unwrap().failing = failing;
            let reply = pair.ask(request, bulk);
            failed += u64::from(reply.errno() == Errno::Io);
            reply
        })
        .unwrap();
        pair.assert_clean();
        assert_clean(&pair.solo.unmount(), &format!("seed {seed}"));
    }
    println!("{failed} failed");
    assert!(failed > 20);
}

/// Returns the image of a file of 64 blocks, one of which holds a unique mark, and the offset of
/// the mark.
fn with_a_mark() -> (Vec<u8>, usize) {
    let mut solo = Solo::on_disk(make(1024, 4096, &[]), 1, 0).mount();
    let root = solo.root();
    let file = solo.with(|c| c.open(root, b"file", NEW)).unwrap();
    let mut data = vec![7; 64 * 1024];
    data[9 * 1024..][..8].copy_from_slice(b"the mark");
    solo.with(|c| c.write_at(file, 0, &data)).unwrap();
    for handle in [file, root] {
        solo.with(|c| c.close(handle)).unwrap();
    }
    let image = solo.unmount();
    let at = image.windows(8).position(|bytes| bytes == b"the mark").unwrap();
    (image, at)
}

#[test]
fn consecutive_blocks_are_read_together_and_a_bad_one_fails_alone() {
    let (image, at) = with_a_mark();
    for broken in [None, Some(at)] {
        let mut solo = Solo::on_disk(image.clone(), 1, 0).mount();
        let root = solo.root();
        let file = solo.with(|c| c.open(root, b"file", flag::READ)).unwrap();
        let disk = solo.disk.as_mut().unwrap();
        (disk.broken, disk.reads) = (broken, 0);
        let mut whole = vec![0; 64 * 1024];
        let read = solo.with(|c| c.read_at(file, 0, &mut whole));
        assert_eq!(read, if broken.is_some() { Err(Errno::Io) } else { Ok(64 * 1024) });
        for number in 0..64u64 {
            let mut piece = [0; 1024];
            let read = solo.with(|c| c.read_at(file, number * 1024, &mut piece));
            let spoilt = broken.is_some() && number == 9;
            assert_eq!(read, if spoilt { Err(Errno::Io) } else { Ok(1024) }, "block {number}");
        }
        let reads = solo.disk.as_ref().unwrap().reads;
        assert!(broken.is_some() || reads < 12, "{reads} reads of 64 blocks");
    }
}

#[test]
fn each_read_of_a_dead_disk_fails() {
    let mut solo = Solo::on_disk(make(1024, 4096, &[]), 1, 0).mount();
    let root = solo.root();
    let mut handles = vec![root];
    for number in 0..8 {
        let file = solo.with(|c| c.open(root, format!("f{number}").as_bytes(), NEW)).unwrap();
        for at in 0..4u64 {
            solo.with(|c| c.write_at(file, at << 16, &[7; 1 << 16])).unwrap();
        }
        handles.push(file);
    }
    handles.into_iter().for_each(|handle| solo.with(|c| c.close(handle)).unwrap());
    let mut solo = Solo::on_disk(solo.unmount(), 1, 0).mount();
    let root = solo.root();
    let open = |number| format!("f{number}");
    let files: Vec<u64> = (0..8)
        .map(|number| solo.with(|c| c.open(root, open(number).as_bytes(), flag::READ)).unwrap())
        .collect();
    for &file in &files {
        // This loads the pointers to its blocks.
        solo.with(|c| c.read_at(file, 255 << 10, &mut [0; 16])).unwrap();
    }
    solo.disk.as_mut().unwrap().failing = (1000, 0);
    for round in 0..3u64 {
        for (at, &file) in (0..12u64).flat_map(|at| files.iter().rev().map(move |f| (at, f))) {
            let offset = (at * 7 + round) % 12 * (16 << 10);
            let read = solo.with(|c| c.read_at(file, offset, &mut [0; 16 << 10]));
            assert_eq!(read, Err(Errno::Io), "at {offset}");
        }
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    for (block, inodes) in [(1024, "64"), (1024, "2048"), (4096, "128")] {
        let mut solo =
            Solo::on_disk(make(block, 2048 * block as u64 / 1024, &["-N", inodes]), 3, 0).mount();
        let root = solo.root();
        for round in 0..3u8 {
            let mut files = Vec::new();
            let full = loop {
                let name = format!("a name of some length, and its number {}", files.len());
                let file = match solo.with(|c| c.open(root, name.as_bytes(), NEW)) {
                    Ok(file) => file,
                    Err(error) => break error,
                };
                let data = vec![files.len() as u8 ^ round; 1500];
                let done = solo.with(|c| c.write_at(file, 200, &data));
                solo.with(|c| c.close(file)).unwrap();
                files.push((name, *done.as_ref().unwrap_or(&0)));
                if let Err(error) = done {
                    break error;
                }
            };
            assert_eq!(full, Errno::Nospc);
            assert!(solo.with(|c| c.mkdir(root, b"d")).is_err());
            for (number, (name, length)) in files.iter().enumerate() {
                let file = solo.with(|c| c.open(root, name.as_bytes(), flag::READ)).unwrap();
                let mut bytes = vec![0; 4000];
                let there = solo.with(|c| c.read_at(file, 200, &mut bytes)).unwrap();
                assert_eq!(there, *length);
                assert!(bytes[..there].iter().all(|byte| *byte == number as u8 ^ round));
                solo.with(|c| c.close(file)).unwrap();
                solo.with(|c| c.unlink(root, name.as_bytes())).unwrap();
            }
        }
        solo.with(|c| c.close(root)).unwrap();
        assert_clean(&solo.unmount(), "full");
    }
}
