//! The control socket: reads requests, writes answers, and never waits.

use gateway::control::{Answer, MAX_LINE, Request};
use rustix::event::PollFlags;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

const CLIENTS: usize = 16;

/// The clients, numbered from 1; numbers are not reused.
pub struct Server {
    listener: UnixListener,
    clients: Vec<Client>,
    last: u64,
}

struct Client {
    number: u64,
    stream: UnixStream,
    line: Vec<u8>,
}

/// A request, or why there is none in a line; with its client.
pub type Asked = (u64, Result<Request, String>);

impl Server {
    /// Listens at `path`, replacing an existing file.
    pub fn open(path: &Path) -> std::io::Result<Server> {
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Server { listener, clients: Vec::new(), last: 0 })
    }

    pub fn waits_for(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let clients = self.clients.iter().map(|client| client.stream.as_fd());
        let all = std::iter::once(self.listener.as_fd()).chain(clients);
        all.map(|fd| (fd, PollFlags::IN)).collect()
    }

    /// Accepts clients, and reads complete lines.
    pub fn take(&mut self) -> Vec<Asked> {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() < CLIENTS && stream.set_nonblocking(true).is_ok() {
                self.last += 1;
                self.clients.push(Client { number: self.last, stream, line: Vec::new() });
            }
        }
        let mut asked = Vec::new();
        self.clients.retain_mut(|client| client.read(&mut asked));
        asked
    }

    /// Answers a client; one that does not read is disconnected.
    pub fn answer(&mut self, number: u64, answer: &Answer) {
        // It cannot fail for these types; the client would get an empty line.
        let mut line = serde_json::to_vec(answer).unwrap_or_default();
        line.push(b'\n');
        let write = |client: &mut Client| client.stream.write_all(&line).is_ok();
        self.clients.retain_mut(|client| client.number != number || write(client));
    }
}

impl Client {
    /// Returns false if the client is gone, or its line is too long.
    fn read(&mut self, asked: &mut Vec<Asked>) -> bool {
        let mut bytes = [0; MAX_LINE];
        loop {
            let more = match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(n) => &bytes[..n],
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            };
            self.line.extend(more);
            while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                let request = serde_json::from_slice(&line).map_err(|why| why.to_string());
                asked.push((self.number, request));
            }
            if self.line.len() > MAX_LINE || asked.len() > CLIENTS {
                return false;
            }
        }
    }
}
