//! Effects of an instruction on memory and caches, as far as the sanitizer must distinguish them
//! from plain loads and stores. Pure.

use crate::class::{Isa, fence_sets};

/// How an instruction's own accesses count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// As plain loads and stores.
    Plain,
    /// As the load of an exclusive pair.
    Exclusive,
    /// As one step that reads and writes: the store of an exclusive pair, or an atomic.
    Change,
}

/// An instruction's effect besides its accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// Cleans the line of the address in this register.
    Clean(u8),
    /// Invalidates that line.
    Invalidate(u8),
    /// Cleans and invalidates it.
    Flush(u8),
    /// Makes that line's changes visible to the core's own fetches.
    Unify(u8),
    /// The same for all lines.
    UnifyAll,
    /// Zeroes that line.
    Zero(u8),
    /// Earlier maintenance is complete for every domain before later accesses.
    Barrier,
}

/// Returns how the accesses of the instruction word `op` count.
pub fn touch(isa: Isa, op: u32) -> Touch {
    match isa {
        Isa::Aarch64 => aarch64_touch(op),
        Isa::Riscv64 if op & 0x7f == 0x2f => match op >> 27 {
            0b00010 => Touch::Exclusive,
            _ => Touch::Change,
        },
        Isa::Riscv64 => Touch::Plain,
    }
}

fn aarch64_touch(op: u32) -> Touch {
    let bit = |at: u32| op >> at & 1 != 0;
    if op & 0x3f00_0000 == 0x0800_0000 {
        // o2, L, o1: exclusives, compare-and-swap, and ordered plain accesses.
        return match (bit(23), bit(22), bit(21)) {
            (true, _, false) => Touch::Plain,
            (false, true, pair) if !pair || bit(31) => Touch::Exclusive,
            _ => Touch::Change,
        };
    }
    // LSE; LDAPR shares their encoding space.
    let lse = op & 0x3f20_0c00 == 0x3820_0000 && op & 0xf000 != 0xc000;
    if lse { Touch::Change } else { Touch::Plain }
}

/// Returns the effect of the instruction word `op` besides its accesses.
pub fn upkeep(isa: Isa, op: u32) -> Option<Upkeep> {
    match isa {
        Isa::Aarch64 => aarch64_upkeep(op),
        Isa::Riscv64 => riscv64_upkeep(op),
    }
}

fn aarch64_upkeep(op: u32) -> Option<Upkeep> {
    let register = (op & 31) as u8;
    if op & 0xffff_f01f == 0xd503_301f {
        // DSB and DMB, of all accesses or of stores, outer shareable or full system: an inner
        // shareable one does not affect other domains.
        let far = matches!(op >> 8 & 15, 0b0010 | 0b0011 | 0b1110 | 0b1111);
        return (far && matches!(op >> 5 & 7, 4 | 5)).then_some(Upkeep::Barrier);
    }
    if op & 0xfff8_0000 != 0xd508_0000 {
        return None;
    }
    // SYS: op1, CRn, CRm, op2.
    match (op >> 16 & 7, op >> 12 & 15, op >> 8 & 15, op >> 5 & 7) {
        (0, 7, 6, 1) => Some(Upkeep::Invalidate(register)),
        (3, 7, 10 | 12 | 13, 1) => Some(Upkeep::Clean(register)),
        (3, 7, 11, 1) => Some(Upkeep::Unify(register)),
        (3, 7, 14, 1) => Some(Upkeep::Flush(register)),
        (3, 7, 4, 1) => Some(Upkeep::Zero(register)),
        _ => None,
    }
}

