//! CRC-32C (Castagnoli), the checksum of the journal.
//!
//! Contract: [`crc32c`] continues from `seed` without the usual final inversion, as JBD2 does; a
//! checksum of one piece starts with [`START`].
//!
//! Most of a block of metadata is zeroes, or ones in a bitmap. The checksum is linear, so a run of
//! `n` equal words is passed in about log(n) multiplications of polynomials by constants, of which
//! there are tables.

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

/// Multiplies two polynomials modulo the checksum's. Bit 31 is the lowest coefficient.
const fn multiply(left: u32, right: u32) -> u32 {
    let (mut product, mut right, mut bit) = (0, right, 1u32 << 31);
    while bit != 0 {
        if left & bit != 0 {
            product ^= right;
        }
        right = right >> 1 ^ if right & 1 == 0 { 0 } else { POLYNOMIAL };
        bit >>= 1;
    }
    product
}

/// The longest run that is passed at once is `2 << RUNS` words.
const RUNS: usize = 10;
/// The shortest run that is worth it, in words.
const RUN: usize = 4;

/// What a run of `1 << n` equal words does to the checksum before it.
struct Skip {
    /// The effect of zeroes on each value of each four bits, the lowest first.
    zeroes: [[u32; 16]; 8],
    /// The checksum of ones after a checksum of 0.
    ones: u32,
}

static SKIPS: [Skip; RUNS + 1] = skips();

const fn skips() -> [Skip; RUNS + 1] {
    // x to the power of 64, by squaring x.
    let (mut factor, mut squared) = (1u32 << 30, 0);
    while squared < 6 {
        factor = multiply(factor, factor);
        squared += 1;
    }
    let mut all = [const { Skip { zeroes: [[0; 16]; 8], ones: 0 } }; RUNS + 1];
    let (mut ones, mut index) = (word_of(0, u64::MAX), 0);
    while index <= RUNS {
        all[index] = Skip { zeroes: multiples(factor), ones };
        ones = multiply(ones, factor) ^ ones;
        factor = multiply(factor, factor);
        index += 1;
    }
    all
}

/// Returns the products of a polynomial with each value of each four bits.
const fn multiples(factor: u32) -> [[u32; 16]; 8] {
    let (mut all, mut at) = ([[0; 16]; 8], 0);
    while at < 8 * 16 {
        all[at / 16][at % 16] = multiply(((at % 16) << (4 * (at / 16))) as u32, factor);
        at += 1;
    }
    all
}

/// Continues a checksum with one word, bit by bit.
const fn word_of(sum: u32, word: u64) -> u32 {
    let (mut state, mut bit) = (sum as u64 ^ word, 0);
    while bit < 64 {
        state = state >> 1 ^ if state & 1 == 0 { 0 } else { POLYNOMIAL as u64 };
        bit += 1;
    }
    state as u32
}

/// Continues a checksum with `length` words that are all zeroes, or all ones.
fn skip(mut sum: u32, mut length: usize, has_ones: bool) -> u32 {
    for Skip { zeroes, ones } in &SKIPS {
        if length & 1 != 0 {
            let parts = zeroes.iter().enumerate();
            let product = parts.map(|(at, part)| part[(sum >> (4 * at) & 15) as usize]);
            sum = product.fold(if has_ones { *ones } else { 0 }, |sum, part| sum ^ part);
        }
        length >>= 1;
        if length == 0 {
            break;
        }
    }
    sum
}

/// Continues a checksum with one word.
fn add(sum: u32, word: u64) -> u32 {
    let (low, high) = (word as u32 ^ sum, (word >> 32) as u32);
    step(7, low, 0)
        ^ step(6, low, 1)
        ^ step(5, low, 2)
        ^ step(4, low, 3)
        ^ step(3, high, 0)
        ^ step(2, high, 1)
        ^ step(1, high, 2)
        ^ step(0, high, 3)
}

/// Returns how many words at the beginning are this one.
fn run(words: &[[u8; 8]], word: u64) -> usize {
    let differs = |other: &[u8; 8]| u64::from_le_bytes(*other) ^ word;
    let (groups, _) = words.as_chunks::<8>();
    let are_equal =
        |group: &&[[u8; 8]; 8]| group.iter().fold(0, |bits, other| bits | differs(other)) == 0;
    let whole = 8 * groups.iter().take_while(are_equal).count();
    whole + words[whole..].iter().take_while(|other| differs(other) == 0).count()
}

/// Returns the checksum of `bytes`, continuing from `seed`.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    let (mut words, rest) = bytes.as_chunks::<8>();
    let mut sum = seed;
    while let Some((first, others)) = words.split_first() {
        let word = u64::from_le_bytes(*first);
        if word == 0 || word == u64::MAX {
            let most = words.len().min((2 << RUNS) - 1);
            let length = run(&words[..most], word);
            sum = match length {
                RUN.. => skip(sum, length, word != 0),
                _ => (0..length).fold(sum, |sum, _| add(sum, word)),
            };
            words = &words[length..];
        } else {
            sum = add(sum, word);
            words = others;
        }
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

    #[test]
    fn runs_of_equal_words_are_passed_as_if_byte_by_byte() {
        let slowly = |seed: u32, bytes: &[u8]| {
            bytes.iter().fold(seed, |sum, byte| sum >> 8 ^ step(0, sum ^ u32::from(*byte), 0))
        };
        let mut prng = base::prng::Prng::new(7);
        for round in 0..2000 {
            let mut bytes = alloc::vec::Vec::new();
            while bytes.len() < 6000 && !prng.chance(1, 8) {
                let length = prng.below(2500) as usize;
                let byte = [0, 0xff, prng.next() as u8][prng.below(3) as usize];
                bytes.resize(bytes.len() + length, byte);
            }
            let seed = prng.next() as u32;
            assert_eq!(crc32c(seed, &bytes), slowly(seed, &bytes), "round {round}");
        }
        assert_eq!(crc32c(5, &[0; 1 << 16]), slowly(5, &[0; 1 << 16]));
    }
}
