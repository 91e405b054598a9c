//! The turn of one process between two kernels: connects one [`side`](super::side) to threads,
//! memory and notices.
//!
//! ```text
//!                  enter                    decide: granted, memory away
//!   thread: outside -----> waits for its turn ---------------------------> fetches the memory
//!              ^              | granted, memory here                             |
//!              +--- leave --- inside <-------------------------------------------+
//! ```
//! Contract: a notice that gives the turn away is sent only while the memory is Away, and a thread
//! is inside only while it is Here. Nothing waits under the lock of a turn, which the handler of
//! notices takes, in any context.

use super::memory::LentMemory;
use super::side::{Memory, Message, Next, Passing, Role, Side};
use super::waits::Waits;
use abi::light::{LightNotice, notice};
use abi::soc::state;
use alloc::sync::Arc;
use arch::lock::{Lock, Once};
use arch::time::soc_time;
use base::id::{DomainId, Epoch};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use kernel_engine::Region;
use kernel_light::{Place, ToLight};
use kernel_node::{ranks, shootdown};
use kernel_platform::Platform;
use kernel_platform::peers::Procedure;
use kernel_process::{Interrupted, Process};
use kernel_sched::WaitQueue;
use kernel_services::idle;
use zerocopy::IntoBytes;

/// The least time between two openings, for each page that was mapped before the first one: about
/// ten times what it takes to write one back. Not a multiple of the time that passed: that would
/// count what else the core did.
const PAGE_NS: u64 = 50_000;
/// When a notice is sent again that found no room in the ring.
const AGAIN_NS: u64 = 300_000;

/// The turn of a process.
pub struct Turn {
    pub pid: u32,
    /// The other kernel.
    pub peer: DomainId,
    pub memory: Arc<LentMemory>,
    pub(super) side: Lock<Side>,
    /// Threads that wait for their turn, or for the end of all threads.
    pub(super) changed: WaitQueue,
    region: Once<Arc<Region>>,
    process: Once<Arc<Process>>,
    same: Same,
    pub(super) waits: Waits,
    /// Turns that have begun here.
    turns: AtomicU32,
    /// Pages that had been mapped when the last one was passed on.
    passed: AtomicU64,
}

/// When the book and the table of this kernel last had the same descriptors. Used by the thread
/// that moves the memory.
#[derive(Default)]
struct Same {
    /// Of the book; 0: never.
    version: AtomicU64,
    /// Of the table.
    changes: AtomicU64,
}

impl Same {
    fn is_version(&self, version: u64) -> bool {
        self.version.load(Ordering::Relaxed) == version
    }

    fn has_changed(&self, changes: u64) -> bool {
        self.is_version(0) || self.changes.load(Ordering::Relaxed) != changes
    }

    fn set(&self, version: u64, changes: u64) {
        self.version.store(version, Ordering::Relaxed);
        self.changes.store(changes, Ordering::Relaxed);
    }
}

/// Number of turns whose light threads must leave.
static STOPPING: AtomicU32 = AtomicU32::new(0);
/// Where the thread waits that tends the turns, and whether there is something to do.
pub static KEEPER: WaitQueue = WaitQueue::new();
static NEWS: AtomicBool = AtomicBool::new(false);

/// Wakes the thread that tends the turns. From any context.
pub fn wake_keeper(platform: &Platform) {
    NEWS.store(true, Ordering::Release);
    KEEPER.wake_all(&platform.scheduler);
}

/// Returns whether there was something to do since the last call.
pub fn has_news() -> bool {
    NEWS.swap(false, Ordering::AcqRel)
}

/// Returns whether light threads of this kernel must leave. In any context.
#[inline]
pub fn any_must_leave() -> bool {
    STOPPING.load(Ordering::Relaxed) != 0
}

impl Turn {
    /// The turn of a new process, which has it.
    pub fn strong(pid: u32, peer: DomainId, memory: LentMemory) -> Turn {
        Turn::new((pid, peer), memory, Side::strong())
    }

    /// The turn of a process of kernel `peer`, in its life `epoch`.
    pub fn weak(pid: u32, (peer, epoch): (DomainId, Epoch), memory: LentMemory) -> Turn {
        Turn::new((pid, peer), memory, Side::weak(epoch))
    }

    fn new((pid, peer): (u32, DomainId), memory: LentMemory, side: Side) -> Turn {
        Turn {
            pid,
            peer,
            memory: Arc::new(memory),
            side: Lock::new(ranks::TURN, side),
            changed: WaitQueue::new(),
            region: Once::new(),
            process: Once::new(),
            same: Same::default(),
            waits: Waits::new(),
            turns: AtomicU32::new(0),
            passed: AtomicU64::new(0),
        }
    }

