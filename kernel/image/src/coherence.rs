//! Memory that kernels share: the protocol of `kernel_dsm` meets page table, caches and doorbells.
//!
//! ```text
//!   a load or store faults --> access --> Complete here, or Get to the home
//!                                              |  waits, attending: serves others meanwhile
//!   a doorbell, or a waiting core --> poll --> Grant: mapped, the access goes on
//!                                         \--> Revoke: unmapped, flushed, cleaned, answered
//! ```
//! The fault path runs with interrupts masked on whatever stack faulted, allocates nothing, and
//! takes one leaf lock, which is never held across a wait. Who waits takes it by `try_lock`.
//!
//! A page that goes is unmapped first and cleaned then, through a second mapping that exists for
//! that moment only, is uncached, and is never read or written through: caches are maintained by
//! physical line, and a mapping that caches could bring lines back.

use crate::kernel::Kernel;
use crate::memory::{FRAMES, TABLE};
use abi::boot::{BLOCK, Blob, MAINTENANCE_OFFSET, MAX_CORES, MAX_DOMAINS};
use abi::soc::state;
use alloc::vec;
use alloc::vec::Vec;
use arch::lock::{Guard, Lock};
use arch::mmu::Pages;
use arch::shared::Window;
use arch::types::{Fault, Mapping, Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::id::{CoreId, DomainId, Epoch};
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_dsm::wire::{Inbox, Outbox};
use kernel_dsm::word::News;
use kernel_dsm::{
    Access, AccessError, Config, Down, Dsm, Effect, Handled, Hold, Page, PeerFault, Protocol,
    RequestId, Rights as Held, Start, Want,
};
use kernel_mem::blocks::Kind;
use kernel_mem::mapping;

/// Pages of the shared block.
const PAGES: u32 = (BLOCK / PAGE) as u32;
/// How long a granted page stays at least, and at most.
const HOLD_NS: u64 = 2_000;
const LIMIT_NS: u64 = 50_000;
/// A page that moves so often within so many ns is told of.
const THRASH: kernel_dsm::thrash::Limit =
    kernel_dsm::thrash::Limit { moves: 200, window: 10_000_000 };
/// Revocations whose unmapping is under way within one call of the protocol.
const UNMAPS: usize = MAX_DOMAINS * MAX_CORES;

/// The protocol with its table.
type Protocol8 = Dsm<Vec<u64>, MAX_DOMAINS, MAX_CORES>;

/// What a core waits for.
mod wait {
    pub const PENDING: u64 = 0;
    pub const DONE: u64 = 1;
    pub const LOST: u64 = 2;
}

/// One direction pair to a peer.
struct Link {
    id: DomainId,
    inbox: Inbox,
    theirs: Window,
}

/// What effects act upon.
struct Machine {
    outboxes: [Option<(Outbox, Window, u32)>; MAX_DOMAINS],
    vector: u32,
    base: PhysAddr,
    pages: Pages,
    alias: Pages,
    unmapping: [Option<RequestId>; UNMAPS],
    waits: [u64; MAX_CORES],
    lost: bool,
    /// Messages sent, pages given up, pages of them cleaned, thrashing.
    counts: [u64; 4],
}

struct State {
    dsm: Protocol8,
    links: Vec<Link>,
    machine: Machine,
}

/// The shared block of this kernel.
pub struct Coherence {
    base: PhysAddr,
    index: usize,
    state: Lock<State>,
    faults: AtomicU64,
    broken: AtomicU64,
}

/// Where the shared block lies: in the middle of the global region, far from both ends' balloons.
pub fn place(blob: &Blob) -> Option<(PhysAddr, usize)> {
    let global = mapping::global(blob)?;
    let index = (global.size / BLOCK / 2) as usize;
    Some((PhysAddr(global.base + index as u64 * BLOCK), index))
}

impl Machine {
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, message } => {
                if let Some(Some((outbox, mine, slot))) = self.outboxes.get_mut(to.index()) {
                    outbox.send(mine, &message);
                    self.counts[0] += 1;
                    arch::doorbell::ring(*slot, self.vector);
                }
            }
            Effect::Map { page, rights } => self.pages.set(page.into(), Some(rights_of(rights))),
            Effect::Unmap { page, keep, work } => {
                let kept = (keep == kernel_dsm::Keep::Read).then_some(Rights::Read);
                self.pages.set(page.into(), kept);
                arch::mmu::flush(self.virt(page), PAGE);
                self.counts[1] += 1;
                if let Some(free) = self.unmapping.iter_mut().find(|place| place.is_none()) {
                    *free = Some(work);
                }
            }
            Effect::UnmapAll => {
                (0..u64::from(PAGES)).for_each(|page| self.pages.set(page, None));
                arch::mmu::flush(self.base.to_virt(), BLOCK);
            }
            Effect::Clean { page } => self.maintain(page, arch::cache::clean),
            Effect::CleanAndInvalidate { page } => {
                self.counts[2] += 1;
                self.maintain(page, arch::cache::clean_invalidate);
            }
            Effect::Invalidate { page } => self.maintain(page, arch::cache::invalidate),
            Effect::Complete { core, result } => {
                if let Some(wait) = self.waits.get_mut(core.index()) {
                    *wait = if result.is_ok() { wait::DONE } else { wait::LOST };
                }
            }
            Effect::Lost { .. } => self.lost = true,
            Effect::Thrash { .. } => self.counts[3] += 1,
            Effect::Left | Effect::Stays => {}
        }
    }

    fn virt(&self, page: Page) -> VirtAddr {
        self.base.plus(u64::from(page) * PAGE).to_virt()
    }

    /// Maintains the lines of a page through its second mapping.
    fn maintain(&self, page: Page, operation: fn(usize, usize)) {
        let at = VirtAddr(self.virt(page).0.wrapping_add(MAINTENANCE_OFFSET));
        self.alias.set(page.into(), Some(Rights::ReadWrite));
        operation(at.0 as usize, PAGE as usize);
        self.alias.set(page.into(), None);
        arch::mmu::flush(at, PAGE);
    }
}

