//! Channels: what becomes of descriptors. The kernel's side of the channels is simulated.

use crate::common::*;
use abi::channel::{ChannelMessage, NO_END};
use kernel_contract::exchange::{Arrived, Cargo};
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
    let needs = |bytes, ends| Ok(Err(Unreceived { why: Errno::MSGSIZE, bytes, ends }));
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
    let needed = Unreceived { why: Errno::MSGSIZE, bytes: 0, ends: 1 };
    let arrived = Arrived { tag: 4, length: 0, ends: [Cargo::Nothing, Cargo::End(7)] };
    message(&mut program, [0; 2]);
    program.world.received = [Ok(Err(needed)), Ok(Ok(arrived))].into();
    program.ok("channel_receive", &[fd, RESULT, 0]);
    assert_eq!([16, 20].map(|at| program.u32(RESULT + at)), [NO_END, free]);
    assert_eq!(program.process.table().get(free), Ok(Descriptor::of_end(7, u64::MAX)));
    program.end();
}
