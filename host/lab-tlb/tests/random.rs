//! Random events on a small machine, compared with a reference that keeps, for each core and page,
//! the set of all entries that its TLB may hold and that its walks may read.

use base::prng::Prng;
use lab_tlb::{Access, Filter, Isa, Kind, Model, PAGE, Reach, Scope, Site, What};
use std::collections::BTreeSet;
use std::sync::Arc;

const CORES: usize = 3;
const PAGES: usize = 3;
const BASE: u64 = 0x8000_0000;
const HIGH: u64 = 0xffff_8000_0000_0000;
/// The table of the last level, after the three above it.
const LAST: u64 = BASE + 3 * PAGE;

/// Memory of four tables, and of four pages that they map.
struct Ram(Vec<u64>);

impl Ram {
    fn read(&self, pa: u64) -> u64 {
        self.0[((pa - BASE) / 8) as usize]
    }

    fn write(&mut self, pa: u64, value: u64) {
        self.0[((pa - BASE) / 8) as usize] = value;
    }

    fn new(isa: Isa) -> Ram {
        let mut ram = Ram(vec![0; (8 * PAGE / 8) as usize]);
        let link = |pa: u64| if isa == Isa::Aarch64 { pa | 3 } else { pa >> 2 | 1 };
        ram.write(BASE + 256 * 8, link(BASE + PAGE));
        ram.write(BASE + PAGE, link(BASE + 2 * PAGE));
        ram.write(BASE + 2 * PAGE, link(LAST));
        ram
    }
}

/// A mapping of one of two frames, or nothing. Each frame has one type of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    Nothing,
    Maps { frame: u64, write: bool },
}

impl Held {
    fn raw(self, isa: Isa) -> u64 {
        match (self, isa) {
            (Held::Nothing, _) => 0,
            (Held::Maps { frame, write }, Isa::Aarch64) => {
                (BASE + (4 + frame) * PAGE) | 0x403 | 1 << 53 | if write { 0 } else { 1 << 7 }
            }
            (Held::Maps { frame, write }, Isa::Riscv64) => {
                (BASE + (4 + frame) * PAGE) >> 2 | 0x43 | if write { 0x84 } else { 0 }
            }
        }
    }

    fn allows(self, write: bool) -> bool {
        matches!(self, Held::Maps { write: may, .. } if may || !write)
    }

    fn frame(self) -> Option<u64> {
        match self {
            Held::Nothing => None,
            Held::Maps { frame, .. } => Some(frame),
        }
    }
}

type Set = BTreeSet<Held>;

/// The reference's state of a core's view of one page.
#[derive(Clone)]
struct View {
    tlb: Set,
    /// What its walks may read.
    walks: Set,
    /// For each core: what its invalidations (of all cores, of its own) remove once complete.
    leaving: [[Set; 2]; CORES],
}

struct Reference {
    isa: Isa,
    now: [Held; PAGES],
    /// Earlier entries that some core's walks may still read.
    old: [Set; PAGES],
    views: Vec<[View; PAGES]>,
}

impl Reference {
    fn new(isa: Isa) -> Reference {
        let view = View {
            tlb: Set::new(),
            walks: [Held::Nothing].into(),
            leaving: std::array::from_fn(|_| [Set::new(), Set::new()]),
        };
        let views = (0..CORES).map(|_| std::array::from_fn(|_| view.clone())).collect();
        let mut it = Reference { isa, now: [Held::Nothing; PAGES], old: Default::default(), views };
        it.walk();
        it
    }

    /// Every core walks the table.
    fn walk(&mut self) {
        for view in self.views.iter_mut().flatten() {
            let isa = self.isa;
            let held = view.walks.iter().filter(|it| isa == Isa::Riscv64 || **it != Held::Nothing);
            let held: Set = held.copied().collect();
            for set in view.leaving.iter_mut().flatten() {
                set.retain(|it| !held.contains(it));
            }
            view.tlb.extend(held);
        }
    }

    fn set(&mut self, page: usize, to: Held) {
        let before = std::mem::replace(&mut self.now[page], to);
        if self.isa == Isa::Aarch64 && before != to {
            self.old[page].insert(before);
        }
        for core in &mut self.views {
            if self.isa == Isa::Riscv64 {
                core[page].walks.clear();
            }
            core[page].walks.insert(to);
        }
        self.walk();
    }

    /// The writer of `page` completes its stores, for the cores of `reach`.
    fn publish(&mut self, writer: usize, reach: Reach) {
        if reach == Reach::All {
            let pages = (0..PAGES).filter(|page| page % CORES == writer);
            pages.for_each(|page| self.old[page].clear());
        }
        for (number, core) in self.views.iter_mut().enumerate() {
            if reach != Reach::All && number != writer {
                continue;
            }
            for page in (0..PAGES).filter(|page| page % CORES == writer) {
                core[page].walks = [self.now[page]].into();
            }
        }
    }

    /// An invalidation on all cores counts only for what no core's walk reads any more.
    fn invalidate(&mut self, core: usize, scope: Scope, page: Option<usize>) {
        let isa = self.isa;
        for (number, views) in self.views.iter_mut().enumerate() {
            if scope == Scope::Own && number != core {
                continue;
            }
            for (index, view) in views.iter_mut().enumerate() {
                if page.is_some_and(|page| page != index) {
                    continue;
                }
                let is_read = |it: &&Held| {
                    view.walks.contains(it) || scope == Scope::All && self.old[index].contains(it)
                };
                let goes: Set = view.tlb.iter().filter(|it| !is_read(it)).copied().collect();
                if isa == Isa::Riscv64 {
                    view.tlb.retain(|it| !goes.contains(it));
                } else {
                    view.leaving[core][usize::from(scope == Scope::Own)].extend(goes);
                }
            }
        }
    }

