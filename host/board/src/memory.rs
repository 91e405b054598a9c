//! Checks of memory: alignment, overlap, and that every domain can access the memory it needs.

use crate::block::Block;
use crate::error::{Place, Reason};
use crate::file;
use crate::types::{Isa, Kind, Region};
use toml::Spanned;

const PAGE: u64 = 4096;
/// Bytes reserved for a stub and its table.
const STUB: u64 = 64 << 10;

/// A checked region with its offset in the file.
pub struct Placed {
    pub region: Region,
    pub at: usize,
}

/// Checks a range: its ends must be multiples of `multiple`, inside 48-bit physical addresses.
pub fn block(
    what: &'static str,
    base: &Spanned<u64>,
    size: &Spanned<crate::units::Bytes>,
    multiple: u64,
) -> Place<Block> {
    let (b, s) = (*base.get_ref(), size.get_ref().0);
    if !b.is_multiple_of(multiple) {
        return Err((base.span().start, Reason::Misaligned { what, value: b, multiple }));
    }
    if !s.is_multiple_of(multiple) {
        return Err((size.span().start, Reason::Misaligned { what, value: s, multiple }));
    }
    if s == 0 {
        return Err((size.span().start, range(what, "0 B", "more than nothing")));
    }
    if b.checked_add(s).is_none_or(|end| end > 1 << 47) {
        return Err((base.span().start, range(what, &format!("{b:#x}"), "below 0x8000_0000_0000")));
    }
    Ok(Block { base: b, size: s })
}

pub fn range(what: &'static str, value: &str, range: &str) -> Reason {
    Reason::Range { what, value: value.to_string(), range: range.to_string() }
}

/// Converts the `[[memory]]` tables to regions that do not overlap and are inside the RAM file.
pub fn regions(raw: &[Spanned<file::Memory>], ram: Block, names: &[String]) -> Place<Vec<Placed>> {
    let mut placed: Vec<Placed> = Vec::new();
    for entry in raw {
        let region = region(entry, ram, names)?;
        let at = entry.get_ref().base.span().start;
        if let Some(other) = placed.iter().find(|p| p.region.block.overlaps(region.block)) {
            let reason =
                Reason::Overlap { a: describe(&region, names), b: describe(&other.region, names) };
            return Err((at, reason));
        }
        placed.push(Placed { region, at });
    }
    placed.sort_by_key(|p| p.region.block.base);
    Ok(placed)
}

fn region(entry: &Spanned<file::Memory>, ram: Block, names: &[String]) -> Place<Region> {
    let raw = entry.get_ref();
    let multiple = match raw.kind {
        Kind::Local | Kind::Global => abi::boot::BLOCK,
        _ => PAGE,
    };
    let block = block("memory region", &raw.base, &raw.size, multiple)?;
    if !ram.holds(block) {
        let shown = format!("{:#x}..{:#x}", block.base, block.end());
        let inside = format!("inside the RAM {:#x}..{:#x}", ram.base, ram.end());
        return Err((raw.base.span().start, range("memory region", &shown, &inside)));
    }
    let owner = match &raw.owner {
        None => None,
        Some(name) => Some(domain_index(name, names)?),
    };
    match (raw.kind, owner) {
        (Kind::Local | Kind::Staging | Kind::Bulk, None) => {
            let why =
                "local, staging and bulk memory needs an owner: owner = \"DOMAIN\"; domains: ";
            Err((entry.span().start, Reason::Missing(format!("{why}{}", names.join(", ")))))
        }
        (Kind::Uncached | Kind::Global | Kind::Disk, Some(_)) => {
            let why = "uncached and global memory belongs to every domain: remove the owner";
            let at = raw.owner.as_ref().map_or(0, |o| o.span().start);
            Err((at, Reason::Conflict(why.to_string())))
        }
        (kind, owner) => Ok(Region { kind, block, owner }),
    }
}

/// Checks that there is at most one global region, with no more blocks than the block table has
/// words.
pub fn global(placed: &[Placed]) -> Place<()> {
    let mut found = placed.iter().filter(|p| p.region.kind == Kind::Global);
    let Some(first) = found.next() else { return Ok(()) };
    if let Some(second) = found.next() {
        let why = "a second global region; one is enough".to_string();
        return Err((second.at, Reason::Conflict(why)));
    }
    let most = abi::memory::MAX_BLOCKS as u64 * abi::boot::BLOCK;
    let size = first.region.block.size;
    if size > most {
        let (shown, must) = (crate::units::shown(size), crate::units::shown(most));
        return Err((first.at, range("global memory", &shown, &format!("at most {must}"))));
    }
    Ok(())
}

