//! The operations of the network service that are about a socket: its state, its names, its
//! options, and whether it is ready.

use crate::pairs::Seen;
use crate::service::{Call, Halt, Key, Net, Result};
use crate::sockets::{Kind, Socket, is_connecting};
use crate::stack::ns;
use abi::net::{Errno, POLLS, Poll, Reply, Request, State, flag, option, ready};
use abi::net::{RESERVED_WAITS, SMALL_WAITS, SYSTEM_WAITS, TREE_WAITS};
use alloc::vec::Vec;
use share::Token;
use smoltcp::socket::tcp;
use zerocopy::{FromBytes, IntoBytes};

/// Options that are kept.
const KEPT: [u16; 5] =
    [option::REUSEADDR, option::NODELAY, option::KEEPALIVE, option::BROADCAST, option::V6ONLY];

impl Net {
    pub(crate) fn do_state(&mut self, call: &Call<'_>) -> Result<Reply> {
        let place = self.handles.place(call.request.handle)?;
        let socket = self.handles.socket(place).ok_or(Errno::Badf)?;
        let (state, port) = self.state_of(socket);
        let value = socket.kind.waiting(&self.stack) as u64;
        let (state, flags, address) = (state as u16, socket.flags(), socket.address);
        Ok(Reply { state, flags, address, port, value, ..Reply::default() })
    }

    /// Returns the state of a socket, and its local port.
    pub(crate) fn state_of(&self, socket: &Socket) -> (State, u16) {
        match &socket.kind {
            Kind::FreshUdp => (State::Datagrams, 0),
            &Kind::Fresh(port) => (State::Fresh, port),
            Kind::Udp(own) => (State::Datagrams, own.port),
            Kind::Listener(of) => (State::Listening, of.port),
            Kind::Ended(of) => (if of.reset { State::Reset } else { State::Ended }, of.port),
            Kind::Loopback(near) => match self.stack.pairs.see(near.end) {
                Some(it) => (pair_state(it), it.own.name.1),
                None => (State::Ended, near.bound),
            },
            &Kind::Stream(stream) => {
                let of = self.stack.see_stream(stream.socket);
                let port = of.local_endpoint().map_or(stream.bound, |own| own.port);
                (tcp_state(of.state(), stream.shut), port)
            }
        }
    }

    pub(crate) fn do_peer(&mut self, call: &Call<'_>) -> Result<Reply> {
        let place = self.handles.place(call.request.handle)?;
        let socket = self.handles.socket(place).ok_or(Errno::Badf)?;
        let (address, port) = socket.peer.ok_or(Errno::Notconn)?;
        Ok(Reply { address, port, flags: socket.flags(), ..Reply::default() })
    }

    pub(crate) fn do_set_flags(&mut self, call: &Call<'_>) -> Result<Reply> {
        let place = self.handles.place(call.request.handle)?;
        let socket = self.handles.socket_mut(place).ok_or(Errno::Badf)?;
        socket.nonblock = call.request.flags & flag::NONBLOCK != 0;
        Ok(Reply::default())
    }

    pub(crate) fn do_dup(&mut self, call: &Call<'_>) -> Result<Reply> {
        let place = self.handles.place(call.request.handle)?;
        let handle = self.handles.dup(Net::owner(call), place)?;
        Ok(Reply { handle, ..Reply::default() })
    }

    pub(crate) fn do_get_option(&mut self, call: &Call<'_>) -> Result<Reply> {
        let place = self.handles.place(call.request.handle)?;
        let socket = self.handles.socket(place).ok_or(Errno::Badf)?;
        let (receive, send) = socket.kind.buffers(&self.stack);
        let value = match call.request.option {
            option::ERROR => self.take_error(place) as u64,
            option::RCVBUF => receive as u64,
            option::SNDBUF => send as u64,
            option::ACCEPTCONN => u64::from(matches!(socket.kind, Kind::Listener(_))),
            option::V6ONLY if !socket.is_v6 => return Err(Errno::Noprotoopt.into()),
            kept if KEPT.contains(&kept) => u64::from(socket.options >> kept & 1),
            _ => return Err(Errno::Noprotoopt.into()),
        };
        Ok(Reply { value, ..Reply::default() })
    }

    /// Returns the error of a connection that no request has reported yet.
    fn take_error(&mut self, place: u32) -> Errno {
        if let Some(&Kind::Stream(stream)) = self.handles.get(place) {
            let state = self.stack.see_stream(stream.socket).state();
            if !stream.connected && state == tcp::State::Closed {
                self.refused(place, stream);
                return stream.failure(ns(self.stack.now));
            }
        }
        let error = self.handles.socket_mut(place).and_then(|socket| socket.error.take());
        error.unwrap_or(Errno::Success)
    }

    pub(crate) fn do_set_option(&mut self, call: &Call<'_>) -> Result<Reply> {
        let place = self.handles.place(call.request.handle)?;
        let socket = self.handles.socket_mut(place).ok_or(Errno::Badf)?;
        match call.request.option {
            option::RCVBUF | option::SNDBUF => {}
            option::V6ONLY if !socket.is_v6 => return Err(Errno::Noprotoopt.into()),
            option::V6ONLY if socket.is_bound() => return Err(Errno::Inval.into()),
            kept if KEPT.contains(&kept) => {
                let bit = 1 << kept;
                socket.options &= !bit;
                if call.request.value != 0 {
                    socket.options |= bit;
                }
                if let (option::NODELAY, &Kind::Stream(stream)) = (kept, &socket.kind) {
                    let socket = self.stack.stream(stream.socket);
                    socket.set_nagle_enabled(call.request.value == 0);
                }
            }
            _ => return Err(Errno::Noprotoopt.into()),
        }
        Ok(Reply::default())
    }

