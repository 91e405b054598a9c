//! The sockets of both sides: those of smoltcp outside, pairs and inboxes on loopback.
//!
//! Contract: sockets and their buffers are bounded by a [`Budget`]. A closed stream outside with
//! unsent data stays until the data are sent; when its slot is needed, the oldest of those is
//! reset. Nothing here waits. Time is passed in and never runs backwards.
//!
//! A connection belongs to the side that its peer's address is on, and a socket that hears both
//! sides has a part in each.

use crate::addresses::{Peer, Side, route, to_ip};
use crate::budget::{self, Budget, LARGEST, SOCKETS};
use crate::ethernet::Outside;
use crate::inbox::Inbox;
use crate::pairs::{End, Pairs};
use abi::net::{Address, Errno};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{Socket, tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{IpEndpoint, IpListenEndpoint};

/// Delay of a step that continues what one has begun, in ns.
pub(crate) const SOON: u64 = 1_000_000;
/// Ephemeral ports.
const ANY: RangeInclusive<u16> = 49_152..=65_535;

/// A closed stream outside whose connection has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub handle: SocketHandle,
    /// When it is reset because its peer does not end it; `None` while it has data to send.
    pub until: Option<Instant>,
}

pub struct Stack {
    /// Connections on loopback.
    pub(crate) pairs: Pairs,
    pub(crate) outside: Outside,
    /// Of the outside.
    pub(crate) sockets: SocketSet<'static>,
    /// Closed streams outside that have not ended yet, the oldest first.
    pub(crate) ending: VecDeque<Ending>,
    pub(crate) budget: Budget,
    pub(crate) now: Instant,
    next_port: u16,
}

impl Default for Stack {
    /// A stack without sockets, and without an interface to the outside.
    fn default() -> Stack {
        Stack {
            pairs: Pairs::new(SOCKETS as u32),
            outside: Outside::new(),
            sockets: SocketSet::new(Vec::new()),
            ending: VecDeque::new(),
            budget: Budget::default(),
            now: Instant::from_micros(0),
            next_port: *ANY.start(),
        }
    }
}

impl Stack {
    /// Advances the time to `now` (ns). It never goes back.
    pub fn at(&mut self, now: u64) {
        self.now = self.now.max(Instant::from_micros((now / 1000).cast_signed()));
    }

    /// Returns the number of sockets, and how many of them are closed but have not ended yet.
    pub fn census(&self) -> (usize, usize) {
        (self.budget.count(), self.ending.len())
    }

    /// Returns the number of sockets that are not about to end.
    pub fn live(&self) -> usize {
        let (all, ending) = self.census();
        all - ending
    }

    /// Returns the number of sockets outside that are not about to end.
    pub fn live_outside(&self) -> usize {
        self.budget.count_outside() - self.ending.len()
    }

    /// Frees a slot if there is none, by resetting the oldest closed stream.
    fn make_room(&mut self, side: Side) -> Result<(), Errno> {
        if !self.budget.has_room(side) {
            let oldest = self.ending.pop_front().ok_or(Errno::Nobufs)?;
            // Its peer learns of it when it sends next.
            self.drop_socket(oldest.handle);
        }
        Ok(())
    }

    pub(crate) fn drop_socket(&mut self, socket: SocketHandle) {
        let buffers = match self.sockets.remove(socket) {
            Socket::Tcp(socket) => socket.recv_capacity() + socket.send_capacity(),
            Socket::Udp(socket) => socket.payload_recv_capacity() + socket.payload_send_capacity(),
        };
        self.budget.remove(Side::Outside, buffers);
    }

    /// Creates the inbox of a UDP socket, if there is memory for `leaves` further ones. It counts
    /// as a socket.
    pub fn add_inbox(&mut self, leaves: usize) -> Result<Inbox, Errno> {
        self.make_room(Side::Loopback)?;
        let (bytes, _) = self.budget.of_datagrams(Side::Loopback, leaves).ok_or(Errno::Nobufs)?;
        let inbox = Inbox::new()?;
        self.budget.add(Side::Loopback, bytes);
        Ok(inbox)
    }

    /// An inbox was dropped.
    pub fn remove_inbox(&mut self) {
        self.budget.remove(Side::Loopback, LARGEST);
    }

