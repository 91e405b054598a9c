//! Channels: what becomes of descriptors. The kernel's side of the channels is simulated.

use crate::common::*;
use abi::channel::{ChannelMessage, HAS_BLOCK, NO_END};
use kernel_contract::Block;
use kernel_contract::exchange::{Arrived, Called, Cargo};
use kernel_process::ends::Unreceived;
use kernel_process::table::Descriptor;
use kernel_process::wasi::rights;
use kernel_process::{Errno, Interrupted};
use zerocopy::IntoBytes;

/// Gives the program an end with these rights. Returns its number.
fn end(program: &mut Program, handle: u64, rights: u64) -> u32 {
    program.process.table().add(Descriptor::of_end(handle, rights)).unwrap()
}

/// Stores a message with room for 8 bytes, and with these ends.
fn message(program: &mut Program, ends: [u32; 2]) {
    let message = ChannelMessage { bytes: [BUFFER as u32, 8], ends, ..ChannelMessage::default() };
    program.put(RESULT, message.as_bytes());
}

#[test]
fn an_end_is_sent_with_all_rights_or_not_at_all() {
    let mut program = Program::new();
    let over = u64::from(end(&mut program, 1, u64::MAX));
    let whole = end(&mut program, 2, u64::MAX);
    let reads = end(&mut program, 3, rights::END & !rights::FD_WRITE);
    for (other, error) in [(reads, NOTCAPABLE), (DIR as u32, BADF), (whole, BADF), (99, BADF)] {
        message(&mut program, [whole, other]);
        assert_eq!(program.call("channel_send", &[over, RESULT]), error, "{other}");
        assert_eq!(program.process.table().count(), 7);
    }
    assert!(program.world.sent.is_empty());
    message(&mut program, [NO_END, whole]);
    program.ok("channel_send", &[over, RESULT]);
    assert_eq!(program.world.sent, [[None, Some(2)]]);
    assert_eq!(program.process.table().free(0), Ok(whole));
    program.end();
}

#[test]
fn a_receive_that_fails_leaves_no_number_reserved() {
    let mut program = Program::new();
    let fd = u64::from(end(&mut program, 1, u64::MAX));
    let free = program.process.table().free(0);
    let needs = |bytes, ends| Ok(Err(Unreceived::Unfit { bytes, block: 0, ends }));
    // Another thread has taken the message for which a number was reserved.
    for then in [Err(Interrupted), needs(9, 0), needs(9, 2), Ok(Err(Errno::PIPE.into()))] {
        message(&mut program, [NO_END; 2]);
        program.world.received = [needs(8, 1), then].into();
        let _ = program.run("channel_receive", &[fd, RESULT, 0]);
        assert!(program.world.received.is_empty());
        assert_eq!(program.process.table().free(0), free);
    }
    program.end();
}

#[test]
fn a_received_end_gets_the_lowest_free_number() {
    let mut program = Program::new();
    let fd = u64::from(end(&mut program, 1, u64::MAX));
    let free = program.process.table().free(0).unwrap();
    let needed = Unreceived::Unfit { bytes: 0, block: 0, ends: 1 };
    let arrived = Arrived {
        tag: 4,
        length: 0,
        block: None,
        window: None,
        ends: [Cargo::Nothing, Cargo::End(7)],
    };
    message(&mut program, [0; 2]);
    program.world.received = [Ok(Err(needed)), Ok(Ok(arrived))].into();
    program.ok("channel_receive", &[fd, RESULT, 0]);
    assert_eq!([16, 20].map(|at| program.u32(RESULT + at)), [NO_END, free]);
    assert_eq!(program.process.table().get(free), Ok(Descriptor::of_end(7, u64::MAX)));
    program.end();
}

/// Where the program has its blocks, and their length: more than a page, and not aligned.
const BLOCK_AT: u64 = BUFFER + 13;
const LENGTH: usize = 5000;

fn pattern() -> Vec<u8> {
    (0..LENGTH).map(|at| (at % 251) as u8).collect()
}

/// Stores a message with a block, or with room for one.
fn with_block(program: &mut Program, length: u32, flags: u16) {
    let block = [BLOCK_AT as u32, length];
    let message = ChannelMessage { block, ends: [NO_END; 2], flags, ..ChannelMessage::default() };
    program.put(RESULT, message.as_bytes());
}

#[test]
fn a_block_is_sent_as_it_was_and_only_from_the_programs_memory() {
    let mut program = Program::new();
    let fd = u64::from(end(&mut program, 1, u64::MAX));
    program.put(BLOCK_AT, &pattern());
    with_block(&mut program, LENGTH as u32, HAS_BLOCK);
    program.ok("channel_send", &[fd, RESULT]);
    with_block(&mut program, 0, HAS_BLOCK);
    program.ok("channel_send", &[fd, RESULT]);
    assert_eq!(program.world.blocks, [pattern(), Vec::new()]);
    for (length, flags, error) in
        [(u32::MAX, HAS_BLOCK, FAULT), (1, 2, INVAL), (1, HAS_BLOCK | 4, INVAL)]
    {
        with_block(&mut program, length, flags);
        assert_eq!(program.call("channel_send", &[fd, RESULT]), error, "{length}");
    }
    assert_eq!(program.world.blocks.len(), 2);
    program.end();
}

