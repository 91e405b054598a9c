//! This kernel's balloon: connects `kernel_mem`'s balloon and its manager to the page table, the
//! caches, threads and peers. A balloon moves memory blocks between this kernel and a pool that all
//! kernels share (docs/design/memory.md).
//!
//! ```text
//!  memory short, a peer dies     +---------+  Deflate, Inflate   +---------+
//!  -----------------> thread --> | manager | ------------------> | balloon |
//!  a peer asks -> its handler -> |         |  Ask, Answer        +---------+
//!                                +---------+ --> peers
//! ```
//! The manager is stepped by this kernel's balloon thread, and by the handler of a peer's request,
//! which waits for the answer. Only the thread asks peers. While it waits for a peer, the manager
//! refuses requests of peers, so two kernels that ask each other do not deadlock.
//!
//! The thread sleeps until there is an event, so a balloon does not wake an idle kernel.

mod coherent;

use crate::peers::{Peers, Procedure, Terms};
use abi::boot::{BLOCK, Blob, MAX_DOMAINS, role};
use abi::memory::{BLOCKS_LOCK, BlockPage};
use abi::soc::state;
use alloc::collections::VecDeque;
use arch::domain_lock::DomainLock;
use arch::exclusion::Exclusion;
use arch::lock::Lock;
use arch::shared::Window;
use base::addr::{PAGE, PhysAddr};
use base::id::{CoreId, DomainId, Epoch};
use base::port::{Cache, Exclusive, Trace, Words};
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use kernel_mem::balloon::{Balloon, Machine, Refusal, ReturnedBlock};
use kernel_mem::blocks::{Blocks, End, Lives};
use kernel_mem::frames::span::FRAMES as BLOCK_FRAMES;
use kernel_mem::manager::{Action, Event, Limits, Manager, Sample};
use kernel_mem::mapping;
use kernel_msg::Level;
use kernel_node::Node;
use kernel_node::memory::{FRAMES, SPACES, TABLE};
use kernel_node::movable;
use kernel_node::soc::Soc;
use kernel_sched::WaitQueue;

/// A peer that does not answer for this long counts as refusing.
const PATIENCE_NS: u64 = 10_000_000_000;

/// A kernel requests a block when less than 8 MiB is free. It releases a block only if 16 MiB stay
/// free.
const LIMITS: Limits = Limits {
    low: BLOCK_FRAMES / 2,
    reserve: BLOCK_FRAMES,
    hold_ns: 2_000_000_000,
    retry_ns: (50_000_000, 3_200_000_000),
};

/// The manager's answers to a peer's request.
const UNKNOWN: u64 = 0;
const REFUSED: u64 = 1;
const GIVEN: u64 = 2;

/// The balloon of this kernel.
pub struct Balloons {
    balloon: Balloon<Window>,
    table: Window,
    lock: Exclusion<()>,
    manager: Lock<Manager>,
    /// A transfer of a block is in progress.
    busy: AtomicBool,
    /// For each peer, the answer to its request for a block.
    answers: [AtomicU64; MAX_DOMAINS],
    answered: WaitQueue,
    /// There is an event for the thread.
    news: AtomicBool,
    /// A domain died.
    died: AtomicBool,
    /// For each domain, the lowest epoch that was not over when the chip page was last read.
    floors: [AtomicU32; MAX_DOMAINS],
    wake_at: AtomicU64,
    woken: WaitQueue,
}

/// Reads from the chip page which lives of domains are over.
struct Chip<'a>(&'a Soc);

impl Lives for Chip<'_> {
    fn floor(&self, domain: DomainId) -> u32 {
        let (epoch, state) = self.0.state(domain);
        // Epochs have 16 bits in words. After the last one they repeat, and no life counts as over.
        u32::from(epoch as u16) + u32::from(state::is_over(state))
    }
}

/// Why no block was transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another transfer is in progress.
    Busy,
    Refused(Refusal),
}

/// Returns the base of the board's global region, its number of blocks, and the memory range of the
/// frame allocator's tags for it, which follows the image.
pub fn place(blob: &Blob, image_end: PhysAddr) -> Option<(PhysAddr, usize, (PhysAddr, PhysAddr))> {
    let global = mapping::global(blob)?;
    let count = (global.size / BLOCK) as usize;
    let tags = PhysAddr(image_end.0.next_multiple_of(PAGE));
    let bytes = kernel_mem::frames::FrameAllocator::tag_frames(count) * PAGE;
    blob.local_region(tags.0, bytes)?;
    Some((PhysAddr(global.base), count, (tags, tags.plus(bytes))))
}

