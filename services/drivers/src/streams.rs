//! The board's end of the streams with the host: a state machine with packets as input and output.
//!
//! ```text
//!   (none) --Request--> Offered --accept--> Open --close, all sent--> Closing --Reset--> (none)
//!                           '------------------+------------- Reset ------------'
//! ```
//! Only the host opens streams, to one port that the board listens at. Received data wait in a
//! buffer of [`abi::vsock::WINDOW`] bytes per stream on the heap, and the host may not send more
//! than that. If a peer violates the protocol, its stream is reset; no packet can do more damage.

use abi::vsock::{
    BOARD, Consumed, Credit, DATA, HOST, Header, NO_RECEIVE, NO_SEND, Op, STREAM, WINDOW,
};
use alloc::collections::VecDeque;

/// Maximum number of streams.
pub const STREAMS: usize = 16;

/// A stream. Its slot is reused after it has ended, but the id then refers to no stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    place: usize,
    /// Its number among all accepted streams, in all lives of the table.
    life: u64,
}

impl Id {
    /// Returns the id as a number.
    pub fn number(self) -> u64 {
        self.life.wrapping_mul(STREAMS as u64) | self.place as u64
    }

    /// Converts back from [`Id::number`].
    pub fn from_number(number: u64) -> Id {
        Id { place: (number % STREAMS as u64) as usize, life: number / STREAMS as u64 }
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    Bytes(usize),
    /// No data yet.
    Wait,
    /// The end of the stream.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Offered,
    Open,
    /// Closed by its user; written data may still have to be sent.
    Closing,
    /// Reset by the peer, but not closed by its user yet.
    Gone,
}

#[derive(Debug)]
struct Stream {
    state: State,
    /// The board's port and the host's.
    ports: (u32, u32),
    input: VecDeque<u8>,
    output: VecDeque<u8>,
    credit: Credit,
    consumed: Consumed,
    /// Packets to be sent, in this order.
    accepts: bool,
    asked: bool,
    ends: bool,
    /// Whether the peer sends no more data.
    ended: bool,
    /// Its number among accepted streams; 0: not accepted.
    life: u64,
}

impl Stream {
    fn header(&mut self, op: Op, bytes: usize, flags: u32) -> Header {
        Header::new((BOARD, HOST), self.ports, (op, bytes, flags), &mut self.consumed)
    }

    /// Returns the next packet to send, with its data in `data`.
    fn next(&mut self, data: &mut [u8]) -> Option<(Header, usize)> {
        if matches!(self.state, State::Gone | State::Offered) {
            return None;
        }
        if core::mem::take(&mut self.accepts) {
            return Some((self.header(Op::Response, 0, 0), 0));
        }
        let bytes = self.output.len().min(data.len()).min(self.credit.room() as usize);
        if bytes > 0 {
            let from = self.output.drain(..bytes);
            data.iter_mut().zip(from).for_each(|(to, byte)| *to = byte);
            self.credit.sent(bytes as u32);
            return Some((self.header(Op::Data, bytes, 0), bytes));
        }
        if self.output.is_empty() && core::mem::take(&mut self.ends) {
            return Some((self.header(Op::Shutdown, 0, NO_SEND | NO_RECEIVE), 0));
        }
        if core::mem::take(&mut self.asked) || self.consumed.is_due() {
            return Some((self.header(Op::Credit, 0, 0), 0));
        }
        None
    }

    /// The peer reset the stream, or violated the protocol.
    fn mark_gone(&mut self) {
        (self.state, self.ended) = (State::Gone, true);
        self.output.clear();
    }

