//! Handles, what they refer to, their owners, and the ports in use.
//!
//! ```text
//!             Listen                       a connection comes         Accept
//!   fresh -------------> listener: waiting -------------------> ready -------+
//!     |  Connect                                                             v
//!     +--------> stream: connecting ------> connected (Stream) <-------------+
//!     ^              | refused                  | both sides have shut
//!     +--------------+                          v
//!                                           ended (or reset): data not read yet
//! ```
//! On loopback a connect is complete or refused at once, and its ends (Loopback) stay as they are.
//!
//! A socket has one or more handles, and ends with the last of them. A handle is owned by the
//! kernel, in one of its lives, that opened it, and is closed when that life ends. Until then any
//! kernel may use it ([`Owners`]). Handles are charged to the process tree that opened them.

use crate::addresses::{Local, Peer, Side, bytes_of};
use crate::budget::{LARGEST, SOCKETS};
use crate::inbox::Inbox;
use crate::listener::{Listener, RESERVED};
use crate::owners::{Life, Owners};
use crate::pairs::End;
use crate::patience;
use crate::stack::Stack;
use abi::net::{ANY, ANY_V4, Address, Errno, HANDLES, TREE_HANDLES, flag, option, to_v4};
use alloc::collections::VecDeque;
use share::{Stale, Table, Token, table};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;

/// Maximum number of sockets with handles.
const MOST: u32 = SOCKETS as u32;
/// Handles that a tree can rely on while others use theirs.
pub const SMALL: u32 = 16;

/// An end of a connection on loopback.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    pub end: End,
    /// Its port, if it was bound explicitly; otherwise 0.
    pub bound: u16,
}

/// One end of a connection outside.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub socket: SocketHandle,
    /// Its port, if it was bound explicitly; otherwise 0.
    pub bound: u16,
    /// Whether it has ever been connected.
    pub connected: bool,
    /// Whether its user has ended the sending direction. The peer learns of it only when it has
    /// acknowledged everything, because smoltcp ignores window updates while it waits for the last
    /// acknowledgement.
    pub shut: bool,
    /// When it began, in ns.
    pub began: u64,
}

/// A UDP socket with a port.
#[derive(Debug)]
pub struct Datagrams {
    pub port: u16,
    /// What it is bound to.
    pub local: Local,
    /// What it has received, from either side.
    pub inbox: Inbox,
    /// Whether its only peer is on this chip.
    pub is_near: bool,
    /// The place of the socket that has got its last datagram on loopback. No two sockets hear the
    /// same datagram, so if that one does, it is the one.
    pub receiver: u32,
    /// Once datagrams come from outside, or go there.
    pub outside: Option<SocketHandle>,
}

/// A connection outside that has ended. It has no socket any more.
#[derive(Debug)]
pub struct Ended {
    /// Received data that were not read yet.
    pub rest: VecDeque<u8>,
    /// Memory for them, as the stack counts it.
    pub charged: usize,
    pub port: u16,
    /// Whether it was reset.
    pub reset: bool,
}

/// What a socket is.
#[derive(Debug)]
pub enum Kind {
    /// A UDP socket without a port, which needs no buffers yet.
    FreshUdp,
    Udp(Datagrams),
    /// A TCP handle that is neither connected nor listening, and its port; 0: not bound.
    Fresh(u16),
    Listener(Listener),
    /// A connection on loopback, to its last handle.
    Loopback(Near),
    /// A connection outside.
    Stream(Stream),
    /// A connection outside that has ended.
    Ended(Ended),
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    pub kind: Kind,
    /// The number of its handles.
    handles: u32,
    /// Requests do not wait.
    pub nonblock: bool,
    /// Nothing more is received: what has arrived is read, then the stream is at its end.
    pub shut_read: bool,
    /// Whether it is of IPv6.
    pub is_v6: bool,
    /// Its local address.
    pub address: Address,
    /// The peer: of a stream, as it was connected; of datagrams, the only one.
    pub peer: Option<Peer>,
    /// Options that are set, one bit each; without an effect on loopback.
    pub options: u16,
    /// An error that no request has reported.
    pub error: Option<Errno>,
}

impl Socket {
    fn new(kind: Kind, is_v6: bool) -> Socket {
        Socket {
            kind,
            handles: 1,
            nonblock: false,
            shut_read: false,
            is_v6,
            address: if is_v6 { ANY } else { ANY_V4 },
            peer: None,
            options: 0,
            error: None,
        }
    }

