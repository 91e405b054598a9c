//! What a socket is ready for, and how much it could transfer.

use crate::budget::LARGEST;
use crate::pairs::Seen;
use crate::sockets::{Kind, is_connecting};
use crate::stack::Stack;
use abi::net::DATAGRAM;

impl Kind {
    /// Returns whether a receive or an accept would not wait.
    pub fn readable(&self, stack: &Stack) -> bool {
        match self {
            Kind::Udp(own) => !own.inbox.is_empty(),
            Kind::Listener(listener) => !listener.ready.is_empty(),
            Kind::Stream(stream) => {
                let socket = stack.see_stream(stream.socket);
                socket.can_recv() || !socket.may_recv() && !is_connecting(socket)
            }
            Kind::Loopback(near) => stack.pairs.see(near.end).is_none_or(Seen::is_readable),
            Kind::FreshUdp => false,
            Kind::Fresh(_) | Kind::Ended(..) => true,
        }
    }

    /// Returns whether a send or a connect is worth a wake: it would not wait, and a stream has
    /// room for a third of its buffer. So a peer that takes a few bytes at a time does not wake the
    /// sender for each of them.
    pub fn writable(&self, stack: &Stack) -> bool {
        match self {
            // On loopback a datagram arrives at once, or is lost.
            Kind::Udp(own) => own.outside.is_none_or(|it| stack.see_datagrams(it).can_send()),
            Kind::Stream(stream) => {
                let socket = stack.see_stream(stream.socket);
                let is_roomy = 3 * self.space(stack) >= socket.send_capacity();
                socket.can_send() && is_roomy || !socket.may_send() && !is_connecting(socket)
            }
            Kind::Loopback(near) => stack.pairs.see(near.end).is_none_or(|it| {
                it.has_sent_all() || it.space() != 0 && 3 * it.space() >= it.other.room
            }),
            Kind::Listener(_) => false,
            Kind::FreshUdp | Kind::Fresh(_) | Kind::Ended(..) => true,
        }
    }

    /// Returns whether a stream has no direction left.
    pub fn is_over(&self, stack: &Stack) -> bool {
        match self {
            Kind::Stream(stream) => {
                let socket = stack.see_stream(stream.socket);
                !is_connecting(socket) && !socket.may_recv() && (stream.shut || !socket.may_send())
            }
            Kind::Loopback(near) => stack.pairs.see(near.end).is_none_or(Seen::is_over),
            Kind::Ended(_) => true,
            Kind::FreshUdp | Kind::Udp(_) | Kind::Fresh(_) | Kind::Listener(_) => false,
        }
    }

    /// Returns how many bytes can be read, or connections accepted.
    pub fn waiting(&self, stack: &Stack) -> usize {
        match self {
            Kind::FreshUdp | Kind::Fresh(_) => 0,
            Kind::Udp(own) => own.inbox.bytes(),
            Kind::Listener(listener) => listener.ready.len(),
            Kind::Stream(stream) => stack.see_stream(stream.socket).recv_queue(),
            Kind::Loopback(near) => stack.pairs.see(near.end).map_or(0, |it| it.own.inbox.len()),
            Kind::Ended(ended) => ended.rest.len(),
        }
    }

    /// Returns how many bytes can be sent.
    pub fn space(&self, stack: &Stack) -> usize {
        match self {
            Kind::Udp(..) | Kind::FreshUdp => DATAGRAM,
            Kind::Stream(stream) => {
                let socket = stack.see_stream(stream.socket);
                socket.send_capacity().saturating_sub(socket.send_queue())
            }
            Kind::Loopback(near) => stack.pairs.see(near.end).map_or(0, Seen::space),
            Kind::Fresh(_) | Kind::Listener(_) | Kind::Ended(_) => 0,
        }
    }

    /// Returns the capacities of its buffers: to receive, and to send.
    pub fn buffers(&self, stack: &Stack) -> (usize, usize) {
        match self {
            Kind::Stream(stream) => {
                let socket = stack.see_stream(stream.socket);
                (socket.recv_capacity(), socket.send_capacity())
            }
            // Half of each inbox is for what the other end has sent and cannot be received yet.
            Kind::Loopback(near) => match stack.pairs.see(near.end) {
                Some(it) => (it.own.room / 2, it.other.room / 2),
                None => (0, 0),
            },
            _ => (LARGEST, LARGEST),
        }
    }
}