    /// Sets the region in the memory.
    pub fn set_region(&self, region: &Arc<Region>) {
        let _ = self.region.set(region.clone());
    }

    pub fn region(&self) -> Option<&Arc<Region>> {
        self.region.get()
    }

    /// Sets the process whose descriptors have a turn.
    pub fn set_process(&self, process: &Arc<Process>) {
        let _ = self.process.set(process.clone());
    }

    pub fn is_weak(&self) -> bool {
        self.side.lock().is_weak()
    }

    /// Enters: waits until this kernel has the turn and the memory is here.
    pub fn enter(
        &self,
        platform: &Platform,
        thread: Place,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), Interrupted> {
        let asked = self.side.lock().ask(thread);
        if let Some(message) = asked {
            self.send(platform, message);
            self.look_at_rest(platform);
        }
        let mut next = Next::Wait;
        platform.scheduler.wait(&self.changed, || {
            next = self.side.lock().decide(thread, is_over());
            next != Next::Wait
        });
        match next {
            Next::Inside => Ok(()),
            Next::Fetch if self.fetch(platform) => Ok(()),
            _ => {
                self.leave(platform, thread);
                Err(Interrupted)
            }
        }
    }

    /// Leaves, from inside or while it waits.
    pub fn leave(&self, platform: &Platform, thread: Place) {
        if self.side.lock().leave(thread, soc_time()) {
            wake_keeper(platform);
        }
    }

    /// Brings the memory and the descriptors here. Returns false if they are damaged; then the
    /// process ends.
    #[cold]
    fn fetch(&self, platform: &Platform) -> bool {
        self.turns.fetch_add(1, Ordering::Relaxed);
        // Polling for messages after each lock would take most of the time.
        idle::to_program(platform);
        let is_whole = self.memory.take() && self.load();
        if !is_whole {
            kernel_node::log!("process {}: what the other kernel left of it is damaged", self.pid);
        }
        self.has_moved(platform, Memory::Here, is_whole);
        is_whole
    }

    /// Records where the memory is now. If it is not whole, the process must end.
    fn has_moved(&self, platform: &Platform, memory: Memory, is_whole: bool) {
        let mut side = self.side.lock();
        side.memory = memory;
        side.is_broken |= !is_whole;
        drop(side);
        self.changed.wake_all(&platform.scheduler);
        if !is_whole {
            wake_keeper(platform);
        }
    }

    fn load(&self) -> bool {
        let state = self.memory.state();
        let is_valid = self.region.get().is_none_or(|region| region.resized(state.bytes()));
        is_valid && self.load_descriptors()
    }

    /// Loads the descriptors, if the other kernel has stored others.
    pub(super) fn load_descriptors(&self) -> bool {
        let Some(process) = self.process.get() else { return true };
        if self.same.is_version(self.memory.state().version()) {
            return true;
        }
        let length = self.memory.state().descriptors_length();
        let bytes = self.memory.state_for(length).and_then(|state| state.descriptors());
        let is_loaded = bytes.is_some_and(|bytes| process.table().load(&bytes).is_ok());
        if is_loaded {
            self.same.set(self.memory.state().version(), process.table().changes());
        }
        is_loaded
    }

    /// Stores the descriptors, if they have changed.
    fn save_descriptors(&self) -> bool {
        let Some(process) = self.process.get() else { return true };
        let changes = process.table().changes();
        if !self.same.has_changed(changes) {
            return true;
        }
        let is_saved = process.table().save().is_ok_and(|bytes| {
            let state = self.memory.state_for(bytes.len());
            state.is_some_and(|state| state.set_descriptors(&bytes))
        });
        if is_saved {
            self.same.set(self.memory.state().version(), changes);
        }
        is_saved
    }

    /// Puts memory and descriptors away, which this caller has made go. Returns whether the other
    /// kernel can use them; if not, the process ends.
    pub(super) fn put_away(&self, platform: &Platform) -> bool {
        idle::to_program(platform);
        // What could not be loaded is not saved.
        let is_known = !self.side.lock().is_broken;
        let saved = is_known && self.save_descriptors();
        let is_whole = self.memory.give() && saved;
        if !is_whole {
            kernel_node::log!("process {}: it cannot be passed to the other kernel", self.pid);
        }
        self.has_moved(platform, Memory::Away, is_whole);
        is_whole
    }

    fn send(&self, platform: &Platform, message: Message) {
        let notice = message.notice(self.pid);
        match message {
            Message::To(ToLight::Suspend(_)) => self.post(platform, notice),
            _ => self.notify_peer(platform, notice),
        }
    }

