//! Finds the functions that a function of a kernel calls, from its machine code.
//!
//! It decodes the jumps and calls of A64 and RV64GC, and nothing else. A jump within the function
//! is not a call. A jump through a compiler-generated table is recognised by the addition before
//! it. Any other indirect transfer is an [`Edge::Unknown`].

use crate::image::Code;
use board::Isa;
use std::collections::BTreeSet;

/// A possible transfer of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// To this address.
    To(u64),
    /// To the function at this address, or to one whose address is stored there: its address is
    /// taken.
    Taken(u64),
    /// To what the word at this address refers to: an address from the global offset table.
    Loaded(u64),
    /// An indirect transfer at this address.
    Unknown(u64),
}

fn edges(isa: Isa, start: u64, code: &[u8]) -> Vec<Edge> {
    match isa {
        Isa::Aarch64 => a64(start, code),
        Isa::Riscv64 => Rv64::default().all(start, code),
    }
}

/// Returns the addresses that a kernel's code makes or its data have. Of what is only called, code
/// makes none.
pub fn taken(isa: Isa, code: &Code) -> BTreeSet<u64> {
    let all = code.functions.iter().flat_map(|it| edges(isa, it.start, &it.code));
    let made = all.filter_map(|edge| match edge {
        Edge::Taken(address) => Some(address),
        _ => None,
    });
    made.chain(code.pointers.values().copied()).collect()
}

/// Returns the calls of the function with these bytes at `start`, and the jumps out of it.
pub fn calls(isa: Isa, start: u64, code: &[u8]) -> Vec<Edge> {
    let inside = start..start + code.len() as u64;
    let mut edges = edges(isa, start, code);
    edges.retain(|edge| !matches!(edge, Edge::To(to) | Edge::Taken(to) if inside.contains(to)));
    edges.sort();
    edges.dedup();
    edges
}

/// Sign-extends the low `bits` bits of `value`.
const fn signed(value: u32, bits: u32) -> i64 {
    ((value << (32 - bits)).cast_signed() >> (32 - bits)) as i64
}

fn a64(start: u64, code: &[u8]) -> Vec<Edge> {
    let words: Vec<u32> =
        code.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    // The page that `adrp` has put into a register, shortly before an instruction, unless it was
    // replaced by what the global offset table has there.
    let page = |index: usize, register: u32| {
        let before = words[..index].iter().enumerate().rev().take(8);
        let before = before.map(|(index, &word)| (start + 4 * index as u64, word));
        let replaces = |word: u32| word & 0xffc0_03ff == 0xf940_0000 | register << 5 | register;
        let before = before.take_while(|(_, it)| !replaces(*it));
        let mut pages = before.filter(|(_, it)| it & 0x9f00_001f == 0x9000_0000 | register);
        let (from, page) = pages.next()?;
        let pages = signed(page >> 5, 19) << 2 | i64::from(page >> 29 & 3);
        Some((from & !0xfff).wrapping_add_signed(pages << 12))
    };
    let edge = |(index, &word): (usize, &u32)| {
        let at = start + 4 * index as u64;
        let to = |offset: i64| Some(Edge::To(at.wrapping_add_signed(offset * 4)));
        let register = word >> 5 & 31;
        // add xN, xM, ..., lsl #2: the sum of a table's base and an entry.
        let table = |before: u32| before & 0x7f20_0000 == 0x0b00_0000 && before & 31 == register;
        match word {
            _ if word & 0x7c00_0000 == 0x1400_0000 => to(signed(word, 26)), // b, bl
            _ if word & 0xff00_0010 == 0x5400_0000 => to(signed(word >> 5, 19)), // b.cond
            _ if word & 0x7e00_0000 == 0x3400_0000 => to(signed(word >> 5, 19)), // cbz, cbnz
            _ if word & 0x7e00_0000 == 0x3600_0000 => to(signed(word >> 5, 14)), // tbz, tbnz
            _ if word & 0xffff_fc1f == 0xd63f_0000 => Some(Edge::Unknown(at)), // blr
            _ if word & 0xffff_fc1f == 0xd61f_0000 => {
                let by_table = words[..index].iter().rev().take(8).any(|&before| table(before));
                (!by_table).then_some(Edge::Unknown(at)) // br
            }
            _ if word & 0x9f00_0000 == 0x1000_0000 => {
                let offset = signed(word >> 5, 19) << 2 | i64::from(word >> 29 & 3);
                Some(Edge::Taken(at.wrapping_add_signed(offset))) // adr
            }
            // adrp, add
            _ if word & 0xffc0_0000 == 0x9100_0000 => {
                Some(Edge::Taken(page(index, register)? + u64::from(word >> 10 & 0xfff)))
            }
            // adrp, ldr
            _ if word & 0xffc0_0000 == 0xf940_0000 => {
                Some(Edge::Loaded(page(index, register)? + 8 * u64::from(word >> 10 & 0xfff)))
            }
            _ => None,
        }
    };
    words.iter().enumerate().filter_map(edge).collect()
}

