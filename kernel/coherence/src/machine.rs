//! Performs the protocol's effects on page table, caches, links and waiting cores, and polls the
//! links.
//!
//! Contract: everything here runs under the driver's lock, also in the fault path: it does not
//! allocate, and waits only for pins that are about to end (see `State::tick`).

use super::{LIMIT_NS, PAGES, Ports};
use abi::boot::{BLOCK, MAINTENANCE_OFFSET, MAX_CORES, MAX_DOMAINS};
use abi::soc::{state, unpack_state};
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::mmu::Pages;
use arch::shared::Window;
use arch::types::Rights;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::id::{DomainId, Epoch};
use core::sync::atomic::{AtomicBool, Ordering};
use kernel_dsm::instruction::Instruction;
use kernel_dsm::types::PeerStatus;
use kernel_dsm::wire::{Inbox, Outbox};
use kernel_dsm::{
    Down, Dsm, Effect, Handled, Keep, Page, PeerFault, Perform, RequestId, Rights as Held,
};

/// Maximum number of revocations whose TLB shootdown is in progress.
const UNMAPS: usize = MAX_DOMAINS * MAX_CORES;

/// The protocol's state machine with its table, large enough for any board.
pub type Protocol8 = Dsm<Vec<u64>, MAX_DOMAINS, MAX_CORES>;

/// States of a core's request.
pub mod wait {
    pub const PENDING: u64 = 0;
    pub const DONE: u64 = 1;
    pub const LOST: u64 = 2;
}

/// The result of an attempt to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// No attempt, or it is still in progress.
    No,
    /// This domain holds no page and may power down.
    Left,
    /// It failed: this domain is the home, and pages are lost.
    Stays,
}

/// The receiving end of the link from a peer.
pub struct Link {
    pub id: DomainId,
    pub inbox: Inbox,
    pub theirs: Window,
}

/// For each peer: the sending end of the link to it, the link's memory, and the peer's doorbell
/// slot.
pub type Outboxes = [Option<(Outbox, Window, u32)>; MAX_DOMAINS];

/// What effects act on.
pub struct Machine<P: Ports> {
    ports: P,
    outboxes: Outboxes,
    vector: u32,
    base: PhysAddr,
    pages: Pages,
    unmapping: [Option<(RequestId, P::Flushed)>; UNMAPS],
    /// Number of entries in `unmapping`.
    unmaps: usize,
    all_flushed: Option<P::Flushed>,
    /// Pages given up in doorbell interrupts, and ticks that these interrupts took.
    pub served: (u64, u64),
    /// Number of revocations whose TLB shootdown has ended.
    completed: u64,
    pub waits: [u64; MAX_CORES],
    /// Whether an access was completed in this poll.
    answered: bool,
    /// Whether pages were lost that have possibly not been mended yet.
    pub lost: Arc<AtomicBool>,
    /// Whether pages were lost since this domain last began to leave.
    pub lost_in_leaving: bool,
    pub leaving: Leaving,
    /// The last page whose thrashing has not been reported yet, and its number of moves.
    pub thrashing: Option<(Page, u32)>,
    /// Messages sent, pages given up, pages cleaned and invalidated, reports of thrashing.
    pub counts: [u64; 4],
}

/// What caused a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A doorbell, which interrupted the code at `pc`.
    Doorbell { pc: u64 },
    /// Anything else.
    Other,
}

/// This domain, and access to the chip page, which has the state of the others.
#[derive(Clone, Copy)]
pub struct Chip<P> {
    pub ports: P,
    pub me: DomainId,
    /// Number of domains of the board.
    pub count: u8,
}

impl<P: Ports> Chip<P> {
    /// Returns all domains but this one.
    pub fn others(self) -> impl Iterator<Item = DomainId> + use<P> {
        (0..self.count).map(DomainId).filter(move |&id| id != self.me)
    }

    /// Returns whether pages may have been lost since the last domain has left. The states of the
    /// others must have been read before.
    pub fn has_lost(self) -> bool {
        arch::words::barrier(); // a state that says that an epoch is over is read before its loss
        self.ports.settled() != self.losses().map(|(_, epoch)| epoch).sum()
    }

