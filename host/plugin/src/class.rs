//! Classifies instructions by cost. Pure.

use lab::model::Costs;

/// A class of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Any other instruction.
    Plain,
    /// Cleans a line; may also invalidate it.
    Clean,
    /// Invalidates a line.
    Invalidate,
    /// Memory barrier.
    Barrier,
    /// TLB invalidation.
    Tlb,
    /// Exception return.
    Exit,
    /// Sets a timer.
    Timer,
}

impl Class {
    /// Returns its cost in units of the clock.
    pub fn units(self, costs: &Costs) -> u64 {
        let more = match self {
            Class::Plain | Class::Timer => 0,
            Class::Clean => costs.clean,
            Class::Invalidate => costs.invalidate,
            Class::Barrier => costs.barrier,
            Class::Tlb => costs.tlb,
            Class::Exit => costs.exit,
        };
        costs.instruction + more
    }
}

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AArch64.
    Aarch64,
    /// RV64.
    Riscv64,
}

impl Isa {
    /// Parses QEMU's name of a target.
    pub fn named(name: &str) -> Option<Isa> {
        match name {
            "aarch64" => Some(Isa::Aarch64),
            "riscv64" => Some(Isa::Riscv64),
            _ => None,
        }
    }

    /// Returns the length of the instruction word `op` in bytes.
    pub fn bytes(self, op: u32) -> u64 {
        if self == Isa::Riscv64 && op & 3 != 3 { 2 } else { 4 }
    }

    /// Returns the class of the instruction word `op`.
    pub fn class(self, op: u32) -> Class {
        match self {
            Isa::Aarch64 => aarch64(op),
            Isa::Riscv64 => riscv64(op),
        }
    }

    /// Returns whether `at` is an exception entry, given the range `vectors` of the entries.
    pub fn is_entry(self, at: u64, vectors: (u64, u64)) -> bool {
        let inside = (vectors.0..vectors.1).contains(&at);
        match self {
            Isa::Aarch64 => inside && (at - vectors.0).is_multiple_of(0x80),
            Isa::Riscv64 => inside && at == vectors.0,
        }
    }
}

fn aarch64(op: u32) -> Class {
    if op == 0xd69f_03e0 {
        return Class::Exit;
    }
    if op & 0xffff_f01f == 0xd503_301f {
        // DSB, DMB, ISB.
        return if matches!(op >> 5 & 7, 4..=6) { Class::Barrier } else { Class::Plain };
    }
    if op & 0xffff_fe00 == 0xd51b_e200 {
        // MSR CNTP_* and CNTV_*.
        return Class::Timer;
    }
    if op & 0xfff8_0000 != 0xd508_0000 {
        return Class::Plain;
    }
    // SYS: op1, CRn, CRm, op2.
    match (op >> 16 & 7, op >> 12 & 15, op >> 8 & 15, op >> 5 & 7) {
        (_, 8 | 9, ..) => Class::Tlb,
        (3, 7, 10 | 11 | 14, 1) => Class::Clean,
        (0, 7, 6, 1) | (3, 7, 5, 1) | (0, 7, 1 | 5, 0) => Class::Invalidate,
        _ => Class::Plain,
    }
}

/// Returns the predecessor and successor sets of the RV64 fence `op`, from the highest bit: device
/// input, device output, reads, writes. A fence with an empty set is a hint (such as `pause`).
pub fn fence_sets(op: u32) -> Option<(u32, u32)> {
    let (before, behind) = (op >> 24 & 15, op >> 20 & 15);
    (before != 0 && behind != 0).then_some((before, behind))
}

