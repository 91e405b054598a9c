//! Handles, what they refer to, their owners, and the ports in use.
//!
//! ```text
//!             Listen                       a connection comes         Accept
//!   fresh -------------> listener: waiting -------------------> ready -------+
//!     |  Connect                                                             v
//!     +--------> stream: connecting ------> connected (Stream) <-------------+
//!     ^              | refused                  | both sides have shut
//!     +--------------+                          v
//!                                           ended (or reset): data not read yet
//! ```
//! A handle is owned by the kernel, in one of its lives, that opened or accepted it, and is closed
//! when that life ends. Until then any kernel may use it.

use crate::stack::{SocketHandle, Stack};
use abi::net::Errno;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use share::{Stale, Table, Token, table};
use smoltcp::socket::tcp;

/// Maximum number of handles.
pub const HANDLES: u32 = 64;

/// A listening port.
#[derive(Debug)]
pub struct Listener {
    pub port: u16,
    /// Maximum number of connections that wait to be accepted.
    pub backlog: usize,
    /// Sockets for further connections.
    pub waiting: Vec<SocketHandle>,
    /// Connections to be accepted, in order of arrival.
    pub ready: VecDeque<SocketHandle>,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub socket: SocketHandle,
    /// Its port, if it was bound explicitly; otherwise 0.
    pub bound: u16,
    /// Whether it has ever been connected.
    pub connected: bool,
    /// Whether its user has ended the sending direction. The peer learns of it only when it has
    /// acknowledged everything, because smoltcp ignores window updates while it waits for the last
    /// acknowledgement.
    pub shut: bool,
}

/// A connection that has ended. It has no socket any more.
#[derive(Debug)]
pub struct Ended {
    /// Received data that were not read yet.
    pub rest: VecDeque<u8>,
    pub port: u16,
    /// Whether it was reset.
    pub reset: bool,
}

/// What a handle refers to.
#[derive(Debug)]
pub enum Kind {
    /// A UDP socket, and its port; 0: not bound.
    Udp(SocketHandle, u16),
    /// A TCP handle that is neither connected nor listening, and its port; 0: not bound.
    Fresh(u16),
    Listener(Listener),
    Stream(Stream),
    /// A connection that has ended.
    Ended(Ended),
}

#[derive(Debug)]
struct Entry {
    kernel: u8,
    epoch: u16,
    kind: Kind,
}

#[derive(Debug)]
pub struct Handles {
    life: u64,
    entries: Table<Entry>,
}

impl Handles {
    /// Creates an empty table for this life of the service.
    pub fn new(lives: u32) -> Handles {
        Handles { life: table::life(lives), entries: Table::new(HANDLES) }
    }

    /// Checks that a handle can be added.
    pub fn room(&mut self) -> Result<(), Errno> {
        self.entries.room(1).ok_or(Errno::Nfile)
    }

    /// Adds a handle that the caller owns.
    pub fn open(&mut self, token: Token, kind: Kind) -> Result<u64, Errno> {
        let entry = Entry { kernel: token.kernel, epoch: token.epoch, kind };
        let place = self.entries.insert(entry).ok_or(Errno::Nfile)?;
        self.entries.handle(self.life, place).ok_or(Errno::Badf)
    }

    /// Returns the slot of a handle.
    pub fn place(&self, handle: u64) -> Result<u32, Errno> {
        let place = self.entries.find(self.life, handle).map_err(|stale| match stale {
            Stale::Unknown => Errno::Badf,
            Stale::Restarted => Errno::Restarted,
        })?;
        self.get(place).map(|_| place).ok_or(Errno::Badf)
    }

    pub fn get(&self, place: u32) -> Option<&Kind> {
        self.entries.get(place).map(|entry| &entry.kind)
    }

    pub fn get_mut(&mut self, place: u32) -> Option<&mut Kind> {
        self.entries.get_mut(place).map(|entry| &mut entry.kind)
    }

    pub fn remove(&mut self, place: u32) -> Option<Kind> {
        self.entries.remove(place).map(|entry| entry.kind)
    }

    /// Returns the number of slots, free ones included.
    pub fn places(&self) -> u32 {
        self.entries.places()
    }

    /// Returns the number of handles.
    pub fn count(&self) -> usize {
        self.entries.count()
    }

    /// Returns the first slot of this owner.
    pub fn owned(&self, kernel: u8, epoch: u16) -> Option<u32> {
        let mine = |entry: &Entry| entry.kernel == kernel && entry.epoch == epoch;
        (0..self.places()).find(|&place| self.entries.get(place).is_some_and(mine))
    }