/// State from earlier instructions.
#[derive(Default)]
struct Rv64 {
    /// Values that `auipc` has put into registers.
    pages: [Option<u64>; 32],
    /// Destination registers of the last additions.
    sums: [u32; 4],
}

impl Rv64 {
    fn all(mut self, start: u64, code: &[u8]) -> Vec<Edge> {
        let (mut edges, mut at) = (Vec::new(), 0);
        let half = |at: usize| {
            let bytes = code.get(at..at + 2).and_then(|bytes| bytes.first_chunk());
            bytes.map(|bytes| u32::from(u16::from_le_bytes(*bytes)))
        };
        while let Some(low) = half(at) {
            let pc = start.wrapping_add(at as u64);
            if low & 3 == 3 {
                let Some(high) = half(at + 2) else { break };
                let word = high << 16 | low;
                edges.extend(self.wide(pc, word));
                self.forget(wide_destination(word));
                at += 4;
            } else {
                edges.extend(self.narrow(pc, low));
                self.forget(narrow_destination(low));
                at += 2;
            }
        }
        edges
    }

    /// The register has another value now.
    fn forget(&mut self, register: Option<u32>) {
        if let Some(register) = register {
            self.pages[register as usize] = None;
        }
    }

    fn adds(&mut self, register: u32) -> Option<Edge> {
        self.sums.rotate_right(1);
        self.sums[0] = register;
        None
    }

    /// Decodes an instruction of 32 bits.
    fn wide(&mut self, pc: u64, word: u32) -> Option<Edge> {
        let (rd, rs1) = (word >> 7 & 31, word >> 15 & 31);
        let to = |offset: i64| Some(Edge::To(pc.wrapping_add_signed(offset)));
        let page = self.pages[rs1 as usize];
        let there = page.map(|page| page.wrapping_add_signed(signed(word >> 20, 12)));
        match (word & 0x7f, word >> 12 & 7) {
            (0x6f, _) => {
                let low = (word >> 20 & 1) << 11 | (word >> 21 & 0x3ff) << 1;
                to(signed((word >> 31) << 20 | (word & 0xff000) | low, 21)) // jal
            }
            (0x63, _) => {
                let low = (word >> 7 & 1) << 11 | (word >> 25 & 0x3f) << 5 | (word >> 8 & 15) << 1;
                to(signed((word >> 31) << 12 | low, 13)) // branches
            }
            (0x17, _) => {
                let value = pc.wrapping_add_signed(i64::from((word & !0xfff).cast_signed()));
                self.pages[rd as usize] = Some(value); // auipc
                None
            }
            (0x13, 0) => there.map(Edge::Taken),  // addi
            (0x03, 3) => there.map(Edge::Loaded), // ld
            (0x33, 0) if word >> 25 == 0 => self.adds(rd), // add
            (0x67, _) => match there {
                Some(to) => Some(Edge::To(to)), // auipc, jalr
                None => self.through(pc, rd, rs1),
            },
            _ => None,
        }
    }

    /// Decodes an instruction of 16 bits.
    fn narrow(&mut self, pc: u64, half: u32) -> Option<Edge> {
        let (rd, rs2) = (half >> 7 & 31, half >> 2 & 31);
        let scattered = |places: &[u32]| {
            let bits = places.iter().enumerate().filter(|(_, to)| **to != 0);
            bits.fold(0, |sum, (at, to)| sum | (half >> (at + 2) & 1) << to)
        };
        let to = |offset: i64| Some(Edge::To(pc.wrapping_add_signed(offset)));
        match (half & 3, half >> 13) {
            (1, 5) => to(signed(scattered(&[5, 1, 2, 3, 7, 6, 10, 8, 9, 4, 11]), 12)), // c.j
            // c.beqz, c.bnez
            (1, 6 | 7) => to(signed(scattered(&[5, 1, 2, 6, 7, 0, 0, 0, 3, 4, 8]), 9)),
            (2, 4) if rs2 == 0 && rd != 0 => self.through(pc, half >> 12 & 1, rd), // c.jr, c.jalr
            (2, 4) if half >> 12 & 1 == 1 && rs2 != 0 => self.adds(rd),            // c.add
            _ => None,
        }
    }

    /// Returns the edge of a jump (`link` 0) or call through a register.
    fn through(&self, pc: u64, link: u32, register: u32) -> Option<Edge> {
        const RA: u32 = 1;
        let returns = link == 0 && register == RA;
        let by_table = link == 0 && self.sums.contains(&register);
        (!returns && !by_table).then_some(Edge::Unknown(pc))
    }
}

/// Returns the integer register that an instruction of 32 bits writes, `auipc` excepted.
fn wide_destination(word: u32) -> Option<u32> {
    // Loads, immediates, atomics, registers, lui, jalr, jal, CSRs; with their forms for words.
    let writes = [0x03, 0x13, 0x1b, 0x2f, 0x33, 0x37, 0x3b, 0x67, 0x6f, 0x73];
    writes.contains(&(word & 0x7f)).then_some(word >> 7 & 31)
}

