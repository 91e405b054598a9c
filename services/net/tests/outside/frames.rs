//! Frames with right checksums.

use base::prng::Prng;

fn sum(bytes: &[u8], first: u32) -> u16 {
    let words =
        bytes.chunks(2).map(|it| u32::from(it[0]) << 8 | u32::from(*it.get(1).unwrap_or(&0)));
    let mut sum = first + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Makes the checksums of an IPv4 packet with TCP, UDP or ICMP right.
pub fn checksum(frame: &mut [u8]) {
    frame[24..26].copy_from_slice(&[0, 0]);
    let header = sum(&frame[14..34], 0);
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    let (at, protocol) = match frame[23] {
        6 => (50, 6),
        17 => (40, 17),
        _ => (36, 0),
    };
    let length = (frame.len() - 34) as u32;
    if protocol == 17 {
        frame[38..40].copy_from_slice(&(length as u16).to_be_bytes());
    }
    frame[at..at + 2].copy_from_slice(&[0, 0]);
    let addresses: u32 =
        frame[26..34].chunks(2).map(|it| u32::from(it[0]) << 8 | u32::from(it[1])).sum();
    let pseudo = if protocol == 0 { 0 } else { addresses + protocol + length };
    let value = sum(&frame[34..], pseudo);
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Changes a byte after the Ethernet header of an IPv4 frame, and makes its checksums right again.
pub fn forge(frame: &mut [u8], random: &mut Prng) {
    if frame.len() < 54 || frame[12..15] != [8, 0, 0x45] {
        return;
    }
    let at = 14 + random.below(frame.len() as u64 - 14) as usize;
    frame[at] ^= 1 << random.below(8);
    checksum(frame);
}
