//! smoltcp: the sockets of both interfaces, and the movement of packets on loopback.
//!
//! Contract: sockets and their buffers are bounded by a [`Budget`]. A closed stream with unsent
//! data stays until the data are sent; when its slot is needed, the oldest of those is reset.
//! Nothing here waits. Time is passed in and never runs backwards.
//!
//! **Each interface has its own set of sockets.** smoltcp sends what any socket of a set has to
//! send on the interface that is polled, wherever it is to go. So a connection belongs to the side
//! that its peer's address is on, and a socket that hears both sides has a part in each.

use crate::addresses::{Side, route, to_ip};
use crate::budget::{self, Budget, LARGEST, SOCKETS};
use crate::device::{Loopback, PACKETS};
use crate::ethernet::Outside;
use crate::inbox::Inbox;
use abi::net::{Address, Errno, LOCALHOST, LOCALHOST_V6, to_v4};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketSet};
use smoltcp::socket::{Socket, tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, IpEndpoint, IpListenEndpoint};

/// Maximum rounds of packets in one step; the rest moves in the next step.
const ROUNDS: usize = 256;
/// Delay of that step, in ns.
pub(crate) const SOON: u64 = 1_000_000;
/// Ephemeral ports.
const ANY: RangeInclusive<u16> = 49_152..=65_535;

/// A socket of smoltcp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketHandle {
    pub side: Side,
    pub(crate) handle: smoltcp::iface::SocketHandle,
}

/// A closed stream whose connection has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub handle: SocketHandle,
    /// When it is reset, outside, because its peer does not end it; `None` while it has data to
    /// send.
    pub until: Option<Instant>,
}

pub struct Stack {
    interface: Interface,
    device: Loopback,
    pub(crate) outside: Outside,
    /// Of each side.
    pub(crate) sockets: [SocketSet<'static>; 2],
    /// Closed streams of each side that have not ended yet, the oldest first.
    pub(crate) ending: [VecDeque<Ending>; 2],
    pub(crate) budget: Budget,
    pub(crate) now: Instant,
    next_port: u16,
}

impl Stack {
    /// Creates a stack without sockets, and without an interface to the outside. `seed` makes its
    /// sequence numbers differ from those of other lives.
    pub fn new(seed: u64) -> Stack {
        let now = Instant::from_micros(0);
        let mut device = Loopback::new();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let interface = Interface::new(config, &mut device, now);
        let mut stack = Stack {
            interface,
            device,
            outside: Outside::new(),
            sockets: [SocketSet::new(Vec::with_capacity(SOCKETS)), SocketSet::new(Vec::new())],
            ending: [VecDeque::with_capacity(SOCKETS), VecDeque::new()],
            budget: Budget::default(),
            now,
            next_port: *ANY.start(),
        };
        [LOCALHOST, LOCALHOST_V6].into_iter().for_each(|own| stack.take_address(own));
        stack
    }

    /// Packets to this address go out and come in on loopback.
    pub(crate) fn take_address(&mut self, address: Address) {
        let bits = if to_v4(address).is_some() { 32 } else { 128 };
        self.interface.update_ip_addrs(|list| {
            // Cannot fail: the list has room for two of each family.
            let _ = list.push(IpCidr::new(to_ip(address), bits));
        });
    }

    /// Advances the time to `now` (ns). It never goes back.
    pub fn at(&mut self, now: u64) {
        self.now = self.now.max(Instant::from_micros((now / 1000).cast_signed()));
    }

    /// Returns the number of sockets, and how many of them are closed but have not ended yet.
    pub fn census(&self) -> (usize, usize) {
        (self.budget.count(), self.ending.iter().map(VecDeque::len).sum())
    }

    /// Returns the number of sockets that are not about to end.
    pub fn live(&self) -> usize {
        let (all, ending) = self.census();
        all - ending
    }

    /// Returns the number of sockets outside that are not about to end.
    pub fn live_outside(&self) -> usize {
        self.budget.count_outside() - self.ending[1].len()
    }

    /// Frees a slot if there is none, by resetting the oldest closed stream.
    fn make_room(&mut self, side: Side) -> Result<(), Errno> {
        if self.budget.has_room(side) {
            return Ok(());
        }
        let outside = self.ending[1].pop_front();
        let oldest = outside.or_else(|| match side {
            Side::Loopback => self.ending[0].pop_front(),
            Side::Outside => None,
        });
        self.reset(oldest.ok_or(Errno::Nobufs)?.handle);
        Ok(())
    }

