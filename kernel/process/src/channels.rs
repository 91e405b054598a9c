//! Functions on channels (docs/design/channels.md).
//!
//! Contract: fields are copied to the calling thread's buffer, and blocks are memory of the kernel
//! ([`blocks`]), so the kernel's channels never access the memory of a program. A descriptor of an
//! end that is sent is held back while that is tried: it is either the receiver's, or this
//! process's as before. What a message needs is there before it is received.
//!
//! ```text
//!   channel, channel_use: contract --parse--> Contracts
//!   channel_send:    message --buffer, block--> System::send --> held ends gone, or as before
//!   channel_receive: numbers reserved --> System::receive --buffer, block--> message, descriptors
//! ```

use crate::blocks;
use crate::ends::Unreceived;
use crate::errno::{Done, Errno, Halt};
use crate::memory::{Bytes, GuestMemory, SCRATCH};
use crate::process::Process;
use crate::system::System;
use crate::table::Descriptor;
use crate::wasi::rights;
use abi::channel::{AWAIT, ChannelMessage, HAS_BLOCK, LOST_END, NO_END, NO_WAIT, side};
use abi::names::{NAME, Name};
use kernel_contract::exchange::{Arrived, Called, Cargo, Known, Outgoing, Room};
use kernel_contract::{Automaton, BYTES, ENDPOINTS, INLINE, Side};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of a message's description.
const MESSAGE: u32 = size_of::<ChannelMessage>() as u32;

// A message that is sent, and one that is received.
const _: () = assert!(2 * INLINE <= SCRATCH);

/// Descriptors that are held back while their ends are sent, with their numbers.
type Held = [Option<(u32, Descriptor)>; ENDPOINTS];

fn load(memory: &GuestMemory<'_>, at: u32) -> Result<ChannelMessage, Errno> {
    let bytes: [u8; MESSAGE as usize] = memory.load(at)?;
    ChannelMessage::read_from_bytes(&bytes).map_err(|_| Errno::FAULT)
}

/// Returns the name in a range of the program's memory.
fn load_name(memory: &GuestMemory<'_>, at: u32, length: u32) -> Result<Name, Errno> {
    Name::new(&memory.view(at, length, NAME).map_err(|_| Errno::INVAL)?).ok_or(Errno::INVAL)
}

/// Copies the fields of a message that is sent to `into`.
fn load_fields<'a>(
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

/// Returns the number by which a program knows why nothing was received.
fn errno(why: Unreceived) -> Errno {
    match why {
        Unreceived::Failed(why) => why,
        Unreceived::Unfit { .. } => Errno::MSGSIZE,
        // Never with memory.
        Unreceived::Copies => Errno::IO,
    }
}

impl Process {
    /// Returns the handle of an end with this right.
    fn end(&self, fd: u32, right: u64) -> Result<u64, Errno> {
        self.table.get(fd)?.with(right)?.object.end()
    }

    /// Returns the contract in a range of the program's memory.
    fn contract(&self, memory: &GuestMemory<'_>, at: u32, length: u32) -> Result<&Known, Errno> {
        let bytes = memory.view(at, length, BYTES)?;
        let bytes = crate::table::copied(&bytes)?;
        self.contracts.add(Automaton::parse(bytes).map_err(|_| Errno::INVAL)?)
    }

    /// Makes a channel. Stores the descriptors of its client's and its server's end.
    pub fn channel(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        contract: u32,
        bytes: u32,
        ends: u32,
    ) -> Done {
        memory.check(ends, 8)?;
        let contract = self.contract(memory, contract, bytes)?;
        self.table.two_free()?;
        let [client, server] =
            system.channel(contract)?.map(|handle| Descriptor::of_end(handle, u64::MAX));
        let first = self.enter(system, client).inspect_err(|_| {
            let _ = server.object.close(system);
        })?;
        let second = self.enter(system, server).inspect_err(|_| {
            let _ = self.table.take(first).map(|client| client.object.close(system));
        })?;
        memory.store(ends, [first, second].as_bytes())?;
        Ok(())
    }

