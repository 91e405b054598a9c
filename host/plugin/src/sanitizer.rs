//! The domain's side of the coherence sanitizer: the address and the kind of each access.
//!
//! Kernels map memory at virtual = physical + one constant, so most addresses need no page-table
//! walk. The address decides what is cached: the uncached window and the staging areas are not, nor
//! is any access of AArch64 with its MMU off. RV64 without translation caches what its platform
//! declares as memory.
//!
//! A clean takes effect when the barrier after it (outer shareable or wider) has been executed:
//! before that, no other domain may rely on it, and a line that the core writes in between stays
//! dirty. An invalidate takes effect at once, because the domain's own accesses to the line come
//! after it in program order anyway.

use crate::class::Isa;
use crate::memory::{Touch, Upkeep};
use lab::model::Memory;
use lab::watch::{Cleaning, Watch};
use lab_cache::{Access, Domain, LINE, Path};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Facts about an access that only the emulator knows.
pub trait Look {
    /// Returns the physical address of the current access, if it is one in memory.
    fn physical(&self) -> Option<u64>;
    /// Returns whether the core's MMU is on.
    fn mmu_is_on(&self) -> bool;
}

thread_local! {
    /// Maintenance of one core that no barrier has completed yet, by line.
    static PENDING: RefCell<BTreeMap<u64, Cleaning>> = const { RefCell::new(BTreeMap::new()) };
}

/// A store after maintenance and before its barrier: the maintenance may have missed it.
fn written(pa: u64, len: u64) {
    PENDING.with_borrow_mut(|pending| {
        if !pending.is_empty() {
            let lines = pa & !(LINE - 1)..pa.saturating_add(len);
            pending.range_mut(lines).for_each(|(_, line)| line.written = true);
        }
    });
}

/// The sanitizer of one domain.
pub struct Sanitizer {
    watch: Arc<Watch>,
    me: Domain,
    isa: Isa,
    /// Physical addresses at which this domain has RAM.
    ram: (u64, u64),
}

/// Returns whether it is a kernel address.
const fn is_high(va: u64) -> bool {
    va >> 63 != 0
}

impl Sanitizer {
    /// Creates the sanitizer of domain `me`, which has RAM at these physical addresses.
    pub fn new(watch: Arc<Watch>, me: Domain, isa: Isa, ram: (u64, u64)) -> Sanitizer {
        Sanitizer { watch, me, isa, ram }
    }

    fn memory(&self) -> &Memory {
        self.watch.memory()
    }

    /// Returns whether `pa` is in RAM, and not a device of this domain.
    fn is_memory(&self, pa: u64) -> bool {
        self.memory().contains(pa) && (self.ram.0..self.ram.1).contains(&pa)
    }

    /// Returns the physical address for a kernel's linear mapping, if it is in RAM.
    fn direct(&self, va: u64) -> Option<u64> {
        let pa = va.wrapping_sub(self.memory().offset);
        self.is_memory(pa).then_some(pa)
    }

    /// Returns the physical address for a kernel's maintenance alias, if it is in RAM.
    fn maintained(&self, va: u64) -> Option<u64> {
        let behind = self.memory().maintenance;
        self.direct(va).or_else(|| self.direct(va.wrapping_sub(behind)).filter(|_| behind != 0))
    }

    fn path(&self, pa: u64, mmu_is_on: bool) -> Path {
        let past = self.isa == Isa::Aarch64 && !mmu_is_on;
        if past || self.memory().is_uncached(pa) { Path::Uncached } else { Path::Cached }
    }

    fn place(&self, va: u64, pc: u64, look: &impl Look) -> Option<(u64, Path)> {
        if let Some(pa) = self.direct(va) {
            return Some((pa, self.path(pa, true)));
        }
        let pa = look.physical().filter(|&pa| self.is_memory(pa))?;
        Some((pa, self.path(pa, is_high(pc) || look.mmu_is_on())))
    }

    fn access(&self, pa: u64, len: u64, pc: u64) -> Access {
        Access { domain: self.me, pa, len, pc }
    }

