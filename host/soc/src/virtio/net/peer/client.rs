//! A client of the script: its requests, one after the other.
//!
//! ```text
//!   waits --due--> asks --answer, end of the connection, or patience--> waits ... done
//! ```

use super::answers::{Answer, Outcome};
use super::script::{Client as Script, Kind};
use super::stack::Stack;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::{tcp, udp};
use std::collections::VecDeque;

/// Most bytes that are kept of a header and a body beyond what the script wants.
const MORE: usize = 4096;
/// The end of an HTTP header.
const BLANK: &[u8] = b"\r\n\r\n";
/// How the answer to a good request begins, but for the minor version of HTTP.
const GOOD: (&[u8], &[u8]) = (b"HTTP/1.", b" 200 ");
/// Places of the number and of the server's time in a datagram.
const NUMBER: std::ops::Range<usize> = 0..8;
const STAMP: std::ops::Range<usize> = 8..16;
const MS: u64 = 1_000_000;

/// Returns the bytes that clients send and servers return: `length` of them.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A request in progress.
#[derive(Debug)]
struct Asked {
    began: u64,
    /// Absent if no connection could be begun.
    socket: Option<SocketHandle>,
    request: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    script: Script,
    /// Its socket for datagrams.
    datagrams: Option<SocketHandle>,
    number: u64,
    /// When the next request is due.
    due: u64,
    asked: Option<Asked>,
    /// Connections that have not ended yet, as TCP counts.
    ending: Vec<SocketHandle>,
}

impl Client {
    /// `port` is the peer's own, for datagrams.
    pub fn new(script: Script, port: u16, stack: &mut Stack) -> Client {
        let datagrams = if script.kind.is_datagram() { stack.datagrams(port) } else { None };
        let due = script.first_ms * MS;
        Client { script, datagrams, number: 0, due, asked: None, ending: Vec::new() }
    }

    /// Returns when something is due that no frame announces.
    pub fn next(&self) -> Option<u64> {
        match &self.asked {
            Some(asked) => Some(asked.began + self.script.patience_ms * MS),
            None => (self.number < self.script.count).then_some(self.due),
        }
    }

    /// Carries out what is due, and what has arrived. `arrivals` are the times at which frames came
    /// to the chip, the last one first. Returns the answer of a request that has ended.
    pub fn step(
        &mut self,
        now: u64,
        stack: &mut Stack,
        arrivals: &VecDeque<u64>,
    ) -> Option<Answer> {
        self.ending.retain(|&handle| {
            let has_ended = stack.get::<tcp::Socket<'_>>(handle).state() == tcp::State::Closed;
            if has_ended {
                stack.remove(handle);
            }
            !has_ended
        });
        if self.asked.is_none() && self.number < self.script.count && self.due <= now {
            self.asked = Some(self.ask(now, stack));
        }
        let kind = self.script.kind;
        let asked = self.asked.as_mut()?;
        let has_ended = match asked.socket {
            None => true,
            Some(socket) if kind.is_datagram() => asked.datagram(stack.get(socket)),
            Some(socket) => asked.stream(stack.get(socket), kind, self.script.bytes + MORE),
        };
        let is_late = now >= asked.began + self.script.patience_ms * MS;
        if has_ended || is_late { self.end(now, stack, arrivals) } else { None }
    }

    fn ask(&mut self, now: u64, stack: &mut Stack) -> Asked {
        let Script { kind, port, bytes, path, .. } = &self.script;
        let mut request = match kind {
            Kind::Http => format!("GET {path} HTTP/1.0\r\nHost: chip\r\n\r\n").into_bytes(),
            Kind::Echo | Kind::Datagram | Kind::Stamp => pattern(*bytes),
        };
        let socket = match kind {
            Kind::Http | Kind::Echo => stack.connect(*port),
            Kind::Datagram | Kind::Stamp => {
                request[NUMBER].copy_from_slice(&self.number.to_le_bytes());
                let to = stack.chip(*port);
                let send = |handle| {
                    // Nothing else waits in its buffer.
                    let _ = stack.get::<udp::Socket<'_>>(handle).send_slice(&request, to);
                    handle
                };
                self.datagrams.map(send)
            }
        };
        Asked { began: now, socket, request, sent: 0, received: Vec::new() }
    }

