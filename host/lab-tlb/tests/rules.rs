//! The rules one by one, on a table with one page, as a kernel would use it.

use lab_tlb::{Access, Fault, Filter, Isa, Kind, Model, PAGE, Reach, Scope, Site, What};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const BASE: u64 = 0x8000_0000;
const VA: u64 = 0xffff_8000_0000_0000;
/// The entry of the page at `VA`.
const SLOT: u64 = BASE + 3 * PAGE;
/// The entry that links the last table.
const LINK: u64 = BASE + 2 * PAGE;
const FIRST: u64 = BASE + 8 * PAGE;
const SECOND: u64 = BASE + 9 * PAGE;
const SPARE: u64 = BASE + 10 * PAGE;

struct Machine {
    isa: Isa,
    ram: BTreeMap<u64, u64>,
    model: Model,
    filter: Arc<Filter>,
    found: Vec<Kind>,
    /// The frame that the core has stored to since its last barrier.
    unordered: Option<u64>,
    pc: u64,
}

impl Machine {
    fn new(isa: Isa, cores: usize, handled: Range<u64>) -> Machine {
        let filter = Arc::new(Filter::new(BASE, 16 * PAGE));
        let model = Model::new(isa, cores, handled, filter.clone());
        let ram = BTreeMap::new();
        let found = Vec::new();
        let mut it = Machine { isa, ram, model, filter, found, unordered: None, pc: 0 };
        for (at, table) in [(BASE + 256 * 8, BASE + PAGE), (BASE + PAGE, LINK), (LINK, SLOT)] {
            it.ram.insert(at, it.table(table));
        }
        (0..cores).for_each(|core| it.joins(core));
        it
    }

    fn joins(&mut self, core: usize) {
        for _ in 0..2 {
            self.model.flushes(core, BASE, &|pa| self.ram.get(&pa).copied().unwrap_or(0));
        }
    }

    fn table(&self, pa: u64) -> u64 {
        if self.isa == Isa::Aarch64 { pa | 3 } else { pa >> 2 | 1 }
    }

    fn leaf(&self, pa: u64, write: bool) -> u64 {
        match self.isa {
            Isa::Aarch64 => pa | 0x403 | 1 << 53 | if write { 0 } else { 1 << 7 },
            Isa::Riscv64 => pa >> 2 | 0x43 | if write { 0x84 } else { 0 },
        }
    }

    fn at(&mut self, core: usize) -> Site {
        self.pc += 4;
        Site { core, pc: self.pc }
    }

    /// A store through the linear map.
    fn store(&mut self, core: usize, pa: u64, value: u64) {
        self.store_at(core, (BASE + pa, pa), value);
    }

    fn store_at(&mut self, core: usize, (va, pa): (u64, u64), value: u64) {
        let at = self.at(core);
        self.ram.insert(pa, value);
        if self.filter.is_watched(pa) {
            let memory = |pa| self.ram.get(&pa).copied().unwrap_or(0);
            let unordered = |table| self.unordered == Some(table);
            self.model.stored(at, (va, pa, 8), &memory, &unordered, &mut |it| {
                self.found.push(it.kind);
            });
        }
    }

    fn map(&mut self, pa: u64, write: bool) {
        self.store(0, SLOT, self.leaf(pa, write));
    }

    fn unmap(&mut self) {
        self.store(0, SLOT, 0);
    }

    fn access(&mut self, core: usize, access: Access, by_stack: bool) {
        let at = self.at(core);
        self.model.accessed(at, VA + 8, access, by_stack, &mut |it| self.found.push(it.kind));
    }

    /// Flushes `what` on `core`, or on all with AArch64, as a kernel does.
    fn flush(&mut self, core: usize, what: What) {
        let scope = if self.isa == Isa::Aarch64 { Scope::All } else { Scope::Own };
        self.model.synchronizes(core, Reach::All, false);
        self.model.invalidates(core, scope, what, &mut |it| self.found.push(it.kind));
        self.model.synchronizes(core, Reach::All, true);
    }

    fn take(&mut self) -> Vec<Kind> {
        std::mem::take(&mut self.found)
    }
}

fn both() -> [Machine; 2] {
    [Isa::Aarch64, Isa::Riscv64].map(|isa| Machine::new(isa, 1, 0..0))
}

#[test]
fn memory_is_reused_after_the_flush_only() {
    for mut it in both() {
        it.map(FIRST, true);
        it.unmap();
        it.store(0, FIRST, 1);
        assert_eq!(it.take(), [Kind::EarlyReuse]);
        it.flush(0, What::Leaf(VA));
        assert!(!it.filter.is_watched(FIRST));
        it.store(0, FIRST, 1);
        assert_eq!(it.take(), []);
    }
}

/// Another thread of the program stores while the page is taken from it.
#[test]
fn a_store_through_the_old_entry_is_the_old_use() {
    for mut it in both() {
        it.map(FIRST, true);
        it.unmap();
        it.store_at(0, (VA + 8, FIRST + 8), 1);
        assert_eq!(it.take(), []);
        it.store_at(0, (VA + PAGE, FIRST + 8), 1);
        assert_eq!(it.take(), [Kind::EarlyReuse], "the page at another address");
    }
}

