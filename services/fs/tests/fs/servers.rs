//! A served file system with a server in each of two kernels.

use crate::common::token;
use crate::served::{Board, server};
use abi::fs::{Errno, Op, Reply, Request, flag};
use abi::served::ROOM;
use base::id::{DomainId, Epoch};
use fs::vfs::listener::PATIENCE;
use share::{Event, Service, Token};

const OTHER: Token = Token { epoch: 1, kernel: 3, reserved: 0, sequence: 0, thread: 9 };

fn next(board: &mut Board, by: Token, flags: u16) -> Option<Reply> {
    let request = Request { flags, ..Request::new(Op::NextJob, 1) };
    board.step(false, by, request, &mut [0; ROOM])
}

/// Creates a board with two servers that wait, and the handle of its root.
fn both_wait() -> (Board, u64) {
    let mut board = Board::new();
    let root = board.root();
    assert_eq!(next(&mut board, server(), 0), None);
    assert_eq!(next(&mut board, OTHER, 0), None);
    (board, root)
}

/// Opens a name for thread `caller` of kernel 2, which waits. Returns the woken.
fn open(board: &mut Board, again: bool, root: u64, caller: u64) -> (Option<Reply>, Vec<Token>) {
    let request = Request { name: 1, flags: flag::READ, ..Request::new(Op::Open, root) };
    board.woken.0.clear();
    let reply = board.step(again, token(2, caller), request, &mut [b'a' + caller as u8]);
    (reply, std::mem::take(&mut board.woken.0))
}

#[test]
fn one_server_is_woken_a_near_one_first() {
    for (at, woken) in [(3, OTHER), (1, server()), (2, server())] {
        let (mut board, root) = both_wait();
        board.woken.2 = Some(at);
        assert_eq!(open(&mut board, false, root, 1), (None, vec![woken]));
        assert_eq!(open(&mut board, true, root, 1), (None, vec![]));
        board.now += PATIENCE;
        let (_, woken) = open(&mut board, true, root, 1);
        assert_eq!(woken.len(), 2, "both, because one did not come");
    }
}

/// What the dead kernel had taken may be half done and fails; the other job is served.
#[test]
fn the_other_server_continues_when_one_dies() {
    let (mut board, root) = both_wait();
    for caller in [1, 2] {
        assert_eq!(open(&mut board, false, root, caller).0, None);
    }
    let taken = next(&mut board, server(), 0).unwrap();
    board.woken.0.clear();
    let gone = Event::Gone(DomainId(1), Epoch(1));
    board.vfs.step(board.now, gone, &mut board.woken);
    assert!(board.woken.0.contains(&OTHER), "it has to take the other job");
    assert_eq!(open(&mut board, true, root, 1).0.unwrap().errno(), Errno::Io);
    let other = next(&mut board, OTHER, 0).unwrap();
    assert_ne!(other.handle, taken.handle);
    let missing = Errno::Noent as u64;
    let done = Request { second: missing, ..Request::new(Op::JobDone, other.handle) };
    assert_eq!(board.step(false, server(), done, &mut []).unwrap().errno(), Errno::Badf);
    assert_eq!(board.step(false, OTHER, done, &mut []).unwrap().errno(), Errno::Success);
    assert_eq!(open(&mut board, true, root, 2).0.unwrap().errno(), Errno::Noent);
    // The last one dies, too.
    let gone = Event::Gone(DomainId(3), Epoch(1));
    board.vfs.step(board.now, gone, &mut board.woken);
    assert_eq!(open(&mut board, false, root, 3).0.unwrap().errno(), Errno::Io);
}

/// RESTARTED, and a new life of a kernel, end what this kernel had taken, and nothing else.
#[test]
fn a_restarted_server_leaves_the_jobs_of_the_other() {
    for next_life in [false, true] {
        let (mut board, root) = both_wait();
        for caller in [1, 2] {
            assert_eq!(open(&mut board, false, root, caller).0, None);
        }
        next(&mut board, server(), 0).unwrap();
        let other = next(&mut board, OTHER, 0).unwrap();
        let by = if next_life { Token { epoch: 2, ..server() } } else { server() };
        let flags = if next_life { 0 } else { flag::RESTARTED };
        assert_eq!(next(&mut board, by, flags), None);
        assert_eq!(open(&mut board, true, root, 1).0.unwrap().errno(), Errno::Io);
        let missing = Errno::Noent as u64;
        let done = Request { second: missing, ..Request::new(Op::JobDone, other.handle) };
        assert_eq!(board.step(false, OTHER, done, &mut []).unwrap().errno(), Errno::Success);
        assert_eq!(open(&mut board, true, root, 2).0.unwrap().errno(), Errno::Noent);
    }
}
