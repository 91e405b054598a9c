//! Frames that strangers send: random ones that are nearly right, and changed ones with right
//! checksums. The target `net` of host/abuse uses them as well.

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

/// Returns a random frame that is nearly right: addressed to the chip, which has address
/// `to`, with plausible headers.
pub fn noise(random: &mut Prng, to: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 14 + random.below(120) as usize];
    frame.iter_mut().for_each(|byte| *byte = random.next() as u8);
    if random.chance(1, 20) {
        frame.truncate(random.below(20) as usize);
        return frame;
    }
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    let kind: [u8; 2] = if random.chance(1, 8) { [8, 6] } else { [8, 0] };
    frame[12..14].copy_from_slice(&kind);
    if kind == [8, 6] || frame.len() < 54 {
        return frame;
    }
    let length = (frame.len() - 14) as u16;
    frame[14] = if random.chance(1, 10) { 0x40 + random.below(16) as u8 } else { 0x45 };
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame[20..22].copy_from_slice(if random.chance(1, 8) { &[0x20, 1] } else { &[0, 0] });
    frame[23] = [6, 6, 6, 17, 1][random.below(5) as usize];
    if random.chance(1, 2) {
        frame[26..30].copy_from_slice(&[10, 0, 2, random.next() as u8]);
    }
    if random.chance(9, 10) {
        frame[30..34].copy_from_slice(&to);
    }
    if random.chance(1, 2) {
        frame[36..38].copy_from_slice(&[0, 7]);
    }
    if frame[23] == 6 {
        frame[46] = 0x50_u8.wrapping_add(if random.chance(1, 4) { random.next() as u8 } else { 0 });
        frame[47] = [2, 2, 0x10, 0x12, 4, 1, 0x18, random.next() as u8][random.below(8) as usize];
    }
    if random.chance(9, 10) {
        checksum(&mut frame);
    }
    frame
}
