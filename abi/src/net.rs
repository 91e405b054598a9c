//! What the network service is asked, and what it answers.
//!
//! A request is 24 bytes, a reply 32; data lies in *bulk*, memory of the asker, as with
//! [`crate::fs`]. Numbers of errors are WASI's (preview 1).
//!
//! | op | handle | bulk in | other fields | answer |
//! | --- | --- | --- | --- | --- |
//! | Udp, Tcp | | | | `handle` |
//! | Bind | udp, tcp | | `port`, 0 for any | `port` |
//! | Listen | tcp | | `port` unless bound, `backlog` | `port` |
//! | Accept | listener | | | `handle`; `address`, `port` of the other side |
//! | Connect | tcp | | `address`, `port` | `port`: its own |
//! | Send | stream | data | `length` | `value` bytes, may be fewer |
//! | Send | udp | data | `length`, `address`, `port` | `value` bytes: all |
//! | Receive | stream | | `length` | `value` bytes in bulk; 0 at the end |
//! | Receive | udp | | `length` | `value`: bytes of the datagram; `address`, `port` it is from |
//! | Shut | stream | | | |
//! | State | any | | | `state`, `port`: its own, `value`: bytes to read, connections to accept |
//! | Close | any | | | |
//!
//! Accept, Connect, Send and Receive wait, unless [`flag::NONBLOCK`] says not to.

use crate::codes::codes;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// What is asked.
    Op {
        /// A socket for datagrams.
        Udp = 1,
        /// A socket that will listen or connect.
        Tcp = 2,
        /// Gives a socket its port.
        Bind = 3,
        /// Makes it a listener.
        Listen = 4,
        /// A connection that somebody made to a listener.
        Accept = 5,
        /// Makes a connection.
        Connect = 6,
        /// Sends bytes, or a datagram.
        Send = 7,
        /// Receives bytes, or a datagram.
        Receive = 8,
        /// Sends no more; the other side comes to the end.
        Shut = 9,
        /// What has become of it.
        State = 10,
        /// Gives a handle back. What was sent still goes; a listener's connections are reset.
        Close = 11,
    }
}

codes! {
    /// How it went: WASI's numbers, and one of ours.
    Errno {
        /// Well.
        Success = 0,
        /// That port is taken.
        Addrinuse = 3,
        /// No port is left.
        Addrnotavail = 4,
        /// It would wait, and was told not to.
        Again = 6,
        /// A connection is being made.
        Already = 7,
        /// No such handle.
        Badf = 8,
        /// Nobody listens there.
        Connrefused = 14,
        /// The other side is gone, without an end.
        Connreset = 15,
        /// The request makes no sense.
        Inval = 28,
        /// The service's kernel failed.
        Io = 29,
        /// It is connected.
        Isconn = 30,
        /// A datagram too large.
        Msgsize = 35,
        /// No way to there.
        Netunreach = 40,
        /// Too many handles.
        Nfile = 41,
        /// Too many sockets.
        Nobufs = 42,
        /// No memory for the service itself.
        Nomem = 48,
        /// Not made for this.
        Nosys = 52,
        /// It is not connected.
        Notconn = 53,
        /// Not with such a socket.
        Notsup = 58,
        /// It sends no more.
        Pipe = 64,
        /// A handle of an earlier life of the service. Programs see WASI's `stale`.
        Restarted = 256,
    }
}

codes! {
    /// What [`Op::State`] answers.
    State {
        /// Neither listens nor is connected.
        Fresh = 1,
        /// For datagrams.
        Datagrams = 2,
        /// Listens.
        Listening = 3,
        /// Wants to be connected.
        Connecting = 4,
        /// Connected; both sides may send.
        Connected = 5,
        /// It has shut its side.
        Shut = 6,
        /// The other side has shut its.
        Ending = 7,
        /// Both have.
        Ended = 8,
        /// Refused, or reset.
        Reset = 9,
    }
}

/// Flags of requests. Those that an op does not know are refused.
pub mod flag {
    /// Nothing waits.
    pub const NONBLOCK: u16 = 1;
}

/// This chip, as it calls itself.
pub const LOCALHOST: [u8; 4] = [127, 0, 0, 1];
/// Most bytes of a datagram.
pub const DATAGRAM: usize = 1472;
/// Most connections that wait at a listener.
pub const BACKLOG: u16 = 8;

/// A request.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Request {
    /// [`Op`].
    pub op: u16,
    /// [`flag`].
    pub flags: u16,
    /// Which port.
    pub port: u16,
    /// Most connections that wait; 0 for 1.
    pub backlog: u16,
    /// IPv4; all 0 is this chip too.
    pub address: [u8; 4],
    /// How many bytes.
    pub length: u32,
    /// What it is about.
    pub handle: u64,
}

impl Request {
    /// All else is 0.
    pub fn new(op: Op, handle: u64) -> Request {
        Request { op: op as u16, handle, ..Request::default() }
    }

    /// How much of a bulk of `bulk` bytes the service reads.
    pub fn sent(&self, bulk: usize) -> usize {
        if self.op == Op::Send as u16 { bulk.min(self.length as usize) } else { 0 }
    }
}

/// A reply.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Reply {
    /// [`Errno`].
    pub error: u16,
    /// [`State`].
    pub state: u16,
    /// Its own port, or the other side's.
    pub port: u16,
    /// 0.
    pub reserved: u16,
    /// The other side's address.
    pub address: [u8; 4],
    /// Bytes at the beginning of bulk that were written.
    pub filled: u32,
    /// A new handle.
    pub handle: u64,
    /// How many.
    pub value: u64,
}

impl Reply {
    /// It went wrong.
    pub fn error(error: Errno) -> Reply {
        Reply { error: error as u16, ..Reply::default() }
    }

    /// How it went; a number that is none is [`Errno::Io`].
    pub fn errno(&self) -> Errno {
        Errno::from_code(self.error).unwrap_or(Errno::Io)
    }
}

const _: () = assert!(size_of::<Request>() == 24 && align_of::<Request>() == 8);
const _: () = assert!(size_of::<Reply>() == 32 && align_of::<Reply>() == 8);