fn rights_of(held: Held) -> Rights {
    match held {
        Held::Read => Rights::Read,
        Held::Write => Rights::ReadWrite,
    }
}

impl State {
    /// One call of the protocol, and the ends of the shootdowns that it began.
    fn step<R>(&mut self, call: impl FnOnce(&mut Protocol8, kernel_dsm::Out) -> R) -> R {
        let State { dsm, machine, .. } = self;
        let result = call(dsm, &mut |effect| machine.perform(effect));
        while let Some(work) = machine.unmapping.iter_mut().find_map(Option::take) {
            dsm.unmapped(arch::time::soc_time(), work, &mut |effect| machine.perform(effect));
        }
        result
    }

    /// Takes all messages that are there.
    fn poll(&mut self) -> Result<(), PeerFault> {
        for index in 0..self.links.len() {
            while let Some((id, epoch, message)) = self.links[index].next()? {
                let now = arch::time::soc_time();
                let handled = self.step(|dsm, out| dsm.handle(now, id, epoch, message, out))?;
                if handled == Handled::Later {
                    break;
                }
                self.links[index].inbox.done();
            }
        }
        self.tick();
        Ok(())
    }

    /// Lets pins end; one that is about to is waited for, since nobody rings when it does.
    fn tick(&mut self) {
        let begun = arch::time::soc_time();
        loop {
            let now = arch::time::soc_time();
            self.step(|dsm, out| dsm.tick(now, out));
            let soon = self.dsm.due().is_some_and(|due| due < begun + 2 * LIMIT_NS);
            if !soon || now > begun + 2 * LIMIT_NS {
                return;
            }
            arch::cpu::relax();
        }
    }

    fn chip(&mut self, kernel: &Kernel) {
        let news = news(kernel);
        for news in &news {
            let up = news.down.is_none() && news.epoch.0 != 0;
            if up
                && let Some(Some((outbox, ..))) = self.machine.outboxes.get_mut(news.domain.index())
            {
                outbox.start(news.epoch);
            }
            for link in self.links.iter_mut().filter(|link| up && link.id == news.domain) {
                link.inbox.start(news.epoch);
            }
        }
        let now = arch::time::soc_time();
        self.step(|dsm, out| dsm.chip(now, &news, out));
    }
}

