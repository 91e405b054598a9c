//! A domain of the model: state machine, page table, TLBs, cache, and cores with programs.

use base::id::{CoreId, DomainId, Epoch};

use super::program::{Op, Run};
use crate::Dsm;
use crate::config::Config;
use crate::effect::{Effect, Perform, Rights};
use crate::message::Message;
use crate::types::{Access, AccessError, Keep, Page, RequestId, Want};

/// The state machine as the models instantiate it.
pub type Machine<const D: usize, const C: usize> = Dsm<[u64; 1], D, C>;

/// A cached page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    pub value: u8,
    pub dirty: bool,
}

/// Memory, and what it should contain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    pub cells: Vec<u8>,
    /// The last value stored to each page; `None` if it is lost.
    pub truth: Vec<Option<u8>>,
    /// The first violation.
    pub broken: Option<&'static str>,
}

impl Memory {
    /// Checks a value that a core or device read.
    pub fn saw(&mut self, page: Page, value: u8) {
        let truth = self.truth[page as usize].get_or_insert(value);
        if *truth != value {
            self.broken = Some("a stale value was read");
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node<const D: usize, const C: usize> {
    pub dsm: Machine<D, C>,
    pub epoch: Epoch,
    pub mapped: Vec<Option<Rights>>,
    /// Entries with more rights than `mapped` that a TLB may still have.
    pub tlb: Vec<Option<Rights>>,
    /// For each core, the weakest entries that its TLB may still have; `None` is an invalid one. A
    /// core caches an entry as soon as it exists, and keeps it until it flushes it. Empty if the
    /// model has no such entries.
    pub weakest: Vec<Vec<Option<Rights>>>,
    pub cache: Vec<Option<Line>>,
    pub runs: Vec<Run>,
    /// Shootdowns in progress.
    pub shootdowns: Vec<RequestId>,
    pub unmap_all: bool,
    pub left: bool,
    /// The losses that it had handled when it began to leave (`DomainPage::settled`).
    pub settled: u64,
    /// Epoch of each peer and whether it runs, as last read from the chip page.
    pub known: Vec<(Epoch, bool)>,
}

/// Collects effects; pages unmapped immediately, before those effects, are kept separately.
#[derive(Default)]
struct Recorder {
    unmapped_first: Vec<(Page, Keep)>,
    effects: Vec<Effect>,
}

impl Perform for Recorder {
    fn perform(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
    fn unmap_now(&mut self, page: Page, keep: Keep) -> bool {
        assert!(self.effects.is_empty(), "unmapped after its lines were written back");
        self.unmapped_first.push((page, keep));
        true
    }
}

/// Returns whether these rights to a page allow an access.
fn permits(rights: Option<Rights>, want: Want) -> bool {
    match rights {
        Some(Rights::Write) => want != Want::Device,
        Some(Rights::Read) => want == Want::Read,
        None => false,
    }
}

/// Messages sent during a step.
pub type Sent = Vec<(DomainId, Message)>;

impl<const D: usize, const C: usize> Node<D, C> {
    pub fn new(config: Config, epoch: Epoch) -> Self {
        let pages = config.pages as usize;
        Node {
            dsm: Dsm::new(config, epoch, [0; 1]).expect("a model's region fits in a word"),
            epoch,
            mapped: vec![None; pages],
            tlb: vec![None; pages],
            weakest: vec![],
            cache: vec![None; pages],
            runs: vec![Run::default(); C],
            shootdowns: vec![],
            unmap_all: false,
            left: false,
            settled: 0,
            known: vec![(Epoch(0), false); D],
        }
    }

    /// Handles an event and performs its effects.
    pub fn drive<R>(
        &mut self,
        memory: &mut Memory,
        sent: &mut Sent,
        event: impl FnOnce(&mut Machine<D, C>, crate::Out) -> R,
    ) -> R {
        let mut effects = vec![];
        let result = event(&mut self.dsm, &mut |effect| effects.push(effect));
        effects.into_iter().for_each(|effect| self.perform(effect, memory, sent));
        result
    }

    /// Handles a message on the fast path, with a shootdown that completes immediately. Returns
    /// false if that is not possible.
    pub fn fast(
        &mut self,
        memory: &mut Memory,
        sent: &mut Sent,
        (from, epoch): (DomainId, Epoch),
        message: Message,
    ) -> bool {
        let ([body, ..], mut out) = (message.encode(), Recorder::default());
        let before = self.dsm.clone();
        if !self.dsm.handle_fast(|| 0, from, epoch, body, &mut out) {
            if self.dsm != before || !out.effects.is_empty() {
                memory.broken = Some("the fast path refused a message but changed something");
            }
            return false;
        }
        for (page, keep) in out.unmapped_first {
            self.unmap(page, keep);
            self.tlb[page as usize] = self.mapped[page as usize];
        }
        out.effects.into_iter().for_each(|effect| self.perform(effect, memory, sent));
        true
    }

    fn perform(&mut self, effect: Effect, memory: &mut Memory, sent: &mut Sent) {
        match effect {
            Effect::Send { to, message } => sent.push((to, message)),
            Effect::Map { page, rights } => {
                self.mapped[page as usize] = Some(rights);
                self.tlb[page as usize] = Some(rights);
            }
            Effect::Unmap { page, keep, work } => {
                self.unmap(page, keep);
                self.shootdowns.push(work);
                self.shootdowns.sort_by_key(|id| (id.domain, id.core));
            }
            Effect::UnmapAll => {
                let pages = 0..self.mapped.len() as Page;
                pages.for_each(|page| self.unmap(page, Keep::Nothing));
                self.unmap_all = true;
            }
            Effect::Clean { page } => self.clean(page, memory),
            Effect::CleanAndInvalidate { page } => {
                self.clean(page, memory);
                self.cache[page as usize] = None;
            }
            Effect::Invalidate { page } => self.cache[page as usize] = None,
            Effect::Complete { core, result } => self.completed(core, result, memory),
            Effect::Lost { page } => {
                // If it is leaving, not all losses are handled.
                self.settled = u64::MAX;
                if self.dsm.is_home() {
                    memory.truth[page as usize] = None;
                }
            }
            Effect::Thrash { .. } => {}
            // Leave again, later.
            Effect::Stays => self.runs[0].at -= 1,
            Effect::Left => self.left = true,
        }
    }

    fn unmap(&mut self, page: Page, keep: Keep) {
        let left = (keep == Keep::Read).then_some(Rights::Read);
        self.mapped[page as usize] = left;
        for entries in &mut self.weakest {
            entries[page as usize] = entries[page as usize].min(left);
        }
    }

    /// A core drops the entry on which `op` faulted, before it repeats it.
    fn flush(&mut self, core: CoreId, op: Op) {
        let Some((first, count, want)) = op.needs() else { return };
        let mapped = &self.mapped;
        let Some(entries) = self.weakest.get_mut(core.index()) else { return };
        let faulted = (first..first + count).find(|&page| !permits(entries[page as usize], want));
        if let Some(page) = faulted {
            entries[page as usize] = mapped[page as usize];
        }
    }

    /// Writes back dirty lines, which a cache may do at any time.
    pub fn clean(&mut self, page: Page, memory: &mut Memory) {
        if let Some(line) = &mut self.cache[page as usize]
            && line.dirty
        {
            line.dirty = false;
            memory.cells[page as usize] = line.value;
        }
    }

    fn completed(&mut self, core: CoreId, result: Result<(), AccessError>, memory: &mut Memory) {
        let run = &mut self.runs[core.index()];
        let op = run.fault.take();
        match (result, op) {
            (Err(AccessError::Lost), _) => run.lost = true,
            (Ok(()), _) if run.resets => (run.resets, run.lost) = (false, false),
            (Ok(()), Some(Op::Device(page))) => {
                // The device works in memory; a copy in any cache would be out of date.
                let cell = &mut memory.cells[page as usize];
                let before = *cell;
                *cell += 1;
                memory.saw(page, before);
                memory.truth[page as usize] = Some(before + 1);
                run.device = true;
            }
            (Ok(()), Some(op)) if !self.dsm.is_mutant(super::Mutant::KeepEntry) => {
                self.flush(core, op);
            }
            (Ok(()), Some(_)) | (Err(AccessError::Device), _) => {}
            _ => {
                memory.broken =
                    Some("an access completed that was not in progress, or with a wrong result")
            }
        }
    }

    /// Returns whether these rights allow the operation.
    pub fn allows(rights: &[Option<Rights>], op: Op) -> bool {
        let Some((page, count, want)) = op.needs() else { return true };
        (page..page + count).all(|page| permits(rights[page as usize], want))
    }

    /// Executes `op`, which the core's rights allow.
    pub fn execute(&mut self, core: usize, op: Op, memory: &mut Memory) {
        let run = &mut self.runs[core];
        run.at += 1;
        match op {
            Op::Load(page) => {
                let value = self.load(page, memory);
                self.runs[core].registers.push(value);
            }
            Op::Store(page, value) => self.store(page, value, memory),
            Op::Add(page) => self.add(page, memory),
            Op::AddBoth(page) => {
                self.add(page, memory);
                self.add(page + 1, memory);
            }
            Op::Device(_) | Op::Sleep => {}
        }
    }

    fn load(&mut self, page: Page, memory: &mut Memory) -> u8 {
        let cell = memory.cells[page as usize];
        let line = self.cache[page as usize].get_or_insert(Line { value: cell, dirty: false });
        memory.saw(page, line.value);
        line.value
    }

    fn store(&mut self, page: Page, value: u8, memory: &mut Memory) {
        self.cache[page as usize] = Some(Line { value, dirty: true });
        memory.truth[page as usize] = Some(value);
    }

    fn add(&mut self, page: Page, memory: &mut Memory) {
        let value = self.load(page, memory) + 1;
        self.store(page, value, memory);
    }

    /// Faults on `op`.
    pub fn fault(&mut self, core: usize, op: Op, memory: &mut Memory, sent: &mut Sent) -> bool {
        let Some((page, count, want)) = op.needs() else { return false };
        let id = CoreId(core as u8);
        let access = Access { page, crosses: count == 2, want };
        self.runs[core].fault = Some(op);
        let result = self.drive(memory, sent, |dsm, out| dsm.access(|| 0, id, access, out));
        if result.is_err() {
            // A device of this domain uses the page: retry later.
            self.runs[core].fault = None;
        }
        result.is_ok()
    }

    /// Resets the lost pages of `op`, or all lost pages before the domain sleeps.
    pub fn reset(&mut self, core: usize, op: Op, memory: &mut Memory, sent: &mut Sent) -> bool {
        let all = (0, self.cache.len() as u32);
        let (page, count) = op.needs().map_or(all, |(page, count, _)| (page, count));
        self.runs[core].resets = true;
        self.runs[core].fault = Some(op);
        let id = CoreId(core as u8);
        self.drive(memory, sent, |dsm, out| dsm.reset(0, id, page, count, out)).is_ok()
    }
}
