//! The chip as one kernel sees it: a store buffer that drains in any order, a cache of the shared
//! block that is not coherent with the others, interrupts, the timer and the clock.
//!
//! Every access between domains is a step, after which another process may have the turn, and at
//! which this kernel may be interrupted, stopped or killed.

use crate::layout::{MEMORY, cache};
use crate::raw;
use crate::report::Count;
use crate::turn::{Control, Core, PAGES, Store, control, state};
use abi::boot::BLOCK;
use arch::cpu::chip::Chip;
use arch::types::{Interrupt, Rights};
use base::addr::PAGE;
use base::id::Vector;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// State of a page of the shared block in a cache.
pub mod line {
    /// The cache has a copy.
    pub const CACHED: u8 = 1;
    /// The copy may differ from memory.
    pub const DIRTY: u8 = 2;
    /// The kernel may write to it now.
    pub const WRITABLE: u8 = 4;
}

/// A duty of the kernels that the chip ignores, as if they had forgotten it: the run must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Broken {
    /// A barrier does not order stores.
    Barrier = 1,
    /// A page that is given up is not written back.
    Clean = 2,
    /// Nor dropped from the cache.
    Invalidate = 3,
    /// Now and then a doorbell is not heard.
    Ring = 4,
    /// Not the chip but a kernel: it does not name its processes to a table that has lost its
    /// state.
    Name = 5,
    /// Now and then a file that callers share is read as it was not written.
    Read = 6,
    /// Now and then a kernel loses a message of another kernel's channels.
    Lose = 7,
    /// Or handles one twice.
    Twice = 8,
}

impl Broken {
    pub const ALL: [(&str, Broken); 8] = [
        ("barrier", Broken::Barrier),
        ("clean", Broken::Clean),
        ("invalidate", Broken::Invalidate),
        ("ring", Broken::Ring),
        ("name", Broken::Name),
        ("read", Broken::Read),
        ("lose", Broken::Lose),
        ("twice", Broken::Twice),
    ];

    pub fn is_set(self) -> bool {
        control().broken.load(Relaxed) == self as u32
    }
}

/// First bit of the doorbell vectors in `pending`; bits 0 to 3 are kinds of [`Chip::send`], bit 4
/// is the timer.
pub const DOORBELL: u32 = 8;
const TIMER: u32 = 4;
/// Bytes that a cache writes back at once.
const LINE: usize = 64;

/// The chip of the kernel in this process.
pub struct Mine {
    me: AtomicUsize,
    /// Address of the shared block; 0 until the kernel has set it up.
    block: AtomicU64,
    soc_slot: AtomicU64,
    cache: OnceLock<raw::File>,
}

pub static MINE: Mine = Mine {
    me: AtomicUsize::new(0),
    block: AtomicU64::new(0),
    soc_slot: AtomicU64::new(0),
    cache: OnceLock::new(),
};

impl Mine {
    /// Starts as domain `me`.
    pub fn start(&self, me: usize, soc_slot: u32, cache: raw::File) {
        self.me.store(me, Relaxed);
        assert!(self.cache.set(cache).is_ok(), "a process runs one kernel");
        self.soc_slot.store(soc_slot.into(), Relaxed);
    }

    fn me(&self) -> usize {
        self.me.load(Relaxed)
    }

    fn core(&self) -> &'static Core {
        &control().cores[self.me()]
    }

    /// One step: drains a store now and then, may pass the turn, and delivers interrupts.
    fn step(&self) {
        self.step_masked();
        arch::cpu::delivery::interrupt();
    }

    fn step_masked(&self) {
        let control = control();
        if control.below(4) == 0 {
            drain_one(control, self.core());
        }
        if control.below(16) == 0 {
            evict(control, self.me());
        }
        if control.step(self.me()) {
            self.pass();
        }
    }

    /// Passes the turn on, and returns when it is back.
    fn pass(&self) {
        if !control().pass(self.me()) {
            while !control().wait_for_turn(self.me()) {}
        }
    }

    /// Returns the number of the page of the shared block at `at`, a virtual address of it or of
    /// its maintenance alias.
    fn page(&self, at: u64) -> Option<usize> {
        let block = self.block.load(Relaxed);
        let offset = at.checked_sub(block)? & (abi::boot::MAINTENANCE_OFFSET - 1);
        (block != 0 && offset < BLOCK).then_some((offset / PAGE) as usize)
    }

    /// Runs `work` on the pages of `[at, at + bytes)`: state, address in this cache, address in
    /// memory.
    fn each(&self, at: usize, bytes: usize, work: impl Fn(&AtomicU8, u64, u64)) {
        let Some(first) = self.page(at as u64) else { return };
        let count = (at % PAGE as usize + bytes).div_ceil(PAGE as usize);
        for page in first..first + count {
            let offset = page as u64 * PAGE;
            work(&self.core().pages[page], cache(self.me()) + offset, MEMORY + offset);
        }
    }
}

