//! The socket to the network.
//!
//! One network is attached at a time. One that closes, or sends what is no frame, is detached, and
//! the socket waits for the next. All queues are bounded.

use super::Attachment;
use crate::config;
use crate::fabric::listen;
use gateway::frames::{Detached, Frames};
use rustix::event::PollFlags;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Frames that wait for the driver.
const AHEAD: usize = 64;
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

/// The network that is attached, and the frames that wait for the driver.
#[derive(Debug)]
pub struct Link {
    door: Door,
    network: Option<Frames>,
    frames: VecDeque<Vec<u8>>,
}

impl Door {
    fn open(link: Option<&config::Link>) -> std::io::Result<Door> {
        match link {
            None | Some(config::Link::Script { .. }) => Ok(Door::Shut),
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
    fn next(&mut self) -> Option<Frames> {
        let stream = match self {
            Door::Shut => return None,
            Door::Listens(listener) => listener.accept().ok()?.0,
            Door::Connects(path, timer, is_logged) => {
                // Until it expires, there is nothing to read.
                rustix::io::read(&*timer, &mut [0u8; 8]).ok()?;
                connect(path, is_logged)?
            }
        };
        Frames::new(stream).ok()
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

impl Link {
    pub fn open(link: Option<&config::Link>) -> std::io::Result<Link> {
        Ok(Link { door: Door::open(link)?, network: None, frames: VecDeque::new() })
    }

    /// Does something with the network, and detaches it if that fails.
    fn with_network(
        &mut self,
        work: impl FnOnce(&mut Frames, &mut VecDeque<Vec<u8>>) -> Result<(), Detached>,
    ) {
        let Some(network) = &mut self.network else { return };
        if let Err(why) = work(network, &mut self.frames) {
            log::warn!("Network: detached: {why}.");
            self.network = None;
        }
    }
}

impl Attachment for Link {
    fn is_up(&self) -> bool {
        self.network.is_some()
    }

    fn is_outside(&self) -> bool {
        !matches!(self.door, Door::Shut)
    }

    fn has_next(&self) -> bool {
        !self.frames.is_empty()
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let next = self.frames.pop_front();
        if self.frames.is_empty() {
            // Poll does not tell of frames that have left the socket already.
            self.with_network(|network, frames| network.take_read(frames, AHEAD));
        }
        next
    }

    fn has_room(&self) -> bool {
        self.network.as_ref().is_none_or(Frames::has_room)
    }

    fn send(&mut self, frame: &[u8]) {
        self.with_network(|network, _| network.send(frame));
    }

    fn flush(&mut self) {
        self.with_network(|network, _| network.flush());
    }

    fn waits_for(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let Some(network) = &self.network else {
            return self.door.waits_for().map(|fd| (fd, PollFlags::IN)).into_iter().collect();
        };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.frames.len() < AHEAD);
        flags.set(PollFlags::OUT, network.is_behind());
        // With no flag at all, a network that hung up would wake this thread again and again.
        if flags.is_empty() { Vec::new() } else { vec![(network.as_fd(), flags)] }
    }

    /// Attaches a network, and moves what can be moved without blocking. What a network sends
    /// without pause is read a part at a time: its socket stays readable, so poll returns at once.
    fn ready(&mut self) {
        if self.network.is_none()
            && let Some(network) = self.door.next()
        {
            log::info!("Network: attached.");
            self.network = Some(network);
        }
        self.flush();
        self.with_network(|network, frames| network.read(frames, AHEAD));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn frames_beyond_the_queue_follow_without_another_byte_from_the_network() {
        let (mut network, own) = UnixStream::pair().unwrap();
        let mut link = Link::open(None).unwrap();
        link.network = Some(Frames::new(own).unwrap());
        let frame = [&60u32.to_be_bytes()[..], &[1; 60]].concat();
        network.write_all(&frame.repeat(3 * AHEAD)).unwrap();
        link.ready();
        let frames = std::iter::from_fn(|| link.next());
        assert_eq!(frames.count(), 3 * AHEAD);
    }
}
