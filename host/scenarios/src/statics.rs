//! Searches memory shared by kernels for addresses of named functions and statics. There must be
//! none, because they are meaningful in one image only.
//!
//! Checks every word of the shared block in the RAM file, including stale ones. A word counts if it
//! is the address of the first byte of a named function or static in some kernel's image; vtables
//! and literals have no names (docs/design/shadowable.md). Old addresses on stacks are copied as
//! padding, with their first bytes overwritten. So addresses inside of an item do not count, and
//! none whose first byte is 0: a `false` may have been written over it. Nor do those of functions
//! that are only called: no value can hold one, but an interrupt at the first instruction leaves it
//! on a stack.

use super::{Failure, Rig};
use abi::boot::{BLOCK, VA_OFFSET};
use board::{Board, Kind};
use builds::{calls, image};
use rustc_demangle::demangle;
use std::os::unix::fs::FileExt;

/// The crates of the kernel, apart from `arch`, that have mutable statics (ARCHITECTURE.md).
const ABOVE: [&str; 6] = [
    "kernel::",
    "kernel_monitor::",
    "kernel_node::",
    "kernel_programs::",
    "kernel_services::",
    "kernel_trials::",
];

/// A named item in an image, by virtual address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Static {
    start: u64,
    name: String,
}

/// Returns whether services cannot refer to it, by the dependency rules. Addresses of such statics
/// are on every stack, and so in the padding of values that were built there and moved into the
/// arena: statics of a kernel's upper crates (the kernel itself, ...) and of arch (locks held,
/// attempts, ...), and closures that arch and the coherence driver wait for. Functions always
/// count.
fn is_out_of_reach(name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    let is_static = !last.contains(char::is_lowercase);
    let of = |layer| name.trim_start_matches('<').starts_with(layer);
    let is_closure = last.starts_with("{closure");
    ABOVE.into_iter().any(of) && is_static
        || of("arch::") && (is_static || is_closure)
        || of("kernel_coherence::") && is_closure
}

/// Returns the named items of the kernels of a board.
fn all(rig: &Rig, board: &Board) -> Result<Vec<Static>, Failure> {
    let mut all = Vec::new();
    for domain in &board.domains {
        let Some(built) = rig.kernels.iter().find(|built| built.isa == domain.isa) else {
            continue;
        };
        let wrong = |why: String| Failure::Wrong(format!("{}: {why}", built.kernel.display()));
        let elf = std::fs::read(&built.kernel).map_err(|e| wrong(e.to_string()))?;
        let places = image::named(&elf).map_err(|e| wrong(e.to_string()))?;
        let code = image::code(&elf).map_err(|e| wrong(e.to_string()))?;
        let taken = calls::taken(built.isa, &code);
        let is_called = |at| code.functions.binary_search_by_key(&at, |it| it.start).is_ok();
        let base = VA_OFFSET.wrapping_add(domain.image.base);
        let places = places.into_iter().map(|(at, name)| (at, format!("{:#}", demangle(&name))));
        let counted = places
            .filter(|(at, _)| taken.contains(at) || !is_called(*at))
            .filter(|(_, name)| !is_out_of_reach(name));
        all.extend(counted.map(|(at, name)| {
            let name = format!("{}'s {name}", domain.name);
            Static { start: base + at, name }
        }));
    }
    all.sort();
    Ok(all)
}

/// Returns the first few words of `block`, which begins at `base`, that are addresses of items in
/// `all`.
pub fn scan(block: &[u8], base: u64, all: &[Static]) -> Vec<String> {
    let words = block.chunks_exact(8).enumerate();
    let found = words.filter_map(|(index, bytes)| {
        let word = u64::from_le_bytes(bytes.try_into().ok()?);
        if word as u8 == 0 {
            return None;
        }
        let behind = all.partition_point(|it| it.start <= word);
        let it = all[..behind].last().filter(|it| word == it.start)?;
        Some(format!("{:#x} holds {word:#x}, {}", base + index as u64 * 8, it.name))
    });
    found.take(20).collect()
}

/// Returns those in the shared block now.
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

/// Fails if there are any.
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
        let all = [named(0x1004, "turn"), named(0x1100, "padding"), named(0x2008, "TABLE")];
        let words = [0u64, 0x1004, 0x1005, 0x1003, 0x2008, 0x200f, 0x1100, u64::MAX];
        let block: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found = scan(&block, 0x100, &all);
        let wanted = ["0x108 holds 0x1004, turn", "0x120 holds 0x2008, TABLE"];
        assert_eq!(found, wanted);
    }
}
