//! Packets of virtio-vsock (virtio 1.3, 5.10): streams between the host and the kernel that drives
//! the device. The host's context is [`HOST`], the board's [`BOARD`]; [`crate::host`] is the
//! protocol on top.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// virtio device id.
pub const DEVICE_ID: u64 = 19;
/// Context id of the host.
pub const HOST: u64 = 2;
/// Context id of the board.
pub const BOARD: u64 = 3;
/// Maximum data bytes of a packet.
pub const DATA: usize = 4096;
/// Bytes that our receivers buffer for a stream: the peer's credit.
pub const WINDOW: u32 = 32 << 10;

/// Queue to the driver.
pub const RECEIVE: usize = 0;
/// Queue to the device.
pub const TRANSMIT: usize = 1;

/// Type of stream sockets, the only one.
pub const STREAM: u16 = 1;
/// Bit of [`Header::flags`] in a [`Op::Shutdown`]: no more receives.
pub const NO_RECEIVE: u32 = 1;
/// Bit of [`Header::flags`] in a [`Op::Shutdown`]: no more sends.
pub const NO_SEND: u32 = 2;

crate::codes::codes! {
    /// Operation of a packet.
    Op {
        /// Open a stream.
        Request = 1,
        /// The stream is open.
        Response = 2,
        /// The stream is refused, or has ended.
        Reset = 3,
        /// Close one direction, or both.
        Shutdown = 4,
        Data = 5,
        /// Update of the sender's credit.
        Credit = 6,
        /// Request for such an update.
        AskCredit = 7,
    }
}

/// Header of a packet. The data follow.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct Header {
    pub from: U64,
    pub to: U64,
    pub from_port: U32,
    pub to_port: U32,
    /// Bytes of data.
    pub bytes: U32,
    /// [`STREAM`].
    pub kind: U16,
    /// An [`Op`].
    pub op: U16,
    /// Flags of [`Op::Shutdown`].
    pub flags: U32,
    /// Buffer space of the sender for this stream, in bytes.
    pub window: U32,
    /// Bytes of this stream that the sender has consumed; wraps.
    pub consumed: U32,
}

const _: () = assert!(size_of::<Header>() == 44);

impl Header {
    /// A reset from a sender that has no such stream.
    pub fn reset((from, to): (u64, u64), ports: (u32, u32)) -> Header {
        Header {
            from: from.into(),
            to: to.into(),
            from_port: ports.0.into(),
            to_port: ports.1.into(),
            bytes: 0.into(),
            kind: STREAM.into(),
            op: (Op::Reset as u16).into(),
            flags: 0.into(),
            window: 0.into(),
            consumed: 0.into(),
        }
    }

    /// A packet of a stream. It also reports the `consumed` bytes to the peer.
    pub fn new(
        ends: (u64, u64),
        ports: (u32, u32),
        (op, bytes, flags): (Op, usize, u32),
        consumed: &mut Consumed,
    ) -> Header {
        consumed.told = consumed.now;
        Header {
            bytes: (bytes as u32).into(),
            op: (op as u16).into(),
            flags: flags.into(),
            window: WINDOW.into(),
            consumed: consumed.now.into(),
            ..Header::reset(ends, ports)
        }
    }
}

/// Bytes that a receiver has consumed from a stream, and the count last reported to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    now: u32,
    told: u32,
}

impl Consumed {
    pub fn add(&mut self, bytes: usize) {
        self.now = self.now.wrapping_add(bytes as u32);
    }

    /// Returns whether the sender should be notified now: half of the window is unreported.
    pub fn is_due(&self) -> bool {
        self.now.wrapping_sub(self.told) >= WINDOW / 2
    }
}

/// Credit: what the sender of a stream knows of the receiver's buffer space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    window: u32,
    consumed: u32,
    sent: u32,
}

impl Credit {
    /// Updates the credit from a packet of the receiver.
    pub fn told(&mut self, header: &Header) {
        (self.window, self.consumed) = (header.window.get(), header.consumed.get());
    }

    /// Returns the number of bytes that may be sent.
    pub fn room(&self) -> u32 {
        self.window.saturating_sub(self.sent.wrapping_sub(self.consumed))
    }

    pub fn sent(&mut self, bytes: u32) {
        self.sent = self.sent.wrapping_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(credit: &mut Credit, window: u32, consumed: u32) {
        let mut header = Header::read_from_bytes(&[0; 44]).unwrap();
        (header.window, header.consumed) = (window.into(), consumed.into());
        credit.told(&header);
    }

    #[test]
    fn credit_counts_over_the_end_of_its_words_and_never_below_nothing() {
        let mut credit = Credit::default();
        assert_eq!(credit.room(), 0);
        credit.sent(u32::MAX - 9);
        told(&mut credit, 100, u32::MAX - 9);
        assert_eq!(credit.room(), 100);
        credit.sent(60);
        assert_eq!(credit.room(), 40);
        told(&mut credit, 100, 50);
        assert_eq!(credit.room(), 100);
        told(&mut credit, 0, 0);
        assert_eq!(credit.room(), 0);
    }
}
