//! Receiving a message ([`crate::channels`]).
//!
//! Contract: what a message needs is there before it is received: numbers for its ends, memory for
//! its fields and its block, the range that becomes its window. Each is asked for when it is known
//! that the message has it. If something cannot be stored all the same, because other threads have
//! ended a window there, what the message has brought is released.

use crate::blocks;
use crate::ends::Unreceived;
use crate::errno::{Done, Errno, Halt};
use crate::memory::{Bytes, GuestMemory};
use crate::process::Process;
use crate::system::System;
use crate::table::Descriptor;
use abi::channel::{ChannelMessage, HAS_BLOCK, LOST_END, NO_END, WINDOW};
use kernel_contract::exchange::{Arrived, Cargo, LONGEST_BLOCK, Outgoing, Room, Windows};
use kernel_contract::{ENDPOINTS, INLINE};
use zerocopy::IntoBytes;

/// Bytes of a message's description.
pub(crate) const MESSAGE: u32 = size_of::<ChannelMessage>() as u32;

/// Copies the fields of a message that is sent to `into`.
pub(crate) fn load_fields<'a>(
    bytes: &Bytes<'_>,
    into: &'a mut [u8],
    [at, length]: [u32; 2],
) -> Result<&'a [u8], Errno> {
    // No message has more bytes.
    let into = into.get_mut(..length as usize).filter(|into| into.len() <= INLINE);
    let into = into.ok_or(Errno::PROTO)?;
    bytes.read(at, into)?;
    Ok(into)
}

/// How a message is received.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub waits: bool,
    pub takes_windows: bool,
    /// The reservation of its room, once a window has come.
    pub window: Option<u64>,
}

impl How {
    pub const USUAL: How = How { waits: true, takes_windows: false, window: None };

    fn windows(&self) -> Windows {
        match (self.takes_windows, self.window) {
            (false, _) => Windows::AsBlocks,
            (true, None) => Windows::Unprepared,
            (true, Some(_)) => Windows::Prepared,
        }
    }
}

/// Closes the ends that a message has brought.
fn close_ends(system: &mut dyn System, arrived: &Arrived) {
    for cargo in arrived.ends {
        if let Cargo::End(end) = cargo {
            let _ = system.close_end(end);
        }
    }
}

/// Returns the number by which a program knows why nothing was received.
fn errno(why: Unreceived) -> Errno {
    match why {
        Unreceived::Failed(why) => why,
        Unreceived::Unfit { .. } => Errno::MSGSIZE,
        // Never with memory, and with room that is reserved.
        Unreceived::Copies | Unreceived::Window => Errno::IO,
    }
}

impl Process {
    /// Sends a message without ends, if there is one, and receives the next one.
    pub(crate) fn receive_at(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        from: (u64, u32),
        (asked, mut sent): (&ChannelMessage, Option<&ChannelMessage>),
        mut how: How,
    ) -> Done {
        // Most messages carry no ends, so numbers for them are reserved when that is known.
        let mut numbers = [NO_END; ENDPOINTS];
        // Most blocks for which room begins with a page pass.
        let mut copies = false;
        let received = loop {
            let ends = numbers.iter().filter(|number| **number != NO_END).count();
            let messages = (asked, sent.take());
            match self.receive_into(memory, system, from, messages, (ends, copies, how)) {
                Ok(Err(Unreceived::Copies)) if !copies => copies = true,
                Ok(Err(Unreceived::Window)) if how.window.is_none() => {
                    match self.reserve_room(memory, system, (asked, from.1)) {
                        Ok(id) => how.window = Some(id),
                        Err(why) => break Err(why.into()),
                    }
                }
                Ok(Err(Unreceived::Unfit { ends: needed, .. })) if needed > ends => {
                    if let Err(why) = self.reserve_one(&mut numbers) {
                        break Err(why.into());
                    }
                }
                Ok(Ok(received)) => break Ok(received),
                Ok(Err(why)) => break Err(errno(why).into()),
                Err(why) => break Err(why),
            }
        };
        let has_window = received.as_ref().is_ok_and(|(arrived, _)| arrived.window.is_some());
        if let Some(id) = how.window.filter(|_| !has_window) {
            self.windows.end(system, id);
        }
        let (arrived, block) = received.inspect_err(|_| {
            self.enter_ends(numbers, [Cargo::Nothing; ENDPOINTS]);
        })?;
        let ends = self.enter_ends(numbers, arrived.ends);
        let flags = match (block, arrived.window) {
            (None, _) => 0,
            (Some(_), None) => HAS_BLOCK,
            (Some(_), Some(_)) => HAS_BLOCK | WINDOW,
        };
        let ([bytes, _], [block_at, _]) = (asked.bytes, asked.block);
        let (bytes, block) = ([bytes, arrived.length as u32], [block_at, block.unwrap_or(0)]);
        let stored = ChannelMessage { bytes, block, ends, tag: arrived.tag, flags, reserved: 0 };
        memory.store(from.1, stored.as_bytes()).inspect_err(|_| {
            if let Some(id) = how.window {
                self.windows.end(system, id);
            }
            for end in ends.iter().filter_map(|number| self.table.take(*number).ok()) {
                let _ = end.object.close(system);
            }
        })?;
        Ok(())
    }

