//! The fast path of a call over a channel: a program with one thread sends a message of fields
//! alone and waits for one; [`crate::paged`] is that for blocks.
//!
//! Contract: straight checks, each of which leaves to the usual way before anything has happened;
//! that one finds the error. What the answer needs is there before the message is sent.

use crate::errno::{Errno, Halt};
use crate::memory::{SCRATCH, load_pages};
use crate::process::Process;
use crate::system::System;
use crate::wasi::rights;
use abi::channel::{ChannelMessage, NO_END, PASSES};
use kernel_contract::exchange::{Brief, Called};
use kernel_contract::{ENDPOINTS, INLINE};

/// Bytes of a message's description.
pub(crate) const MESSAGE: usize = size_of::<ChannelMessage>();

/// Returns a range of the program's memory.
#[inline]
fn range(program: &[u8], [at, length]: [u32; 2]) -> Option<&[u8]> {
    program.get(at as usize..)?.get(..length as usize)
}

#[inline]
pub(crate) fn load(program: &[u8], at: u32) -> Option<ChannelMessage> {
    let bytes = range(program, [at, MESSAGE as u32])?;
    load_pages(bytes);
    base::bytes::read(bytes)
}

impl Process {
    /// Does what [`Process::channel_call`] does, if it can. `program` is the memory of a program
    /// with one thread, `call` the descriptor and the addresses of the message and the reply.
    pub(crate) fn call_plain(
        &self,
        (program, scratch): (&mut [u8], &mut [u8; SCRATCH]),
        system: &mut dyn System,
        call @ (_, _, reply): (u32, u32, u32),
    ) -> Result<Called, Halt> {
        let (into, sending) = scratch.split_at_mut(INLINE);
        let Some((end, tag, length, asked)) = self.begin_plain(program, sending, call) else {
            return Ok(Called::Refused);
        };
        let sending = sending.get(..length).ok_or(Errno::PROTO)?;
        let ([at, room], [block, _]) = (asked.bytes, asked.block);
        let into = into.get_mut(..INLINE.min(room as usize)).ok_or(Errno::PROTO)?;
        let mut brief = Brief { tag, fields: sending, into, block: None };
        let called = system.call_plain(end, &self.contracts, &mut brief)?;
        if let Called::Arrived { tag, length } = called {
            let (from, to) = (into.get(..length.into()), program.get_mut(at as usize..));
            let to = to.and_then(|to| to.get_mut(..length.into())).ok_or(Errno::FAULT)?;
            to.copy_from_slice(from.ok_or(Errno::IO)?);
            let (bytes, block, ends) = ([at, length.into()], [block, 0], [NO_END; ENDPOINTS]);
            let stored = ChannelMessage { bytes, block, ends, tag, flags: 0, reserved: 0 };
            let to = program.get_mut(reply as usize..).and_then(|to| to.get_mut(..MESSAGE));
            base::bytes::write(to.ok_or(Errno::FAULT)?, stored).ok_or(Errno::FAULT)?;
        }
        Ok(called)
    }

    /// Checks a call, and copies the fields of its message to `sending`. Returns the end, the tag
    /// and length of the message, and the room for the answer.
    #[inline]
    fn begin_plain(
        &self,
        program: &[u8],
        sending: &mut [u8],
        (fd, message, reply): (u32, u32, u32),
    ) -> Option<(u64, u16, usize, ChannelMessage)> {
        let message = load(program, message)?;
        if message.flags != 0 {
            return None;
        }
        let asked = load(program, reply)?;
        if asked.block[1] as usize >= PASSES {
            return None;
        }
        let (end, length) = self.begin_call(program, sending, fd, (&message, &asked))?;
        Some((end, message.tag, length, asked))
    }

    /// Checks a message that carries no ends, whatever its block, and copies its fields to
    /// `sending`. Returns the end, and the bytes of its fields.
    #[inline(always)]
    pub(crate) fn begin_call(
        &self,
        program: &[u8],
        sending: &mut [u8],
        fd: u32,
        (sent, asked): (&ChannelMessage, &ChannelMessage),
    ) -> Option<(u64, usize)> {
        let is_plain = sent.reserved == 0
            && sent.ends == [NO_END; ENDPOINTS]
            && sent.bytes[1] as usize <= INLINE;
        let descriptor = self.table.get(fd).ok()?;
        let end = descriptor.with(rights::FD_READ | rights::FD_WRITE).ok()?.object.end().ok()?;
        range(program, asked.block)?;
        load_pages(range(program, asked.bytes)?);
        let fields = range(program, sent.bytes).filter(|_| is_plain)?;
        sending.get_mut(..fields.len())?.copy_from_slice(fields);
        Some((end, fields.len()))
    }
}
