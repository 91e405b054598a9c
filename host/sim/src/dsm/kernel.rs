//! A simulated kernel: the DSM machine, its wires, page table, cache, and cores that add to pages.
//! Every [`Op`] is a pure function of the kernel and what it loads.

use abi::dsm::{link_size, slots};
use base::id::{CoreId, DomainId, Epoch};
use base::port::Words;
use base::prng::Prng;
use kernel_dsm::thrash::Limit;
use kernel_dsm::wire::{Inbox, Outbox};
use kernel_dsm::{
    Access, AccessError, Config, Dsm, Effect, Handled, Keep, LeaveError, Page, PeerStatus, Perform,
    Protocol, RequestId, Rights, Want,
};

use super::losses::Losses;
use super::op::{Op, Told};
use crate::machine::Window;

/// Maximum domains of a simulated chip.
pub const DOMAINS: usize = 4;
/// Cores per domain.
pub const CORES: usize = 2;
/// Number of pages of the region.
pub const PAGES: u32 = 70;

/// A window onto flat memory.
pub type Wire = Window<Vec<u64>>;

/// Size of a link in bytes.
pub const LINK: usize = link_size(DOMAINS, CORES);

/// Returns the address of link (from, to).
pub const fn link(from: usize, to: usize) -> usize {
    (from * DOMAINS + to) * LINK
}

/// Returns the address of the word that represents a page's data.
pub const fn data(page: Page) -> usize {
    link(DOMAINS, 0) + page as usize * 8
}

/// Number of words of the whole memory.
pub const WORDS: usize = data(PAGES) / 8;

/// The state of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// About to do its next access.
    Wants(Access),
    /// Faulted, and waits in attend.
    Waits(Access),
    /// Found lost pages.
    Lost(Access),
    /// Waits until they are reset.
    Resets(Access),
    /// A device has the page.
    Device(Page),
    /// Its instruction has executed. Reporting that is a separate operation: what a kernel reports
    /// counts when its operation ends, so no operation may both use a page and give it up.
    Executed,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub id: usize,
    pub epoch: Epoch,
    pub dsm: Dsm<Vec<u64>, DOMAINS, CORES>,
    outboxes: Vec<Outbox>,
    inboxes: Vec<Inbox>,
    outs: Vec<Wire>,
    ins: Vec<Wire>,
    memory: Wire,
    mapped: Vec<Option<Rights>>,
    cache: Vec<Option<(u64, bool)>>,
    shootdowns: Vec<RequestId>,
    unmap_all: bool,
    cores: [Doing; CORES],
    /// Number of accesses left.
    pub todo: u32,
    /// It has left, or has requested to.
    pub leaving: bool,
    pub left: bool,
    pub known: Vec<(Epoch, bool)>,
    /// The losses that it had handled when it began to leave.
    settled: u64,
    pub told: Vec<Told>,
    pub now: u64,
    polls: u32,
    pages: u32,
    prng: Prng,
}

/// Records effects; pages that are unmapped before them are recorded separately, at once.
#[derive(Default)]
struct Recorder {
    /// No other core needs a shootdown.
    now: bool,
    gone: Vec<(Page, Keep)>,
    effects: Vec<Effect>,
}

