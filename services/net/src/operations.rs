//! The operations of the network service on streams and listeners.

use crate::addresses::{Local, Side, bytes_of};
use crate::listener::{Listener, is_scarce};
use crate::service::{Call, Halt, Key, Net, Result};
use crate::sockets::{Ended, Kind, Owner, Stream, address_of, is_connecting};
use crate::stack::ns;
use abi::net::{ANY, Address, BACKLOG, Errno, LOCALHOST, LOCALHOST_V6, Reply};
use abi::net::{flag, option, shut, to_v4};
use alloc::collections::VecDeque;
use smoltcp::socket::tcp::{self, RecvError};
use smoltcp::wire::IpEndpoint;

pub(crate) fn moved(bytes: usize) -> Reply {
    Reply { value: bytes as u64, ..Reply::default() }
}

/// Returns a reply for `bytes` bytes written to the bulk.
pub(crate) fn filled(bytes: usize) -> Reply {
    Reply { filled: bytes as u32, ..moved(bytes) }
}

pub(crate) fn at_port(port: u16) -> Reply {
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
        let is_v6 = call.request.flags & flag::V6 != 0;
        let handle = self.handles.open(Net::owner(call), kind, is_v6)?;
        Ok(Reply { handle, ..Reply::default() })
    }

    /// Returns `wanted` if it is free at `local`, or an ephemeral port if it is 0.
    pub(crate) fn port(&mut self, wanted: u16, udp: bool, local: Local) -> Result<u16> {
        let handles = &self.handles;
        let taken = |port| match udp {
            true => handles.has_udp(port, local),
            false => handles.has_tcp(port, local),
        };
        match wanted {
            0 => Ok(self.stack.any_port(taken)?),
            port if taken(port) => Err(Errno::Addrinuse.into()),
            port => Ok(port),
        }
    }

    pub(crate) fn do_bind(&mut self, call: &Call<'_>) -> Result<Reply> {
        let wanted = call.request.port;
        let place = self.handles.place(call.request.handle)?;
        let local = self.local_of(place, call.request.address)?;
        let (place, udp) = match self.entry(call)? {
            (place, Kind::FreshUdp) => (place, true),
            (place, Kind::Fresh(0)) => (place, false),
            (_, Kind::Udp(..) | Kind::Fresh(_)) => return Err(Errno::Inval.into()),
            _ => return Err(Errno::Isconn.into()),
        };
        let port = match udp {
            true => self.bind_udp_to_hear(place, wanted, local)?,
            false => self.port(wanted, false, local)?,
        };
        let address = local.address;
        if let Some(socket) = self.handles.socket_mut(place) {
            socket.address = address;
            if !udp {
                socket.kind = Kind::Fresh(port);
            }
        }
        Ok(at_port(port))
    }

    /// Checks an address that a socket is to be bound to.
    fn local_of(&self, place: u32, address: Address) -> Result<Local> {
        let socket = self.handles.socket(place).ok_or(Errno::Badf)?;
        if socket.is_v6_only() && to_v4(address).is_some() {
            return Err(Errno::Inval.into());
        }
        socket.reaches(address)?;
        if !self.stack.is_ours(address) {
            return Err(Errno::Addrnotavail.into());
        }
        Ok(Local { address, v6_only: socket.is_v6_only() })
    }

    pub(crate) fn do_listen(&mut self, call: &Call<'_>) -> Result<Reply> {
        let backlog = usize::from(call.request.backlog.clamp(1, BACKLOG));
        let (place, bound) = match self.entry(call)? {
            (place, &mut Kind::Fresh(bound)) => (place, bound),
            (_, Kind::Listener(listener)) => {
                listener.backlog = backlog;
                return Ok(at_port(listener.port));
            }
            (_, Kind::Udp(..) | Kind::FreshUdp) => return Err(Errno::Notsup.into()),
            _ => return Err(Errno::Isconn.into()),
        };
        let local = self.handles.socket(place).ok_or(Errno::Badf)?.local();
        let port = if bound == 0 { self.port(call.request.port, false, local)? } else { bound };
        let (coming, ready) = (VecDeque::new(), VecDeque::new());
        let listener = Listener { port, bound, local, backlog, coming, ready };
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
        let is_v6 = self.handles.socket(place).is_some_and(|socket| socket.is_v6);
        let handle = self.handles.open(Net::owner(call), Kind::Stream(stream), is_v6)?;
        let (address, port) = remote.map_or((ANY, 0), |of| (bytes_of(of.addr), of.port));
        let made = self.handles.place(handle)?;
        let made = self.handles.socket_mut(made).ok_or(Errno::Badf)?;
        (made.address, made.peer) = (local, Some((address, port)));
        Ok(Reply { handle, address, port, flags: made.flags(), ..Reply::default() })
    }

    pub(crate) fn do_connect(&mut self, call: &Call<'_>) -> Result<Reply> {
        let (place, stream) = match self.entry(call)? {
            // Another caller knows already that it was refused.
            (_, Kind::Fresh(_)) if call.again => return Err(Errno::Connrefused.into()),
            (place, &mut Kind::Fresh(bound)) => (place, self.begin(call, place, bound)?),
            (place, &mut Kind::Stream(stream)) => (place, stream),
            (place, Kind::Udp(..) | Kind::FreshUdp) => return self.connect_udp(call, place),
            (_, Kind::Ended(Ended { reset: true, .. })) if call.again => {
                return Err(Errno::Connreset.into());
            }
            (_, Kind::Ended(ended)) if call.again => return Ok(at_port(ended.port)),
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

    /// Starts a connection. On loopback it is usually complete when this returns.
    fn begin(&mut self, call: &Call<'_>, place: u32, bound: u16) -> Result<Stream> {
        let own = self.handles.socket(place).ok_or(Errno::Badf)?;
        own.reaches(call.request.address)?;
        let (side, to) = self.stack.endpoint(call.request.address, call.request.port)?;
        let (local, waits) = (own.local(), own.options >> option::NODELAY & 1 == 0);
        let is_local = [LOCALHOST, LOCALHOST_V6].contains(&local.address);
        if side == Side::Outside && is_local {
            return Err(Errno::Inval.into());
        }
        if is_scarce(&self.stack, side) && !self.handles.is_small(call.request.tree) {
            return Err(Errno::Nobufs.into());
        }
        let from = if bound == 0 { self.port(0, false, local)? } else { bound };
        let socket = self.stack.add_tcp(side)?;
        if let Err(why) = self.stack.connect(socket, to, from) {
            self.stack.remove_tcp(socket, true);
            return Err(why.into());
        }
        let local = address_of(self.stack.see_stream(socket));
        match side {
            Side::Loopback => self.meet(to),
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

    /// Completes a connection on loopback that has begun, if a listener hears it.
    fn meet(&mut self, to: IpEndpoint) {
        let address = bytes_of(to.addr);
        if let Some(listener) = self.handles.listener(to.port, address) {
            listener.admit(&mut self.stack, Side::Loopback, address);
        }
        self.stack.settle();
        if let Some(listener) = self.handles.listener(to.port, address) {
            listener.settle(&mut self.stack);
        }
    }

    pub(crate) fn do_send(&mut self, call: &Call<'_>) -> Result<Reply> {
        let (place, stream) = match self.entry(call)? {
            (place, Kind::Udp(_) | Kind::FreshUdp) => return self.send_datagram(call, place),
            (place, &mut Kind::Stream(stream)) => (place, stream),
            (place, Kind::Ended(_)) => {
                return Err(self.handles.pending(place).unwrap_or(Errno::Pipe).into());
            }
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

    pub(crate) fn do_receive(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let length = call.length();
        let peeks = call.request.flags & flag::PEEK != 0;
        let error = self.handles.place(call.request.handle).ok();
        let error = error.and_then(|place| self.handles.pending(place));
        let (place, stream) = match self.entry(call)? {
            (place, Kind::Udp(_) | Kind::FreshUdp) => return self.receive_datagram(call, place),
            (_, Kind::Ended(ended)) => {
                return ended.receive(&mut call.bulk[..length], peeks, error);
            }
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
            Kind::Listener(_) => return self.shut_listener(place, how),
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

impl Net {
    /// Ends a listener whose receiving direction is shut, as Linux does: it is fresh again, with
    /// its port if it was bound. Shutting the other direction changes nothing.
    fn shut_listener(&mut self, place: u32, how: u32) -> Result<Reply> {
        if how & shut::READ != 0
            && let Some(kind) = self.handles.get_mut(place)
            && let Kind::Listener(Listener { bound, .. }) = *kind
        {
            let listener = core::mem::replace(kind, Kind::Fresh(bound));
            self.end(Some(listener), true);
        }
        Ok(Reply::default())
    }
}

impl Ended {
    /// Receives what is left, then `error`, then the end.
    fn receive(&mut self, into: &mut [u8], peeks: bool, error: Option<Errno>) -> Result<Reply> {
        if self.rest.is_empty()
            && !into.is_empty()
            && let Some(error) = error
        {
            return Err(error.into());
        }
        let bytes = into.len().min(self.rest.len());
        into.iter_mut().zip(&self.rest).for_each(|(to, byte)| *to = *byte);
        if !peeks {
            self.rest.drain(..bytes);
        }
        Ok(filled(bytes))
    }
}