impl Link {
    fn next(&self) -> Result<Option<(DomainId, Epoch, kernel_dsm::Message)>, PeerFault> {
        let message = self.inbox.peek(&self.theirs)?;
        Ok(message.map(|message| (self.id, self.inbox.peer(), message)))
    }
}

fn news(kernel: &Kernel) -> Vec<News> {
    let ids = (0..kernel.blob.domains().len() as u8).map(DomainId);
    let of = |id: DomainId| {
        let (epoch, now) = kernel.soc.state(id);
        let down = match now {
            state::DEAD => Some(Down::Died),
            state::OFF => Some(Down::Slept),
            _ => None,
        };
        News { domain: id, epoch: Epoch(epoch as u16), down }
    };
    ids.filter(|&id| id != kernel.me).map(of).collect()
}

/// An empty place for kernel `me` of epoch `epoch`; `None` on a board without one.
pub fn new(blob: &'static Blob, me: DomainId, epoch: Epoch) -> Option<Coherence> {
    let shadowed = |service: &abi::boot::Service| service.mode == abi::boot::mode::SHADOWED;
    let (base, index) = place(blob)?;
    let domain = &blob.domains()[me.index()];
    if !blob.services().iter().any(shadowed) {
        return None;
    }
    if !arch::mmu::BROADCAST && domain.cores > 1 {
        crate::log!("no shared memory: a page cannot be unmapped on several cores of this ISA yet");
        return None;
    }
    let table = &mut *TABLE.get()?.lock();
    let alias = VirtAddr(base.to_virt().0.wrapping_add(MAINTENANCE_OFFSET));
    let pages = table.pages(&FRAMES, base.to_virt(), base, BLOCK, Memory::Cached).ok()?;
    let alias = table.pages(&FRAMES, alias, base, BLOCK, Memory::Uncached).ok()?;
    let domains = blob.domains();
    let config = Config {
        protocol: Protocol::ThreeState,
        me,
        domains: domains.len() as u8,
        pages: PAGES,
        hold: HOLD_NS,
        limit: LIMIT_NS,
        thrash: THRASH,
    };
    let words = kernel_dsm::table::words(config.protocol, config.domains, PAGES);
    let dsm = Dsm::new(config, epoch, vec![0; words])?;
    let cores = domains.iter().map(|domain| domain.cores as usize).max().unwrap_or(1);
    let slots = abi::dsm::slots(domains.len(), cores) as u32;
    let link = |from: DomainId, to: DomainId| {
        let index = u64::from(from.0) * domains.len() as u64 + u64::from(to.0);
        let bytes = blob.window.dsm_link_size;
        Window::uncached(blob, PhysAddr(blob.window.dsm + index * bytes), bytes)
    };
    let mut outboxes = [const { None }; MAX_DOMAINS];
    let mut links = Vec::new();
    for id in (0..domains.len() as u8).map(DomainId).filter(|&id| id != me) {
        let slot = domains[id.index()].slot;
        outboxes[id.index()] = Some((Outbox::new(epoch, slots), link(me, id)?, slot));
        links.push(Link { id, inbox: Inbox::new(epoch, slots), theirs: link(id, me)? });
    }
    let machine = Machine {
        outboxes,
        vector: blob.vector_dsm,
        base,
        pages,
        alias,
        unmapping: [None; UNMAPS],
        waits: [wait::PENDING; MAX_CORES],
        lost: false,
        counts: [0; 4],
    };
    Some(Coherence {
        base,
        index,
        state: Lock::new(crate::ranks::COHERENCE, State { dsm, links, machine }),
        faults: AtomicU64::new(0),
        broken: AtomicU64::new(0),
    })
}

