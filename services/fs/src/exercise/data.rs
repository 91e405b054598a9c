//! Operations on files and pipes.

use super::{Exercise, Handle, Sort};
use abi::fs::{Op, Poll, Request, flag};
use zerocopy::{FromBytes, IntoBytes};

impl Exercise<'_> {
    fn length(&mut self) -> u64 {
        match self.random.below(100) {
            0..4 => 0,
            4..60 => 1 + self.random.below(200),
            60..90 => 1 + self.random.below(6000),
            90..99 => 4096 * (1 + self.random.below(3)),
            _ => 60_000 + self.random.below(8000),
        }
    }

    /// Returns one of few offsets, so that writes overlap; sometimes far away, or invalid.
    fn offset(&mut self) -> u64 {
        match self.random.below(100) {
            0..70 => self.random.below(20_000),
            70..85 => 4096 * self.random.below(6),
            85..92 => (1 << 20) + self.random.below(100),
            92..96 => (1 << 40) - 100 + self.random.below(200),
            96..98 => i64::MAX as u64 - self.random.below(5000),
            _ => u64::MAX - self.random.below(10_000),
        }
    }

    fn file_or_pipe(&mut self, flags: u16) -> u64 {
        let sort = if self.random.chance(1, 6) { Sort::Pipe } else { Sort::File };
        self.pick(sort, flags)
    }

    fn at(&mut self) -> (u16, u64) {
        if self.random.chance(1, 2) { (flag::AT, self.offset()) } else { (0, 0) }
    }

    pub(super) fn do_write(&mut self) {
        let handle = self.file_or_pipe(flag::WRITE);
        let length = self.length().min(self.piece);
        let (flags, offset) = self.at();
        self.bulk.clear();
        while (self.bulk.len() as u64) < length {
            let word = self.random.next().to_le_bytes();
            self.bulk.extend(word);
        }
        self.bulk.truncate(length as usize);
        self.asks_data(Request { flags, offset, length, ..Request::new(Op::Write, handle) });
    }

    pub(super) fn do_read(&mut self) {
        let handle = self.file_or_pipe(flag::READ);
        let length = self.length().min(self.piece);
        let (flags, offset) = self.at();
        self.bulk.clear();
        self.bulk.resize(length as usize, 0xee);
        self.asks_data(Request { flags, offset, length, ..Request::new(Op::Read, handle) });
    }

    pub(super) fn do_seek(&mut self) {
        let handle = self.file_or_pipe(0);
        let mut offset = self.offset();
        if self.random.chance(1, 3) {
            offset = self.random.below(10_000).wrapping_neg();
        }
        let flags = self.random.below(13) as u16 / 4;
        self.asks_data(Request { flags, offset, ..Request::new(Op::Seek, handle) });
    }

    pub(super) fn do_set_size(&mut self) {
        let handle = self.pick(Sort::File, flag::WRITE);
        let length = self.offset();
        self.asks(Request { length, ..Request::new(Op::SetSize, handle) });
    }

    pub(super) fn do_allocate(&mut self) {
        let handle = self.pick(Sort::File, flag::WRITE);
        let (offset, mut length) = (self.offset(), self.length());
        if self.random.chance(1, 10) {
            length = self.random.next();
        }
        // A long range would take all space.
        if length > 100_000 {
            length = u64::MAX - self.random.below(1000);
        }
        self.asks_data(Request { offset, length, ..Request::new(Op::Allocate, handle) });
    }

    pub(super) fn do_stat(&mut self) {
        let handle = self.file_or_pipe(0);
        let reply = self.asks(Request::new(Op::Stat, handle));
        self.take_down(&reply);
        let op = if self.random.chance(1, 2) { Op::Sync } else { Op::Datasync };
        self.asks(Request::new(op, handle));
    }

    pub(super) fn do_pipe(&mut self) {
        let reply = self.asks(Request { flags: flag::NONBLOCK, ..Request::new(Op::Pipe, 0) });
        if reply.error == 0 {
            self.keep(reply.handle, Sort::Pipe, flag::READ);
            self.keep(reply.other, Sort::Pipe, flag::WRITE);
        }
    }

    pub(super) fn do_dup(&mut self) {
        let at = self.random.below(self.open.len() as u64) as usize;
        let Handle { handle, sort, flags } = self.open[at];
        let reply = self.asks(Request::new(Op::Dup, handle));
        if reply.error == 0 {
            self.keep(reply.handle, sort, flags);
        }
    }

    /// Pipes keep NONBLOCK, because nothing may wait here.
    pub(super) fn do_adjust(&mut self) {
        let handle = self.file_or_pipe(0);
        let append = if self.random.chance(1, 2) { flag::APPEND } else { 0 };
        self.asks(Request { flags: flag::NONBLOCK | append, ..Request::new(Op::SetFlags, handle) });
    }

    pub(super) fn do_poll(&mut self) {
        let count = self.random.below(4);
        self.bulk.clear();
        for _ in 0..count {
            let sort = if self.random.chance(1, 2) { Sort::Pipe } else { Sort::File };
            let (handle, want) = (self.pick(sort, 0), self.random.below(4) as u16);
            self.bulk.extend(Poll { handle, want, ..Poll::default() }.as_bytes());
        }
        let length = count * size_of::<Poll>() as u64;
        let reply = self.asks(Request { length, ..Request::new(Op::Poll, 0) });
        self.digest.fold(reply.value);
        let filled = if reply.error == 0 { self.bulk.len() } else { 0 };
        for at in (0..filled).step_by(size_of::<Poll>()) {
            let Ok((poll, _)) = Poll::read_from_prefix(&self.bulk[at..]) else { return };
            self.digest.fold(u64::from(poll.got) << 16 | u64::from(poll.error));
            self.digest.fold(poll.bytes);
        }
    }
}
