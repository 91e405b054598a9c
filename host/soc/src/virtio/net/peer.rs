//! A peer in the soc's seat, for boards in the lab: a host at the other end of the cable that does
//! what a [script] says, in the chip's time. So runs with a network repeat exactly.
//!
//! ```text
//!   script --> clients --> stack (smoltcp) --> cable (faults, delay) --> device, at exact times
//!                 |                       <--                        <-- frames of the chip
//!                 v
//!              answers (a file)
//! ```
//! Nothing here looks at the host's clock, or waits. The device asks for the time of the next event
//! ([`Attachment::next_event`]) and calls again then.

pub mod answers;
pub mod cable;
mod client;
pub mod script;
mod stack;

use super::Attachment;
use crate::config;
use crate::gate::Gate;
use answers::Answers;
use cable::{Cable, End};
use client::Client;
use script::Script;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use stack::Stack;
use std::collections::VecDeque;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;

/// Frames that wait for the driver; further ones are lost.
const AHEAD: usize = 64;
/// Frames whose arrival is remembered.
const ARRIVALS: usize = 64;
/// Connections to each port of the peer, at a time.
const ECHOES: usize = 4;
/// The peer's ports for datagrams, one for each client.
const PORT: u16 = 40_000;
/// Bytes that an echo moves at a time.
const PIECE: usize = 4096;

/// A port at which the peer sends back what it receives.
struct Echo {
    port: u16,
    socket: Option<SocketHandle>,
    /// Received, and not sent back yet.
    bytes: VecDeque<u8>,
}

/// The peer.
pub struct Peer {
    clock: Gate,
    stack: Stack,
    cable: Cable,
    clients: Vec<Client>,
    echoes: Vec<Echo>,
    answers: Answers,
    /// Frames for the driver.
    frames: VecDeque<Vec<u8>>,
    /// When frames were given to the driver.
    arrivals: VecDeque<u64>,
}

impl Peer {
    /// Creates the peer of a script, whose answers go to a file.
    pub fn open(
        (script, answers): (&Path, &Path),
        v4: &config::Network<Ipv4Addr>,
        clock: Gate,
    ) -> std::io::Result<Peer> {
        Ok(Peer::new(Script::read(script)?, Answers::create(answers)?, v4, clock))
    }

    fn new(script: Script, answers: Answers, v4: &config::Network<Ipv4Addr>, clock: Gate) -> Peer {
        let mut stack = Stack::new(v4, script.seed);
        let with_ports = script.client.into_iter().zip(PORT..);
        let clients = with_ports.map(|(it, port)| Client::new(it, port, &mut stack)).collect();
        let echo = |port| Echo { port, socket: None, bytes: VecDeque::new() };
        let echoes = script.echo.iter().flat_map(|&port| (0..ECHOES).map(move |_| echo(port)));
        Peer {
            clock,
            cable: Cable::new(script.cable, script.seed),
            clients,
            echoes: echoes.collect(),
            answers,
            frames: VecDeque::new(),
            arrivals: VecDeque::new(),
            stack,
        }
    }

    /// Does everything that is due, until nothing is left.
    fn act(&mut self, now: u64) {
        loop {
            let mut is_busy = false;
            while let Some((end, frame)) = self.cable.take(now) {
                is_busy = true;
                match end {
                    End::Peer => self.stack.arrives(frame),
                    End::Chip if self.frames.len() < AHEAD => self.frames.push_back(frame),
                    End::Chip => {}
                }
            }
            self.stack.poll(now);
            for client in &mut self.clients {
                if let Some(answer) = client.step(now, &mut self.stack, &self.arrivals) {
                    is_busy = true;
                    self.answers.add(&answer);
                }
            }
            self.echoes.iter_mut().for_each(|echo| echo.step(&mut self.stack));
            self.stack.poll(now);
            while let Some(frame) = self.stack.sends() {
                is_busy = true;
                self.cable.send(now, End::Chip, frame);
            }
            if !is_busy {
                return;
            }
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Peer").field("clients", &self.clients).finish_non_exhaustive()
    }
}

impl Echo {
    fn step(&mut self, stack: &mut Stack) {
        let Some(handle) = self.socket else {
            self.socket = stack.listen(self.port);
            return;
        };
        let socket = stack.get::<tcp::Socket<'_>>(handle);
        while self.bytes.len() < PIECE && socket.can_recv() {
            let take = |bytes: &mut [u8]| (bytes.len(), bytes.to_vec());
            self.bytes.extend(socket.recv(take).unwrap_or_default());
        }
        if socket.can_send() && !self.bytes.is_empty() {
            let sent = socket.send_slice(self.bytes.make_contiguous()).unwrap_or(0);
            self.bytes.drain(..sent);
        }
        match socket.state() {
            tcp::State::CloseWait if self.bytes.is_empty() && !socket.can_recv() => socket.close(),
            tcp::State::Closed | tcp::State::TimeWait => {
                stack.remove(handle);
                self.bytes.clear();
                self.socket = stack.listen(self.port);
            }
            _ => {}
        }
    }
}

impl Attachment for Peer {
    fn is_up(&self) -> bool {
        true
    }

    fn has_next(&self) -> bool {
        !self.frames.is_empty()
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.arrivals.truncate(ARRIVALS - 1);
        self.arrivals.push_front(self.clock.now());
        Some(frame)
    }

    fn send(&mut self, frame: &[u8]) {
        self.cable.send(self.clock.now(), End::Peer, frame.to_vec());
    }

    fn ready(&mut self) {
        self.act(self.clock.now());
    }

    fn next_event(&mut self) -> Option<u64> {
        let now = self.clock.now();
        let clients = self.clients.iter().filter_map(Client::next);
        let all = clients.chain(self.cable.next()).chain(self.stack.next(now));
        all.min().map(|at| at.max(now + 1))
    }
}

#[cfg(test)]
#[path = "peer/tests.rs"]
mod tests;