impl Perform for Recorder {
    fn perform(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
    fn unmap_now(&mut self, page: Page, keep: Keep) -> bool {
        self.gone.extend(self.now.then_some((page, keep)));
        self.now
    }
}

/// The seed's parameters for all kernels of a chip.
#[derive(Clone, Copy, Debug)]
pub struct Temper {
    pub protocol: Protocol,
    pub domains: usize,
    /// Number of pages used, small enough for contention.
    pub pages: u32,
    pub hold: u64,
}

impl Kernel {
    /// Creates a kernel that has just booted; `wire` creates its windows.
    pub fn new(
        id: usize,
        epoch: Epoch,
        temper: Temper,
        wire: impl Fn(usize) -> Wire,
        prng: Prng,
    ) -> Kernel {
        let config = Config {
            protocol: temper.protocol,
            me: DomainId(id as u8),
            domains: temper.domains as u8,
            cores: CORES as u8,
            pages: PAGES,
            hold: temper.hold,
            limit: 10 * temper.hold + 50,
            thrash: Limit { moves: 4, window: 400 },
        };
        let count = kernel_dsm::table::words(temper.protocol, config.domains, PAGES);
        let slots = slots(DOMAINS, CORES) as u32;
        Kernel {
            id,
            epoch,
            dsm: Dsm::new(config, epoch, vec![0; count]).expect("words are enough"),
            outboxes: vec![Outbox::new(epoch, slots); temper.domains],
            inboxes: vec![Inbox::new(epoch, slots); temper.domains],
            outs: (0..temper.domains).map(|peer| wire(link(id, peer))).collect(),
            ins: (0..temper.domains).map(|peer| wire(link(peer, id))).collect(),
            memory: wire(0),
            mapped: vec![None; PAGES as usize],
            cache: vec![None; PAGES as usize],
            shootdowns: vec![],
            unmap_all: false,
            cores: [Doing::Nothing; CORES],
            todo: 0,
            leaving: false,
            left: false,
            known: vec![(Epoch(0), false); temper.domains],
            settled: 0,
            told: vec![],
            now: 0,
            polls: 0,
            pages: temper.pages,
            prng,
        }
    }

    /// Returns whether it has nothing left to do.
    pub fn is_done(&self) -> bool {
        let idle = self.cores.iter().all(|core| *core == Doing::Nothing);
        self.left || idle && self.todo == 0 && self.shootdowns.is_empty() && !self.leaving
    }

    /// Returns one line for a failure report.
    pub fn describe(&self) -> String {
        format!(
            "{} epoch {} todo {} {:?} {:?}",
            self.id, self.epoch.0, self.todo, self.cores, self.dsm
        )
    }

    /// Does one operation.
    pub fn run(&mut self, op: Op) {
        let now = self.now;
        match op {
            Op::Poll(peer) => self.poll(peer),
            Op::Core(core) if !self.leaving => self.step(core),
            Op::Core(_) => {}
            Op::Unmapped if self.unmap_all => {
                self.unmap_all = false;
                self.drive(|dsm, out| dsm.all_unmapped(now, out));
            }
            Op::Unmapped => {
                if !self.shootdowns.is_empty() {
                    let work = self.shootdowns.remove(0);
                    self.drive(|dsm, out| dsm.unmapped(now, work, out));
                }
            }
            Op::Tick => self.drive(|dsm, out| dsm.tick(now, out)),
            Op::Learn(news, lost) => self.learn(&news, lost),
            Op::Start(news, lost, start) => {
                self.learn(&news, lost);
                (0..self.ins.len()).for_each(|peer| self.drop_mail(peer));
                (self.left, self.leaving) = (false, false);
                self.drive(|dsm, out| dsm.start(now, start, out));
            }
            Op::Leave(losses) => self.leave(&losses),
        }
    }

    fn learn(&mut self, news: &[PeerStatus], lost: bool) {
        // The words of the chip page are loaded before the memory that they announce.
        self.memory.barrier();
        for peer in news {
            let index = peer.domain.index();
            self.known[index] = (peer.epoch, peer.down.is_none());
            self.outboxes[index].start(peer.epoch);
            self.inboxes[index].start(peer.epoch);
        }
        let now = self.now;
        self.drive(|dsm, out| {
            dsm.chip(now, news, out);
            dsm.be_first(now, lost, out);
        });
    }

    fn drive<R>(
        &mut self,
        event: impl FnOnce(&mut Dsm<Vec<u64>, DOMAINS, CORES>, kernel_dsm::Out) -> R,
    ) -> R {
        let mut effects = vec![];
        let result = event(&mut self.dsm, &mut |effect| effects.push(effect));
        effects.into_iter().for_each(|effect| self.perform(effect));
        result
    }

