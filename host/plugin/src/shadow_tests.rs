//! One page of a small machine: mapped, unmapped, flushed, used by another address.

use super::*;
use lab::model::Lab;
use lab::report;
use lab_tlb::{Reach, Scope};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BASE: u64 = 0x8000_0000;
const BYTES: u64 = 1 << 20;
const OFFSET: u64 = 0xffff_8000_0000_0000;
/// The page that is mapped, through the tables at the start of RAM.
const VA: u64 = 0xffff_e000_0000_0000;
const LINK: u64 = BASE + 2 * PAGE;
const SLOT: u64 = BASE + 3 * PAGE;
const MEMORY: u64 = BASE + 8 * PAGE;
const CODE: u64 = BASE + 9 * PAGE;
const SPARE: u64 = BASE + 10 * PAGE;

/// A core's registers: a general one, and those of the last exception.
#[derive(Default)]
struct State {
    general: u64,
    exception: [u64; 3],
    isa: Option<Isa>,
}

impl Registers for State {
    fn general(&self, _: u8) -> u64 {
        self.general
    }
    fn root(&self) -> u64 {
        if self.isa == Some(Isa::Aarch64) { BASE | 1 << 48 } else { 9 << 60 | BASE >> 12 }
    }
    fn exception(&self) -> [u64; 3] {
        self.exception
    }
}

impl Look for State {
    fn physical(&self) -> Option<u64> {
        None
    }
    fn mmu_is_on(&self) -> bool {
        true
    }
}

struct Board {
    folder: tempfile::TempDir,
    ram: File,
    shadow: Shadow,
    isa: Isa,
}

impl Board {
    fn new(isa: Isa, cores: usize) -> Board {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ram");
        let memory = Memory { base: BASE, bytes: BYTES, offset: OFFSET, ..Memory::default() };
        let lab = Lab { memory, ..Lab::default() };
        let watch = Watch::open(folder.path(), &path, &lab).expect("a watch");
        let me = Domain::new(0).expect("a domain");
        let shadow = Shadow::new(Arc::new(watch), me, isa, cores);
        let ram = File::options().write(true).open(&path).expect("the RAM file");
        let it = Board { folder, ram, shadow, isa };
        let root = BASE + 8 * (VA >> 39 & 511);
        for (at, table) in [(root, BASE + PAGE), (BASE + PAGE, LINK), (LINK, SLOT)] {
            it.write(at, it.table(table));
        }
        for core in 0..cores {
            (0..2).for_each(|_| it.does(core, Effect::Everything(Scope::Own), 0));
        }
        it
    }

    fn table(&self, pa: u64) -> u64 {
        if self.isa == Isa::Aarch64 { pa | 3 } else { pa >> 2 | 1 }
    }

    fn leaf(&self) -> u64 {
        if self.isa == Isa::Aarch64 { MEMORY | 0x403 | 1 << 53 } else { MEMORY >> 2 | 0xc7 }
    }

    fn write(&self, pa: u64, value: u64) {
        self.ram.write_all_at(&value.to_le_bytes(), pa - BASE).expect("written");
    }

    fn does(&self, core: usize, effect: Effect, general: u64) {
        let state = State { general, isa: Some(self.isa), ..State::default() };
        self.shadow.affects(Site { core, pc: OFFSET + CODE }, effect, &state);
    }

    /// A store through the linear map by the kernel.
    fn store(&self, pa: u64, value: u64) {
        self.store_from(OFFSET + CODE, pa, value);
    }

    /// A store through the linear map by the instruction at `pc`.
    fn store_from(&self, pc: u64, pa: u64, value: u64) {
        self.write(pa, value);
        let at = Site { core: 0, pc };
        self.shadow.touched(at, Access::Write, OFFSET + pa, 8, &State::default());
    }

    fn kinds(&self) -> Vec<String> {
        kinds(self.folder.path())
    }
}

fn kinds(folder: &Path) -> Vec<String> {
    report::read(folder).expect("reports").into_iter().map(|report| report.kind).collect()
}

const DSB: Effect = Effect::Synchronize { reach: Reach::All, all: true };

#[test]
fn a_page_is_reused_after_the_invalidation_of_its_entry() {
    for isa in [Isa::Aarch64, Isa::Riscv64] {
        for flushes in [true, false] {
            let board = Board::new(isa, 1);
            board.store(SLOT, board.leaf());
            board.store(SLOT, 0);
            if flushes {
                let (scope, leaf) =
                    if isa == Isa::Aarch64 { (Scope::All, false) } else { (Scope::Own, true) };
                let operand = if isa == Isa::Aarch64 { VA >> 12 & ((1 << 44) - 1) } else { VA };
                board.does(0, DSB, 0);
                board.does(0, Effect::Address { scope, from: 1, leaf }, operand);
                board.does(0, DSB, 0);
            }
            board.store(MEMORY, 1);
            let expected: &[&str] = if flushes { &[] } else { &["memory reused while translated"] };
            assert_eq!(board.kinds(), expected);
        }
    }
}

#[test]
fn a_reset_empties_the_tlb() {
    for isa in [Isa::Aarch64, Isa::Riscv64] {
        let board = Board::new(isa, 1);
        board.store(SLOT, board.leaf());
        // The stub's stores, with the MMU off.
        board.store_from(0x4020_01d0, SLOT, 0);
        board.store_from(0x4020_01d0, MEMORY, 1);
        board.store(MEMORY, 2);
        assert_eq!(board.kinds(), [""; 0]);
    }
}

#[test]
fn a_table_is_linked_after_a_barrier() {
    for ordered in [true, false] {
        let board = Board::new(Isa::Riscv64, 1);
        board.store(SPARE, 0);
        if ordered {
            board.does(0, Effect::Order, 0);
        }
        board.store(LINK + 8, board.table(SPARE));
        let expected: &[&str] = if ordered { &[] } else { &["table linked before its entries"] };
        assert_eq!(board.kinds(), expected);
    }
}

#[test]
fn an_access_through_the_stack_pointer_is_not_repeated() {
    // sd a0, 8(sp); sd a0, 8(a1)
    for (word, expected) in [(0x00a1_3423u64, &["stale translation"][..]), (0x00a5_b423, &[])] {
        let board = Board::new(Isa::Riscv64, 2);
        board.write(CODE, word);
        board.store(SLOT, board.leaf());
        let at = Site { core: 1, pc: OFFSET + CODE };
        board.shadow.touched(at, Access::Write, VA + 8, 8, &State::default());
        assert_eq!(board.kinds(), expected);
    }
}

#[test]
fn only_page_faults_count_as_faults() {
    let board = Board::new(Isa::Aarch64, 1);
    let fault = |syndrome| board.shadow.fault([syndrome, VA, 1]).map(|fault| fault.is_cached);
    assert_eq!(fault(0x25 << 26 | 0x4f), Some(true), "a store, permission");
    assert_eq!(fault(0x25 << 26 | 0x07), Some(false), "translation");
    assert_eq!(fault(0x15 << 26), None, "a call");
    let board = Board::new(Isa::Riscv64, 1);
    let fault = |cause| board.shadow.fault([cause, VA, 1]).map(|fault| fault.is_cached);
    assert_eq!([13, 15, 9].map(fault), [Some(true), Some(true), None]);
}
