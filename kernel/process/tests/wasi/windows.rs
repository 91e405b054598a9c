//! Windows: memory that two processes share.

use crate::common::*;
use crate::shared::Windows;
use abi::channel::{ChannelMessage, HAS_BLOCK, NO_END, NO_WAIT, WINDOW, WINDOWS};
use kernel_contract::exchange::{Arrived, Cargo, WindowName};
use kernel_contract::{Block, PAGE};
use kernel_process::Errno;
use kernel_process::table::Descriptor;
use std::sync::MutexGuard;
use zerocopy::{FromBytes, IntoBytes};

const AT: u64 = 0x20000;
const LENGTH: usize = 2 * PAGE;
const NAME: WindowName = WindowName([1, 2, 3, 4]);
const TAKES: u64 = WINDOWS as u64;

fn program() -> (Program, u64) {
    let program = Program::with_threads();
    let fd = program.process.table().add(Descriptor::of_end(1, u64::MAX)).unwrap();
    (program, u64::from(fd))
}

fn describe(program: &mut Program, at: u64, length: usize, flags: u16) {
    let block = [at as u32, length as u32];
    let message = ChannelMessage { block, ends: [NO_END; 2], flags, ..ChannelMessage::default() };
    program.put(RESULT, message.as_bytes());
}

fn windows(program: &Program) -> MutexGuard<'_, Windows> {
    program.world.windows.lock().unwrap()
}

/// Returns how many ranges are reserved, and how many of them show something.
fn counts(program: &Program) -> (usize, usize) {
    let windows = windows(program);
    (windows.reserved.len(), windows.shown.len())
}

fn pattern() -> Vec<u8> {
    (0..LENGTH).map(|at| (at % 251) as u8).collect()
}

/// What remains of room beyond a window is no part of it, whatever kernel it is from.
#[test]
fn two_windows_lie_in_one_room_and_never_over_each_other() {
    for is_near in [true, false] {
        let (mut program, fd) = program();
        for at in [AT, AT + LENGTH as u64] {
            arrives(&mut program, is_near);
            describe(&mut program, at, 4 * PAGE, 0);
            program.ok("channel_receive", &[fd, RESULT, TAKES]);
        }
        arrives(&mut program, true);
        describe(&mut program, AT + PAGE as u64, 4 * PAGE, 0);
        assert_eq!(program.call("channel_receive", &[fd, RESULT, TAKES]), Errno::BUSY.0);
        program.process.close_all(&mut program.world);
        assert_eq!((counts(&program), windows(&program).released.len()), ((0, 0), 2));
    }
}

/// Lets a window arrive: one of this kernel, or of another one.
fn arrives(program: &mut Program, is_near: bool) {
    use kernel_process::ends::Ends;
    let block = match is_near {
        true => Block::shared(program.world.window(LENGTH).unwrap()),
        false => Block::of(&pattern()).unwrap(),
    };
    let ends = [Cargo::Nothing; 2];
    let arrived = Arrived { tag: 1, length: 0, block: Some(block), window: Some(NAME), ends };
    program.world.received = [Ok(Ok(arrived))].into();
}

#[test]
fn a_window_that_was_sent_begins_with_what_was_there_and_is_flushed() {
    let (mut program, fd) = program();
    program.put(AT, &pattern());
    describe(&mut program, AT, LENGTH, HAS_BLOCK | WINDOW);
    program.put(RESULT + 28, &[1]);
    assert_eq!(program.call("channel_send", &[fd, RESULT]), INVAL, "what is reserved is 0");
    program.put(RESULT + 28, &[0]);
    program.ok("channel_send", &[fd, RESULT]);
    assert_eq!(program.world.blocks, [pattern()]);
    assert_eq!(counts(&program), (1, 1));
    assert_eq!(windows(&program).reserved, [(1, [AT, LENGTH as u64])]);
    program.ok("window_flush", &[AT + 100, 50]);
    assert_eq!(windows(&program).flushed, [[0, LENGTH], [100, 50]]);
    for (at, length) in [(AT - 1, 2), (AT + LENGTH as u64, 1), (AT + 1, LENGTH as u64)] {
        assert_eq!(program.call("window_flush", &[at, length]), INVAL);
    }
    assert_eq!(program.call("window_refresh", &[AT, 1]), INVAL, "it is the sender's own");
    describe(&mut program, AT + PAGE as u64, PAGE, HAS_BLOCK | WINDOW);
    assert_eq!(program.call("channel_send", &[fd, RESULT]), Errno::BUSY.0);
    assert_eq!(program.call("window_close", &[AT + 1]), INVAL);
    program.ok("window_close", &[AT]);
    assert_eq!(program.call("window_close", &[AT]), INVAL);
    assert_eq!((counts(&program), windows(&program).released.len()), ((0, 0), 0));
    program.end();
}

