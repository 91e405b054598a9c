//! File systems without a path: reachable by handles only, until they are unmounted.

use crate::common::token;
use crate::served::{Board, server};
use abi::fs::{Errno, Op, Reply, Request, flag, source};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use fs::client::Client;
use fs::served::MEMORY;
use fs::vfs::MOUNTS;
use share::{Event, Service};

const NEW: u16 = flag::READ | flag::WRITE | flag::CREATE;
const NUMBER: u64 = 1;

fn board() -> Board {
    let mut board = Board::new();
    board.vfs = Vfs::with_budget(3, 8 << 20);
    board
}

/// Sends a request of the serving kernel, which must not wait.
fn ask(board: &mut Board, request: Request, bulk: &mut [u8]) -> Reply {
    board.step(false, server(), request, bulk).unwrap()
}

fn hold_as(board: &mut Board, number: u64) -> Result<u64, Errno> {
    let mut ask = |request: Request, bulk: &mut [u8]| ask(board, request, bulk);
    Client(&mut ask).mount_held(number, b"/host")
}

fn unmount(board: &mut Board, number: u64) -> Result<(), Errno> {
    let mut ask = |request: Request, bulk: &mut [u8]| ask(board, request, bulk);
    Client(&mut ask).unmount(number)
}

fn paths(board: &mut Board) -> Vec<Vec<u8>> {
    board.with(|c| c.mounts()).unwrap().into_iter().map(|(_, path)| path).collect()
}

#[test]
fn a_held_file_system_is_reached_by_handles_only() {
    let mut board = board();
    let held = hold_as(&mut board, NUMBER).unwrap();
    let file = board.with(|c| c.open(held, b"file", NEW)).unwrap();
    assert_eq!(board.with(|c| c.write(file, b"there")), Ok(5));
    let mut bytes = [0; 8];
    let again = board.with(|c| c.open(held, b"file", flag::READ)).unwrap();
    assert_eq!(board.with(|c| c.read(again, &mut bytes)), Ok(5));
    let root = board.root();
    assert_eq!(board.with(|c| c.open(root, b"host", flag::READ)), Err(Errno::Noent));
    assert_eq!(board.with(|c| c.list(root, 2048)).unwrap().len(), 2);
    assert_eq!(paths(&mut board), [b"".as_slice(), b"?/host"]);
    // There is no parent.
    assert_eq!(board.with(|c| c.open(held, b"..", flag::READ)), Err(Errno::Perm));
    assert_eq!(hold_as(&mut board, NUMBER), Err(Errno::Busy));
    for number in [0, 65, u64::MAX / 2] {
        assert_eq!(hold_as(&mut board, number), Err(Errno::Inval), "{number}");
    }
    for (second, flags) in [
        (source::MEMORY, flag::HELD),
        (source::DEVICES, flag::HELD),
        (3, flag::HELD),
        (source::SERVED + 2, flag::HELD | flag::READ),
        (source::SERVED + 2, flag::HELD | flag::SHOWN),
    ] {
        let request = Request { second, flags, length: MEMORY, ..Request::new(Op::Mount, root) };
        assert_eq!(ask(&mut board, request, &mut []).errno(), Errno::Inval, "{second} {flags}");
    }
}

