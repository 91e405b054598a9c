//! Blocks of messages, from a program's memory and into it.
//!
//! Contract: a block is copied, or its pages pass: they leave the program when they are sent, where
//! zeros remain, and take the place of the receiver's pages. Pages pass if the program has one
//! thread, the range begins with a page, and it is long enough; what is sent and what is received
//! may differ in that. No page is lost: those of a message that is not sent return, and those of
//! one that was received are put where that cannot fail.
//!
//! ```text
//!   send:     range --take_block--> Block --sent--> the receiver
//!                   <---- put ----- not sent
//!   receive:  room: tables (reserve_block), or memory if a block has to be copied (touch)
//!             Block --put, or copy--> room
//! ```

use crate::errno::Errno;
use crate::memory::Bytes;
use crate::system::System;
use abi::channel::{ChannelMessage, HAS_BLOCK, PASSES};
use kernel_contract::exchange::LONGEST_BLOCK;
use kernel_contract::{Block, PAGE};

/// Returns a range from which pages can pass, or into which they can.
fn passing<'m>(memory: &'m mut Bytes<'_>, [at, length]: [u32; 2]) -> Option<&'m mut [u8]> {
    let (at, length) = (at as usize, length as usize);
    match memory {
        Bytes::Own(bytes) if length >= PASSES && at.is_multiple_of(PAGE) => {
            bytes.get_mut(at..at.checked_add(length)?)
        }
        _ => None,
    }
}

/// Returns the number of bytes of the whole pages in a range.
fn whole_pages(length: usize) -> usize {
    length & !(PAGE - 1)
}

pub(crate) fn overlap([a, a_length]: [u32; 2], [b, b_length]: [u32; 2]) -> bool {
    let (a, b) = (u64::from(a), u64::from(b));
    a < b + u64::from(b_length) && b < a + u64::from(a_length)
}

/// Returns the block of a message that is sent at an end. The ranges `stays` keep their memory.
pub(crate) fn load(
    memory: &mut Bytes<'_>,
    system: &mut dyn System,
    end: u64,
    (message, stays): (&ChannelMessage, &[[u32; 2]]),
) -> Result<Option<Block>, Errno> {
    let [at, length] = message.block;
    match (message.flags, message.reserved) {
        (0, 0) => return Ok(None),
        (HAS_BLOCK, 0) => memory.check(at, length)?,
        _ => return Err(Errno::INVAL),
    }
    // No channel allows more.
    if length as usize > LONGEST_BLOCK {
        return Err(Errno::PROTO);
    }
    let may_pass = !stays.iter().any(|range| overlap(*range, message.block));
    if may_pass && passing(memory, message.block).is_some() {
        // What is left of the last page is copied. It gets memory before anything is owned.
        let whole = whole_pages(length as usize) as u32;
        memory.touch(at + whole, length - whole)?;
        let block = passing(memory, message.block).map(|range| system.take_block(end, range));
        if let Some(Some(block)) = block {
            return Ok(Some(block));
        }
    }
    let bytes = memory.view(at, length, LONGEST_BLOCK)?;
    system.block(end, &bytes).map(Some).ok_or(Errno::NOBUFS)
}

/// Returns the pages of a block that was not sent.
pub(crate) fn unload(memory: &mut Bytes<'_>, block: Option<Block>, from: [u32; 2]) {
    if let Some(block) = block.filter(Block::passes)
        && let Some(range) = passing(memory, from)
    {
        let whole = whole_pages(range.len());
        // Cannot fail: they were taken from there.
        let _ = block.put(&mut range[..whole]);
    }
}

/// Prepares room for a block. Returns whether it has memory: if `copies`, or it is not for pages.
pub(crate) fn prepare(
    memory: &mut Bytes<'_>,
    system: &mut dyn System,
    room: [u32; 2],
    copies: bool,
) -> Result<bool, Errno> {
    let [at, length] = room;
    memory.check(at, length)?;
    let most = length.min(LONGEST_BLOCK as u32);
    if !copies && let Some(range) = passing(memory, [at, most]) {
        let whole = whole_pages(range.len());
        if system.reserve_block(&mut range[..whole]) {
            return Ok(false);
        }
    }
    memory.touch(at, most)?;
    Ok(true)
}

/// Returns the memory of room for a block, if only the calling thread can access it. `before`: the
/// ranges that are written before the block.
pub(crate) fn place<'m>(
    memory: &'m mut Bytes<'_>,
    room: [u32; 2],
    before: &[[u32; 2]],
) -> Option<&'m mut [u8]> {
    if before.iter().any(|range| overlap(*range, room)) {
        return None;
    }
    let (at, length) = (room[0] as usize, (room[1] as usize).min(LONGEST_BLOCK));
    match memory {
        Bytes::Own(bytes) if length != 0 => bytes.get_mut(at..at.checked_add(length)?),
        _ => None,
    }
}

/// Stores a block that was received into room that was prepared for it.
pub(crate) fn store(
    memory: &mut Bytes<'_>,
    mut block: Block,
    [at, room]: [u32; 2],
) -> Result<(), Errno> {
    if block.len() > room as usize {
        return Err(Errno::IO);
    }
    if block.is_placed() {
        return Ok(());
    }
    let whole = block.len().next_multiple_of(PAGE);
    if block.passes()
        && let Some(range) = passing(memory, [at, room])
        && let Some(range) = range.get_mut(..whole)
    {
        match block.put(range) {
            Ok(()) => return Ok(()),
            Err(back) => block = back,
        }
    }
    block.each(|offset, piece| memory.store(at + offset as u32, piece))
}