    /// Creates a UDP socket outside at a port, if there is memory for `leaves` further ones.
    /// Otherwise, or if the memory is reserved for streams: [`Errno::Nobufs`].
    pub fn add_udp(&mut self, at: IpListenEndpoint, leaves: usize) -> Result<SocketHandle, Errno> {
        let side = Side::Outside;
        self.make_room(side)?;
        let (receive, send) = self.budget.of_datagrams(side, leaves).ok_or(Errno::Nobufs)?;
        let mut socket = udp::Socket::new(budget::datagrams(receive)?, budget::datagrams(send)?);
        // Cannot fail: the socket is new, and the port not 0.
        let _ = socket.bind(at);
        self.budget.add(side, receive + send);
        Ok(self.sockets.add(socket))
    }

    /// Creates a TCP socket outside. [`Errno::Nobufs`]: ended streams have the memory.
    pub fn add_tcp(&mut self) -> Result<SocketHandle, Errno> {
        let bytes = self.room_for_stream(Side::Outside)?;
        let socket = tcp::Socket::new(budget::stream(bytes)?, budget::stream(bytes)?);
        self.budget.add(Side::Outside, 2 * bytes);
        Ok(self.sockets.add(socket))
    }

    /// Makes room for an end of a stream. Returns the size of each of its two buffers.
    fn room_for_stream(&mut self, side: Side) -> Result<usize, Errno> {
        self.make_room(side)?;
        // A connection in TIME-WAIT keeps its buffers as long as no other would get less for it.
        while self.budget.of_stream(side) < Some(LARGEST) && self.end_a_wait() {}
        self.budget.of_stream(side).ok_or(Errno::Nobufs)
    }

    /// Connects two ends on loopback with these names. Returns the first one. An inbox has the
    /// memory of two buffers: of its own to receive, and of the other end's to send.
    pub fn pair(&mut self, names: [Peer; 2]) -> Result<End, Errno> {
        let side = Side::Loopback;
        let first = 2 * self.room_for_stream(side)?;
        self.budget.add(side, first);
        let second = self.room_for_stream(side).map(|bytes| 2 * bytes);
        let made = second.and_then(|second| {
            self.budget.add(side, second);
            let made = self.pairs.add(names, [first, second]);
            made.inspect_err(|_| self.budget.remove(side, second))
        });
        made.inspect_err(|_| self.budget.remove(side, first))
    }

    /// Closes an end; `lost`: with the kernel that had it. Returns the place of the other end's
    /// socket if this resets it.
    pub fn close_end(&mut self, end: End, lost: bool) -> Option<u32> {
        let (room, reset) = self.pairs.close(end, lost)?;
        self.budget.remove(Side::Loopback, room);
        reset
    }

    /// Drops the socket that has been in TIME-WAIT for longest. Returns false if there is none.
    fn end_a_wait(&mut self) -> bool {
        let waits = |it: &Ending| self.see_stream(it.handle).state() == tcp::State::TimeWait;
        let Some(at) = self.ending.iter().position(waits) else { return false };
        let oldest = self.ending.remove(at);
        oldest.into_iter().for_each(|it| self.drop_socket(it.handle));
        true
    }

    /// Notes that a request has changed something outside that may have to be sent.
    pub fn touch(&mut self) {
        self.outside.is_touched = true;
    }

    /// Returns a UDP socket. `handle` must be of one.
    pub fn datagrams(&mut self, handle: SocketHandle) -> &mut udp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Returns a TCP socket. `handle` must be of one.
    pub fn stream(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Returns a UDP socket for reading its state.
    pub fn see_datagrams(&self, handle: SocketHandle) -> &udp::Socket<'static> {
        self.sockets.get(handle)
    }

