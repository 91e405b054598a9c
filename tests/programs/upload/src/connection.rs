//! One client: its requests, one after the other, and their answers. Nothing here waits.
//!
//! ```text
//!             the file is here            its answer
//!   Receiving ----------------> Decoding -----------> Receiving    another request may follow
//!        \                          \
//!         `--------- an answer ------`--------------> Ending       none may
//! ```
//! What waits to be sent is sent before anything else happens.

use crate::decoding::{Decoding, Progress};
use crate::http::{self, Answer, Request};
use penumbra::Errno;
use penumbra::net::{Shutdown, TcpStream};
use penumbra::ready::{self, Interest};
use std::cell::Cell;
use std::rc::Rc;

/// Bytes of all files that are being received.
const MOST_RECEIVED: usize = 16 << 20;
/// Bytes that a client may send after the answer that refused them.
const MOST_DROPPED: usize = 16 << 20;
/// A client that does nothing for so long is left, as is a decoder, in ns.
const PATIENCE: u64 = 60_000_000_000;

/// What all connections share.
pub struct Server {
    /// The name of the decoder.
    name: String,
    /// Bytes of files that are being received.
    received: Cell<usize>,
}

impl Server {
    /// With the decoder that serves this name.
    pub fn new(name: &str) -> Server {
        Server { name: name.to_string(), received: Cell::new(0) }
    }
}

/// Room for a file that is being received. Dropping it gives it back.
struct Room {
    server: Rc<Server>,
    bytes: usize,
}

impl Room {
    fn of(server: &Rc<Server>, bytes: usize) -> Option<Room> {
        let sum = server.received.get() + bytes;
        (sum <= MOST_RECEIVED).then(|| {
            server.received.set(sum);
            Room { server: Rc::clone(server), bytes }
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.server.received.set(self.server.received.get() - self.bytes);
    }
}

enum State {
    /// A head comes, or the file after it.
    Receiving(Option<(Request, Room)>),
    /// The decoder has the file. `continues`: another request may follow.
    Decoding { decoding: Decoding, continues: bool },
    /// No more is answered. What still comes is dropped, so that the client can read the answer.
    Ending { dropped: usize },
}

/// A client that is connected.
pub struct Connection {
    stream: TcpStream,
    server: Rc<Server>,
    state: State,
    received: Vec<u8>,
    /// Waits to be sent, but for its first `sent` bytes.
    answers: Vec<u8>,
    sent: usize,
    is_open: bool,
    last: u64,
}

impl Connection {
    /// For a stream that was accepted.
    pub fn new(stream: TcpStream, server: &Rc<Server>) -> Result<Connection, Errno> {
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            server: Rc::clone(server),
            state: State::Receiving(None),
            received: Vec::new(),
            answers: Vec::new(),
            sent: 0,
            is_open: true,
            last: ready::now(),
        })
    }

    /// Returns whether it is still served.
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns what it waits for.
    pub fn interest(&self) -> Interest<'_> {
        match &self.state {
            _ if !self.answers.is_empty() => Interest::Write(self.stream.file()),
            State::Decoding { decoding, .. } => Interest::Read(decoding.file()),
            State::Receiving(_) | State::Ending { .. } => Interest::Read(self.stream.file()),
        }
    }

    /// Does what can be done without waiting.
    pub fn proceed(&mut self, is_ready: bool) {
        let now = ready::now();
        if !is_ready && now.saturating_sub(self.last) < PATIENCE {
            return;
        }
        self.last = now;
        if !is_ready {
            self.give_up();
            return;
        }
        let done = match self.state {
            _ if !self.answers.is_empty() => self.send(),
            State::Decoding { .. } => {
                self.decode();
                Ok(true)
            }
            State::Receiving(_) | State::Ending { .. } => self.receive(),
        };
        self.is_open = match done {
            Ok(continues) => continues,
            Err(error) => error == Errno::AGAIN,
        };
    }

    /// Ends what has taken too long: a decoder is named, a client is left.
    fn give_up(&mut self) {
        match self.state {
            State::Decoding { .. } if self.answers.is_empty() => {
                self.answer(&Answer::text(503, "the decoder: it does not answer"), false);
            }
            _ => self.is_open = false,
        }
    }

    /// Sends answers. Returns whether the connection continues.
    fn send(&mut self) -> Result<bool, Errno> {
        self.sent += self.stream.write(self.answers.get(self.sent..).unwrap_or_default())?;
        if self.sent >= self.answers.len() {
            self.answers.clear();
            self.sent = 0;
            match self.state {
                State::Ending { .. } => self.stream.shutdown(Shutdown::Write)?,
                // What came with the request before.
                _ => self.take_requests(),
            }
        }
        Ok(true)
    }

    /// Receives what has come. Returns whether the connection continues.
    fn receive(&mut self) -> Result<bool, Errno> {
        let mut some = [0; 16_384];
        let length = self.stream.read(&mut some)?;
        if let State::Ending { dropped } = &mut self.state {
            *dropped += length;
            return Ok(length > 0 && *dropped <= MOST_DROPPED);
        }
        self.received.extend_from_slice(some.get(..length).unwrap_or_default());
        self.take_requests();
        Ok(length > 0)
    }

    /// Takes the head of a request, and the file after it, if they have come.
    fn take_requests(&mut self) {
        if !matches!(self.state, State::Receiving(_)) {
            return;
        }
        let state = std::mem::replace(&mut self.state, State::Receiving(None));
        let taken = match state {
            State::Receiving(None) => self.take_head(),
            State::Receiving(known) => Ok(known),
            State::Decoding { .. } | State::Ending { .. } => return,
        };
        match taken {
            Ok(Some((request, room))) => self.take_file(request, room),
            Ok(None) => {}
            Err(answer) => self.answer(&answer, false),
        }
    }

    fn take_head(&mut self) -> Result<Option<(Request, Room)>, Answer> {
        let Some(request) = http::parse(&self.received)? else { return Ok(None) };
        self.received.drain(..request.head);
        let room = Room::of(&self.server, request.body);
        let room = room.ok_or_else(|| Answer::text(503, "too many files at the same time"))?;
        if request.waits && self.received.len() < request.body {
            self.answers.extend_from_slice(http::CONTINUE);
        }
        Ok(Some((request, room)))
    }

    fn take_file(&mut self, request: Request, room: Room) {
        if self.received.len() < request.body {
            self.state = State::Receiving(Some((request, room)));
            return;
        }
        let rest = self.received.split_off(request.body);
        let file = std::mem::replace(&mut self.received, rest);
        match Decoding::begin(&self.server.name, file, request.wanted) {
            Ok(decoding) => {
                self.state = State::Decoding { decoding, continues: request.continues };
            }
            Err(answer) => self.answer(&answer, request.continues),
        }
    }

    /// Takes a message of the decoder.
    fn decode(&mut self) {
        let State::Decoding { decoding, continues } =
            std::mem::replace(&mut self.state, State::Receiving(None))
        else {
            return;
        };
        match decoding.proceed() {
            Progress::Waits(decoding) => self.state = State::Decoding { decoding, continues },
            Progress::Done(answer) => self.answer(&answer, continues),
        }
    }

    fn answer(&mut self, answer: &Answer, continues: bool) {
        self.answers.extend(answer.bytes(continues));
        self.state = if continues { State::Receiving(None) } else { State::Ending { dropped: 0 } };
    }
}
