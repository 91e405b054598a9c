//! Tests of `mapping`, against models and by seeds.

use std::vec::Vec;

use abi::boot::{BLOB_MAGIC, BLOCK, NOBODY, VA_OFFSET};

use super::*;

/// Frames for tables: the model of the MMU needs one but never accesses it.
struct Tables;
impl Frames for Tables {
    fn allocate(&self, _order: u8) -> Option<PhysAddr> {
        Some(PhysAddr(PAGE))
    }
    fn free(&self, _frames: PhysAddr, _order: u8) {}
}

const MIB: u64 = 1 << 20;
const OWN: DomainId = DomainId(0);

/// A board with two domains; domain 0 owns two regions and has its image in the first.
fn blob() -> Blob {
    let region =
        |base, size, kind, owner| Region { base: base * MIB, size: size * MIB, kind, owner };
    let mut blob: Blob = zerocopy::FromZeros::new_zeroed();
    blob.magic = BLOB_MAGIC;
    blob.domain_count = 2;
    let regions = [
        region(0, 16, kind::LOCAL, 0),
        region(16, 16, kind::UNCACHED, NOBODY),
        region(32, 8, kind::STAGING, 0),
        region(40, 8, kind::STAGING, 1),
        region(48, 16, kind::LOCAL, 1),
        region(64, 16, kind::LOCAL, 0),
        region(80, 32, kind::GLOBAL, NOBODY),
    ];
    blob.region_count = regions.len() as u32;
    blob.regions[..regions.len()].copy_from_slice(&regions);
    blob.window.base = 16 * MIB;
    blob.window.size = 2 * MIB + 100;
    for (i, domain) in blob.domains[..2].iter_mut().enumerate() {
        domain.cores = 1;
        domain.ram_size = 112 * MIB;
        domain.staging_pa = (32 + 8 * i as u64) * MIB;
        domain.staging_size = 3 * MIB;
    }
    blob
}

fn table() -> PageTable {
    kernel_table(&blob(), OWN, &arch::image::layout(), &Tables).unwrap()
}

#[test]
fn a_disk_in_memory_is_mapped_in_every_kernel_and_never_as_code() {
    let mut blob = blob();
    let base = 112 * MIB;
    let region = Region { base, size: 16 * MIB, kind: kind::DISK, owner: NOBODY };
    blob.regions[blob.region_count as usize] = region;
    blob.region_count += 1;
    let table = |domain| kernel_table(&blob, domain, &arch::image::layout(), &Tables).unwrap();
    for domain in [OWN, DomainId(1)] {
        let found = find(&table(domain), base).unwrap();
        assert_eq!((found.memory, found.rights), (Memory::Cached, Rights::ReadWrite));
    }
    let mut table = table(OWN);
    audit(&table, &blob, OWN, &BlockSet::new()).unwrap();
    let high = VirtAddr(0xffff_c000_0000_0000);
    let code = Rights::ReadExecute;
    table.map(&Tables, high, PhysAddr(base), PAGE, Memory::Cached, code).unwrap();
    let found = audit(&table, &blob, OWN, &BlockSet::new());
    assert!(matches!(found, Err(Violation::ForeignCached(_))), "{found:?}");
}

#[test]
fn bulk_memory_is_mapped_in_every_kernel_and_written_by_its_owner_only() {
    let mut blob = blob();
    for (owner, base) in [(0, 112 * MIB), (1, 114 * MIB)] {
        let region = Region { base, size: 2 * MIB, kind: kind::BULK, owner };
        blob.regions[blob.region_count as usize] = region;
        blob.region_count += 1;
    }
    for (domain, expected) in
        [(OWN, [Rights::ReadWrite, Rights::Read]), (DomainId(1), [Rights::Read, Rights::ReadWrite])]
    {
        let table = kernel_table(&blob, domain, &arch::image::layout(), &Tables).unwrap();
        let rights = [112, 114].map(|at| find(&table, at * MIB).map(|leaf| leaf.rights));
        assert_eq!(rights, expected.map(Some));
        audit(&table, &blob, domain, &BlockSet::new()).unwrap();
    }
    // Programs have windows of their own kernel's, and nothing of another one's.
    let (high, in_program) = (VirtAddr(0xffff_c000_0000_0000), spaces::AREA);
    let (own, foreign) = (PhysAddr(112 * MIB), PhysAddr(114 * MIB));
    for (virt, at, rights, is_allowed) in [
        (high, foreign, Rights::ReadWrite, false),
        (high, own, Rights::ReadWrite, false),
        (in_program, own, Rights::ReadWrite, true),
        (in_program, foreign, Rights::ReadWrite, false),
        (in_program, foreign, Rights::Read, false),
    ] {
        let mut table = table();
        table.map(&Tables, virt, at, PAGE, Memory::Cached, rights).unwrap();
        let found = audit(&table, &blob, OWN, &BlockSet::new());
        let is_foreign = matches!(found, Err(Violation::ForeignCached(_)));
        assert_eq!(!is_foreign, is_allowed, "{found:?}");
    }
}

