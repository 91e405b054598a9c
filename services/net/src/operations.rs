//! The operations of the network service.

use crate::service::{Call, Halt, Key, Net, Result};
use crate::sockets::{Ended, Kind, Listener, Stream, is_connecting};
use crate::stack::{SocketHandle, bytes_of, endpoint};
use abi::net::{BACKLOG, DATAGRAM, Errno, Reply, State};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use smoltcp::socket::tcp::{self, RecvError};
use smoltcp::socket::udp;

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

    pub(crate) fn do_udp(&mut self, call: &Call<'_>) -> Result<Reply> {
        self.handles.room()?;
        let socket = self.stack.add_udp()?;
        let handle = self.handles.open(call.token, Kind::Udp(socket, 0))?;
        Ok(Reply { handle, ..Reply::default() })
    }

    pub(crate) fn do_tcp(&mut self, call: &Call<'_>) -> Result<Reply> {
        let handle = self.handles.open(call.token, Kind::Fresh(0))?;
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
        let wanted = call.request.port;
        let place = match self.entry(call)? {
            (_, &mut Kind::Udp(socket, 0)) => return self.bind_udp(call, socket),
            (place, Kind::Fresh(0)) => place,
            (_, Kind::Udp(..) | Kind::Fresh(_)) => return Err(Errno::Inval.into()),
            _ => return Err(Errno::Isconn.into()),
        };
        let port = self.port(wanted, false)?;
        if let Some(kind) = self.handles.get_mut(place) {
            *kind = Kind::Fresh(port);
        }
        Ok(at_port(port))
    }

    fn bind_udp(&mut self, call: &Call<'_>, socket: SocketHandle) -> Result<Reply> {
        let port = self.port(call.request.port, true)?;
        self.stack.datagrams(socket).bind(port).map_err(|_| Errno::Inval)?;
        let (_, kind) = self.entry(call)?;
        *kind = Kind::Udp(socket, port);
        Ok(at_port(port))
    }

    pub(crate) fn do_listen(&mut self, call: &Call<'_>) -> Result<Reply> {
        let place = match self.entry(call)? {
            (place, Kind::Fresh(_)) => place,
            (_, Kind::Udp(..)) => return Err(Errno::Notsup.into()),
            _ => return Err(Errno::Isconn.into()),
        };
        let port = match self.handles.get(place) {
            Some(&Kind::Fresh(bound @ 1..)) => bound,
            _ => self.port(call.request.port, false)?,
        };
        let backlog = usize::from(call.request.backlog.clamp(1, BACKLOG));
        let (waiting, ready) = (Vec::new(), VecDeque::new());
        let mut listener = Listener { port, backlog, waiting, ready };
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
        self.handles.room()?;
        let Some(Kind::Listener(listener)) = self.handles.get_mut(place) else {
            return Err(Errno::Badf.into());
        };
        let socket = listener.ready.pop_front().ok_or(Errno::Again)?;
        let remote = self.stack.stream(socket).remote_endpoint();
        let stream = Stream { socket, bound: 0, connected: true, shut: false };
        let handle = self.handles.open(call.token, Kind::Stream(stream))?;
        let (address, port) = remote.map_or(([0; 4], 0), |of| (bytes_of(of.addr), of.port));
        Ok(Reply { handle, address, port, ..Reply::default() })
    }

    pub(crate) fn do_connect(&mut self, call: &Call<'_>) -> Result<Reply> {
        let (place, stream) = match self.entry(call)? {
            (place, &mut Kind::Fresh(bound)) => (place, self.begin(call, place, bound)?),
            (place, &mut Kind::Stream(stream)) => (place, stream),
            (_, Kind::Udp(..)) => return Err(Errno::Notsup.into()),
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
            self.stack.remove_tcp(stream.socket, true);
            if let Some(kind) = self.handles.get_mut(place) {
                *kind = Kind::Fresh(stream.bound);
            }
            return Err(Errno::Connrefused.into());
        }
        Ok(at_port(socket.local_endpoint().map_or(0, |own| own.port)))
    }

    /// Starts a connection. On loopback it is usually complete when this returns.
    fn begin(&mut self, call: &Call<'_>, place: u32, bound: u16) -> Result<Stream> {
        let to = endpoint(call.request.address, call.request.port)?;
        let from = if bound == 0 { self.port(0, false)? } else { bound };
        let socket = self.stack.add_tcp()?;
        if let Err(why) = self.stack.connect(socket, to, from) {
            self.stack.remove_tcp(socket, true);
            return Err(why.into());
        }
        self.stack.settle();
        let stream = Stream { socket, bound, connected: false, shut: false };
        if let Some(kind) = self.handles.get_mut(place) {
            *kind = Kind::Stream(stream);
        }
        Ok(stream)
    }

    pub(crate) fn do_send(&mut self, call: &Call<'_>) -> Result<Reply> {
        let (place, stream) = match self.entry(call)? {
            (place, &mut Kind::Udp(socket, port)) => {
                return self.send_datagram(call, place, socket, port);
            }
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
        match socket.send_slice(bytes) {
            Ok(0) if !bytes.is_empty() => Err(Halt::Park(Key::Writable(place))),
            Ok(sent) => Ok(moved(sent)),
            Err(_) => Err(Errno::Notconn.into()),
        }
    }

    fn send_datagram(
        &mut self,
        call: &Call<'_>,
        place: u32,
        socket: SocketHandle,
        port: u16,
    ) -> Result<Reply> {
        let to = endpoint(call.request.address, call.request.port)?;
        let length = call.request.length as usize;
        // A datagram is sent whole or not at all.
        if length > DATAGRAM || length > call.bulk.len() {
            return Err(Errno::Msgsize.into());
        }
        if port == 0 {
            self.bind_udp(&Call { request: unbound(call), bulk: &mut [], ..*call }, socket)?;
        }
        match self.stack.datagrams(socket).send_slice(&call.bulk[..length], to) {
            Ok(()) => Ok(moved(length)),
            Err(udp::SendError::BufferFull) => Err(Halt::Park(Key::Writable(place))),
            Err(udp::SendError::Unaddressable) => Err(Errno::Netunreach.into()),
        }
    }

    pub(crate) fn do_receive(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let length = call.length();
        let (place, stream) = match self.entry(call)? {
            (place, &mut Kind::Udp(socket, _)) => {
                return self.receive_datagram(call, place, socket);
            }
            (_, Kind::Ended(ended)) => return ended.receive(&mut call.bulk[..length]),
            (place, &mut Kind::Stream(stream)) => (place, stream),
            _ => return Err(Errno::Notconn.into()),
        };
        let socket = self.stack.stream(stream.socket);
        if is_connecting(socket) || !stream.connected {
            return Err(Errno::Notconn.into());
        }
        match socket.recv_slice(&mut call.bulk[..length]) {
            Ok(0) if length > 0 => Err(Halt::Park(Key::Readable(place))),
            Ok(bytes) => Ok(filled(bytes)),
            Err(RecvError::Finished) => Ok(filled(0)),
            Err(RecvError::InvalidState) => Err(Errno::Connreset.into()),
        }
    }

    fn receive_datagram(
        &mut self,
        call: &mut Call<'_>,
        place: u32,
        socket: SocketHandle,
    ) -> Result<Reply> {
        let length = call.length();
        let Ok((datagram, from)) = self.stack.datagrams(socket).recv() else {
            return Err(Halt::Park(Key::Readable(place)));
        };
        let some = datagram.len().min(length);
        call.bulk[..some].copy_from_slice(&datagram[..some]);
        let (address, port) = (bytes_of(from.endpoint.addr), from.endpoint.port);
        Ok(Reply { filled: some as u32, address, port, ..moved(datagram.len()) })
    }

    pub(crate) fn do_shut(&mut self, call: &Call<'_>) -> Result<Reply> {
        match self.entry(call)? {
            (_, Kind::Stream(stream)) if stream.connected => {
                stream.shut = true;
                Ok(Reply::default())
            }
            (_, Kind::Ended(ended)) if !ended.reset => Ok(Reply::default()),
            (_, Kind::Udp(..)) => Err(Errno::Notsup.into()),
            _ => Err(Errno::Notconn.into()),
        }
    }

    pub(crate) fn do_state(&mut self, call: &Call<'_>) -> Result<Reply> {
        let place = self.handles.place(call.request.handle)?;
        let kind = self.handles.get(place).ok_or(Errno::Badf)?;
        let (state, port, value) = match kind {
            &Kind::Fresh(port) => (State::Fresh, port, 0),
            &Kind::Udp(socket, port) => {
                let waits = self.stack.see_datagrams(socket).recv_queue();
                (State::Datagrams, port, waits)
            }
            Kind::Listener(of) => (State::Listening, of.port, of.ready.len()),
            Kind::Ended(of) => {
                let state = if of.reset { State::Reset } else { State::Ended };
                (state, of.port, of.rest.len())
            }
            &Kind::Stream(stream) => {
                let socket = self.stack.see_stream(stream.socket);
                let port = socket.local_endpoint().map_or(stream.bound, |own| own.port);
                (state_of(socket.state(), stream.shut), port, socket.recv_queue())
            }
        };
        Ok(Reply { state: state as u16, port, value: value as u64, ..Reply::default() })
    }
}

/// Returns the same request for any port.
fn unbound(call: &Call<'_>) -> abi::net::Request {
    abi::net::Request { port: 0, ..call.request }
}

fn state_of(state: tcp::State, shut: bool) -> State {
    match state {
        tcp::State::Established if shut => State::Shut,
        tcp::State::CloseWait if shut => State::Ended,
        tcp::State::SynSent | tcp::State::SynReceived => State::Connecting,
        tcp::State::Established => State::Connected,
        tcp::State::FinWait1 | tcp::State::FinWait2 => State::Shut,
        tcp::State::CloseWait => State::Ending,
        tcp::State::Closing | tcp::State::LastAck | tcp::State::TimeWait => State::Ended,
        tcp::State::Closed | tcp::State::Listen => State::Reset,
    }
}

impl Ended {
    fn receive(&mut self, into: &mut [u8]) -> Result<Reply> {
        if self.rest.is_empty() && self.reset && !into.is_empty() {
            return Err(Errno::Connreset.into());
        }
        let bytes = into.len().min(self.rest.len());
        into.iter_mut().zip(self.rest.drain(..bytes)).for_each(|(to, byte)| *to = byte);
        Ok(filled(bytes))
    }
}
