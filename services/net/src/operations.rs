//! The operations of the network service on streams, datagrams and listeners.

use crate::addresses::Side;
use crate::listener::{Listener, is_scarce};
use crate::service::{Call, Halt, Key, Net, Result};
use crate::sockets::{Datagrams, Ended, Kind, Owner, Stream, address_of, is_connecting};
use crate::stack::{SocketHandle, bytes_of, listen_at, ns};
use abi::net::{BACKLOG, DATAGRAM, Errno, LOCALHOST, Reply, flag, option, shut};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use smoltcp::socket::tcp::{self, RecvError};
use smoltcp::socket::udp;

/// UDP sockets for which trees leave memory unless they have few handles.
const UDP_RESERVED: usize = 8;

fn moved(bytes: usize) -> Reply {
    Reply { value: bytes as u64, ..Reply::default() }
}

/// Returns a reply for `bytes` bytes written to the bulk.
fn filled(bytes: usize) -> Reply {
    Reply { filled: bytes as u32, ..moved(bytes) }
}

fn at_port(port: u16) -> Reply {
    Reply { port, ..Reply::default() }
}

impl Net {
    /// Returns the slot of a request's handle, and what it refers to.
    fn entry(&mut self, call: &Call<'_>) -> Result<(u32, &mut Kind)> {
        let place = self.handles.place(call.request.handle)?;
        let kind = self.handles.get_mut(place).ok_or(Errno::Badf)?;
        Ok((place, kind))
    }

    pub(crate) fn owner(call: &Call<'_>) -> Owner {
        Owner { token: call.token, tree: call.request.tree }
    }

    pub(crate) fn do_open(&mut self, call: &Call<'_>, kind: Kind) -> Result<Reply> {
        let handle = self.handles.open(Net::owner(call), kind)?;
        Ok(Reply { handle, ..Reply::default() })
    }

    /// Returns `wanted` if it is free, or an ephemeral port if it is 0.
    fn port(&mut self, wanted: u16, udp: bool) -> Result<u16> {
        let handles = &self.handles;
        let taken = |port| if udp { handles.has_udp(port) } else { handles.has_tcp(port) };
        match wanted {
            0 => Ok(self.stack.any_port(taken)?),
            port if taken(port) => Err(Errno::Addrinuse.into()),
            port => Ok(port),
        }
    }

    pub(crate) fn do_bind(&mut self, call: &Call<'_>) -> Result<Reply> {
        let (wanted, address) = (call.request.port, call.request.address);
        if !self.stack.is_ours(address) {
            return Err(Errno::Addrnotavail.into());
        }
        let (place, udp) = match self.entry(call)? {
            (place, Kind::FreshUdp) => (place, true),
            (place, Kind::Fresh(0)) => (place, false),
            (_, Kind::Udp(..) | Kind::Fresh(_)) => return Err(Errno::Inval.into()),
            _ => return Err(Errno::Isconn.into()),
        };
        let port = match udp {
            true => self.bind_udp_to_hear(place, wanted, address)?.port,
            false => self.port(wanted, false)?,
        };
        if let Some(socket) = self.handles.socket_mut(place) {
            socket.address = address;
            if !udp {
                socket.kind = Kind::Fresh(port);
            }
        }
        Ok(at_port(port))
    }

    /// Gives a UDP socket without a port this one, or any.
    fn bind_udp(&mut self, place: u32, wanted: u16, address: [u8; 4]) -> Result<Datagrams> {
        let port = self.port(wanted, true)?;
        let leaves = self.leaves(place);
        let loopback = self.stack.add_udp(Side::Loopback, listen_at(address, port), leaves)?;
        let own = Datagrams { port, loopback, outside: None };
        if let Some(kind) = self.handles.get_mut(place) {
            *kind = Kind::Udp(own);
        }
        Ok(own)
    }

    /// The same for one that receives from both sides, as far as its address allows.
    fn bind_udp_to_hear(&mut self, place: u32, wanted: u16, address: [u8; 4]) -> Result<Datagrams> {
        let own = self.bind_udp(place, wanted, address)?;
        if let Err(Halt::Failed(Errno::Nobufs)) = self.part_outside(place) {
            self.stack.remove_udp(own.loopback);
            if let Some(kind) = self.handles.get_mut(place) {
                *kind = Kind::FreshUdp;
            }
            return Err(Errno::Nobufs.into());
        }
        Ok(own)
    }