#[test]
fn a_message_that_is_not_sent_leaves_no_window() {
    let (mut program, fd) = program();
    describe(&mut program, AT, LENGTH, HAS_BLOCK | WINDOW);
    program.world.refusal = Some(Errno::PROTO);
    assert_eq!(program.call("channel_send", &[fd, RESULT]), Errno::PROTO.0);
    assert_eq!(counts(&program), (0, 0));
    for (at, length, error) in [
        (AT + 1, LENGTH, INVAL),
        (AT, LENGTH - 1, INVAL),
        (AT, 0, INVAL),
        (MEMORY as u64, PAGE, FAULT),
        (AT, 8 << 20, Errno::PROTO.0),
    ] {
        describe(&mut program, at, length, HAS_BLOCK | WINDOW);
        assert_eq!(program.call("channel_send", &[fd, RESULT]), error);
    }
    // Not in a call, and not for a program with one thread.
    describe(&mut program, AT, LENGTH, HAS_BLOCK | WINDOW);
    program.put(OTHER, ChannelMessage::default().as_bytes());
    assert_eq!(program.call("channel_call", &[fd, RESULT, OTHER]), INVAL);
    program.shared = false;
    assert_eq!(program.call("channel_send", &[fd, RESULT]), Errno::NOTSUP.0);
    arrives(&mut program, true);
    assert_eq!(program.call("channel_receive", &[fd, RESULT, TAKES]), Errno::NOTSUP.0);
    // Any other message can be received.
    program.world.received = [Ok(Err(Errno::AGAIN.into()))].into();
    assert_eq!(program.call("channel_receive", &[fd, RESULT, TAKES]), Errno::AGAIN.0);
    assert_eq!((counts(&program), program.world.sent.len()), ((0, 0), 0));
    program.end();
}

#[test]
fn a_window_of_this_kernel_is_shown_and_one_of_another_is_copied() {
    for is_near in [true, false] {
        let (mut program, fd) = program();
        program.put(AT, &[9; 4 * PAGE]);
        arrives(&mut program, is_near);
        describe(&mut program, AT, 3 * PAGE, 0);
        program.ok("channel_receive", &[fd, RESULT, TAKES]);
        let stored = ChannelMessage::read_from_bytes(program.get(RESULT, 32)).unwrap();
        let found = (stored.block, stored.flags);
        assert_eq!(found, ([AT as u32, LENGTH as u32], HAS_BLOCK | WINDOW));
        assert_eq!(counts(&program), (usize::from(is_near), usize::from(is_near)));
        if !is_near {
            assert_eq!(program.get(AT, LENGTH), pattern());
        }
        assert_eq!(program.call("window_flush", &[AT, 1]), INVAL, "it is not the sender's");

        program.world.far = vec![7; PAGE + 20];
        program.ok("window_refresh", &[AT + 10, PAGE as u64]);
        let fresh = if is_near { 9 } else { 7 };
        assert_eq!(program.get(AT + 11, PAGE - 1), vec![fresh; PAGE - 1]);
        let lost = program.call("window_refresh", &[AT + PAGE as u64, PAGE as u64]);
        assert_eq!(lost, if is_near { 0 } else { Errno::CONNRESET.0 });
        assert_eq!(program.call("window_refresh", &[AT, LENGTH as u64 + 1]), INVAL);
        program.ok("window_close", &[AT]);
        assert_eq!((counts(&program), windows(&program).released.clone()), ((0, 0), vec![NAME]));
        program.end();
    }
}

#[test]
fn room_for_windows_takes_other_messages_and_is_given_back() {
    let (mut program, fd) = program();
    let ends = [Cargo::Nothing; 2];
    let block = Block::of(&[5; 3]);
    program.world.received =
        [Ok(Ok(Arrived { tag: 1, length: 0, block, window: None, ends }))].into();
    describe(&mut program, AT, LENGTH, 0);
    program.ok("channel_receive", &[fd, RESULT, TAKES]);
    assert_eq!((program.get(AT, 3), counts(&program)), (&[5; 3][..], (0, 0)));
    program.world.received = [Ok(Err(Errno::AGAIN.into()))].into();
    describe(&mut program, AT, LENGTH, 0);
    let flags = TAKES | u64::from(NO_WAIT);
    assert_eq!(program.call("channel_receive", &[fd, RESULT, flags]), Errno::AGAIN.0);
    assert_eq!(counts(&program), (0, 0));
    // Room that holds the description of the message as well.
    describe(&mut program, RESULT & !(PAGE as u64 - 1), LENGTH, 0);
    arrives(&mut program, true);
    assert_eq!(program.call("channel_receive", &[fd, RESULT, TAKES]), INVAL);
    program.end();
}

#[test]
fn a_process_has_eight_windows_and_its_end_ends_them() {
    let (mut program, fd) = program();
    for number in 0..8 {
        let at = AT + number * LENGTH as u64;
        if number % 2 == 0 {
            describe(&mut program, at, LENGTH, HAS_BLOCK | WINDOW);
            program.ok("channel_send", &[fd, RESULT]);
        } else {
            arrives(&mut program, number % 4 == 1);
            describe(&mut program, at, LENGTH, 0);
            program.ok("channel_receive", &[fd, RESULT, TAKES]);
        }
    }
    describe(&mut program, AT + 0x20000, LENGTH, HAS_BLOCK | WINDOW);
    assert_eq!(program.call("channel_send", &[fd, RESULT]), Errno::NOBUFS.0);
    assert_eq!(counts(&program), (6, 6));
    program.process.close_all(&mut program.world);
    assert_eq!((counts(&program), windows(&program).released.len()), ((0, 0), 4));
}