fn find(table: &PageTable, at: u64) -> Option<Mapping> {
    let mut found = None;
    table.walk(&mut |leaf| {
        if (leaf.phys.0..leaf.phys.0 + leaf.bytes).contains(&at) {
            found = Some(leaf);
        }
    });
    found
}

#[test]
fn the_kernel_table_maps_exactly_what_the_rules_allow() {
    let table = table();
    let rights = |at| find(&table, at).map(|leaf| (leaf.memory, leaf.rights));
    let own = Some((Memory::Cached, Rights::ReadWrite));
    assert_eq!(rights(0), own);
    assert_eq!(rights(0x10_0000), Some((Memory::Cached, Rights::ReadExecute)));
    assert_eq!(rights(0x18_0000), Some((Memory::Cached, Rights::Read)));
    assert_eq!(rights(0x1a_0000), own);
    assert_eq!(rights(0x1d_0000), None, "the guard of the boot stack");
    assert_eq!(rights(0x1d_1000), own);
    assert_eq!(rights(0x1e_0000), own);
    assert_eq!(rights(70 * MIB), own);
    assert_eq!(
        rights(18 * MIB),
        Some((Memory::Uncached, Rights::ReadWrite)),
        "rounded up to a page"
    );
    assert_eq!(rights(18 * MIB + PAGE), None);
    assert_eq!(rights(32 * MIB), Some((Memory::Uncached, Rights::Read)));
    for not_ours in [35 * MIB, 40 * MIB, 48 * MIB, 80 * MIB] {
        assert_eq!(rights(not_ours), None);
    }
    let mut sizes = Vec::new();
    table.walk(&mut |leaf| {
        assert_eq!(leaf.virt.0, leaf.phys.0 + VA_OFFSET);
        sizes.push(leaf.bytes);
    });
    assert!(sizes.iter().filter(|&&bytes| bytes == 2 * MIB).count() >= 15, "large pages");
}

#[test]
fn the_audit_accepts_the_kernel_table_and_counts_its_bytes() {
    let audit = audit(&table(), &blob(), OWN, &BlockSet::new()).unwrap();
    assert_eq!(audit.code, 0x8_0000);
    // Without the guard and the gap between data and guard.
    assert_eq!(audit.cached, 2 * BLOCK - 0x1_1000);
    assert_eq!(audit.uncached, 5 * MIB + PAGE);
    assert_eq!(audit.device, PAGE);
}

#[test]
fn the_image_range_covers_all_sections() {
    let range = image_range(&arch::image::layout());
    assert_eq!(range, (PhysAddr(0x10_0000), PhysAddr(0x1e_0000)));
}

/// Adds one mapping to a valid table and audits it.
fn planted(virt: u64, phys: u64, memory: Memory, rights: Rights) -> Result<Audit, Violation> {
    let mut table = table();
    table.map(&Tables, VirtAddr(virt), PhysAddr(phys), PAGE, memory, rights).unwrap();
    audit(&table, &blob(), OWN, &BlockSet::new())
}

#[test]
fn the_audit_detects_planted_violations() {
    use Violation::*;
    let (cached, uncached, device) = (Memory::Cached, Memory::Uncached, Memory::Device);
    let (read, write, execute) = (Rights::Read, Rights::ReadWrite, Rights::ReadExecute);
    let high = 0xffff_c000_0000_0000;
    for foreign in [48, 80, 16, 33, 200] {
        let audit = planted(high, foreign * MIB, cached, read);
        assert!(matches!(audit, Err(ForeignCached(_))), "{foreign} MiB: {audit:?}");
    }
    for alias in [0, 64, 80, 41, 200] {
        let audit = planted(high, alias * MIB, uncached, read);
        assert!(matches!(audit, Err(ForeignUncached(_))), "{alias} MiB: {audit:?}");
    }
    assert!(matches!(planted(high, 33 * MIB, uncached, write), Err(ForeignUncached(_))));
    assert!(matches!(planted(high, 0x5000, device, write), Err(DeviceInMemory(_))));
    assert!(matches!(planted(high, 0x10_0000, cached, write), Err(WritableCode(_))));
    assert!(matches!(planted(high, 0x1a_0000, cached, execute), Err(WritableCode(_))));
    assert!(planted(high, 0x10_0000, cached, read).is_ok(), "code may be read");
    assert!(planted(high, 0x5000, cached, write).is_ok(), "a stack, twice with the same type");
    let nobody = audit(&table(), &blob(), DomainId(5), &BlockSet::new());
    assert_eq!(nobody, Err(NoSuchDomain));
}