    /// Handles a packet. Returns true if it violates the protocol.
    fn handle(&mut self, header: &Header, op: Op, data: &[u8]) -> bool {
        self.credit.told(header);
        match op {
            Op::Data if self.state == State::Closing => {}
            Op::Data if !self.ended && self.input.len() + data.len() <= WINDOW as usize => {
                self.input.extend(data);
            }
            Op::Credit => {}
            Op::AskCredit => self.asked = true,
            Op::Shutdown => self.ended |= header.flags.get() & NO_SEND != 0,
            Op::Reset => self.mark_gone(),
            _ => {
                self.mark_gone();
                return true;
            }
        }
        false
    }
}

/// All streams.
#[derive(Debug)]
pub struct Streams {
    /// The port that the board listens at.
    port: u32,
    streams: [Option<Stream>; STREAMS],
    /// The stream that sent last; the next one has its turn.
    turn: usize,
    /// Unknown streams whose packets must be answered with a reset; dropped if there are too many.
    strays: [Option<(u32, u32)>; STREAMS],
    /// Number of the stream that was accepted last.
    last: u64,
}

impl Streams {
    /// Creates an empty table that listens at `port`. Ids of different `lives` are different.
    pub fn new(port: u32, lives: u32) -> Streams {
        let (streams, strays) = ([const { None }; STREAMS], [None; STREAMS]);
        // As a number, an id keeps 60 bits of this.
        let last = u64::from(lives % (1 << 28)) << 32;
        Streams { port, streams, turn: 0, strays, last }
    }

    /// The device was reset: streams that were not accepted yet are forgotten, because the host
    /// offers them again, and all others have ended.
    pub fn reset(&mut self) {
        self.strays = [None; STREAMS];
        for slot in &mut self.streams {
            match slot {
                Some(stream) if stream.state == State::Open => stream.mark_gone(),
                Some(stream) if stream.state == State::Gone => {}
                _ => *slot = None,
            }
        }
    }

    /// Returns the stream of an id.
    fn named(&mut self, id: Id) -> Option<&mut Stream> {
        let stream = self.streams.get_mut(id.place)?.as_mut();
        stream.filter(|stream| stream.life == id.life && id.life != 0)
    }

    fn look(&self, id: Id) -> Option<&Stream> {
        let stream = self.streams.get(id.place)?.as_ref();
        stream.filter(|stream| stream.life == id.life && id.life != 0)
    }

    /// Returns whether a stream was accepted and has not been closed and ended.
    pub fn is_known(&self, id: Id) -> bool {
        self.look(id).is_some()
    }

    /// Returns whether neither end has closed a stream.
    pub fn is_open(&self, id: Id) -> bool {
        self.look(id).is_some_and(|stream| stream.state == State::Open)
    }

    /// Returns whether [`Streams::read`] has something to say.
    pub fn has_input(&self, id: Id) -> bool {
        self.look(id).is_none_or(|stream| stream.ended || !stream.input.is_empty())
    }

    /// Returns whether [`Streams::write`] would take bytes.
    pub fn has_room(&self, id: Id) -> bool {
        self.look(id).is_none_or(|stream| stream.output.len() < DATA)
    }

    /// Returns the number of streams that can be accepted.
    pub fn offered(&self) -> usize {
        let is_offered = |stream: &&Stream| stream.state == State::Offered;
        self.streams.iter().flatten().filter(is_offered).count()
    }

    fn find(&mut self, ports: (u32, u32)) -> Option<&mut Option<Stream>> {
        let same = |it: &Stream| it.ports == ports && it.state != State::Gone;
        self.streams.iter_mut().find(|slot| slot.as_ref().is_some_and(same))
    }

    /// Handles a received packet.
    pub fn received(&mut self, header: &Header, data: &[u8]) {
        let ports = (header.to_port.get(), header.from_port.get());
        let Some(op) = Op::from_code(header.op.get()) else { return };
        if header.kind.get() != STREAM || header.from.get() != HOST || header.to.get() != BOARD {
            return self.stray(ports);
        }
        let listens = ports.0 == self.port;
        let Some(slot) = self.find(ports) else {
            return match op {
                Op::Request if listens => self.offer(ports, header),
                Op::Reset => {}
                _ => self.stray(ports),
            };
        };
        let Some(stream) = slot else { return };
        let used = stream.state == State::Open;
        let broken = stream.handle(header, op, data);
        if !used && stream.state == State::Gone {
            *slot = None;
        }
        if broken {
            self.stray(ports);
        }
    }

