//! Ends of channels over the system's calls.

use super::{Arrival, Block, ENDPOINTS, Endpoints, Error, Incoming, Received, Transport};
use crate::layout::{HAS_BLOCK, LOST_END, NO_END, NO_WAIT, WINDOW, WINDOWS};
use crate::{Errno, File, ffi};

/// A side of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The side that `client` in the contract means.
    Client = 0,
    /// The other one.
    Server = 1,
}

/// An end of a channel that this program holds, and that it can give away or use
/// ([`Channel::of_end`]). Dropping it closes it.
#[derive(Debug)]
pub struct End(File);

impl End {
    /// Takes ownership of the descriptor of an end, such as one that the program was started with.
    /// No other code may use it, because dropping the `End` closes it.
    pub const fn from_descriptor(descriptor: u32) -> End {
        End(File::adopt(descriptor))
    }

    /// Returns its descriptor, which is [`u32::MAX`] minus 1 if the end was lost.
    pub const fn descriptor(&self) -> u32 {
        self.0.number()
    }

    /// Returns its descriptor, which the caller has to close.
    pub fn into_descriptor(self) -> u32 {
        self.0.into_number()
    }

    /// Returns whether the end was lost on its way: its message arrived, but the kernel had no room
    /// for the end, or one that had it died. Its peer finds the channel broken.
    pub const fn is_lost(&self) -> bool {
        self.descriptor() == LOST_END
    }

    /// Says by which contract this program uses the end, and as which side. Fails with
    /// [`Errno::PROTOTYPE`] if the end is of another contract or side; then another one can be
    /// tried, such as an older version.
    pub fn agree(&self, contract: &[u8], side: Side) -> Result<(), Errno> {
        if self.is_lost() {
            return Err(Errno::CONNRESET);
        }
        ffi::channel_use(self.descriptor(), contract, side as u32)
    }

    fn received(descriptor: u32) -> Option<End> {
        match descriptor {
            NO_END => None,
            LOST_END => Some(End(File::lent(LOST_END))),
            _ => Some(End::from_descriptor(descriptor)),
        }
    }
}

/// An end of a channel that this program uses. Dropping it closes the end; where the contract does
/// not allow that, the channel breaks.
///
/// [`File`] says when there is something to receive: `ready::wait(&[Interest::Read(end.file())])`.
#[derive(Debug)]
pub struct Channel {
    pub(super) end: End,
    takes_windows: bool,
}

impl Channel {
    /// Creates a channel. Returns the client's and the server's end.
    ///
    /// `contract` is the `CONTRACT` of generated code.
    pub fn pair(contract: &[u8]) -> Result<(Channel, Channel), Errno> {
        let ends = ffi::channel(contract)?;
        let [client, server] = ends.map(|end| Channel::new(End::from_descriptor(end)));
        Ok((client, server))
    }

    /// Takes ownership of the descriptor of an end that the program was started with, and uses it
    /// by this contract. On failure the end is closed.
    pub fn from_descriptor(descriptor: u32, contract: &[u8], side: Side) -> Result<Channel, Errno> {
        Channel::of_end(End::from_descriptor(descriptor), contract, side)
    }

    /// Uses an end, such as one that a message has carried. On failure the end is closed;
    /// [`End::agree`] keeps it.
    pub fn of_end(end: End, contract: &[u8], side: Side) -> Result<Channel, Errno> {
        end.agree(contract, side)?;
        Ok(Channel::new(end))
    }

    pub(super) const fn new(end: End) -> Channel {
        Channel { end, takes_windows: false }
    }

    /// Says whether windows that it receives stay shared ([`Window`](super::Window)). If not, and
    /// at first, they are received as blocks with the bytes that they have then.
    pub const fn take_windows(mut self, takes: bool) -> Channel {
        self.takes_windows = takes;
        self
    }

    /// Returns the descriptor, to pass the end to a child. A child on the same kernel shares the
    /// end, and this program should drop it. For a child on another kernel the end must have one
    /// descriptor only; it moves, and the descriptor is void here.
    pub const fn descriptor(&self) -> u32 {
        self.end.descriptor()
    }

    /// Returns its descriptor, which the caller has to close.
    pub fn into_descriptor(self) -> u32 {
        self.end.into_descriptor()
    }

    /// Returns the end, to give it away in a message.
    pub fn into_end(self) -> End {
        self.end
    }

    /// Returns the end as a file, to wait for. It can neither be read nor written.
    pub const fn file(&self) -> &File {
        &self.end.0
    }

    /// Receives a message that is there. Fails with [`Errno::AGAIN`] if there is none.
    pub fn try_receive(&mut self, bytes: &mut [u8]) -> Received<Self> {
        self.receive_by(bytes, NO_WAIT)
    }