/// Returns the end of the global region from which this kernel takes blocks: the low end for main,
/// whose local memory is next to it.
pub fn end(blob: &Blob, me: DomainId) -> End {
    let main = blob.domains().get(me.index()).is_some_and(|domain| domain.role == role::MAIN);
    if main { End::Low } else { End::High }
}

impl Balloons {
    /// Creates the balloon; `None` on a board without a global region.
    pub fn new(blob: &Blob, me: DomainId, epoch: Epoch) -> Option<Balloons> {
        let global = mapping::global(blob)?;
        let bytes = (size_of::<BlockPage>() * MAX_DOMAINS) as u64;
        let table = Window::uncached(blob, PhysAddr(blob.window.blocks), bytes)?;
        let count = (global.size / BLOCK) as usize;
        let between = DomainLock::of(blob, me, BLOCKS_LOCK)?;
        let blocks = Blocks::new(table, me, epoch, blob.domains().len(), count);
        Some(Balloons {
            balloon: Balloon::new(blocks, PhysAddr(global.base), end(blob, me)),
            table,
            lock: Exclusion::new(kernel_node::ranks::BLOCKS, Some(between), ()),
            manager: Lock::new(kernel_node::ranks::BALLOON, Manager::new(me, LIMITS)),
            busy: AtomicBool::new(false),
            answers: [const { AtomicU64::new(UNKNOWN) }; MAX_DOMAINS],
            answered: WaitQueue::new(),
            news: AtomicBool::new(false),
            died: AtomicBool::new(false),
            // Lives start with epoch 1.
            floors: [const { AtomicU32::new(1) }; MAX_DOMAINS],
            wake_at: AtomicU64::new(u64::MAX),
            woken: WaitQueue::new(),
        })
    }

    /// Returns the balloon without its manager.
    pub fn pure(&self) -> &Balloon<Window> {
        &self.balloon
    }

    /// Returns the number of free blocks, which may change at any time.
    pub fn pool(&self, node: &Node) -> usize {
        let blocks = self.balloon.blocks();
        let free = |index: &usize| {
            blocks.state(*index, &Chip(node.soc)) == kernel_mem::blocks::State::Free
        };
        (0..blocks.count()).filter(free).count()
    }

    /// Returns the state of a block.
    pub fn state(&self, node: &Node, index: usize) -> kernel_mem::blocks::State {
        self.balloon.blocks().state(index, &Chip(node.soc))
    }

    /// Takes a block from the pool. Returns its index.
    pub fn deflate(&self, node: &'static Node) -> Result<usize, Failure> {
        let _alone = self.begin()?;
        let machine = Hardware { node, lock: &self.lock };
        let taken = self.balloon.deflate(FRAMES.buddy(), &machine);
        node.trace.event("deflate", u64::from(taken.is_ok()), taken.unwrap_or(0) as u64);
        taken.map_err(Failure::Refused)
    }

    /// Returns a block to the pool.
    pub fn inflate(&self, node: &'static Node) -> Result<ReturnedBlock, Failure> {
        let _alone = self.begin()?;
        let machine = Hardware { node, lock: &self.lock };
        let given = self.balloon.inflate(FRAMES.buddy(), &machine, &mut movable::Owner);
        let index = given.map_or(0, |given| given.index);
        node.trace.event("inflate", u64::from(given.is_ok()), index as u64);
        given.map_err(Failure::Refused)
    }

