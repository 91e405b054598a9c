//! Effects of an instruction on TLBs and page-table walks. Pure.

use crate::class::{Isa, fence_sets};
use lab_tlb::{Reach, Scope};

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Invalidates everything.
    Everything(Scope),
    /// Invalidates the address in this register, with the walks to it or without.
    Address {
        /// The cores concerned.
        scope: Scope,
        /// The register.
        from: u8,
        /// Cached walks stay.
        leaf: bool,
    },
    /// AArch64's DSB of stores, or of `all` accesses.
    Synchronize {
        /// The cores concerned.
        reach: Reach,
        /// Loads, too: invalidations are complete.
        all: bool,
    },
    /// Earlier stores are visible to walks before later ones.
    Order,
    /// Reads the address of a fault.
    Fault,
    /// Sets the page table.
    Root,
    /// Calls the firmware.
    Firmware,
}

/// Returns the effects of the instruction word `op`; a barrier may have two.
pub fn effects(isa: Isa, op: u32) -> [Option<Effect>; 2] {
    match isa {
        Isa::Aarch64 => aarch64(op),
        Isa::Riscv64 => riscv64(op),
    }
}

fn aarch64(op: u32) -> [Option<Effect>; 2] {
    if op & 0xffff_f01f == 0xd503_301f {
        return barrier(op >> 8 & 15, op >> 5 & 7);
    }
    let effect = match op & !0x1f {
        0xd538_6000 => Some(Effect::Fault),
        0xd518_2020 => Some(Effect::Root),
        _ if op & 0xffe0_001e == 0xd400_0002 => Some(Effect::Firmware),
        // SYS of EL1, CRn 8.
        _ if op & 0xffff_f000 == 0xd508_8000 => tlbi(op),
        _ => None,
    };
    [effect, None]
}

/// DSB and DMB: the domain, and the kind of accesses.
fn barrier(option: u32, kind: u32) -> [Option<Effect>; 2] {
    let stores = matches!(option & 3, 2 | 3);
    let reach = if option >> 2 == 1 { Reach::Own } else { Reach::All };
    let order = (stores && matches!(kind, 4 | 5) && reach == Reach::All).then_some(Effect::Order);
    let completes = Effect::Synchronize { reach, all: option & 3 == 3 };
    [(stores && kind == 4).then_some(completes), order]
}

fn tlbi(op: u32) -> Option<Effect> {
    let scope = match op >> 8 & 15 {
        7 => Scope::Own,
        1 | 3 => Scope::All,
        _ => return None,
    };
    let from = (op & 31) as u8;
    match op >> 5 & 7 {
        0 => Some(Effect::Everything(scope)),
        1 | 3 => Some(Effect::Address { scope, from, leaf: false }),
        5 | 7 => Some(Effect::Address { scope, from, leaf: true }),
        _ => None,
    }
}

fn riscv64(op: u32) -> [Option<Effect>; 2] {
    let first = match op {
        0x0000_0073 => Some(Effect::Firmware),
        // sfence.vma; with an ASID it keeps global entries.
        _ if op & 0xfff0_7fff == 0x1200_0073 => Some(match (op >> 15 & 31) as u8 {
            0 => Effect::Everything(Scope::Own),
            from => Effect::Address { scope: Scope::Own, from, leaf: true },
        }),
        _ if op & 0x7f == 0x73 && op >> 12 & 7 != 0 => match op >> 20 {
            0x143 if op >> 7 & 31 != 0 => Some(Effect::Fault),
            0x180 if op >> 12 & 7 == 1 => Some(Effect::Root),
            _ => None,
        },
        _ if op & 0x707f == 0x000f => fence_sets(op)
            .filter(|(before, behind)| before & behind & 1 != 0)
            .map(|_| Effect::Order),
        _ => None,
    };
    let fences = matches!(first, Some(Effect::Everything(_) | Effect::Address { .. }));
    [first, fences.then_some(Effect::Order)]
}

/// Returns the address that the operand of AArch64's TLBI names.
pub fn operand(value: u64) -> u64 {
    ((value << 20) as i64 >> 8) as u64
}

