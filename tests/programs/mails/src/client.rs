//! Clients of the mail server on this chip, over its own network. Each sends the next mail when
//! its last one was taken, on one connection.

use crate::Indexer;
use crate::inputs::DOMAIN;
use penumbra::net::TcpStream;
use penumbra::ready::{self, Interest};
use std::error::Error;

/// Where the server listens.
const SERVER: ([u8; 4], u16) = ([127, 0, 0, 1], 25);
/// How long a client waits until the server listens, in ns.
const PATIENCE: u64 = 10_000_000_000;

/// What was sent last.
#[derive(Clone, Copy)]
enum Step {
    Hello,
    From,
    To,
    Data,
    Mail,
}

/// A connection.
struct Client {
    stream: TcpStream,
    last: Step,
    request: Vec<u8>,
    /// Of the request.
    sent: usize,
    received: Vec<u8>,
    is_done: bool,
}

/// Receives a line, which must begin with this code.
fn expect(stream: &TcpStream, code: &str) -> Result<(), Box<dyn Error>> {
    let mut received = Vec::new();
    while !received.ends_with(b"\n") {
        let mut some = [0; 512];
        let length = stream.read(&mut some)?;
        received.extend_from_slice(some.get(..length).unwrap_or_default());
        if length == 0 {
            break;
        }
    }
    match received.starts_with(code.as_bytes()) {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&received).into()),
    }
}

impl Client {
    /// Connects, and greets the server.
    fn new() -> Result<Client, Box<dyn Error>> {
        let stream = TcpStream::connect_when_listening(SERVER, PATIENCE)?;
        expect(&stream, "220")?;
        stream.write(b"HELO host.example\r\n")?;
        expect(&stream, "250")?;
        stream.set_nonblocking(true)?;
        let (last, request, received) = (Step::Hello, Vec::new(), Vec::new());
        Ok(Client { stream, last, request, sent: 0, received, is_done: false })
    }

    fn interest(&self) -> Interest<'_> {
        match self.sent < self.request.len() {
            true => Interest::Write(self.stream.file()),
            false => Interest::Read(self.stream.file()),
        }
    }

    /// Begins with what follows the step before, with the next mail if there is one.
    fn advance<'a>(&mut self, mail: &mut Option<&'a str>, next: impl FnOnce() -> Option<&'a str>) {
        let (step, request) = match (self.last, *mail) {
            (Step::From, _) => (Step::To, format!("RCPT TO:<bob@{DOMAIN}>\r\n")),
            (Step::To, _) => (Step::Data, "DATA\r\n".to_string()),
            (Step::Data, Some(mail)) => (Step::Mail, mail.to_string()),
            _ => {
                *mail = next();
                self.is_done = mail.is_none();
                (Step::From, "MAIL FROM:<ada@host.example>\r\n".to_string())
            }
        };
        self.last = step;
        self.request = request.into_bytes();
        self.sent = 0;
    }

    /// Sends or receives what can be. Returns whether the last request was answered.
    fn proceed(&mut self) -> Result<bool, Box<dyn Error>> {
        if let Some(rest) = self.request.get(self.sent..).filter(|rest| !rest.is_empty()) {
            self.sent += self.stream.write(rest)?;
            return Ok(false);
        }
        let mut some = [0; 512];
        let length = self.stream.read(&mut some)?;
        self.received.extend_from_slice(some.get(..length).unwrap_or_default());
        let code: &[u8] = if matches!(self.last, Step::Data) { b"354" } else { b"250" };
        let is_whole = self.received.ends_with(b"\n");
        if length == 0 || is_whole && !self.received.starts_with(code) {
            return Err(String::from_utf8_lossy(&self.received).into());
        }
        if is_whole {
            self.received.clear();
        }
        Ok(is_whole)
    }
}

/// Sends all mails from `count` clients at the same time, each mail once, while an indexer runs.
/// Returns the time from the first request to the last answer, in ns.
pub fn send(
    mails: &[String],
    count: usize,
    mut indexer: Option<&mut Indexer>,
) -> Result<u64, Box<dyn Error>> {
    let mut rest = mails.iter().map(String::as_str);
    let clients = (0..count).map(|_| Client::new()).collect::<Result<Vec<_>, _>>()?;
    let mut clients: Vec<(Client, Option<&str>)> =
        clients.into_iter().map(|client| (client, None)).collect();
    let begun = ready::now();
    for (client, mail) in &mut clients {
        client.advance(mail, || rest.next());
    }
    clients.retain(|(client, _)| !client.is_done);
    while !clients.is_empty() {
        let mut what: Vec<Interest<'_>> = clients.iter().map(|(it, _)| it.interest()).collect();
        what.extend(indexer.as_ref().map(|indexer| Interest::Read(&indexer.output)));
        let ready = ready::wait(&what, None)?;
        for (index, (client, mail)) in clients.iter_mut().enumerate() {
            if ready.contains(&index) && client.proceed()? {
                client.advance(mail, || rest.next());
            }
        }
        if let Some(indexer) = indexer.as_mut().filter(|_| ready.contains(&clients.len())) {
            indexer.proceed()?;
        }
        clients.retain(|(client, _)| !client.is_done);
    }
    Ok(ready::now() - begun)
}