    /// Returns its local address, and what it hears there.
    pub fn local(&self) -> Local {
        match &self.kind {
            Kind::Udp(own) => own.local,
            Kind::Listener(listener) => listener.local,
            _ => Local { address: self.address, v6_only: self.is_v6_only() },
        }
    }

    pub fn is_v6_only(&self) -> bool {
        self.options >> option::V6ONLY & 1 != 0
    }

    /// Returns whether it has a port.
    pub fn is_bound(&self) -> bool {
        !matches!(self.kind, Kind::Fresh(0) | Kind::FreshUdp)
    }

    /// Returns the flags that replies have.
    pub fn flags(&self) -> u16 {
        let v6 = if self.is_v6 { flag::V6 } else { 0 };
        v6 | if self.nonblock { flag::NONBLOCK } else { 0 }
    }

    /// Checks that a socket of its family can have a peer at `address`.
    pub fn reaches(&self, address: Address) -> Result<(), Errno> {
        match (self.is_v6, to_v4(address)) {
            (false, None) => Err(Errno::Afnosupport),
            (true, Some(_)) if self.is_v6_only() => Err(Errno::Netunreach),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Opening {
    owners: Owners,
    /// The process tree that it is charged to; 0: the system.
    tree: u32,
    /// The place of its socket.
    socket: u32,
}

/// The owner of a new handle.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub token: Token,
    /// The process tree that it is charged to; 0: the system.
    pub tree: u32,
}

#[derive(Debug)]
pub struct Handles {
    life: u64,
    openings: Table<Opening>,
    sockets: Table<Socket>,
    /// Sockets of the stack in use when the step began: also of connections that wait at listeners.
    pub live: usize,
}

impl Handles {
    /// Creates an empty table for this life of the service.
    pub fn new(lives: u32) -> Handles {
        let (openings, sockets) = (Table::new(HANDLES), Table::new(MOST));
        Handles { life: table::life(lives), openings, sockets, live: 0 }
    }

    /// Checks that process tree `tree` may have a further handle, and that there is one.
    pub fn room(&mut self, tree: u32) -> Result<(), Errno> {
        if tree != 0 {
            let own = self.held_by(tree);
            let left = HANDLES - self.openings.count() as u32;
            let left = left.min(MOST - self.sockets.count() as u32);
            let left = left.min(MOST.saturating_sub(self.live as u32));
            if own >= TREE_HANDLES || (left <= RESERVED && own >= SMALL) {
                return Err(Errno::Nfile);
            }
        }
        self.openings.room(1).ok_or(Errno::Nfile)
    }

    /// The same for a socket with a handle.
    pub fn room_for_socket(&mut self, tree: u32) -> Result<(), Errno> {
        self.room(tree)?;
        self.sockets.room(1).ok_or(Errno::Nfile)
    }

    /// Returns whether a process tree has so few handles that it can rely on what is reserved.
    pub fn is_small(&self, tree: u32) -> bool {
        tree == 0 || self.held_by(tree) <= SMALL
    }

    fn held_by(&self, tree: u32) -> u32 {
        self.openings().filter(|opening| opening.tree == tree).count() as u32
    }

    fn openings(&self) -> impl Iterator<Item = &Opening> {
        (0..self.openings.places()).filter_map(|place| self.openings.get(place))
    }

    fn add(&mut self, owner: Owner, socket: u32) -> Result<u64, Errno> {
        let owners = Owners::new(Life::of(owner.token));
        let opening = Opening { owners, tree: owner.tree, socket };
        let place = self.openings.insert(opening).ok_or(Errno::Nfile)?;
        self.openings.handle(self.life, place).ok_or(Errno::Badf)
    }

    /// Adds a socket with one handle. `is_v6`: of IPv6.
    pub fn open(&mut self, owner: Owner, kind: Kind, is_v6: bool) -> Result<u64, Errno> {
        self.room_for_socket(owner.tree)?;
        let place = self.sockets.insert(Socket::new(kind, is_v6)).ok_or(Errno::Nfile)?;
        self.add(owner, place)
    }

    /// Adds a handle of the socket at `place`.
    pub fn dup(&mut self, owner: Owner, place: u32) -> Result<u64, Errno> {
        self.room(owner.tree)?;
        let handle = self.add(owner, place)?;
        self.socket_mut(place).ok_or(Errno::Badf)?.handles += 1;
        Ok(handle)
    }

    /// Makes the kernel of `token` a further owner of a handle.
    pub fn adopt(&mut self, handle: u64, token: Token) -> Result<(), Errno> {
        let place = self.opening(handle)?;
        let opening = self.openings.get_mut(place).ok_or(Errno::Badf)?;
        opening.owners.add(Life::of(token)).ok_or(Errno::Nfile)
    }

    fn opening(&self, handle: u64) -> Result<u32, Errno> {
        self.openings.find(self.life, handle).map_err(|stale| match stale {
            Stale::Unknown => Errno::Badf,
            Stale::Restarted => Errno::Restarted,
        })
    }

    /// Returns the place of a handle's socket.
    pub fn place(&self, handle: u64) -> Result<u32, Errno> {
        let opening = self.openings.get(self.opening(handle)?).ok_or(Errno::Badf)?;
        Ok(opening.socket)
    }

    /// Returns the socket at `place`.
    pub fn socket(&self, place: u32) -> Option<&Socket> {
        self.sockets.get(place)
    }

    pub fn socket_mut(&mut self, place: u32) -> Option<&mut Socket> {
        self.sockets.get_mut(place)
    }

    /// Returns the error of the socket at `place` that no request has reported.
    pub fn pending(&self, place: u32) -> Option<Errno> {
        self.socket(place)?.error
    }

    /// Returns what the socket at `place` is.
    pub fn get(&self, place: u32) -> Option<&Kind> {
        self.socket(place).map(|socket| &socket.kind)
    }

    pub fn get_mut(&mut self, place: u32) -> Option<&mut Kind> {
        self.socket_mut(place).map(|socket| &mut socket.kind)
    }

    /// Closes a handle for the kernel of `token`. Returns the place of its socket, and what the
    /// socket was if this was its last handle.
    pub fn close(&mut self, handle: u64, token: Token) -> Result<(u32, Option<Kind>), Errno> {
        let place = self.opening(handle)?;
        self.close_at(place, Life::of(token)).ok_or(Errno::Badf)
    }

    /// Closes the handle at `place` of the table of handles for one of its owners.
    pub fn close_at(&mut self, place: u32, life: Life) -> Option<(u32, Option<Kind>)> {
        let opening = self.openings.get_mut(place)?;
        if opening.owners.remove(life) {
            return Some((opening.socket, None));
        }
        let place = self.openings.remove(place)?.socket;
        let socket = self.sockets.get_mut(place)?;
        socket.handles = socket.handles.saturating_sub(1);
        if socket.handles > 0 {
            return Some((place, None));
        }
        Some((place, self.sockets.remove(place).map(|socket| socket.kind)))
    }

    /// Returns the number of places of sockets, free ones included.
    pub fn places(&self) -> u32 {
        self.sockets.places()
    }

    /// Returns the process tree that the first handle of the socket at `place` is charged to.
    pub fn tree_of(&self, place: u32) -> u32 {
        self.openings().find(|opening| opening.socket == place).map_or(0, |it| it.tree)
    }

    /// Returns the number of handles.
    pub fn count(&self) -> usize {
        self.openings.count()
    }

    /// Returns the place of the first handle of this owner, of those from `from` on.
    pub fn owned(&self, life: Life, from: u32) -> Option<u32> {
        let mine = |opening: &Opening| opening.owners.have(life);
        (from..self.openings.places()).find(|&place| self.openings.get(place).is_some_and(mine))
    }

    /// Returns the UDP socket that gets a datagram to `to` from `from`; likely the one at `likely`.
    pub fn hears_datagram(&self, likely: u32, to: Peer, from: Peer) -> Option<u32> {
        let hears = |place: u32| match self.socket(place) {
            Some(Socket { kind: Kind::Udp(own), peer, .. }) => own.hears(to, from, *peer),
            _ => false,
        };
        if hears(likely) { Some(likely) } else { (0..self.places()).find(|&place| hears(place)) }
    }

    /// Returns whether a UDP socket has this port, and hears what one at `local` would.
    pub fn has_udp(&self, port: u16, local: Local) -> bool {
        self.any(|socket| match &socket.kind {
            Kind::Udp(own) => own.port == port && own.local.collides(local),
            _ => false,
        })
    }

    /// The same of a listener, or a handle bound explicitly.
    pub fn has_tcp(&self, port: u16, local: Local) -> bool {
        let has_port = |kind: &Kind| match kind {
            Kind::Fresh(taken) => *taken == port,
            Kind::Listener(listener) => listener.port == port,
            Kind::Loopback(near) => near.bound == port,
            Kind::Stream(stream) => stream.bound == port,
            Kind::FreshUdp | Kind::Udp(_) | Kind::Ended(..) => false,
        };
        self.any(|socket| has_port(&socket.kind) && socket.local().collides(local))
    }

    /// Returns the listener that hears connections to an address of this chip.
    pub fn listener(&mut self, port: u16, address: Address) -> Option<&mut Listener> {
        let hears = |kind: &Kind| match kind {
            Kind::Listener(it) => it.port == port && it.local.hears(address),
            _ => false,
        };
        let place = (0..self.places()).find(|&place| self.get(place).is_some_and(hears))?;
        match self.get_mut(place) {
            Some(Kind::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    fn any(&self, is: impl Fn(&Socket) -> bool) -> bool {
        (0..self.places()).any(|place| self.socket(place).is_some_and(&is))
    }
}

impl Datagrams {
    /// Returns whether a datagram to `to` from `from` is for this socket, whose only peer is
    /// `peer`.
    pub fn hears(&self, to: Peer, from: Peer, peer: Option<Peer>) -> bool {
        let (address, port) = to;
        self.port == port && self.local.hears(address) && peer.is_none_or(|peer| peer == from)
    }

    /// Takes what has come from outside.
    pub fn collect(&mut self, stack: &mut Stack, peer: Option<Peer>) {
        let Some(outside) = self.outside else { return };
        let socket = stack.datagrams(outside);
        while let Ok((datagram, about)) = socket.recv() {
            let from = (bytes_of(about.endpoint.addr), about.endpoint.port);
            if peer.is_none_or(|peer| peer == from) {
                self.inbox.push(from, datagram);
            }
        }
    }
}

impl Stream {
    /// Closes the sending direction if that is due. Returns whether it was.
    pub fn finish(&mut self, stack: &mut Stack) -> bool {
        let socket = stack.stream(self.socket);
        let due = self.shut && socket.may_send() && socket.send_queue() == 0;
        if due {
            socket.close();
        }
        due
    }

    /// Returns why a connect has failed.
    pub fn failure(&self, now: u64) -> Errno {
        let is_late = now.saturating_sub(self.began) / 1000 >= patience::CONNECT.total_micros();
        if is_late { Errno::Timedout } else { Errno::Connrefused }
    }

    /// Notes whether it is connected. If it has ended, closes its socket and returns what is left
    /// of it.
    pub fn settle(&mut self, stack: &mut Stack) -> Option<Ended> {
        let socket = stack.stream(self.socket);
        let (state, before) = (socket.state(), self.connected);
        self.connected |= state != tcp::State::Closed && !is_connecting(socket);
        if state != tcp::State::TimeWait && !(state == tcp::State::Closed && before) {
            return None;
        }
        let port = socket.local_endpoint().map_or(self.bound, |own| own.port);
        let charged = socket.recv_queue();
        let mut rest = VecDeque::with_capacity(charged);
        while let Ok(some @ 1..) = socket.recv(|bytes| {
            rest.extend(&*bytes);
            (bytes.len(), bytes.len())
        }) {
            debug_assert!(some <= LARGEST);
        }
        // A reset after the peer's end changes nothing for a reader.
        let reset = state == tcp::State::Closed
            && socket.recv(|_| (0, ())) != Err(tcp::RecvError::Finished);
        stack.remove_tcp(self.socket, false);
        stack.budget.charge(Side::Outside, charged);
        Some(Ended { rest, charged, port, reset })
    }
}

/// Returns the local address of a stream.
pub fn address_of(socket: &tcp::Socket<'_>) -> Address {
    socket.local_endpoint().map_or(ANY, |own| bytes_of(own.addr))
}

/// Returns whether a connect has not been answered yet.
pub fn is_connecting(socket: &tcp::Socket<'_>) -> bool {
    matches!(socket.state(), tcp::State::SynSent | tcp::State::SynReceived)
}
