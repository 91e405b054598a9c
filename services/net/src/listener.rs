//! Listening ports, and the connections that wait there.
//!
//! On loopback a connection is complete when it begins (`operations.rs`). Outside it begins with a
//! SYN (`exchange.rs`), for which a socket of smoltcp is made. That listens at the address that the
//! connection goes to, so smoltcp finds no other for it, and none listens between two steps.

use crate::addresses::{Local, Side, to_ip};
use crate::budget::{OUTSIDE, SOCKETS};
use crate::pairs::End;
use crate::stack::{Stack, ns};
use abi::net::Address;
use alloc::collections::VecDeque;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;

/// Handles, and sockets, that trees get only as long as they have fewer than `SMALL` handles.
pub const RESERVED: u32 = 64;
/// A listener may have this many connections from outside that are not complete, or as many as its
/// backlog if that is more. A further one takes the place of the oldest, if that had its time; else
/// of the oldest in the younger half, if that had the short one. So in a flood hosts that are near
/// nearly always find a place, and the others sometimes do.
pub const HALF_OPEN: usize = 16;
/// Time in which a peer should complete a connection, in ns.
const HALF_OPEN_TIME: u64 = 500_000_000;
/// Time in which one that is near completes it.
const NEAR_TIME: u64 = 50_000_000;

/// A connection outside that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    pub socket: SocketHandle,
    /// When it began, in ns.
    began: u64,
}

/// A connection to be accepted.
#[derive(Clone, Copy, Debug)]
pub enum Ready {
    Loopback(End),
    Outside(SocketHandle),
}

/// A listening port.
#[derive(Debug)]
pub struct Listener {
    pub port: u16,
    /// The same if it was bound explicitly, otherwise 0.
    pub bound: u16,
    /// What it hears.
    pub local: Local,
    /// Maximum number of connections that wait to be accepted.
    pub backlog: usize,
    /// Connections outside that have begun and are not complete, the oldest first.
    pub coming: VecDeque<Coming>,
    /// Connections to be accepted, in order of arrival.
    pub ready: VecDeque<Ready>,
}

impl Listener {
    /// Moves complete connections to `ready`, and drops those that were reset, or that nothing has
    /// begun.
    pub fn settle(&mut self, stack: &mut Stack) {
        for _ in 0..self.coming.len() {
            let Some(coming) = self.coming.pop_front() else { break };
            match stack.see_stream(coming.socket).state() {
                tcp::State::SynReceived => self.coming.push_back(coming),
                tcp::State::Listen | tcp::State::Closed => stack.drop_socket(coming.socket),
                _ => self.ready.push_back(Ready::Outside(coming.socket)),
            }
        }
    }

    /// Returns whether a further connection may wait to be accepted, and makes room for it.
    pub fn has_room(&mut self, stack: &mut Stack, side: Side) -> bool {
        self.settle(stack);
        // The last places are not for connections that nothing accepts.
        let most = match side {
            _ if !is_scarce(stack, side) => self.backlog,
            Side::Loopback => 1,
            Side::Outside => 0,
        };
        self.ready.len() < most && self.ready.try_reserve(self.coming.len() + 1).is_ok()
    }

    /// Makes a socket for a connection from outside to `address` that begins. Returns `None` if
    /// there is no room for it, so its peer sends the SYN again.
    pub fn admit(&mut self, stack: &mut Stack, address: Address) -> Option<SocketHandle> {
        if !self.has_room(stack, Side::Outside) {
            return None;
        }
        let now = ns(stack.now);
        if self.coming.len() >= self.backlog.max(HALF_OPEN) {
            let half = self.coming.len() / 2;
            let had = |at: usize, time: u64| {
                self.coming.get(at).is_some_and(|it| now.saturating_sub(it.began) >= time)
            };
            let at = if had(0, HALF_OPEN_TIME) { 0 } else { half };
            if at != 0 && !had(half, NEAR_TIME) {
                return None;
            }
            stack.drop_socket(self.coming.remove(at)?.socket);
        }
        self.coming.try_reserve(1).ok()?;
        let socket = stack.add_tcp().ok()?;
        // Cannot fail: the socket is new, and the port of a listener is not 0.
        let _ = stack.stream(socket).listen((to_ip(address), self.port));
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