    /// Reserves the room for a block, which is to become a window. Nothing else is stored there.
    fn reserve_room(
        &self,
        memory: &GuestMemory<'_>,
        system: &mut dyn System,
        (asked, message): (&ChannelMessage, u32),
    ) -> Result<u64, Errno> {
        let [at, room] = asked.block;
        let others = [asked.bytes, [message, MESSAGE]];
        if others.iter().any(|other| blocks::overlap(*other, asked.block)) {
            return Err(Errno::INVAL);
        }
        self.windows.reserve(memory, system, [at, room.min(LONGEST_BLOCK as u32)])
    }

    /// Reserves one more number for an end.
    fn reserve_one(&self, numbers: &mut [u32; ENDPOINTS]) -> Result<(), Errno> {
        let free = numbers.iter_mut().find(|number| **number == NO_END).ok_or(Errno::PROTO)?;
        *free = self.table.reserve()?;
        Ok(())
    }

    /// Receives a message into the room that the program has, and ends for which numbers are
    /// reserved. Returns it with the length of its block. If the room is too small, stores the
    /// lengths that are needed.
    fn receive_into(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        (end, message_at): (u64, u32),
        (asked, sent): (&ChannelMessage, Option<&ChannelMessage>),
        (ends, copies, how): (usize, bool, How),
    ) -> Result<Result<(Arrived, Option<u32>), Unreceived>, Halt> {
        let GuestMemory { bytes: program, scratch } = &mut *memory;
        let scratch = scratch.room()?;
        for [at, room] in [asked.bytes, [message_at, MESSAGE]] {
            program.check(at, room)?;
            program.touch(at, room.min(INLINE as u32))?;
        }
        let has_memory = blocks::prepare(program, system, asked.block, copies)?;
        let ([at, room], [block_at, block]) = (asked.bytes, asked.block);
        let room = (room as usize).min(INLINE);
        let (bytes, sending) = scratch.split_at_mut(INLINE);
        let bytes = bytes.get_mut(..room).ok_or(Errno::INVAL)?;
        let (block_room, windows) = (block as usize, how.windows());
        let mut into = Room { bytes, block: block_room, has_memory, place: None, ends, windows };
        let place_of = |program| match has_memory {
            true => blocks::place(program, asked.block, &[asked.bytes]),
            false => None,
        };
        let received = match sent {
            None => {
                into.place = place_of(program);
                system.receive(end, &self.contracts, &mut into, how.waits)?
            }
            Some(message) => {
                let bytes = load_fields(program, sending, message.bytes)?;
                let stays = [asked.bytes, [message_at, MESSAGE], asked.block];
                let stays = if has_memory { &stays[..] } else { &stays[..2] };
                let mut out = blocks::load(program, system, end, (message, stays))?;
                let (block, ends) = (&mut out, [None; ENDPOINTS]);
                let outgoing = Outgoing { tag: message.tag, bytes, block, ends };
                into.place = place_of(program);
                let called = system.call(end, &self.contracts, outgoing, &mut into);
                blocks::unload(program, out, message.block);
                called?
            }
        };
        match received {
            Ok(mut arrived) => {
                let fields = scratch.get(..arrived.length).ok_or(Errno::IO)?;
                let stored = self.store(program, system, asked, (fields, &mut arrived, how.window));
                // What it has stored into has left with a window, and there is no memory.
                let length = stored.inspect_err(|_| close_ends(system, &arrived))?;
                Ok(Ok((arrived, length)))
            }
            Err(Unreceived::Unfit { bytes, block: needed, .. })
                if bytes > room || needed > block as usize =>
            {
                let (bytes, block) = ([at, bytes as u32], [block_at, needed as u32]);
                let needed = ChannelMessage { bytes, block, ..*asked };
                program.store(message_at, needed.as_bytes())?;
                Err(Errno::MSGSIZE.into())
            }
            Err(why) => Ok(Err(why)),
        }
    }

    /// Stores the fields and the block of a message. Returns the length of its block.
    fn store(
        &self,
        program: &mut Bytes<'_>,
        system: &mut dyn System,
        asked: &ChannelMessage,
        (fields, arrived, window): (&[u8], &mut Arrived, Option<u64>),
    ) -> Result<Option<u32>, Halt> {
        // First what has to be released otherwise.
        let block = arrived.block.take();
        let length = block.as_ref().map(|block| block.len() as u32);
        match (block, arrived.window.zip(window)) {
            (None, _) => {}
            (Some(block), None) => blocks::store(program, block, asked.block)?,
            (Some(block), Some((name, id))) => {
                self.windows.receive(program, system, (id, asked.block), (name, block))?;
            }
        }
        program.store(asked.bytes[0], fields)?;
        Ok(length)
    }

    /// Makes descriptors of received ends at reserved numbers, and frees the others. Returns what
    /// the program gets to see.
    fn enter_ends(&self, numbers: [u32; ENDPOINTS], ends: [Cargo; ENDPOINTS]) -> [u32; ENDPOINTS] {
        let mut free = numbers.into_iter().filter(|number| *number != NO_END);
        let seen = ends.map(|cargo| match cargo {
            Cargo::Nothing => NO_END,
            Cargo::Lost => LOST_END,
            Cargo::End(handle) => free.next().map_or(LOST_END, |number| {
                // Cannot fail: it is reserved.
                let _ = self.table.settle(number, Some(Descriptor::of_end(handle, u64::MAX)));
                number
            }),
        });
        for number in free {
            let _ = self.table.settle(number, None);
        }
        seen
    }
}
