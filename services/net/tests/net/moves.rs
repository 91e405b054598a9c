//! Handles of processes that move between kernels.

use crate::common::{Solo, token};
use abi::net::{Errno, Op, Reply, Request, TREE_HANDLES};
use base::id::{DomainId, Epoch};
use share::Event;

const TREE: u32 = 7;

fn ask(solo: &mut Solo, kernel: u8, op: Op, handle: u64) -> Reply {
    let request = Request { tree: TREE, ..Request::new(op, handle) };
    solo.ask(token(kernel, 1), request, &mut []).unwrap()
}

fn gone(solo: &mut Solo, kernel: u8) {
    solo.event(Event::Gone(DomainId(kernel), Epoch(1)));
}

/// As many handles as a tree can have, of few sockets.
fn all(solo: &mut Solo) -> Vec<u64> {
    let first = ask(solo, 0, Op::Tcp, 0).handle;
    let mut handles = vec![first];
    loop {
        match ask(solo, 0, Op::Dup, first) {
            Reply { error: 0, handle, .. } => handles.push(handle),
            reply => break assert_eq!(reply.errno(), Errno::Nfile),
        }
    }
    assert_eq!(handles.len(), TREE_HANDLES as usize);
    handles
}

#[test]
fn a_process_with_all_handles_of_its_tree_moves_with_them() {
    let mut solo = Solo::new();
    let handles = all(&mut solo);
    for &handle in &handles {
        let reply = ask(&mut solo, 1, Op::Adopt, handle);
        assert_eq!((reply.error, reply.handle), (0, handle));
    }
    // It runs there, and the origin closes what it had.
    for &handle in &handles {
        assert_eq!(ask(&mut solo, 0, Op::Close, handle).error, 0);
    }
    assert_eq!(solo.net.census()[0], handles.len());
    assert_eq!(ask(&mut solo, 1, Op::Dup, handles[0]).errno(), Errno::Nfile, "charged once");
    gone(&mut solo, 0);
    assert_eq!(solo.net.census()[0], handles.len());
    for &handle in &handles {
        assert_eq!(ask(&mut solo, 1, Op::Close, handle).error, 0);
        assert_eq!(ask(&mut solo, 1, Op::Close, handle).errno(), Errno::Badf);
    }
    assert_eq!(solo.net.census(), [0, 0, 0, 0]);
}

#[test]
fn a_move_that_fails_leaves_the_handles_at_the_origin() {
    let mut solo = Solo::new();
    let handle = ask(&mut solo, 0, Op::Tcp, 0).handle;
    for fails in [false, true] {
        assert_eq!(ask(&mut solo, 1, Op::Adopt, handle).error, 0);
        match fails {
            true => gone(&mut solo, 1),
            false => assert_eq!(ask(&mut solo, 1, Op::Close, handle).error, 0),
        }
        assert_eq!(ask(&mut solo, 0, Op::State, handle).error, 0);
    }
    gone(&mut solo, 0);
    assert_eq!(solo.net.census(), [0, 0, 0, 0]);
}

#[test]
fn a_process_may_be_back_before_its_origin_has_closed_what_it_had() {
    let mut solo = Solo::new();
    let handle = ask(&mut solo, 0, Op::Udp, 0).handle;
    assert_eq!(ask(&mut solo, 1, Op::Adopt, handle).error, 0);
    assert_eq!(ask(&mut solo, 0, Op::Adopt, handle).error, 0);
    assert_eq!(ask(&mut solo, 1, Op::Adopt, handle).errno(), Errno::Nfile);
    // Both moves are over.
    assert_eq!(ask(&mut solo, 0, Op::Close, handle).error, 0);
    gone(&mut solo, 1);
    assert_eq!(ask(&mut solo, 0, Op::State, handle).error, 0);
    assert_eq!(ask(&mut solo, 0, Op::Close, handle).error, 0);
    assert_eq!(solo.net.census(), [0, 0, 0, 0]);
    assert_eq!(ask(&mut solo, 1, Op::Adopt, handle).errno(), Errno::Badf);
}
