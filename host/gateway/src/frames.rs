//! Ethernet frames in a stream socket, each after its length in four bytes, big endian.
//!
//! Frames that Ethernet cannot have (shorter than a header, longer than the chip's largest) are
//! dropped. A length that no frame has is an error: the other end speaks something else. Nothing
//! blocks, and all buffers are bounded.

use abi::ethernet::FRAME;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Bytes of an Ethernet header; a shorter frame is none.
pub const SHORTEST: usize = 14;
/// Bytes of a length.
const LENGTH: usize = size_of::<u32>();
/// A greater length is nonsense: the largest packet of IP, and a header.
const LONGEST: usize = 65_535 + SHORTEST;
/// Bytes that wait to be sent; one frame more may.
const BEHIND: usize = 64 << 10;
/// Bytes read at a time.
const CHUNK: usize = 16 << 10;

/// A stream of frames.
#[derive(Debug)]
pub struct Frames {
    stream: UnixStream,
    /// Received bytes; the first frame may be incomplete.
    input: Vec<u8>,
    /// Bytes to send.
    output: VecDeque<u8>,
}

/// Why a stream has ended.
#[derive(Debug, thiserror::Error)]
pub enum Detached {
    /// The other end has closed it.
    #[error("it has closed the socket")]
    Closed,
    /// The socket has failed.
    #[error("{0}")]
    Socket(#[from] std::io::Error),
    /// The other end does not speak the protocol.
    #[error("it sent a frame of {0} bytes, which no network has")]
    Nonsense(usize),
}

impl Frames {
    /// Takes over a connected socket.
    pub fn new(stream: UnixStream) -> std::io::Result<Frames> {
        stream.set_nonblocking(true)?;
        Ok(Frames { stream, input: Vec::new(), output: VecDeque::new() })
    }

    /// Returns whether another frame may be sent.
    pub fn has_room(&self) -> bool {
        self.output.len() < BEHIND
    }

    /// Returns whether bytes wait for the other end.
    pub fn is_behind(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends a frame, or queues what the socket does not accept now.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), Detached> {
        self.output.extend((frame.len() as u32).to_be_bytes());
        self.output.extend(frame);
        self.flush()
    }

    /// Writes as much as the socket accepts.
    pub fn flush(&mut self) -> Result<(), Detached> {
        while !self.output.is_empty() {
            match self.stream.write(self.output.as_slices().0) {
                Ok(0) => return Err(Detached::Closed),
                Ok(n) => drop(self.output.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Reads until the socket is empty, or `frames` has `most`.
    pub fn read(&mut self, frames: &mut VecDeque<Vec<u8>>, most: usize) -> Result<(), Detached> {
        let mut bytes = [0; CHUNK];
        loop {
            self.split(frames, most)?;
            if frames.len() >= most {
                return Ok(());
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Detached::Closed),
                Ok(n) => self.input.extend(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Moves complete frames from the input to `frames`, as long as there are fewer than `most`.
    fn split(&mut self, frames: &mut VecDeque<Vec<u8>>, most: usize) -> Result<(), Detached> {
        let mut rest = self.input.as_slice();
        while frames.len() < most
            && let Some((length, after)) = rest.split_first_chunk::<LENGTH>()
        {
            let length = u32::from_be_bytes(*length) as usize;
            if length > LONGEST {
                return Err(Detached::Nonsense(length));
            }
            let Some((frame, after)) = after.split_at_checked(length) else { break };
            if (SHORTEST..=FRAME).contains(&length) {
                frames.push_back(frame.to_vec());
            }
            rest = after;
        }
        let used = self.input.len() - rest.len();
        self.input.drain(..used);
        Ok(())
    }
}

impl AsFd for Frames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
