//! Clients of the server on this chip, over its own network: each uploads the same file several
//! times on one connection.

use penumbra::net::TcpStream;
use penumbra::ready::{self, Interest};
use std::error::Error;

/// Where the server listens.
const SERVER: ([u8; 4], u16) = ([127, 0, 0, 1], 80);
/// How long a client waits until the server listens, in ns.
const PATIENCE: u64 = 10_000_000_000;

/// A connection, with what it has still to do.
struct Client {
    stream: TcpStream,
    /// Uploads that are not answered yet.
    left: usize,
    /// Of the request.
    sent: usize,
    received: Vec<u8>,
}

/// Returns the length of an answer if all of it is there.
fn whole(received: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(received);
    let (head, _) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?;
    let length = head.len() + 4 + length.parse::<usize>().ok()?;
    (received.len() >= length).then_some(length)
}

impl Client {
    fn interest(&self, request: &[u8]) -> Interest<'_> {
        match self.sent < request.len() {
            true => Interest::Write(self.stream.file()),
            false => Interest::Read(self.stream.file()),
        }
    }

    /// Sends or receives what can be. Each answer must be `answer`, or becomes it.
    fn proceed(&mut self, request: &[u8], answer: &mut Vec<u8>) -> Result<(), Box<dyn Error>> {
        if let Some(rest) = request.get(self.sent..).filter(|rest| !rest.is_empty()) {
            self.sent += self.stream.write(rest)?;
            return Ok(());
        }
        let mut some = [0; 16_384];
        let length = self.stream.read(&mut some)?;
        self.received.extend_from_slice(some.get(..length).unwrap_or_default());
        if length == 0 {
            return Err("the server has closed a connection".into());
        }
        if whole(&self.received).is_some() {
            if answer.is_empty() && self.received.starts_with(b"HTTP/1.1 200 ") {
                answer.clone_from(&self.received);
            }
            if *answer != self.received {
                return Err(String::from_utf8_lossy(&self.received).into());
            }
            self.received.clear();
            self.sent = 0;
            self.left -= 1;
        }
        Ok(())
    }
}

/// Uploads a file `each` times from `count` clients at the same time, and compares the answers.
/// Returns the time from the first request to the last answer, in ns.
pub fn upload(file: &[u8], count: usize, each: usize) -> Result<u64, Box<dyn Error>> {
    let head = format!("POST /thumbnail.ppm HTTP/1.1\r\nContent-Length: {}\r\n\r\n", file.len());
    let request = [head.as_bytes(), file].concat();
    let mut clients = Vec::new();
    for _ in 0..count {
        let stream = TcpStream::connect_when_listening(SERVER, PATIENCE)?;
        stream.set_nonblocking(true)?;
        clients.push(Client { stream, left: each, sent: 0, received: Vec::new() });
    }
    let mut answer = Vec::new();
    let begun = ready::now();
    while !clients.is_empty() {
        let what: Vec<Interest<'_>> = clients.iter().map(|it| it.interest(&request)).collect();
        let ready = ready::wait(&what, None)?;
        for (index, client) in clients.iter_mut().enumerate() {
            if ready.contains(&index) {
                client.proceed(&request, &mut answer)?;
            }
        }
        clients.retain(|client| client.left > 0);
    }
    Ok(ready::now() - begun)
}