    /// Fills in every entry; a handle with an error counts as ready. With WAIT and nothing ready,
    /// the caller is parked at all sockets, and woken once.
    pub(crate) fn do_poll(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let (length, one) = (call.length(), size_of::<Poll>());
        if length == 0 || !length.is_multiple_of(one) || length / one > POLLS {
            return Err(Errno::Inval.into());
        }
        let (mut polls, mut keys, mut count) = (Vec::new(), Vec::new(), 0);
        polls.try_reserve_exact(length / one).map_err(|_| Errno::Nomem)?;
        keys.try_reserve_exact(2 * (length / one)).map_err(|_| Errno::Nomem)?;
        for piece in call.bulk[..length].chunks_exact(one) {
            let mut poll = Poll::read_from_bytes(piece).map_err(|_| Errno::Inval)?;
            count += u64::from(self.poll_one(&mut poll, &mut keys));
            polls.push(poll);
        }
        if count == 0 && call.request.flags & flag::WAIT != 0 {
            return Err(self.park_all(call, &mut keys));
        }
        call.bulk[..length].copy_from_slice(polls.as_bytes());
        Ok(Reply { value: count, filled: length as u32, ..Reply::default() })
    }

    /// Fills in one entry. Returns false, after adding the keys to wait for, if it is not ready.
    fn poll_one(&self, poll: &mut Poll, keys: &mut Vec<Key>) -> bool {
        (poll.got, poll.bytes, poll.error) = (0, 0, 0);
        let place = match self.handles.place(poll.handle) {
            Ok(place) => place,
            Err(error) => {
                poll.error = error as u16;
                return true;
            }
        };
        let Some(socket) = self.handles.socket(place) else { return false };
        let reads = poll.want & ready::READ != 0;
        if reads {
            keys.push(Key::Readable(place));
            if socket.shut_read || socket.kind.readable(&self.stack) {
                poll.got |= ready::READ;
                poll.bytes = socket.kind.waiting(&self.stack) as u64;
            }
        }
        if poll.want & ready::WRITE != 0 {
            keys.push(Key::Writable(place));
            if socket.kind.writable(&self.stack) {
                poll.got |= ready::WRITE;
                poll.bytes = if reads { poll.bytes } else { socket.kind.space(&self.stack) as u64 };
            }
        }
        let wants_nothing = poll.want & (ready::READ | ready::WRITE) == 0;
        if wants_nothing {
            keys.push(Key::Over(place));
        }
        if (poll.got != 0 || wants_nothing) && socket.kind.is_over(&self.stack) {
            poll.got |= ready::HANGUP;
        }
        poll.got != 0
    }

    fn park_all(&mut self, call: &Call<'_>, keys: &mut [Key]) -> Halt {
        let Some(&key) = keys.first() else { return Halt::Failed(Errno::Inval) };
        match self.park(call.token, keys, call.request.tree) {
            Ok(()) => Halt::Park(key),
            Err(why) => Halt::Failed(why),
        }
    }

    /// Parks a caller that waits for nothing yet, if its process tree may wait for so many keys.
    pub(crate) fn park(
        &mut self,
        token: Token,
        keys: &mut [Key],
        tree: u32,
    ) -> core::result::Result<(), Errno> {
        let own = self.parked.held_by(tree) + keys.len();
        let left = self.parked.left().saturating_sub(keys.len());
        let is_small = own <= SMALL_WAITS && left >= SYSTEM_WAITS;
        let is_allowed = own <= TREE_WAITS && left >= SYSTEM_WAITS + RESERVED_WAITS;
        if tree != 0 && !is_small && !is_allowed {
            return Err(Errno::Nomem);
        }
        self.parked.park_all(token, keys, tree).ok_or(Errno::Nomem)
    }

    /// Returns whether the socket that a request is about, or the request, must not wait.
    pub(crate) fn must_not_wait(&self, request: &Request) -> bool {
        let place = self.handles.place(request.handle);
        let socket = place.ok().and_then(|place| self.handles.socket(place));
        request.flags & flag::NONBLOCK != 0 || socket.is_some_and(|socket| socket.nonblock)
    }

    /// Returns what a request that must not wait gets.
    pub(crate) fn would_wait(&self, request: &Request, key: Key) -> Errno {
        let (Key::Readable(place) | Key::Writable(place) | Key::Over(place)) = key;
        match self.handles.get(place) {
            Some(Kind::Stream(stream))
                if request.op == abi::net::Op::Connect as u16
                    && is_connecting(self.stack.see_stream(stream.socket)) =>
            {
                Errno::Inprogress
            }
            _ => Errno::Again,
        }
    }
}

fn pair_state(seen: Seen<'_>) -> State {
    match (seen.own.has_ended, seen.other.has_ended) {
        _ if seen.own.is_reset => State::Reset,
        (true, true) => State::Ended,
        (true, false) => State::Shut,
        (false, true) => State::Ending,
        (false, false) => State::Connected,
    }
}

fn tcp_state(state: tcp::State, shut: bool) -> State {
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
