//! Packets of virtio-vsock (virtio 1.3, 5.10): streams between the host and the kernel that drives
//! the device. The host is [`HOST`], the board [`BOARD`]; what is offered there is in
//! [`crate::host`].

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// virtio device id.
pub const DEVICE_ID: u64 = 19;
/// Context id of the host.
pub const HOST: u64 = 2;
/// Context id of the board.
pub const BOARD: u64 = 3;
/// Most bytes of one packet's data.
pub const DATA: usize = 4096;
/// Bytes that a receiver of ours keeps for a stream: what its peer may send ahead.
pub const WINDOW: u32 = 64 << 10;

/// Queue of packets to the driver.
pub const RECEIVE: usize = 0;
/// Queue of packets from it.
pub const TRANSMIT: usize = 1;

/// The type of all streams.
pub const STREAM: u16 = 1;
/// In [`Header::flags`] of [`Op::Shutdown`]: receives no more.
pub const NO_RECEIVE: u32 = 1;
/// In [`Header::flags`] of [`Op::Shutdown`]: sends no more.
pub const NO_SEND: u32 = 2;

crate::codes::codes! {
    /// What a packet is for.
    Op {
        /// May a stream begin?
        Request = 1,
        /// It may.
        Response = 2,
        /// It may not, or has ended.
        Reset = 3,
        /// One direction, or both, end.
        Shutdown = 4,
        /// Data.
        Data = 5,
        /// How much may be sent.
        Credit = 6,
        /// How much may be sent?
        AskCredit = 7,
    }
}

/// What a packet begins with; data follow.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct Header {
    /// Context of the sender.
    pub from: U64,
    /// And of the receiver.
    pub to: U64,
    /// Port of the sender.
    pub from_port: U32,
    /// And of the receiver.
    pub to_port: U32,
    /// Bytes of data behind.
    pub bytes: U32,
    /// [`STREAM`].
    pub kind: U16,
    /// An [`Op`].
    pub op: U16,
    /// Of [`Op::Shutdown`].
    pub flags: U32,
    /// What the sender keeps room for, on this stream.
    pub window: U32,
    /// Bytes of the stream that it has consumed; wraps.
    pub consumed: U32,
}

const _: () = assert!(size_of::<Header>() == 44);

impl Header {
    /// A packet without data that does not say what was consumed: its sender keeps no stream.
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

    /// A packet of a stream. Whoever gets it knows what was consumed.
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

/// What the receiver of a stream has consumed of it, and what the sender knows of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    now: u32,
    told: u32,
}

impl Consumed {
    /// So many bytes more.
    pub fn add(&mut self, bytes: usize) {
        self.now = self.now.wrapping_add(bytes as u32);
    }

    /// Is it time to say so?
    pub fn is_due(&self) -> bool {
        self.now.wrapping_sub(self.told) >= WINDOW / 2
    }
}

/// What the sender of a stream knows of the receiver's room. Both ends count alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    window: u32,
    consumed: u32,
    sent: u32,
}

impl Credit {
    /// What a packet of the receiver says.
    pub fn told(&mut self, header: &Header) {
        (self.window, self.consumed) = (header.window.get(), header.consumed.get());
    }

    /// Bytes that may be sent.
    pub fn room(&self) -> u32 {
        self.window.saturating_sub(self.sent.wrapping_sub(self.consumed))
    }

    /// That many were.
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
