//! The model: one function per event, all serialized by the caller.

use crate::entry::{Access, Isa, Leaf, start};
use crate::filter::Filter;
use crate::report::{Finding, Kind, Report, Site};
use crate::stale::{Reach, Stale, Stales, Was};
use crate::tables::{Change, Mapped, Memory, Tables};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Whole flushes after which a core takes part: the first belongs to turning its MMU on, and no
/// shootdown waits for a core before its second. Core 0 boots alone and takes part from the first.
const JOINING: u32 = 2;
/// Findings that are remembered; later ones are not reported.
const MOST: usize = 2048;

/// The cores that an invalidation concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The issuing core.
    Own,
    /// All cores of the domain.
    All,
}

/// The entries that an invalidation concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// All entries and cached walks.
    Everything,
    /// The mapping of an address, and the cached walks to it.
    Address(u64),
    /// The mapping of an address.
    Leaf(u64),
}

/// A fault that a core has noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The instruction.
    pub pc: u64,
    /// The address.
    pub va: u64,
    /// An entry that the TLB may hold caused it.
    pub is_cached: bool,
}

impl Fault {
    /// Returns whether an access is that which faulted.
    fn is_repeated(&self, pc: u64, va: u64) -> bool {
        self.pc == pc && start(self.va, 0) == start(va, 0)
    }
}

#[derive(Clone, Default)]
struct Core {
    /// It uses the page table, and shootdowns wait for it.
    joined: bool,
    flushes: u32,
    /// The last fault, until the core invalidates the page.
    fault: Option<Fault>,
    /// Findings that count only if this core continues: it may be about to stop.
    suspicions: Vec<Finding>,
}

/// The TLBs of the cores of one domain.
pub struct Model {
    isa: Isa,
    /// Where faults on weaker entries are handled.
    handled: Range<u64>,
    tables: Tables,
    stales: Stales,
    cores: Vec<Core>,
    filter: Arc<Filter>,
    told: BTreeSet<(Kind, u64, Option<u64>)>,
    repeated: u64,
}

impl Model {
    /// Creates it for `cores` cores (at most 64) that are off. On AArch64 the kernel handles faults
    /// on weaker entries in the `handled` addresses only; on RV64, everywhere but on a stack.
    pub fn new(isa: Isa, cores: usize, handled: Range<u64>, filter: Arc<Filter>) -> Model {
        Model {
            isa,
            handled,
            tables: Tables::new(isa),
            stales: Stales::new(filter.clone()),
            cores: vec![Core::default(); cores.min(64)],
            filter,
            told: BTreeSet::new(),
            repeated: 0,
        }
    }

    /// Returns the number of accesses that a chip may have had to repeat after a handled fault.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Returns the physical address that the page table gives for `va`.
    pub fn find(&self, va: u64) -> Option<u64> {
        self.tables.find(va).map(|now| now.leaf.pa + (va - now.va))
    }

    fn joined(&self) -> u64 {
        let joined = self.cores.iter().enumerate().filter(|(_, core)| core.joined);
        joined.fold(0, |set, (number, _)| set | bit(number))
    }

    fn has_joined(&self, core: usize) -> bool {
        self.cores.get(core).is_some_and(|core| core.joined)
    }

    /// The core flushes everything in the upper half, with the table at `root`.
    pub fn flushes(&mut self, core: usize, root: u64, memory: Memory<'_>) {
        let Some(own) = self.cores.get_mut(core) else { return };
        own.flushes += 1;
        own.joined = core == 0 || own.flushes >= JOINING;
        if own.joined && self.tables.root() != Some(root) {
            self.forget();
            for table in self.tables.adopt(root, memory) {
                self.filter.set_table(table, true);
            }
        }
    }