    fn begin(&self) -> Result<Alone<'_>, Failure> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(Failure::Busy);
        }
        Ok(Alone(&self.busy))
    }

    /// Wakes the balloon's thread. Called when memory is short, by the hook that a core runs after
    /// it has released its locks, and when a domain has died.
    pub fn pressed(&self, node: &Node) {
        self.news.store(true, Ordering::Release);
        self.woken.wake_all(&node.scheduler);
    }

    /// Wakes the thread if a life of a domain has ended. Called when the chip page has changed.
    pub fn look_at_chip(&self, node: &Node) {
        for (domain, seen) in self.floors[..node.blob.domains().len()].iter().enumerate() {
            let floor = Chip(node.soc).floor(DomainId(domain as u8));
            if seen.fetch_max(floor, Ordering::AcqRel) < floor {
                self.died.store(true, Ordering::Release);
                self.pressed(node);
            }
        }
    }

    /// The body of the balloon's thread; does not return.
    pub fn keep(&self, node: &'static Node, peers: &Peers) {
        self.look_at_chip(node);
        loop {
            if self.died.swap(false, Ordering::AcqRel) {
                self.recover(node, peers);
            }
            self.wake_at.store(u64::MAX, Ordering::Relaxed);
            self.run(node, peers, self.sample(node));
            self.publish(node);
            let at = self.wake_at.load(Ordering::Relaxed);
            let deadline = (at != u64::MAX).then_some(at);
            // While the thread waits for its next round of requests, allocations must not wake it.
            let waits = deadline.is_some() && FRAMES.buddy().free_frames() < LIMITS.low;
            FRAMES.buddy().set_low(if waits { 0 } else { LIMITS.low });
            let news = || self.news.swap(false, Ordering::AcqRel);
            node.scheduler.wait_until(&self.woken, deadline, news);
        }
    }

    /// Passes a peer's request for a block to the manager, and waits for its answer. Returns
    /// whether a block was released.
    fn asked(&self, node: &'static Node, peers: &Peers, peer: DomainId) -> bool {
        let Some(answer) = self.answers.get(peer.index()) else { return false };
        answer.store(UNKNOWN, Ordering::Release);
        // No sample: the manager might react by asking a peer, which only the thread may do.
        self.run(node, peers, Event::Asked(peer, unpromised()));
        let is_known = || answer.load(Ordering::Acquire) != UNKNOWN;
        node.scheduler.wait(&self.answered, is_known);
        answer.load(Ordering::Acquire) == GIVEN
    }

    /// Executes [`Procedure::GiveBlock`] and returns the reply.
    pub fn give_block(&self, node: &'static Node, peers: &Peers, peer: DomainId) -> [u8; 8] {
        let answer = if self.asked(node, peers, peer) { GIVEN } else { REFUSED };
        answer.to_le_bytes()
    }

    /// Asks the other running kernels, one after the other, to give a block to the pool. Returns
    /// whether one did. The caller must be a thread and hold no lock.
    pub fn ask_peers(&self, node: &Node, peers: &Peers) -> bool {
        // A sleeping kernel is not woken for a block.
        let mut awake = node.others().filter(|&peer| node.soc.state(peer).1 == state::RUNNING);
        awake.any(|peer| ask(node, peers, peer))
    }

    fn sample(&self, node: &Node) -> Event {
        let mut spare = [None; MAX_DOMAINS];
        for (index, slot) in spare[..node.blob.domains().len()].iter_mut().enumerate() {
            let (epoch, now) = node.soc.state(DomainId(index as u8));
            // A sleeping peer is not woken for a block.
            if index != node.me.index() && now == state::RUNNING {
                let word = self.table.load(spare_word(index));
                *slot = Some(if word >> 48 == epoch & 0xffff { word as u32 } else { 0 });
            }
        }
        Event::Sampled(Sample { free: unpromised(), pool: self.pool(node), spare })
    }

    /// Publishes for the peers how many frames this kernel can spare.
    fn publish(&self, node: &Node) {
        let spare = self.manager.lock().spare(unpromised());
        let word = u64::from(node.epoch.0) << 48 | u64::from(spare);
        self.table.store(spare_word(node.me.index()), word);
    }

    /// Passes an event to the manager, performs its actions, and passes their results back to it,
    /// until there are no more.
    fn run(&self, node: &'static Node, peers: &Peers, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = arch::time::soc_time();
            let actions = self.manager.lock().step(now, event);
            for action in actions.iter() {
                events.extend(self.act(node, peers, action));
            }
        }
    }

    fn act(&self, node: &'static Node, peers: &Peers, action: Action) -> Option<Event> {
        match action {
            Action::Deflate => Some(Event::Deflated(self.deflate(node).is_ok())),
            Action::Inflate => Some(Event::Inflated(self.inflate(node).is_ok())),
            Action::Ask(peer) => Some(Event::Answered(peer, ask(node, peers, peer))),
            Action::Answer(peer, gave) => {
                let answer = if gave { GIVEN } else { REFUSED };
                self.answers[peer.index()].store(answer, Ordering::Release);
                self.answered.wake_all(&node.scheduler);
                None
            }
            Action::WakeAt(at) => {
                self.wake_at.store(at, Ordering::Relaxed);
                None
            }
        }
    }

    fn recover(&self, node: &'static Node, peers: &Peers) {
        let machine = Hardware { node, lock: &self.lock };
        let freed = self.balloon.recover(&Chip(node.soc), &machine);
        if freed > 0 {
            node.trace.event("blocks freed", freed as u64, 0);
        }
        for peer in (0..node.blob.domains().len() as u8).map(DomainId) {
            let (_, now) = node.soc.state(peer);
            let gone = state::is_over(now) || state::has_left(now) || now == state::BOOTING;
            if peer != node.me && gone {
                self.run(node, peers, Event::Lost(peer));
                // The handler of this peer's request must not wait for the manager any more.
                self.answers[peer.index()].store(REFUSED, Ordering::Release);
                self.answered.wake_all(&node.scheduler);
            }
        }
    }
}