/// Leaves that no table can be made to contain here are checked directly.
#[test]
fn the_audit_detects_low_and_unordered_leaves() {
    let leaf = |virt| Mapping {
        virt: VirtAddr(virt),
        phys: PhysAddr(0),
        bytes: PAGE,
        memory: Memory::Cached,
        rights: Rights::Read,
    };
    let mut last = 0;
    assert_eq!(in_order(&leaf(0), &mut last), Err(Violation::Low(leaf(0))));
    assert_eq!(in_order(&leaf(LOWEST - PAGE), &mut last), Err(Violation::Low(leaf(LOWEST - PAGE))));
    assert_eq!(in_order(&leaf(LOWEST), &mut last), Ok(()));
    assert_eq!(in_order(&leaf(LOWEST), &mut last), Err(Violation::Order(leaf(LOWEST))));
    let top = u64::MAX - (PAGE - 1);
    assert_eq!(in_order(&leaf(top), &mut last), Ok(()));
}

#[test]
fn a_block_may_be_cacheable_only_while_it_is_local() {
    let (mut table, mut blocks) = (table(), BlockSet::new());
    let block = PhysAddr(96 * MIB);
    map_block(&mut table, &Tables, block).unwrap();
    let judge = |table: &PageTable, blocks: &BlockSet| audit(table, &blob(), OWN, blocks);
    assert!(matches!(judge(&table, &blocks), Err(Violation::ForeignCached(_))));
    blocks.insert(0);
    assert!(matches!(judge(&table, &blocks), Err(Violation::ForeignCached(_))), "the next block");
    blocks.insert(1);
    assert_eq!(judge(&table, &blocks).unwrap().cached, 3 * BLOCK - 0x1_1000);
    table.unmap(block.to_virt(), BLOCK).unwrap();
    assert_eq!(judge(&table, &BlockSet::new()).unwrap().cached, 2 * BLOCK - 0x1_1000);
}

/// Maps another kernel's staged image as `blob` says, and returns the audit's result.
fn with_twin(blob: &Blob) -> (PageTable, Result<Audit, Violation>) {
    let mut table = kernel_table(blob, OWN, &arch::image::layout(), &Tables).unwrap();
    let other = &blob.domains[1];
    map_staging(&mut table, &Tables, other).unwrap();
    map_constants(&mut table, &Tables, other, 8 * PAGE).unwrap();
    let judged = audit(&table, blob, OWN, &BlockSet::default());
    (table, judged)
}

#[test]
fn another_kernels_image_may_be_mapped_only_on_boards_with_twins() {
    let mut blob = blob();
    blob.domains[1].image_pa = 48 * MIB;
    blob.domains[1].image_max = MIB;
    assert!(matches!(with_twin(&blob).1, Err(Violation::ForeignUncached(_))));
    let says = b"dsm=two-state twins=on run=x";
    blob.arguments[..says.len()].copy_from_slice(says);
    let (table, judged) = with_twin(&blob);
    judged.unwrap();
    let mut seen = None;
    table.walk(&mut |leaf| {
        if leaf.virt == PhysAddr(48 * MIB).to_virt() {
            seen = Some((leaf.phys.0, leaf.memory, leaf.rights));
        }
    });
    assert_eq!(seen, Some((40 * MIB + IMAGE_OFFSET, Memory::Uncached, Rights::Read)));
}

#[test]
fn an_invalid_image_header_maps_nothing() {
    let mut blob = blob();
    blob.domains[1].image_pa = 48 * MIB;
    blob.domains[1].image_max = MIB;
    let mut table = table();
    for bytes in [2 * MIB, 3 * MIB, u64::MAX, PAGE + 1] {
        let mapped = map_constants(&mut table, &Tables, &blob.domains[1], bytes);
        assert_eq!(mapped, Err(MapError::Range), "{bytes:#x}");
    }
}
