//! The loopback device: packets that are sent are received, in order.
//!
//! Contract: at most [`PACKETS`] packets are under way, in buffers that are allocated once. When
//! only one buffer is free, it is reserved for the response to a received packet, and other sends
//! wait. So no packet is ever lost.
//!
//! ```text
//!   spare --transmit--> queue --receive--> being read --> used --> spare
//! ```

use crate::budget::LARGEST;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// Maximum size of a packet: a segment that fills a stream's buffer, and the headers of IPv6 and
/// TCP. Each packet costs the same, whatever its size.
pub const MTU: usize = LARGEST + 40 + 20;
/// Number of packet buffers.
pub const PACKETS: usize = 5;

/// A packet buffer, filled up to `length`.
#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    length: usize,
}

#[derive(Debug)]
pub struct Loopback {
    queue: VecDeque<Packet>,
    spare: Vec<Packet>,
    /// Consumed; the next call moves it to `spare`.
    used: Option<Packet>,
}

impl Loopback {
    /// Creates a device without packets.
    pub fn new() -> Loopback {
        let packet = || Packet { bytes: vec![0; MTU], length: 0 };
        Loopback {
            queue: VecDeque::with_capacity(PACKETS),
            spare: (0..PACKETS).map(|_| packet()).collect(),
            used: None,
        }
    }

    fn reclaim(&mut self) {
        self.spare.extend(self.used.take());
    }
}

impl Default for Loopback {
    fn default() -> Loopback {
        Loopback::new()
    }
}

/// A received packet.
pub struct Incoming<'a> {
    packet: Packet,
    used: &'a mut Option<Packet>,
}

impl phy::RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        let result = read(&self.packet.bytes[..self.packet.length]);
        *self.used = Some(self.packet);
        result
    }
}

/// A buffer for a packet to send.
pub struct Outgoing<'a> {
    queue: &'a mut VecDeque<Packet>,
    spare: &'a mut Vec<Packet>,
}

impl phy::TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        // A token exists only if a buffer is spare, and no packet is larger than the MTU.
        let fresh = || Packet { bytes: vec![0; length], length };
        let mut packet = self.spare.pop().unwrap_or_else(fresh);
        packet.bytes.resize(length.max(MTU), 0);
        packet.length = length;
        let result = write(&mut packet.bytes[..length]);
        self.queue.push_back(packet);
        result
    }
}

impl phy::Device for Loopback {
    type RxToken<'a> = Incoming<'a>;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        self.reclaim();
        let packet = self.queue.pop_front()?;
        let incoming = Incoming { packet, used: &mut self.used };
        Some((incoming, Outgoing { queue: &mut self.queue, spare: &mut self.spare }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        self.reclaim();
        let room = self.spare.len() > 1;
        room.then_some(Outgoing { queue: &mut self.queue, spare: &mut self.spare })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        // The packets do not leave this service's memory, so checksums would find nothing.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smoltcp::phy::{Device, RxToken, TxToken};

    #[test]
    fn packets_come_back_in_order_and_one_buffer_is_reserved_for_a_response() {
        let (mut device, now) = (Loopback::new(), Instant::from_micros(0));
        let mut sent = 0u8;
        while let Some(out) = device.transmit(now) {
            out.consume(1 + usize::from(sent), |bytes| bytes.fill(sent));
            sent += 1;
        }
        assert_eq!(usize::from(sent), PACKETS - 1);
        let (packet, answer) = device.receive(now).expect("the first one");
        packet.consume(|bytes| assert_eq!(bytes, [0]));
        answer.consume(3, |bytes| bytes.fill(99));
        for number in 1..sent {
            let (packet, _) = device.receive(now).expect("the next one");
            packet.consume(|bytes| assert_eq!(bytes, vec![number; 1 + usize::from(number)]));
        }
        let (packet, _) = device.receive(now).expect("the answer");
        packet.consume(|bytes| assert_eq!(bytes, [99; 3]));
        assert!(device.receive(now).is_none());
        assert_eq!((device.spare.len(), device.queue.len()), (PACKETS, 0));
    }
}