    /// Returns all domains, each with its last epoch that ended with pages, or 0.
    fn losses(self) -> impl Iterator<Item = (DomainId, u64)> {
        (0..self.count).map(DomainId).map(move |id| (id, self.ports.loss(id)))
    }
}

/// Everything that the driver's lock protects.
pub struct State<P: Ports> {
    pub chip: Chip<P>,
    pub dsm: Protocol8,
    pub links: Vec<Link>,
    pub machine: Machine<P>,
    /// The last instruction that faulted on each core.
    pub instructions: [Instruction; MAX_CORES],
    /// For each domain, the state word that was last read for the protocol.
    pub told: [u64; MAX_DOMAINS],
    /// For each domain, the last epoch that the protocol knows of.
    pub known: [u64; MAX_DOMAINS],
    /// Whether this domain has joined the others and not left since.
    pub has_joined: bool,
}

impl<P: Ports> Perform for Machine<P> {
    // Inlined, so that each caller contains only the branch of the effect that it passes.
    #[inline(always)]
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, message } => {
                self.send(to, message.encode(), message.is_awaited(to));
            }
            Effect::Map { page, rights } => self.pages.set(page.into(), Some(rights_of(rights))),
            Effect::Unmap { page, keep, work } => self.unmap(page, keep, work),
            Effect::UnmapAll => self.unmap_all(),
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
                self.answered = true;
            }
            Effect::Lost { .. } => {
                self.lost.store(true, Ordering::Relaxed);
                self.lost_in_leaving = true;
            }
            Effect::Thrash { page, moves } => {
                self.counts[3] += 1;
                self.thrashing = Some((page, moves));
            }
            Effect::Left => self.leaving = Leaving::Left,
            Effect::Stays => self.leaving = Leaving::Stays,
        }
    }

    fn unmap_now(&mut self, page: Page, keep: Keep) -> bool {
        self.pages.set(page.into(), kept(keep));
        arch::mmu::flush(self.virt(page), PAGE);
        let over = self.ports.is_alone();
        self.counts[1] += u64::from(over);
        over
    }
}

impl<P: Ports> Machine<P> {
    pub fn new(
        ports: P,
        outboxes: Outboxes,
        vector: u32,
        base: PhysAddr,
        pages: Pages,
    ) -> Machine<P> {
        Machine {
            ports,
            outboxes,
            vector,
            base,
            pages,
            unmapping: [None; UNMAPS],
            unmaps: 0,
            all_flushed: None,
            served: (0, 0),
            completed: 0,
            waits: [wait::PENDING; MAX_CORES],
            answered: false,
            lost: Arc::default(),
            lost_in_leaving: false,
            leaving: Leaving::No,
            thrashing: None,
            counts: [0; 4],
        }
    }

    /// Sends a message. Rings the doorbell unless the receiver polls for it (`awaited`).
    fn send(&mut self, to: DomainId, words: [u64; 3], awaited: bool) {
        let Some(Some((outbox, mine, slot))) = self.outboxes.get_mut(to.index()) else { return };
        outbox.send_words(mine, words);
        self.counts[0] += 1;
        if !awaited {
            arch::doorbell::ring(*slot, self.vector);
        }
    }

    fn unmap(&mut self, page: Page, keep: Keep, work: RequestId) {
        self.pages.set(page.into(), kept(keep));
        self.counts[1] += 1;
        let flushed = self.ports.flush(self.virt(page), PAGE);
        if let Some(free) = self.unmapping.iter_mut().find(|place| place.is_none()) {
            *free = Some((work, flushed));
            self.unmaps += 1;
        }
    }

    fn unmap_all(&mut self) {
        (0..u64::from(PAGES)).for_each(|page| self.pages.set(page, None));
        self.all_flushed = Some(self.ports.flush(self.base.to_virt(), BLOCK));
    }

    /// Returns whether a TLB shootdown is in progress.
    fn is_unmapping(&self) -> bool {
        self.unmaps > 0 || self.all_flushed.is_some()
    }

