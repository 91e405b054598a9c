//! The loopback device: what goes out comes in, in order.
//!
//! Contract: at most [`PACKETS`] packets are under way, in buffers that are made once. When they
//! are, nobody sends until one has come in; the last free buffer is kept for the answer to it. So
//! nothing is ever lost here.
//!
//! ```text
//!   spare --transmit--> queue --receive--> in hand --> used --> spare again
//! ```

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// Most bytes of a packet, with its heads; as on Ethernet.
pub const MTU: usize = 1500;
/// Packets under way.
pub const PACKETS: usize = 32;

/// A packet's bytes; the first so many of them.
#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    length: usize,
}

/// The device.
#[derive(Debug)]
pub struct Loopback {
    queue: VecDeque<Packet>,
    spare: Vec<Packet>,
    /// Behind its way; the next one to look takes it to `spare`.
    used: Option<Packet>,
}

impl Loopback {
    /// With nothing under way.
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

/// A packet that has come in.
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

/// Room for one that goes out.
pub struct Outgoing<'a> {
    queue: &'a mut VecDeque<Packet>,
    spare: &'a mut Vec<Packet>,
}

impl phy::TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        // There is one whenever there is a token; and nobody asks for more than the MTU.
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
        // Memory that the service has to itself: nothing to find, and two passes less.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smoltcp::phy::{Device, RxToken, TxToken};

    #[test]
    fn what_goes_out_comes_in_and_one_buffer_is_kept_for_an_answer() {
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