    fn complete(&mut self, core: usize, reach: Reach) {
        for (number, views) in self.views.iter_mut().enumerate() {
            for view in views {
                for (kind, set) in view.leaving[core].iter_mut().enumerate() {
                    if kind == 1 && number == core || kind == 0 && reach == Reach::All {
                        let goes = std::mem::take(set);
                        view.tlb.retain(|it| !goes.contains(it));
                    }
                }
            }
        }
    }

    /// Returns whether the access is allowed, and whether some held entry would not allow it.
    fn access(&mut self, core: usize, page: usize, write: bool) -> (bool, bool) {
        let now = self.now[page];
        let view = &mut self.views[core][page];
        let good = |it: &Held| it.allows(write) && it.frame() == now.frame();
        let lucky = now.allows(write) && !view.tlb.iter().all(good);
        if lucky {
            (view.tlb, view.walks) = ([now].into(), [now].into());
        }
        (now.allows(write), lucky)
    }

    /// Returns whether a core may hold a mapping of other memory at `page` than `to`.
    fn clashes(&self, page: usize, to: Held) -> bool {
        let frame = to.frame().filter(|_| self.now[page] != to);
        let clash = |it: &Held| it.frame().is_some_and(|held| Some(held) != frame);
        frame.is_some() && self.views.iter().any(|core| core[page].tlb.iter().any(clash))
    }
}

struct Machine {
    isa: Isa,
    ram: Ram,
    model: Model,
    reference: Reference,
    step: u64,
}

impl Machine {
    fn new(isa: Isa) -> Machine {
        let ram = Ram::new(isa);
        let filter = Arc::new(Filter::new(BASE, 8 * PAGE));
        let mut model = Model::new(isa, CORES, 0..0, filter);
        for core in 0..CORES {
            (0..2).for_each(|_| model.flushes(core, BASE, &|pa| ram.read(pa)));
        }
        Machine { isa, ram, model, reference: Reference::new(isa), step: 0 }
    }

    fn set(&mut self, page: usize, to: Held) {
        let clash = self.isa == Isa::Aarch64 && self.reference.clashes(page, to);
        let at = Site { core: page % CORES, pc: self.step };
        let pa = LAST + 8 * page as u64;
        self.ram.write(pa, to.raw(self.isa));
        let (ram, mut kinds) = (&self.ram, Vec::new());
        self.model
            .stored(at, (0, pa, 8), &|pa| ram.read(pa), &|_| false, &mut |it| kinds.push(it.kind));
        assert_eq!(kinds, vec![Kind::NoBreak; usize::from(clash)], "step {}", self.step);
        self.reference.set(page, to);
    }

    fn step(&mut self, random: &mut Prng) {
        self.step += 1;
        let mut pick = |most: u64| (random.next() % most) as usize;
        let (core, page) = (pick(CORES as u64), pick(PAGES as u64));
        let scope =
            if self.isa == Isa::Aarch64 { [Scope::Own, Scope::All][pick(2)] } else { Scope::Own };
        let reach = [Reach::Own, Reach::All][pick(2)];
        match pick(10) {
            0 | 1 => {
                let to = match pick(3) {
                    0 => Held::Nothing,
                    _ => Held::Maps { frame: pick(2) as u64, write: pick(2) == 0 },
                };
                self.set(page, to);
            }
            2 | 3 => {
                let one = (pick(3) != 0).then_some(page);
                let va = HIGH + page as u64 * PAGE;
                let what =
                    one.map_or(What::Everything, |_| [What::Address(va), What::Leaf(va)][pick(2)]);
                self.model.invalidates(core, scope, what, &mut |_| unreachable!());
                self.reference.invalidate(core, scope, one);
            }
            4 | 5 if self.isa == Isa::Aarch64 => {
                let completes = pick(3) != 0;
                self.model.synchronizes(core, reach, completes);
                if completes {
                    self.reference.complete(core, reach);
                }
                self.reference.publish(core, reach);
            }
            _ => self.access(core, page, pick(2) == 0),
        }
    }

    fn access(&mut self, core: usize, page: usize, write: bool) {
        let (allowed, lucky) = self.reference.access(core, page, write);
        if !allowed {
            return;
        }
        let at = Site { core, pc: self.step };
        let access = if write { Access::Write } else { Access::Read };
        let (va, mut kinds) = (HIGH + page as u64 * PAGE + 8, Vec::new());
        self.model.accessed(at, va, access, true, &mut |it| kinds.push(it.kind));
        assert_eq!(kinds, vec![Kind::Lucky; usize::from(lucky)], "step {}", self.step);
    }
}

#[test]
fn accesses_are_judged_as_by_the_reference() {
    for isa in [Isa::Aarch64, Isa::Riscv64] {
        for seed in 0..400 {
            let mut machine = Machine::new(isa);
            let mut random = Prng::new(seed);
            (0..500).for_each(|_| machine.step(&mut random));
        }
    }
}
