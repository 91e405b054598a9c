//! Addresses of named functions and statics in memory that kernels share: there must be none, for
//! they mean something in one image only.
//!
//! Looks at every word of the shared block as it is in the RAM file, stale ones included. A word
//! counts if it is the first byte of a function or a static that has a name in some kernel's image;
//! vtables and literals have none (docs/design/shadowable.md). Addresses within a static do not
//! count: old ones on stacks, with a byte or two of something else over them, come along as
//! padding.

use super::{Failure, Rig};
use crate::image;
use abi::boot::{BLOCK, VA_OFFSET};
use board::{Board, Kind};
use rustc_demangle::demangle;
use std::os::unix::fs::FileExt;

/// The crates of the kernel above the services or beside them that have statics. Those of `arch`
/// are like theirs.
const ABOVE: [&str; 6] = [
    "kernel::",
    "kernel_monitor::",
    "kernel_node::",
    "kernel_programs::",
    "kernel_services::",
    "kernel_trials::",
];

/// Something in an image that has a name, by virtual address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Static {
    start: u64,
    name: String,
}

/// Is it out of reach of all services, by the law of layers? Their addresses are on every stack,
/// and so in the padding of what was built there and moved into the arena: of statics of the
/// kernel's upper crates (the kernel itself, ...) and of arch (locks held, attempts, ...), and of the closures that arch
/// waits for. Functions do count.
fn is_out_of_reach(name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    let is_static = !last.contains(char::is_lowercase);
    let of = |layer| name.trim_start_matches('<').starts_with(layer);
    ABOVE.into_iter().any(of) && is_static
        || of("arch::") && (is_static || last.starts_with("{closure"))
}

/// What the kernels of a board have named.
fn all(rig: &Rig, board: &Board) -> Result<Vec<Static>, Failure> {
    let mut all = Vec::new();
    for domain in &board.domains {
        let Some(built) = rig.kernels.iter().find(|built| built.isa == domain.isa) else {
            continue;
        };
        let wrong = |why: String| Failure::Wrong(format!("{}: {why}", built.kernel.display()));
        let elf = std::fs::read(&built.kernel).map_err(|e| wrong(e.to_string()))?;
        let places = image::named(&elf).map_err(|e| wrong(e.to_string()))?;
        let base = VA_OFFSET.wrapping_add(domain.image.base);
        let places = places.into_iter().map(|(at, name)| (at, format!("{:#}", demangle(&name))));
        let counted = places.filter(|(_, name)| !is_out_of_reach(name));
        all.extend(counted.map(|(at, name)| {
            let name = format!("{}'s {name}", domain.name);
            Static { start: base + at, name }
        }));
    }
    all.sort();
    Ok(all)
}

/// The first few words of `block`, which begins at `base`, that are addresses of `all`.
pub fn scan(block: &[u8], base: u64, all: &[Static]) -> Vec<String> {
    let words = block.chunks_exact(8).enumerate();
    let found = words.filter_map(|(index, bytes)| {
        let word = u64::from_le_bytes(bytes.try_into().ok()?);
        let behind = all.partition_point(|it| it.start <= word);
        let it = all[..behind].last().filter(|it| word == it.start)?;
        Some(format!("{:#x} holds {word:#x}, {}", base + index as u64 * 8, it.name))
    });
    found.take(20).collect()
}

/// What the shared block holds of them now.
pub fn found(rig: &Rig) -> Result<Vec<String>, Failure> {
    let board = rig.instance.board()?;
    let global = board.regions.iter().find(|region| region.kind == Kind::Global);
    let global = global.ok_or(Failure::Wrong("the board shares no memory".to_string()))?.block;
    // As kernels place it: in the middle.
    let base = global.base + global.size / BLOCK / 2 * BLOCK;
    let mut block = vec![0; BLOCK as usize];
    let ram = std::fs::File::open(rig.instance.path("ram"))?;
    ram.read_exact_at(&mut block, board.offset(base))?;
    if block.iter().all(|&byte| byte == 0) {
        return Err(Failure::Wrong("the shared block was never used".to_string()));
    }
    Ok(scan(&block, base, &all(rig, &board)?))
}

/// Demands that there are none.
pub fn none(rig: &Rig) -> Result<(), Failure> {
    let found = found(rig)?;
    if found.is_empty() { Ok(()) } else { Err(Failure::Wrong(found.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_service_reaches_statics_above_and_below_it() {
        assert!(is_out_of_reach("arch::rescue::STACK"));
        assert!(is_out_of_reach("kernel_node::shootdown::SERVED"));
        assert!(!is_out_of_reach("kernel_node::shootdown::serve"));
        assert!(is_out_of_reach("kernel::power::RESUME"));
        assert!(!is_out_of_reach("share::TABLE"));
        assert!(!is_out_of_reach("fs::ext2::TABLE"));
        assert!(is_out_of_reach("<arch::lock::Lock<server::Server>>::lock::{closure#0}"));
        assert!(!is_out_of_reach("<arch::lock::Lock<server::Server>>::lock"));
        assert!(!is_out_of_reach("<vfs::Vfs>::answer::{closure#0}"));
        assert!(!is_out_of_reach("arch::rescue::attempt"));
        assert!(!is_out_of_reach("search::arch::TABLE"));
    }

    #[test]
    fn addresses_of_what_has_a_name_are_found_and_nothing_else() {
        let named = |start, name: &str| Static { start, name: name.to_string() };
        let all = [named(0x1000, "turn"), named(0x2000, "TABLE")];
        let words = [0u64, 0x1000, 0x1001, 0xfff, 0x2000, 0x200f, 0x2010, u64::MAX];
        let block: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found = scan(&block, 0x100, &all);
        let wanted = ["0x108 holds 0x1000, turn", "0x120 holds 0x2000, TABLE"];
        assert_eq!(found, wanted);
    }
}
