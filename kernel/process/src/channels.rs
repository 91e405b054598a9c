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
use crate::errno::{Done, Errno};
use crate::memory::{Bytes, GuestMemory, SCRATCH};
use crate::process::Process;
use crate::receiving::{How, load_fields};
use crate::system::System;
use crate::table::Descriptor;
use crate::wasi::rights;
use abi::channel::{AWAIT, ChannelMessage, HAS_BLOCK, NO_END, NO_WAIT, WINDOW, WINDOWS, side};
use abi::names::{NAME, Name};
use kernel_contract::exchange::{Called, Known, Outgoing};
use kernel_contract::{Automaton, BYTES, Block, ENDPOINTS, INLINE, Side};
use zerocopy::IntoBytes;

// A message that is sent, and one that is received.
const _: () = assert!(2 * INLINE <= SCRATCH);

/// Descriptors that are held back while their ends are sent, with their numbers.
type Held = [Option<(u32, Descriptor)>; ENDPOINTS];

/// Returns the name in a range of the program's memory.
fn load_name(memory: &GuestMemory<'_>, at: u32, length: u32) -> Result<Name, Errno> {
    Name::new(&memory.view(at, length, NAME).map_err(|_| Errno::INVAL)?).ok_or(Errno::INVAL)
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
        let message: ChannelMessage = memory.load(message)?;
        let end = self.end(fd, rights::FD_WRITE)?;
        if (message.flags, message.reserved) != (HAS_BLOCK | WINDOW, 0) {
            return self.send_loaded(memory, system, end, &message);
        }
        self.send_window(memory, system, &message, |memory, system, block| {
            let GuestMemory { bytes: program, scratch } = memory;
            let bytes = load_fields(program, scratch.room()?, message.bytes)?;
            Ok(self.send_with(system, end, &message, (bytes, block))?)
        })
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
        let bytes = load_fields(program, scratch.room()?, message.bytes)?;
        let mut block = blocks::load(program, system, end, (message, &[]))?;
        let sent = self.send_with(system, end, message, (bytes, &mut block));
        blocks::unload(program, block, message.block);
        Ok(sent?)
    }

    /// Sends a message with these fields and this block.
    fn send_with(
        &self,
        system: &mut dyn System,
        end: u64,
        message: &ChannelMessage,
        (bytes, block): (&[u8], &mut Option<Block>),
    ) -> Result<(), Errno> {
        let held = self.hold_back(message.ends)?;
        let ends = held.map(|held| held.map(|(_, descriptor)| descriptor.object.parts().0));
        let outgoing = Outgoing { tag: message.tag, bytes, block, ends };
        let sent = system.send(end, &self.contracts, outgoing);
        self.settle(&held, sent.is_ok());
        sent
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
        if flags & !(NO_WAIT | WINDOWS) != 0 {
            return Err(Errno::INVAL.into());
        }
        let asked: ChannelMessage = memory.load(message)?;
        let end = self.end(fd, rights::FD_READ)?;
        let (waits, takes_windows) = (flags & NO_WAIT == 0, flags & WINDOWS != 0);
        let how = How { waits, takes_windows, window: None };
        self.receive_at(memory, system, (end, message), (&asked, None), how)
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
            let called =
                self.call_plain((program, scratch.room()?), system, (fd, message, reply))?;
            if called != Called::Refused {
                return self.end_call(memory, system, (fd, reply), called);
            }
        }
        self.call_any(memory, system, fd, message, reply)
    }

    /// The same for a message with a block, or with room for one.
    #[inline(never)]
    fn call_any(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        message: u32,
        reply: u32,
    ) -> Done {
        let GuestMemory { bytes: program, scratch } = &mut *memory;
        if let Bytes::Own(program) = program {
            let called =
                self.call_paged((program, scratch.room()?), system, (fd, message, reply))?;
            if called != Called::Refused {
                return self.end_call(memory, system, (fd, reply), called);
            }
        }
        self.call_usual(memory, system, fd, message, reply)
    }

    /// Receives the answer to a call that was made, if it has not come with it.
    #[inline(always)]
    fn end_call(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        (fd, reply): (u32, u32),
        called: Called,
    ) -> Done {
        match called {
            Called::Arrived { .. } => Ok(()),
            _ => self.channel_receive(memory, system, fd, reply, 0),
        }
    }

    /// The same for any message.
    #[inline(never)]
    fn call_usual(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        message: u32,
        reply: u32,
    ) -> Done {
        // What can be known before is: a message that was sent is not taken back.
        let message: ChannelMessage = memory.load(message)?;
        let asked: ChannelMessage = memory.load(reply)?;
        let end = self.end(fd, rights::FD_READ | rights::FD_WRITE)?;
        for [at, room] in [asked.bytes, asked.block] {
            memory.check(at, room)?;
        }
        if message.ends == [NO_END; ENDPOINTS] {
            return self.receive_at(
                memory,
                system,
                (end, reply),
                (&asked, Some(&message)),
                How::USUAL,
            );
        }
        self.send_loaded(memory, system, end, &message)?;
        self.receive_at(memory, system, (end, reply), (&asked, None), How::USUAL)
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
