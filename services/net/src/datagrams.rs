//! The operations of the network service on datagrams.
//!
//! On loopback a datagram is put into the receiver's inbox when it is sent; smoltcp has those of
//! the outside only.

use crate::addresses::Side;
use crate::operations::{at_port, filled, moved};
use crate::service::{Call, Halt, Key, Net, Result};
use crate::sockets::{Datagrams, Kind, Peer};
use crate::stack::{SocketHandle, bytes_of, listen_at};
use abi::net::{DATAGRAM, Errno, LOCALHOST, Reply, flag};
use smoltcp::socket::udp;

/// UDP sockets for which trees leave memory unless they have few handles.
const UDP_RESERVED: usize = 8;

impl Net {
    fn udp(&mut self, place: u32) -> Result<&mut Datagrams> {
        match self.handles.get_mut(place) {
            Some(Kind::Udp(own)) => Ok(own),
            _ => Err(Errno::Inval.into()),
        }
    }

    /// Returns the port of a UDP socket, which gets one if it has none.
    fn port_of(&mut self, place: u32) -> Result<u16> {
        match self.handles.get(place) {
            Some(Kind::Udp(own)) => Ok(own.port),
            _ => self.bind_udp(place, 0, [0; 4]),
        }
    }

    /// Gives a UDP socket without a port this one, or any. Returns it.
    fn bind_udp(&mut self, place: u32, wanted: u16, address: [u8; 4]) -> Result<u16> {
        let port = self.port(wanted, true)?;
        let inbox = self.stack.add_inbox(self.leaves(place))?;
        let own = Datagrams { port, address, inbox, outside: None };
        if let Some(kind) = self.handles.get_mut(place) {
            *kind = Kind::Udp(own);
        }
        Ok(port)
    }

    /// The same for one that receives from both sides, as far as its address allows.
    pub(crate) fn bind_udp_to_hear(
        &mut self,
        place: u32,
        wanted: u16,
        address: [u8; 4],
    ) -> Result<u16> {
        let port = self.bind_udp(place, wanted, address)?;
        if let Err(Halt::Failed(Errno::Nobufs)) = self.part_outside(place) {
            if let Some(kind) = self.handles.get_mut(place) {
                *kind = Kind::FreshUdp;
            }
            self.stack.remove_inbox();
            return Err(Errno::Nobufs.into());
        }
        Ok(port)
    }

    /// Returns the part of a UDP socket that sends to the outside and receives from there, after
    /// making it if it does not exist.
    pub(crate) fn part_outside(&mut self, place: u32) -> Result<SocketHandle> {
        let own = self.udp(place)?;
        if let Some(socket) = own.outside {
            return Ok(socket);
        }
        let (bound, port) = (own.address, own.port);
        let address = self.stack.outside.addresses().ok_or(Errno::Netunreach)?.bytes();
        if bound != [0; 4] && bound != address {
            return Err(Errno::Netunreach.into());
        }
        let (at, leaves) = (listen_at(address, port), self.leaves(place));
        let socket = self.stack.add_udp(Side::Outside, at, leaves)?;
        self.udp(place)?.outside = Some(socket);
        Ok(socket)
    }

    /// Returns for how many further UDP sockets the socket at `place` must leave memory.
    fn leaves(&self, place: u32) -> usize {
        if self.handles.is_small(self.handles.tree_of(place)) { 0 } else { UDP_RESERVED }
    }

    /// Sets the only peer of a UDP socket.
    pub(crate) fn connect_udp(&mut self, call: &Call<'_>, place: u32) -> Result<Reply> {
        let (address, port) = (call.request.address, call.request.port);
        let (side, to) = self.stack.endpoint(address, port)?;
        let own_port = self.port_of(place)?;
        let local = match side {
            Side::Loopback => LOCALHOST,
            Side::Outside => {
                self.part_outside(place)?;
                self.stack.outside.addresses().ok_or(Errno::Netunreach)?.bytes()
            }
        };
        let peer = (bytes_of(to.addr), port);
        self.udp(place)?.inbox.keep(peer);
        if let Some(socket) = self.handles.socket_mut(place) {
            (socket.address, socket.peer) = (local, Some(peer));
        }
        Ok(at_port(own_port))
    }

    pub(crate) fn send_datagram(&mut self, call: &Call<'_>, place: u32) -> Result<Reply> {
        let peer = self.handles.socket(place).and_then(|socket| socket.peer);
        let (side, to) = match (call.request.address, call.request.port, peer) {
            ([0, 0, 0, 0], 0, Some((address, port))) => self.stack.endpoint(address, port)?,
            ([0, 0, 0, 0], 0, None) => return Err(Errno::Destaddrreq.into()),
            (address, port, _) => self.stack.endpoint(address, port)?,
        };
        let length = call.request.length as usize;
        let most = match side {
            Side::Loopback => DATAGRAM,
            Side::Outside => DATAGRAM.min(self.stack.outside.largest_datagram()),
        };
        // A datagram is sent whole or not at all.
        if length > most || length > call.bulk.len() {
            return Err(Errno::Msgsize.into());
        }
        let (datagram, port) = (&call.bulk[..length], self.port_of(place)?);
        if side == Side::Loopback {
            let to: Peer = (bytes_of(to.addr), to.port);
            let bound = self.udp(place)?.address;
            let from = (if bound == [0; 4] { to.0 } else { bound }, port);
            if let Some(receiver) = self.handles.hears_datagram(to, from) {
                receiver.inbox.push(from, datagram);
            }
            return Ok(moved(length));
        }
        let socket = self.part_outside(place)?;
        self.stack.touch(socket);
        match self.stack.datagrams(socket).send_slice(datagram, to) {
            Ok(()) => Ok(moved(length)),
            Err(udp::SendError::BufferFull) => Err(Halt::Park(Key::Writable(place))),
            Err(udp::SendError::Unaddressable) => Err(Errno::Netunreach.into()),
        }
    }

    pub(crate) fn receive_datagram(&mut self, call: &mut Call<'_>, place: u32) -> Result<Reply> {
        let (length, peeks) = (call.length(), call.request.flags & flag::PEEK != 0);
        self.port_of(place)?;
        let inbox = &mut self.udp(place)?.inbox;
        let found = inbox.peek(&mut call.bulk[..length]);
        let ((address, port), bytes) = found.ok_or(Halt::Park(Key::Readable(place)))?;
        if !peeks {
            inbox.pop();
        }
        let value = bytes as u64;
        Ok(Reply { address, port, value, ..filled(bytes.min(length)) })
    }
}