    /// Resets a stream and drops its socket. A peer outside learns of it when it sends next.
    pub(crate) fn reset(&mut self, handle: SocketHandle) {
        if handle.side == Side::Loopback {
            self.stream(handle).abort();
            self.interface.poll_egress(self.now, &mut self.device, &mut self.sockets[0]);
        }
        self.drop_socket(handle);
    }

    pub(crate) fn drop_socket(&mut self, socket: SocketHandle) {
        let side = socket.side;
        let buffers = match self.sockets[side as usize].remove(socket.handle) {
            Socket::Tcp(socket) => socket.recv_capacity() + socket.send_capacity(),
            Socket::Udp(socket) => socket.payload_recv_capacity() + socket.payload_send_capacity(),
        };
        self.budget.remove(side, buffers);
    }

    fn add(&mut self, side: Side, socket: Socket<'static>, bytes: usize) -> SocketHandle {
        self.budget.add(side, bytes);
        let sockets = &mut self.sockets[side as usize];
        let handle = match socket {
            Socket::Tcp(socket) => sockets.add(socket),
            Socket::Udp(socket) => sockets.add(socket),
        };
        SocketHandle { side, handle }
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

    /// Creates a UDP socket at a port, if there is memory for `leaves` further ones. Otherwise, or
    /// if the memory is reserved for streams: [`Errno::Nobufs`].
    pub fn add_udp(
        &mut self,
        side: Side,
        at: IpListenEndpoint,
        leaves: usize,
    ) -> Result<SocketHandle, Errno> {
        self.make_room(side)?;
        let (receive, send) = self.budget.of_datagrams(side, leaves).ok_or(Errno::Nobufs)?;
        let mut socket = udp::Socket::new(budget::datagrams(receive)?, budget::datagrams(send)?);
        // Cannot fail: the socket is new, and the port not 0.
        let _ = socket.bind(at);
        Ok(self.add(side, Socket::Udp(socket), receive + send))
    }

    /// Creates a TCP socket. [`Errno::Nobufs`]: ended streams have the memory.
    pub fn add_tcp(&mut self, side: Side) -> Result<SocketHandle, Errno> {
        self.make_room(side)?;
        // A connection in TIME-WAIT keeps its buffers as long as no other would get less for it.
        while self.budget.of_stream(side) < Some(LARGEST) && self.end_a_wait() {}
        let bytes = self.budget.of_stream(side).ok_or(Errno::Nobufs)?;
        let mut socket = tcp::Socket::new(budget::stream(bytes)?, budget::stream(bytes)?);
        if side == Side::Loopback {
            // The receiver acknowledges within the same step, so there is nothing to wait for.
            socket.set_ack_delay(None);
            socket.set_nagle_enabled(false);
        }
        Ok(self.add(side, Socket::Tcp(socket), 2 * bytes))
    }

    /// Drops the socket that has been in TIME-WAIT for longest. Returns false if there is none.
    fn end_a_wait(&mut self) -> bool {
        let waits = |it: &Ending| self.see_stream(it.handle).state() == tcp::State::TimeWait;
        let Some(at) = self.ending[1].iter().position(waits) else { return false };
        let oldest = self.ending[1].remove(at);
        oldest.into_iter().for_each(|it| self.drop_socket(it.handle));
        true
    }

    /// Notes that a request has changed something at a socket that may have to be sent.
    pub fn touch(&mut self, handle: SocketHandle) {
        self.outside.is_touched |= handle.side == Side::Outside;
    }

    /// Returns a UDP socket. `handle` must be of one.
    pub fn datagrams(&mut self, handle: SocketHandle) -> &mut udp::Socket<'static> {
        self.sockets[handle.side as usize].get_mut(handle.handle)
    }

    /// Returns a TCP socket. `handle` must be of one.
    pub fn stream(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets[handle.side as usize].get_mut(handle.handle)
    }

    /// Returns a UDP socket for reading its state.
    pub fn see_datagrams(&self, handle: SocketHandle) -> &udp::Socket<'static> {
        self.sockets[handle.side as usize].get(handle.handle)
    }

