//! Operations on paths.

use super::{Exercise, KNOWN, Sort, hash};
use crate::client::unpack;
use abi::fs::{Op, Reply, Request, flag, kind, reply_flag};
use alloc::vec::Vec;

const NAMES: [&[u8]; 6] = [b"a", b"b", b"c", b"dd", b"a longer name", b"\xff\x01"];

impl Exercise<'_> {
    /// Returns one of few components, so that names collide.
    fn component(&mut self) -> Vec<u8> {
        match self.random.below(60) {
            0..3 => b"..".to_vec(),
            3..6 => b".".to_vec(),
            6 => {
                let length = 254 + self.random.below(3) as usize;
                Vec::from_iter(core::iter::repeat_n(b'n', length))
            }
            _ => NAMES[self.random.below(NAMES.len() as u64) as usize].to_vec(),
        }
    }

    /// Returns a path, valid in most cases.
    fn path(&mut self) -> Vec<u8> {
        let mut path = Vec::new();
        match self.random.below(200) {
            0 => return path,
            1 => path.push(b'/'),
            2 => path.extend(b"a\0"),
            3 => path.extend(core::iter::repeat_n(b"./", 2100).flatten()),
            _ => {}
        }
        let components = [1, 1, 1, 2, 2, 3][self.random.below(6) as usize];
        for at in 0..components {
            if at > 0 {
                path.extend(if self.random.chance(1, 30) { b"//".as_slice() } else { b"/" });
            }
            path.extend(self.component());
        }
        if self.random.chance(1, 20) {
            path.push(b'/');
        }
        path
    }

    /// Returns a request with one random path.
    fn named(&mut self, op: Op) -> Request {
        let handle = self.pick_directory();
        self.bulk = self.path();
        Request { name: self.bulk.len() as u16, ..Request::new(op, handle) }
    }

    /// The same, usually with a path that was found before.
    fn named_there(&mut self, op: Op) -> Request {
        if self.known.is_empty() || self.random.chance(1, 3) {
            return self.named(op);
        }
        let at = self.random.below(self.known.len() as u64) as usize;
        self.bulk = self.known[at].clone();
        Request { name: self.bulk.len() as u16, ..Request::new(op, self.open[0].handle) }
    }

    /// Remembers this path if it was found from the base directory.
    fn remember(&mut self, request: &Request, reply: &Reply, path: Vec<u8>) {
        if reply.error != 0 || request.handle != self.open[0].handle {
            return;
        }
        if self.known.len() == KNOWN {
            self.known.remove(0);
        }
        self.known.push(path);
    }

    /// Returns `flag` with a chance of 1 in `of`.
    fn maybe(&mut self, flag: u16, of: u64) -> u16 {
        if self.random.chance(1, of) { flag } else { 0 }
    }

    pub(super) fn do_open(&mut self) {
        let request = self.named(Op::Open);
        let mut flags = self.maybe(flag::FOLLOW, 2);
        let directory = self.random.chance(1, 4);
        if directory {
            flags |= flag::READ | self.maybe(flag::DIRECTORY, 2) | self.maybe(flag::CREATE, 30);
        } else {
            let both = flag::READ | flag::WRITE;
            flags |= [flag::READ, flag::WRITE, both, both][self.random.below(4) as usize];
            flags |= if self.random.chance(3, 4) { flag::CREATE } else { 0 };
            flags |= self.maybe(flag::EXCLUSIVE, 10);
            flags |= if flags & flag::WRITE != 0 { self.maybe(flag::TRUNCATE, 8) } else { 0 };
            flags |= self.maybe(flag::TRUNCATE, 50) | self.maybe(flag::APPEND, 8);
        }
        flags |= self.maybe(0x8000, 200);
        let reply = self.asks(Request { flags, ..request });
        let path = self.bulk.clone();
        self.remember(&request, &reply, path);
        if reply.error != 0 {
            return;
        }
        let stat = self.asks(Request::new(Op::Stat, reply.handle));
        self.take_down(&stat);
        let is_directory = stat.stat.kind == kind::DIRECTORY;
        let sort = if is_directory { Sort::Directory } else { Sort::File };
        self.keep(reply.handle, sort, flags);
    }

    /// Adds the comparable part of a Stat to the digest.
    pub(super) fn take_down(&mut self, reply: &Reply) {
        let stat = &reply.stat;
        let size = if stat.kind == kind::DIRECTORY { 0 } else { stat.size };
        self.digest.fold(u64::from(stat.kind) << 32 | u64::from(reply.flags));
        self.digest.fold(size);
        self.digest.fold(stat.links);
    }

    pub(super) fn do_stat_path(&mut self) {
        let request = self.named_there(Op::StatPath);
        let flags = self.maybe(flag::FOLLOW, 2);
        let reply = self.asks(Request { flags, ..request });
        self.take_down(&reply);
    }

    pub(super) fn do_mkdir(&mut self) {
        let request = self.named(Op::Mkdir);
        let reply = self.asks(request);
        let path = self.bulk.clone();
        self.remember(&request, &reply, path);
    }

    pub(super) fn do_remove(&mut self, op: Op) {
        let request = self.named_there(op);
        self.asks(request);
    }

    /// Rename or Link.
    pub(super) fn do_two(&mut self, op: Op) {
        let request = self.named_there(op);
        let second = self.pick_directory();
        let other = self.path();
        let flags = if op == Op::Link { self.maybe(flag::FOLLOW, 2) } else { 0 };
        self.bulk.extend(&other);
        let reply = self.asks(Request { second, flags, other: other.len() as u16, ..request });
        self.remember(&Request { handle: second, ..request }, &reply, other);
    }

    pub(super) fn do_symlink(&mut self) {
        let request = self.named(Op::Symlink);
        let other = self.path();
        self.bulk.extend(&other);
        let reply = self.asks(Request { other: other.len() as u16, ..request });
        self.remember(&request, &reply, other);
    }

    pub(super) fn do_readlink(&mut self) {
        let request = self.named_there(Op::Readlink);
        if self.random.chance(3, 4) {
            self.bulk.resize(5000, 0);
        }
        self.asks_data(request);
    }

    /// Lists a whole directory in pieces of one size. The digest ignores the order of entries.
    pub(super) fn do_list(&mut self) {
        let handle = self.pick_directory();
        let room = 300 + self.random.below(700);
        let (mut from, mut sum) = (0, 0u64);
        loop {
            self.bulk = alloc::vec![0; room as usize];
            let request =
                Request { offset: from, length: room, ..Request::new(Op::Readdir, handle) };
            let reply = (self.ask)(request, &mut self.bulk);
            self.digest.asked += 1;
            let filled = (reply.filled as usize).min(self.bulk.len());
            for entry in unpack(&self.bulk[..filled]) {
                sum = sum.wrapping_add(hash(&entry.name) ^ u64::from(entry.kind));
                from = entry.next;
            }
            if reply.error != 0 || reply.filled == 0 || reply.flags & reply_flag::END != 0 {
                self.digest.refused += u64::from(reply.error != 0);
                self.digest.fold(u64::from(reply.error));
                self.digest.fold(sum);
                return;
            }
        }
    }

    pub(super) fn do_set_times(&mut self) {
        let request = if self.random.chance(1, 2) {
            self.named_there(Op::SetTimesPath)
        } else {
            Request::new(Op::SetTimes, self.pick(Sort::File, 0))
        };
        let flags = self.random.below(17) as u16;
        let (accessed, modified) = (self.random.next(), self.random.next());
        self.asks(Request { flags, accessed, modified, ..request });
    }
}
