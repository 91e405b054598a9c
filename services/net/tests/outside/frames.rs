//! Frames that strangers send: random ones that are nearly right, and changed ones with right
//! checksums. The target `net` of host/abuse uses them as well.

use super::hosts::{OURS, V6};
use base::prng::Prng;

/// Returns the checksum of the Internet; `first` is the sum of what comes before.
pub fn sum(bytes: &[u8], first: u32) -> u16 {
    let words =
        bytes.chunks(2).map(|it| u32::from(it[0]) << 8 | u32::from(*it.get(1).unwrap_or(&0)));
    let mut sum = first + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns where the bytes begin that a checksum protects; `None` if there are none: the frame is
/// neither of IPv4 nor of IPv6. The header of IPv6 has no checksum of its own.
pub fn headers(frame: &[u8]) -> Option<usize> {
    match frame.get(12..15)? {
        [8, 0, 0x45] if frame.len() > 34 => Some(14),
        [0x86, 0xdd, 0x60] if frame.len() > 54 => Some(54),
        _ => None,
    }
}

/// Makes the checksums of a packet of IPv4 or IPv6 with TCP, UDP or ICMP right.
pub fn checksum(frame: &mut [u8]) {
    let is_v4 = frame[12..14] == [8, 0];
    if is_v4 {
        frame[24..26].copy_from_slice(&[0, 0]);
        let header = sum(&frame[14..34], 0);
        frame[24..26].copy_from_slice(&header.to_be_bytes());
    }
    let (addresses, begin, protocol) =
        if is_v4 { (26..34, 34, frame[23]) } else { (22..54, 54, frame[20]) };
    let at = begin
        + if protocol == 6 {
            16
        } else if protocol == 17 {
            6
        } else {
            2
        };
    let length = (frame.len() - begin) as u32;
    if protocol == 17 {
        frame[begin + 4..begin + 6].copy_from_slice(&(length as u16).to_be_bytes());
    }
    frame[at..at + 2].copy_from_slice(&[0, 0]);
    let addresses: u32 =
        frame[addresses].chunks(2).map(|it| u32::from(it[0]) << 8 | u32::from(it[1])).sum();
    // ICMP of IPv4 alone does not cover the addresses.
    let covers = [6, 17, 58].contains(&protocol);
    let pseudo = if covers { addresses + u32::from(protocol) + length } else { 0 };
    let value = sum(&frame[begin..], pseudo);
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Changes a byte after the Ethernet header of a frame, and makes its checksums right again.
pub fn forge(frame: &mut [u8], random: &mut Prng) {
    let is_whole = headers(frame).is_some_and(|begin| frame.len() >= begin + 24);
    let is_discovery = frame[12] == 0x86 && frame[20] == 58;
    if !is_whole || frame.len() < 54 || is_discovery {
        return;
    }
    let at = 14 + random.below(frame.len() as u64 - 14) as usize;
    frame[at] ^= 1 << random.below(8);
    checksum(frame);
}

/// Returns a random frame that is nearly right: addressed to the chip, with plausible headers.
pub fn noise(random: &mut Prng) -> Vec<u8> {
    let mut frame = vec![0; 14 + random.below(120) as usize];
    frame.iter_mut().for_each(|byte| *byte = random.next() as u8);
    if random.chance(1, 20) {
        frame.truncate(random.below(20) as usize);
        return frame;
    }
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    let kind: [u8; 2] = [[8, 6], [8, 0], [8, 0], [0x86, 0xdd]][random.below(4) as usize];
    frame[12..14].copy_from_slice(&kind);
    let begin = if kind == [8, 0] { 34 } else { 54 };
    if kind == [8, 6] || frame.len() < begin + 20 {
        return frame;
    }
    let protocol =
        if kind == [8, 0] { v4_header(&mut frame, random) } else { v6_header(&mut frame, random) };
    if random.chance(1, 2) {
        frame[begin + 2..begin + 4].copy_from_slice(&[0, 7]);
    }
    if protocol == 6 {
        let odd = if random.chance(1, 4) { random.next() as u8 } else { 0 };
        frame[begin + 12] = 0x50_u8.wrapping_add(odd);
        frame[begin + 13] =
            [2, 2, 0x10, 0x12, 4, 1, 0x18, random.next() as u8][random.below(8) as usize];
    }
    if random.chance(9, 10) {
        checksum(&mut frame);
    }
    frame
}

/// Completes a header of IPv4. Returns the protocol.
fn v4_header(frame: &mut [u8], random: &mut Prng) -> u8 {
    let length = (frame.len() - 14) as u16;
    frame[14] = if random.chance(1, 10) { 0x40 + random.below(16) as u8 } else { 0x45 };
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame[20..22].copy_from_slice(if random.chance(1, 8) { &[0x20, 1] } else { &[0, 0] });
    frame[23] = [6, 6, 6, 17, 1][random.below(5) as usize];
    if random.chance(1, 2) {
        frame[26..30].copy_from_slice(&[10, 0, 2, random.next() as u8]);
    }
    if random.chance(9, 10) {
        frame[30..34].copy_from_slice(&OURS);
    }
    frame[23]
}

/// Completes a header of IPv6, and what neighbour discovery needs.
fn v6_header(frame: &mut [u8], random: &mut Prng) -> u8 {
    let length = (frame.len() - 54) as u16;
    frame[14] = 0x60;
    frame[18..20].copy_from_slice(&length.to_be_bytes());
    frame[20] = [6, 6, 6, 17, 58, 58, 0, 44][random.below(8) as usize];
    if random.chance(3, 4) {
        frame[21] = 255;
    }
    if random.chance(1, 2) {
        frame[22..38].copy_from_slice(&V6.peer);
        frame[37] = random.next() as u8;
    }
    if random.chance(9, 10) {
        frame[38..54].copy_from_slice(&V6.ours);
    }
    if frame[20] == 58 {
        frame[54] = [128, 133, 134, 135, 135, 136, 137, 1][random.below(8) as usize];
        frame[55] = 0;
        if random.chance(3, 4) && frame.len() >= 78 {
            frame[62..78].copy_from_slice(if random.chance(1, 2) { &V6.ours } else { &V6.peer });
        }
        if random.chance(1, 2) && frame.len() >= 80 {
            frame[78..80].copy_from_slice(&[1 + random.below(2) as u8, random.below(3) as u8]);
        }
    }
    frame[20]
}
