//! The domain's side of the model of TLBs: its accesses, its stores to page tables, its barriers
//! and invalidations. Nearly every access is passed over without a lock (see [`lab_tlb::Filter`]).
//!
//! An access and a store are reported after they have happened, an instruction before. So whatever
//! the program orders reaches the model in that order.

use crate::class::Isa;
use crate::memory::Upkeep;
use crate::sanitizer::Look;
use crate::tlb::{self, Effect};
use lab::model::Memory;
use lab::report::{Missing, Place, Report, Translation};
use lab::watch::Watch;
use lab_cache::{Domain, LINE};
use lab_tlb::{Access, Fault, Filter, Finding, Kind, Model, PAGE, Site, What};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames that each core's last stores are remembered for.
const RECENT: usize = 64;

/// A core's stores since its last barrier between stores. Frames that share a place displace each
/// other, so an unordered store may be missed, and none is made up.
struct Stores {
    /// Number of barriers.
    barriers: AtomicU64,
    /// Frames, each with the number of barriers before its last store.
    recent: [AtomicU64; RECENT],
}

impl Stores {
    fn new() -> Stores {
        Stores { barriers: AtomicU64::new(1), recent: [const { AtomicU64::new(0) }; RECENT] }
    }

    /// Identifies a frame and the time between two barriers.
    fn stamp(&self, pa: u64) -> u64 {
        self.barriers.load(Relaxed) << 32 | ((pa / PAGE) & u64::from(u32::MAX))
    }

    fn place(&self, pa: u64) -> &AtomicU64 {
        &self.recent[(pa / PAGE) as usize % RECENT]
    }

    #[inline]
    fn note(&self, pa: u64) {
        self.place(pa).store(self.stamp(pa), Relaxed);
    }

    fn is_unordered(&self, pa: u64) -> bool {
        self.place(pa).load(Relaxed) == self.stamp(pa)
    }

    fn order(&self) {
        // One writer: the core's own thread.
        self.barriers.store(self.barriers.load(Relaxed) + 1, Relaxed);
    }
}

/// The registers that an effect needs, as QEMU shows them before the instruction.
pub trait Registers {
    /// Returns a general register.
    fn general(&self, number: u8) -> u64;
    /// Returns TTBR1_EL1 or satp.
    fn root(&self) -> u64;
    /// Returns the last exception's syndrome or cause, address and instruction.
    fn exception(&self) -> [u64; 3];
}

/// The model of TLBs of one domain, and what feeds it.
pub struct Shadow {
    watch: Arc<Watch>,
    me: Domain,
    isa: Isa,
    filter: Arc<Filter>,
    model: Mutex<Model>,
    stores: Vec<Stores>,
}