fn riscv64(op: u32) -> Class {
    match op {
        0x1020_0073 | 0x3020_0073 => return Class::Exit,
        _ if op & 0xfe00_7fff == 0x1200_0073 => return Class::Tlb,
        _ => {}
    }
    match op & 0x707f {
        0x000f if fence_sets(op).is_none() => Class::Plain,
        0x000f | 0x100f => Class::Barrier,
        0x200f if op & 0x7fff == 0x200f => match op >> 20 {
            0 => Class::Invalidate,
            1 | 2 => Class::Clean,
            _ => Class::Plain,
        },
        // Any access to stimecmp.
        _ if op & 0x7f == 0x73 && op >> 12 & 7 != 0 && op >> 20 == 0x14d => Class::Timer,
        _ => Class::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aarch64_is_known_by_its_words() {
        let class = |op| Isa::Aarch64.class(op);
        assert_eq!(class(0xd503_201f), Class::Plain, "nop");
        assert_eq!(class(0xd503_207f), Class::Plain, "wfi");
        assert_eq!(class(0xd503_33bf), Class::Barrier, "dmb osh");
        assert_eq!(class(0xd503_3f9f), Class::Barrier, "dsb sy");
        assert_eq!(class(0xd503_3fdf), Class::Barrier, "isb");
        assert_eq!(class(0xd508_7620), Class::Invalidate, "dc ivac, x0");
        assert_eq!(class(0xd50b_7a23), Class::Clean, "dc cvac, x3");
        assert_eq!(class(0xd50b_7b23), Class::Clean, "dc cvau, x3");
        assert_eq!(class(0xd50b_7e2f), Class::Clean, "dc civac, x15");
        assert_eq!(class(0xd50b_7520), Class::Invalidate, "ic ivau, x0");
        assert_eq!(class(0xd508_871f), Class::Tlb, "tlbi vmalle1");
        assert_eq!(class(0xd508_8320), Class::Tlb, "tlbi vae1is, x0");
        assert_eq!(class(0xd69f_03e0), Class::Exit, "eret");
        assert_eq!(class(0xd51b_e340), Class::Timer, "msr cntv_cval_el0, x0");
        assert_eq!(class(0xd51b_e321), Class::Timer, "msr cntv_ctl_el0, x1");
        assert_eq!(class(0xf940_0000), Class::Plain, "ldr");
    }

    #[test]
    fn riscv64_is_known_by_its_words() {
        let class = |op| Isa::Riscv64.class(op);
        assert_eq!(class(0x0ff0_000f), Class::Barrier, "fence iorw, iorw");
        assert_eq!(class(0x0220_000f), Class::Barrier, "fence r, r");
        assert_eq!(class(0x8330_000f), Class::Barrier, "fence.tso");
        assert_eq!(class(0x0100_000f), Class::Plain, "pause");
        assert_eq!(class(0x0010_000f), Class::Plain, "fence of nothing before");
        assert_eq!(class(0x0000_100f), Class::Barrier, "fence.i");
        assert_eq!(class(0x0005_200f), Class::Invalidate, "cbo.inval (a0)");
        assert_eq!(class(0x0015_200f), Class::Clean, "cbo.clean (a0)");
        assert_eq!(class(0x0025_200f), Class::Clean, "cbo.flush (a0)");
        assert_eq!(class(0x0045_200f), Class::Plain, "cbo.zero (a0)");
        assert_eq!(class(0x1200_0073), Class::Tlb, "sfence.vma");
        assert_eq!(class(0x1020_0073), Class::Exit, "sret");
        assert_eq!(class(0x14d5_1073), Class::Timer, "csrw stimecmp, a0");
        assert_eq!(class(0x1050_0073), Class::Plain, "wfi");
        assert_eq!(class(0x0000_0073), Class::Plain, "ecall");
        assert_eq!(class(0xc010_2573), Class::Plain, "rdtime a0");
        assert_eq!(class(0x0000_8082), Class::Plain, "compressed ret");
    }

    #[test]
    fn entries() {
        let vectors = (0x1000, 0x1800);
        assert!(Isa::Aarch64.is_entry(0x1280, vectors));
        assert!(!Isa::Aarch64.is_entry(0x1284, vectors) && !Isa::Aarch64.is_entry(0x1800, vectors));
        assert!(Isa::Riscv64.is_entry(0x1000, vectors) && !Isa::Riscv64.is_entry(0x1080, vectors));
        assert!(!Isa::Aarch64.is_entry(0, (0, 0)));
    }
}