/// Returns the number of free frames that are not promised to a program.
fn unpromised() -> usize {
    let promised = SPACES.promised().div_ceil(PAGE) as usize;
    FRAMES.buddy().free_frames().saturating_sub(promised)
}

/// Guard of a transfer: there is one at a time.
struct Alone<'a>(&'a AtomicBool);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn spare_word(domain: usize) -> usize {
    domain * size_of::<BlockPage>() + offset_of!(BlockPage, spare)
}

/// Asks a peer to return a block to the pool. Returns whether it did.
fn ask(node: &Node, peers: &Peers, peer: DomainId) -> bool {
    let terms = Terms { level: Level(0), patience: Some(PATIENCE_NS) };
    let mut answer = [0; 8];
    let called = peers.call(node, terms, peer, Procedure::GiveBlock, &[], &mut answer);
    called == Ok(8) && u64::from_le_bytes(answer) == GIVEN
}

/// The balloon's access to this kernel.
struct Hardware<'a> {
    node: &'static Node,
    lock: &'a Exclusion<()>,
}

impl Cache for Hardware<'_> {
    fn clean(&self, start: usize, bytes: usize) {
        arch::cache::clean(start, bytes);
    }
    fn invalidate(&self, start: usize, bytes: usize) {
        arch::cache::invalidate(start, bytes);
    }
    fn clean_invalidate(&self, start: usize, bytes: usize) {
        arch::cache::clean_invalidate(start, bytes);
    }
}

impl Machine for Hardware<'_> {
    fn map(&self, block: PhysAddr) -> bool {
        let Some(table) = TABLE.get() else { return false };
        mapping::map_block(&mut table.lock(), &FRAMES, block).is_ok()
    }

    fn unmap(&self, block: PhysAddr) -> bool {
        let Some(table) = TABLE.get() else { return false };
        let unmapped = table.lock().unmap(block.to_virt(), BLOCK).is_ok();
        kernel_node::shootdown::flush_all(block.to_virt(), BLOCK);
        unmapped
    }

    fn empty_caches(&self) {
        let scheduler = &self.node.scheduler;
        if self.node.domain().cores == 1 {
            return kernel_node::memory::flush_core();
        }
        for core in 0..self.node.domain().cores as usize {
            // What a core that is off keeps stays there; its block is then refused.
            if !kernel_node::shootdown::is_online(core) {
                continue;
            }
            let core = Some(CoreId(core as u8));
            let flush = |_| kernel_node::memory::flush_core();
            if let Ok(thread) = self.node.spawn("caches", core, flush, 0) {
                scheduler.join(thread);
            }
        }
    }

    fn alone(&self, act: &mut dyn FnMut()) {
        self.node.scheduler.unpreempted(|| self.lock.exclusively(|()| act()));
    }
}

/// Returns whether free memory has fallen below the limit since the last call.
pub fn was_pressed() -> bool {
    FRAMES.buddy().was_pressed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::boot::{NOBODY, Region, kind};
    use std::boxed::Box;

    const LOCAL: (u64, u64) = (0x8000_0000, 4 << 20);
    const GLOBAL: u64 = 0x9000_0000;

    /// A board with a global region of two blocks.
    fn blob() -> Box<Blob> {
        let mut blob: Box<Blob> = Box::new(zerocopy::FromZeros::new_zeroed());
        let regions = [
            Region { base: LOCAL.0, size: LOCAL.1, kind: kind::LOCAL, owner: 0 },
            Region { base: GLOBAL, size: 2 * BLOCK, kind: kind::GLOBAL, owner: NOBODY },
        ];
        blob.regions[..2].copy_from_slice(&regions);
        blob.region_count = 2;
        blob
    }

    #[test]
    fn tags_of_the_global_region_follow_the_image() {
        let blob = blob();
        let image_end = PhysAddr(LOCAL.0 + 0x1234);
        let (base, count, (start, end)) = place(&blob, image_end).unwrap();
        assert_eq!((base, count), (PhysAddr(GLOBAL), 2));
        assert_eq!(start, PhysAddr(LOCAL.0 + 0x2000));
        assert!(end.is_aligned(PAGE) && end > start && end.0 < LOCAL.0 + LOCAL.1);
    }

    #[test]
    fn a_board_without_room_for_the_tags_has_no_global_memory() {
        let blob = blob();
        assert!(place(&blob, PhysAddr(LOCAL.0 + LOCAL.1)).is_none());
    }
}