    /// Handles an access that has happened.
    pub fn touched(&self, how: Touch, stored: bool, at: (u64, u64), pc: u64, look: &impl Look) {
        let (va, len) = at;
        let Some((pa, path)) = self.place(va, pc, look) else { return };
        let access = self.access(pa, len, pc);
        if stored {
            written(pa, len);
        }
        match (how, stored) {
            (Touch::Plain, false) => self.watch.load(access, path),
            (Touch::Plain, true) => self.watch.store(access, path),
            (Touch::Exclusive, _) => self.watch.exclusive(access, path),
            (Touch::Change, _) => self.watch.change(access, path),
        }
    }

    /// Handles maintenance that is about to happen to the line of `va`, by the instruction at `pc`.
    pub fn upkeep(&self, what: Upkeep, va: u64, pc: u64, look: &impl Look) {
        // The lower half is mapped one to one, or not at all. Stubs run there; RV64's finds the
        // last kernel's satp after a reset, which has no effect in its mode.
        let plain = || !is_high(pc) || !look.mmu_is_on();
        let low = || plain().then_some(va).filter(|&pa| self.is_memory(pa));
        let line = self.maintained(va).or_else(low).map(|pa| pa & !(LINE - 1));
        match (what, line) {
            (Upkeep::Barrier, _) => self.complete(),
            (Upkeep::UnifyAll, _) => self.watch.unify(self.me, None),
            (Upkeep::Clean(_), Some(pa)) => self.begin(pa, false),
            (Upkeep::Flush(_), Some(pa)) => self.begin(pa, true),
            (Upkeep::Invalidate(_), Some(pa)) => self.watch.invalidate(self.me, pa),
            (Upkeep::Unify(_), Some(pa)) => self.watch.unify(self.me, Some(pa)),
            (Upkeep::Zero(_), Some(pa)) => {
                let path = self.path(pa, is_high(va) || look.mmu_is_on());
                written(pa, LINE);
                self.watch.store(self.access(pa, 8, pc), path);
            }
            (_, None) => {}
        }
    }

    /// Handles a barrier: lines cleaned before it are in memory.
    fn complete(&self) {
        let lines = PENDING.take();
        if !lines.is_empty() {
            self.watch.clean(self.me, &lines);
        }
    }

    fn begin(&self, pa: u64, drops: bool) {
        PENDING.with_borrow_mut(|pending| {
            let dropped = pending.get(&pa).is_some_and(|line| line.drops && !line.written);
            pending.insert(pa, self.watch.begin(self.me, pa, drops || dropped));
        });
    }