    /// Returns the part of a UDP socket that sends to the outside and receives from there, after
    /// making it if it does not exist.
    pub(crate) fn part_outside(&mut self, place: u32) -> Result<SocketHandle> {
        let Some(&Kind::Udp(own)) = self.handles.get(place) else {
            return Err(Errno::Inval.into());
        };
        if let Some(socket) = own.outside {
            return Ok(socket);
        }
        let address = self.stack.outside.addresses().ok_or(Errno::Netunreach)?.bytes();
        let bound = self.stack.see_datagrams(own.loopback).endpoint().addr.map(bytes_of);
        if bound.is_some_and(|bound| bound != address) {
            return Err(Errno::Netunreach.into());
        }
        let (at, leaves) = (listen_at(address, own.port), self.leaves(place));
        let socket = self.stack.add_udp(Side::Outside, at, leaves)?;
        if let Some(kind) = self.handles.get_mut(place) {
            *kind = Kind::Udp(Datagrams { outside: Some(socket), ..own });
        }
        Ok(socket)
    }

    /// Returns for how many further UDP sockets the socket at `place` must leave memory.
    fn leaves(&self, place: u32) -> usize {
        if self.handles.is_small(self.handles.tree_of(place)) { 0 } else { UDP_RESERVED }
    }

    pub(crate) fn do_listen(&mut self, call: &Call<'_>) -> Result<Reply> {
        let place = match self.entry(call)? {
            (place, Kind::Fresh(_)) => place,
            (_, Kind::Udp(..) | Kind::FreshUdp) => return Err(Errno::Notsup.into()),
            _ => return Err(Errno::Isconn.into()),
        };
        let port = match self.handles.get(place) {
            Some(&Kind::Fresh(bound @ 1..)) => bound,
            _ => self.port(call.request.port, false)?,
        };
        let backlog = usize::from(call.request.backlog.clamp(1, BACKLOG));
        let address = self.handles.socket(place).map_or([0; 4], |socket| socket.address);
        let (waiting, coming, ready) = (Vec::new(), VecDeque::new(), VecDeque::new());
        let mut listener = Listener { port, address, backlog, waiting, coming, ready };
        listener.add(&mut self.stack)?;
        listener.settle(&mut self.stack);
        if let Some(kind) = self.handles.get_mut(place) {
            *kind = Kind::Listener(listener);
        }
        Ok(at_port(port))
    }

    pub(crate) fn do_accept(&mut self, call: &Call<'_>) -> Result<Reply> {
        let (place, kind) = self.entry(call)?;
        let Kind::Listener(listener) = kind else { return Err(Errno::Inval.into()) };
        if listener.ready.is_empty() {
            return Err(Halt::Park(Key::Readable(place)));
        }
        self.handles.room_for_socket(call.request.tree)?;
        let Some(Kind::Listener(listener)) = self.handles.get_mut(place) else {
            return Err(Errno::Badf.into());
        };
        let socket = listener.ready.pop_front().ok_or(Errno::Again)?;
        let found = self.stack.stream(socket);
        let (remote, local) = (found.remote_endpoint(), address_of(found));
        let stream = Stream { socket, bound: 0, connected: true, shut: false, began: 0 };
        let handle = self.handles.open(Net::owner(call), Kind::Stream(stream))?;
        let (address, port) = remote.map_or(([0; 4], 0), |of| (bytes_of(of.addr), of.port));
        let made = self.handles.place(handle)?;
        if let Some(socket) = self.handles.socket_mut(made) {
            (socket.address, socket.peer) = (local, Some((address, port)));
        }
        Ok(Reply { handle, address, port, ..Reply::default() })
    }

    pub(crate) fn do_connect(&mut self, call: &Call<'_>) -> Result<Reply> {
        let (place, stream) = match self.entry(call)? {
            (place, &mut Kind::Fresh(bound)) => (place, self.begin(call, place, bound)?),
            (place, &mut Kind::Stream(stream)) => (place, stream),
            (place, Kind::Udp(..) | Kind::FreshUdp) => return self.connect_udp(call, place),
            _ => return Err(Errno::Isconn.into()),
        };
        if stream.connected && !call.again {
            return Err(Errno::Isconn.into());
        }
        let socket = self.stack.stream(stream.socket);
        if is_connecting(socket) {
            return Err(Halt::Park(Key::Writable(place)));
        }
        if !stream.connected && socket.state() == tcp::State::Closed {
            self.refused(place, stream);
            return Err(stream.failure(ns(self.stack.now)).into());
        }
        Ok(at_port(socket.local_endpoint().map_or(0, |own| own.port)))
    }