/// Returns the index of the domain called `name`.
pub fn domain_index(name: &Spanned<String>, names: &[String]) -> Place<usize> {
    names
        .iter()
        .position(|n| n == name.get_ref())
        .ok_or_else(|| (name.span().start, no_domain(name.get_ref(), names)))
}

fn no_domain(name: &str, names: &[String]) -> Reason {
    Reason::NoDomain { name: name.to_string(), domains: names.join(", ") }
}

fn describe(region: &Region, names: &[String]) -> String {
    let kind = format!("{:?}", region.kind).to_lowercase();
    let owner = region.owner.map_or(String::new(), |o| format!(" of \"{}\"", names[o]));
    format!("the {kind} region{owner} at {:#x}..{:#x}", region.block.base, region.block.end())
}

/// Returns the only region of `kind` that belongs to `owner`. If it is missing, the error refers to
/// `at`.
pub fn only(
    placed: &[Placed],
    kind: Kind,
    owner: Option<usize>,
    at: usize,
    names: &[String],
) -> Place<(Block, usize)> {
    at_most_one(placed, kind, owner, names)?.ok_or_else(|| {
        let (shown, whose) = words(kind, owner, names);
        (at, Reason::Missing(format!("there is no {shown} memory{whose}")))
    })
}

/// Returns the region of `kind` that belongs to `owner`, if there is one. A second one is an error.
pub fn at_most_one(
    placed: &[Placed],
    kind: Kind,
    owner: Option<usize>,
    names: &[String],
) -> Place<Option<(Block, usize)>> {
    let mut found = placed.iter().filter(|p| p.region.kind == kind && p.region.owner == owner);
    let first = found.next().map(|first| (first.region.block, first.at));
    match found.next() {
        Some(second) => {
            let (shown, whose) = words(kind, owner, names);
            let why = format!("a second {shown} region{whose}; one is enough");
            Err((second.at, Reason::Conflict(why)))
        }
        None => Ok(first),
    }
}

/// Returns what a kind of memory, and that of `owner`, is called in messages.
fn words(kind: Kind, owner: Option<usize>, names: &[String]) -> (String, String) {
    let whose = owner.map_or(String::new(), |o| format!(" for domain \"{}\"", names[o]));
    (format!("{kind:?}").to_lowercase(), whose)
}

/// Checks that the stub is in reserved memory, and where it is linked to run.
pub fn stub(stub: &Spanned<u64>, isa: Isa, placed: &[Placed]) -> Place<()> {
    let (at, base) = (stub.span().start, *stub.get_ref());
    if !base.is_multiple_of(PAGE) {
        return Err((at, Reason::Misaligned { what: "stub", value: base, multiple: PAGE }));
    }
    const LINKED: u64 = 0x4020_0000;
    if isa == Isa::Aarch64 && base != LINKED {
        let must = format!("{LINKED:#x}, where the aarch64 stub is linked");
        return Err((at, range("stub", &format!("{base:#x}"), &must)));
    }
    let need = Block { base, size: STUB };
    let reserved = |p: &Placed| p.region.kind == Kind::Reserved && p.region.block.holds(need);
    if placed.iter().any(reserved) {
        Ok(())
    } else {
        let why = format!("the stub's 64 KiB at {base:#x} must lie in a reserved region");
        Err((at, Reason::Missing(why)))
    }
}

/// The memory of a board, which its domains must reach.
pub struct Reach<'a> {
    pub placed: &'a [Placed],
    pub names: &'a [String],
    /// Whether each kernel reads the staged images of all.
    pub twins: bool,
}

impl Reach<'_> {
    /// Checks that all memory that domain `index` needs is in its window.
    pub fn check(&self, index: usize, window: Block) -> Place<()> {
        let needs = |region: &Region| match region.kind {
            Kind::Uncached | Kind::Global | Kind::Bulk | Kind::Disk => true,
            Kind::Staging if self.twins => true,
            Kind::Local | Kind::Staging => region.owner == Some(index),
            Kind::Reserved => false,
        };
        let is_out = |placed: &&Placed| needs(&placed.region) && !window.holds(placed.region.block);
        match self.placed.iter().find(is_out) {
            None => Ok(()),
            Some(Placed { region, at }) => Err((
                *at,
                Reason::Unreachable {
                    domain: self.names[index].clone(),
                    what: describe(region, self.names),
                    base: window.base,
                    end: window.end(),
                },
            )),
        }
    }
}
