//! Disk images. The input damages an ext2 image and then uses it. The service, its memory and the
//! driver's requests are those of a kernel. Rules:
//! - nothing panics or hangs: each operation has an answer or an error, after a bounded number of
//!   I/Os;
//! - the file system takes no more memory than its superblock accounts for, of an arena that holds
//!   all of the service;
//! - it reads and writes only blocks that its superblock counts, and writes nothing if it is
//!   mounted read-only;
//! - an image that is not damaged answers like the model, and what is written is what is read. What
//!   is in free blocks is never seen, and a changed byte of a file's data changes nothing else.

mod disk;
mod images;

use crate::bytes::Bytes;
use crate::{Target, mutate};
use abi::fs::{Errno, Op, Reply, flag, kind};
use base::prng::Prng;
use disk::Mounted;
use fs::exercise::{Digest, exercise};
use fs::model::{Limits, Model};

pub use disk::{Allocator, allocator};
pub(crate) use disk::{Own, Thread};

pub const TARGET: Target = Target {
    name: "ext2",
    about: "disk images: the ext2 file system of a kernel",
    daily: 700,
    nightly: 50_000,
    run: |bytes| judge(bytes, &mut |_, _| {}),
    seed: |seed| {
        let mut prng = Prng::new(seed);
        let mut bytes = mutate::noise(&mut prng, 30, 500);
        if seed.is_multiple_of(20) {
            bytes[1] = 0; // not damaged
        }
        bytes
    },
    outcomes: || {
        vec![
            (0, "refused"),
            (1, "mounted"),
            (2, "like the model"),
            (3, "a file was read"),
            (4, "a file was written"),
            (5, "a directory was changed"),
            (6, "an I/O error"),
            (7, "read-only"),
        ]
    },
};

/// Bytes of an input that is used.
const LONGEST: usize = 2048;
const NEW: u16 = flag::READ | flag::WRITE | flag::CREATE;
/// Bytes of a file that are read at a time.
const PIECE: usize = 50_000;
/// Operations of the comparison with the model.
const OPERATIONS: u64 = 150;

/// Called with each operation and its reply, so that a test can plant a mistake.
type Meddle<'a> = &'a mut dyn FnMut(u16, &mut Reply);

fn judge(bytes: &[u8], meddle: Meddle<'_>) -> u64 {
    let mut input = Bytes::new(bytes, LONGEST);
    let base = &images::ALL[input.below(images::ALL.len())];
    let mut image = base.bytes.clone();
    let damages = input.below(24);
    let changed = (damages == 0).then(|| base.litter(&mut image, &mut input));
    (0..damages).for_each(|_| base.damage(&mut image, &mut input));
    let Some(mut mounted) = Mounted::new(image) else {
        assert!(changed.is_none(), "an intact image is refused");
        return 1;
    };
    let before = mounted.outcomes();
    let all = match changed {
        Some(changed) => {
            look_for(&mut mounted, base.block, changed);
            compare(&mut mounted, input.u64(), base.block, meddle)
        }
        None => rummage(&mut mounted, &mut input),
    };
    mounted.end();
    before | all | mounted.outcomes()
}

/// The byte of [`images::FILLED`] that was changed is read, and all others are as they were.
fn look_for(mounted: &mut Mounted, block: usize, (at, value): (usize, u8)) {
    let root = mounted.directory;
    let (name, byte, length) = images::FILLED;
    let handle = mounted.with(|c| c.open(root, name, flag::READ)).expect("it is there");
    let mut bytes = vec![0; length];
    for (piece, into) in bytes.chunks_mut(PIECE).enumerate() {
        let read = mounted.with(|c| c.read_at(handle, (piece * PIECE) as u64, into));
        assert_eq!(read, Ok(into.len()));
    }
    let changed = bytes.iter().enumerate().filter(|(_, it)| **it != byte);
    let changed: Vec<_> = changed.map(|(at, it)| (at % block, *it)).collect();
    assert_eq!(changed, [(at, value)]);
    mounted.with(|c| c.close(handle)).expect("it is open");
}

/// Compares an intact image with the model.
fn compare(mounted: &mut Mounted, seed: u64, block: usize, meddle: Meddle<'_>) -> u64 {
    let found = exercise(seed, OPERATIONS, &mut |request, bulk| {
        let mut reply = mounted.ask_below(request, bulk);
        meddle(request.op, &mut reply);
        reply
    });
    // A long listing takes another number of requests in another order.
    let without_count = |digest: Result<Digest, Errno>| digest.map(|it| (it.hash, it.refused));
    let expected = expected(seed, block);
    assert_eq!(without_count(found), without_count(expected), "the model differs");
    1 << 2
}

