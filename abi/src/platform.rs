//! Platforms: what a manifest can say of the kernel that is to run a program. Each is one bit, and
//! a kernel has two of them: its ISA, and whether its cores are strong or weak.

use crate::boot::isa;

/// AArch64.
pub const AARCH64: u8 = 1;
/// RV64.
pub const RISCV64: u8 = 1 << 1;
/// The fast cores.
pub const STRONG: u8 = 1 << 2;
/// The low-power cores.
pub const WEAK: u8 = 1 << 3;
/// The platforms with their names in manifests.
pub const ALL: [(u8, &str); 4] =
    [(AARCH64, "aarch64"), (RISCV64, "riscv64"), (STRONG, "strong"), (WEAK, "weak")];

/// Maximum number of platforms that a program prefers: each once.
pub const PREFERRED: usize = ALL.len();

/// Returns the platforms of a kernel.
pub const fn of_kernel(isa: u32, is_strong: bool) -> u8 {
    let isa = match isa {
        isa::AARCH64 => AARCH64,
        isa::RISCV64 => RISCV64,
        _ => 0,
    };
    isa | if is_strong { STRONG } else { WEAK }
}

/// Returns the platform with this name.
pub fn named(name: &str) -> Option<u8> {
    ALL.iter().find(|(_, known)| *known == name).map(|&(platform, _)| platform)
}

/// Iterates over the names of a set of platforms.
pub fn names(platforms: u8) -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(move |(platform, _)| platforms & platform != 0).map(|&(_, name)| name)
}

/// Returns whether a kernel can have all platforms of a set.
pub const fn can_be_one(platforms: u8) -> bool {
    let known = AARCH64 | RISCV64 | STRONG | WEAK;
    let (isas, cores) = (AARCH64 | RISCV64, STRONG | WEAK);
    platforms & !known == 0 && platforms & isas != isas && platforms & cores != cores
}

/// Packs preferred platforms, the most preferred first, into four bits each. `None` if one is not a
/// platform or occurs twice.
pub fn pack(preferred: &[u8]) -> Option<u16> {
    let (mut packed, mut seen) = (0u16, 0u8);
    for (at, &platform) in preferred.iter().enumerate() {
        let is_new = seen & platform == 0;
        let is_known = ALL.iter().any(|&(known, _)| known == platform);
        if !is_new || !is_known {
            return None;
        }
        seen |= platform;
        packed |= u16::from(platform) << (4 * at);
    }
    Some(packed)
}

/// Iterates over packed platforms, the most preferred first.
pub fn unpack(packed: u16) -> impl Iterator<Item = u8> {
    let at = move |place: usize| (packed >> (4 * place)) as u8 & 0xf;
    (0..PREFERRED).map(at).take_while(|&platform| platform != 0)
}

/// Returns whether a number is what [`pack`] returns for some platforms.
pub fn is_packed(packed: u16) -> bool {
    let mut list = [0; PREFERRED];
    let mut count = 0;
    for (to, platform) in list.iter_mut().zip(unpack(packed)) {
        *to = platform;
        count += 1;
    }
    list.get(..count).and_then(pack) == Some(packed)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_kernel_has_two_platforms() {
        assert_eq!(of_kernel(isa::AARCH64, true), AARCH64 | STRONG);
        assert_eq!(of_kernel(isa::RISCV64, false), RISCV64 | WEAK);
        let weak: Vec<_> = names(RISCV64 | WEAK).collect();
        assert_eq!(weak, ["riscv64", "weak"]);
        assert_eq!((named("weak"), named("x86"), named("")), (Some(WEAK), None, None));
    }

    #[test]
    fn a_kernel_has_one_isa_and_one_kind_of_cores() {
        let possible = (0..=u8::MAX).filter(|&set| can_be_one(set));
        assert_eq!(possible.collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 8, 9, 10]);
    }

    #[test]
    fn preferences_are_packed_in_order() {
        assert_eq!((pack(&[]), pack(&[WEAK, AARCH64])), (Some(0), Some(0x18)));
        assert_eq!(unpack(0x18).collect::<Vec<_>>(), [WEAK, AARCH64]);
        assert_eq!((pack(&[WEAK, WEAK]), pack(&[3]), pack(&[0])), (None, None, None));
        let valid = (0..=u16::MAX).filter(|&packed| is_packed(packed)).count();
        assert_eq!(valid, 1 + 4 + 4 * 3 + 4 * 3 * 2 * 2, "every order of different platforms");
    }
}