impl Shadow {
    /// Creates the model of domain `me` with `cores` cores.
    pub fn new(watch: Arc<Watch>, me: Domain, isa: Isa, cores: usize) -> Shadow {
        let Memory { base, bytes, offset, shared, .. } = *watch.memory();
        let filter = Arc::new(Filter::new(base, bytes));
        let kind = match isa {
            Isa::Aarch64 => lab_tlb::Isa::Aarch64,
            Isa::Riscv64 => lab_tlb::Isa::Riscv64,
        };
        // The driver of the shared block drops a page before it repeats an access that faulted.
        let handled = shared.0.wrapping_add(offset)..shared.1.wrapping_add(offset);
        let model = Model::new(kind, cores, handled, filter.clone());
        let stores = (0..cores).map(|_| Stores::new()).collect();
        Shadow { watch, me, isa, filter, model: Mutex::new(model), stores }
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the physical address for a kernel's linear mapping, if it is in RAM.
    fn direct(&self, va: u64) -> Option<u64> {
        let pa = va.wrapping_sub(self.watch.memory().offset);
        self.watch.memory().contains(pa).then_some(pa)
    }

    /// Handles an access that has happened.
    #[inline]
    pub fn touched(&self, at: Site, access: Access, va: u64, len: u64, look: &impl Look) {
        if self.filter.is_stale(va) {
            self.judge(at, access, va);
        }
        if access == Access::Write {
            let elsewhere = || if self.filter.has_referring() { look.physical() } else { None };
            if let Some(pa) = self.direct(va).or_else(elsewhere) {
                self.stored(at, va, pa, len);
            }
        }
    }

    #[inline]
    fn stored(&self, at: Site, va: u64, pa: u64, len: u64) {
        if let Some(stores) = self.stores.get(at.core) {
            stores.note(pa);
        }
        if self.filter.is_watched(pa) {
            self.changed(at, va, pa, len);
        }
    }

    #[cold]
    #[inline(never)]
    fn judge(&self, at: Site, access: Access, va: u64) {
        // The lower half has no tables, or is that of a stub.
        if va >> 63 == 0 || at.pc >> 63 == 0 {
            return;
        }
        let mut model = self.model();
        let by_stack = self.isa == Isa::Riscv64
            && access != Access::Execute
            && tlb::is_by_stack(self.instruction(&model, at.pc));
        model.accessed(at, va, access, by_stack, &mut |it| self.tell(it, access));
    }

    /// Returns the instruction at `pc`, or 0 if its place is unknown.
    fn instruction(&self, model: &Model, pc: u64) -> u32 {
        let half = |at: u64| {
            let pa = self.direct(at).or_else(|| model.find(at)).unwrap_or(0);
            (self.watch.word(pa & !7) >> (8 * (pa & 6))) as u32 & 0xffff
        };
        half(pc) | half(pc.wrapping_add(2)) << 16
    }

    #[cold]
    #[inline(never)]
    fn changed(&self, at: Site, va: u64, pa: u64, len: u64) {
        // The stub writes a kernel over the tables of the last one: its domain was reset.
        if at.pc >> 63 == 0 {
            self.model().leaves(at.core);
        }
        let memory = |pa| self.watch.word(pa);
        let stores = self.stores.get(at.core);
        let unordered = |table| stores.is_some_and(|stores| stores.is_unordered(table));
        let tell = &mut |it: &Finding| self.tell(it, Access::Write);
        self.model().stored(at, (va, pa, len), &memory, &unordered, tell);
    }

    /// Handles cache maintenance of the line of `va`, or zeroing it.
    pub fn maintained(&self, at: Site, what: Upkeep, va: u64) {
        let behind = self.watch.memory().maintenance;
        let line = self.direct(va).or_else(|| self.direct(va.wrapping_sub(behind)));
        let Some(pa) = line.map(|pa| pa & !(LINE - 1)) else { return };
        let drops = match what {
            Upkeep::Zero(_) => return self.stored(at, va, pa, LINE),
            Upkeep::Clean(_) => false,
            Upkeep::Flush(_) | Upkeep::Invalidate(_) => true,
            Upkeep::Unify(_) | Upkeep::UnifyAll | Upkeep::Barrier => return,
        };
        if self.filter.is_watched(pa) {
            let tell = &mut |it: &Finding| self.tell(it, Access::Write);
            self.model().maintained(at, pa, drops, tell);
        }
    }

    /// Handles the translation of `bytes` bytes of code, which will be executed.
    pub fn fetched(&self, core: usize, va: u64, bytes: u64) {
        for va in [va, va.wrapping_add(bytes.saturating_sub(1))] {
            if self.filter.is_stale(va) {
                self.judge(Site { core, pc: va }, Access::Execute, va);
            }
        }
    }

    /// Handles an instruction that is about to be executed.
    pub fn affects(&self, at: Site, effect: Effect, registers: &impl Registers) {
        let core = at.core;
        let tell = &mut |it: &Finding| self.tell(it, Access::Write);
        match effect {
            Effect::Order => self.stores.get(core).into_iter().for_each(Stores::order),
            Effect::Synchronize { reach, all } if self.filter.is_unsettled(core) => {
                self.model().synchronizes(core, reach, all);
            }
            Effect::Synchronize { .. } => {}
            Effect::Everything(scope) => {
                let mut model = self.model();
                if at.pc >> 63 != 0
                    && let Some(root) = self.root(registers.root())
                {
                    model.flushes(core, root, &|pa| self.watch.word(pa));
                }
                model.invalidates(core, scope, What::Everything, tell);
            }
            Effect::Address { scope, from, leaf } => {
                let value = registers.general(from);
                let va = if self.isa == Isa::Aarch64 { tlb::operand(value) } else { value };
                let what = if leaf { What::Leaf(va) } else { What::Address(va) };
                self.model().invalidates(core, scope, what, tell);
            }
            Effect::Fault => {
                if let Some(fault) = self.fault(registers.exception()) {
                    self.model().faulted(core, fault, tell);
                }
            }
            // The MMU is off, and is about to be turned on.
            Effect::Root if at.pc >> 63 == 0 => self.model().leaves(core),
            Effect::Root => {}
            Effect::Firmware if self.is_power_off(registers) => self.model().leaves(core),
            Effect::Firmware => {}
        }
    }

    /// Returns the root that the register holds, if the MMU is on.
    fn root(&self, register: u64) -> Option<u64> {
        match self.isa {
            Isa::Aarch64 => Some(register & 0x0000_ffff_ffff_f000),
            Isa::Riscv64 => (register >> 60 == 9).then_some((register & ((1 << 44) - 1)) << 12),
        }
    }

    /// Returns the page fault that the registers show.
    fn fault(&self, [syndrome, va, pc]: [u64; 3]) -> Option<Fault> {
        match self.isa {
            // Aborts of EL1; a permission fault is due to an entry, which may be in the TLB.
            Isa::Aarch64 if !matches!(syndrome >> 26, 0x21 | 0x25) => None,
            Isa::Aarch64 => Some(Fault { pc, va, is_cached: syndrome & 0x3c == 0x0c }),
            Isa::Riscv64 if !matches!(syndrome, 12 | 13 | 15) => None,
            Isa::Riscv64 => Some(Fault { pc, va, is_cached: true }),
        }
    }

    /// Returns whether a firmware call turns the core off.
    fn is_power_off(&self, registers: &impl Registers) -> bool {
        match self.isa {
            Isa::Aarch64 => registers.general(0) as u32 == 0x8400_0002,
            // HSM's stop; a6 is x16, a7 is x17.
            Isa::Riscv64 => registers.general(17) == 0x48_534d && registers.general(16) == 1,
        }
    }

    fn tell(&self, it: &Finding, access: Access) {
        let me = self.me.number();
        let event = match (it.kind, access) {
            (Kind::Lucky | Kind::Endless, Access::Read) => "reads",
            (Kind::Lucky | Kind::Endless, Access::Write) => "writes",
            (Kind::Lucky | Kind::Endless, Access::Execute) => "fetches code from",
            (Kind::EarlyReuse, _) => "reuses the memory of",
            (Kind::NoBreak, _) => "maps",
            (Kind::UnorderedTable, _) => "links a table for",
        };
        self.watch.tell(&Report {
            kind: it.kind.name().to_owned(),
            line: it.pa & !(LINE - 1),
            event: event.to_owned(),
            access: Place { party: me, pc: it.at.pc },
            other: me,
            missing: Some(Missing { by: me, operation: it.kind.missing().to_owned() }),
            writer: it.writer.map(|writer| Place { party: me, pc: writer.pc }),
            reader: None,
            translation: Some(Translation { core: it.at.core as u8, va: it.va }),
        });
    }
}

#[cfg(test)]
#[path = "shadow_tests.rs"]
mod tests;
