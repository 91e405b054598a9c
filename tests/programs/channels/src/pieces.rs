//! Blocks: one process sends some, the other one sends each back.

use crate::contracts::piece_v1::{client, message, server};
use crate::contracts::{echo_v1, large_v1, piece_v1};
use crate::{HERE, Wrong, ended_well, must, start_child};
use penumbra::Errno;
use penumbra::channel::{Block, Channel, Error, Side, Transport};

/// Empty, around a page, and the longest.
const LENGTHS: [usize; 7] = [0, 1, 4095, 4096, 4097, 40_000, 65_536];

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().map(|byte| u32::from(*byte)).sum()
}

fn block(length: usize) -> Block {
    let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
    Block::from(&bytes[..])
}

/// Sends blocks to `program returns` on a kernel. The first one is sent before that starts, so its
/// end moves with the block in its queue.
pub fn pieces(kernel: &str, program: &str) -> Result<(), Wrong> {
    let (here, there) = Channel::pair(piece_v1::CONTRACT)?;
    let mut sent = send(client::start(here), LENGTHS[0])?;
    let child = start_child(there, kernel, program, "returns")?;
    for length in LENGTHS.into_iter().skip(1).chain([1]) {
        sent = send(receive(sent)?, length)?;
    }
    receive(sent)?.close();
    println!("pieces");
    ended_well(&child)
}

fn send(
    idle: client::Idle<Channel>,
    length: usize,
) -> Result<(client::Sent<Channel>, usize), Wrong> {
    let block = block(length);
    Ok((idle.send_piece(&message::Piece { sum: sum(&block) }, block)?, length))
}

fn receive((sent, length): (client::Sent<Channel>, usize)) -> Result<client::Idle<Channel>, Wrong> {
    let client::received::Sent::Same { message, block: got, next } = sent.receive()?;
    must(got == block(length) && message.sum == sum(&got), &format!("another block of {length}"))?;
    Ok(next)
}

/// The other process: checks each block and sends it back, until the client leaves.
pub fn returns() -> Result<(), Wrong> {
    let channel = Channel::from_descriptor(HERE, piece_v1::CONTRACT, Side::Server)?;
    let mut idle = server::start(channel);
    while let server::received::Idle::Piece { message, block, next } = idle.receive()? {
        must(message.sum == sum(&block), &format!("another sum of {} bytes", block.len()))?;
        idle = next.send_same(&message::Same { sum: message.sum }, block)?;
    }
    Ok(())
}

/// One process with both ends: too long a block, none, too little room, and blocks that are
/// not received.
pub fn alone() -> Result<(), Wrong> {
    use message::Piece;
    let none = || [None, None];
    let (mut client, mut server) = Channel::pair(piece_v1::CONTRACT)?;
    let long = client.send(Piece::TAG, &[0; 4], Some(Block::zeroed(65_537)), none());
    must(long == Err(Error::Refused(Piece::TAG)), &format!("too long a block: {long:?}"))?;
    let missing = client.send(Piece::TAG, &[0; 4], None, none());
    must(missing == Err(Error::Refused(Piece::TAG)), &format!("no block: {missing:?}"))?;
    client.send(Piece::TAG, &[7; 4], Some(block(5000)), none())?;
    let small = server.receive(&mut [0; 3]).map(|_| ());
    must(small == Err(Error::System(Errno::MSGSIZE)), &format!("too small: {small:?}"))?;
    let arrival = server.receive(&mut [0; 4])?.ok_or(Error::Closed)?;
    must(arrival.block == Some(block(5000)), "another block")?;
    // More than the system keeps for one process, if they stayed.
    for _ in 0..100 {
        let (mut client, server) = Channel::pair(piece_v1::CONTRACT)?;
        client.send(Piece::TAG, &[0; 4], Some(block(65_536)), none())?;
        drop((client, server));
    }
    full()?;
    let (mut client, _server) = Channel::pair(echo_v1::CONTRACT)?;
    let other = client.send(0, &[0; 64], Some(Block::default()), none());
    must(other == Err(Error::Refused(0)), &format!("a block that is not allowed: {other:?}"))
}

/// A process has as many bytes unread as it may have; then they are received.
fn full() -> Result<(), Wrong> {
    use large_v1::message::Put;
    use message::Piece;
    const MOST: usize = 4 << 20;
    let (mut client, mut server) = Channel::pair(large_v1::CONTRACT)?;
    client.send(Put::TAG, &[], Some(vec![9; MOST].into()), [None, None])?;
    let (mut other, _reader) = Channel::pair(piece_v1::CONTRACT)?;
    let full = other.send(Piece::TAG, &[0; 4], Some(vec![1].into()), [None, None]);
    must(full == Err(Error::System(Errno::NOBUFS)), &format!("not full: {full:?}"))?;
    let arrival = server.receive(&mut [])?.ok_or(Error::Closed)?;
    let is_whole = |block: &Block| block.len() == MOST && block.iter().all(|byte| *byte == 9);
    must(arrival.block.as_ref().is_some_and(is_whole), "another block")?;
    Ok(other.send(Piece::TAG, &[0; 4], Some(vec![1].into()), [None, None])?)
}
