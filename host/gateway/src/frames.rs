//! Ethernet frames in a stream socket, each after its length in four bytes, big endian.
//!
//! Frames that Ethernet cannot have (shorter than a header, longer than the chip's largest) are
//! dropped. A length that no frame has is an error: the other end speaks something else. Nothing
//! blocks. All buffers are bounded, and so is the work of each call: an end that sends without
//! pause does not keep the caller from its other duties.

use abi::ethernet::{FRAME, FRAME_HEADER};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Bytes of a length.
const LENGTH: usize = size_of::<u32>();
/// A greater length is nonsense: the largest packet of IP, and a header.
const LONGEST: usize = 65_535 + FRAME_HEADER;
/// Bytes that wait to be sent; one frame more may.
const BEHIND: usize = 64 << 10;
/// Bytes read at a time.
const CHUNK: usize = 16 << 10;
/// Chunks read in a call: enough for 64 of the longest frames.
const CHUNKS: usize = 8;
/// Most received bytes that wait: an incomplete frame, and a chunk.
const INPUT: usize = LENGTH + LONGEST + CHUNK;

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

    /// Reads until the socket is empty, `frames` has `most`, or the work of one call is done. The
    /// socket stays readable in the last case. If `frames` is full, complete frames may have been
    /// read that poll does not tell of: [`Frames::take_read`] returns them.
    pub fn read(&mut self, frames: &mut VecDeque<Vec<u8>>, most: usize) -> Result<(), Detached> {
        let mut bytes = [0; CHUNK];
        self.take_read(frames, most)?;
        for _ in 0..CHUNKS {
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
            debug_assert!(self.input.len() <= INPUT, "less than a frame was left");
            self.take_read(frames, most)?;
        }
        Ok(())
    }

    /// Moves complete frames that have been read to `frames`, as long as there are fewer than
    /// `most`.
    pub fn take_read(
        &mut self,
        frames: &mut VecDeque<Vec<u8>>,
        most: usize,
    ) -> Result<(), Detached> {
        let mut rest = self.input.as_slice();
        while frames.len() < most
            && let Some((length, after)) = rest.split_first_chunk::<LENGTH>()
        {
            let length = u32::from_be_bytes(*length) as usize;
            if length > LONGEST {
                return Err(Detached::Nonsense(length));
            }
            let Some((frame, after)) = after.split_at_checked(length) else { break };
            if (FRAME_HEADER..=FRAME).contains(&length) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    const MOST: usize = 64;

    fn pair() -> (UnixStream, Frames) {
        let (peer, own) = UnixStream::pair().unwrap();
        peer.set_nonblocking(true).unwrap();
        (peer, Frames::new(own).unwrap())
    }

    fn framed(length: usize) -> Vec<u8> {
        [&(length as u32).to_be_bytes()[..], &vec![1; length]].concat()
    }

    fn is_readable(frames: &Frames) -> bool {
        let mut one = [PollFd::new(frames, PollFlags::IN)];
        poll(&mut one, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    /// Sends `bytes` again and again, from byte `sent` on, until the socket is full.
    fn fill(peer: &mut UnixStream, bytes: &[u8], sent: &mut usize) {
        while let Ok(n) = peer.write(&bytes[*sent % bytes.len()..]) {
            *sent += n;
        }
    }

    #[test]
    fn bytes_that_wait_are_bounded_while_the_peer_never_pauses() {
        for length in [FRAME_HEADER - 1, FRAME + 1, LONGEST] {
            let (mut peer, mut own) = pair();
            let (mut frames, mut sent) = (VecDeque::new(), 0);
            let bytes = framed(length).repeat(CHUNK.div_ceil(length));
            for _ in 0..100 {
                fill(&mut peer, &bytes, &mut sent);
                own.read(&mut frames, MOST).unwrap();
                assert!(own.input.len() <= INPUT && frames.is_empty());
            }
            assert!(sent > 100 * CHUNK, "the peer could send only {sent} bytes");
        }
    }

    #[test]
    fn one_call_leaves_what_is_beyond_its_bound_in_the_socket() {
        let (mut peer, mut own) = pair();
        let (mut frames, mut sent) = (VecDeque::new(), 0);
        fill(&mut peer, &framed(0).repeat(CHUNK), &mut sent);
        assert!(sent > CHUNKS * CHUNK, "a socket holds only {sent} bytes");
        own.read(&mut frames, MOST).unwrap();
        assert!(is_readable(&own), "one call has read {sent} bytes");
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        let end = loop {
            assert!(is_readable(&own), "the rest of {sent} bytes waits unnoticed");
            if let Err(end) = own.read(&mut frames, MOST) {
                break end;
            }
        };
        assert!(matches!(end, Detached::Closed) && frames.is_empty());
    }

    #[test]
    fn complete_frames_that_had_no_room_are_taken_later() {
        let (mut peer, mut own) = pair();
        let mut frames = VecDeque::new();
        peer.write_all(&framed(FRAME_HEADER).repeat(MOST + 2)).unwrap();
        own.read(&mut frames, MOST).unwrap();
        assert_eq!(frames.len(), MOST);
        assert!(!is_readable(&own), "the socket is empty");
        frames.clear();
        own.take_read(&mut frames, MOST).unwrap();
        assert_eq!(frames.len(), 2);
    }
}