    /// Removes and returns a revocation whose TLB shootdown has ended.
    fn unmapped(&mut self) -> Option<RequestId> {
        if self.unmaps == 0 {
            return None;
        }
        let ports = self.ports;
        let over = |place: &mut Option<(RequestId, P::Flushed)>| {
            place.take_if(|(_, flushed)| ports.is_flushed(*flushed))
        };
        let (work, _) = self.unmapping.iter_mut().find_map(over)?;
        self.unmaps -= 1;
        self.completed += 1;
        Some(work)
    }

    fn virt(&self, page: Page) -> VirtAddr {
        self.base.plus(u64::from(page) * PAGE).to_virt()
    }

    /// Performs a cache operation on a page's lines, through the maintenance mapping.
    #[inline(always)]
    fn maintain(&self, page: Page, operation: fn(usize, usize)) {
        let at = VirtAddr(self.virt(page).0.wrapping_add(MAINTENANCE_OFFSET));
        operation(at.0 as usize, PAGE as usize);
    }
}

fn kept(keep: Keep) -> Option<Rights> {
    (keep == Keep::Read).then_some(Rights::Read)
}

fn rights_of(held: Held) -> Rights {
    match held {
        Held::Read => Rights::Read,
        Held::Write => Rights::ReadWrite,
    }
}

impl<P: Ports> State<P> {
    /// Calls the protocol, then reports to it the shootdowns that have ended.
    pub fn step<R>(&mut self, call: impl FnOnce(&mut Protocol8, &mut Machine<P>) -> R) -> R {
        let State { dsm, machine, .. } = self;
        let result = call(dsm, machine);
        while let Some(work) = machine.unmapped() {
            dsm.unmapped(arch::time::local_ns(), work, machine);
        }
        let ports = machine.ports;
        if machine.all_flushed.take_if(|flushed| ports.is_flushed(*flushed)).is_some() {
            dsm.all_unmapped(arch::time::local_ns(), machine);
        }
        result
    }

    /// Handles all messages that have arrived, including those that had to wait for a shootdown
    /// that has ended.
    pub fn poll(&mut self, by: By) -> Result<(), PeerFault> {
        match self.poll_quick(false) {
            true => Ok(()),
            false => self.poll_long(by),
        }
    }

    /// Polls up to `times` times, until an access completes: for a core that waits for a page.
    pub fn watch(&mut self, times: u32) -> Result<(), PeerFault> {
        self.machine.answered = false;
        for _ in 0..times {
            if !self.poll_quick(true) {
                return self.poll_long(By::Other);
            }
            if self.machine.answered {
                break;
            }
        }
        Ok(())
    }

    /// Handles messages by the protocol's fast path. Returns false if some need the slow path, or
    /// if revocations or shootdowns are in progress. With `waits`, stops once an access completes.
    #[inline(always)]
    fn poll_quick(&mut self, waits: bool) -> bool {
        let State { dsm, machine, links, .. } = self;
        for link in links {
            loop {
                let body = match link.inbox.peek(&link.theirs) {
                    Ok(Some(body)) => body,
                    Ok(None) => break,
                    Err(_) => return false,
                };
                let epoch = link.inbox.peer();
                if !dsm.handle_fast(arch::time::local_ns, link.id, epoch, body, machine) {
                    return false;
                }
                link.inbox.done();
                if waits && machine.answered {
                    return true;
                }
            }
        }
        !machine.is_unmapping() && dsm.is_idle()
    }

    #[cold]
    #[inline(never)]
    fn poll_long(&mut self, by: By) -> Result<(), PeerFault> {
        let core = arch::cpu::core();
        if let By::Doorbell { pc } = by
            && self.instructions[core.index()].has_retired(pc)
        {
            self.step(|dsm, out| dsm.retired(arch::time::local_ns(), core, out));
        }
        loop {
            let before = self.machine.completed;
            let stuck = self.take_messages()?;
            if self.dsm.needs_chip_page() {
                self.chip();
                continue;
            }
            // Other cores may have flushed since.
            self.step(|_, _| ());
            self.tick();
            if !stuck || self.machine.completed == before {
                return Ok(());
            }
        }
    }