    fn stray(&mut self, ports: (u32, u32)) {
        if let Some(free) = self.strays.iter_mut().find(|stray| stray.is_none()) {
            *free = Some(ports);
        }
    }

    fn offer(&mut self, ports: (u32, u32), header: &Header) {
        let (mut input, mut output) = (VecDeque::new(), VecDeque::new());
        let memory = input.try_reserve_exact(WINDOW as usize).is_ok()
            && output.try_reserve_exact(DATA).is_ok();
        let free = self.streams.iter_mut().find(|slot| slot.is_none()).filter(|_| memory);
        let Some(free) = free else { return self.stray(ports) };
        let mut credit = Credit::default();
        credit.told(header);
        *free = Some(Stream {
            state: State::Offered,
            ports,
            input,
            output,
            credit,
            consumed: Consumed::default(),
            accepts: true,
            asked: false,
            ends: false,
            ended: false,
            life: 0,
        });
    }

    /// Returns the next packet to send, with its data in `data`.
    pub fn next(&mut self, data: &mut [u8]) -> Option<(Header, usize)> {
        if let Some(stray) = self.strays.iter_mut().find_map(Option::take) {
            return Some((Header::reset((BOARD, HOST), stray), 0));
        }
        for step in 1..=STREAMS {
            let at = (self.turn + step) % STREAMS;
            if let Some(packet) = self.streams[at].as_mut().and_then(|it| it.next(data)) {
                self.turn = at;
                return Some(packet);
            }
        }
        None
    }

    /// Accepts a stream that the host has opened, if there is one.
    pub fn accept(&mut self) -> Option<Id> {
        let offered = |slot: &Option<Stream>| {
            slot.as_ref().is_some_and(|stream| stream.state == State::Offered)
        };
        let at = self.streams.iter().position(offered)?;
        self.last = self.last.wrapping_add(1).max(1);
        let stream = self.streams[at].as_mut()?;
        (stream.state, stream.life) = (State::Open, self.last);
        Some(Id { place: at, life: stream.life })
    }

    /// Reads received data. Returns [`Read::End`] if the user has closed the stream.
    pub fn read(&mut self, id: Id, into: &mut [u8]) -> Read {
        let Some(stream) = self.named(id) else { return Read::End };
        let bytes = stream.input.len().min(into.len());
        if bytes == 0 {
            let is_over = stream.ended || stream.state == State::Closing;
            return if is_over { Read::End } else { Read::Wait };
        }
        let from = stream.input.drain(..bytes);
        into.iter_mut().zip(from).for_each(|(to, byte)| *to = byte);
        stream.consumed.add(bytes);
        Read::Bytes(bytes)
    }

    /// Queues bytes to send. Returns how many; 0 if there is no space now. `None` if no bytes can
    /// be sent any more.
    pub fn write(&mut self, id: Id, from: &[u8]) -> Option<usize> {
        let stream = self.named(id).filter(|stream| stream.state == State::Open)?;
        let bytes = from.len().min(DATA - stream.output.len().min(DATA));
        stream.output.extend(&from[..bytes]);
        Some(bytes)
    }

    /// Closes the user's end. Bytes written before are still sent.
    pub fn close(&mut self, id: Id) {
        let Some(stream) = self.named(id) else { return };
        if stream.state == State::Gone {
            self.streams[id.place] = None;
        } else if stream.state == State::Open {
            (stream.state, stream.ends) = (State::Closing, true);
            stream.input = VecDeque::new();
        }
    }

    /// Returns the number of streams.
    pub fn count(&self) -> usize {
        self.streams.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests;
