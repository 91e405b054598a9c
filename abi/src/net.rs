//! Requests to the network service, and its replies.
//!
//! A request has 24 bytes, a reply 32. Data are in the *bulk*, a buffer of the caller, as with
//! [`crate::fs`]. Error numbers are those of WASI preview 1.
//!
//! | op | handle | bulk in | other fields | reply |
//! | --- | --- | --- | --- | --- |
//! | Udp, Tcp | | | | `handle` |
//! | Bind | udp, tcp | | `port`, 0 for any | `port` |
//! | Listen | tcp | | `port` unless bound, `backlog` | `port` |
//! | Accept | listener | | | `handle`; `address`, `port` of the peer |
//! | Connect | tcp | | `address`, `port` | `port`: local |
//! | Send | stream | data | `length` | `value` bytes, may be fewer |
//! | Send | udp | data | `length`, `address`, `port` | `value` bytes: all |
//! | Receive | stream | | `length` | `value` bytes in bulk; 0 at the end |
//! | Receive | udp | | `length` | `value`: bytes of the datagram; `address`, `port` of the sender |
//! | Shut | stream | | | |
//! | State | any | | | `state`; `port`: local; `value`: bytes to read, connections to accept |
//! | Close | any | | | |
//!
//! Accept, Connect, Send and Receive wait unless the request has [`flag::NONBLOCK`].

use crate::codes::codes;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// Operations. The table above has their fields.
    Op {
        /// Creates a datagram socket.
        Udp = 1,
        /// Creates a stream socket, which can then listen or connect.
        Tcp = 2,
        /// Assigns a local port.
        Bind = 3,
        /// Turns a stream socket into a listener.
        Listen = 4,
        /// Takes a connection that a peer has made to a listener.
        Accept = 5,
        /// Connects to a listener.
        Connect = 6,
        /// Sends bytes of a stream, or one datagram.
        Send = 7,
        /// Receives bytes of a stream, or one datagram.
        Receive = 8,
        /// Closes the sending direction: the peer reads to the end.
        Shut = 9,
        /// Reports the state of a socket.
        State = 10,
        /// Closes a handle. Data already sent are still delivered; waiting connections of a
        /// listener are reset.
        Close = 11,
    }
}

codes! {
    /// Results: WASI's numbers, and one of ours.
    Errno {
        Success = 0,
        Addrinuse = 3,
        Addrnotavail = 4,
        /// The request would wait, and has NONBLOCK.
        Again = 6,
        /// A connect is already in progress.
        Already = 7,
        Badf = 8,
        /// No socket listens at that address and port.
        Connrefused = 14,
        /// The peer has reset the connection.
        Connreset = 15,
        /// The request is malformed.
        Inval = 28,
        /// The kernel that runs the service failed.
        Io = 29,
        Isconn = 30,
        Msgsize = 35,
        /// There is no route to that address.
        Netunreach = 40,
        Nfile = 41,
        Nobufs = 42,
        /// The service itself is out of memory.
        Nomem = 48,
        /// The operation is not supported.
        Nosys = 52,
        Notconn = 53,
        /// The operation does not apply to this kind of socket.
        Notsup = 58,
        /// The sending direction is closed.
        Pipe = 64,
        /// The handle is from before a restart of the service. Programs see WASI's `stale`.
        Restarted = 256,
    }
}

codes! {
    /// State of a socket, as [`Op::State`] returns it.
    State {
        /// A stream socket that neither listens nor is connected.
        Fresh = 1,
        /// A datagram socket.
        Datagrams = 2,
        Listening = 3,
        Connecting = 4,
        /// Connected; both directions are open.
        Connected = 5,
        /// Connected; the local side has closed its sending direction.
        Shut = 6,
        /// Connected; the peer has closed its sending direction.
        Ending = 7,
        /// Both directions are closed.
        Ended = 8,
        /// The connection was refused or reset.
        Reset = 9,
    }
}

/// Flags of requests. A flag that the operation does not define is refused.
pub mod flag {
    /// Fail with [`super::Errno::Again`] instead of waiting.
    pub const NONBLOCK: u16 = 1;
}

/// Address of this chip itself.
pub const LOCALHOST: [u8; 4] = [127, 0, 0, 1];
/// Maximum payload of a datagram in bytes.
pub const DATAGRAM: usize = 1472;
/// Maximum connections waiting to be accepted at a listener.
pub const BACKLOG: u16 = 8;

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Request {
    /// [`Op`].
    pub op: u16,
    /// [`flag`].
    pub flags: u16,
    /// Local port (Bind, Listen) or that of the peer (Connect, Send).
    pub port: u16,
    /// Maximum connections waiting to be accepted; 0 means 1.
    pub backlog: u16,
    /// IPv4; all 0 means this chip, too.
    pub address: [u8; 4],
    /// In bytes.
    pub length: u32,
    /// Handle that the operation applies to.
    pub handle: u64,
}

impl Request {
    /// Leaves the other fields 0.
    pub fn new(op: Op, handle: u64) -> Request {
        Request { op: op as u16, handle, ..Request::default() }
    }

    /// Returns how many bytes of a bulk of `bulk` bytes the service reads.
    pub fn sent(&self, bulk: usize) -> usize {
        if self.op == Op::Send as u16 { bulk.min(self.length as usize) } else { 0 }
    }
}

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Reply {
    /// [`Errno`].
    pub error: u16,
    /// [`State`].
    pub state: u16,
    /// Local port, or that of the peer.
    pub port: u16,
    pub reserved: u16,
    /// Address of the peer.
    pub address: [u8; 4],
    /// Bytes written at the start of the bulk.
    pub filled: u32,
    pub handle: u64,
    /// Number of bytes transferred or available, or of connections to accept.
    pub value: u64,
}

impl Reply {
    /// Leaves the other fields 0.
    pub fn error(error: Errno) -> Reply {
        Reply { error: error as u16, ..Reply::default() }
    }

    /// An unknown number counts as [`Errno::Io`].
    pub fn errno(&self) -> Errno {
        Errno::from_code(self.error).unwrap_or(Errno::Io)
    }
}

const _: () = assert!(size_of::<Request>() == 24 && align_of::<Request>() == 8);
const _: () = assert!(size_of::<Reply>() == 32 && align_of::<Reply>() == 8);
