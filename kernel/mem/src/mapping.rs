//! The kernel's page table, built from the blob and the image's layout, and an audit that checks
//! any kernel's table against these rules:
//!
//! 1. Cacheable mappings show only frames of this domain's regions, of global blocks that are local
//!    to it, coherent pages that it holds, a disk in memory, and, to be read, the bulk memory of
//!    other kernels.
//! 2. Nothing is both writable and executable. The kernel's own code is not writable through a
//!    second mapping either; programs' code is in frames that the linear map shows.
//! 3. The lowest 2 MiB of virtual memory are not mapped.
//! 4. No frame is mapped with two memory types: an uncached or device mapping shows the uncached
//!    window, this domain's staging area (read-only), or a device outside all memory regions.
//! 5. Nothing else of another kernel is mapped, except on boards with twins: its staging area is
//!    mapped read-only and uncached, both there and at the addresses of that kernel's code and
//!    constants.

use abi::boot::{BLOCK, Blob, Domain, IMAGE_OFFSET, MAINTENANCE_OFFSET, Region, kind};
use arch::mmu::{DEVICE_RANGES, PageTable};
use arch::types::{ImageLayout, MapError, Mapping, Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::id::DomainId;
use base::port::Frames;

use crate::set::BlockSet;
use crate::spaces;

/// Limit on separate executable ranges in an audit.
const MAX_CODE: usize = 16;
/// The lowest address that may be mapped.
const LOWEST: u64 = 2 << 20;

/// Builds the page table of `domain`'s kernel, with tables from `frames`. Mapped at VA = PA +
/// constant are the domain's local regions (cacheable; the image section by section, with unmapped
/// guards between them), a disk in memory, the bulk memory of all domains (that of others
/// read-only), the uncached window, this domain's staging area (read-only), and the devices. The
/// global region and other domains' local memory are not mapped.
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
    if let Some(disk) = disk(blob) {
        map(disk.base, disk.base + disk.size, Memory::Cached, Rights::ReadWrite)?;
    }
    for bulk in blob.regions().iter().filter(|region| region.kind == kind::BULK) {
        map(bulk.base, bulk.base + bulk.size, Memory::Cached, rights_to(bulk, domain))?;
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

/// Returns the range of the image, which the frame allocator must not hand out.
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

/// A section of the image, in physical addresses.
#[derive(Clone, Copy)]
struct Part {
    start: u64,
    end: u64,
    rights: Rights,
}

/// Returns the sections in ascending order of address.
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

/// The result of an audit: mapped bytes by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Number of leaf entries.
    pub mappings: usize,
    /// Cacheable bytes, including code.
    pub cached: u64,
    pub code: u64,
    pub uncached: u64,
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

/// A broken rule, with the offending leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A cacheable mapping that is not completely in regions of this domain.
    ForeignCached(Mapping),
    /// An uncached mapping of something other than the window, this domain's or a twin's staging
    /// area (read-only), or the maintenance mapping.
    ForeignUncached(Mapping),
    /// A device mapping that overlaps a memory region.
    DeviceInMemory(Mapping),
    /// A writable mapping of a frame of code.
    WritableCode(Mapping),
    /// A mapping in the lowest 2 MiB of virtual memory.
    Low(Mapping),
    /// A leaf that overlaps the previous one or lies before it.
    Order(Mapping),
    /// More separate ranges of code than an audit can record.
    TooMuchCode(Mapping),
    /// There is no such domain.
    NoSuchDomain,
}

/// Maps a global block that is local to this kernel.
pub fn map_block(
    table: &mut PageTable,
    frames: &dyn Frames,
    block: PhysAddr,
) -> Result<(), MapError> {
    table.map(frames, block.to_virt(), block, BLOCK, Memory::Cached, Rights::ReadWrite)
}

/// Maps the staging area of another domain's image.
pub fn map_staging(
    table: &mut PageTable,
    frames: &dyn Frames,
    other: &Domain,
) -> Result<(), MapError> {
    let (at, bytes) = (PhysAddr(other.staging_pa), page_up(other.staging_size));
    table.map(frames, at.to_virt(), at, bytes, Memory::Uncached, Rights::Read)
}

/// Maps the first `bytes` bytes of another domain's staged image, its code and constants, at the
/// addresses where that kernel has them. This shows the staged copy and not the running one, so no
/// cache ever writes it. It is not executable.
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

/// Returns the global region, if the board has one.
pub fn global(blob: &Blob) -> Option<&Region> {
    blob.regions().iter().find(|region| region.kind == kind::GLOBAL)
}

/// Returns the region of a disk in memory, if there is one.
pub fn disk(blob: &Blob) -> Option<&Region> {
    blob.regions().iter().find(|region| region.kind == kind::DISK)
}

/// Returns the bulk memory of a domain, if it has any.
pub fn bulk(blob: &Blob, owner: DomainId) -> Option<&Region> {
    let is_it = |it: &&Region| it.kind == kind::BULK && it.owner == u32::from(owner.0);
    blob.regions().iter().find(is_it)
}

/// Returns what a domain may do with bulk memory.
fn rights_to(bulk: &Region, domain: DomainId) -> Rights {
    if bulk.owner == u32::from(domain.0) { Rights::ReadWrite } else { Rights::Read }
}

/// Checks every leaf of `table`, the page table of `domain`'s kernel with the local `blocks`.
pub fn audit(
    table: &PageTable,
    blob: &Blob,
    domain: DomainId,
    blocks: &BlockSet,
) -> Result<Audit, Violation> {
    audit_held(table, blob, domain, blocks, &|_| true)
}

/// The same; a leaf may be mapped only if it is `held`, too.
pub fn audit_held(
    table: &PageTable,
    blob: &Blob,
    domain: DomainId,
    blocks: &BlockSet,
    held: &dyn Fn(&Mapping) -> bool,
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
            Ok(()) if !held(&leaf) => result = Err(Violation::ForeignCached(leaf)),
            Ok(()) => audit.count(&leaf),
            Err(violation) => result = Err(violation),
        }
    });
    // Second pass, now that all code is known.
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
    // Compares with the last byte, because an end may be one past the address space.
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
            Memory::Cached => self.is_own_memory(leaf) || self.is_disk(leaf) || self.is_bulk(leaf),
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

    /// Matches the second mapping of shared blocks, through which cache lines of unmapped pages are
    /// cleaned. Nothing is read or written through it.
    fn is_for_maintenance(&self, leaf: &Mapping) -> bool {
        let at = leaf.phys.to_virt().0.wrapping_add(MAINTENANCE_OFFSET);
        leaf.virt.0 == at && self.global.is_some_and(|all| within(leaf, all.base, all.size))
    }

    /// Returns whether the leaf overlaps the board's memory as seen from this domain's bus. In
    /// other domains the same address may be a device.
    fn reaches(&self, leaf: &Mapping) -> bool {
        overlaps(leaf, self.this.ram_base, self.this.ram_size)
    }

    /// Returns whether the leaf lies in one local block, or in this domain's (possibly adjacent)
    /// regions.
    fn is_own_memory(&self, leaf: &Mapping) -> bool {
        let (mut at, end) = (leaf.phys.0, leaf.phys.0 + leaf.bytes);
        if self.global.is_some_and(|global| within(leaf, global.base, global.size)) {
            return self.is_own_block(leaf);
        }
        let own = || self.blob.regions().iter().filter(|region| is_own(region, self.domain));
        // Each iteration passes one region.
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

    fn is_disk(&self, leaf: &Mapping) -> bool {
        let is_data = leaf.rights == Rights::ReadWrite;
        is_data && disk(self.blob).is_some_and(|disk| within(leaf, disk.base, disk.size))
    }

    /// Returns whether the leaf lies in bulk memory, with no more rights than this domain has. What
    /// this domain owns may also be in windows of programs.
    fn is_bulk(&self, leaf: &Mapping) -> bool {
        let mut regions = self.blob.regions().iter().filter(|region| region.kind == kind::BULK);
        regions.any(|region| {
            let own = rights_to(region, self.domain);
            let may = leaf.rights == Rights::Read || leaf.rights == own;
            let in_window = own == Rights::ReadWrite && spaces::is_inside(leaf.virt.0);
            let is_there = in_window || leaf.virt == leaf.phys.to_virt();
            may && is_there && within(leaf, region.base, region.size)
        })
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

/// Physical ranges of code; adjacent leaves are merged.
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
