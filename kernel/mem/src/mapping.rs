//! The kernel's page table, made from the blob and the image's layout, and the audit that holds
//! any kernel's table against the design's rules:
//!
//! 1. cacheable are only frames of regions that this domain owns, of blocks of the global region
//!    that are local to it (and coherent pages it holds);
//! 2. nothing is both writable and executable; the kernel's own code not even through two mappings
//!    (programs' code lies in frames, which the linear map shows);
//! 3. the lowest 2 MiB of virtual memory are empty;
//! 4. no frame is reached with two memory types: what is not cacheable is in the uncached window,
//!    in this domain's staging area (read only), or a device outside of all memory regions;
//! 5. of another kernel nothing is mapped; where the board has twins, its staging area is, read
//!    only and uncached, there and where that kernel has its code and constants.

use abi::boot::{BLOCK, Blob, Domain, IMAGE_OFFSET, MAINTENANCE_OFFSET, Region, kind};
use arch::mmu::{DEVICE_RANGES, PageTable};
use arch::types::{ImageLayout, MapError, Mapping, Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::id::DomainId;
use base::port::Frames;

use crate::set::BlockSet;
use crate::spaces;

/// Executable ranges that an audit can tell apart.
const MAX_CODE: usize = 16;
/// Nothing is mapped below.
const LOWEST: u64 = 2 << 20;

/// Builds the table of `domain`'s kernel. Mapped at VA = PA + constant: the domain's local regions
/// (cacheable; the image by its parts, nothing in the gaps between them, which are the guards), the
/// uncached window, the staging area of this domain read-only, and the devices. The global region
/// and everything of others are not mapped. Tables come from `frames`.
pub fn kernel_table(
    blob: &Blob,
    domain: DomainId,
    layout: &ImageLayout,
    frames: &dyn Frames,
) -> Result<PageTable, MapError> {
    let this = blob.domains().get(domain.index()).ok_or(MapError::Range)?;
    let mut table = PageTable::new(frames)?;
    let mut map = |start: u64, end: u64, memory, rights| {
        let (at, bytes) = (PhysAddr(start), end - start);
        if bytes == 0 { Ok(()) } else { table.map(frames, at.to_virt(), at, bytes, memory, rights) }
    };
    for region in blob.regions().iter().filter(|region| is_own(region, domain)) {
        map_local(region, layout, &mut map)?;
    }
    let window = &blob.window;
    map(window.base, page_up(window.base + window.size), Memory::Uncached, Rights::ReadWrite)?;
    let staging_end = page_up(this.staging_pa + this.staging_size);
    map(this.staging_pa, staging_end, Memory::Uncached, Rights::Read)?;
    for &(start, bytes) in DEVICE_RANGES {
        map(start, page_up(start + bytes), Memory::Device, Rights::ReadWrite)?;
    }
    Ok(table)
}

/// What of the domain's memory the frame allocator must not hand out.
pub fn image_range(layout: &ImageLayout) -> (PhysAddr, PhysAddr) {
    let parts = parts(layout);
    let start = parts.iter().map(|part| part.start).min().unwrap_or(0);
    let end = parts.iter().map(|part| part.end).max().unwrap_or(0);
    (PhysAddr(start), PhysAddr(end))
}

fn is_own(region: &Region, domain: DomainId) -> bool {
    region.kind == kind::LOCAL && region.owner == u32::from(domain.0)
}

fn page_up(at: u64) -> u64 {
    at.next_multiple_of(PAGE)
}

/// A part of the image, in physical addresses.
#[derive(Clone, Copy)]
struct Part {
    start: u64,
    end: u64,
    rights: Rights,
}

/// The parts by ascending address.
fn parts(layout: &ImageLayout) -> [Part; 4] {
    let part = |(start, end): (u64, u64), rights| Part {
        start: VirtAddr(start).to_phys().0,
        end: VirtAddr(end).to_phys().0,
        rights,
    };
    let mut parts = [
        part(layout.text, Rights::ReadExecute),
        part(layout.rodata, Rights::Read),
        part(layout.data, Rights::ReadWrite),
        part(layout.boot_stack, Rights::ReadWrite),
    ];
    parts.sort_unstable_by_key(|part| part.start);
    parts
}

type Map<'a> = dyn FnMut(u64, u64, Memory, Rights) -> Result<(), MapError> + 'a;

fn map_local(region: &Region, layout: &ImageLayout, map: &mut Map<'_>) -> Result<(), MapError> {
    let end = region.base + region.size;
    let (image_start, image_end) = image_range(layout);
    if image_start.0 < region.base || image_end.0 > end {
        return map(region.base, end, Memory::Cached, Rights::ReadWrite);
    }
    map(region.base, image_start.0, Memory::Cached, Rights::ReadWrite)?;
    for part in parts(layout) {
        map(part.start, part.end, Memory::Cached, part.rights)?;
    }
    map(page_up(image_end.0), end, Memory::Cached, Rights::ReadWrite)
}

/// Bytes mapped, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Leaves.
    pub mappings: usize,
    /// Cacheable bytes, code included.
    pub cached: u64,
    /// Bytes of code.
    pub code: u64,
    /// Uncached bytes.
    pub uncached: u64,
    /// Device bytes.
    pub device: u64,
}