    /// Says by which contract, and as which side of it, the process uses an end.
    #[allow(clippy::too_many_arguments, reason = "the import's")]
    pub fn channel_use(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        contract: u32,
        bytes: u32,
        side: u32,
    ) -> Done {
        let name = self.contract(memory, contract, bytes)?.hash();
        let end = self.end(fd, 0)?;
        let side = match side {
            side::CLIENT => Side::Client,
            side::SERVER => Side::Server,
            _ => return Err(Errno::INVAL.into()),
        };
        let about = system.about_end(end)?;
        if (about.contract, about.side) == (name, side) {
            Ok(())
        } else {
            Err(Errno::PROTOTYPE.into())
        }
    }

    /// Sends a message.
    pub fn channel_send(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        message: u32,
    ) -> Done {
        let message = load(memory, message)?;
        let end = self.end(fd, rights::FD_WRITE)?;
        self.send_loaded(memory, system, end, &message)
    }

    fn send_loaded(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        end: u64,
        message: &ChannelMessage,
    ) -> Done {
        let GuestMemory { bytes: program, scratch } = memory;
        // First the fields: they may be in the pages of the block.
        let bytes = load_fields(program, *scratch, message.bytes)?;
        let mut block = blocks::load(program, system, end, (message, &[]))?;
        let sent = self.hold_back(message.ends).and_then(|held| {
            let ends = held.map(|held| held.map(|(_, descriptor)| descriptor.object.parts().0));
            let outgoing = Outgoing { tag: message.tag, bytes, block: &mut block, ends };
            let sent = system.send(end, &self.contracts, outgoing);
            self.settle(&held, sent.is_ok());
            sent
        });
        blocks::unload(program, block, message.block);
        Ok(sent?)
    }

    /// Holds back the descriptors of ends that are to be sent.
    fn hold_back(&self, ends: [u32; ENDPOINTS]) -> Result<Held, Errno> {
        let mut held: Held = [None; ENDPOINTS];
        for (place, number) in held.iter_mut().zip(ends).filter(|(_, number)| *number != NO_END) {
            // The receiver has all rights to it.
            let check = |it: &Descriptor| {
                it.object.end()?;
                it.with(rights::END).map(drop)
            };
            match self.table.hold(number, check) {
                Ok(descriptor) => *place = Some((number, descriptor)),
                Err(why) => {
                    self.settle(&held, false);
                    return Err(why);
                }
            }
        }
        Ok(held)
    }

    /// Gives descriptors back that were held back, or frees their numbers.
    fn settle(&self, held: &Held, are_gone: bool) {
        for (number, descriptor) in held.iter().flatten() {
            // Cannot fail: it is reserved.
            let _ = self.table.settle(*number, (!are_gone).then_some(*descriptor));
        }
    }

    /// Receives a message.
    pub fn channel_receive(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        message: u32,
        flags: u32,
    ) -> Done {
        if flags & !NO_WAIT != 0 {
            return Err(Errno::INVAL.into());
        }
        let asked = load(memory, message)?;
        let end = self.end(fd, rights::FD_READ)?;
        let waits = flags & NO_WAIT == 0;
        self.receive_at(memory, system, (end, message), (&asked, None), waits)
    }