    /// Returns whether a UDP socket has this port.
    pub fn has_udp(&self, port: u16) -> bool {
        self.any(|kind| matches!(kind, Kind::Udp(_, taken) if *taken == port))
    }

    /// Returns whether a listener, or a handle bound explicitly, has this port.
    pub fn has_tcp(&self, port: u16) -> bool {
        self.any(|kind| match kind {
            Kind::Fresh(taken) => *taken == port,
            Kind::Listener(listener) => listener.port == port,
            Kind::Stream(stream) => stream.bound == port,
            Kind::Udp(..) | Kind::Ended(..) => false,
        })
    }

    fn any(&self, is: impl Fn(&Kind) -> bool) -> bool {
        (0..self.places()).any(|place| self.get(place).is_some_and(&is))
    }
}

impl Listener {
    /// Moves established connections to `ready`, and adds sockets for further ones. Returns whether
    /// it closed a socket.
    pub fn settle(&mut self, stack: &mut Stack) -> bool {
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
        // To have one socket, a closed one may be dropped; for more, it may not.
        while self.waiting.len() + self.ready.len() < self.backlog
            && (stack.has_room() || self.waiting.is_empty())
            && self.add(stack).is_ok()
        {}
        gone
    }

    /// Adds a socket for a further connection.
    pub fn add(&mut self, stack: &mut Stack) -> Result<(), Errno> {
        self.waiting.try_reserve(1).map_err(|_| Errno::Nomem)?;
        self.ready.try_reserve(self.backlog).map_err(|_| Errno::Nomem)?;
        let socket = stack.add_tcp()?;
        // Cannot fail: the socket is new, and the port of a listener is not 0.
        let _ = stack.stream(socket).listen(self.port);
        self.waiting.push(socket);
        Ok(())
    }
}

impl Kind {
    /// Returns whether a receive or an accept would not wait.
    pub fn readable(&self, stack: &Stack) -> bool {
        match self {
            Kind::Udp(socket, _) => stack.see_datagrams(*socket).can_recv(),
            Kind::Listener(listener) => !listener.ready.is_empty(),
            Kind::Stream(stream) => {
                let socket = stack.see_stream(stream.socket);
                socket.can_recv() || !socket.may_recv() && !is_connecting(socket)
            }
            Kind::Fresh(_) | Kind::Ended(..) => true,
        }
    }

    /// Returns whether a send or a connect would not wait.
    pub fn writable(&self, stack: &Stack) -> bool {
        match self {
            Kind::Udp(socket, _) => stack.see_datagrams(*socket).can_send(),
            Kind::Stream(stream) => {
                let socket = stack.see_stream(stream.socket);
                socket.can_send() || !socket.may_send() && !is_connecting(socket)
            }
            Kind::Fresh(_) | Kind::Listener(_) | Kind::Ended(..) => true,
        }
    }
}

impl Stream {
    /// Closes the sending direction if that is due. Returns whether it was.
    pub fn finish(&mut self, stack: &mut Stack) -> bool {
        let socket = stack.stream(self.socket);
        let due = self.shut && socket.may_send() && socket.send_queue() == 0;
        if due {
            socket.close();
        }
        due
    }

    /// Notes whether it is connected. If it has ended, closes its socket and returns what is left
    /// of it.
    pub fn settle(&mut self, stack: &mut Stack) -> Option<Ended> {
        let socket = stack.stream(self.socket);
        let (state, before) = (socket.state(), self.connected);
        self.connected |= state != tcp::State::Closed && !is_connecting(socket);
        if state != tcp::State::TimeWait && !(state == tcp::State::Closed && before) {
            return None;
        }
        let port = socket.local_endpoint().map_or(self.bound, |own| own.port);
        let mut rest = VecDeque::with_capacity(socket.recv_queue());
        while let Ok(some @ 1..) = socket.recv(|bytes| {
            rest.extend(&*bytes);
            (bytes.len(), bytes.len())
        }) {
            debug_assert!(some <= crate::stack::STREAM);
        }
        let reset = state == tcp::State::Closed
            && socket.recv(|_| (0, ())) != Err(tcp::RecvError::Finished);
        stack.remove_tcp(self.socket, false);
        Some(Ended { rest, port, reset })
    }
}

/// Returns whether a connect has not been answered yet.
pub fn is_connecting(socket: &tcp::Socket<'_>) -> bool {
    matches!(socket.state(), tcp::State::SynSent | tcp::State::SynReceived)
}
