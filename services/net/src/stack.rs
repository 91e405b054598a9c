//! smoltcp with a loopback device: its sockets, and the movement of packets.
//!
//! Contract: there are at most [`SOCKETS`] sockets. Their buffers share [`BUFFERS`] bytes: the
//! first ones get [`LARGEST`], and later ones less, so that streams alone always find memory for
//! [`SOCKETS`] of them, with [`SMALLEST`]. A closed stream with unsent data stays until the data
//! are sent; when its slot is needed, the oldest of those is reset. Nothing here waits. Time is
//! passed in and never runs backwards.

use crate::device::{Loopback, PACKETS};
use abi::net::{DATAGRAM, Errno, LOCALHOST};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketSet};
use smoltcp::socket::{Socket, tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint, Ipv4Address};

pub use smoltcp::iface::SocketHandle;

/// Maximum number of sockets, including closed ones whose connections have not ended yet.
pub const SOCKETS: usize = 1024;
/// Largest buffer of a socket in one direction, in bytes.
pub const LARGEST: usize = 8 * 1024;
/// Smallest buffer of a stream.
pub const SMALLEST: usize = 256;
/// Size of a buffer for datagrams that must hold any one of them.
const ONE_DATAGRAM: usize = 2 * DATAGRAM;
/// Memory for all buffers, in bytes.
pub const BUFFERS: usize = 1056 * 1024;
/// The buffer of a new stream is at most this fraction of the memory that is not reserved.
const PART: usize = 16;
/// Maximum number of buffered datagrams.
pub const WAITING: usize = 16;
/// Maximum rounds of packets in one step; the rest moves in the next step.
const ROUNDS: usize = 256;
/// Delay of that step, in ns.
const SOON: u64 = 1_000_000;
/// Ephemeral ports.
const ANY: RangeInclusive<u16> = 49_152..=65_535;

pub struct Stack {
    interface: Interface,
    sockets: SocketSet<'static>,
    device: Loopback,
    count: usize,
    /// Bytes of all buffers.
    used: usize,
    /// Closed streams that have not ended yet, the oldest first.
    ending: VecDeque<SocketHandle>,
    now: Instant,
    next_port: u16,
}

fn zeros(bytes: usize) -> Result<Vec<u8>, Errno> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).map_err(|_| Errno::Nomem)?;
    buffer.resize(bytes, 0);
    Ok(buffer)
}

fn datagrams(bytes: usize) -> Result<udp::PacketBuffer<'static>, Errno> {
    let mut heads = Vec::new();
    heads.try_reserve_exact(WAITING).map_err(|_| Errno::Nomem)?;
    heads.resize(WAITING, udp::PacketMetadata::EMPTY);
    Ok(udp::PacketBuffer::new(heads, zeros(bytes)?))
}

const _: () = assert!(ONE_DATAGRAM <= LARGEST, "one fits wherever the ring begins");
const _: () = assert!(SOCKETS * 2 * SMALLEST < BUFFERS);

/// Returns the size of each buffer of a new stream, when the buffers of `sockets` others have
/// `used` bytes.
fn stream_buffer(sockets: usize, used: usize) -> usize {
    let others = SOCKETS.saturating_sub(sockets + 1) * 2 * SMALLEST;
    let spare = BUFFERS.saturating_sub(used + others);
    let part = (spare / PART).clamp(SMALLEST, LARGEST);
    // The largest power of two.
    1 << part.ilog2()
}

