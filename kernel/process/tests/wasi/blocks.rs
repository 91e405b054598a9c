//! Blocks whose pages pass.

use crate::common::*;
use crate::world::passed;
use abi::channel::{ChannelMessage, HAS_BLOCK, NO_END};
use kernel_contract::exchange::{Arrived, Called, Cargo};
use kernel_contract::{Block, PAGE};
use kernel_process::Errno;
use kernel_process::ends::Unreceived;
use kernel_process::table::Descriptor;
use zerocopy::IntoBytes;

/// Five pages and a part of one.
const LENGTH: usize = 5 * PAGE + 100;
const AT: u64 = 0x20000;

fn program() -> (Program, u64) {
    let mut program = Program::new();
    program.world.passes = true;
    let fd = program.process.table().add(Descriptor::of_end(1, u64::MAX)).unwrap();
    program.put(AT, &pattern());
    (program, u64::from(fd))
}

fn pattern() -> Vec<u8> {
    (0..LENGTH).map(|at| 1 + (at % 251) as u8).collect()
}

fn with_block(at: u64, length: usize, flags: u16) -> ChannelMessage {
    let block = [at as u32, length as u32];
    ChannelMessage { block, ends: [NO_END; 2], flags, ..ChannelMessage::default() }
}

fn arrives(block: Block) -> Result<Result<Arrived, Unreceived>, kernel_process::Interrupted> {
    let ends = [Cargo::Nothing; 2];
    Ok(Ok(Arrived { tag: 1, length: 0, block: Some(block), window: None, ends }))
}

#[test]
fn whole_pages_are_taken_and_return_if_nothing_is_sent() {
    let (mut program, fd) = program();
    program.put(RESULT, with_block(AT, LENGTH, HAS_BLOCK).as_bytes());
    program.world.refusal = Some(Errno::PROTO);
    assert_eq!(program.call("channel_send", &[fd, RESULT]), Errno::PROTO.0);
    assert_eq!((program.world.taken, program.get(AT, LENGTH).to_vec()), (1, pattern()));

    // An end that is no end is found after the pages were taken.
    let message = ChannelMessage { ends: [99, NO_END], ..with_block(AT, LENGTH, HAS_BLOCK) };
    program.put(RESULT, message.as_bytes());
    assert_eq!(program.call("channel_send", &[fd, RESULT]), BADF);
    assert_eq!((program.world.taken, program.get(AT, LENGTH).to_vec()), (2, pattern()));

    program.put(RESULT, with_block(AT, LENGTH, HAS_BLOCK).as_bytes());
    program.ok("channel_send", &[fd, RESULT]);
    assert_eq!(program.world.blocks, [pattern()]);
    assert_eq!(program.get(AT, 5 * PAGE), [0; 5 * PAGE]);
    assert_eq!(program.get(AT + 5 * PAGE as u64, 100), &pattern()[5 * PAGE..]);
    program.end();
}

#[test]
fn short_blocks_those_within_a_page_and_those_of_threads_are_copied() {
    for (has_threads, at, length) in
        [(false, AT + 1, LENGTH - 1), (false, AT, 3 * PAGE), (true, AT, LENGTH)]
    {
        let (mut program, fd) = program();
        program.shared = has_threads;
        program.put(RESULT, with_block(at, length, HAS_BLOCK).as_bytes());
        program.ok("channel_send", &[fd, RESULT]);
        assert_eq!((program.world.taken, program.get(AT, LENGTH).to_vec()), (0, pattern()));
        program.world.received = [arrives(passed(&[7; 3]))].into();
        program.put(RESULT, with_block(at, length, 0).as_bytes());
        program.ok("channel_receive", &[fd, RESULT, 0]);
        assert_eq!((program.world.reserved, program.get(at, 3)), (0, &[7; 3][..]));
        program.end();
    }
}

#[test]
fn received_pages_are_put_and_other_blocks_get_memory() {
    for (block, room, reserved) in [
        (passed(&pattern()), 7 * PAGE, 1),
        (passed(&pattern()), 6 * PAGE - 1, 1),
        (Block::of(&pattern()).unwrap(), 7 * PAGE, 1),
        (passed(&pattern()[..PAGE]), 3 * PAGE, 0),
    ] {
        let (mut program, fd) = program();
        let length = block.len();
        program.put(AT, &[9; 8 * PAGE]);
        program.world.received = [arrives(block)].into();
        program.put(RESULT, with_block(AT, room, 0).as_bytes());
        program.ok("channel_receive", &[fd, RESULT, 0]);
        assert_eq!(program.get(AT, length), &pattern()[..length]);
        assert_eq!(program.get(AT + room as u64, 1), [9], "outside of the room");
        assert_eq!(program.world.reserved, reserved);
        assert_eq!(program.u32(RESULT + 12), length as u32);
        program.end();
    }
}

#[test]
fn a_block_comes_straight_to_room_that_nothing_else_uses() {
    let (odd, page) = (AT + 1, PAGE as u32);
    for (has_threads, at, length, fields, place) in [
        (false, odd, LENGTH, [0, 0], Some(LENGTH)),
        (false, AT, 3 * PAGE, [0, 0], Some(3 * PAGE)),
        // Its pages pass, others see it, or fields are stored there before.
        (false, AT, 7 * PAGE, [0, 0], None),
        (true, odd, LENGTH, [0, 0], None),
        (false, odd, LENGTH, [odd as u32 + page, 8], None),
    ] {
        let (mut program, fd) = program();
        program.shared = has_threads;
        let room = ChannelMessage { bytes: fields, ..with_block(at, length, 0) };
        program.put(RESULT, room.as_bytes());
        let block = if place.is_some() { Block::placed(9) } else { passed(&pattern()) };
        program.world.received = [arrives(block)].into();
        program.ok("channel_receive", &[fd, RESULT, 0]);
        assert_eq!(program.world.places, [place]);
        if place.is_some() {
            let found = (program.u32(RESULT + 12), program.get(at, 10));
            assert_eq!(
                found,
                (9, &[[6; 9].as_slice(), &pattern()[(at - AT) as usize + 9..][..1]].concat()[..])
            );
        }
        program.end();
    }
}

