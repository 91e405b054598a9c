//! Random operations from a seed, and a digest of their results.
//!
//! Contract: the sequence depends only on the seed and the replies. The digest covers what every
//! file system and every mode of sharing must return alike: errors, counts, data, kinds, sizes,
//! links, names. It does not cover times, handles, node numbers, cookies, the order of entries,
//! sizes of directories, free space. So a board's digest can be compared with one from the host.
//! All operations are in one directory, which is removed at the end, and none waits. The file
//! system needs [`ROOM`] free bytes; with fewer, the digest depends on where space ran out.

mod data;
mod names;

use crate::client::{Ask, Client, Listed};
use abi::fs::{Errno, Op, Reply, Request, flag};
use alloc::format;
use alloc::vec::Vec;
use base::prng::Prng;

/// Maximum space that an exercise takes, measured over thousands of seeds.
pub const ROOM: u64 = 4 * 1024 * 1024;
/// Maximum number of open handles, besides that of the base directory.
const OPEN: usize = 24;
/// Number of closed handles that are still tried.
const STALE: usize = 4;
/// Number of earlier paths that are tried again.
const KNOWN: usize = 16;

/// The result of an exercise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Hash of all replies.
    pub hash: u64,
    /// Number of requests.
    pub asked: u64,
    /// Number of requests that failed.
    pub refused: u64,
}

impl Digest {
    fn fold(&mut self, value: u64) {
        self.hash = mix(self.hash ^ value);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.fold(hash(bytes));
    }
}

/// Returns a number in which every bit depends on each bit of `value`.
fn mix(value: u64) -> u64 {
    Prng::new(value).next()
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    for piece in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        hash = mix(hash ^ u64::from_le_bytes(word));
    }
    hash
}

/// The kind of object that a handle refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Directory,
    File,
    Pipe,
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    handle: u64,
    sort: Sort,
    /// READ, WRITE.
    flags: u16,
}

struct Exercise<'a> {
    ask: Ask<'a>,
    random: Prng,
    digest: Digest,
    open: Vec<Handle>,
    stale: Vec<u64>,
    /// Paths from the base directory that were found.
    known: Vec<Vec<u8>>,
    bulk: Vec<u8>,
    piece: u64,
}

/// Data that fits a request in every mode. Longer counts may be cut short where requests are
/// carried by messages, which would change the digest.
pub const PIECE: u64 = 3072;

/// Does `operations` random operations from `seed`.
pub fn exercise(seed: u64, operations: u64, ask: Ask<'_>) -> Result<Digest, Errno> {
    exercise_in(u64::MAX, seed, operations, ask)
}

/// The same with at most `piece` bytes of data in a request.
pub fn exercise_in(piece: u64, seed: u64, operations: u64, ask: Ask<'_>) -> Result<Digest, Errno> {
    let name = format!("exercise-{seed:x}").into_bytes();
    let root = Client(ask).root()?;
    Client(ask).mkdir(root, &name)?;
    let base = Client(ask).open(root, &name, flag::READ | flag::DIRECTORY)?;
    let mut run = Exercise {
        ask,
        random: Prng::new(seed),
        digest: Digest::default(),
        open: Vec::from([Handle { handle: base, sort: Sort::Directory, flags: flag::READ }]),
        stale: Vec::new(),
        known: Vec::new(),
        bulk: Vec::new(),
        piece,
    };
    for _ in 0..operations {
        run.operation();
    }
    let digest = run.end()?;
    let client = &mut Client(ask);
    clear(client, root, &name)?;
    client.close(root)?;
    Ok(digest)
}

/// Removes a directory and all its contents.
fn clear(client: &mut Client<'_>, above: u64, name: &[u8]) -> Result<(), Errno> {
    let handle = client.open(above, name, flag::READ | flag::DIRECTORY)?;
    for Listed { name, kind, .. } in client.list(handle, 4096)? {
        match (name.as_slice(), kind) {
            (b"." | b"..", _) => {}
            (_, abi::fs::kind::DIRECTORY) => clear(client, handle, &name)?,
            _ => client.unlink(handle, &name)?,
        }
    }
    client.close(handle)?;
    client.rmdir(above, name)
}

