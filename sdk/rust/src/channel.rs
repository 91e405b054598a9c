//! Channels: two programs that talk by a contract (`docs/design/channels.md`).
//!
//! ```text
//!   ./pen contract rust --> ping_v1::client::start(..)    states as types
//!                              | Transport
//!                           Channel (system.rs)            an end, by its descriptor
//!                              | the system's calls
//! ```
//! - [`Channel`] is an end that this program uses; [`End`] one that it holds, to give it away
//! - [`Door`] serves a name, and [`connect`] connects to the program that does
//! - [`Block`] is the block of a message, [`Window`] memory that both programs share
//! - [`Transport`] is what generated code needs of an end; [`Bytes`] and the functions beside it
//!   are the fields of messages
//!
//! ```ignore
//! let (here, there) = Channel::pair(ping_v1::CONTRACT)?;
//! let child = Command::new("/bin/server").file(there.descriptor(), 9).spawn()?;
//! drop(there);
//! let answer = ping_v1::client::start(here).call_ping(&Ping { sequence: 1 })?;
//! ```

mod block;
mod fields;
mod names;
mod page;
mod system;
mod window;

use crate::Errno;
pub use block::Block;
pub use fields::{Bytes, put, read};
pub use names::{Door, connect, connect_when_served};
pub use system::{Channel, End, Side};
pub use window::Window;

/// Maximum number of endpoints that a message carries.
pub const ENDPOINTS: usize = 2;

/// The endpoints that a message carries, in the order of the contract; `None` after the last one.
pub type Endpoints<E> = [Option<E>; ENDPOINTS];

/// One end of a channel, as generated code uses it. A dropped transport closes its end.
pub trait Transport {
    /// A block of bytes. It moves with the message that it is sent with.
    type Block;
    /// An end of another channel. It moves likewise.
    type Endpoint;

    /// Sends the message `tag`. `bytes` are its fields. Does not wait for the receiver.
    ///
    /// If it fails, nothing was sent, and the block and the endpoints are dropped. After
    /// [`Error::Refused`] and [`Error::System`] the conversation is where it was.
    fn send(
        &mut self,
        tag: u16,
        bytes: &[u8],
        block: Option<Self::Block>,
        endpoints: Endpoints<Self::Endpoint>,
    ) -> Result<(), Error>;

    /// Waits for the next message, and puts its fields at the start of `bytes`, which has room for
    /// any message that the contract allows now. `None`: the other side has closed the channel.
    fn receive(&mut self, bytes: &mut [u8]) -> Received<Self>;

    /// Sends a message, then receives the next one into `answer`: one call of the system instead of
    /// two.
    fn call(
        &mut self,
        tag: u16,
        bytes: &[u8],
        block: Option<Self::Block>,
        endpoints: Endpoints<Self::Endpoint>,
        answer: &mut [u8],
    ) -> Received<Self> {
        self.send(tag, bytes, block, endpoints)?;
        self.receive(answer)
    }

    /// Closes the channel, as the contract allows it.
    fn close(self)
    where
        Self: Sized;
}

/// A received message; `None`: the other side has closed the channel.
pub type Incoming<T> = Option<Arrival<<T as Transport>::Block, <T as Transport>::Endpoint>>;

/// What [`Transport::receive`] returns.
pub type Received<T> = Result<Incoming<T>, Error>;

/// A received message without its fields.
#[derive(Debug)]
pub struct Arrival<B, E> {
    /// The number of the message in its contract.
    pub tag: u16,
    /// Length of its fields in bytes.
    pub length: usize,
    /// The block, if the message has one.
    pub block: Option<B>,
    /// The endpoints that it carries.
    pub endpoints: Endpoints<E>,
}

/// Why a conversation ended early, or a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// The other side has closed the channel.
    Closed,
    /// The channel is broken: the other side closed it where the contract does not allow it, or
    /// ended there with its program, or its kernel died.
    Broken,
    /// The contract does not allow the message with this tag now, or not with this length, block or
    /// endpoints. It was not sent, and the channel continues.
    Refused(u16),
    /// The message with this tag is not allowed now. Only a wrong transport delivers it.
    Unexpected(u16),
    /// The message with this tag lacks something, or a field has an invalid length.
    Malformed(u16),
    /// The system has refused the call.
    System(Errno),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Closed => f.write_str("the other side has closed the channel"),
            Error::Broken => f.write_str("the channel is broken"),
            Error::Refused(tag) => write!(f, "the contract does not allow message {tag}"),
            Error::Unexpected(tag) => write!(f, "message {tag} is not allowed now"),
            Error::Malformed(tag) => write!(f, "message {tag} has invalid contents"),
            Error::System(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl From<Errno> for Error {
    fn from(why: Errno) -> Error {
        Error::System(why)
    }
}

/// Takes the first endpoint out of those that a message carried.
pub fn take<E>(endpoints: &mut impl Iterator<Item = Option<E>>) -> Option<E> {
    endpoints.next().flatten()
}