/// Returns whether an RV64 instruction accesses memory through the stack pointer.
pub fn is_by_stack(op: u32) -> bool {
    const STACK: u32 = 2;
    if op & 3 != 3 {
        // Loads and stores relative to the stack pointer are in the third quadrant.
        return op & 3 == 2 && !matches!(op >> 13 & 7, 0 | 4);
    }
    matches!(op & 0x7f, 0x03 | 0x07 | 0x23 | 0x27 | 0x2f) && op >> 15 & 31 == STACK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(isa: Isa, op: u32) -> Option<Effect> {
        effects(isa, op)[0]
    }

    #[test]
    fn invalidations_of_aarch64() {
        let of = |op| first(Isa::Aarch64, op);
        assert_eq!(of(0xd508_871f), Some(Effect::Everything(Scope::Own)), "vmalle1");
        assert_eq!(of(0xd508_831f), Some(Effect::Everything(Scope::All)), "vmalle1is");
        assert_eq!(of(0xd508_811f), Some(Effect::Everything(Scope::All)), "vmalle1os");
        let address = |scope, from, leaf| Some(Effect::Address { scope, from, leaf });
        assert_eq!(of(0xd508_8763), address(Scope::Own, 3, false), "vaae1, x3");
        assert_eq!(of(0xd508_8325), address(Scope::All, 5, false), "vae1is, x5");
        assert_eq!(of(0xd508_83e9), address(Scope::All, 9, true), "vaale1is, x9");
        assert_eq!(of(0xd508_8343), None, "aside1is");
        assert_eq!(of(0xd50c_871f), None, "alle1, of EL2");
        let va = 0xffff_8000_8400_1000u64;
        assert_eq!(operand(va >> 12 & ((1 << 44) - 1)), va);
        assert_eq!(operand(0x42), 0x42_000);
    }

    #[test]
    fn barriers_of_aarch64() {
        let of = |op| effects(Isa::Aarch64, op);
        let dsb = |reach, all| Some(Effect::Synchronize { reach, all });
        assert_eq!(of(0xd503_3f9f), [dsb(Reach::All, true), Some(Effect::Order)], "dsb sy");
        assert_eq!(of(0xd503_3b9f), [dsb(Reach::All, true), Some(Effect::Order)], "dsb ish");
        assert_eq!(of(0xd503_3a9f), [dsb(Reach::All, false), Some(Effect::Order)], "dsb ishst");
        assert_eq!(of(0xd503_379f), [dsb(Reach::Own, true), None], "dsb nsh");
        assert_eq!(of(0xd503_399f), [None, None], "dsb ishld");
        assert_eq!(of(0xd503_3abf), [None, Some(Effect::Order)], "dmb ishst");
        assert_eq!(of(0xd503_3fdf), [None, None], "isb");
    }

    #[test]
    fn system_registers_and_calls() {
        let of = |op| first(Isa::Aarch64, op);
        assert_eq!(of(0xd538_6001), Some(Effect::Fault), "mrs x1, far_el1");
        assert_eq!(of(0xd518_2020), Some(Effect::Root), "msr ttbr1_el1, x0");
        assert_eq!(of(0xd518_2001), None, "msr ttbr0_el1, x1");
        assert_eq!(of(0xd400_0002), Some(Effect::Firmware), "hvc #0");
        assert_eq!(of(0xd400_0001), None, "svc #0");
        let of = |op| first(Isa::Riscv64, op);
        assert_eq!(of(0x1430_22f3), Some(Effect::Fault), "csrr t0, stval");
        assert_eq!(of(0x1803_9073), Some(Effect::Root), "csrw satp, t2");
        assert_eq!(of(0x0000_0073), Some(Effect::Firmware), "ecall");
        assert_eq!(of(0x1800_2573), None, "csrr a0, satp");
    }

    #[test]
    fn fences_of_riscv64() {
        let of = |op| effects(Isa::Riscv64, op);
        let order = Some(Effect::Order);
        assert_eq!(of(0x1200_0073), [Some(Effect::Everything(Scope::Own)), order], "sfence.vma");
        let one = Effect::Address { scope: Scope::Own, from: 10, leaf: true };
        assert_eq!(of(0x1205_0073), [Some(one), order], "sfence.vma a0");
        assert_eq!(of(0x12b5_0073), [None, None], "sfence.vma a0, a1");
        assert_eq!(of(0x0110_000f), [order, None], "fence w, w");
        assert_eq!(of(0x0330_000f), [order, None], "fence rw, rw");
        assert_eq!(of(0x0230_000f), [None, None], "fence r, rw");
    }

    #[test]
    fn accesses_through_the_stack_pointer() {
        for op in [0x0081_3083, 0x0011_3423, 0x2081_3087, 0xe406, 0x60a2] {
            assert!(is_by_stack(op), "{op:x}");
        }
        for op in [0x0005_b503, 0x00a5_b023, 0x8082, 0x852e, 0x0141_0113, 0x6188] {
            assert!(!is_by_stack(op), "{op:x}");
        }
    }
}