    /// Makes a stream that was refused a fresh one.
    pub(crate) fn refused(&mut self, place: u32, stream: Stream) {
        self.stack.remove_tcp(stream.socket, true);
        if let Some(socket) = self.handles.socket_mut(place) {
            (socket.kind, socket.peer) = (Kind::Fresh(stream.bound), None);
        }
    }

    /// Sets the only peer of a UDP socket.
    fn connect_udp(&mut self, call: &Call<'_>, place: u32) -> Result<Reply> {
        let (address, port) = (call.request.address, call.request.port);
        let (side, to) = self.stack.endpoint(address, port)?;
        let own = match self.handles.get(place) {
            Some(&Kind::Udp(own)) => own,
            _ => self.bind_udp(place, 0, [0; 4])?,
        };
        let local = match side {
            Side::Loopback => LOCALHOST,
            Side::Outside => {
                self.part_outside(place)?;
                self.stack.outside.addresses().ok_or(Errno::Netunreach)?.bytes()
            }
        };
        if let Some(socket) = self.handles.socket_mut(place) {
            (socket.address, socket.peer) = (local, Some((bytes_of(to.addr), port)));
        }
        Ok(at_port(own.port))
    }

    /// Starts a connection. On loopback it is usually complete when this returns.
    fn begin(&mut self, call: &Call<'_>, place: u32, bound: u16) -> Result<Stream> {
        let (side, to) = self.stack.endpoint(call.request.address, call.request.port)?;
        let own = self.handles.socket(place).ok_or(Errno::Badf)?;
        let (address, waits) = (own.address, own.options >> option::NODELAY & 1 == 0);
        if side == Side::Outside && address == LOCALHOST {
            return Err(Errno::Inval.into());
        }
        if is_scarce(&self.stack, side) && !self.handles.is_small(call.request.tree) {
            return Err(Errno::Nobufs.into());
        }
        let from = if bound == 0 { self.port(0, false)? } else { bound };
        let socket = self.stack.add_tcp(side)?;
        if let Err(why) = self.stack.connect(socket, to, from) {
            self.stack.remove_tcp(socket, true);
            return Err(why.into());
        }
        let local = address_of(self.stack.see_stream(socket));
        match side {
            Side::Loopback => self.stack.settle(),
            Side::Outside => self.stack.stream(socket).set_nagle_enabled(waits),
        }
        let began = ns(self.stack.now);
        let stream = Stream { socket, bound, connected: false, shut: false, began };
        if let Some(socket) = self.handles.socket_mut(place) {
            (socket.kind, socket.address) = (Kind::Stream(stream), local);
            socket.peer = Some((bytes_of(to.addr), to.port));
        }
        Ok(stream)
    }

    pub(crate) fn do_send(&mut self, call: &Call<'_>) -> Result<Reply> {
        let (place, stream) = match self.entry(call)? {
            (place, Kind::Udp(_) | Kind::FreshUdp) => return self.send_datagram(call, place),
            (place, &mut Kind::Stream(stream)) => (place, stream),
            (_, Kind::Ended(Ended { reset: true, .. })) => return Err(Errno::Connreset.into()),
            (_, Kind::Ended(_)) => return Err(Errno::Pipe.into()),
            _ => return Err(Errno::Notconn.into()),
        };
        if stream.shut {
            return Err(Errno::Pipe.into());
        }
        let socket = self.stack.stream(stream.socket);
        if !socket.may_send() {
            let why = if stream.connected { Errno::Pipe } else { Errno::Notconn };
            return Err(why.into());
        }
        let bytes = &call.bulk[..call.length()];
        let sent = socket.send_slice(bytes);
        self.stack.touch(stream.socket);
        match sent {
            Ok(0) if !bytes.is_empty() => Err(Halt::Park(Key::Writable(place))),
            Ok(sent) => Ok(moved(sent)),
            Err(_) => Err(Errno::Notconn.into()),
        }
    }

    fn send_datagram(&mut self, call: &Call<'_>, place: u32) -> Result<Reply> {
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
        let own = match self.handles.get(place) {
            Some(&Kind::Udp(own)) => own,
            _ => self.bind_udp(place, 0, [0; 4])?,
        };
        let socket = match side {
            Side::Loopback => own.loopback,
            Side::Outside => self.part_outside(place)?,
        };
        self.stack.touch(socket);
        match self.stack.datagrams(socket).send_slice(&call.bulk[..length], to) {
            Ok(()) => Ok(moved(length)),
            Err(udp::SendError::BufferFull) => Err(Halt::Park(Key::Writable(place))),
            Err(udp::SendError::Unaddressable) => Err(Errno::Netunreach.into()),
        }
    }

