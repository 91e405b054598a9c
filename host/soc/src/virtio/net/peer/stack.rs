//! The peer's network stack: smoltcp over frames in memory.

use crate::config;
use abi::ethernet::{FRAME, FRAME_HEADER};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{AnySocket, tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, IpEndpoint};
use std::collections::VecDeque;

/// The peer's own address.
const MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 0xfe]);
/// Bytes of each buffer of a connection, and of a datagram's.
const BUFFER: usize = 16 << 10;
/// Ports of the peer's own connections, used in turn.
const PORTS: std::ops::Range<u16> = 49_152..65_535;

/// Frames that have arrived and that are to be sent.
#[derive(Debug, Default)]
struct Frames {
    arrived: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
}

struct Arrived(Vec<u8>);
struct Sent<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut frame = vec![0; length];
        let result = write(&mut frame);
        self.0.push_back(frame);
        result
    }
}

impl Device for Frames {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Sent<'_>)> {
        Some((Arrived(self.arrived.pop_front()?), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME;
        capabilities
    }
}

/// A host at the address of the chip's gateway. Times are in ns; smoltcp counts us.
pub struct Stack {
    interface: Interface,
    sockets: SocketSet<'static>,
    frames: Frames,
    chip: IpAddress,
    port: u16,
}

fn instant(now: u64) -> Instant {
    Instant::from_micros((now / 1000) as i64)
}

impl Stack {
    pub fn new(v4: &config::Network<std::net::Ipv4Addr>, seed: u64) -> Stack {
        let mut config = Config::new(MAC.into());
        config.random_seed = seed;
        let mut frames = Frames::default();
        let mut interface = Interface::new(config, &mut frames, instant(0));
        interface.update_ip_addrs(|list| {
            // The list is empty, and has room.
            let _ = list.push(IpCidr::new(v4.gateway.into(), v4.prefix));
        });
        let sockets = SocketSet::new(Vec::new());
        Stack { interface, sockets, frames, chip: v4.address.into(), port: PORTS.start }
    }

    /// Delivers a frame.
    pub fn arrives(&mut self, frame: Vec<u8>) {
        if frame.len() >= FRAME_HEADER {
            self.frames.arrived.push_back(frame);
        }
    }

    /// Takes the next frame that is sent.
    pub fn sends(&mut self) -> Option<Vec<u8>> {
        self.frames.sent.pop_front()
    }

    /// Carries out what is due.
    pub fn poll(&mut self, now: u64) {
        self.interface.poll(instant(now), &mut self.frames, &mut self.sockets);
    }

    /// Returns when something is due, which is after `now`.
    pub fn next(&mut self, now: u64) -> Option<u64> {
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        Some((at.total_micros().max(0) as u64 * 1000).max(now + 1000))
    }

    /// Begins a connection to a port of the chip. `None`: no local port is free.
    pub fn connect(&mut self, port: u16) -> Option<SocketHandle> {
        let mut socket = stream();
        let to = IpEndpoint::new(self.chip, port);
        socket.connect(self.interface.context(), to, self.port).ok()?;
        self.port = if self.port + 1 < PORTS.end { self.port + 1 } else { PORTS.start };
        Some(self.sockets.add(socket))
    }

    /// Waits for a connection of the chip.
    pub fn listen(&mut self, port: u16) -> Option<SocketHandle> {
        let mut socket = stream();
        socket.listen(port).ok()?;
        Some(self.sockets.add(socket))
    }

    /// Creates a socket for datagrams, at a port of its own.
    pub fn datagrams(&mut self, port: u16) -> Option<SocketHandle> {
        let buffer =
            || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 8], vec![0; BUFFER]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(port).ok()?;
        Some(self.sockets.add(socket))
    }

    /// Returns an endpoint of the chip.
    pub fn chip(&self, port: u16) -> IpEndpoint {
        IpEndpoint::new(self.chip, port)
    }

    pub fn get<T: AnySocket<'static>>(&mut self, handle: SocketHandle) -> &mut T {
        self.sockets.get_mut(handle)
    }

    pub fn remove(&mut self, handle: SocketHandle) {
        self.sockets.remove(handle);
    }
}

fn stream() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.set_nagle_enabled(false);
    socket
}
