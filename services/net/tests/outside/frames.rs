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