    pub(crate) fn do_receive(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let length = call.length();
        let peeks = call.request.flags & flag::PEEK != 0;
        let (place, stream) = match self.entry(call)? {
            (place, &mut Kind::Udp(own)) => return self.receive_datagram(call, place, own),
            (place, Kind::FreshUdp) => {
                let own = self.bind_udp(place, 0, [0; 4])?;
                return self.receive_datagram(call, place, own);
            }
            (_, Kind::Ended(ended)) => return ended.receive(&mut call.bulk[..length], peeks),
            (place, &mut Kind::Stream(stream)) => (place, stream),
            _ => return Err(Errno::Notconn.into()),
        };
        let ends = self.handles.socket(place).is_some_and(|socket| socket.shut_read);
        // Reading may open the window again.
        self.stack.touch(stream.socket);
        let socket = self.stack.stream(stream.socket);
        if is_connecting(socket) || !stream.connected {
            return Err(Errno::Notconn.into());
        }
        let into = &mut call.bulk[..length];
        let received = match peeks {
            // `peek_slice` does not report the end.
            true => socket.peek(0).map(|_| ()).and_then(|()| socket.peek_slice(into)),
            false => socket.recv_slice(into),
        };
        match received {
            Ok(0) if length > 0 && !ends => Err(Halt::Park(Key::Readable(place))),
            Ok(bytes) => Ok(filled(bytes)),
            Err(RecvError::Finished) => Ok(filled(0)),
            Err(RecvError::InvalidState) => Err(Errno::Connreset.into()),
        }
    }

    fn receive_datagram(
        &mut self,
        call: &mut Call<'_>,
        place: u32,
        own: Datagrams,
    ) -> Result<Reply> {
        let (length, peeks) = (call.length(), call.request.flags & flag::PEEK != 0);
        let peer = self.handles.socket(place).and_then(|socket| socket.peer);
        loop {
            let socket = own.next(&self.stack);
            let socket = self.stack.datagrams(socket);
            let Ok((_, from)) = socket.peek() else { return Err(Halt::Park(Key::Readable(place))) };
            let (address, port) = (bytes_of(from.endpoint.addr), from.endpoint.port);
            let wanted = peer.is_none_or(|peer| peer == (address, port));
            let found = if peeks && wanted {
                socket.peek().map(|(datagram, _)| datagram)
            } else {
                socket.recv().map(|(datagram, _)| datagram)
            };
            // Cannot fail: there is one.
            let datagram = found.map_err(|_| Errno::Again)?;
            // A connected socket receives from its peer alone.
            if wanted {
                let some = datagram.len().min(length);
                call.bulk[..some].copy_from_slice(&datagram[..some]);
                return Ok(Reply { filled: some as u32, address, port, ..moved(datagram.len()) });
            }
        }
    }

    pub(crate) fn do_shut(&mut self, call: &Call<'_>) -> Result<Reply> {
        let how = call.request.value;
        if how == 0 || how & !(shut::READ | shut::WRITE) != 0 {
            return Err(Errno::Inval.into());
        }
        let (place, kind) = self.entry(call)?;
        match kind {
            Kind::Stream(stream) if stream.connected => {
                stream.shut |= how & shut::WRITE != 0;
                let socket = stream.socket;
                self.stack.touch(socket);
            }
            Kind::Ended(ended) if !ended.reset => {}
            Kind::Udp(..) | Kind::FreshUdp => return Err(Errno::Notsup.into()),
            _ => return Err(Errno::Notconn.into()),
        }
        if how & shut::READ != 0
            && let Some(socket) = self.handles.socket_mut(place)
        {
            socket.shut_read = true;
        }
        Ok(Reply::default())
    }
}

impl Ended {
    fn receive(&mut self, into: &mut [u8], peeks: bool) -> Result<Reply> {
        if self.rest.is_empty() && self.reset && !into.is_empty() {
            return Err(Errno::Connreset.into());
        }
        let bytes = into.len().min(self.rest.len());
        into.iter_mut().zip(&self.rest).for_each(|(to, byte)| *to = *byte);
        if !peeks {
            self.rest.drain(..bytes);
        }
        Ok(filled(bytes))
    }
}