#[test]
fn a_line_is_cleaned_when_no_core_writes_it_any_more() {
    for mut it in both() {
        it.map(FIRST, true);
        it.map(FIRST, false);
        let at = it.at(0);
        it.model.maintained(at, FIRST, false, &mut |it| assert_eq!(it.kind, Kind::EarlyReuse));
        it.flush(0, What::Leaf(VA));
        let at = it.at(0);
        it.model.maintained(at, FIRST, true, &mut |_| panic!("it may be read"));
        it.unmap();
        let at = it.at(0);
        it.model.maintained(at, FIRST, false, &mut |_| panic!("no core writes it"));
        let mut count = 0;
        it.model.maintained(at, FIRST, true, &mut |_| count += 1);
        assert_eq!(count, 1, "a core may read it");
    }
}

#[test]
fn other_memory_at_the_same_address_needs_a_flush() {
    for mut it in both() {
        it.map(FIRST, true);
        it.unmap();
        it.map(SECOND, true);
        it.access(0, Access::Read, false);
        let expected: &[Kind] = match it.isa {
            Isa::Aarch64 => &[Kind::NoBreak, Kind::Lucky],
            Isa::Riscv64 => &[Kind::Lucky],
        };
        assert_eq!(it.take(), expected);
        it.unmap();
        it.flush(0, What::Everything);
        it.map(FIRST, true);
        it.access(0, Access::Read, false);
        assert_eq!(it.take(), []);
    }
}

#[test]
fn a_valid_entry_is_not_replaced_directly() {
    let mut it = Machine::new(Isa::Aarch64, 1, 0..0);
    it.map(FIRST, true);
    it.map(FIRST, false);
    assert_eq!(it.take(), [], "rights may change");
    it.map(SECOND, false);
    assert_eq!(it.take(), [Kind::NoBreak]);
}

#[test]
fn rights_are_added_where_the_fault_is_handled() {
    let (inside, outside) = (VA..VA + PAGE, 0..0);
    for (handled, expected) in [(inside, &[][..]), (outside, &[Kind::Lucky])] {
        let mut it = Machine::new(Isa::Aarch64, 1, handled);
        it.map(FIRST, false);
        it.map(FIRST, true);
        it.access(0, Access::Read, false);
        assert_eq!(it.take(), []);
        it.access(0, Access::Write, false);
        assert_eq!(it.take(), expected);
        assert_eq!(it.model.repeated(), u64::from(expected.is_empty()));
    }
}

#[test]
fn a_stack_is_flushed_before_its_use() {
    for (by_stack, expected) in [(false, &[][..]), (true, &[Kind::Lucky])] {
        let mut it = Machine::new(Isa::Riscv64, 2, 0..0);
        it.map(FIRST, true);
        it.flush(0, What::Leaf(VA));
        it.access(0, Access::Write, by_stack);
        assert_eq!(it.take(), []);
        it.access(1, Access::Write, by_stack);
        assert_eq!(it.take(), expected);
    }
}

#[test]
fn a_fault_that_is_not_followed_by_a_flush_is_repeated() {
    for isa in [Isa::Aarch64, Isa::Riscv64] {
        for (is_cached, flushes) in [(true, false), (true, true), (false, false)] {
            let mut it = Machine::new(isa, 1, VA..VA + PAGE);
            it.map(FIRST, false);
            let fault = Fault { pc: it.pc + 8, va: VA + 16, is_cached };
            it.model.faulted(0, fault, &mut |_| {});
            it.map(FIRST, true);
            if flushes {
                it.flush(0, What::Leaf(VA));
            }
            it.access(0, Access::Write, false);
            let endless = is_cached && !flushes;
            assert_eq!(it.take(), vec![Kind::Endless; usize::from(endless)]);
        }
    }
}

#[test]
fn a_table_is_linked_after_its_entries() {
    for mut it in both() {
        it.unordered = Some(SPARE);
        it.store(0, LINK + 8, it.table(SPARE));
        assert_eq!(it.take(), [Kind::UnorderedTable]);
        it.store(0, LINK + 8, 0);
        it.flush(0, What::Everything);
        it.unordered = None;
        it.store(0, LINK + 8, it.table(SPARE));
        assert_eq!(it.take(), []);
    }
}

#[test]
fn an_unlinked_table_is_reused_when_no_walk_uses_it() {
    for mut it in both() {
        it.store(0, LINK, 0);
        it.flush(0, What::Leaf(VA));
        it.store(0, SLOT, 1);
        assert_eq!(it.take(), [Kind::EarlyReuse]);
        let what = if it.isa == Isa::Aarch64 { What::Address(VA) } else { What::Everything };
        it.flush(0, what);
        it.store(0, SLOT, 2);
        assert_eq!(it.take(), []);
    }
}

#[test]
fn a_flush_of_one_hart_leaves_the_others() {
    let mut it = Machine::new(Isa::Riscv64, 3, 0..0);
    it.map(FIRST, true);
    it.flush(0, What::Everything);
    it.unmap();
    it.flush(0, What::Leaf(VA));
    it.flush(1, What::Leaf(VA));
    it.store(0, FIRST, 1);
    assert_eq!(it.take(), [], "hart 2 may be about to stop");
    it.flush(2, What::Leaf(VA));
    assert_eq!(it.take(), [Kind::EarlyReuse], "it was not");
    it.store(0, FIRST, 1);
    assert_eq!(it.take(), []);
}

#[test]
fn a_core_that_is_off_holds_nothing() {
    let mut it = Machine::new(Isa::Riscv64, 2, 0..0);
    it.map(FIRST, true);
    it.model.leaves(1);
    it.unmap();
    it.flush(0, What::Leaf(VA));
    it.store(0, FIRST, 1);
    it.joins(1);
    it.flush(1, What::Everything);
    assert_eq!(it.take(), []);
    it.model.leaves(0);
    assert!(!it.filter.is_watched(SLOT), "the domain boots");
}
