//! virtio-console: the system console.
//!
//! Output of kernels goes to a log file, to every client of a unix socket, and into a bounded
//! backlog that a new client receives first. Input of any client goes to the kernels; while they do
//! not take it, clients are not read. A client that does not read is disconnected.

use super::{Chain, Fault, Model, Moved};
use crate::fabric::{Doorbell, listen};
use crate::memory::Ram;
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Bytes of past output that a new client receives.
pub const BACKLOG: usize = 64 << 10;
/// Maximum bytes of input that wait for the kernels.
const INPUT: usize = 16 << 10;
/// Maximum bytes of output that wait for a client.
const BEHIND: usize = 1 << 20;
const CLIENTS: usize = 16;
const QUEUE_RECEIVE: usize = 0;
const QUEUE_TRANSMIT: usize = 1;

/// The device.
#[derive(Debug)]
pub struct Console {
    listener: UnixListener,
    log: File,
    clients: Vec<Client>,
    backlog: VecDeque<u8>,
    input: VecDeque<u8>,
    /// The last bytes of input that the kernels have got, and the number of all of them.
    got: VecDeque<u8>,
    count: u64,
    notes: Receiver<String>,
    bell: Arc<Doorbell>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    output: VecDeque<u8>,
}

/// Lets the soc print on the console.
#[derive(Clone, Debug)]
pub struct Voice {
    notes: Sender<String>,
    bell: Arc<Doorbell>,
}

impl Voice {
    /// Prints a line of the soc.
    pub fn say(&self, sentence: &str) {
        // The console is already gone: there is no reader.
        let _ = self.notes.send(format!("\r\n[soc] {sentence}\r\n"));
        self.bell.ring();
    }
}

impl Client {
    /// Writes as much as the socket accepts. Returns false if the client is gone or too much output
    /// waits for it.
    fn flush(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(self.output.as_slices().0) {
                Ok(0) => return false,
                Ok(n) => drop(self.output.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    return self.output.len() <= BEHIND;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Reads at most `most` bytes. Returns false if the client is gone.
    fn read(&mut self, most: usize, into: &mut VecDeque<u8>) -> bool {
        let mut bytes = [0u8; 1024];
        let most = most.min(bytes.len());
        if most == 0 {
            return true;
        }
        match self.stream.read(&mut bytes[..most]) {
            Ok(0) => false,
            Ok(n) => {
                into.extend(&bytes[..n]);
                true
            }
            Err(e) => matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

impl Console {
    /// Listens on `socket` and appends to `log`.
    pub fn open(socket: &Path, log: &Path) -> std::io::Result<(Console, Voice)> {
        let (sender, notes) = channel();
        let bell = Arc::new(Doorbell::new()?);
        let console = Console {
            listener: listen(socket)?,
            log: OpenOptions::new().create(true).append(true).open(log)?,
            clients: Vec::new(),
            backlog: VecDeque::new(),
            input: VecDeque::new(),
            got: VecDeque::new(),
            count: 0,
            notes,
            bell: bell.clone(),
        };
        Ok((console, Voice { notes: sender, bell }))
    }

    fn output(&mut self, bytes: &[u8]) {
        if let Err(e) = self.log.write_all(bytes) {
            log::error!("Console: its log cannot be written: {e}.");
        }
        self.backlog.extend(bytes);
        let excess = self.backlog.len().saturating_sub(BACKLOG);
        self.backlog.drain(..excess);
        for client in &mut self.clients {
            client.output.extend(bytes);
        }
        self.flush();
    }

    fn flush(&mut self) {
        self.clients.retain_mut(Client::flush);
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() == CLIENTS || stream.set_nonblocking(true).is_err() {
                log::warn!("Console: a client was rejected.");
                continue;
            }
            self.clients.push(Client { stream, output: self.backlog.clone() });
        }
    }

    fn read_clients(&mut self) {
        let input = &mut self.input;
        self.clients.retain_mut(|client| client.read(INPUT.saturating_sub(input.len()), input));
    }

    fn take_notes(&mut self) {
        self.bell.take();
        while let Ok(note) = self.notes.try_recv() {
            self.output(note.as_bytes());
        }
    }
}

impl Model for Console {
    fn id(&self) -> u64 {
        3
    }

    fn fills(&self, queue: usize) -> bool {
        queue == QUEUE_RECEIVE
    }

    fn wants(&self, queue: usize) -> bool {
        queue == QUEUE_TRANSMIT || queue == QUEUE_RECEIVE && !self.input.is_empty()
    }

    fn empties(&self, queue: usize) -> bool {
        queue == QUEUE_TRANSMIT
    }

    /// Input that the kernels have got, but no reader was given, comes again. More than they have
    /// got cannot have been given; from such a count on, both sides count alike.
    fn reset(&mut self, taken: u64) {
        let left = usize::try_from(self.count.saturating_sub(taken)).unwrap_or(usize::MAX);
        let kept = self.got.len();
        for byte in self.got.drain(kept - left.min(kept)..).rev() {
            self.input.push_front(byte);
            self.count -= 1;
        }
        self.count = self.count.max(taken);
    }

    fn serve(&mut self, queue: usize, chain: Chain<'_>, ram: &Ram) -> Result<Moved, Fault> {
        if queue == QUEUE_TRANSMIT {
            let mut reader = chain.reader(ram.guest())?;
            let mut bytes = [0u8; 4096];
            loop {
                let n = reader.read(&mut bytes)?;
                if n == 0 {
                    return Ok(Moved { read: reader.bytes_read(), ..Moved::default() });
                }
                self.output(&bytes[..n]);
            }
        }
        let mut writer = chain.writer(ram.guest())?;
        let size = writer.available_bytes().min(self.input.len());
        let bytes: Vec<u8> = self.input.drain(..size).collect();
        writer.write_all(&bytes)?;
        self.count = self.count.wrapping_add(size as u64);
        self.got.extend(bytes);
        let excess = self.got.len().saturating_sub(INPUT);
        self.got.drain(..excess);
        Ok(Moved { written: size, ..Moved::default() })
    }

    fn waits_for(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let readable = if self.input.len() < INPUT { PollFlags::IN } else { PollFlags::empty() };
        let mut waits =
            vec![(self.listener.as_fd(), PollFlags::IN), (self.bell.as_fd(), PollFlags::IN)];
        for client in &self.clients {
            let behind = !client.output.is_empty();
            let flags = if behind { readable | PollFlags::OUT } else { readable };
            // With no flag at all, a client that hung up would wake this thread again and again.
            if !flags.is_empty() {
                waits.push((client.stream.as_fd(), flags));
            }
        }
        waits
    }

    fn ready(&mut self) {
        self.take_notes();
        self.accept();
        self.read_clients();
        self.flush();
    }

    fn finish(&mut self) {
        self.take_notes();
        self.flush();
    }
}