    /// Handles the translation of `bytes` bytes of code, which will be executed.
    pub fn fetched(&self, va: u64, bytes: u64) {
        // The lower half is mapped one to one, or not at all.
        let low = || self.is_memory(va).then_some(va);
        if let Some(pa) = self.direct(va).or_else(low) {
            self.watch.fetch(self.me, pa, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::model::Lab;
    use lab::report;

    const BASE: u64 = 0x4000_0000;
    const OFFSET: u64 = 0xffff_8000_0000_0000;
    const PC: u64 = OFFSET + 0x1000;

    /// The state after a reset from a kernel that had its MMU on.
    struct Left;

    impl Look for Left {
        fn physical(&self) -> Option<u64> {
            Some(BASE)
        }
        fn mmu_is_on(&self) -> bool {
            true
        }
    }

    struct Bare;

    impl Look for Bare {
        fn physical(&self) -> Option<u64> {
            Some(BASE + 128)
        }
        fn mmu_is_on(&self) -> bool {
            false
        }
    }

    fn pair(folder: &std::path::Path) -> [Sanitizer; 2] {
        let uncached = vec![(BASE + 0x8000, BASE + 0x9000)];
        let memory =
            Memory { base: BASE, bytes: 1 << 20, offset: OFFSET, uncached, ..Memory::default() };
        let lab = Lab { memory, ..Lab::default() };
        [(0, Isa::Aarch64), (1, Isa::Riscv64)].map(|(number, isa)| {
            let watch = Watch::open(folder, &folder.join("ram"), &lab).expect("a watch");
            let me = Domain::new(number).expect("a domain");
            Sanitizer::new(Arc::new(watch), me, isa, (BASE, BASE + (1 << 20)))
        })
    }

    #[test]
    fn a_clean_counts_behind_its_barrier() {
        let folder = tempfile::tempdir().expect("a folder");
        let [main, shadow] = pair(folder.path());
        let count = || report::read(folder.path()).expect("reports").len();
        let hand_over = |line: u64, barrier: bool| {
            let va = OFFSET + BASE + line;
            main.touched(Touch::Plain, true, (va, 8), OFFSET, &Bare);
            main.upkeep(Upkeep::Clean(0), va, PC, &Bare);
            if barrier {
                main.upkeep(Upkeep::Barrier, 0, PC, &Bare);
            }
            shadow.touched(Touch::Plain, false, (va, 8), OFFSET, &Bare);
        };
        hand_over(0, true);
        assert_eq!(count(), 0);
        hand_over(64, false);
        assert_eq!(count(), 1);
    }

    #[test]
    fn a_stub_cleans_whatever_the_last_kernel_left_in_its_registers() {
        let folder = tempfile::tempdir().expect("a folder");
        let [main, shadow] = pair(folder.path());
        let stub = 0x100;
        shadow.touched(Touch::Plain, true, (BASE, 8), stub, &Left);
        shadow.upkeep(Upkeep::Clean(0), BASE, stub, &Left);
        shadow.upkeep(Upkeep::Barrier, 0, stub, &Left);
        main.touched(Touch::Plain, false, (OFFSET + BASE, 8), PC, &Bare);
        assert_eq!(report::read(folder.path()).expect("reports").len(), 0);
    }

    #[test]
    fn what_is_written_between_a_clean_and_its_barrier_is_not_cleaned() {
        let folder = tempfile::tempdir().expect("a folder");
        let [main, shadow] = pair(folder.path());
        let lines = || -> Vec<u64> {
            let all = report::read(folder.path()).expect("reports");
            all.iter().map(|report| report.line).collect()
        };
        let store = |line: u64| main.touched(Touch::Plain, true, (line, 8), PC, &Bare);
        let (kept, late, beside) = (OFFSET + BASE, OFFSET + BASE + 64, OFFSET + BASE + 128);
        for upkeep in [Upkeep::Clean(0), Upkeep::Flush(0)] {
            [kept, late].into_iter().for_each(store);
            [kept, late].into_iter().for_each(|va| main.upkeep(upkeep, va, PC, &Bare));
            [late, beside].into_iter().for_each(store);
            main.upkeep(Upkeep::Barrier, 0, PC, &Bare);
            for va in [kept, late] {
                shadow.upkeep(Upkeep::Invalidate(0), va, PC, &Bare);
                shadow.touched(Touch::Plain, false, (va, 8), PC, &Bare);
                shadow.upkeep(Upkeep::Invalidate(0), va, PC, &Bare);
            }
            assert_eq!(lines(), [BASE + 64]);
        }
        main.upkeep(Upkeep::Clean(0), late, PC, &Bare);
        main.upkeep(Upkeep::Barrier, 0, PC, &Bare);
        shadow.touched(Touch::Plain, false, (late, 8), PC + 4, &Bare);
        assert_eq!(lines(), [BASE + 64], "the next clean makes up for it");
    }

    #[test]
    fn a_zeroed_line_is_told_with_its_instruction() {
        let folder = tempfile::tempdir().expect("a folder");
        let [main, shadow] = pair(folder.path());
        let va = OFFSET + BASE;
        main.upkeep(Upkeep::Zero(0), va, PC, &Bare);
        shadow.upkeep(Upkeep::Zero(0), va, PC + 4, &Bare);
        let all = report::read(folder.path()).expect("reports");
        let pcs: Vec<_> = all.iter().map(|r| (r.access.pc, r.writer.map(|w| w.pc))).collect();
        assert_eq!(pcs, [(PC + 4, Some(PC))]);
    }

    #[test]
    fn aarch64_is_uncached_with_its_mmu_off() {
        let folder = tempfile::tempdir().expect("a folder");
        let [main, shadow] = pair(folder.path());
        main.touched(Touch::Plain, true, (BASE + 128, 8), BASE, &Bare);
        shadow.touched(Touch::Plain, false, (BASE + 128, 8), BASE, &Bare);
        assert!(report::read(folder.path()).expect("reports").is_empty());
        shadow.touched(Touch::Plain, true, (BASE + 128, 8), BASE, &Bare);
        main.touched(Touch::Plain, false, (BASE + 128, 8), BASE, &Bare);
        let all = report::read(folder.path()).expect("reports");
        assert_eq!(
            all.iter().map(|r| r.kind.as_str()).collect::<Vec<_>>(),
            ["uncached access to a dirty line"]
        );
    }
}
