//! A file system that waits, and the tests that need one.
//!
//! Its only file, `slow`, has data after a write; until then a read waits.

use crate::filesystem::{FileSystem, Kind, Node, Result, Stop};
use abi::fs::{Errno, Stat};

const KEY: u64 = 77;

#[derive(Debug, Default)]
pub struct SlowFs {
    byte: Option<u8>,
    ready: bool,
}

impl FileSystem for SlowFs {
    fn lookup(&mut self, _directory: Node, name: &[u8]) -> Result<Node> {
        if name == b"slow" { Ok(2) } else { Err(Errno::Noent.into()) }
    }
    fn kind(&mut self, node: Node) -> Result<Kind> {
        Ok(if node == 1 { Kind::Directory } else { Kind::File })
    }
    fn stat(&mut self, node: Node) -> Result<Stat> {
        Ok(Stat { node, kind: self.kind(node)?.code(), ..Stat::default() })
    }
    fn hold(&mut self, _node: Node) -> Result<()> {
        Ok(())
    }
    fn poll(&mut self, _node: Node, want: u16) -> Result<u16> {
        if self.byte.is_some() { Ok(want) } else { Err(Stop::Wait(KEY)) }
    }
    fn read(&mut self, _node: Node, _offset: u64, into: &mut [u8]) -> Result<usize> {
        let Some(first) = into.first_mut() else { return Ok(0) };
        *first = self.byte.take().ok_or(Stop::Wait(KEY))?;
        Ok(1)
    }
    fn write(&mut self, _node: Node, _offset: u64, from: &[u8], _now: u64) -> Result<usize> {
        self.byte = from.first().copied();
        self.ready = self.byte.is_some();
        Ok(from.len().min(1))
    }
    fn ready(&mut self) -> Option<u64> {
        core::mem::take(&mut self.ready).then_some(KEY)
    }
}

/// A caller that waits in a file system is parked, and woken when the key is ready.
mod tests {
    use super::*;
    use crate::Vfs;
    use crate::any::AnyFs;
    use abi::fs::{Op, Poll, Reply, Request, flag, ready};
    use alloc::vec::Vec;
    use base::id::{DomainId, Epoch};
    use share::{Answer, Effects, Event, Service, Token};
    use zerocopy::IntoBytes;

    #[derive(Default)]
    struct Woken(Vec<Token>);

    impl Effects for Woken {
        fn wake(&mut self, token: Token) {
            self.0.push(token);
        }
        fn wake_all(&mut self) {
            unreachable!("no state is lost here")
        }

        fn timer(&mut self, _at: u64) {}
    }

    fn ask(
        vfs: &mut Vfs,
        thread: u64,
        request: Request,
        bulk: &mut [u8],
    ) -> (Option<Reply>, Vec<Token>) {
        let mut woken = Woken::default();
        let token = Token::new(DomainId(0), Epoch(1), thread, 0);
        let answer = vfs.step(0, Event::Request { token, request: &request, bulk }, &mut woken);
        (if let Answer::Done(reply) = answer { Some(reply) } else { None }, woken.0)
    }

    #[test]
    fn reads_and_polls_are_parked_until_the_file_system_is_ready() {
        let mut vfs = Vfs::with_root(1, AnyFs::Slow(SlowFs::default()));
        let root = ask(&mut vfs, 0, Request::new(Op::Root, 0), &mut []).0.unwrap().handle;
        let open =
            Request { name: 4, flags: flag::READ | flag::WRITE, ..Request::new(Op::Open, root) };
        let file = ask(&mut vfs, 0, open, &mut b"slow".to_vec()).0.unwrap().handle;
        let read = Request { length: 4, ..Request::new(Op::Read, file) };
        let poll = Poll { handle: file, want: ready::READ, ..Poll::default() };
        let polls = Request { length: 24, flags: flag::WAIT, ..Request::new(Op::Poll, 0) };
        assert_eq!(ask(&mut vfs, 1, read, &mut [0; 4]), (None, Vec::new()));
        assert_eq!(ask(&mut vfs, 2, polls, &mut poll.as_bytes().to_vec()), (None, Vec::new()));
        let write = Request { length: 1, ..Request::new(Op::Write, file) };
        let (reply, woken) = ask(&mut vfs, 3, write, &mut [9]);
        assert!(reply.is_some_and(|r| r.value == 1));
        assert_eq!(woken.iter().map(|t| t.thread).collect::<Vec<_>>(), [1, 2]);
        let mut bulk = [0; 4];
        assert_eq!(ask(&mut vfs, 1, read, &mut bulk).0.unwrap().value, 1);
        assert_eq!((bulk[0], vfs.census().1), (9, 0));
    }

    #[test]
    fn an_unsupported_operation_fails_with_nosys() {
        let mut vfs = Vfs::with_root(1, AnyFs::Slow(SlowFs::default()));
        let root = ask(&mut vfs, 0, Request::new(Op::Root, 0), &mut []).0.unwrap().handle;
        let mkdir = Request { name: 1, ..Request::new(Op::Mkdir, root) };
        let reply = ask(&mut vfs, 0, mkdir, &mut b"d".to_vec()).0.unwrap();
        assert_eq!(reply.errno(), Errno::Nosys);
    }
}