    /// Sends a message without ends, if there is one, and receives the next one.
    fn receive_at(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        from: (u64, u32),
        (asked, mut sent): (&ChannelMessage, Option<&ChannelMessage>),
        waits: bool,
    ) -> Done {
        // Most messages carry no ends, so numbers for them are reserved when that is known.
        let mut numbers = [NO_END; ENDPOINTS];
        // Most blocks for which room begins with a page pass.
        let mut copies = false;
        let received = loop {
            let ends = numbers.iter().filter(|number| **number != NO_END).count();
            let messages = (asked, sent.take());
            match self.receive_into(memory, system, from, messages, (ends, copies, waits)) {
                Ok(Err(Unreceived::Copies)) if !copies => copies = true,
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
        let (arrived, block) = received.inspect_err(|_| {
            self.enter_ends(numbers, [Cargo::Nothing; ENDPOINTS]);
        })?;
        let ends = self.enter_ends(numbers, arrived.ends);
        let flags = if block.is_some() { HAS_BLOCK } else { 0 };
        let ([bytes, _], [block_at, _]) = (asked.bytes, asked.block);
        let (bytes, block) = ([bytes, arrived.length as u32], [block_at, block.unwrap_or(0)]);
        let stored = ChannelMessage { bytes, block, ends, tag: arrived.tag, flags, reserved: 0 };
        memory.store(from.1, stored.as_bytes())?;
        Ok(())
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
        (ends, copies, waits): (usize, bool, bool),
    ) -> Result<Result<(Arrived, Option<u32>), Unreceived>, Halt> {
        let GuestMemory { bytes: program, scratch } = &mut *memory;
        for [at, room] in [asked.bytes, [message_at, MESSAGE]] {
            program.check(at, room)?;
            program.touch(at, room.min(INLINE as u32))?;
        }
        let has_memory = blocks::prepare(program, system, asked.block, copies)?;
        let ([at, room], [block_at, block]) = (asked.bytes, asked.block);
        let room = (room as usize).min(INLINE);
        let (bytes, sending) = scratch.split_at_mut(INLINE);
        let bytes = bytes.get_mut(..room).ok_or(Errno::INVAL)?;
        let mut into = Room { bytes, block: block as usize, has_memory, place: None, ends };
        let place_of = |program| match has_memory {
            true => blocks::place(program, asked.block, &[asked.bytes]),
            false => None,
        };
        let received = match sent {
            None => {
                into.place = place_of(program);
                system.receive(end, &self.contracts, &mut into, waits)?
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
                program.store(at, scratch.get(..arrived.length).ok_or(Errno::IO)?)?;
                let block = arrived.block.take();
                let length = block.as_ref().map(|block| block.len() as u32);
                block.map_or(Ok(()), |block| blocks::store(program, block, asked.block))?;
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

    /// Sends a message, and receives the next one.
    pub fn channel_call(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        message: u32,
        reply: u32,
    ) -> Done {
        let GuestMemory { bytes: program, scratch } = &mut *memory;
        if let Bytes::Own(program) = program {
            match self.call_plain((program, scratch), system, (fd, message, reply))? {
                Called::Arrived { .. } => return Ok(()),
                Called::Sent => return self.channel_receive(memory, system, fd, reply, 0),
                Called::Refused => {}
            }
        }
        // What can be known before is: a message that was sent is not taken back.
        let (message, asked) = (load(memory, message)?, load(memory, reply)?);
        let end = self.end(fd, rights::FD_READ | rights::FD_WRITE)?;
        for [at, room] in [asked.bytes, asked.block] {
            memory.check(at, room)?;
        }
        if message.ends == [NO_END; ENDPOINTS] {
            return self.receive_at(memory, system, (end, reply), (&asked, Some(&message)), true);
        }
        self.send_loaded(memory, system, end, &message)?;
        self.receive_at(memory, system, (end, reply), (&asked, None), true)
    }

    /// Serves a name. Stores a descriptor, at which new channels arrive: each message there carries
    /// the server's end of one.
    #[allow(clippy::too_many_arguments, reason = "the import's")]
    pub fn name_serve(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        name: u32,
        length: u32,
        contract: u32,
        bytes: u32,
        door: u32,
    ) -> Done {
        memory.check(door, 4)?;
        let name = load_name(memory, name, length)?;
        let contract = self.contract(memory, contract, bytes)?;
        self.table.free(0)?;
        let end = system.serve(&name, contract)??;
        let number = self.enter(system, Descriptor::of_end(end, u64::MAX))?;
        memory.store_u32(door, number)?;
        Ok(())
    }

    /// Connects to the program that serves a name. Stores the descriptor of the client's end.
    #[allow(clippy::too_many_arguments, reason = "the import's")]
    pub fn name_connect(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        name: u32,
        length: u32,
        contract: u32,
        bytes: u32,
        flags: u32,
        end: u32,
    ) -> Done {
        memory.check(end, 4)?;
        if flags & !AWAIT != 0 {
            return Err(Errno::INVAL.into());
        }
        let name = load_name(memory, name, length)?;
        let contract = self.contract(memory, contract, bytes)?;
        self.table.free(0)?;
        let client = system.connect(&name, contract, flags & AWAIT != 0)??;
        let number = self.enter(system, Descriptor::of_end(client, u64::MAX))?;
        memory.store_u32(end, number)?;
        Ok(())
    }
}
