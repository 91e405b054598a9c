//! Listening ports: their sockets, and the connections that wait there.
//!
//! On loopback a socket of smoltcp listens, and is replaced when it has a connection. Outside none
//! does: one is made for each SYN ([`Listener::admit`], `exchange.rs`).

use crate::addresses::Side;
use crate::budget::{OUTSIDE, SOCKETS};
use crate::stack::{SocketHandle, Stack, listen_at, ns};
use abi::net::Errno;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use smoltcp::socket::tcp;

/// Handles, and sockets, that trees get only as long as they have fewer than `SMALL` handles.
pub const RESERVED: u32 = 64;
/// A listener may have this many connections from outside that are not complete, or as many as its
/// backlog if that is more. A further one takes the place of the oldest, if that had its time.
pub const HALF_OPEN: usize = 16;
/// Time in which a peer should complete a connection, in ns.
const HALF_OPEN_TIME: u64 = 500_000_000;

/// A connection from outside that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    pub socket: SocketHandle,
    /// When it began, in ns.
    began: u64,
}

/// A listening port.
#[derive(Debug)]
pub struct Listener {
    pub port: u16,
    /// The same if it was bound explicitly, otherwise 0.
    pub bound: u16,
    /// The address that it hears; zeroes: any.
    pub address: [u8; 4],
    /// Maximum number of connections that wait to be accepted.
    pub backlog: usize,
    /// A socket for a further connection on loopback, unless the backlog is full.
    pub waiting: Vec<SocketHandle>,
    /// Connections from outside that have begun and are not complete, the oldest first.
    pub coming: VecDeque<Coming>,
    /// Connections to be accepted, in order of arrival.
    pub ready: VecDeque<SocketHandle>,
}

impl Listener {
    /// Moves established connections to `ready`, and adds sockets for further ones. Returns whether
    /// it closed a socket.
    pub fn settle(&mut self, stack: &mut Stack) -> bool {
        self.settle_coming(stack);
        let (ready, mut gone) = (&mut self.ready, false);
        self.waiting.retain(|&socket| {
            let made = match stack.see_stream(socket).state() {
                tcp::State::Listen | tcp::State::SynReceived => return true,
                // Reset before it was accepted. Another socket takes its place.
                tcp::State::Closed => false,
                _ => true,
            };
            if made {
                ready.push_back(socket);
            } else {
                stack.remove_tcp(socket, true);
                gone = true;
            }
            false
        });
        // One is enough: no step makes more than one connection on loopback. To have it, a closed
        // one may be dropped. The last places are not for connections that nothing accepts.
        let most = if is_scarce(stack, Side::Loopback) { 1 } else { self.backlog };
        if self.waiting.is_empty() && self.ready.len() < most {
            // Without memory, connections are refused until there is some.
            let _ = self.add(stack);
        }
        gone
    }

    /// Adds a socket for a further connection on loopback.
    pub fn add(&mut self, stack: &mut Stack) -> Result<(), Errno> {
        self.waiting.try_reserve(1).map_err(|_| Errno::Nomem)?;
        self.ready.try_reserve(self.waiting.len() + 1).map_err(|_| Errno::Nomem)?;
        let socket = stack.add_tcp(Side::Loopback)?;
        // Cannot fail: the socket is new, and the port of a listener is not 0.
        let _ = stack.stream(socket).listen(listen_at(self.address, self.port));
        self.waiting.push(socket);
        Ok(())
    }

    /// Moves complete connections from outside to `ready`, and drops those that were reset.
    pub fn settle_coming(&mut self, stack: &mut Stack) {
        for _ in 0..self.coming.len() {
            let Some(coming) = self.coming.pop_front() else { break };
            match stack.see_stream(coming.socket).state() {
                tcp::State::SynReceived => self.coming.push_back(coming),
                tcp::State::Listen | tcp::State::Closed => stack.drop_socket(coming.socket),
                _ => self.ready.push_back(coming.socket),
            }
        }
    }

    /// Makes a socket for a connection from outside, whose SYN came to `address`. Returns `None` if
    /// it must wait: its peer sends the SYN again.
    pub fn admit(&mut self, stack: &mut Stack, address: [u8; 4]) -> Option<SocketHandle> {
        self.settle_coming(stack);
        if self.ready.len() >= self.backlog || is_scarce(stack, Side::Outside) {
            return None;
        }
        let now = ns(stack.now);
        if self.coming.len() >= self.backlog.max(HALF_OPEN) {
            let had_its_time = |it: &mut Coming| now.saturating_sub(it.began) >= HALF_OPEN_TIME;
            stack.drop_socket(self.coming.pop_front_if(had_its_time)?.socket);
        }
        self.coming.try_reserve(1).ok()?;
        self.ready.try_reserve(self.coming.len() + 1).ok()?;
        let socket = stack.add_tcp(Side::Outside).ok()?;
        // Cannot fail: the socket is new, and the port of a listener is not 0.
        let _ = stack.stream(socket).listen(listen_at(address, self.port));
        self.coming.push_back(Coming { socket, began: now });
        Some(socket)
    }
}

/// Returns whether the last places are left, which are not for connections that nothing accepts.
pub fn is_scarce(stack: &Stack, side: Side) -> bool {
    let reserved = RESERVED as usize;
    let outside = side == Side::Outside && stack.live_outside() + reserved >= OUTSIDE;
    outside || stack.live() + reserved >= SOCKETS
}