#[test]
fn a_call_takes_no_page_that_its_reply_needs() {
    let inside = (AT + 2 * PAGE as u64) as u32;
    let reply = with_block(AT, LENGTH, 0);
    for (reply, taken) in [
        (reply, 1),
        (ChannelMessage { bytes: [inside, 8], ..reply }, 0),
        (ChannelMessage { block: [inside, 10], ..reply }, 0),
    ] {
        let (mut program, fd) = program();
        program.world.received = [arrives(passed(&[]))].into();
        program.put(PATH, with_block(AT, LENGTH, HAS_BLOCK).as_bytes());
        program.put(RESULT, reply.as_bytes());
        program.ok("channel_call", &[fd, PATH, RESULT]);
        assert_eq!((program.world.taken, &program.world.blocks[0]), (taken, &pattern()));
        program.end();
    }
}

/// Where the program has the message of a call; the reply's is at [`RESULT`].
const MESSAGE: u64 = PATH;
/// Room for the block of the answer, and whole pages to send.
const ROOM: u64 = 0x40000;
const WHOLE: usize = 5 * PAGE;

/// Calls with this block and room for a block of so many bytes. Returns the error number.
fn call(program: &mut Program, fd: u64, sent: ChannelMessage, room: usize) -> u16 {
    program.put(MESSAGE, ChannelMessage { tag: 2, ..sent }.as_bytes());
    program.put(RESULT, with_block(ROOM, room, 0).as_bytes());
    program.call("channel_call", &[fd, MESSAGE, RESULT])
}

#[test]
fn a_call_with_whole_pages_sends_and_receives_them_in_one_step() {
    let (mut program, fd) = program();
    program.put(ROOM, &[9; 6 * PAGE]);
    program.world.calls = [Ok((Called::Arrived { tag: 3, length: 0 }, &b""[..]))].into();
    program.world.called_block = Some(passed(&pattern()[..4 * PAGE]));
    assert_eq!(call(&mut program, fd, with_block(AT, WHOLE, HAS_BLOCK), 6 * PAGE), 0);
    assert_eq!(program.world.blocks, [pattern()[..WHOLE].to_vec()]);
    assert_eq!(program.get(AT, WHOLE), [0; WHOLE]);
    assert_eq!(program.get(ROOM, 4 * PAGE), &pattern()[..4 * PAGE]);
    assert_eq!(program.get(ROOM + 4 * PAGE as u64, PAGE), [9; PAGE]);
    assert_eq!(program.u32(RESULT + 12), 4 * PAGE as u32);
    assert_eq!(program.u32(RESULT + 24), 3 | u32::from(HAS_BLOCK) << 16);
    assert!(program.world.sent.is_empty(), "it went the short way");

    // Without a block, and an answer without one.
    program.world.calls = [Ok((Called::Arrived { tag: 4, length: 0 }, &b""[..]))].into();
    assert_eq!(call(&mut program, fd, with_block(0, 0, 0), 6 * PAGE), 0);
    assert_eq!((program.u32(RESULT + 12), program.u32(RESULT + 24)), (0, 4));
    assert_eq!(program.world.plain.len(), 2);
    program.end();
}

#[test]
fn pages_of_a_call_that_is_not_sent_so_return_first() {
    let (mut program, fd) = program();
    // It is refused, and goes the usual way, which refuses it, too.
    program.world.refusal = Some(Errno::PROTO);
    assert_eq!(call(&mut program, fd, with_block(AT, WHOLE, HAS_BLOCK), 6 * PAGE), Errno::PROTO.0);
    assert_eq!((program.world.taken, program.get(AT, LENGTH).to_vec()), (2, pattern()));
    assert!(program.world.plain.is_empty());
    program.end();
}

#[test]
fn blocks_of_calls_that_are_not_whole_pages_go_the_usual_way() {
    for (at, length, has_threads) in
        [(AT, LENGTH, false), (AT + 1, WHOLE, false), (AT, 3 * PAGE, false), (AT, WHOLE, true)]
    {
        let (mut program, fd) = program();
        program.shared = has_threads;
        program.world.calls = [Ok((Called::Sent, &b""[..]))].into();
        program.world.received = [arrives(passed(&[7; 3]))].into();
        assert_eq!(call(&mut program, fd, with_block(at, length, HAS_BLOCK), 100), 0);
        assert!(program.world.plain.is_empty() && program.world.sent.len() == 1);
        assert_eq!(program.get(ROOM, 3), [7; 3]);
        program.end();
    }
}

#[test]
fn a_block_that_has_what_the_answer_needs_goes_the_usual_way() {
    let (mut program, fd) = program();
    program.world.calls = [Ok((Called::Sent, &b""[..]))].into();
    program.world.refusal = Some(Errno::PROTO);
    // The description of the answer is in the pages.
    program.put(MESSAGE, ChannelMessage { tag: 2, ..with_block(AT, WHOLE, HAS_BLOCK) }.as_bytes());
    program.put(AT + 64, with_block(ROOM, 6 * PAGE, 0).as_bytes());
    assert_eq!(program.call("channel_call", &[fd, MESSAGE, AT + 64]), Errno::PROTO.0);
    assert!(program.world.plain.is_empty());
    program.end();
}