    /// Returns a TCP socket for reading its state.
    pub fn see_stream(&self, handle: SocketHandle) -> &tcp::Socket<'static> {
        self.sockets.get(handle)
    }

    /// Closes a stream: it ends normally, or is reset.
    pub fn remove_tcp(&mut self, handle: SocketHandle, reset: bool) {
        self.touch();
        let socket = self.stream(handle);
        // Received data that were not read are lost, so the peer must learn of it by a reset.
        if reset || socket.can_recv() {
            socket.abort();
        } else if !socket.may_send() {
            socket.close();
        }
        self.ending.push_back(Ending { handle, until: None });
    }

    /// Returns the TCP socket outside that connects port `from` of this chip with `to`.
    pub(crate) fn twin(&self, from: u16, to: IpEndpoint) -> Option<SocketHandle> {
        let is_it = |socket: &Socket<'_>| match socket {
            Socket::Tcp(it) => {
                it.remote_endpoint() == Some(to)
                    && it.local_endpoint().is_some_and(|own| own.port == from)
            }
            Socket::Udp(_) => false,
        };
        self.sockets.iter().find(|(_, it)| is_it(it)).map(|(handle, _)| handle)
    }

    /// Makes sure that no other stream outside connects port `from` with `to`: one that has sent
    /// all that it had, and is only kept until its peer ends, is dropped.
    fn free(&mut self, from: u16, to: IpEndpoint) -> Result<(), Errno> {
        let Some(twin) = self.twin(from, to) else { return Ok(()) };
        if !self.is_ending(twin) || self.see_stream(twin).send_queue() != 0 {
            return Err(Errno::Addrnotavail);
        }
        self.forget_ending(twin);
        Ok(())
    }

    pub(crate) fn is_ending(&self, handle: SocketHandle) -> bool {
        self.ending.iter().any(|it| it.handle == handle)
    }

    /// Drops a socket that is kept until its connection has ended. Its peer learns of it when it
    /// sends next.
    pub(crate) fn forget_ending(&mut self, handle: SocketHandle) {
        self.ending.retain(|other| other.handle != handle);
        self.drop_socket(handle);
    }

    /// Starts a connection outside from port `from`.
    pub fn connect(
        &mut self,
        handle: SocketHandle,
        to: IpEndpoint,
        from: u16,
    ) -> Result<(), Errno> {
        self.free(from, to)?;
        self.touch();
        let context = self.outside.context().ok_or(Errno::Netunreach)?;
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        socket.connect(context, to, from).map_err(|why| match why {
            tcp::ConnectError::InvalidState => Errno::Isconn,
            tcp::ConnectError::Unaddressable => Errno::Netunreach,
        })
    }

    /// Returns an ephemeral port for which `taken` is false and that no stream has. With a network
    /// outside, it cannot be predicted.
    pub fn any_port(&mut self, taken: impl Fn(u16) -> bool) -> Result<u16, Errno> {
        if let Some(random) = self.outside.random() {
            self.next_port = *ANY.start() + random.below(ANY.len() as u64) as u16;
        }
        for _ in ANY {
            let port = self.next_port;
            self.next_port = if port == *ANY.end() { *ANY.start() } else { port + 1 };
            let of_stream = |(_, socket): (_, &Socket<'_>)| match socket {
                Socket::Tcp(socket) => socket.local_endpoint().is_some_and(|e| e.port == port),
                Socket::Udp(_) => false,
            };
            let is_taken = self.sockets.iter().any(of_stream) || self.pairs.has_port(port);
            if !is_taken && !taken(port) {
                return Ok(port);
            }
        }
        Err(Errno::Addrnotavail)
    }

    /// Converts a peer's address and port, and returns the side that it is on.
    pub fn endpoint(&self, address: Address, port: u16) -> Result<(Side, IpEndpoint), Errno> {
        let route = route(self.outside.addresses(), address).ok_or(Errno::Netunreach)?;
        if port == 0 {
            return Err(Errno::Inval);
        }
        let (side, address) = route;
        if side == Side::Outside && !self.outside.is_attached() {
            return Err(Errno::Netunreach);
        }
        Ok((side, IpEndpoint::new(to_ip(address), port)))
    }

    /// Returns whether `address` is one of this chip.
    pub fn is_ours(&self, address: Address) -> bool {
        matches!(route(self.outside.addresses(), address), Some((Side::Loopback, _)))
    }
}

pub(crate) fn ns(at: Instant) -> u64 {
    at.total_micros().cast_unsigned().saturating_mul(1000)
}

/// Resets a closed stream that received more data, and closes one that has sent everything. Returns
/// whether there is something to send now.
pub(crate) fn finish_closed(socket: &mut tcp::Socket<'_>) -> bool {
    if socket.can_recv() && socket.state() != tcp::State::Closed {
        socket.abort();
        true
    } else if socket.may_send() && socket.send_queue() == 0 {
        socket.close();
        true
    } else {
        false
    }
}
