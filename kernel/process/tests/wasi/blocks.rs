//! Blocks whose pages pass.

use crate::common::*;
use crate::world::passed;
use abi::channel::{ChannelMessage, HAS_BLOCK, NO_END};
use kernel_contract::exchange::{Arrived, Cargo};
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