impl Exercise<'_> {
    fn operation(&mut self) {
        match self.random.below(100) {
            0..17 => self.do_open(),
            17..22 => self.do_close(),
            22..37 => self.do_write(),
            37..47 => self.do_read(),
            47..51 => self.do_seek(),
            51..55 => self.do_set_size(),
            55..57 => self.do_allocate(),
            57..60 => self.do_stat(),
            60..64 => self.do_stat_path(),
            64..66 => self.do_set_times(),
            66..73 => self.do_mkdir(),
            73..75 => self.do_remove(Op::Rmdir),
            75..80 => self.do_remove(Op::Unlink),
            80..86 => self.do_two(Op::Rename),
            86..89 => self.do_two(Op::Link),
            89..92 => self.do_symlink(),
            92..94 => self.do_readlink(),
            94..96 => self.do_list(),
            96..97 => self.do_pipe(),
            97..98 => self.do_poll(),
            98..99 => self.do_adjust(),
            _ => self.do_dup(),
        }
    }

    /// Sends a request and adds the comparable part of its reply to the digest. The data stays in
    /// `bulk`.
    fn asks(&mut self, request: Request) -> Reply {
        let mut reply = (self.ask)(request, &mut self.bulk);
        // The number of the generation depends on the file system; only the result of the wait is
        // compared.
        if let Some(wait) = request.follow_up(&reply) {
            reply = (self.ask)(wait, &mut self.bulk);
        }
        self.digest.asked += 1;
        self.digest.refused += u64::from(reply.error != 0);
        self.digest.fold(u64::from(request.op) << 16 | u64::from(reply.error));
        reply
    }

    /// The same for replies with a value and data.
    fn asks_data(&mut self, request: Request) -> Reply {
        let reply = self.asks(request);
        self.digest.fold(reply.value);
        let filled = (reply.filled as usize).min(self.bulk.len());
        self.digest.bytes(&self.bulk[..filled]);
        reply
    }

    /// Returns a suitable handle, or occasionally any handle, a closed one, or 0.
    fn pick(&mut self, sort: Sort, flags: u16) -> u64 {
        let chance = self.random.below(100);
        if chance < 2 {
            return 0;
        }
        if chance < 4 && !self.stale.is_empty() {
            let at = self.random.below(self.stale.len() as u64) as usize;
            return self.stale[at];
        }
        let fits = |one: &&Handle| chance < 10 || one.sort == sort && one.flags & flags == flags;
        let fitting: Vec<u64> = self.open.iter().filter(fits).map(|one| one.handle).collect();
        let at = self.random.below(fitting.len().max(1) as u64) as usize;
        fitting.get(at).copied().unwrap_or(self.open[0].handle)
    }

    /// Picks the base directory more often than others, so that names collide.
    fn pick_directory(&mut self) -> u64 {
        let base = self.random.chance(2, 3);
        if base { self.open[0].handle } else { self.pick(Sort::Directory, 0) }
    }

    fn keep(&mut self, handle: u64, sort: Sort, flags: u16) {
        self.open.push(Handle { handle, sort, flags });
        while self.open.len() > OPEN {
            let at = 1 + self.random.below(self.open.len() as u64 - 1) as usize;
            self.shut(at);
        }
    }

    /// Closes the handle at this index.
    fn shut(&mut self, at: usize) {
        let Handle { handle, .. } = self.open.remove(at);
        self.asks(Request::new(Op::Close, handle));
        self.stale.push(handle);
        if self.stale.len() > STALE {
            self.stale.remove(0);
        }
    }

    fn do_close(&mut self) {
        if self.open.len() > 1 {
            let at = 1 + self.random.below(self.open.len() as u64 - 1) as usize;
            self.shut(at);
        } else {
            let handle = self.stale.first().copied().unwrap_or(0);
            self.asks(Request::new(Op::Close, handle));
        }
    }

    fn end(mut self) -> Result<Digest, Errno> {
        while !self.open.is_empty() {
            self.shut(0);
        }
        Ok(self.digest)
    }
}
