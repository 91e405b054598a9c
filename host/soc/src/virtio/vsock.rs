//! virtio-vsock: streams between clients of a unix socket and the kernel that drives the device.
//!
//! A client sends `CONNECT 1` and a newline. If a kernel listens on that port, the answer is `OK`
//! and a number, and from then on the socket is the stream; otherwise it is closed. Only the host
//! opens streams. Both ends buffer [`WINDOW`] bytes per stream, so a client or program that does
//! not read blocks only its own stream.

use super::{Chain, Fault, Model, Moved, read_chain};
use crate::fabric::listen;
use crate::memory::Ram;
use abi::vsock::{
    BOARD, Consumed, Credit, DATA, DEVICE_ID, HOST, Header, NO_RECEIVE, NO_SEND, Op, RECEIVE,
    STREAM, TRANSMIT, WINDOW,
};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use zerocopy::{FromBytes, IntoBytes};

/// Maximum number of streams.
const STREAMS: usize = 64;
/// Maximum bytes from a client that wait for the kernel.
const AHEAD: usize = 16 << 10;
/// Maximum length of a client's first line.
const GREETING: usize = 32;
/// The first local port.
const FIRST: u32 = 1 << 16;

/// The device.
#[derive(Debug)]
pub struct Vsock {
    listener: UnixListener,
    streams: Vec<Stream>,
    /// Resets for packets of unknown streams.
    strays: VecDeque<Header>,
    next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its first line is incomplete.
    Greets,
    /// The connection request was sent to the kernel, or will be.
    Asks,
    /// Open.
    Open,
}

#[derive(Debug)]
struct Stream {
    client: UnixStream,
    state: State,
    /// Local and remote port.
    ports: (u32, u32),
    /// Data from the client to the kernel, and the reverse.
    input: VecDeque<u8>,
    output: VecDeque<u8>,
    credit: Credit,
    /// Bytes from the kernel that the client has consumed.
    consumed: Consumed,
    /// Control packets for the kernel, sent before data.
    control: VecDeque<Op>,
    /// The client sends no more, and the kernel was notified.
    input_ends: bool,
    said_end: bool,
    /// The kernel sends no more.
    output_ends: bool,
    /// The kernel receives no more: the stream ends when the client has all data.
    ends: bool,
    /// Ended; removed once all control packets are sent.
    over: bool,
}

impl Stream {
    fn new(client: UnixStream, port: u32) -> Stream {
        Stream {
            client,
            state: State::Greets,
            ports: (port, 0),
            input: VecDeque::new(),
            output: VecDeque::new(),
            credit: Credit::default(),
            consumed: Consumed::default(),
            control: VecDeque::new(),
            input_ends: false,
            said_end: false,
            output_ends: false,
            ends: false,
            over: false,
        }
    }

    /// Ends the stream. With `tell`, sends the kernel a reset.
    fn reset(&mut self, tell: bool) {
        if !self.over && tell && self.state != State::Greets {
            self.control.push_back(Op::Reset);
        }
        self.over = true;
        // An error means that it is already closed.
        let _ = self.client.shutdown(std::net::Shutdown::Both);
    }