/// Returns the model's digest.
fn expected(seed: u64, block: usize) -> Result<Digest, Errno> {
    let fan = block as u64 / 4;
    let largest = (12 + fan + fan * fan + fan * fan * fan) * block as u64;
    let mut model =
        Model::within(u64::MAX / 2, Limits { largest, allocated: 65_536, ..Limits::RAMFS });
    exercise(seed, OPERATIONS, &mut |request, bulk| {
        if request.op == Op::Readdir as u16 {
            return disk::listed(&mut model, request, bulk);
        }
        model.answer(7, request, bulk).expect("the model does not wait")
    })
}

/// Tries operations on what is there.
fn rummage(mounted: &mut Mounted, input: &mut Bytes<'_>) -> u64 {
    let mut paths: Vec<Vec<u8>> = images::PATHS.iter().map(|path| path.to_vec()).collect();
    let (root, mut outcomes) = (mounted.directory, 0);
    while !input.is_empty() {
        let path = paths[input.below(paths.len())].clone();
        let other = [path.as_slice(), b"x"].concat();
        let changed = match input.below(12) {
            0 => mounted.with(|c| c.unlink(root, &path)),
            1 => mounted.with(|c| c.rmdir(root, &path)),
            2 => mounted.with(|c| c.rename(root, &path, root, &other)),
            3 => mounted.with(|c| c.link(root, &path, root, &other)),
            4 => mounted.with(|c| c.mkdir(root, &other)),
            5 => mounted.with(|c| c.symlink(root, &path, &other)),
            6 => mounted.with(|c| c.settle(root)).and(Err(Errno::Again)),
            _ => {
                outcomes |= look_into(mounted, &path, &mut paths, input).unwrap_or(0);
                Err(Errno::Again)
            }
        };
        outcomes |= u64::from(changed.is_ok()) << 5 | u64::from(changed == Err(Errno::Io)) << 6;
        mounted.pass(input.below(8) as u64);
    }
    outcomes
}

fn look_into(
    mounted: &mut Mounted,
    path: &[u8],
    paths: &mut Vec<Vec<u8>>,
    input: &mut Bytes<'_>,
) -> Result<u64, Errno> {
    let (root, mut outcomes) = (mounted.directory, 0);
    let writes = mounted.with(|c| c.open(root, path, NEW));
    let handle = match writes {
        Ok(handle) => handle,
        Err(_) => mounted.with(|c| c.open(root, path, flag::READ))?,
    };
    let stat = mounted.with(|c| c.stat(handle));
    if stat.is_ok_and(|stat| stat.kind == kind::DIRECTORY) {
        let listed = mounted.with(|c| c.list_some(handle, 0, 4000));
        for entry in listed.unwrap_or_default().0 {
            if !entry.name.starts_with(b".") && paths.len() < 100 && path.len() < 200 {
                paths.push([path, b"/", &entry.name].concat());
            }
        }
    } else {
        let offset = input.number(27);
        let length = if input.once_in(4) { 60_000 } else { 3000 };
        let mut bytes = vec![7; length];
        let read = mounted.with(|c| c.read_at(handle, offset, &mut bytes));
        let data = vec![input.byte(); length];
        let written = mounted.with(|c| c.write_at(handle, offset, &data));
        if let Ok(count) = written {
            let read = mounted.with(|c| c.read_at(handle, offset, &mut bytes[..count]));
            // A block that is damaged may be one of several of this file.
            assert!(read.is_err() || read == Ok(count), "{read:?} of {count} bytes");
        }
        outcomes |= u64::from(read.is_ok()) << 3 | u64::from(written.is_ok()) << 4;
        if input.once_in(2) {
            let _ = mounted.with(|c| c.set_size(handle, offset / 3));
        }
        if input.once_in(4) {
            let _ = mounted.with(|c| c.sync(handle));
        }
    }
    mounted.with(|c| c.close(handle)).map(|()| outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_from_the_model_is_found() {
        let mut wrong = |op: u16, reply: &mut Reply| {
            if op == Op::Stat as u16 {
                reply.stat.links ^= 1;
            }
        };
        let one = std::panic::AssertUnwindSafe(|| judge(&[0, 0, 5], &mut wrong));
        assert!(std::panic::catch_unwind(one).is_err());
    }

    #[test]
    fn memory_beyond_the_limit_is_found() {
        let exercised = |memory: Option<u64>| {
            let mut mounted = Mounted::new(images::ALL[0].bytes.clone()).expect("it is intact");
            mounted.memory = memory.unwrap_or(mounted.memory);
            compare(&mut mounted, 5, 1024, &mut |_, _| {});
        };
        exercised(None);
        // The operations need more than this.
        assert!(std::panic::catch_unwind(|| exercised(Some(40_000))).is_err());
    }
}