    /// The core stops, or has its MMU off before it starts. Core 0 starts when the domain boots.
    pub fn leaves(&mut self, core: usize) {
        if let Some(core) = self.cores.get_mut(core) {
            *core = Core::default();
        }
        self.stales.update(None, |stale| stale.cores &= !bit(core));
        if core == 0 {
            self.cores.fill(Core::default());
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.stales.update(None, |stale| stale.cores = 0);
        for table in self.tables.clear() {
            self.filter.set_table(table, false);
        }
    }

    /// An access that has succeeded. `by_stack`: through the stack pointer.
    pub fn accessed(&mut self, at: Site, va: u64, access: Access, by_stack: bool, report: Report) {
        if !self.has_joined(at.core) {
            return;
        }
        let Some(now) = self.tables.find(va).filter(|now| now.leaf.allows(access)) else { return };
        let Some((denies, writer)) = self.worst(at.core, &now, va, access) else { return };
        let repeats = |fault: Fault| fault.is_cached && fault.is_repeated(at.pc, va);
        let kind = match denies {
            true if self.cores[at.core].fault.is_some_and(repeats) => Some(Kind::Endless),
            true if self.handles(va, by_stack) => None,
            _ => Some(Kind::Lucky),
        };
        match kind {
            Some(kind) => {
                let pa = now.leaf.pa + (va - now.va);
                self.tell(Finding { kind, at, va, pa, writer: Some(writer) }, report);
            }
            None => self.repeated += 1,
        }
        // As the handler does; and one report is enough.
        self.stales.update(Some(va), |stale| stale.cores &= !bit(at.core));
    }

    /// Returns the old entry that the core may use for the access, if it makes a difference:
    /// whether it only denies the access, and the store that changed it. One that leads elsewhere
    /// is worse.
    fn worst(&self, core: usize, now: &Mapped, va: u64, access: Access) -> Option<(bool, Site)> {
        let held = self.stales.covering(va).filter(|stale| stale.cores & bit(core) != 0);
        let judged = held.filter_map(|stale| Some((judge(stale, now, va, access)?, stale.writer)));
        judged.min_by_key(|(denies, _)| *denies)
    }

    fn handles(&self, va: u64, by_stack: bool) -> bool {
        match self.isa {
            Isa::Aarch64 => self.handled.contains(&va),
            Isa::Riscv64 => !by_stack,
        }
    }

    /// A store to watched memory that has happened, through address `va`. `unordered` says whether
    /// the core has stored to a frame since its last barrier between stores.
    pub fn stored(
        &mut self,
        at: Site,
        (va, pa, bytes): (u64, u64, u64),
        memory: Memory<'_>,
        unordered: &dyn Fn(u64) -> bool,
        report: Report,
    ) {
        for word in (pa & !7..pa.saturating_add(bytes)).step_by(8) {
            if let Some(change) = self.tables.update(word, memory) {
                self.changed(at, &change, unordered, report);
            }
        }
        if self.filter.is_referred(pa) {
            self.reused(at, (Some(va), pa), true, report);
        }
    }

    fn changed(
        &mut self,
        at: Site,
        change: &Change,
        unordered: &dyn Fn(u64) -> bool,
        report: Report,
    ) {
        change.dropped.iter().for_each(|&table| self.filter.set_table(table, false));
        change.linked.iter().for_each(|&table| self.filter.set_table(table, true));
        if self.joined() == 0 {
            return;
        }
        if let Some(&pa) = change.linked.iter().find(|&&table| unordered(table)) {
            let kind = Kind::UnorderedTable;
            self.tell(Finding { kind, at, va: change.va, pa, writer: None }, report);
        }
        if self.isa == Isa::Aarch64 {
            self.check_break(at, change, report);
        }
        self.filter.settle(at.core, false);
        for old in change.before.iter().filter(|old| !change.after.contains(old)) {
            self.add(at, (old.va, old.level), Was::Leaf(old.leaf));
        }
        if let Some(table) = change.unlinked {
            self.add(at, (change.va, change.level), Was::Link(table));
        }
        if self.isa == Isa::Riscv64 && change.before.is_empty() {
            for new in &change.after {
                self.add(at, (new.va, new.level), Was::Invalid);
            }
        }
    }

    /// Adds an entry that every core may hold.
    fn add(&mut self, writer: Site, (va, level): (u64, u32), was: Was) {
        let reach = if self.isa == Isa::Aarch64 { Reach::NoCore } else { Reach::All };
        let (cores, leaving, leaving_own) = (self.joined(), 0, 0);
        self.stales.add(Stale { va, level, was, cores, writer, reach, leaving, leaving_own });
    }

    /// AArch64: a valid entry is replaced by another one, except for its rights, only when no core
    /// holds it any more.
    fn check_break(&mut self, at: Site, change: &Change, report: Report) {
        let clash = change.after.iter().find_map(|new| self.clash(change, new));
        let links = change.unlinked.is_some() && !change.linked.is_empty();
        let Some(writer) = clash.or(links.then_some(None)) else { return };
        let pa = change.after.first().map_or(0, |new| new.leaf.pa);
        self.tell(Finding { kind: Kind::NoBreak, at, va: change.va, pa, writer }, report);
    }

    /// Returns whether a core may hold an entry that `new` must not replace; and the store that
    /// changed that entry, unless `change` itself does.
    fn clash(&self, change: &Change, new: &Mapped) -> Option<Option<Site>> {
        let is_other = |va, level, leaf: &Leaf| level != new.level || !is_same(va, leaf, new);
        let held = self.stales.overlapping(new.va, new.level).find(|stale| match stale.was {
            Was::Leaf(leaf) => is_other(stale.va, stale.level, &leaf),
            Was::Link(_) => true,
            Was::Invalid => false,
        });
        let direct = change.before.iter().any(|old| is_other(old.va, old.level, &old.leaf));
        held.map(|stale| Some(stale.writer)).or(direct.then_some(None))
    }

    /// Cache maintenance of a line, which hands its memory over or takes it back.
    pub fn maintained(&mut self, at: Site, pa: u64, drops: bool, report: Report) {
        if self.filter.is_referred(pa) {
            self.reused(at, (None, pa), drops, report);
        }
    }

    /// The memory at `pa` gets another use. `wholly`: old entries may not even read it. A store
    /// `through` an old entry itself is the old use.
    fn reused(
        &mut self,
        at: Site,
        (through, pa): (Option<u64>, u64),
        wholly: bool,
        report: Report,
    ) {
        let (kind, own) = (Kind::EarlyReuse, through.map(|va| start(va, 0)));
        let found: Vec<(u64, Finding)> = (self.stales.iter())
            .filter_map(|stale| {
                let va = self.still_reaches(stale, start(pa, 0), wholly)?;
                if own == Some(va) && matches!(stale.was, Was::Leaf(_)) {
                    return None;
                }
                Some((stale.cores, Finding { kind, at, va, pa, writer: Some(stale.writer) }))
            })
            .collect();
        for (cores, finding) in found {
            if self.isa == Isa::Aarch64 || cores & bit(at.core) != 0 {
                self.tell(finding, report);
                continue;
            }
            let cores = self.cores.iter_mut().enumerate().filter(|it| cores & bit(it.0) != 0);
            cores.for_each(|(_, core)| core.suspicions.push(finding));
        }
    }

    /// Returns the address at which an old entry gives rights to `frame` that the page table does
    /// not give there: to write it, or `wholly` any.
    fn still_reaches(&self, stale: &Stale, frame: u64, wholly: bool) -> Option<u64> {
        let (from, _) = stale.memory().filter(|it| frame.wrapping_sub(it.0) < it.1)?;
        let (va, rights) = match stale.was {
            Was::Leaf(leaf) => {
                let va = stale.va + (frame - from);
                (va, leaf.rights & !self.rights(va, frame))
            }
            _ => (stale.va, u8::MAX),
        };
        let writes = rights & 1 << Access::Write as u8 != 0;
        (writes || wholly && rights != 0).then_some(va)
    }

    /// Returns the rights to `frame` that the page table gives at `va`.
    fn rights(&self, va: u64, frame: u64) -> u8 {
        let now = self.tables.find(va).filter(|now| now.leaf.pa + (va - now.va) == frame);
        now.map_or(0, |now| now.leaf.rights)
    }

    /// The core continues, so what it may hold counts.
    fn continues(&mut self, core: usize, report: Report) {
        let Some(own) = self.cores.get_mut(core) else { return };
        for finding in std::mem::take(&mut own.suspicions) {
            self.tell(finding, report);
        }
    }

    /// The core has noticed a fault.
    pub fn faulted(&mut self, core: usize, fault: Fault, report: Report) {
        self.continues(core, report);
        if let Some(core) = self.cores.get_mut(core) {
            core.fault = Some(fault);
        }
    }

    /// The core invalidates entries: RV64 at once, AArch64 by its next barrier.
    pub fn invalidates(&mut self, core: usize, scope: Scope, what: What, report: Report) {
        self.continues(core, report);
        let va = match what {
            What::Everything => None,
            What::Address(va) | What::Leaf(va) => Some(va),
        };
        if let Some(own) = self.cores.get_mut(core) {
            own.fault.take_if(|fault| va.is_none_or(|va| start(va, 0) == start(fault.va, 0)));
        }
        self.filter.settle(core, false);
        let (isa, me) = (self.isa, bit(core));
        self.stales.update(va, |stale| {
            let needs = match scope {
                Scope::Own if stale.writer.core == core => Reach::Own,
                _ => Reach::All,
            };
            let walks = matches!(stale.was, Was::Link(_)) && matches!(what, What::Leaf(_));
            if walks || stale.reach < needs {
                return;
            }
            match (isa, scope) {
                (Isa::Riscv64, _) => stale.cores &= !me,
                (Isa::Aarch64, Scope::Own) => stale.leaving_own |= me,
                (Isa::Aarch64, Scope::All) => stale.leaving |= me,
            }
        });
    }

    /// AArch64: the core executes a DSB of at least stores, which `reach`es that far. `completes`:
    /// also of loads, so that it waits for invalidations.
    pub fn synchronizes(&mut self, core: usize, reach: Reach, completes: bool) {
        let me = bit(core);
        self.filter.settle(core, completes && reach == Reach::All);
        self.stales.update(None, |stale| {
            if stale.writer.core == core {
                stale.reach = stale.reach.max(reach);
            }
            if completes && stale.leaving & me != 0 && reach == Reach::All {
                stale.cores = 0;
            }
            if completes && stale.leaving_own & me != 0 {
                stale.cores &= !me;
            }
        });
    }

    /// Reports a finding once.
    fn tell(&mut self, finding: Finding, report: Report) {
        let key = (finding.kind, finding.at.pc, finding.writer.map(|writer| writer.pc));
        if self.told.len() < MOST && self.told.insert(key) {
            report(&finding);
        }
    }
}

const fn bit(core: usize) -> u64 {
    1 << (core as u64 % 64)
}

/// Returns whether both map the addresses of `new` to the same memory, of the same type.
fn is_same(va: u64, old: &Leaf, new: &Mapped) -> bool {
    old.memory == new.leaf.memory && new.va.wrapping_sub(va) == new.leaf.pa.wrapping_sub(old.pa)
}

/// Returns whether the old entry would deny the access (`Some(true)`) or lead it elsewhere
/// (`Some(false)`).
fn judge(stale: &Stale, now: &Mapped, va: u64, access: Access) -> Option<bool> {
    let at = now.leaf.pa + (va - now.va);
    match stale.was {
        Was::Invalid => Some(true),
        Was::Link(_) => Some(false),
        Was::Leaf(old) if old.memory != now.leaf.memory => Some(false),
        Was::Leaf(old) if old.pa + (va - stale.va) != at => Some(false),
        Was::Leaf(old) => (!old.allows(access)).then_some(true),
    }
}
