//! The board's end of streams with the host: a state machine, packets in and packets out.
//!
//! ```text
//!   nothing --Request--> Offered --accept--> Open --close, all sent--> Closing --Reset--> nothing
//!                           '------------------+------------- Reset ------------'
//! ```
//! Only the host begins streams, at the one port that is listened at. What was received waits in a
//! buffer of the heap, [`abi::vsock::WINDOW`] bytes a stream, and the host sends no more than that.
//! A peer that breaks the rules has its stream reset; no packet, whatever it says, does more.

use abi::vsock::{
    BOARD, Consumed, Credit, DATA, HOST, Header, NO_RECEIVE, NO_SEND, Op, STREAM, WINDOW,
};
use alloc::collections::VecDeque;

/// Most streams at once.
pub const STREAMS: usize = 16;

/// One of them. Its place is used again when it is gone; it names no other one then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    place: usize,
    /// How manieth that was accepted.
    life: u32,
}

impl Id {
    /// For a thread's argument.
    pub fn number(self) -> usize {
        self.life as usize * STREAMS + self.place
    }

    /// Back from there.
    pub fn from_number(number: usize) -> Option<Id> {
        let life = u32::try_from(number / STREAMS).ok()?;
        Some(Id { place: number % STREAMS, life })
    }
}

/// What reading finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// That many bytes.
    Bytes(usize),
    /// Nothing yet.
    Wait,
    /// Nothing any more.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Offered,
    Open,
    /// Its user is gone, and what it wrote may be under way.
    Closing,
    /// The peer is gone; its user is not.
    Gone,
}

#[derive(Debug)]
struct Stream {
    state: State,
    /// Ports here and there.
    ports: (u32, u32),
    input: VecDeque<u8>,
    output: VecDeque<u8>,
    credit: Credit,
    consumed: Consumed,
    /// To be said, in this order.
    accepts: bool,
    asked: bool,
    ends: bool,
    /// The peer sends no more.
    ended: bool,
    /// How manieth that was accepted; 0: not yet.
    life: u32,
}

impl Stream {
    fn header(&mut self, op: Op, bytes: usize, flags: u32) -> Header {
        Header::new((BOARD, HOST), self.ports, (op, bytes, flags), &mut self.consumed)
    }

    /// The next packet, its data in `data`.
    fn next(&mut self, data: &mut [u8; DATA]) -> Option<(Header, usize)> {
        if matches!(self.state, State::Gone | State::Offered) {
            return None;
        }
        if core::mem::take(&mut self.accepts) {
            return Some((self.header(Op::Response, 0, 0), 0));
        }
        let bytes = self.output.len().min(DATA).min(self.credit.room() as usize);
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

    /// The peer has said so, or broke the rules.
    fn is_gone(&mut self) {
        (self.state, self.ended) = (State::Gone, true);
        self.output.clear();
    }

    /// True: the peer broke the rules.
    fn told(&mut self, header: &Header, op: Op, data: &[u8]) -> bool {
        self.credit.told(header);
        match op {
            Op::Data if self.state == State::Closing => {}
            Op::Data if !self.ended && self.input.len() + data.len() <= WINDOW as usize => {
                self.input.extend(data);
            }
            Op::Credit => {}
            Op::AskCredit => self.asked = true,
            Op::Shutdown => self.ended |= header.flags.get() & NO_SEND != 0,
            Op::Reset => self.is_gone(),
            _ => {
                self.is_gone();
                return true;
            }
        }
        false
    }
}

/// All of them.
#[derive(Debug)]
pub struct Streams {
    /// Where it listens.
    port: u32,
    streams: [Option<Stream>; STREAMS],
    /// Who begins the next round of sending.
    turn: usize,
    /// Whom to tell that there is no such stream; what does not fit is not told.
    strays: [Option<(u32, u32)>; STREAMS],
    /// How many were accepted.
    lives: u32,
}

impl Streams {
    /// None yet; `port` is listened at.
    pub fn new(port: u32) -> Streams {
        let (streams, strays) = ([const { None }; STREAMS], [None; STREAMS]);
        Streams { port, streams, turn: 0, strays, lives: 0 }
    }

    /// The stream of this name, and its place.
    fn named(&mut self, id: Id) -> Option<&mut Stream> {
        let stream = self.streams.get_mut(id.place)?.as_mut();
        stream.filter(|stream| stream.life == id.life)
    }

    fn find(&mut self, ports: (u32, u32)) -> Option<&mut Option<Stream>> {
        let same = |it: &Stream| it.ports == ports && it.state != State::Gone;
        self.streams.iter_mut().find(|slot| slot.as_ref().is_some_and(same))
    }

    /// A packet came.
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
        let broken = stream.told(header, op, data);
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

    /// The next packet to send, its data in `data`.
    pub fn next(&mut self, data: &mut [u8; DATA]) -> Option<(Header, usize)> {
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

    /// One that the host has begun, if there is one.
    pub fn accept(&mut self) -> Option<Id> {
        let offered = |slot: &Option<Stream>| {
            slot.as_ref().is_some_and(|stream| stream.state == State::Offered)
        };
        let at = self.streams.iter().position(offered)?;
        self.lives = self.lives.wrapping_add(1).max(1);
        let stream = self.streams[at].as_mut()?;
        (stream.state, stream.life) = (State::Open, self.lives);
        Some(Id { place: at, life: stream.life })
    }

    /// Takes what was received. There is nothing any more once its user was done with it.
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

    /// Takes bytes to send and says how many; 0: not now. `None`: nobody reads them any more.
    pub fn write(&mut self, id: Id, from: &[u8]) -> Option<usize> {
        let stream = self.named(id).filter(|stream| stream.state == State::Open)?;
        let bytes = from.len().min(DATA - stream.output.len().min(DATA));
        stream.output.extend(&from[..bytes]);
        Some(bytes)
    }

    /// Its user is done with it: what was written is still sent.
    pub fn close(&mut self, id: Id) {
        let Some(stream) = self.named(id) else { return };
        if stream.state == State::Gone {
            self.streams[id.place] = None;
        } else {
            (stream.state, stream.ends) = (State::Closing, true);
            stream.input = VecDeque::new();
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.streams.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests;
