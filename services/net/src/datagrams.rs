//! The operations of the network service on datagrams.
//!
//! On loopback a datagram is put into the receiver's inbox when it is sent; smoltcp has those of
//! the outside only.

use crate::addresses::{Local, Peer, Side, bytes_of, to_ip};
use crate::operations::{at_port, filled, moved};
use crate::service::{Call, Halt, Key, Net, Result};
use crate::sockets::{Datagrams, Kind};
use abi::net::{ANY, DATAGRAM, Errno, Reply, flag};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::udp;
use smoltcp::wire::IpListenEndpoint;

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
            Some(_) => {
                let local = self.handles.socket(place).ok_or(Errno::Badf)?.local();
                self.bind_udp(place, 0, local)
            }
            None => Err(Errno::Badf.into()),
        }
    }

    /// Gives a UDP socket without a port this one, or any. Returns it.
    fn bind_udp(&mut self, place: u32, wanted: u16, local: Local) -> Result<u16> {
        let port = self.port(wanted, true, local)?;
        let inbox = self.stack.add_inbox(self.leaves(place))?;
        let (is_near, receiver) = (false, place);
        let own = Datagrams { port, local, inbox, is_near, receiver, outside: None };
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
        local: Local,
    ) -> Result<u16> {
        let port = self.bind_udp(place, wanted, local)?;
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
        let (local, port) = (own.local, own.port);
        let known = self.stack.outside.addresses().ok_or(Errno::Netunreach)?;
        let mut heard = known.own().filter(|own| local.hears(*own));
        let first = heard.next().ok_or(Errno::Netunreach)?;
        // One that hears both addresses is bound to neither.
        let addr = if heard.next().is_some() { None } else { Some(to_ip(first)) };
        let (at, leaves) = (IpListenEndpoint { addr, port }, self.leaves(place));
        let socket = self.stack.add_udp(at, leaves)?;
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
        self.handles.socket(place).ok_or(Errno::Badf)?.reaches(address)?;
        let (side, to) = self.stack.endpoint(address, port)?;
        let peer = (bytes_of(to.addr), port);
        let own_port = self.port_of(place)?;
        let local = match side {
            Side::Loopback => peer.0,
            Side::Outside => {
                self.part_outside(place)?;
                let known = self.stack.outside.addresses().ok_or(Errno::Netunreach)?;
                known.own_for(peer.0).ok_or(Errno::Netunreach)?
            }
        };
        let own = self.udp(place)?;
        own.inbox.keep(peer);
        own.is_near = side == Side::Loopback;
        let local = own.local.specific().unwrap_or(local);
        if let Some(socket) = self.handles.socket_mut(place) {
            (socket.address, socket.peer) = (local, Some(peer));
        }
        Ok(at_port(own_port))
    }

    pub(crate) fn send_datagram(&mut self, call: &Call<'_>, place: u32) -> Result<Reply> {
        let socket = self.handles.socket(place).ok_or(Errno::Badf)?;
        let (mut address, mut port) = (call.request.address, call.request.port);
        if port == 0 && address == ANY {
            let peer = socket.peer.ok_or(Errno::Destaddrreq)?;
            if let Kind::Udp(Datagrams { is_near: true, port, .. }) = socket.kind {
                return self.deliver(call, place, ((socket.address, port), peer));
            }
            (address, port) = peer;
        }
        socket.reaches(address)?;
        let (side, to) = self.stack.endpoint(address, port)?;
        let length = call.request.length as usize;
        let most = match side {
            Side::Loopback => DATAGRAM,
            Side::Outside => {
                let known = self.stack.outside.addresses().ok_or(Errno::Netunreach)?;
                DATAGRAM.min(known.largest_datagram(bytes_of(to.addr)))
            }
        };
        // A datagram is sent whole or not at all.
        if length > most || length > call.bulk.len() {
            return Err(Errno::Msgsize.into());
        }
        let (datagram, port) = (&call.bulk[..length], self.port_of(place)?);
        if side == Side::Loopback {
            let to: Peer = (bytes_of(to.addr), to.port);
            let from = (self.udp(place)?.local.specific().unwrap_or(to.0), port);
            return self.deliver(call, place, (from, to));
        }
        let socket = self.part_outside(place)?;
        self.stack.touch();
        match self.stack.datagrams(socket).send_slice(datagram, to) {
            Ok(()) => Ok(moved(length)),
            Err(udp::SendError::BufferFull) => Err(Halt::Park(Key::Writable(place))),
            Err(udp::SendError::Unaddressable) => Err(Errno::Netunreach.into()),
        }
    }

    /// Puts a datagram into the inbox of the socket on this chip that hears it, if one does.
    fn deliver(&mut self, call: &Call<'_>, place: u32, (from, to): (Peer, Peer)) -> Result<Reply> {
        let length = call.request.length as usize;
        let datagram = call.bulk.get(..length).filter(|_| length <= DATAGRAM);
        let datagram = datagram.ok_or(Errno::Msgsize)?;
        let likely = self.udp(place)?.receiver;
        let receiver = self.handles.hears_datagram(likely, to, from);
        if let Some(at) = receiver {
            self.udp(at)?.inbox.push(from, datagram);
            if at != likely {
                self.udp(place)?.receiver = at;
            }
        }
        // A port that was bound just now may have ended a closed stream, for which nothing waits.
        (self.is_direct, self.reached) = (true, receiver);
        Ok(moved(length))
    }

    pub(crate) fn receive_datagram(&mut self, call: &mut Call<'_>, place: u32) -> Result<Reply> {
        let (length, peeks) = (call.length(), call.request.flags & flag::PEEK != 0);
        self.port_of(place)?;
        self.is_direct = true;
        let socket = self.handles.socket_mut(place).ok_or(Errno::Badf)?;
        let flags = socket.flags();
        let Kind::Udp(Datagrams { inbox, .. }) = &mut socket.kind else {
            return Err(Errno::Inval.into());
        };
        let found = inbox.peek(&mut call.bulk[..length]);
        let ((address, port), bytes) = found.ok_or(Halt::Park(Key::Readable(place)))?;
        if !peeks {
            inbox.pop();
        }
        let value = bytes as u64;
        Ok(Reply { address, port, flags, value, ..filled(bytes.min(length)) })
    }
}
