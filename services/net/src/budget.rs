//! How many sockets there may be, and how much memory their buffers get.
//!
//! Contract: there are at most [`SOCKETS`] sockets, [`OUTSIDE`] of them on the interface to the
//! outside. Their buffers share [`BUFFERS`] bytes, of which those outside get at most half, so that
//! strangers take nothing from loopback. The first ones get [`LARGEST`], and later ones less, so
//! that streams alone always find memory for [`SOCKETS`] of them, with [`SMALLEST`].

use crate::addresses::Side;
use abi::net::{DATAGRAM, Errno};
pub use abi::net::{OUTSIDE, SOCKETS};
use alloc::vec::Vec;
use smoltcp::socket::{tcp, udp};

/// Largest buffer of a socket in one direction, in bytes.
pub const LARGEST: usize = 8 * 1024;
/// Smallest buffer of a stream.
pub const SMALLEST: usize = 256;
/// Size of a buffer for datagrams that must hold any one of them.
const ONE_DATAGRAM: usize = 2 * DATAGRAM;
/// Memory for all buffers, in bytes.
pub const BUFFERS: usize = 2112 * 1024;
/// Memory for those of the sockets outside.
const OUTSIDE_BUFFERS: usize = BUFFERS / 2;
/// The buffer of a new stream is at most this fraction of the memory that is not reserved.
const PART: usize = 16;
/// Maximum number of buffered datagrams.
pub const WAITING: usize = 16;

const _: () = assert!(ONE_DATAGRAM <= LARGEST, "one fits wherever the ring begins");
const _: () = assert!(SOCKETS * 2 * SMALLEST < BUFFERS);
const _: () = assert!(OUTSIDE * 2 * SMALLEST < OUTSIDE_BUFFERS);

/// What the sockets of each side have.
#[derive(Debug, Default)]
pub struct Budget {
    counts: [usize; 2],
    /// Bytes of all buffers, and of data that have no socket any more.
    used: [usize; 2],
}

impl Budget {
    /// Returns the number of sockets.
    pub fn count(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Returns the number of sockets outside.
    pub fn count_outside(&self) -> usize {
        self.counts[1]
    }

    /// Returns whether there may be a further socket.
    pub fn has_room(&self, side: Side) -> bool {
        self.count() < SOCKETS && (side == Side::Loopback || self.counts[1] < OUTSIDE)
    }

    /// Returns the memory for a new socket, when `each` bytes are reserved for each further one
    /// that there may be.
    fn spare(&self, side: Side, each: usize) -> usize {
        let rest = |bytes: usize, used: usize, most: usize, count: usize| {
            bytes.saturating_sub(used + most.saturating_sub(count + 1) * each)
        };
        let all = rest(BUFFERS, self.used.iter().sum(), SOCKETS, self.count());
        match side {
            Side::Loopback => all,
            Side::Outside => all.min(rest(OUTSIDE_BUFFERS, self.used[1], OUTSIDE, self.counts[1])),
        }
    }

    /// Returns the size of each buffer of a new stream; `None`: ended streams have the memory.
    pub fn of_stream(&self, side: Side) -> Option<usize> {
        let part = (self.spare(side, 2 * SMALLEST) / PART).clamp(SMALLEST, LARGEST);
        // The largest power of two.
        let bytes = 1 << part.ilog2();
        (2 * bytes <= self.spare(side, 0)).then_some(bytes)
    }

    /// Returns the sizes of the buffers of a new UDP socket, to receive and to send, if memory is
    /// left for `leaves` further ones. Half of the streams can rely on theirs. Nothing waits to be
    /// sent on loopback.
    pub fn of_datagrams(&self, side: Side, leaves: usize) -> Option<(usize, usize)> {
        let send = if side == Side::Outside { ONE_DATAGRAM } else { 0 };
        let bytes = LARGEST + send;
        (bytes * (1 + leaves) <= self.spare(side, SMALLEST)).then_some((LARGEST, send))
    }

    pub fn add(&mut self, side: Side, bytes: usize) {
        self.counts[side as usize] += 1;
        self.charge(side, bytes);
    }

    pub fn remove(&mut self, side: Side, bytes: usize) {
        self.counts[side as usize] -= 1;
        self.release(side, bytes);
    }

    /// Counts memory for data of a stream that has ended.
    pub fn charge(&mut self, side: Side, bytes: usize) {
        self.used[side as usize] += bytes;
    }

    pub fn release(&mut self, side: Side, bytes: usize) {
        self.used[side as usize] -= bytes;
    }
}

fn zeros(bytes: usize) -> Result<Vec<u8>, Errno> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).map_err(|_| Errno::Nomem)?;
    buffer.resize(bytes, 0);
    Ok(buffer)
}

/// Returns a buffer for a stream.
pub fn stream(bytes: usize) -> Result<tcp::SocketBuffer<'static>, Errno> {
    Ok(tcp::SocketBuffer::new(zeros(bytes)?))
}

/// Returns a buffer for datagrams.
pub fn datagrams(bytes: usize) -> Result<udp::PacketBuffer<'static>, Errno> {
    let mut heads = Vec::new();
    heads.try_reserve_exact(WAITING).map_err(|_| Errno::Nomem)?;
    heads.resize(WAITING, udp::PacketMetadata::EMPTY);
    Ok(udp::PacketBuffer::new(heads, zeros(bytes)?))
}
