//! Requests to the network service, and its replies.
//!
//! A request has 48 bytes, a reply too. Data are in the *bulk*, a buffer of the caller, as with
//! [`crate::fs`]. Error numbers are those of WASI preview 1.
//!
//! | op | handle | bulk in | other fields | reply |
//! | --- | --- | --- | --- | --- |
//! | Udp, Tcp | | | V6 | `handle` |
//! | Bind | udp, tcp | | `address`, `port`, 0 for any | `port` |
//! | Listen | tcp | | `port` unless bound, `backlog` | `port` |
//! | Accept | listener | | | `handle`; `address`, `port` of the peer |
//! | Connect | tcp | | `address`, `port` | `port`: local |
//! | Connect | udp | | `address`, `port` | `port`: local |
//! | Send | stream | data | `length` | `value` bytes, may be fewer |
//! | Send | udp | data | `length`, `address`, `port` unless connected | `value` bytes: all |
//! | Receive | stream | | `length`; PEEK | `value` bytes in bulk; 0 at the end |
//! | Receive | udp | | `length`; PEEK | `value`: bytes of the datagram; `address`, `port` |
//! | Shut | stream, listener | | `value`: [`shut`] | |
//! | State | any | | | `state`, `flags`; `address`, `port`: local; `value`: waiting bytes |
//! | Peer | any | | | `address`, `port` of the peer |
//! | Dup | any | | | `handle` of the same socket |
//! | Adopt | any | | | the same `handle` |
//! | SetFlags | any | | `flags` | |
//! | GetOption | any | | `option` | `value` |
//! | SetOption | any | | `option`, `value` | |
//! | Poll | | [`Poll`]s | `length`; WAIT | `value`: number ready; [`Poll`]s in bulk |
//! | Interface | | | | [`Interface`] in bulk |
//! | List | | | `value`: place of the first | `value`: place to continue; [`Entry`]s in bulk |
//! | Close | any | | | |
//!
//! An address is one of IPv6, or of IPv4 as IPv6 maps it ([`v4`]). A socket made with [`flag::V6`]
//! is of IPv6 and reaches both families, unless it has [`option::V6ONLY`]; others are of IPv4.
//! Replies to State, Peer, Accept and Receive have the flag if the socket has it.
//!
//! Accept, Connect, Send and Receive wait unless the request or the socket has [`flag::NONBLOCK`].
//! A [`Poll`] that wants neither [`ready::READ`] nor WRITE waits for HANGUP alone.
//!
//! `value` of State is the number of bytes to read, or of connections to accept.

pub use crate::fs::{Poll, ready};

use crate::codes::codes;
use crate::ethernet::Addresses;
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
        /// Turns a stream socket into a listener, or changes the backlog of one.
        Listen = 4,
        /// Takes a connection that a peer has made to a listener.
        Accept = 5,
        /// Connects to a listener.
        Connect = 6,
        /// Sends bytes of a stream, or one datagram.
        Send = 7,
        /// Receives bytes of a stream, or one datagram.
        Receive = 8,
        /// Closes directions of a stream: the peer reads to the end, or the caller reads no more.
        Shut = 9,
        /// Reports the state of a socket.
        State = 10,
        /// Closes a handle. Data already sent are still delivered; waiting connections of a
        /// listener are reset. The socket ends with its last handle.
        Close = 11,
        /// Creates a further handle of a socket, which the caller owns.
        Dup = 12,
        /// Reports which of several handles are ready, or waits until one is.
        Poll = 13,
        /// Reports the address of the peer.
        Peer = 14,
        /// Replaces the flags of a socket, which all its handles share.
        SetFlags = 15,
        /// Reports an option of a socket.
        GetOption = 16,
        /// Changes an option of a socket.
        SetOption = 17,
        /// Reports the interface to the outside.
        Interface = 18,
        /// Reports sockets, as many as fit.
        List = 19,
        /// Makes the caller's kernel a further owner of a handle, whose process moves there. The
        /// handle ends when each owner has closed it. It is charged once.
        Adopt = 20,
    }
}

