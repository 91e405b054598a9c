//! The operations of the network service on streams and listeners.

use crate::addresses::{Local, Peer, Side, bytes_of};
use crate::inbox::copy_first;
use crate::listener::{Listener, Ready, is_scarce};
use crate::pairs::End;
use crate::service::{Call, Halt, Key, Net, Result};
use crate::sockets::{Ended, Kind, Near, Owner, Stream, address_of, is_connecting};
use crate::stack::ns;
use abi::net::{ANY, Address, BACKLOG, Errno, LOCALHOST, LOCALHOST_V6, Reply};
use abi::net::{flag, option, shut, to_v4};
use alloc::collections::VecDeque;
use smoltcp::socket::tcp::{self, RecvError};

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
        let ready = listener.ready.pop_front().ok_or(Errno::Again)?;
        let (kind, local, peer) = self.accepted(ready);
        let is_v6 = self.handles.socket(place).is_some_and(|socket| socket.is_v6);
        let handle = self.handles.open(Net::owner(call), kind, is_v6)?;
        let place = self.handles.place(handle)?;
        let made = self.handles.socket_mut(place).ok_or(Errno::Badf)?;
        (made.address, made.peer) = (local, Some(peer));
        if let Ready::Loopback(end) = ready {
            self.stack.pairs.place(end, place);
            let is_reset = self.stack.pairs.see(end).is_some_and(|it| it.own.is_reset);
            made.error = is_reset.then_some(Errno::Connreset);
        }
        let (address, port) = peer;
        Ok(Reply { handle, address, port, flags: made.flags(), ..Reply::default() })
    }

    /// Returns what the socket of an accepted connection is, its address, and its peer.
    fn accepted(&mut self, ready: Ready) -> (Kind, Address, Peer) {
        match ready {
            Ready::Loopback(end) => {
                let names = self.stack.pairs.see(end).map(|it| (it.own.name.0, it.other.name));
                let (local, peer) = names.unwrap_or((ANY, (ANY, 0)));
                (Kind::Loopback(Near { end, bound: 0 }), local, peer)
            }
            Ready::Outside(socket) => {
                // It may have ended while it waited.
                self.stack.touch();
                let found = self.stack.see_stream(socket);
                let peer = found.remote_endpoint();
                let peer = peer.map_or((ANY, 0), |of| (bytes_of(of.addr), of.port));
                let stream = Stream { socket, bound: 0, connected: true, shut: false, began: 0 };
                (Kind::Stream(stream), address_of(found), peer)
            }
        }
    }

    pub(crate) fn do_connect(&mut self, call: &Call<'_>) -> Result<Reply> {
        let (place, stream) = match self.entry(call)? {
            // Another caller knows already that it was refused.
            (_, Kind::Fresh(_)) if call.again => return Err(Errno::Connrefused.into()),
            (place, &mut Kind::Fresh(bound)) => match self.begin(call, place, bound)? {
                Begun::Complete(port) => return Ok(at_port(port)),
                Begun::Under(stream) => (place, stream),
            },
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

    /// Starts a connection.
    fn begin(&mut self, call: &Call<'_>, place: u32, bound: u16) -> Result<Begun> {
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
        if side == Side::Loopback {
            let to: Peer = (bytes_of(to.addr), to.port);
            let is_like_to = |own: &Address| to_v4(*own).is_some() == to_v4(to.0).is_some();
            let own = local.specific().filter(is_like_to).unwrap_or(to.0);
            return self.meet(place, bound, [(own, from), to]);
        }
        let socket = self.stack.add_tcp()?;
        if let Err(why) = self.stack.connect(socket, to, from) {
            self.stack.remove_tcp(socket, true);
            return Err(why.into());
        }
        let local = address_of(self.stack.see_stream(socket));
        self.stack.stream(socket).set_nagle_enabled(waits);
        let began = ns(self.stack.now);
        let stream = Stream { socket, bound, connected: false, shut: false, began };
        if let Some(socket) = self.handles.socket_mut(place) {
            (socket.kind, socket.address) = (Kind::Stream(stream), local);
            socket.peer = Some((bytes_of(to.addr), to.port));
        }
        Ok(Begun::Under(stream))
    }

    /// Connects the first of two names with the second on loopback, if a listener hears it there.
    fn meet(&mut self, place: u32, bound: u16, names: [Peer; 2]) -> Result<Begun> {
        let [from, to] = names;
        if self.stack.pairs.has(from.1, to) {
            return Err(Errno::Addrnotavail.into());
        }
        let listener = self.handles.listener(to.1, to.0).ok_or(Errno::Connrefused)?;
        if !listener.has_room(&mut self.stack, Side::Loopback) {
            return Err(Errno::Connrefused.into());
        }
        let end = self.stack.pair(names)?;
        listener.ready.push_back(Ready::Loopback(end.other()));
        self.stack.pairs.place(end, place);
        if let Some(socket) = self.handles.socket_mut(place) {
            (socket.kind, socket.address) = (Kind::Loopback(Near { end, bound }), from.0);
            socket.peer = Some(to);
        }
        Ok(Begun::Complete(from.1))
    }

    pub(crate) fn do_send(&mut self, call: &Call<'_>) -> Result<Reply> {
        let (place, stream) = match self.entry(call)? {
            (place, Kind::Udp(_) | Kind::FreshUdp) => return self.send_datagram(call, place),
            (place, &mut Kind::Loopback(near)) => return self.send_near(call, place, near),
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
        self.stack.touch();
        match sent {
            Ok(0) if !bytes.is_empty() => Err(Halt::Park(Key::Writable(place))),
            Ok(sent) => Ok(moved(sent)),
            Err(_) => Err(Errno::Notconn.into()),
        }
    }

    pub(crate) fn do_receive(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let length = call.length();
        let peeks = call.request.flags & flag::PEEK != 0;
        let (place, stream) = match self.entry(call)? {
            (place, Kind::Udp(_) | Kind::FreshUdp) => return self.receive_datagram(call, place),
            (place, Kind::Ended(_)) => return self.receive_rest(call, place, peeks),
            (place, &mut Kind::Loopback(near)) => return self.receive_near(call, place, near),
            (place, &mut Kind::Stream(stream)) => (place, stream),
            _ => return Err(Errno::Notconn.into()),
        };
        let ends = self.handles.socket(place).is_some_and(|socket| socket.shut_read);
        // Reading may open the window again.
        self.stack.touch();
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
                self.stack.touch();
            }
            &mut Kind::Loopback(near) => self.shut_near(near, how)?,
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

/// A connection that was started.
enum Begun {
    /// It is complete, from this port.
    Complete(u16),
    /// It is under way.
    Under(Stream),
}

/// Streams on loopback.
impl Net {
    fn send_near(&mut self, call: &Call<'_>, place: u32, near: Near) -> Result<Reply> {
        let seen = self.stack.pairs.see(near.end).ok_or(Errno::Pipe)?;
        if seen.has_sent_all() {
            return Err(self.handles.pending(place).unwrap_or(Errno::Pipe).into());
        }
        let (bytes, reached) = (&call.bulk[..call.length()], seen.other.socket);
        self.is_direct = seen.other.is_open;
        match self.stack.pairs.send(near.end, bytes) {
            0 if !bytes.is_empty() => Err(Halt::Park(Key::Writable(place))),
            sent => {
                self.reached = reached;
                Ok(moved(sent))
            }
        }
    }

    fn receive_near(&mut self, call: &mut Call<'_>, place: u32, near: Near) -> Result<Reply> {
        let (length, peeks) = (call.length(), call.request.flags & flag::PEEK != 0);
        let seen = self.stack.pairs.see(near.end).ok_or(Errno::Badf)?;
        let (is_readable, reached) = (seen.is_readable(), seen.other.socket);
        let shut = self.handles.socket(place).is_some_and(|socket| socket.shut_read);
        self.is_direct = true;
        match self.stack.pairs.receive(near.end, &mut call.bulk[..length], peeks) {
            0 if length > 0 && !is_readable && !shut => Err(Halt::Park(Key::Readable(place))),
            0 if length > 0
                && let Some(error) = self.handles.pending(place) =>
            {
                Err(error.into())
            }
            received => {
                self.reached = reached;
                Ok(filled(received))
            }
        }
    }

    fn shut_near(&mut self, near: Near, how: u32) -> Result<()> {
        let seen = self.stack.pairs.see(near.end).ok_or(Errno::Notconn)?;
        if seen.own.is_reset {
            return Err(Errno::Notconn.into());
        }
        if how & shut::WRITE != 0 {
            self.stack.pairs.shut(near.end);
        }
        Ok(())
    }

    /// Closes an end; `lost`: with the kernel that had it.
    pub(crate) fn close_near(&mut self, end: End, lost: bool) {
        if let Some(reset) = self.stack.close_end(end, lost)
            && let Some(socket) = self.handles.socket_mut(reset)
        {
            socket.error = Some(Errno::Connreset);
        }
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

    /// Receives what a connection that has ended left, then its error, then the end.
    fn receive_rest(&mut self, call: &mut Call<'_>, place: u32, peeks: bool) -> Result<Reply> {
        let length = call.length();
        let into = &mut call.bulk[..length];
        let error = self.handles.pending(place);
        let Some(Kind::Ended(Ended { rest, .. })) = self.handles.get_mut(place) else {
            return Err(Errno::Badf.into());
        };
        if rest.is_empty()
            && !into.is_empty()
            && let Some(error) = error
        {
            return Err(error.into());
        }
        let bytes = copy_first(rest, into);
        if !peeks {
            rest.drain(..bytes);
        }
        Ok(filled(bytes))
    }
}
