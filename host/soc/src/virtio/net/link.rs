//! The socket to the network: frames, each after its length in four bytes, big endian.
//!
//! One network is attached at a time. One that closes, or sends a length that no frame has, is
//! detached, and the socket waits for the next. Frames that Ethernet cannot have (shorter than a
//! header, longer than the chip's largest) are dropped. All queues are bounded.

use super::SHORTEST;
use crate::config;
use crate::fabric::listen;
use abi::ethernet::FRAME;
use rustix::event::PollFlags;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Bytes of a length.
const LENGTH: usize = size_of::<u32>();
/// A greater length is nonsense: the largest packet of IP, and a header.
const LONGEST: usize = 65_535 + SHORTEST;
/// Frames that wait for the driver.
const AHEAD: usize = 64;
/// Bytes that wait for the network; one frame more may.
const BEHIND: usize = 64 << 10;
/// Bytes read at a time.
const CHUNK: usize = 16 << 10;
/// Seconds between two attempts to connect.
const RETRY: i64 = 1;

/// Where networks come from.
#[derive(Debug)]
enum Door {
    /// Nowhere.
    Shut,
    Listens(UnixListener),
    /// The path, a timer that expires when it is tried again, and whether a failure was logged.
    Connects(PathBuf, OwnedFd, bool),
}

/// The socket, and the frames that wait on both sides.
#[derive(Debug)]
pub struct Link {
    door: Door,
    stream: Option<UnixStream>,
    /// Bytes from the network; the first frame may be incomplete.
    input: Vec<u8>,
    /// Frames for the driver.
    frames: VecDeque<Vec<u8>>,
    /// Bytes for the network.
    output: VecDeque<u8>,
}

impl Door {
    fn open(link: Option<&config::Link>) -> std::io::Result<Door> {
        match link {
            None => Ok(Door::Shut),
            Some(config::Link::Listen(path)) => Ok(Door::Listens(listen(path)?)),
            Some(config::Link::Connect(path)) => {
                let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
                let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
                let every = Timespec { tv_sec: RETRY, tv_nsec: 0 };
                // The first time at once: 0 would mean never.
                let first = Timespec { tv_sec: 0, tv_nsec: 1 };
                let times = Itimerspec { it_interval: every, it_value: first };
                timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
                Ok(Door::Connects(path.clone(), timer, false))
            }
        }
    }

    /// Returns what becomes readable when a network may be attached.
    fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Door::Shut => None,
            Door::Listens(listener) => Some(listener.as_fd()),
            Door::Connects(_, timer, _) => Some(timer.as_fd()),
        }
    }

    /// Returns the next network, if there is one.
    fn next(&mut self) -> Option<UnixStream> {
        let stream = match self {
            Door::Shut => return None,
            Door::Listens(listener) => listener.accept().ok()?.0,
            Door::Connects(path, timer, is_logged) => {
                // Until it expires, there is nothing to read.
                rustix::io::read(&*timer, &mut [0u8; 8]).ok()?;
                connect(path, is_logged)?
            }
        };
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    }
}

/// Connects; logs only the first of several failures.
fn connect(path: &Path, is_logged: &mut bool) -> Option<UnixStream> {
    match UnixStream::connect(path) {
        Ok(stream) => {
            *is_logged = false;
            Some(stream)
        }
        Err(e) => {
            if !std::mem::replace(is_logged, true) {
                log::warn!("Network: {}: {e}; it is tried every second.", path.display());
            }
            None
        }
    }
}

/// Why a network is detached.
#[derive(Debug, thiserror::Error)]
enum Detached {
    #[error("it has closed the socket")]
    Closed,
    #[error("{0}")]
    Socket(#[from] std::io::Error),
    #[error("it sent a frame of {0} bytes, which no network has")]
    Nonsense(usize),
}

impl Link {
    pub fn open(link: Option<&config::Link>) -> std::io::Result<Link> {
        let (input, frames, output) = (Vec::new(), VecDeque::new(), VecDeque::new());
        Ok(Link { door: Door::open(link)?, stream: None, input, frames, output })
    }

    /// Returns whether no network can ever be attached.
    pub fn is_shut(&self) -> bool {
        matches!(self.door, Door::Shut)
    }

    /// Returns whether a network is attached.
    pub fn is_up(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns whether a frame waits for the driver.
    pub fn has_next(&self) -> bool {
        !self.frames.is_empty()
    }

    pub fn next(&mut self) -> Option<Vec<u8>> {
        self.frames.pop_front()
    }

    /// Returns whether another frame may be sent.
    pub fn has_room(&self) -> bool {
        self.output.len() < BEHIND
    }

    /// Sends a frame; without a network it is dropped.
    pub fn send(&mut self, frame: &[u8]) {
        if !self.is_up() {
            return;
        }
        self.output.extend((frame.len() as u32).to_be_bytes());
        self.output.extend(frame);
        self.flush();
    }

    /// Writes as much as the network accepts.
    pub fn flush(&mut self) {
        if let Err(why) = self.write() {
            self.detach(&why);
        }
    }

    pub fn waits_for(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let Some(stream) = &self.stream else {
            return self.door.waits_for().map(|fd| (fd, PollFlags::IN)).into_iter().collect();
        };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.frames.len() < AHEAD);
        flags.set(PollFlags::OUT, !self.output.is_empty());
        // With no flag at all, a network that hung up would wake this thread again and again.
        if flags.is_empty() { Vec::new() } else { vec![(stream.as_fd(), flags)] }
    }

    /// Attaches a network, and moves what can be moved without blocking.
    pub fn ready(&mut self) {
        if self.stream.is_none()
            && let Some(stream) = self.door.next()
        {
            log::info!("Network: attached.");
            self.stream = Some(stream);
        }
        self.flush();
        if let Err(why) = self.read() {
            self.detach(&why);
        }
    }

    fn detach(&mut self, why: &Detached) {
        log::warn!("Network: detached: {why}.");
        self.stream = None;
        self.input.clear();
        self.output.clear();
    }

    fn write(&mut self) -> Result<(), Detached> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while !self.output.is_empty() {
            match stream.write(self.output.as_slices().0) {
                Ok(0) => return Err(Detached::Closed),
                Ok(n) => drop(self.output.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Reads until the socket is empty, or enough frames wait for the driver.
    fn read(&mut self) -> Result<(), Detached> {
        let mut bytes = [0; CHUNK];
        loop {
            self.split()?;
            let Some(stream) = &mut self.stream else { return Ok(()) };
            if self.frames.len() >= AHEAD {
                return Ok(());
            }
            match stream.read(&mut bytes) {
                Ok(0) => return Err(Detached::Closed),
                Ok(n) => self.input.extend(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Moves complete frames from the input to the queue, as long as there is room.
    fn split(&mut self) -> Result<(), Detached> {
        let mut rest = self.input.as_slice();
        while self.frames.len() < AHEAD
            && let Some((length, after)) = rest.split_first_chunk::<LENGTH>()
        {
            let length = u32::from_be_bytes(*length) as usize;
            if length > LONGEST {
                return Err(Detached::Nonsense(length));
            }
            let Some((frame, after)) = after.split_at_checked(length) else { break };
            if (SHORTEST..=FRAME).contains(&length) {
                self.frames.push_back(frame.to_vec());
            } else {
                log::debug!("Network: a frame of {length} bytes is dropped.");
            }
            rest = after;
        }
        let used = self.input.len() - rest.len();
        self.input.drain(..used);
        Ok(())
    }
}
