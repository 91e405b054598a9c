//! Frames of IPv4 to the chip, of hosts that keep to no protocol.

use super::cable::frames::checksum;
use super::cable::hosts::OURS;
use super::cable::world::config;

/// Bits of TCP's flags.
pub mod tcp {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const PUSH: u8 = 8;
    pub const ACK: u8 = 16;
}

/// Returns the answer of a host to a question about its hardware address.
pub fn told_mac(question: &[u8]) -> Vec<u8> {
    let mac = [2, 0, 0, 0, 1, question[41]];
    let mut answer = question.to_vec();
    answer[..6].copy_from_slice(&question[6..12]);
    answer[6..12].copy_from_slice(&mac);
    answer[21] = 2;
    answer[22..28].copy_from_slice(&mac);
    answer[28..32].copy_from_slice(&question[38..42]);
    answer[32..42].copy_from_slice(&question[22..32]);
    answer
}

/// Returns the frame of a packet of IPv4 to the chip.
pub fn packet(from: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 34];
    frame[..6].copy_from_slice(&config().mac);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 1, from[3]]);
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[16..18].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    (frame[22], frame[23]) = (64, protocol);
    frame[26..30].copy_from_slice(&from);
    frame[30..34].copy_from_slice(&OURS);
    frame.extend(payload);
    if payload.len() >= 8 {
        checksum(&mut frame);
    }
    frame
}

/// A segment of TCP without its checksum.
pub struct Segment<'a> {
    pub ports: [u16; 2],
    /// Of the first byte, and of the one that is acknowledged last plus one.
    pub numbers: [u32; 2],
    pub flags: u8,
    pub window: u16,
    pub options: &'a [u8],
    pub payload: &'a [u8],
}

impl Segment<'_> {
    /// Returns it as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
        self.numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        let options = self.options.chunks(4).map(|it| [it, &[0; 4][it.len()..]].concat());
        let options = options.take(10).collect::<Vec<_>>().concat();
        bytes.extend([((20 + options.len()) / 4 * 16) as u8, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
        bytes.extend(self.payload);
        bytes
    }
}

/// Returns a datagram of UDP without its checksum.
pub fn datagram(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0; 2]);
    bytes.extend(payload);
    bytes
}
