//! CRC-32C (Castagnoli), the checksum of the journal.
//!
//! Contract: [`crc32c`] continues from `seed` without the usual final inversion, as JBD2 does; a
//! checksum of one piece starts with [`START`].

/// The seed of a checksum that continues no other one.
pub const START: u32 = u32::MAX;

const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[n][byte]`: the effect of a byte that `n` more bytes follow.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut all = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut value, mut bit) = (byte as u32, 0);
        while bit < 8 {
            value = value >> 1 ^ if value & 1 == 0 { 0 } else { POLYNOMIAL };
            bit += 1;
        }
        all[0][byte] = value;
        byte += 1;
    }
    let mut after = 1;
    while after < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = all[after - 1][byte];
            all[after][byte] = before >> 8 ^ all[0][before as usize & 0xff];
            byte += 1;
        }
        after += 1;
    }
    all
}

fn step(table: usize, word: u32, byte: u32) -> u32 {
    TABLES[table][(word >> (8 * byte) & 0xff) as usize]
}

/// Returns the checksum of `bytes`, continuing from `seed`.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum = seed;
    for word in words {
        let word = u64::from_le_bytes(*word);
        let (low, high) = (word as u32 ^ sum, (word >> 32) as u32);
        sum = step(7, low, 0) ^ step(6, low, 1) ^ step(5, low, 2) ^ step(4, low, 3);
        sum ^= step(3, high, 0) ^ step(2, high, 1) ^ step(1, high, 2) ^ step(0, high, 3);
    }
    for byte in rest {
        sum = sum >> 8 ^ step(0, sum ^ u32::from(*byte), 0);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_of_rfc_3720_come_out() {
        let of = |bytes: &[u8]| !crc32c(START, bytes);
        assert_eq!(of(b"123456789"), 0xe306_9283);
        assert_eq!(of(&[0; 32]), 0x8a91_36aa);
        assert_eq!(of(&[0xff; 32]), 0x62a8_ab43);
        let rising: alloc::vec::Vec<u8> = (0..32).collect();
        assert_eq!(of(&rising), 0x46dd_794e);
        let (first, second) = rising.split_at(13);
        assert_eq!(!crc32c(crc32c(START, first), second), 0x46dd_794e);
    }
}