impl Stack {
    /// Creates a stack without sockets. `seed` makes its sequence numbers differ from those of
    /// other lives.
    pub fn new(seed: u64) -> Stack {
        let now = Instant::from_micros(0);
        let mut device = Loopback::new();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut device, now);
        let [a, b, c, d] = LOCALHOST;
        interface.update_ip_addrs(|list| {
            // Cannot fail: the list is empty and has room for two.
            let _ = list.push(IpCidr::new(IpAddress::v4(a, b, c, d), 8));
        });
        Stack {
            interface,
            sockets: SocketSet::new(Vec::with_capacity(SOCKETS)),
            device,
            count: 0,
            used: 0,
            ending: VecDeque::with_capacity(SOCKETS),
            now,
            next_port: *ANY.start(),
        }
    }

    /// Advances the time to `now` (ns). It never goes back.
    pub fn at(&mut self, now: u64) {
        self.now = self.now.max(Instant::from_micros((now / 1000).cast_signed()));
    }

    /// Returns the number of sockets, and how many of them are closed but have not ended yet.
    pub fn census(&self) -> (usize, usize) {
        (self.count, self.ending.len())
    }

    /// Returns the number of sockets that are not about to end.
    pub fn live(&self) -> usize {
        self.count - self.ending.len()
    }

    /// Returns whether a slot is free.
    pub fn has_room(&self) -> bool {
        self.count < SOCKETS
    }

    /// Frees a slot if there is none, by resetting the oldest closed stream.
    fn make_room(&mut self) -> Result<(), Errno> {
        if self.has_room() {
            return Ok(());
        }
        let oldest = self.ending.pop_front().ok_or(Errno::Nobufs)?;
        self.stream(oldest).abort();
        self.interface.poll_egress(self.now, &mut self.device, &mut self.sockets);
        self.drop_socket(oldest);
        Ok(())
    }

    fn drop_socket(&mut self, socket: SocketHandle) {
        let buffers = match self.sockets.remove(socket) {
            Socket::Tcp(socket) => socket.recv_capacity() + socket.send_capacity(),
            Socket::Udp(socket) => socket.payload_recv_capacity() + socket.payload_send_capacity(),
        };
        self.used -= buffers;
        self.count -= 1;
    }

    /// Creates a UDP socket. [`Errno::Nobufs`]: the memory is reserved for streams.
    pub fn add_udp(&mut self) -> Result<SocketHandle, Errno> {
        self.make_room()?;
        // Half of the streams can rely on their memory.
        let streams = SOCKETS.saturating_sub(self.count + 1) * SMALLEST;
        let spare = BUFFERS.saturating_sub(self.used + streams);
        let bytes = LARGEST + ONE_DATAGRAM;
        if bytes > spare {
            return Err(Errno::Nobufs);
        }
        let socket = udp::Socket::new(datagrams(LARGEST)?, datagrams(ONE_DATAGRAM)?);
        self.used += bytes;
        self.count += 1;
        Ok(self.sockets.add(socket))
    }

    /// Counts memory for data of a stream that has ended.
    pub fn charge(&mut self, bytes: usize) {
        self.used += bytes;
    }

    pub fn release(&mut self, bytes: usize) {
        self.used -= bytes;
    }

    /// Creates a TCP socket. [`Errno::Nobufs`]: ended streams have the memory.
    pub fn add_tcp(&mut self) -> Result<SocketHandle, Errno> {
        self.make_room()?;
        let bytes = stream_buffer(self.count, self.used);
        if self.used + 2 * bytes > BUFFERS {
            return Err(Errno::Nobufs);
        }
        let buffer = || Ok(tcp::SocketBuffer::new(zeros(bytes)?));
        let mut socket = tcp::Socket::new(buffer()?, buffer()?);
        // The receiver acknowledges within the same step, so there is nothing to wait for.
        socket.set_ack_delay(None);
        socket.set_nagle_enabled(false);
        self.used += 2 * bytes;
        self.count += 1;
        Ok(self.sockets.add(socket))
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

    /// Closes a UDP socket. Datagrams that it sent still arrive.
    pub fn remove_udp(&mut self, handle: SocketHandle) {
        self.drop_socket(handle);
    }

    /// Closes a stream: it ends normally, or is reset.
    pub fn remove_tcp(&mut self, handle: SocketHandle, reset: bool) {
        let socket = self.stream(handle);
        // Received data that were not read are lost, so the peer must learn of it by a reset.
        if reset || socket.can_recv() {
            socket.abort();
        } else if !socket.may_send() {
            socket.close();
        }
        self.ending.push_back(handle);
    }

    /// Makes sure that no other stream connects port `from` with `to`: one that has sent all that
    /// it had, and is only kept until its peer ends, is reset.
    fn free(&mut self, from: u16, to: IpEndpoint) -> Result<(), Errno> {
        let is_it = |socket: &Socket<'_>| match socket {
            Socket::Tcp(it) => {
                it.remote_endpoint() == Some(to)
                    && it.local_endpoint().is_some_and(|own| own.port == from)
            }
            Socket::Udp(_) => false,
        };
        let twin = self.sockets.iter().find(|(_, it)| is_it(it)).map(|(twin, _)| twin);
        let Some(twin) = twin else { return Ok(()) };
        let place = self.ending.iter().position(|&handle| handle == twin);
        if place.is_none() || self.stream(twin).send_queue() != 0 {
            return Err(Errno::Addrnotavail);
        }
        self.ending.retain(|&handle| handle != twin);
        self.stream(twin).abort();
        self.interface.poll_egress(self.now, &mut self.device, &mut self.sockets);
        self.drop_socket(twin);
        Ok(())
    }

    /// Starts a connection from port `from`.
    pub fn connect(
        &mut self,
        handle: SocketHandle,
        to: IpEndpoint,
        from: u16,
    ) -> Result<(), Errno> {
        self.free(from, to)?;
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        socket.connect(self.interface.context(), to, from).map_err(|why| match why {
            tcp::ConnectError::InvalidState => Errno::Isconn,
            tcp::ConnectError::Unaddressable => Errno::Netunreach,
        })
    }

    /// Returns an ephemeral port for which `taken` is false and that no stream has.
    pub fn any_port(&mut self, taken: impl Fn(u16) -> bool) -> Result<u16, Errno> {
        for _ in ANY {
            let port = self.next_port;
            self.next_port = if port == *ANY.end() { *ANY.start() } else { port + 1 };
            let of_stream = self.sockets.iter().any(|(_, socket)| match socket {
                Socket::Tcp(socket) => socket.local_endpoint().is_some_and(|e| e.port == port),
                Socket::Udp(_) => false,
            });
            if !of_stream && !taken(port) {
                return Ok(port);
            }
        }
        Err(Errno::Addrnotavail)
    }

    /// Moves packets until nothing moves, and drops streams that have ended.
    pub fn settle(&mut self) {
        for _ in 0..ROUNDS {
            if !self.round() && !self.reap() {
                return;
            }
        }
    }

    /// Receives the packets under way, then sends. Returns whether anything moved.
    fn round(&mut self) -> bool {
        let (now, device, sockets) = (self.now, &mut self.device, &mut self.sockets);
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
        for _ in 0..self.ending.len() {
            let Some(handle) = self.ending.pop_front() else { break };
            let socket = self.stream(handle);
            // Nothing arrives late on this device, so there is no need for TIME-WAIT.
            if socket.local_endpoint().is_none() || socket.state() == tcp::State::TimeWait {
                self.drop_socket(handle);
                continue;
            }
            if socket.can_recv() && socket.state() != tcp::State::Closed {
                socket.abort();
                news = true;
            } else if socket.may_send() && socket.send_queue() == 0 {
                socket.close();
                news = true;
            }
            self.ending.push_back(handle);
        }
        news
    }

    /// Returns when there is something to do, in ns; `u64::MAX` if only a request can change
    /// anything.
    pub fn due(&mut self) -> u64 {
        let Some(at) = self.interface.poll_at(self.now, &self.sockets) else { return u64::MAX };
        let ns = |at: Instant| at.total_micros().cast_unsigned().saturating_mul(1000);
        ns(at).max(ns(self.now).saturating_add(SOON))
    }
}

/// Returns an IPv4 address as bytes.
pub fn bytes_of(address: IpAddress) -> [u8; 4] {
    let IpAddress::Ipv4(address) = address;
    address.octets()
}

/// Returns whether `address` is one of this chip.
pub fn is_ours(address: [u8; 4]) -> bool {
    address == LOCALHOST || address == [0; 4]
}

/// Converts `address` and `port`; only this chip can be reached.
pub fn endpoint(address: [u8; 4], port: u16) -> Result<IpEndpoint, Errno> {
    if !is_ours(address) {
        return Err(Errno::Netunreach);
    }
    if port == 0 {
        return Err(Errno::Inval);
    }
    Ok(IpEndpoint::new(IpAddress::Ipv4(Ipv4Address::from(LOCALHOST)), port))
}