codes! {
    /// Results: WASI's numbers, and one of ours.
    Errno {
        Success = 0,
        Addrinuse = 3,
        Addrnotavail = 4,
        /// A socket of IPv4 has no addresses of IPv6.
        Afnosupport = 5,
        /// The request would wait, and has NONBLOCK.
        Again = 6,
        /// A connect is already in progress.
        Already = 7,
        Badf = 8,
        /// No socket listens at that address and port.
        Connrefused = 14,
        /// The peer has reset the connection.
        Connreset = 15,
        /// A datagram has no destination.
        Destaddrreq = 17,
        /// A connect without waiting has begun.
        Inprogress = 26,
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
        /// There is no such option.
        Noprotoopt = 50,
        /// The operation is not supported.
        Nosys = 52,
        Notconn = 53,
        /// The operation does not apply to this kind of socket.
        Notsup = 58,
        /// The sending direction is closed.
        Pipe = 64,
        /// A connect was not answered.
        Timedout = 73,
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
    /// Receive: leave what is received in the socket.
    pub const PEEK: u16 = 1 << 1;
    /// Poll: wait until a handle is ready.
    pub const WAIT: u16 = 1 << 2;
    /// Udp, Tcp, and replies: a socket of IPv6.
    pub const V6: u16 = 1 << 3;
}

/// Directions of a stream that [`Op::Shut`] closes. WASI has the same numbers.
pub mod shut {
    /// Receiving: what has arrived can be read, then the stream is at its end.
    pub const READ: u32 = 1;
    /// Sending.
    pub const WRITE: u32 = 1 << 1;
}

/// Options of sockets.
pub mod option {
    /// The error of a connection, which is then cleared. Cannot be set.
    pub const ERROR: u16 = 1;
    /// A port may be bound again at once, which is always so.
    pub const REUSEADDR: u16 = 2;
    /// Bytes of the receive buffer. Setting it has no effect.
    pub const RCVBUF: u16 = 3;
    /// Bytes of the send buffer. Setting it has no effect.
    pub const SNDBUF: u16 = 4;
    /// Small pieces are sent at once, which is always so.
    pub const NODELAY: u16 = 5;
    pub const KEEPALIVE: u16 = 6;
    pub const BROADCAST: u16 = 7;
    /// Whether the socket listens. Cannot be set.
    pub const ACCEPTCONN: u16 = 8;
    /// A socket of IPv6 reaches and hears IPv6 only. Can be set before it has a port.
    pub const V6ONLY: u16 = 9;
}

codes! {
    /// State of the interface to the outside.
    Link {
        /// The board has no network device, or its configuration has no address.
        None = 0,
        /// The device is being opened.
        Opening = 1,
        /// It could not be opened.
        Failed = 2,
        /// No network is attached to it.
        Down = 3,
        Up = 4,
    }
}

/// An address of IPv6, or of IPv4 as IPv6 maps it: `::ffff:a.b.c.d`.
pub type Address = [u8; 16];

/// Returns an address of IPv4.
pub const fn v4([a, b, c, d]: [u8; 4]) -> Address {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// Returns the four bytes of an address of IPv4; `None` for one of IPv6.
pub const fn to_v4(address: Address) -> Option<[u8; 4]> {
    match address {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Some([a, b, c, d]),
        _ => None,
    }
}

/// Any address, of both families. As a destination it is [`LOCALHOST_V6`].
pub const ANY: Address = [0; 16];
/// Any address of IPv4. As a destination it is [`LOCALHOST`].
pub const ANY_V4: Address = v4([0; 4]);
/// Address of this chip itself.
pub const LOCALHOST: Address = v4([127, 0, 0, 1]);
/// The same of IPv6.
pub const LOCALHOST_V6: Address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// Stands for the server of names of the network outside, whatever its address is.
pub const NAMES: Address = v4([127, 0, 0, 53]);
/// Port of servers of names.
pub const NAMES_PORT: u16 = 53;
/// Maximum payload of a datagram in bytes.
pub const DATAGRAM: usize = 1472;
/// Maximum connections waiting to be accepted at a listener.
pub const BACKLOG: u16 = 128;
/// Maximum number of sockets, including those that wait at listeners, and closed ones whose
/// connections have not ended yet.
pub const SOCKETS: usize = 2048;
/// Maximum number of those on the interface to the outside: as many as a process tree has handles,
/// and what is reserved for others.
pub const OUTSIDE: usize = TREE_HANDLES as usize + 64;
/// Maximum number of handles of all programs and kernels.
pub const HANDLES: u32 = 2048;
/// Maximum number of handles of a process tree: a process can have them all, beside its other
/// descriptors.
pub const TREE_HANDLES: u32 = 1008;
/// Maximum number of keys that callers wait for: one for a socket to read or to write.
pub const WAITS: usize = 4096;
/// Maximum number of keys of a process tree: one poll of as many sockets as it can have.
pub const TREE_WAITS: usize = WAITS / 2;
/// Keys that trees get only as long as they have no more than [`SMALL_WAITS`].
pub const RESERVED_WAITS: usize = 64;
/// Keys that a tree can rely on while others use theirs.
pub const SMALL_WAITS: usize = 16;
/// Keys that no tree gets.
pub const SYSTEM_WAITS: usize = 32;
/// Maximum number of [`Poll`]s in a request: as many as fit in a message between kernels.
pub const POLLS: usize = 128;

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
    /// Of this chip (Bind), or of the peer.
    pub address: Address,
    /// Handle that the operation applies to.
    pub handle: u64,
    /// In bytes.
    pub length: u32,
    /// Value of an option, or [`shut`].
    pub value: u32,
    /// [`option`].
    pub option: u16,
    pub reserved: u16,
    /// The process tree that a new handle is charged to: its first process; 0: the system.
    pub tree: u32,
}

impl Request {
    /// Leaves the other fields 0.
    #[inline]
    pub fn new(op: Op, handle: u64) -> Request {
        Request { op: op as u16, handle, ..Request::default() }
    }

    /// Returns whether the operation gives the caller's kernel a handle.
    pub fn creates(&self) -> bool {
        let op = Op::from_code(self.op);
        matches!(op, Some(Op::Udp | Op::Tcp | Op::Accept | Op::Dup | Op::Adopt))
    }

    /// Returns how many bytes of a bulk of `bulk` bytes the service reads.
    pub fn sent(&self, bulk: usize) -> usize {
        let sends = self.op == Op::Send as u16 || self.op == Op::Poll as u16;
        if sends { bulk.min(self.length as usize) } else { 0 }
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
    /// [`flag::NONBLOCK`] and [`flag::V6`], if the socket has them.
    pub flags: u16,
    /// Local address, or that of the peer.
    pub address: Address,
    pub handle: u64,
    /// Number of bytes transferred or available, of connections to accept, or of handles that are
    /// ready; the value of an option.
    pub value: u64,
    /// Bytes written at the start of the bulk.
    pub filled: u32,
    pub reserved: u32,
}

/// The interface to the outside, as [`Op::Interface`] returns it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Interface {
    pub addresses: Addresses,
    pub mac: [u8; 6],
    /// [`Link`].
    pub link: u16,
    /// Largest packet.
    pub mtu: u32,
    /// Sockets, those that wait at listeners or have been closed and not ended included.
    pub sockets: u16,
    /// Those of them that are outside.
    pub outside: u16,
    /// Frames since the service started.
    pub received: u64,
    pub sent: u64,
    /// Frames that were not looked at, and responses for which there was no buffer.
    pub dropped: u64,
}

/// A socket, as [`Op::List`] returns it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Entry {
    /// [`State`].
    pub state: u16,
    pub local_port: u16,
    pub peer_port: u16,
    /// Whether it is a stream socket.
    pub is_stream: u8,
    pub reserved: u8,
    pub local: Address,
    pub peer: Address,
    /// Bytes to receive, or connections to accept.
    pub receive: u32,
    /// Bytes that are not sent, or not acknowledged.
    pub send: u32,
    /// The process tree that opened it first; 0: the system, or none any more.
    pub tree: u32,
    pub reserved_2: u32,
}

/// Value of a List's reply: there are no more.
pub const LAST: u64 = u64::MAX;

impl Errno {
    /// Returns the number that programs see.
    pub const fn wasi(self) -> u16 {
        match self {
            Errno::Restarted => 72,
            other => other as u16,
        }
    }
}

impl Reply {
    /// Leaves the other fields 0.
    pub fn error(error: Errno) -> Reply {
        Reply { error: error as u16, ..Reply::default() }
    }

    /// An unknown number counts as [`Errno::Io`].
    #[inline]
    pub fn errno(&self) -> Errno {
        if self.error == 0 {
            return Errno::Success;
        }
        Errno::from_code(self.error).unwrap_or(Errno::Io)
    }
}

const _: () = assert!(size_of::<Request>() == 48 && align_of::<Request>() == 8);
const _: () = assert!(size_of::<Interface>() == 104 && size_of::<Entry>() == 56);
const _: () = assert!(size_of::<Reply>() == 48 && align_of::<Reply>() == 8);
const _: () = assert!(POLLS * size_of::<Poll>() + 256 <= crate::msg::MAX_PAYLOAD);