impl core::fmt::Display for Audit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let kib = |bytes: u64| bytes >> 10;
        write!(f, "{} mappings, KiB: {} cached", self.mappings, kib(self.cached))?;
        write!(f, " ({} of it code), {} uncached", kib(self.code), kib(self.uncached))?;
        write!(f, ", {} device", kib(self.device))
    }
}

/// A rule that a table breaks, with the leaf that breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Cacheable, and not all in a region of this domain.
    ForeignCached(Mapping),
    /// Uncached, and neither in the window, nor (read-only) in this domain's staging area or a
    /// twin's, nor at the place where lines are maintained.
    ForeignUncached(Mapping),
    /// Device memory that overlaps a memory region.
    DeviceInMemory(Mapping),
    /// A frame of code that is writable through this mapping.
    WritableCode(Mapping),
    /// In the lowest 2 MiB of virtual memory.
    Low(Mapping),
    /// Two leaves show the same virtual address, or they do not come in ascending order.
    Order(Mapping),
    /// More separate ranges of code than an audit can keep.
    TooMuchCode(Mapping),
    /// There is no such domain.
    NoSuchDomain,
}

/// Maps a block of the global region that is local to this kernel.
pub fn map_block(
    table: &mut PageTable,
    frames: &dyn Frames,
    block: PhysAddr,
) -> Result<(), MapError> {
    table.map(frames, block.to_virt(), block, BLOCK, Memory::Cached, Rights::ReadWrite)
}

/// Maps where the image of `other`, another kernel's domain, is staged.
pub fn map_staging(
    table: &mut PageTable,
    frames: &dyn Frames,
    other: &Domain,
) -> Result<(), MapError> {
    let (at, bytes) = (PhysAddr(other.staging_pa), page_up(other.staging_size));
    table.map(frames, at.to_virt(), at, bytes, Memory::Uncached, Rights::Read)
}

/// Maps the first `bytes` bytes of that image, its code and constants, where the other kernel has
/// them: what is staged and not what runs, for no cache ever writes it. Nobody executes it.
pub fn map_constants(
    table: &mut PageTable,
    frames: &dyn Frames,
    other: &Domain,
    bytes: u64,
) -> Result<(), MapError> {
    let staged = other.staging_size.checked_sub(IMAGE_OFFSET).filter(|&room| bytes <= room);
    staged.filter(|_| bytes <= other.image_max).ok_or(MapError::Range)?;
    let (at, from) = (PhysAddr(other.image_pa), PhysAddr(other.staging_pa + IMAGE_OFFSET));
    table.map(frames, at.to_virt(), from, bytes, Memory::Uncached, Rights::Read)
}

/// The global region, if the board has one.
pub fn global(blob: &Blob) -> Option<&Region> {
    blob.regions().iter().find(|region| region.kind == kind::GLOBAL)
}

/// Checks every leaf of `table`, the table of `domain`'s kernel, to which `blocks` are local.
pub fn audit(
    table: &PageTable,
    blob: &Blob,
    domain: DomainId,
    blocks: &BlockSet,
) -> Result<Audit, Violation> {
    let this = blob.domains().get(domain.index()).ok_or(Violation::NoSuchDomain)?;
    let rules = Rules { blob, this, domain, blocks, global: global(blob) };
    let mut code = Code { ranges: [(0, 0); MAX_CODE], count: 0 };
    let mut result = Ok(Audit::default());
    let mut last = 0;
    table.walk(&mut |leaf| {
        let Ok(audit) = &mut result else { return };
        let checked = rules.check(&leaf).and_then(|()| in_order(&leaf, &mut last));
        let checked = checked.and_then(|()| code.note(&leaf));
        match checked {
            Ok(()) => audit.count(&leaf),
            Err(violation) => result = Err(violation),
        }
    });
    // Again, now that all code is known.
    table.walk(&mut |leaf| {
        if result.is_ok() && leaf.rights == Rights::ReadWrite && code.overlaps(&leaf) {
            result = Err(Violation::WritableCode(leaf));
        }
    });
    result
}

impl Audit {
    fn count(&mut self, leaf: &Mapping) {
        self.mappings += 1;
        match leaf.memory {
            Memory::Cached => self.cached += leaf.bytes,
            Memory::Uncached => self.uncached += leaf.bytes,
            Memory::Device => self.device += leaf.bytes,
        }
        if leaf.rights == Rights::ReadExecute {
            self.code += leaf.bytes;
        }
    }
}

