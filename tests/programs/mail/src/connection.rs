//! One client: its bytes are cut into lines for the session, whose answers are sent back. While a
//! mail is at the store, the client waits. Nothing here does.

use crate::delivery::{Delivery, Outcome};
use crate::store::{Given, Store};
use mailin::response::OK;
use mailin::{Action, Response, Session, SessionBuilder};
use penumbra::Errno;
use penumbra::net::TcpStream;
use penumbra::ready::{self, Interest};
use std::net::IpAddr;
use std::rc::Rc;

/// Longest line of a client. One that sends more without an end is left.
const LONGEST: usize = 65_536;
/// Answers that wait to be sent, in bytes. Nothing is received while there are more.
const MOST_ANSWERS: usize = 4_096;
/// A client that does nothing for so long is left, in ns.
const PATIENCE: u64 = 300_000_000_000;

/// A client that is connected.
pub struct Connection {
    stream: TcpStream,
    session: Session<Delivery>,
    store: Rc<Store>,
    outcome: Outcome,
    /// Its mail is at the store, and not answered yet.
    given: Option<Given>,
    received: Vec<u8>,
    answers: Vec<u8>,
    /// The session has ended; the connection does when all answers are sent.
    is_ending: bool,
    is_open: bool,
    last: u64,
}

impl Connection {
    /// Greets a client.
    pub fn new(stream: TcpStream, peer: IpAddr, store: &Rc<Store>) -> Result<Connection, Errno> {
        stream.set_nonblocking(true)?;
        let name = SessionBuilder::new(store.domain.as_str());
        let (store, outcome) = (Rc::clone(store), Outcome::default());
        let session = name.build(peer, Delivery::new(Rc::clone(&store), Rc::clone(&outcome)));
        let greeting = session.greeting();
        let mut connection = Connection {
            stream,
            session,
            store,
            outcome,
            given: None,
            received: Vec::new(),
            answers: Vec::new(),
            is_ending: false,
            is_open: true,
            last: ready::now(),
        };
        connection.answer(&greeting);
        Ok(connection)
    }

    /// Returns whether it is still served.
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns what it waits for.
    pub fn interest(&self) -> Interest<'_> {
        match &self.given {
            _ if !self.answers.is_empty() => Interest::Write(self.stream.file()),
            Some(given) => Interest::Read(given.transport().file()),
            None => Interest::Read(self.stream.file()),
        }
    }

    /// Does what can be done without waiting.
    pub fn proceed(&mut self, is_ready: bool) {
        let now = ready::now();
        if !is_ready {
            self.is_open &= now.saturating_sub(self.last) < PATIENCE;
            return;
        }
        self.last = now;
        let done = match self.given.take_if(|_| self.answers.is_empty()) {
            Some(given) => {
                self.conclude(given);
                Ok(true)
            }
            None if self.answers.is_empty() => self.receive(),
            None => self.send(),
        };
        self.is_open = match done {
            Ok(continues) => continues,
            Err(error) => error == Errno::AGAIN,
        };
    }

    /// Sends answers. Returns whether the connection continues.
    fn send(&mut self) -> Result<bool, Errno> {
        let sent = self.stream.write(&self.answers)?;
        self.answers.drain(..sent);
        if self.answers.is_empty() {
            // What came with the lines before.
            self.take_lines();
        }
        Ok(!self.is_ending || !self.answers.is_empty())
    }

    /// Receives what has come. Returns whether the connection continues.
    fn receive(&mut self) -> Result<bool, Errno> {
        let mut some = [0; 8_192];
        let length = self.stream.read(&mut some)?;
        self.received.extend_from_slice(&some[..length]);
        self.take_lines();
        Ok(length > 0 && self.received.len() <= LONGEST)
    }

    /// Answers a mail with what the store says of it.
    fn conclude(&mut self, given: Given) {
        let kept = self.store.verdict(given);
        self.answer(&kept.err().unwrap_or(OK));
    }

    /// Gives the session the whole lines that have come, as long as it has few answers and no mail
    /// is at the store.
    fn take_lines(&mut self) {
        let mut taken = 0;
        while !self.is_ending && self.given.is_none() && self.answers.len() < MOST_ANSWERS {
            let rest = &self.received[taken..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
            let response = self.session.process(&rest[..=end]);
            taken += end + 1;
            match self.outcome.take() {
                None => self.answer(&response),
                Some(Err(refusal)) => self.answer(&refusal),
                Some(Ok(given)) => self.given = Some(given),
            }
        }
        self.received.drain(..taken);
    }

    fn answer(&mut self, response: &Response) {
        match response.action {
            Action::Reply => {}
            Action::NoReply => return,
            // No session here offers TLS.
            Action::Close | Action::UpgradeTls => self.is_ending = true,
        }
        response.write_to(&mut self.answers).expect("a vector takes everything");
    }
}