fn riscv64_upkeep(op: u32) -> Option<Upkeep> {
    let register = (op >> 15 & 31) as u8;
    match op & 0x707f {
        // Maintenance counts as a write, or as output: a fence of reads only does not wait for it.
        0x000f => {
            fence_sets(op).filter(|(before, _)| before & 0b0101 != 0).map(|_| Upkeep::Barrier)
        }
        0x100f => Some(Upkeep::UnifyAll),
        0x200f if op & 0x7fff == 0x200f => match op >> 20 {
            0 => Some(Upkeep::Invalidate(register)),
            1 => Some(Upkeep::Clean(register)),
            2 => Some(Upkeep::Flush(register)),
            4 => Some(Upkeep::Zero(register)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aarch64() {
        let touch = |op| touch(Isa::Aarch64, op);
        assert_eq!(touch(0xc85f_7c20), Touch::Exclusive, "ldxr x0, [x1]");
        assert_eq!(touch(0xc85f_fc20), Touch::Exclusive, "ldaxr x0, [x1]");
        assert_eq!(touch(0xc87f_0420), Touch::Exclusive, "ldxp x0, x1, [x1]");
        assert_eq!(touch(0xc802_7c20), Touch::Change, "stxr w2, x0, [x1]");
        assert_eq!(touch(0xc8df_fc20), Touch::Plain, "ldar x0, [x1]");
        assert_eq!(touch(0xc89f_fc20), Touch::Plain, "stlr x0, [x1]");
        assert_eq!(touch(0xc8a2_7c20), Touch::Change, "cas x2, x0, [x1]");
        assert_eq!(touch(0x4822_7c20), Touch::Change, "casp x2, x3, x0, x1, [x1]");
        assert_eq!(touch(0xf8e2_8020), Touch::Change, "swpal x2, x0, [x1]");
        assert_eq!(touch(0xf8bf_c020), Touch::Plain, "ldapr x0, [x1]");
        assert_eq!(touch(0xf821_0020), Touch::Change, "ldadd x1, x0, [x1]");
        assert_eq!(touch(0xf940_0020), Touch::Plain, "ldr x0, [x1]");
        assert_eq!(touch(0xf862_6820), Touch::Plain, "ldr x0, [x1, x2]");
        assert_eq!(touch(0xa9bf_7bfd), Touch::Plain, "stp x29, x30, [sp, #-16]!");
        let upkeep = |op| upkeep(Isa::Aarch64, op);
        assert_eq!(upkeep(0xd508_7625), Some(Upkeep::Invalidate(5)), "dc ivac, x5");
        assert_eq!(upkeep(0xd50b_7a23), Some(Upkeep::Clean(3)), "dc cvac, x3");
        assert_eq!(upkeep(0xd50b_7b23), Some(Upkeep::Unify(3)), "dc cvau, x3");
        assert_eq!(upkeep(0xd50b_7e2f), Some(Upkeep::Flush(15)), "dc civac, x15");
        assert_eq!(upkeep(0xd50b_7421), Some(Upkeep::Zero(1)), "dc zva, x1");
        assert_eq!(upkeep(0xd503_33bf), Some(Upkeep::Barrier), "dmb osh");
        assert_eq!(upkeep(0xd503_3f9f), Some(Upkeep::Barrier), "dsb sy");
        assert_eq!(upkeep(0xd503_3bbf), None, "dmb ish");
        assert_eq!(upkeep(0xd503_31bf), None, "dmb oshld");
        assert_eq!(upkeep(0xd503_3fdf), None, "isb");
        assert_eq!(upkeep(0xd50b_7520), None, "ic ivau, x0");
    }

    #[test]
    fn riscv64() {
        let touch = |op| touch(Isa::Riscv64, op);
        assert_eq!(touch(0x1005_b52f), Touch::Exclusive, "lr.d a0, (a1)");
        assert_eq!(touch(0x18c5_b52f), Touch::Change, "sc.d a0, a2, (a1)");
        assert_eq!(touch(0x0ec5_b52f), Touch::Change, "amoswap.d.aqrl a0, a2, (a1)");
        assert_eq!(touch(0x0005_b503), Touch::Plain, "ld a0, 0(a1)");
        let upkeep = |op| upkeep(Isa::Riscv64, op);
        assert_eq!(upkeep(0x0005_200f), Some(Upkeep::Invalidate(10)), "cbo.inval (a0)");
        assert_eq!(upkeep(0x0015_a00f), Some(Upkeep::Clean(11)), "cbo.clean (a1)");
        assert_eq!(upkeep(0x0025_200f), Some(Upkeep::Flush(10)), "cbo.flush (a0)");
        assert_eq!(upkeep(0x0045_200f), Some(Upkeep::Zero(10)), "cbo.zero (a0)");
        assert_eq!(upkeep(0x0ff0_000f), Some(Upkeep::Barrier), "fence iorw, iorw");
        assert_eq!(upkeep(0x0310_000f), Some(Upkeep::Barrier), "fence rw, w");
        assert_eq!(upkeep(0x0440_000f), Some(Upkeep::Barrier), "fence o, o");
        assert_eq!(upkeep(0x8330_000f), Some(Upkeep::Barrier), "fence.tso");
        assert_eq!(upkeep(0x0100_000f), None, "pause");
        assert_eq!(upkeep(0x0010_000f), None, "fence of nothing before");
        assert_eq!(upkeep(0x0220_000f), None, "fence r, r");
        assert_eq!(upkeep(0x0230_000f), None, "fence r, rw");
        assert_eq!(upkeep(0x0000_100f), Some(Upkeep::UnifyAll), "fence.i");
        assert_eq!(upkeep(0x0000_8082), None, "compressed ret");
    }
}