fn in_order(leaf: &Mapping, last: &mut u64) -> Result<(), Violation> {
    if leaf.virt.0 < LOWEST {
        return Err(Violation::Low(*leaf));
    }
    // The last byte: an end may be one past the address space.
    if leaf.virt.0 <= *last {
        return Err(Violation::Order(*leaf));
    }
    *last = leaf.virt.0 + (leaf.bytes - 1);
    Ok(())
}

struct Rules<'a> {
    blob: &'a Blob,
    this: &'a Domain,
    domain: DomainId,
    blocks: &'a BlockSet,
    global: Option<&'a Region>,
}

impl Rules<'_> {
    fn check(&self, leaf: &Mapping) -> Result<(), Violation> {
        let allowed = match leaf.memory {
            Memory::Cached => self.is_own_memory(leaf),
            Memory::Uncached => {
                self.is_window(leaf)
                    || is_staging(leaf, self.this)
                    || self.is_twin(leaf)
                    || self.is_for_maintenance(leaf)
            }
            Memory::Device => !self.reaches(leaf),
        };
        match (allowed, leaf.memory) {
            (true, _) => Ok(()),
            (false, Memory::Cached) => Err(Violation::ForeignCached(*leaf)),
            (false, Memory::Uncached) => Err(Violation::ForeignUncached(*leaf)),
            (false, Memory::Device) => Err(Violation::DeviceInMemory(*leaf)),
        }
    }

    /// The second mapping of a block that kernels share, by which lines of unmapped pages are
    /// cleaned; nothing is read or written through it.
    fn is_for_maintenance(&self, leaf: &Mapping) -> bool {
        let at = leaf.phys.to_virt().0.wrapping_add(MAINTENANCE_OFFSET);
        leaf.virt.0 == at && self.global.is_some_and(|all| within(leaf, all.base, all.size))
    }

    /// Does the leaf touch memory of the board, as this domain sees the bus? The same address may
    /// be a device here and memory elsewhere.
    fn reaches(&self, leaf: &Mapping) -> bool {
        overlaps(leaf, self.this.ram_base, self.this.ram_size)
    }

    /// All of the leaf lies in one own block, or in own regions, which may be adjacent.
    fn is_own_memory(&self, leaf: &Mapping) -> bool {
        let (mut at, end) = (leaf.phys.0, leaf.phys.0 + leaf.bytes);
        if self.global.is_some_and(|global| within(leaf, global.base, global.size)) {
            return self.is_own_block(leaf);
        }
        let own = || self.blob.regions().iter().filter(|region| is_own(region, self.domain));
        // Each round passes one region.
        for _ in self.blob.regions() {
            if at >= end {
                return true;
            }
            match own().find(|region| region.base <= at && at < region.base + region.size) {
                Some(region) => at = region.base + region.size,
                None => return false,
            }
        }
        at >= end
    }

    fn is_own_block(&self, leaf: &Mapping) -> bool {
        let start = self.global.map_or(0, |global| global.base);
        let block = |at: u64| ((at - start) / BLOCK) as usize;
        let first = block(leaf.phys.0);
        first == block(leaf.phys.0 + (leaf.bytes - 1)) && self.blocks.contains(first)
    }

    fn is_window(&self, leaf: &Mapping) -> bool {
        let window = &self.blob.window;
        within(leaf, window.base, window.size)
    }

    fn is_twin(&self, leaf: &Mapping) -> bool {
        self.blob.has_twins() && self.blob.domains().iter().any(|other| is_staging(leaf, other))
    }
}

fn is_staging(leaf: &Mapping, domain: &Domain) -> bool {
    leaf.rights == Rights::Read && within(leaf, domain.staging_pa, domain.staging_size)
}

fn within(leaf: &Mapping, base: u64, size: u64) -> bool {
    leaf.phys.0 >= base && leaf.phys.0 + leaf.bytes <= page_up(base + size)
}

fn overlaps(leaf: &Mapping, base: u64, size: u64) -> bool {
    leaf.phys.0 < base + size && base < leaf.phys.0 + leaf.bytes
}

/// Physical ranges of code, adjacent leaves joined.
struct Code {
    ranges: [(u64, u64); MAX_CODE],
    count: usize,
}

impl Code {
    fn note(&mut self, leaf: &Mapping) -> Result<(), Violation> {
        if leaf.rights != Rights::ReadExecute || spaces::is_inside(leaf.virt.0) {
            return Ok(());
        }
        let (start, end) = (leaf.phys.0, leaf.phys.0 + leaf.bytes);
        if let Some(last) = self.ranges[..self.count].last_mut()
            && last.1 == start
        {
            last.1 = end;
            return Ok(());
        }
        let slot = self.ranges.get_mut(self.count).ok_or(Violation::TooMuchCode(*leaf))?;
        *slot = (start, end);
        self.count += 1;
        Ok(())
    }

    fn overlaps(&self, leaf: &Mapping) -> bool {
        self.ranges[..self.count].iter().any(|&(start, end)| overlaps(leaf, start, end - start))
    }
}

#[cfg(test)]
mod tests;