    /// Handles messages by the protocol's slow path. Returns true if some must be retried later.
    fn take_messages(&mut self) -> Result<bool, PeerFault> {
        let mut stuck = false;
        for index in 0..self.links.len() {
            while let Link { id, inbox, theirs } = &self.links[index]
                && let Some(body) = inbox.peek(theirs)?
            {
                let (id, epoch, message) = (*id, inbox.peer(), inbox.message(theirs, body)?);
                let now = arch::time::local_ns();
                if self.step(|dsm, out| dsm.handle(now, id, epoch, message, out))? == Handled::Later
                {
                    stuck = true;
                    break;
                }
                self.links[index].inbox.done();
            }
        }
        Ok(stuck)
    }

    /// Returns whether [`State::poll`] has anything to do. Costs one load for each link.
    pub fn has_work(&self) -> bool {
        self.machine.is_unmapping()
            || !self.dsm.is_idle()
            || self.links.iter().any(|link| link.inbox.is_waiting(&link.theirs))
    }

    /// Discards the messages that arrived while this domain was off.
    pub fn drop_messages(&mut self) {
        for link in &mut self.links {
            while !matches!(link.inbox.peek(&link.theirs), Ok(None)) {
                link.inbox.done();
            }
        }
    }

    /// Ends expired pins that block a revocation. Waits for pins that end within `2 * LIMIT_NS`,
    /// because no doorbell announces the end of a pin.
    fn tick(&mut self) {
        let Some(mut due) = self.dsm.due() else { return };
        let end = arch::time::local_ns() + 2 * LIMIT_NS;
        while due < end {
            let now = arch::time::local_ns();
            self.step(|dsm, out| dsm.tick(now, out));
            due = self.dsm.due().unwrap_or(u64::MAX);
            arch::cpu::relax();
        }
    }

    /// Returns whether the chip page differs from what was last passed to the protocol.
    pub fn is_behind(&self) -> bool {
        self.chip.others().any(|id| self.chip.ports.state_word(id) != self.told[id.index()])
    }

    /// Returns the sum of all [`Chip::losses`], for the domain's `settled` word; `u64::MAX` if one
    /// of them was not reported to the protocol.
    pub fn losses_told(&self) -> u64 {
        kernel_dsm::losses::settled(self.chip.me, self.chip.losses(), |id| {
            let (epoch, now) = unpack_state(self.told[id.index()]);
            (epoch, state::is_over(now))
        })
    }

    /// Reads the states of all peers from the chip page: an array, because the fault path must not
    /// allocate, and its length.
    ///
    /// To a domain that has joined, a peer that boots again is dead until it runs, as if the change
    /// was noticed late: no kernel waits for one that boots. That kernel waits for the answers of
    /// all domains that had joined before. Domains that boot at once wait for each other.
    fn news(&mut self) -> ([PeerStatus; MAX_DOMAINS], usize) {
        let empty = PeerStatus { domain: self.chip.me, epoch: Epoch(0), down: None };
        let (mut news, mut count) = ([empty; MAX_DOMAINS], 0);
        for domain in self.chip.others() {
            let word = self.chip.ports.state_word(domain);
            self.told[domain.index()] = word;
            let known = &mut self.known[domain.index()];
            let (epoch, now) = match unpack_state(word) {
                (epoch, state::BOOTING) if self.has_joined && *known != 0 && epoch > *known => {
                    (*known, state::DEAD)
                }
                found => found,
            };
            *known = epoch;
            let down = match now {
                now if state::is_over(now) => Some(Down::Died),
                now if state::has_left(now) => Some(Down::Slept),
                _ => None,
            };
            news[count] = PeerStatus { domain, epoch: Epoch(epoch as u16), down };
            count += 1;
        }
        arch::words::barrier(); // a domain that left cleaned its pages before the page said so
        (news, count)
    }

    /// Reads the chip page and passes the states of all peers to the protocol.
    pub fn chip(&mut self) {
        let (news, count) = self.news();
        for news in &news[..count] {
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
        let now = arch::time::local_ns();
        self.step(|dsm, out| dsm.chip(now, &news[..count], out));
        self.be_first_if_alone();
    }

    /// Makes this domain the first if all others left or died before one of them answered it.
    pub fn be_first_if_alone(&mut self) {
        if self.dsm.is_alone() {
            let (now, lost) = (arch::time::local_ns(), self.chip.has_lost());
            self.step(|dsm, out| dsm.be_first(now, lost, out));
        }
    }
}