    /// The fast path; every second time with a shootdown that completes at once.
    fn quick(&mut self, from: DomainId, epoch: Epoch, body: u64) -> bool {
        self.polls += 1;
        let mut out = Recorder { now: self.polls.is_multiple_of(2), ..Recorder::default() };
        let now = self.now;
        let done = self.dsm.handle_fast(|| now, from, epoch, body, &mut out);
        for (page, keep) in out.gone {
            self.mapped[page as usize] = (keep == Keep::Read).then_some(Rights::Read);
        }
        out.effects.into_iter().for_each(|effect| self.perform(effect));
        done
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, message } => {
                self.outboxes[to.index()].send(&self.outs[to.index()], &message);
            }
            Effect::Map { page, rights } => self.mapped[page as usize] = Some(rights),
            Effect::Unmap { page, keep, work } => {
                self.mapped[page as usize] = (keep == Keep::Read).then_some(Rights::Read);
                self.shootdowns.push(work);
            }
            Effect::UnmapAll => {
                self.mapped.fill(None);
                self.unmap_all = true;
            }
            Effect::Clean { page } => self.clean(page),
            Effect::CleanAndInvalidate { page } => {
                self.clean(page);
                self.cache[page as usize] = None;
            }
            Effect::Invalidate { page } => self.cache[page as usize] = None,
            Effect::Complete { core, result } => self.completed(core, result),
            Effect::Lost { page } => {
                // If it is leaving, not all losses are handled.
                self.settled = u64::MAX;
                self.told.extend(self.dsm.is_home().then_some(Told::Lost(page)));
            }
            Effect::Thrash { .. } => self.told.push(Told::Thrash),
            Effect::Stays => self.leaving = false,
            Effect::Left => {
                self.memory.barrier();
                self.left = true;
                self.told.push(Told::Left(self.settled));
            }
        }
    }

    fn clean(&mut self, page: Page) {
        if let Some((value, dirty)) = &mut self.cache[page as usize]
            && *dirty
        {
            *dirty = false;
            self.memory.store(data(page), *value);
        }
    }

    fn completed(&mut self, core: CoreId, result: Result<(), AccessError>) {
        let doing = &mut self.cores[core.index()];
        *doing = match (*doing, result) {
            (Doing::Waits(access), Ok(())) if access.want == Want::Device => {
                Doing::Device(access.page)
            }
            (Doing::Waits(access) | Doing::Resets(access), Ok(())) => Doing::Wants(access),
            (Doing::Waits(access), Err(AccessError::Lost)) => {
                self.told.push(Told::Failed);
                Doing::Lost(access)
            }
            (Doing::Waits(access), Err(AccessError::Device)) => Doing::Wants(access),
            (doing, result) => {
                self.told.push(Told::Broken(format!("{doing:?} ended with {result:?}")));
                Doing::Nothing
            }
        };
        if let Doing::Device(page) = *doing {
            self.transfer(page);
        }
    }

    /// The device adds 1 in memory.
    fn transfer(&mut self, page: Page) {
        let value = self.memory.load(data(page));
        self.memory.store(data(page), value + 1);
        self.memory.barrier();
        self.told.extend([Told::Saw(page, value), Told::Stored(page, value + 1)]);
    }

    fn poll(&mut self, peer: usize) {
        for _ in 0..4 {
            let body = match self.inboxes[peer].peek(&self.ins[peer]) {
                Ok(Some(body)) => body,
                Ok(None) => return,
                Err(fault) => return self.told.push(Told::Broken(format!("{peer}: {fault:?}"))),
            };
            let (from, epoch) = (DomainId(peer as u8), self.inboxes[peer].peer());
            let now = self.now;
            if self.quick(from, epoch, body) {
                self.inboxes[peer].done();
                continue;
            }
            let message = match self.inboxes[peer].message(&self.ins[peer], body) {
                Ok(message) => message,
                Err(fault) => return self.told.push(Told::Broken(format!("{peer}: {fault:?}"))),
            };
            match self.drive(|dsm, out| dsm.handle(now, from, epoch, message, out)) {
                Ok(Handled::Done) => self.inboxes[peer].done(),
                Ok(Handled::Later) => return,
                Err(fault) => {
                    let text = format!("{peer}: {fault:?} in {message:?}");
                    return self.told.push(Told::Broken(text));
                }
            }
        }
    }

    /// Drops messages sent to this kernel while it was away. The barrier makes visible what the
    /// others had sent when it read the chip page.
    fn drop_mail(&mut self, peer: usize) {
        self.ins[peer].barrier();
        while let Ok(Some(_)) = self.inboxes[peer].peek(&self.ins[peer]) {
            self.inboxes[peer].done();
        }
    }

    fn leave(&mut self, losses: &Losses) {
        if self.leaving || self.cores.iter().any(|core| matches!(core, Doing::Device(_))) {
            return;
        }
        self.settled = losses.settled_by(self.id, &self.known);
        match self.drive(|dsm, out| dsm.leave(out)) {
            Ok(()) => self.leaving = true,
            Err(LeaveError::Busy) => {}
            Err(LeaveError::LostPages) if self.cores[0] == Doing::Nothing => {
                let access = Access { page: 0, crosses: false, want: Want::Read };
                self.cores[0] = Doing::Resets(access);
                let now = self.now;
                // An error would show in the core's state.
                let _ = self.drive(|dsm, out| dsm.reset(now, CoreId(0), 0, PAGES, out));
            }
            Err(LeaveError::LostPages) => {}
        }
    }

    fn step(&mut self, core: usize) {
        match self.cores[core] {
            Doing::Nothing if self.todo > 0 => {
                self.todo -= 1;
                self.cores[core] = Doing::Wants(self.invent());
            }
            Doing::Wants(access) if self.allows(access) => {
                self.execute(access);
                self.cores[core] = Doing::Executed;
            }
            Doing::Executed => self.finish(core),
            Doing::Wants(access) => self.fault(core, access),
            Doing::Lost(access) => {
                self.cores[core] = Doing::Resets(access);
                let (now, id) = (self.now, CoreId(core as u8));
                let count = 1 + u32::from(access.crosses);
                // An error would show in the core's state.
                let _ = self.drive(|dsm, out| dsm.reset(now, id, access.page, count, out));
            }
            Doing::Device(page) => {
                let now = self.now;
                self.drive(|dsm, out| dsm.device_done(now, page, out));
                self.finish(core);
            }
            Doing::Nothing | Doing::Waits(_) | Doing::Resets(_) => {}
        }
    }

    fn finish(&mut self, core: usize) {
        self.cores[core] = Doing::Nothing;
        self.told.push(Told::Done);
        let (now, id) = (self.now, CoreId(core as u8));
        if self.prng.chance(3, 4) {
            self.drive(|dsm, out| dsm.retired(now, id, out));
        }
        if self.prng.chance(1, 8) {
            self.drive(|dsm, out| dsm.released(now, id, out));
        }
    }

    fn invent(&mut self) -> Access {
        // Few pages, on both sides of a chunk boundary at 64.
        let page = 63 - self.pages / 2 + self.prng.below(u64::from(self.pages)) as u32;
        let want = match self.prng.below(16) {
            0 => Want::Device,
            1..=7 => Want::Read,
            _ => Want::Write,
        };
        Access { page, crosses: want != Want::Device && self.prng.chance(1, 4), want }
    }

    fn allows(&self, access: Access) -> bool {
        let last = access.page + u32::from(access.crosses);
        (access.page..=last).all(|page| match self.mapped[page as usize] {
            Some(Rights::Write) => access.want != Want::Device,
            Some(Rights::Read) => access.want == Want::Read,
            None => false,
        })
    }

    fn execute(&mut self, access: Access) {
        for page in access.page..=access.page + u32::from(access.crosses) {
            let value = match self.cache[page as usize] {
                Some((value, _)) => value,
                None => self.memory.load(data(page)),
            };
            self.told.push(Told::Saw(page, value));
            let write = access.want == Want::Write;
            let line = self.cache[page as usize].get_or_insert((value, false));
            if write {
                *line = (value + 1, true);
                self.told.push(Told::Stored(page, value + 1));
            }
        }
    }

    fn fault(&mut self, core: usize, access: Access) {
        self.cores[core] = Doing::Waits(access);
        let (now, id) = (self.now, CoreId(core as u8));
        match self.drive(|dsm, out| dsm.access(|| now, id, access, out)) {
            Ok(()) => {}
            // The other core's device has the page.
            Err(AccessError::Device) => self.cores[core] = Doing::Wants(access),
            Err(error) => self.told.push(Told::Broken(format!("{access:?}: {error:?}"))),
        }
    }
}