/// The stores of a buffer that memory does not have yet.
fn waiting(core: &Core) -> impl Iterator<Item = &Store> {
    core.buffer.iter().filter(|store| store.bytes.load(Relaxed) != 0)
}

/// The same, only those to a word: the eight bytes around `at`.
fn waiting_for(core: &Core, at: u64) -> impl Iterator<Item = &Store> {
    waiting(core).filter(move |store| store.at.load(Relaxed) & !7 == at & !7)
}

fn number(store: &&Store) -> u64 {
    store.number.load(Relaxed)
}

/// Writes a random store of the buffer to memory, but none before an older one to the same word.
fn drain_one(control: &Control, core: &Core) {
    let count = waiting(core).count() as u64;
    let picked = (count != 0).then(|| control.below(count) as usize);
    let Some(picked) = picked.and_then(|picked| waiting(core).nth(picked)) else { return };
    if let Some(store) = waiting_for(core, picked.at.load(Relaxed)).min_by_key(number) {
        write(store);
    }
}

fn write(store: &Store) {
    let bytes = store.bytes.swap(0, Relaxed);
    let (at, value) = (store.at.load(Relaxed), store.value.load(Relaxed));
    control().note(at ^ value.rotate_left(32));
    raw::store(at, bytes as usize, value);
}

/// Writes all stores of the buffer to memory.
pub fn drain(core: &Core) {
    while let Some(store) = waiting(core).min_by_key(number) {
        write(store);
    }
}

/// A domain that ends loses some of its stores and some of what only its cache held.
pub fn lose(control: &Control, d: usize) {
    let core = &control.cores[d];
    while core.buffer.iter().any(|store| store.bytes.load(Relaxed) != 0) {
        match control.below(2) {
            0 => drain_one(control, core),
            _ => core.buffer.iter().for_each(|store| store.bytes.store(0, Relaxed)),
        }
    }
    for (number, page) in core.pages.iter().enumerate() {
        if page.swap(0, Relaxed) & line::DIRTY == 0 {
            continue;
        }
        let page = number as u64 * PAGE;
        for offset in (page..page + PAGE).step_by(LINE) {
            if control.below(2) == 0 {
                raw::copy(cache(d) + offset, MEMORY + offset, LINE as u64);
            }
        }
    }
}

/// A cache may write a changed page back at any time, though its kernel did not ask for it.
fn evict(control: &Control, d: usize) {
    let number = control.below(PAGES as u64);
    if control.cores[d].pages[number as usize].load(Relaxed) & line::DIRTY != 0 {
        let offset = number * PAGE;
        raw::copy(cache(d) + offset, MEMORY + offset, PAGE);
        control.counts.add(Count::Evictions, 1);
    }
}

impl Chip for Mine {
    fn load(&self, at: usize, bytes: usize) -> u64 {
        self.step();
        match waiting_for(self.core(), at as u64).max_by_key(number) {
            Some(store)
                if store.at.load(Relaxed) == at as u64
                    && store.bytes.load(Relaxed) == bytes as u64 =>
            {
                store.value.load(Relaxed)
            }
            // A part of a word that waits, or more than it.
            Some(_) => {
                drain(self.core());
                raw::load(at as u64, bytes)
            }
            None => raw::load(at as u64, bytes),
        }
    }

    fn store(&self, at: usize, bytes: usize, value: u64) {
        self.step();
        let core = self.core();
        let free = || core.buffer.iter().find(|store| store.bytes.load(Relaxed) == 0);
        while free().is_none() {
            drain_one(control(), core);
        }
        if let Some(store) = free() {
            store.at.store(at as u64, Relaxed);
            store.value.store(value, Relaxed);
            store.number.store(core.stores.fetch_add(1, Relaxed), Relaxed);
            store.bytes.store(bytes as u64, Relaxed);
        }
    }

