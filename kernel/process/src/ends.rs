//! The port to the kernel's channels, and the contracts by which a process uses its ends.
//!
//! Contract: handles of ends are the kernel's, and the process owns one for each descriptor. What
//! is received is the process's. The contract of a message is found by its name among those that
//! the process has given.

use crate::errno::{Errno, Interrupted};
use abi::names::Name;
use alloc::boxed::Box;
use alloc::sync::Arc;
use arch::lock::Once;
use core::ops::Range;
use kernel_contract::exchange::{About, Arrived, Brief, Called, Known, Outgoing, Room, WindowName};
use kernel_contract::{Block, Hash, Shared};

/// Most contracts of a process.
const CONTRACTS: usize = 16;

/// The contracts by which a process uses its ends. They are only ever added.
#[derive(Default)]
pub struct Contracts([Once<Box<Known>>; CONTRACTS]);

impl Contracts {
    /// Returns the contract with this name.
    pub fn find(&self, name: &Hash) -> Option<&Known> {
        self.iter().find(|contract| contract.hash() == *name)
    }

    fn iter(&self) -> impl Iterator<Item = &Known> {
        // A thread may have filled a place before another one has filled the place before.
        self.0.iter().filter_map(Once::get).map(Box::as_ref)
    }

    /// Adds a contract, unless it is there. Returns it, or why there cannot be more.
    pub(crate) fn add(&self, contract: Known) -> Result<&Known, Errno> {
        let name = contract.hash();
        let mut contract = Some(Box::new(contract));
        for place in &self.0 {
            if place.get().is_none_or(|known| known.hash() != name)
                && let Some(new) = contract.take()
            {
                // If another thread takes the place first, the next one is tried.
                contract = place.set(new).err();
            }
            if let Some(known) = place.get().filter(|known| known.hash() == name) {
                return Ok(known);
            }
        }
        Err(Errno::NOSPC)
    }
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreceived {
    Failed(Errno),
    /// The message needs room for so many bytes, for so many of its block, and for so many ends.
    Unfit {
        bytes: usize,
        block: usize,
        ends: usize,
    },
    /// It has a window, for which its room must be reserved.
    Window,
    /// Its block is to be copied, and there is no memory in the room for it ([`Room::has_memory`]).
    Copies,
}

impl From<Errno> for Unreceived {
    fn from(why: Errno) -> Unreceived {
        Unreceived::Failed(why)
    }
}

/// The channels of the kernel, as one thread of a process sees them. The methods of a kernel
/// without channels are the defaults.
pub trait Ends {
    /// Makes a channel of this contract. Returns the client's and the server's end.
    fn channel(&mut self, _contract: &Known) -> Result<[u64; 2], Errno> {
        Err(Errno::NOSYS)
    }

    /// Serves a name by a contract. Returns the end of the door: each message that arrives there
    /// carries the server's end of a new channel.
    fn serve(
        &mut self,
        _name: &Name,
        _contract: &Known,
    ) -> Result<Result<u64, Errno>, Interrupted> {
        Ok(Err(Errno::NOSYS))
    }

    /// Makes a channel to the program that serves a name, and waits for it to be served if `waits`.
    /// Returns the client's end.
    fn connect(
        &mut self,
        _name: &Name,
        _contract: &Known,
        _waits: bool,
    ) -> Result<Result<u64, Errno>, Interrupted> {
        Ok(Err(Errno::NOSYS))
    }

    /// Returns what an end is.
    fn about_end(&mut self, _end: u64) -> Result<About, Errno> {
        Err(Errno::BADF)
    }

    /// Copies a block that is to be sent at an end to memory of the kernel. Returns `None` without
    /// memory.
    fn block(&mut self, _end: u64, bytes: &[u8]) -> Option<Block> {
        Block::of(bytes)
    }

    /// Takes the pages of a block that is to be sent at an end, which are zeros then, and a copy of
    /// what is left of the last one. Returns `None` if the block has to be copied.
    fn take_block(&mut self, _end: u64, _bytes: &mut [u8]) -> Option<Block> {
        None
    }

    /// Prepares a range of whole pages for those of a block that is received: they can be put there
    /// without more memory. Returns false if a block has to be copied.
    fn reserve_block(&mut self, _room: &mut [u8]) -> bool {
        false
    }

    /// Returns memory for a window. What is in it is for the caller to overwrite.
    fn window(&mut self, _length: usize) -> Result<Arc<dyn Shared>, Errno> {
        Err(Errno::NOTSUP)
    }

    /// Reserves a range of the program's memory, by its address in the kernel, to show a window.
    /// Returns the number of the reservation.
    fn reserve_window(&mut self, _at: u64, _length: u64) -> Result<u64, Errno> {
        Err(Errno::NOTSUP)
    }

    /// Ends a reservation, and what it shows.
    fn end_window(&mut self, _reserved: u64) {}

    /// Ends a window that was received.
    fn release_window(&mut self, _name: &WindowName) {}

    /// Copies a range of a window of another kernel.
    fn copy_window(
        &mut self,
        _name: &WindowName,
        _range: Range<usize>,
    ) -> Result<Result<Block, Errno>, Interrupted> {
        Ok(Err(Errno::NOTSUP))
    }

    /// Sends a message. Its block and its ends have left the process afterwards.
    fn send(
        &mut self,
        _end: u64,
        _contracts: &Contracts,
        _message: Outgoing<'_>,
    ) -> Result<(), Errno> {
        Err(Errno::BADF)
    }

    /// Receives a message, and waits for it if `waits`. Received ends are the caller's.
    fn receive(
        &mut self,
        _end: u64,
        _contracts: &Contracts,
        _room: &mut Room<'_>,
        _waits: bool,
    ) -> Result<Result<Arrived, Unreceived>, Interrupted> {
        Ok(Err(Errno::BADF.into()))
    }

    /// Sends a message that carries no ends, and waits for the next one. If the message is not
    /// sent, fails as [`Ends::send`] does.
    fn call(
        &mut self,
        end: u64,
        contracts: &Contracts,
        message: Outgoing<'_>,
        room: &mut Room<'_>,
    ) -> Result<Result<Arrived, Unreceived>, Interrupted> {
        match self.send(end, contracts, message) {
            Ok(()) => self.receive(end, contracts, room, true),
            Err(why) => Ok(Err(why.into())),
        }
    }

    /// Does the same in fewer steps, if it can.
    fn call_plain(
        &mut self,
        _end: u64,
        _contracts: &Contracts,
        _call: &mut Brief<'_>,
    ) -> Result<Called, Interrupted> {
        Ok(Called::Refused)
    }

    /// Returns a handle for a further descriptor of an end, or for an end that the parent on
    /// another kernel has passed on.
    fn dup_end(&mut self, _end: u64) -> Result<Result<u64, Errno>, Interrupted> {
        Ok(Err(Errno::BADF))
    }

    /// Closes a descriptor's handle of an end.
    fn close_end(&mut self, _end: u64) -> Result<(), Errno> {
        Err(Errno::BADF)
    }

    /// Returns what an end is called in the start data of a process of kernel `kernel`. For another
    /// kernel, the end leaves the caller.
    fn end_at(&mut self, _kernel: u16, _end: u64) -> Result<u64, Errno> {
        Err(Errno::NOTSUP)
    }

    /// Closes an end that [`Ends::end_at`] has named for a process of another kernel, unless that
    /// process has it: it did not start.
    fn call_end_back(&mut self, _kernel: u16, _end: u64) {}
}