    fn post(&self, platform: &Platform, notice: LightNotice) {
        while !platform.peers.notify(self.peer, Procedure::Light, notice.as_bytes()) {
            platform.scheduler.sleep_until(soc_time() + AGAIN_NS);
        }
    }

    /// Sends a notice, without loss, and wakes the other kernel if it is stopped.
    pub fn notify_peer(&self, platform: &Platform, notice: LightNotice) {
        self.post(platform, notice);
        platform.peers.wake_sleeper(platform, self.peer);
    }

    /// After a Suspend: a kernel that rests has stopped its light threads and written back what
    /// they used. One that is stopped otherwise has not.
    fn look_at_rest(&self, platform: &Platform) {
        if platform.soc.state(self.peer).1 != state::RESTING {
            return platform.peers.wake_sleeper(platform, self.peer);
        }
        if let Role::Strong(gate) = &mut self.side.lock().role {
            gate.peer_rests(soc_time());
        }
        self.changed.wake_all(&platform.scheduler);
    }

    /// Handles a notice of the other kernel. From any context.
    pub(super) fn hear(&self, platform: &Platform, notice: &LightNotice) {
        match notice.kind {
            notice::NOTIFY => self.waits.notified(platform, notice.value as usize),
            notice::ENDED => {
                self.side.lock().ended.get_or_insert((notice.value, notice.other));
                wake_keeper(platform);
            }
            _ => {
                self.change(|side| side.hear(notice, soc_time()));
                self.changed.wake_all(&platform.scheduler);
                wake_keeper(platform);
            }
        }
    }

    /// Changes the side. If light threads must leave from now on, interrupts the cores.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Side) -> R) -> R {
        let mut side = self.side.lock();
        let before = side.is_stopping();
        let result = change(&mut side);
        match (before, side.is_stopping()) {
            (false, true) => STOPPING.fetch_add(1, Ordering::AcqRel),
            (true, false) => STOPPING.fetch_sub(1, Ordering::AcqRel),
            _ => return result,
        };
        drop(side);
        if !before {
            shootdown::interrupt_other_cores();
        }
        result
    }

    /// Does what is due: passes the turn on if it is time to, or if it was asked for. Returns when
    /// it is due again. By one thread at a time.
    pub fn tend(&self, platform: &Platform) -> Option<u64> {
        if self.side.lock().is_closing() {
            self.look_at_rest(platform);
        }
        let opened = self.side.lock().open(soc_time());
        if let Some(passing) = opened {
            self.pass(platform, passing);
        }
        let stopping = self.side.lock().begin_to_stop();
        if let Some(passing) = stopping {
            self.pass(platform, passing);
            let message = self.change(Side::stopped);
            message.into_iter().for_each(|message| self.send(platform, message));
        }
        let (due, is_stopping) = {
            let side = self.side.lock();
            (side.due(soc_time()), side.is_stopping())
        };
        if is_stopping {
            // An interrupt in a call of a thread does not make it leave.
            shootdown::interrupt_other_cores();
        }
        due
    }

    /// Puts the memory away, if it goes, and sends the message. The next opening has to wait, so
    /// that a process does not keep the kernel busy with its turns.
    fn pass(&self, platform: &Platform, Passing { message, goes }: Passing) {
        if goes && !self.put_away(platform) {
            return;
        }
        let moved = self.memory.moved();
        let pages = moved - self.passed.swap(moved, Ordering::Relaxed);
        self.side.lock().not_before = soc_time().saturating_add(pages.saturating_mul(PAGE_NS));
        message.into_iter().for_each(|message| self.send(platform, message));
    }

    /// Prepares a rest of this kernel: passes the turn on, or puts the memory away. Returns false
    /// if the kernel must not rest yet.
    pub fn rest(&self, platform: &Platform) -> bool {
        let prepared = self.side.lock().rest();
        match prepared {
            Ok(Some(passing)) => {
                self.pass(platform, passing);
                true
            }
            prepared => prepared.is_ok(),
        }
    }

    /// Returns whether nothing of the memory is in this kernel's caches that the other one needs.
    pub fn is_away(&self) -> bool {
        self.side.lock().is_away()
    }

    /// Returns a description: side, state, light threads, where the memory is, turns, pages.
    pub fn describe(&self, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        let side = self.side.lock();
        let (turns, moved) = (self.turns.load(Ordering::Relaxed), self.memory.moved());
        let role = if side.is_weak() { "weak" } else { "strong" };
        let Side { memory, threads, inside, is_over, .. } = *side;
        drop(side);
        let over = if is_over { ", over" } else { "" };
        writeln!(
            out,
            "process {}: {role} side, memory {memory:?}, {threads} light threads ({inside} \
             inside), {turns} turns, {moved} pages{over}",
            self.pid
        )
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.side.lock().is_stopping() {
            STOPPING.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