    fn receive_by(&mut self, bytes: &mut [u8], flags: u32) -> Received<Self> {
        let mut block = Block::default();
        let flags = if self.takes_windows { flags | WINDOWS } else { flags };
        let answer = ffi::channel_receive(self.descriptor(), bytes, &mut block, flags);
        self.incoming(answer, bytes, block, flags)
    }

    /// Converts what a call has received. A message whose block had no room is still there: it is
    /// received again.
    fn incoming(
        &mut self,
        mut answer: ffi::Answered,
        bytes: &mut [u8],
        mut block: Block,
        flags: u32,
    ) -> Received<Self> {
        while let (Err(Errno::MSGSIZE), needed) = &answer {
            let length = needed.block[1] as usize;
            if needed.bytes[1] as usize > bytes.len() || length <= block.room().1 {
                break;
            }
            block = match self.takes_windows {
                true => Block::with_pages(length),
                false => Block::with_room(length),
            };
            answer = ffi::channel_receive(self.descriptor(), bytes, &mut block, flags);
        }
        arrived(answer, block)
    }
}

/// Converts the answer of a call that has received into `block`.
fn arrived((result, message): ffi::Answered, mut block: Block) -> Result<Incoming<Channel>, Error> {
    if result.is_ok() && message.flags & WINDOW != 0 {
        block.becomes_window(message.block[1] as usize);
    }
    match result {
        Ok(()) => Ok(Some(Arrival {
            tag: message.tag,
            length: message.bytes[1] as usize,
            block: (message.flags & HAS_BLOCK != 0).then_some(block),
            endpoints: message.ends.map(End::received),
        })),
        Err(Errno::PIPE) => Ok(None),
        Err(why) => Err(failure(why, message.tag)),
    }
}

/// Converts the error of a call about the message `tag`.
fn failure(why: Errno, tag: u16) -> Error {
    match why {
        Errno::PIPE => Error::Closed,
        Errno::CONNRESET => Error::Broken,
        Errno::PROTO => Error::Refused(tag),
        why => Error::System(why),
    }
}

/// Returns address, length and flags of a block.
fn described(block: &mut Option<Block>) -> ([u32; 2], u16) {
    match block {
        None => ([0; 2], 0),
        Some(block) => match block.window() {
            Some(window) => (window.place(), HAS_BLOCK | WINDOW),
            None => (ffi::place(block), HAS_BLOCK),
        },
    }
}

/// Forgets ends that the system has taken.
fn sent(endpoints: Endpoints<End>) {
    for end in endpoints.into_iter().flatten() {
        end.into_descriptor();
    }
}

fn descriptors(endpoints: &Endpoints<End>) -> [u32; ENDPOINTS] {
    endpoints.each_ref().map(|end| end.as_ref().map_or(NO_END, End::descriptor))
}

impl Transport for Channel {
    type Block = Block;
    type Endpoint = End;

    fn send(
        &mut self,
        tag: u16,
        bytes: &[u8],
        mut block: Option<Block>,
        endpoints: Endpoints<End>,
    ) -> Result<(), Error> {
        let ends = descriptors(&endpoints);
        let outgoing = ffi::Outgoing { tag, bytes, block: described(&mut block), ends };
        ffi::channel_send(self.descriptor(), &outgoing).map_err(|why| failure(why, tag))?;
        sent(endpoints);
        if let Some(window) = block.as_ref().and_then(Block::window) {
            window.mark_sent();
        }
        Ok(())
    }

    fn receive(&mut self, bytes: &mut [u8]) -> Received<Self> {
        self.receive_by(bytes, 0)
    }

    fn call(
        &mut self,
        tag: u16,
        bytes: &[u8],
        mut block: Option<Block>,
        endpoints: Endpoints<End>,
        answer: &mut [u8],
    ) -> Received<Self> {
        // The errors of the two halves of the call cannot be told apart when a message carries
        // ends: were they sent? The system's call takes no windows.
        let is_window = block.as_ref().is_some_and(|block| block.window().is_some());
        if is_window || endpoints.iter().any(Option::is_some) {
            self.send(tag, bytes, block, endpoints)?;
            return self.receive(answer);
        }
        let block = described(&mut block);
        let outgoing = ffi::Outgoing { tag, bytes, block, ends: [NO_END; 2] };
        let mut room = Block::default();
        let (result, message) = ffi::channel_call(self.descriptor(), &outgoing, answer, &mut room);
        if result == Err(Errno::PROTO) {
            return Err(Error::Refused(tag));
        }
        let flags = if self.takes_windows { WINDOWS } else { 0 };
        self.incoming((result, message), answer, room, flags)
    }

    fn close(self) {}
}