#[test]
fn unmount_fails_waiting_requests_and_wakes_the_server() {
    let mut board = board();
    let held = hold_as(&mut board, NUMBER).unwrap();
    let open = Request { name: 1, flags: flag::READ, ..Request::new(Op::Open, held) };
    // One job is taken, one waits to be taken, and the server waits.
    assert_eq!(board.step(false, token(0, 1), open, &mut [b'a']), None);
    let (number, ..) = board.take().unwrap();
    assert!(board.take().is_none());
    assert_eq!(board.step(false, token(0, 2), open, &mut [b'b']), None);
    board.woken.0.clear();
    let next = Request::new(Op::NextJob, NUMBER);
    assert_eq!(unmount(&mut board, NUMBER), Ok(()));
    for one in [server(), token(0, 1), token(0, 2)] {
        assert!(board.woken.0.contains(&one), "{one:?}");
    }
    assert_eq!(ask(&mut board, next, &mut [0; 4096]).errno(), Errno::Noent);
    assert_eq!(board.tell(number, Err(Errno::Noent)), Errno::Badf);
    for (thread, name) in [(1, b'a'), (2, b'b')] {
        let reply = board.step(true, token(0, thread), open, &mut [name]).unwrap();
        assert_eq!(reply.errno(), Errno::Io);
    }
    // Handles stay open, and fail.
    assert_eq!(board.with(|c| c.open(held, b"c", flag::READ)), Err(Errno::Io));
    assert_eq!(board.with(|c| c.list(held, 512)), Err(Errno::Io));
    assert_eq!(paths(&mut board), [b"".as_slice()]);
    assert_eq!(unmount(&mut board, NUMBER), Err(Errno::Noent));
    assert_eq!(board.with(|c| c.close(held)), Ok(()));
    assert_eq!(board.vfs.census(), (0, 0));
    // No server has number 0, and only held file systems can be unmounted.
    let none = Request::new(Op::NextJob, 0);
    assert_eq!(ask(&mut board, none, &mut [0; 4096]).errno(), Errno::Noent);
    for from in [source::MEMORY, source::DEVICES, source::SERVED, source::SERVED + 2, u64::MAX] {
        let end = Request::new(Op::Unmount, from);
        assert_eq!(ask(&mut board, end, &mut []).errno(), Errno::Noent, "{from}");
    }
}

#[test]
fn it_ends_when_the_serving_kernel_dies() {
    for has_served in [false, true] {
        let mut board = board();
        let held = hold_as(&mut board, NUMBER).unwrap();
        // A duplicate for a program in another kernel.
        let theirs = board.with(|c| c.dup(held)).unwrap();
        if has_served {
            assert!(board.take().is_none());
        }
        board.vfs.step(board.now, Event::Gone(DomainId(1), Epoch(1)), &mut board.woken);
        assert_eq!(board.with(|c| c.open(theirs, b"a", flag::READ)), Err(Errno::Io));
        assert_eq!(paths(&mut board).len(), 1);
        assert_eq!(unmount(&mut board, NUMBER), Err(Errno::Noent));
        assert_eq!(board.with(|c| c.close(theirs)), Ok(()));
        let again = hold_as(&mut board, NUMBER).unwrap();
        board.with(|c| c.mkdir(again, b"new")).unwrap();
    }
}

#[test]
fn slots_are_reused_when_no_handle_refers_to_them() {
    let mut board = board();
    let root = board.root();
    let mut kept = Vec::new();
    // An open handle keeps the slot in use.
    for _ in 1..MOUNTS {
        kept.push(hold_as(&mut board, NUMBER).unwrap());
        unmount(&mut board, NUMBER).unwrap();
    }
    assert_eq!(hold_as(&mut board, NUMBER), Err(Errno::Nfile));
    let taken = board.with(|c| c.space(root)).unwrap().0;
    let mut random = Prng::new(9);
    for round in 0..200 {
        let at = random.below(kept.len() as u64) as usize;
        let old = kept.swap_remove(at);
        assert_eq!(board.with(|c| c.open(old, b"x", flag::READ)), Err(Errno::Io));
        board.with(|c| c.close(old)).unwrap();
        let held = hold_as(&mut board, NUMBER).unwrap();
        let name = format!("round-{round}").into_bytes();
        board.with(|c| c.mkdir(held, &name)).unwrap();
        unmount(&mut board, NUMBER).unwrap();
        kept.push(held);
    }
    assert_eq!(board.with(|c| c.space(root)).unwrap().0, taken, "each slot keeps its memory");
}