#[test]
fn a_received_block_is_stored_or_its_length_is() {
    let mut program = Program::new();
    let fd = u64::from(end(&mut program, 1, u64::MAX));
    let needed = Unreceived::Unfit { bytes: 0, block: LENGTH, ends: 0 };
    program.world.received = [Ok(Err(needed))].into();
    with_block(&mut program, 3, 0);
    assert_eq!(program.call("channel_receive", &[fd, RESULT, 0]), Errno::MSGSIZE.0);
    assert_eq!([8, 12].map(|at| program.u32(RESULT + at)), [BLOCK_AT as u32, LENGTH as u32]);

    let (block, ends) = (Block::of(&pattern()), [Cargo::Nothing; 2]);
    program.world.received =
        [Ok(Ok(Arrived { tag: 1, length: 0, block, window: None, ends }))].into();
    program.ok("channel_receive", &[fd, RESULT, 0]);
    assert_eq!(program.get(BLOCK_AT, LENGTH), pattern());
    assert_eq!(program.u32(RESULT + 12), LENGTH as u32);
    assert_eq!(program.u32(RESULT + 24), 1 | u32::from(HAS_BLOCK) << 16);
    program.end();
}

/// Where the program has the message of a call; the reply's is at [`RESULT`].
const MESSAGE: u64 = PATH;

/// Stores a message of the fields "hello" with tag 2, and the description of room for 8 bytes.
fn call(program: &mut Program, change: impl FnOnce(&mut ChannelMessage, &mut ChannelMessage)) {
    let none = ChannelMessage { ends: [NO_END; 2], ..ChannelMessage::default() };
    let mut sent = ChannelMessage { bytes: [BUFFER as u32, 5], tag: 2, ..none };
    let mut reply = ChannelMessage { bytes: [OTHER as u32, 8], ..none };
    change(&mut sent, &mut reply);
    program.put(BUFFER, b"hello");
    program.put(MESSAGE, sent.as_bytes());
    program.put(RESULT, reply.as_bytes());
}

#[test]
fn a_call_with_fields_alone_sends_and_receives_in_one_step() {
    let mut program = Program::new();
    let fd = u64::from(end(&mut program, 1, u64::MAX));
    let arrived = Called::Arrived { tag: 9, length: 3 };
    program.world.calls = [Ok((arrived, &b"you"[..]))].into();
    call(&mut program, |_, _| ());
    program.ok("channel_call", &[fd, MESSAGE, RESULT]);
    assert_eq!(program.world.plain, [(2, b"hello".to_vec())]);
    assert!(program.world.sent.is_empty());
    assert_eq!(program.get(OTHER, 3), b"you");
    let words = [0, 4, 8, 12, 16, 20, 24, 28].map(|at| program.u32(RESULT + at));
    assert_eq!(words, [OTHER as u32, 3, 0, 0, NO_END, NO_END, 9, 0]);
    program.end();
}

#[test]
fn a_call_that_has_sent_receives_in_the_usual_way_and_sends_only_once() {
    let mut program = Program::new();
    let fd = u64::from(end(&mut program, 1, u64::MAX));
    program.world.calls = [Ok((Called::Sent, &b""[..]))].into();
    program.world.received = [Ok(Err(Errno::PIPE.into()))].into();
    call(&mut program, |_, _| ());
    assert_eq!(program.call("channel_call", &[fd, MESSAGE, RESULT]), Errno::PIPE.0);
    assert!(program.world.sent.is_empty() && program.world.received.is_empty());

    // Refused, it is sent in the usual way.
    program.world.received = [Ok(Err(Errno::PIPE.into()))].into();
    assert_eq!(program.call("channel_call", &[fd, MESSAGE, RESULT]), Errno::PIPE.0);
    assert_eq!(program.world.sent, [[None; 2]]);
    program.end();
}

#[test]
fn a_call_that_cannot_be_made_in_one_step_does_nothing_there() {
    let mut program = Program::new();
    let fd = u64::from(end(&mut program, 1, u64::MAX));
    let reads = u64::from(end(&mut program, 2, rights::END & !rights::FD_WRITE));
    type Change = fn(&mut ChannelMessage, &mut ChannelMessage);
    let cases: [(u64, Change, u16); 7] = [
        (reads, |_, _| (), NOTCAPABLE),
        (99, |_, _| (), BADF),
        (fd, |sent, _| sent.bytes[1] = 2049, Errno::PROTO.0),
        (fd, |sent, _| sent.bytes[0] = u32::MAX, FAULT),
        (fd, |_, reply| reply.bytes[0] = u32::MAX, FAULT),
        (fd, |_, reply| reply.block = [0, u32::MAX], FAULT),
        (fd, |sent, _| sent.ends[1] = 99, BADF),
    ];
    for (fd, change, error) in cases {
        program.world.calls = [Ok((Called::Sent, &b""[..]))].into();
        call(&mut program, change);
        assert_eq!(program.call("channel_call", &[fd, MESSAGE, RESULT]), error);
        assert!(program.world.plain.is_empty() && program.world.sent.is_empty());
    }
    program.end();
}