    fn barrier(&self) {
        if !Broken::Barrier.is_set() {
            drain(self.core());
        }
        self.step();
    }

    fn ring(&self, slot: u32, vector: u32) {
        let control = control();
        drain(self.core());
        control.counts.add(Count::Doorbells, 1);
        if Broken::Ring.is_set() && control.below(8) == 0 {
            return;
        }
        if u64::from(slot) == self.soc_slot.load(Relaxed) {
            control.soc_rung.store(1, Relaxed);
        } else if let Some(core) = core_at(slot).and_then(|d| control.cores.get(d)) {
            core.pending.fetch_or(1 << (DOORBELL + vector), Relaxed);
        }
        self.step();
    }

    fn clock(&self) -> u64 {
        control().local_clock(self.me())
    }

    fn relax(&self) {
        self.step();
    }

    fn set_deadline(&self, ticks: u64) {
        self.core().pending.fetch_and(!(1 << TIMER), Relaxed);
        self.core().deadline.store(ticks, Relaxed);
    }

    fn mask(&self, vector: u8, unmasked: bool) {
        let bit = 1 << (DOORBELL + u32::from(vector));
        match unmasked {
            true => self.core().unmasked.fetch_or(bit, Relaxed),
            false => self.core().unmasked.fetch_and(!bit, Relaxed),
        };
    }

    fn send(&self, kind: u8) {
        self.core().pending.fetch_or(1 << (kind & 3), Relaxed);
    }

    fn wait(&self) {
        drain(self.core());
        self.core().state.store(state::WAITS, Relaxed);
        while control().ready(self.me()) == 0 {
            self.pass();
        }
        self.core().state.store(state::RUNS, Relaxed);
    }

    fn take(&self) -> Interrupt {
        let ready = control().ready(self.me());
        if ready == 0 {
            return Interrupt::None;
        }
        let bit = ready.trailing_zeros();
        self.core().pending.fetch_and(!(1 << bit), Relaxed);
        control().note(u64::from(bit) << 8 | self.me() as u64);
        match bit {
            0..TIMER => Interrupt::Core(bit as u8),
            TIMER => {
                self.core().deadline.store(u64::MAX, Relaxed);
                Interrupt::Timer
            }
            _ => Interrupt::Doorbell(Vector((bit - DOORBELL) as u8)),
        }
    }

    fn pages(&self, virt: u64, bytes: u64) {
        assert_eq!(bytes, BLOCK, "only the shared block has such pages");
        self.block.store(virt, Relaxed);
        let Some(cache) = self.cache.get() else { return };
        cache.map(virt, BLOCK, true);
    }

    fn set_page(&self, virt: u64, rights: Option<Rights>) {
        let Some(number) = self.page(virt) else { return };
        let page = &self.core().pages[number];
        let offset = number as u64 * PAGE;
        let mut now = page.load(Relaxed) & !line::WRITABLE;
        if rights.is_some() && now & line::CACHED == 0 {
            raw::copy(MEMORY + offset, cache(self.me()) + offset, PAGE);
            now = line::CACHED;
            control().counts.add(Count::PagesMoved, 1);
        }
        if rights == Some(Rights::ReadWrite) {
            now |= line::DIRTY | line::WRITABLE;
        }
        page.store(now, Relaxed);
        raw::protect(virt, PAGE, rights);
    }

    fn clean(&self, at: usize, bytes: usize) {
        self.each(at, bytes, |page, cached, memory| {
            let now = page.load(Relaxed);
            if now & line::DIRTY != 0 && !Broken::Clean.is_set() {
                raw::copy(cached, memory, PAGE);
            }
            if now & line::WRITABLE == 0 {
                page.store(now & !line::DIRTY, Relaxed);
            }
        });
        self.step_masked();
    }

    fn invalidate(&self, at: usize, bytes: usize) {
        if !Broken::Invalidate.is_set() {
            let drop_line =
                |page: &AtomicU8, _, _| page.store(page.load(Relaxed) & line::WRITABLE, Relaxed);
            self.each(at, bytes, drop_line);
        }
        self.step_masked();
    }

    fn put(&self, byte: u8) {
        if control().is_loud.load(Relaxed) != 0 {
            raw::say(&[byte]);
        }
    }
}

/// Returns the domain at a slot of the doorbell fabric.
fn core_at(slot: u32) -> Option<usize> {
    kernel_node::blob::get()?.domains().iter().position(|domain| domain.slot == slot)
}