/// Returns the integer register that an instruction of 16 bits writes.
fn narrow_destination(half: u32) -> Option<u32> {
    let (full, upper, lower) = (half >> 7 & 31, 8 + (half >> 7 & 7), 8 + (half >> 2 & 7));
    match (half & 3, half >> 13) {
        (0, 0 | 2 | 3) => Some(lower),               // c.addi4spn, c.lw, c.ld
        (1, 0..=3) => Some(full),                    // c.addi, c.addiw, c.li, c.lui
        (1, 4) => Some(upper),                       // c.srli, c.andi, c.sub, ...
        (2, 0 | 2 | 3) => Some(full),                // c.slli, c.lwsp, c.ldsp
        (2, 4) if half >> 2 & 31 != 0 => Some(full), // c.mv, c.add
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Function;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn halves(halves: &[u16]) -> Vec<u8> {
        halves.iter().flat_map(|half| half.to_le_bytes()).collect()
    }

    #[test]
    fn calls_and_jumps_of_a64() {
        let code = words(&[
            0x9400_0400, // bl +0x1000
            0x17ff_fc00, // b -0x1000
            0x5400_0040, // b.eq +8, inside
            0xd63f_0100, // blr x8
            0x8b0a_0929, // add x9, x9, x10, lsl #2
            0xd61f_0120, // br x9, by a table
            0xd61f_0100, // br x8
            0xd65f_03c0, // ret
        ]);
        let expected =
            [Edge::To(0x1_0000 + 4 - 0x1000), Edge::To(0x1_1000), Edge::Unknown(0x1_000c)];
        let found = calls(Isa::Aarch64, 0x1_0000, &code);
        assert_eq!(found, [&expected[..], &[Edge::Unknown(0x1_0018)]].concat());
    }

    #[test]
    fn an_address_that_was_loaded_is_no_page() {
        let code = words(&[
            0x9000_0015, // adrp x21, 0
            0x9108_02a0, // add x0, x21, #512
            0xf940_76b5, // ldr x21, [x21, #232]
            0x9108_02a0, // add x0, x21, #512
            0xf943_3aa8, // ldr x8, [x21, #1648]
        ]);
        let expected = [Edge::Taken(0x1_0000 + 512), Edge::Loaded(0x1_0000 + 232)];
        assert_eq!(calls(Isa::Aarch64, 0x1_0800, &code), expected);
    }

    #[test]
    fn what_is_only_called_is_not_taken() {
        let function = |start, code| Function { start, code, name: String::new() };
        let code = words(&[
            0x9400_0400, // bl +0x1000
            0x9000_0008, // adrp x8, 0
            0x9108_0100, // add x0, x8, #512
            0x1000_0001, // adr x1, itself
        ]);
        let pointers = [(0x9000, 0x7000)].into();
        let code = Code { functions: vec![function(0x1_0000, code)], pointers };
        let expected = [0x7000, 0x1_000c, 0x1_0200].into();
        assert_eq!(taken(Isa::Aarch64, &code), expected);
        let code = halves(&[
            0x1517, 0x0000, // auipc a0, 1
            0x0513, 0x0105, // addi a0, a0, 16
            0x1097, 0x0000, // auipc ra, 1
            0x80e7, 0x0100, // jalr 16(ra)
        ]);
        let code = Code { functions: vec![function(0x8000, code)], pointers: [].into() };
        assert_eq!(taken(Isa::Riscv64, &code), [0x9010].into());
    }

    #[test]
    fn calls_and_jumps_of_rv64() {
        let code = halves(&[
            0x1097, 0x0000, // auipc ra, 1
            0x80e7, 0x0100, // jalr 16(ra)
            0xa001, // c.j, to itself
            0x9502, // c.jalr a0
            0x952e, // c.add a0, a1
            0x8502, // c.jr a0, by a table
            0x8602, // c.jr a2
            0x00ef, 0x1000, // jal +256
            0x8082, // ret
        ]);
        let found = calls(Isa::Riscv64, 0x8000, &code);
        let expected =
            [Edge::To(0x8112), Edge::To(0x9010), Edge::Unknown(0x800a), Edge::Unknown(0x8010)];
        assert_eq!(found, expected);
    }

    fn next(random: &mut u64) -> u8 {
        *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*random >> 56) as u8
    }

    #[test]
    fn a_register_that_was_written_again_holds_no_page() {
        let code = words(&[
            0x0000_1617, // auipc a2, 1
            0x0106_3603, // ld a2, 16(a2)
            0x0186_3683, // ld a3, 24(a2): somewhere else
        ]);
        assert_eq!(calls(Isa::Riscv64, 0x8000, &code), [Edge::Loaded(0x9010)]);
        let mut again = words(&[0x0000_1617]);
        again.extend(halves(&[0x863e])); // c.mv a2, a5
        again.extend(words(&[0x0186_3683]));
        assert_eq!(calls(Isa::Riscv64, 0x8000, &again), []);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut random = 1u64;
        for isa in [Isa::Aarch64, Isa::Riscv64] {
            for length in 0..200 {
                let code: Vec<u8> = (0..length).map(|_| next(&mut random)).collect();
                calls(isa, 1 << 40, &code);
            }
        }
    }
}
