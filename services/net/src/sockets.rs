//! What a handle leads to, whose it is, and which ports are taken.
//!
//! ```text
//!             Listen                       a connection comes         Accept
//!   fresh -------------> listener: waiting -------------------> ready -------+
//!     |  Connect                                                             v
//!     +--------> stream: connecting ------> connected (Stream) <-------------+
//!     ^              | refused                  | both sides have shut
//!     +--------------+                          v
//!                                           ended (or reset): what was not read yet
//! ```
//! A handle belongs to the kernel, in one of its lives, that opened or accepted it, and is closed
//! with it; any kernel may use it until then.

use crate::stack::{SocketHandle, Stack};
use abi::net::Errno;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use share::{Stale, Table, Token, table};
use smoltcp::socket::tcp;

/// Most handles.
pub const HANDLES: u32 = 64;

/// A listener.
#[derive(Debug)]
pub struct Listener {
    /// Where it listens.
    pub port: u16,
    /// Most connections that wait to be accepted.
    pub backlog: usize,
    /// Sockets for the next connections.
    pub waiting: Vec<SocketHandle>,
    /// Connections, in the order in which they came.
    pub ready: VecDeque<SocketHandle>,
}

/// One side of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Its socket.
    pub socket: SocketHandle,
    /// Its port, if it was bound before it was connected.
    pub bound: u16,
    /// It was connected once.
    pub connected: bool,
    /// It sends no more; the other side is told when it has acknowledged everything, for smoltcp
    /// does not hear of a window that opens while it waits for the last acknowledgement.
    pub shut: bool,
}

/// A connection that is over. It has no socket any more.
#[derive(Debug)]
pub struct Ended {
    /// What came and was not read yet.
    pub rest: VecDeque<u8>,
    /// Its port.
    pub port: u16,
    /// It did not come to its end.
    pub reset: bool,
}

/// What a handle leads to.
#[derive(Debug)]
pub enum Kind {
    /// Datagrams, at this port; 0: not bound yet.
    Udp(SocketHandle, u16),
    /// A stream or listener to be, at this port; 0: not bound yet.
    Fresh(u16),
    /// Waits for connections.
    Listener(Listener),
    /// A connection.
    Stream(Stream),
    /// What was left of a connection.
    Ended(Ended),
}

#[derive(Debug)]
struct Entry {
    kernel: u8,
    epoch: u16,
    kind: Kind,
}

/// All handles.
#[derive(Debug)]
pub struct Handles {
    life: u64,
    entries: Table<Entry>,
}

impl Handles {
    /// None yet, in this life.
    pub fn new(lives: u32) -> Handles {
        Handles { life: table::life(lives), entries: Table::new(HANDLES) }
    }

    /// The next [`Handles::open`] will not fail.
    pub fn room(&mut self) -> Result<(), Errno> {
        self.entries.room(1).ok_or(Errno::Nfile)
    }

    /// A handle that belongs to who asked.
    pub fn open(&mut self, token: Token, kind: Kind) -> Result<u64, Errno> {
        let entry = Entry { kernel: token.kernel, epoch: token.epoch, kind };
        let place = self.entries.insert(entry).ok_or(Errno::Nfile)?;
        self.entries.handle(self.life, place).ok_or(Errno::Badf)
    }

    /// Where a handle leads.
    pub fn place(&self, handle: u64) -> Result<u32, Errno> {
        let place = self.entries.find(self.life, handle).map_err(|stale| match stale {
            Stale::Unknown => Errno::Badf,
            Stale::Restarted => Errno::Restarted,
        })?;
        self.get(place).map(|_| place).ok_or(Errno::Badf)
    }

    /// What is at a place.
    pub fn get(&self, place: u32) -> Option<&Kind> {
        self.entries.get(place).map(|entry| &entry.kind)
    }

    /// What is at a place, to change it.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut Kind> {
        self.entries.get_mut(place).map(|entry| &mut entry.kind)
    }

    /// Takes it out.
    pub fn remove(&mut self, place: u32) -> Option<Kind> {
        self.entries.remove(place).map(|entry| entry.kind)
    }

    /// Places there are, taken or not.
    pub fn places(&self) -> u32 {
        self.entries.places()
    }

    /// How many are taken.
    pub fn count(&self) -> usize {
        self.entries.count()
    }

    /// The first place of this owner.
    pub fn owned(&self, kernel: u8, epoch: u16) -> Option<u32> {
        let mine = |entry: &Entry| entry.kernel == kernel && entry.epoch == epoch;
        (0..self.places()).find(|&place| self.entries.get(place).is_some_and(mine))
    }

    /// Does a socket for datagrams have this port?
    pub fn has_udp(&self, port: u16) -> bool {
        self.any(|kind| matches!(kind, Kind::Udp(_, taken) if *taken == port))
    }

    /// Does a stream or listener have this port to itself?
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
    /// Moves connections that were made to `ready`, and sees to it that others can come. Has it
    /// given anything back?
    pub fn settle(&mut self, stack: &mut Stack) -> bool {
        let (ready, mut gone) = (&mut self.ready, false);
        self.waiting.retain(|&socket| {
            let made = match stack.see_stream(socket).state() {
                tcp::State::Listen | tcp::State::SynReceived => return true,
                // Reset before anybody knew of it; it may listen again.
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
        // The first one is worth a place of a socket that only ends; others are not.
        while self.waiting.len() + self.ready.len() < self.backlog
            && (stack.has_room() || self.waiting.is_empty())
            && self.add(stack).is_ok()
        {}
        gone
    }

    /// One more socket for a connection to come.
    pub fn add(&mut self, stack: &mut Stack) -> Result<(), Errno> {
        self.waiting.try_reserve(1).map_err(|_| Errno::Nomem)?;
        self.ready.try_reserve(self.backlog).map_err(|_| Errno::Nomem)?;
        let socket = stack.add_tcp()?;
        // A new socket listens at any port but 0, which no listener has.
        let _ = stack.stream(socket).listen(self.port);
        self.waiting.push(socket);
        Ok(())
    }
}

impl Kind {
    /// Would a receive or an accept go on?
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

    /// Would a send or a connect go on?
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
    /// Ends what it sends, when that is due. Has it?
    pub fn finish(&mut self, stack: &mut Stack) -> bool {
        let socket = stack.stream(self.socket);
        let due = self.shut && socket.may_send() && socket.send_queue() == 0;
        if due {
            socket.close();
        }
        due
    }

    /// Notes that it is connected; if it is over, what is left of it. Its socket is given back.
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

/// Has it asked, and was not answered?
pub fn is_connecting(socket: &tcp::Socket<'_>) -> bool {
    matches!(socket.state(), tcp::State::SynSent | tcp::State::SynReceived)
}
