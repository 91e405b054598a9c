//! The control socket: one JSON object per line, one answer per line.
//!
//! `{"op":"status"}`, `{"op":"kill","domain":"weak"}`, `{"op":"power","domain":"weak",
//! "action":"off"|"inactive"|"wake"}`, `{"op":"cut","device":"disk","after":9,"seed":1}`,
//! `{"op":"shutdown"}`, `{"op":"reboot"}`. An answer has `"ok"`: true, with the result, or false,
//! with a sentence in `"error"`.

use crate::fabric::listen;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

const CLIENTS: usize = 16;
/// Maximum bytes of a line.
pub const MAX_LINE: usize = 4096;
/// A client that does not accept its answer within this time is disconnected.
const WRITE: Duration = Duration::from_millis(100);

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub enum Operation {
    /// Return the state of the board.
    Status {},
    /// Kill the QEMU of a domain, as a crash would.
    Kill {
        /// Its name.
        domain: String,
    },
    /// Change the power state, as a kernel may.
    Power {
        /// Name of the domain.
        domain: String,
        /// The new power state.
        action: Action,
    },
    /// Cut the power of a disk after so many more writes; unflushed writes are lost in part.
    Cut {
        /// Name of the device.
        device: String,
        /// Number of writes before the cut.
        after: u64,
        /// Selects the writes that are lost.
        seed: u64,
    },
    /// Shut down the board.
    Shutdown {},
    /// Shut down the board and start it again.
    Reboot {},
}

/// See [`Operation::Power`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Power off, cold.
    Off,
    /// Stop; all state is kept.
    Inactive,
    /// Wake.
    Wake,
}

/// The clients. They are numbered from 1; numbers are not reused.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    clients: Vec<Client>,
    last: u64,
}

#[derive(Debug)]
struct Client {
    number: u64,
    stream: UnixStream,
    line: Vec<u8>,
}

impl Control {
    /// Listens on `path`.
    pub fn open(path: &Path) -> std::io::Result<Control> {
        Ok(Control { listener: listen(path)?, clients: Vec::new(), last: 0 })
    }

    /// Returns the descriptors to wait for.
    pub fn waits_for(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.clients.iter().map(|c| c.stream.as_fd()))
    }

    /// Accepts clients and reads complete lines; does not wait.
    pub fn take(&mut self) -> Vec<(u64, Operation)> {
        self.accept();
        let mut operations = Vec::new();
        self.clients.retain_mut(|client| client.read(&mut operations));
        operations
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let ready = stream.set_nonblocking(false).and_then(|()| {
                stream.set_write_timeout(Some(WRITE))?;
                stream.set_read_timeout(Some(Duration::from_millis(1)))
            });
            if ready.is_ok() && self.clients.len() < CLIENTS {
                self.last += 1;
                self.clients.push(Client { number: self.last, stream, line: Vec::new() });
            }
        }
    }

    /// Answers a client, if it is still connected.
    pub fn answer(&mut self, number: u64, answer: &Value) {
        self.clients.retain_mut(|c| c.number != number || c.write(answer).is_ok());
    }
}

/// Returns the answer to a successful request.
pub fn good() -> Value {
    json!({ "ok": true })
}

/// Returns the answer to a failed request.
pub fn refused(sentence: &str) -> Value {
    json!({ "ok": false, "error": sentence })
}

impl Client {
    /// Reads from the client. Returns false if it has disconnected.
    fn read(&mut self, operations: &mut Vec<(u64, Operation)>) -> bool {
        use rustix::net::{RecvFlags, recv};
        let mut bytes = [0u8; 1024];
        match recv(&self.stream, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok((n, _)) => self.line.extend_from_slice(&bytes[..n]),
            Err(e) => return matches!(std::io::Error::from(e).kind(), ErrorKind::WouldBlock),
        }
        while let Some(end) = self.line.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(operation) => operations.push((self.number, operation)),
                Err(e) if self.write(&refused(&e.to_string())).is_err() => return false,
                Err(_) => {}
            }
        }
        if self.line.len() > MAX_LINE {
            // The client is disconnected, whether it reads this or not.
            let _ = self.write(&refused(&format!("a line is longer than {MAX_LINE} bytes")));
            return false;
        }
        true
    }

    fn write(&mut self, answer: &Value) -> std::io::Result<()> {
        self.stream.write_all(format!("{answer}\n").as_bytes())
    }
}

/// Sends one request to the soc at `path` and waits for its answer. For `pen` and tests.
pub fn ask(path: &Path, operation: &Value) -> std::io::Result<Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(format!("{operation}\n").as_bytes())?;
    let mut line = Vec::new();
    let mut byte = [0u8; 1];
    while stream.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    serde_json::from_slice(&line).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_by_name_and_nonsense_is_refused() {
        let read = |line| serde_json::from_str::<Operation>(line);
        assert_eq!(read(r#"{"op":"status"}"#).unwrap(), Operation::Status {});
        assert_eq!(
            read(r#"{"op":"power","domain":"weak","action":"wake"}"#).unwrap(),
            Operation::Power { domain: "weak".into(), action: Action::Wake }
        );
        for line in [r#"{"op":"burn"}"#, r#"{"op":"kill"}"#, r#"{"op":"power","domain":"a"}"#, "1"]
        {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_and_its_client_disconnected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let mut control = Control::open(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(&vec![b'x'; MAX_LINE + 2]).unwrap();
        // A turn reads a piece of it.
        (0..MAX_LINE / 1024 + 2).for_each(|_| drop(control.take()));
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("bytes\",\"ok\":false}\n"), "{answer}");
    }

    #[test]
    fn a_client_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let mut control = Control::open(&path).unwrap();
        let client = std::thread::spawn({
            let path = path.clone();
            move || ask(&path, &json!({ "op": "shutdown" })).unwrap()
        });
        let (number, operation) = loop {
            let mut waits: Vec<_> = control
                .waits_for()
                .map(|fd| rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN))
                .collect();
            rustix::event::poll(&mut waits, None).unwrap();
            if let Some(found) = control.take().pop() {
                break found;
            }
        };
        assert_eq!(operation, Operation::Shutdown {});
        control.answer(number, &good());
        assert_eq!(client.join().unwrap(), good());
    }
}