    /// Returns a TCP socket for reading its state.
    pub fn see_stream(&self, handle: SocketHandle) -> &tcp::Socket<'static> {
        self.sockets[handle.side as usize].get(handle.handle)
    }

    /// Closes a stream: it ends normally, or is reset.
    pub fn remove_tcp(&mut self, handle: SocketHandle, reset: bool) {
        self.touch(handle);
        let socket = self.stream(handle);
        // Received data that were not read are lost, so the peer must learn of it by a reset.
        if reset || socket.can_recv() {
            socket.abort();
        } else if !socket.may_send() {
            socket.close();
        }
        self.ending[handle.side as usize].push_back(Ending { handle, until: None });
    }

    /// Returns the TCP socket that connects port `from` of this chip with `to`.
    pub(crate) fn twin(&self, side: Side, from: u16, to: IpEndpoint) -> Option<SocketHandle> {
        let is_it = |socket: &Socket<'_>| match socket {
            Socket::Tcp(it) => {
                it.remote_endpoint() == Some(to)
                    && it.local_endpoint().is_some_and(|own| own.port == from)
            }
            Socket::Udp(_) => false,
        };
        let (handle, _) = self.sockets[side as usize].iter().find(|(_, it)| is_it(it))?;
        Some(SocketHandle { side, handle })
    }

    /// Makes sure that no other stream connects port `from` with `to`: one that has sent all that
    /// it had, and is only kept until its peer ends, is reset.
    fn free(&mut self, side: Side, from: u16, to: IpEndpoint) -> Result<(), Errno> {
        let Some(twin) = self.twin(side, from, to) else { return Ok(()) };
        if !self.is_ending(twin) || self.see_stream(twin).send_queue() != 0 {
            return Err(Errno::Addrnotavail);
        }
        self.forget_ending(twin);
        Ok(())
    }

    pub(crate) fn is_ending(&self, handle: SocketHandle) -> bool {
        self.ending[handle.side as usize].iter().any(|it| it.handle == handle)
    }

    /// Drops a socket that is kept until its connection has ended, and resets that.
    pub(crate) fn forget_ending(&mut self, handle: SocketHandle) {
        self.ending[handle.side as usize].retain(|other| other.handle != handle);
        self.reset(handle);
    }

    /// Starts a connection from port `from`.
    pub fn connect(
        &mut self,
        handle: SocketHandle,
        to: IpEndpoint,
        from: u16,
    ) -> Result<(), Errno> {
        self.free(handle.side, from, to)?;
        let context = match handle.side {
            Side::Loopback => self.interface.context(),
            Side::Outside => {
                self.outside.is_touched = true;
                self.outside.context().ok_or(Errno::Netunreach)?
            }
        };
        let sockets = &mut self.sockets[handle.side as usize];
        let socket = sockets.get_mut::<tcp::Socket<'_>>(handle.handle);
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
            let is_taken = self.sockets.iter().any(|sockets| sockets.iter().any(of_stream));
            if !is_taken && !taken(port) {
                return Ok(port);
            }
        }
        Err(Errno::Addrnotavail)
    }

    /// Moves packets on loopback until nothing moves, and drops streams that have ended.
    pub fn settle(&mut self) {
        for _ in 0..ROUNDS {
            if !self.round() && !self.reap() {
                return;
            }
        }
    }

    /// Receives the packets under way, then sends. Returns whether anything moved.
    fn round(&mut self) -> bool {
        let (now, device, sockets) = (self.now, &mut self.device, &mut self.sockets[0]);
        let mut moved = false;
        for _ in 0..PACKETS {
            match self.interface.poll_ingress_single(now, device, sockets) {
                PollIngressSingleResult::None => break,
                _ => moved = true,
            }
        }
        let sent = self.interface.poll_egress(now, device, sockets);
        moved || sent == PollResult::SocketStateChanged
    }

    /// Drops closed streams that have ended, closes those that have sent everything, and resets
    /// those that received more data. Returns whether there is something to send now.
    fn reap(&mut self) -> bool {
        let mut news = false;
        for _ in 0..self.ending[0].len() {
            let Some(ending) = self.ending[0].pop_front() else { break };
            let socket = self.stream(ending.handle);
            // Nothing arrives late on this device, so there is no need for TIME-WAIT.
            if socket.local_endpoint().is_none() || socket.state() == tcp::State::TimeWait {
                self.drop_socket(ending.handle);
                continue;
            }
            news |= finish_closed(socket);
            self.ending[0].push_back(ending);
        }
        news
    }

    /// Returns when there is something to do, in ns; `u64::MAX` if only a request can change
    /// anything.
    pub fn due(&mut self) -> u64 {
        let Some(at) = self.interface.poll_at(self.now, &self.sockets[0]) else { return u64::MAX };
        ns(at).max(ns(self.now).saturating_add(SOON))
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