    fn end(&mut self, now: u64, stack: &mut Stack, arrivals: &VecDeque<u64>) -> Option<Answer> {
        let asked = self.asked.take()?;
        if let (Some(socket), false) = (asked.socket, self.script.kind.is_datagram()) {
            let stream = stack.get::<tcp::Socket<'_>>(socket);
            if stream.may_recv() {
                stream.abort()
            } else {
                stream.close()
            }
            self.ending.push(socket);
        }
        let answer = Answer {
            client: self.script.name.clone(),
            number: self.number,
            at_ns: now,
            took_ns: now - asked.began,
            outcome: asked.outcome(&self.script),
            bytes: asked.received.len(),
            wake_ns: asked.stamp(self.script.kind).and_then(|stamp| {
                let arrived = arrivals.iter().find(|&&at| at <= stamp)?;
                Some(stamp - arrived)
            }),
        };
        self.number += 1;
        self.due = now.max(self.due + self.script.every_ms * MS);
        Some(answer)
    }
}

impl Asked {
    /// Receives the answer. Returns whether it has come.
    fn datagram(&mut self, socket: &mut udp::Socket<'_>) -> bool {
        while let Ok((bytes, _)) = socket.recv() {
            // An answer that was repeated, or came too late, is another one's.
            if bytes.get(NUMBER) == self.request.get(NUMBER) {
                self.received = bytes.to_vec();
                return true;
            }
        }
        false
    }

    /// Sends and receives what can be. Returns whether the chip has ended its side.
    fn stream(&mut self, socket: &mut tcp::Socket<'_>, kind: Kind, most: usize) -> bool {
        if socket.can_send() && self.sent < self.request.len() {
            self.sent += socket.send_slice(&self.request[self.sent..]).unwrap_or(0);
            if self.sent == self.request.len() && kind == Kind::Echo {
                socket.close();
            }
        }
        while socket.can_recv() && self.received.len() < most {
            let take = |bytes: &mut [u8]| (bytes.len(), bytes.to_vec());
            self.received.extend(socket.recv(take).unwrap_or_default());
        }
        let is_new = matches!(socket.state(), tcp::State::SynSent | tcp::State::SynReceived);
        !is_new && !socket.may_recv() || self.received.len() >= most
    }

    fn outcome(&self, script: &Script) -> Outcome {
        let (received, wanted) = (&self.received[..], pattern(script.bytes));
        let is_right = match script.kind {
            Kind::Http => body(received) == Some(&wanted),
            Kind::Echo => received == wanted,
            Kind::Datagram => received == self.request,
            Kind::Stamp => {
                let others = |bytes: &[u8]| bytes.get(STAMP.end..).map(<[u8]>::to_vec);
                received.len() == self.request.len() && others(received) == others(&self.request)
            }
        };
        match (is_right, received.is_empty()) {
            (true, _) => Outcome::Right,
            (false, false) => Outcome::Wrong,
            (false, true) => Outcome::Failed,
        }
    }

    fn stamp(&self, kind: Kind) -> Option<u64> {
        let bytes = self.received.get(STAMP).filter(|_| kind == Kind::Stamp)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// Returns the body of a good answer.
fn body(received: &[u8]) -> Option<&[u8]> {
    let status = received.strip_prefix(GOOD.0)?;
    status.get(1..)?.strip_prefix(GOOD.1)?;
    let end = received.windows(BLANK.len()).position(|bytes| bytes == BLANK)?;
    Some(&received[end + BLANK.len()..])
}