impl Coherence {
    /// Comes to the others.
    pub fn start(&self, kernel: &Kernel) {
        let blocks = kernel.balloons.as_ref().map(|balloons| *balloons.pure().blocks());
        if kernel.me.0 == 0
            && let Some(blocks) = blocks
            && let Err(why) = blocks.claim(self.index, Kind::Coherent)
        {
            crate::log!("the shared block is not to be had: {why:?}");
        }
        let now = arch::time::soc_time();
        let start = if kernel.epoch.0 == 1 { Start::Founding } else { Start::Join };
        let mut state = self.state.lock();
        state.chip(kernel);
        state.step(|dsm, out| dsm.start(now, start, out));
        self.poll_locked(&mut state);
    }

    /// Index of the shared block in the global region.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Runs `work` while no page comes or goes, with a judge of mappings of the shared block: is it
    /// held like that? Others it does not mind.
    pub fn still<R>(&self, work: impl FnOnce(&dyn Fn(&Mapping) -> bool) -> R) -> R {
        let state = self.state.lock();
        let held = |leaf: &Mapping| {
            let at = leaf.phys.0.wrapping_sub(self.base.0);
            let wanted = match leaf.rights {
                Rights::Read => Hold::Read,
                _ => Hold::Write,
            };
            at >= BLOCK || state.dsm.hold((at / PAGE) as Page) >= Some(wanted)
        };
        work(&held)
    }

    /// The first byte of the shared block.
    pub fn base(&self) -> VirtAddr {
        self.base.to_virt()
    }

    fn poll_locked(&self, state: &mut Guard<'_, State>) {
        if state.poll().is_err() {
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A doorbell of the protocol rang.
    pub fn heard(&self) {
        self.poll_locked(&mut self.state.lock());
    }

    /// Between two looks of a waiting core.
    pub fn serve(&self) {
        if let Some(mut state) = self.state.try_lock() {
            self.poll_locked(&mut state);
        }
    }

    /// The chip page may have changed.
    pub fn look_at_chip(&self, kernel: &Kernel) {
        let mut state = self.state.lock();
        state.chip(kernel);
        self.poll_locked(&mut state);
    }

    /// This core released a service: its pages may go.
    pub fn released(&self) {
        let (now, core) = (arch::time::soc_time(), arch::cpu::core());
        self.state.lock().step(|dsm, out| dsm.released(now, core, out));
    }

    /// A fault at `address` of the shared block: waits for the page. False: it is not one of
    /// these, or the page is lost.
    pub fn fault(&self, fault: Fault) -> bool {
        let Fault::Page { address, access } = fault else { return false };
        let Some(at) = address.checked_sub(self.base().0).filter(|&at| at < BLOCK) else {
            return false;
        };
        let want = match access {
            arch::types::Access::Read => Want::Read,
            arch::types::Access::Write => Want::Write,
            arch::types::Access::Execute => return false,
        };
        self.faults.fetch_add(1, Ordering::Relaxed);
        self.fetch((at / PAGE) as Page, want)
    }

    fn fetch(&self, page: Page, want: Want) -> bool {
        let core = arch::cpu::core();
        let begun = {
            let now = arch::time::soc_time();
            let mut state = self.state.lock();
            state.machine.waits[core.index()] = wait::PENDING;
            let access = Access { page, crosses: false, want };
            state.step(|dsm, out| dsm.access(now, core, access, out))
        };
        match begun {
            Ok(()) => self.await_core(core) == wait::DONE,
            Err(AccessError::Busy) | Err(_) => false,
        }
    }

    fn await_core(&self, core: CoreId) -> u64 {
        let mut result = wait::PENDING;
        arch::attend::until(|| {
            if let Some(mut state) = self.state.try_lock() {
                self.poll_locked(&mut state);
                result = state.machine.waits[core.index()];
            }
            result != wait::PENDING
        });
        result
    }

    /// Faults, messages, pages given up, cleaned, thrashing, sessions broken.
    pub fn counts(&self) -> [u64; 6] {
        let [sent, given, cleaned, thrashed] = self.state.lock().machine.counts;
        let faults = self.faults.load(Ordering::Relaxed);
        [faults, sent, given, cleaned, thrashed, self.broken.load(Ordering::Relaxed)]
    }
}