    /// Reads from the client as long as there is room.
    fn read(&mut self) {
        let mut bytes = [0; DATA];
        while !self.input_ends && !self.over && self.input.len() < AHEAD {
            match self.client.read(&mut bytes) {
                Ok(0) => self.input_ends = true,
                Ok(n) => self.input.extend(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return self.greeted(),
                Err(_) => return self.reset(true),
            }
        }
        self.greeted();
    }

    /// Parses the client's first line, once complete: it names the port.
    fn greeted(&mut self) {
        if self.state != State::Greets || self.over {
            return;
        }
        let end = self.input.iter().position(|&byte| byte == b'\n');
        let Some(end) = end.filter(|&end| end < GREETING) else {
            if self.input_ends || self.input.len() >= GREETING {
                self.reset(false);
            }
            return;
        };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        let port = std::str::from_utf8(&line).ok().and_then(|line| line.strip_prefix("CONNECT "));
        match port.and_then(|port| port.trim().parse().ok()) {
            Some(port) => {
                (self.state, self.ports.1) = (State::Asks, port);
                self.control.push_back(Op::Request);
            }
            None => self.reset(false),
        }
    }

    /// Writes as much to the client as it accepts.
    fn flush(&mut self) {
        while !self.over && !self.output.is_empty() {
            match self.client.write(self.output.as_slices().0) {
                Ok(0) => return self.reset(true),
                Ok(n) => {
                    self.output.drain(..n);
                    self.consumed.add(n);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return self.reset(true),
            }
        }
        if self.output_ends && self.output.is_empty() && !self.over {
            // A client that is gone is noticed when it is read.
            let _ = self.client.shutdown(std::net::Shutdown::Write);
            if self.ends {
                return self.reset(true);
            }
        }
        if self.consumed.is_due() && !self.over {
            self.owe_credit();
        }
    }

    /// Queues a credit update if one is due.
    fn owe_credit(&mut self) {
        if !self.control.contains(&Op::Credit) {
            self.control.push_back(Op::Credit);
        }
    }

    /// Returns the next packet's operation and number of data bytes.
    fn due(&self) -> Option<(Op, usize)> {
        if let Some(op) = self.control.front() {
            return Some((*op, 0));
        }
        if self.state != State::Open || self.over {
            return None;
        }
        match self.input.len().min(DATA).min(self.credit.room() as usize) {
            0 if self.input_ends && self.input.is_empty() && !self.said_end => {
                Some((Op::Shutdown, 0))
            }
            0 => None,
            bytes => Some((Op::Data, bytes)),
        }
    }

    fn has_next(&self) -> bool {
        self.due().is_some()
    }

    /// Returns the next packet.
    fn next(&mut self) -> Option<(Header, Vec<u8>)> {
        let (op, bytes) = self.due()?;
        match op {
            Op::Data => self.credit.sent(bytes as u32),
            Op::Shutdown => self.said_end = true,
            _ => drop(self.control.pop_front()),
        }
        let flags = if op == Op::Shutdown { NO_SEND } else { 0 };
        let (ends, said) = ((HOST, BOARD), (op, bytes, flags));
        let header = Header::new(ends, self.ports, said, &mut self.consumed);
        Some((header, self.input.drain(..bytes).collect()))
    }

    /// Handles a packet from the kernel.
    fn told(&mut self, header: &Header, op: Op, data: &[u8]) {
        self.credit.told(header);
        match op {
            Op::Response if self.state == State::Asks => {
                self.state = State::Open;
                let answer = format!("OK {}\n", self.ports.0);
                if self.client.write_all(answer.as_bytes()).is_err() {
                    self.reset(true);
                }
            }
            Op::Data if self.state == State::Open && !self.output_ends => {
                self.output.extend(data);
                match self.output.len() > WINDOW as usize {
                    true => self.reset(true), // It has exceeded its credit.
                    false => self.flush(),
                }
            }
            Op::Shutdown => {
                let flags = header.flags.get();
                self.output_ends |= flags & NO_SEND != 0;
                self.ends |= flags & NO_SEND != 0 && flags & NO_RECEIVE != 0;
                self.flush();
            }
            Op::AskCredit => self.owe_credit(),
            Op::Credit => {}
            Op::Reset => {
                self.flush();
                self.reset(false);
            }
            _ => self.reset(true),
        }
    }
}

impl Vsock {
    /// Listens on `socket`.
    pub fn open(socket: &Path) -> std::io::Result<Vsock> {
        let (streams, strays) = (Vec::new(), VecDeque::new());
        Ok(Vsock { listener: listen(socket)?, streams, strays, next: FIRST })
    }

    fn accept(&mut self) {
        while let Ok((client, _)) = self.listener.accept() {
            if self.streams.len() == STREAMS || client.set_nonblocking(true).is_err() {
                log::warn!("Streams: a client was rejected.");
                continue;
            }
            self.next = self.next.wrapping_add(1).max(FIRST);
            self.streams.push(Stream::new(client, self.next));
        }
    }

    /// Handles a packet from the kernel; one of an unknown stream is answered with a reset.
    fn told(&mut self, header: &Header, data: &[u8]) {
        let ports = (header.to_port.get(), header.from_port.get());
        let Some(op) = Op::from_code(header.op.get()) else { return };
        let addressed = header.kind == STREAM && header.to == HOST;
        let known = self.streams.iter_mut().find(|stream| stream.ports == ports && !stream.over);
        match known.filter(|_| addressed) {
            Some(stream) => stream.told(header, op, data),
            None if op != Op::Reset && self.strays.len() < STREAMS => {
                self.strays.push_back(Header::reset((HOST, BOARD), ports));
            }
            None => {}
        }
    }

    fn next(&mut self) -> Option<(Header, Vec<u8>)> {
        if let Some(header) = self.strays.pop_front() {
            return Some((header, Vec::new()));
        }
        // Round robin, so that no stream starves.
        let at = self.streams.iter().position(Stream::has_next)?;
        let next = self.streams[at].next();
        let stream = self.streams.remove(at);
        if !stream.over || !stream.control.is_empty() {
            self.streams.push(stream);
        }
        next
    }
}

impl Model for Vsock {
    fn id(&self) -> u64 {
        DEVICE_ID
    }

    fn config(&self) -> Vec<u8> {
        BOARD.to_le_bytes().to_vec()
    }

    fn fills(&self, queue: usize) -> bool {
        queue == RECEIVE
    }

    fn wants(&self, queue: usize) -> bool {
        let waits = || !self.strays.is_empty() || self.streams.iter().any(Stream::has_next);
        queue == TRANSMIT || queue == RECEIVE && waits()
    }

    fn serve(&mut self, queue: usize, chain: Chain<'_>, ram: &Ram) -> Result<Moved, Fault> {
        if queue == TRANSMIT {
            let mut bytes = [0; size_of::<Header>() + DATA];
            let length = read_chain(chain, ram, &mut bytes)?;
            if let Ok((header, data)) = Header::read_from_prefix(&bytes[..length]) {
                let data = data.get(..header.bytes.get() as usize).unwrap_or(data);
                self.told(&header, data);
            }
            return Ok(Moved { read: length, ..Moved::default() });
        }
        let mut writer = chain.writer(ram.guest())?;
        if writer.available_bytes() < size_of::<Header>() + DATA {
            return Err(Fault::NoStatus);
        }
        let Some((header, data)) = self.next() else { return Ok(Moved::default()) };
        writer.write_all(header.as_bytes())?;
        writer.write_all(&data)?;
        Ok(Moved { written: size_of::<Header>() + data.len(), ..Moved::default() })
    }

    fn waits_for(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let mut waits = vec![(self.listener.as_fd(), PollFlags::IN)];
        for stream in self.streams.iter().filter(|stream| !stream.over) {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !stream.input_ends && stream.input.len() < AHEAD);
            flags.set(PollFlags::OUT, !stream.output.is_empty());
            // With no flag at all, a client that hung up would wake this thread again and again.
            if !flags.is_empty() {
                waits.push((stream.client.as_fd(), flags));
            }
        }
        waits
    }

    fn ready(&mut self) {
        self.streams.retain(|stream| !stream.over || !stream.control.is_empty());
        self.accept();
        for stream in &mut self.streams {
            stream.read();
            stream.flush();
        }
    }

    /// A driver starts again: streams that are not open yet are requested from it again.
    fn reset(&mut self, _taken: u64) {
        self.strays.clear();
        self.streams.retain(|stream| stream.state != State::Open && !stream.over);
        for stream in self.streams.iter_mut().filter(|stream| stream.state == State::Asks) {
            stream.control = VecDeque::from([Op::Request]);
        }
    }

    fn finish(&mut self) {
        self.streams.iter_mut().for_each(Stream::flush);
    }
}
