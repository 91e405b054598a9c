//! The fast path of a call over a channel whose message has a block of whole pages, or for whose
//! answer there is room for one.
//!
//! Contract: as in [`crate::plain`]. Pages of a message that is not sent so are where they were.

use crate::blocks;
use crate::errno::{Errno, Halt};
use crate::memory::{Bytes, SCRATCH};
use crate::plain::{MESSAGE, load};
use crate::process::Process;
use crate::system::System;
use abi::channel::{ChannelMessage, HAS_BLOCK, NO_END, PASSES};
use kernel_contract::exchange::{Brief, BriefBlock, Called, LONGEST_BLOCK};
use kernel_contract::{Block, ENDPOINTS, INLINE, PAGE};

/// What is known of a call before it is made: the end, the message, and the room for the answer.
struct Begun {
    end: u64,
    sent: ChannelMessage,
    asked: ChannelMessage,
}

/// Returns whether a range is of whole pages that can pass.
#[inline]
fn may_pass([at, length]: [u32; 2]) -> bool {
    let are_whole = (at | length) as usize & (PAGE - 1) == 0;
    are_whole && (PASSES..=LONGEST_BLOCK).contains(&(length as usize))
}

/// Returns such a range.
#[inline]
fn pages(program: &mut [u8], range: [u32; 2]) -> Option<&mut [u8]> {
    let [at, length] = range;
    program.get_mut(at as usize..)?.get_mut(..length as usize).filter(|_| may_pass(range))
}

impl Process {
    /// Does what [`Process::channel_call`] does, if it can; the arguments are those of
    /// [`Process::call_plain`].
    #[inline(never)]
    pub(crate) fn call_paged(
        &self,
        (program, scratch): (&mut [u8], &mut [u8; SCRATCH]),
        system: &mut dyn System,
        call @ (_, _, reply): (u32, u32, u32),
    ) -> Result<Called, Halt> {
        let (into, sending) = scratch.split_at_mut(INLINE);
        let Some(begun) = self.begin_paged(program, sending, call) else {
            return Ok(Called::Refused);
        };
        let Begun { end, sent, asked } = &begun;
        let fields = sending.get(..sent.bytes[1] as usize).ok_or(Errno::PROTO)?;
        let into = into.get_mut(..INLINE.min(asked.bytes[1] as usize)).ok_or(Errno::PROTO)?;
        let Some((mut block, room)) = prepare(program, system, &begun, reply) else {
            return Ok(Called::Refused);
        };
        let blocks = Some(BriefBlock { block: &mut block, room });
        let mut brief = Brief { tag: sent.tag, fields, into, block: blocks };
        let called = system.call_plain(*end, &self.contracts, &mut brief);
        if let Ok(Called::Arrived { tag, length }) = called {
            let fields = scratch.get(..length.into()).ok_or(Errno::IO)?;
            store(program, asked, (tag, fields, block), reply)?;
        } else if block.is_some() {
            blocks::unload(&mut Bytes::Own(program), block, sent.block);
        }
        Ok(called?)
    }

    /// Checks a call, and copies the fields of its message to `sending`.
    #[inline]
    fn begin_paged(
        &self,
        program: &[u8],
        sending: &mut [u8],
        (fd, message, reply): (u32, u32, u32),
    ) -> Option<Begun> {
        let (sent, asked) = (load(program, message)?, load(program, reply)?);
        // Most other blocks are short.
        let has_pages = match sent.flags {
            0 => asked.block[1] as usize >= PASSES,
            HAS_BLOCK => may_pass(sent.block),
            _ => false,
        };
        if !has_pages {
            return None;
        }
        let (end, _) = self.begin_call(program, sending, fd, (&sent, &asked))?;
        Some(Begun { end, sent, asked })
    }
}

/// Takes the block of a message, if it has one, and prepares room for that of the answer. Returns
/// how much room.
#[inline]
fn prepare(
    program: &mut [u8],
    system: &mut dyn System,
    Begun { end, sent, asked }: &Begun,
    reply: u32,
) -> Option<(Option<Block>, usize)> {
    let [at, length] = asked.block;
    let whole = length.min(LONGEST_BLOCK as u32) & !(PAGE as u32 - 1);
    let room = pages(program, [at, whole]);
    let room = room.map_or(0, |room| if system.reserve_block(room) { room.len() } else { 0 });
    if room == 0 && length != 0 {
        // That room needs memory.
        return None;
    }
    if sent.flags == 0 {
        return Some((None, room));
    }
    // What is stored for the answer keeps its memory.
    let stays = [asked.bytes, [reply, MESSAGE as u32]];
    if stays.iter().any(|range| blocks::overlap(*range, sent.block)) {
        return None;
    }
    let block = system.take_block(*end, pages(program, sent.block)?)?;
    Some((Some(block), room))
}

/// Stores a message that has arrived.
#[inline]
fn store(
    program: &mut [u8],
    asked: &ChannelMessage,
    (tag, fields, block): (u16, &[u8], Option<Block>),
    reply: u32,
) -> Result<(), Errno> {
    let ([at, _], ends) = (asked.block, [NO_END; ENDPOINTS]);
    let (mut length, mut flags) = (0, 0);
    if let Some(block) = block {
        (length, flags) = (block.len() as u32, HAS_BLOCK);
        let back = match pages(program, [at, length]) {
            Some(range) => block.put(range),
            None => Err(block),
        };
        if let Err(block) = back {
            blocks::store(&mut Bytes::Own(program), block, asked.block)?;
        }
    }
    let mut program = Bytes::Own(program);
    program.store(asked.bytes[0], fields)?;
    let (bytes, block) = ([asked.bytes[0], fields.len() as u32], [at, length]);
    program.store_value(reply, ChannelMessage { bytes, block, ends, tag, flags, reserved: 0 })
}
