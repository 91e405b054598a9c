//! The memory of one process that runs on two kernels in turn, as this kernel sees it.
//!
//! ```text
//!   take: map the book --> the turn: a fault maps its page --> give: unmap all, then write it back
//! ```
//! Contract: [`LentMemory::take`] and [`LentMemory::give`] alternate, and the turn protocol keeps
//! the other kernel away from one to the other. While the memory is here, its pages are mapped when
//! they are touched; a page that was not touched costs nothing at the end. Frames are reserved when
//! the memory grows, so a fault never lacks one, and are cleared when they are touched first.
//!
//! A frame belongs to the kernel that reserved it, which frees it when neither kernel uses the
//! process's memory any more: when this value is dropped, which its users order.

use super::book::{State, roots};
use super::{frames, raw};
use abi::light::{BOOK_PAGES, ENTRIES, FRESH, TABLES, state};
use abi::memory::MAX_BLOCKS;
use abi::program::engine::{GUARD, RESERVATION};
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::lock::Lock;
use arrayvec::ArrayVec;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel_engine::Lent;
use kernel_mem::coherent::FRAMES as FRAMES_OF_BLOCK;
use kernel_mem::spaces::PageSource;
use kernel_node::memory::{FRAMES, SPACES, TABLE};
use kernel_node::{ranks, shootdown};
use kernel_platform::Platform;

/// Pages that are unmapped before one flush.
const BATCH: usize = 64;
/// Attempts to reserve frames.
const TRIES: usize = 3;
/// The page of the book's space at which a frame is cleared, after the tables.
const SCRATCH: usize = BOOK_PAGES + TABLES;
/// Words of a set of the pages of one table.
const WORDS: usize = ENTRIES / 64;

/// A table of this turn: which of its pages are mapped.
type Mapped = Option<Box<[u64; WORDS]>>;

struct Here {
    is: bool,
    /// Blocks that were found to be coherent, by their index. They stay so as long as the process
    /// has frames of them.
    known: u128,
    /// By the number of the table. Those of this turn are mapped, in the book.
    tables: Vec<Mapped>,
}

pub struct LentMemory {
    platform: &'static Platform,
    tag: u32,
    memory: VirtAddr,
    book: VirtAddr,
    /// Frames of the book's first pages.
    pages: [u32; BOOK_PAGES],
    here: Lock<Here>,
    /// Pages that were mapped, in all turns.
    moved: AtomicU64,
}

fn source() -> Option<PageSource<'static>> {
    Some(PageSource { table: TABLE.get()?, frames: &FRAMES })
}

impl LentMemory {
    /// Makes the memory of a new process, which is here. `None` without memory.
    pub fn new(platform: &'static Platform) -> Option<LentMemory> {
        if !frames::ensure(platform, BOOK_PAGES) {
            return None;
        }
        let mut memory = LentMemory::join(platform, [0; BOOK_PAGES])?;
        // From here on it is unmapped when it is dropped.
        memory.here.lock().is = true;
        for page in 0..BOOK_PAGES {
            memory.pages[page] = frames::allocate(memory.tag)?;
            let at = memory.book.plus(page as u64 * PAGE);
            let is_mapped = memory.map(&mut memory.here.lock(), at, memory.pages[page]);
            if !is_mapped {
                return None;
            }
            raw::clear(at);
        }
        Some(memory)
    }

    /// Makes a view of the memory of another kernel's process, which is there. `pages` are the
    /// frames of its book.
    pub fn join(platform: &'static Platform, pages: [u32; BOOK_PAGES]) -> Option<LentMemory> {
        let memory = SPACES.reserve(RESERVATION + GUARD).ok()?;
        let Ok(book) = SPACES.reserve((SCRATCH as u64 + 1) * PAGE) else {
            SPACES.release(memory, source()?, &shootdown::flush_all);
            return None;
        };
        let (tag, moved) = (frames::tag(), AtomicU64::new(0));
        let here = Lock::new(ranks::LENT, Here { is: false, known: 0, tables: Vec::new() });
        Some(LentMemory { platform, tag, memory, book, pages, here, moved })
    }

    /// Returns the frames of the book's first pages.
    pub fn pages(&self) -> [u32; BOOK_PAGES] {
        self.pages
    }

    /// Returns whether `address` is in the space of the memory.
    pub fn holds(&self, address: VirtAddr) -> bool {
        (self.memory.0..self.memory.0 + RESERVATION + GUARD).contains(&address.0)
    }

    /// Returns the state in the book. The memory is here.
    pub fn state(&self) -> State<'_> {
        State::of(self.book)
    }

    /// The same, to be used for this many bytes of descriptors. `None` without memory for that.
    pub fn state_for(&self, descriptors: usize) -> Option<State<'_>> {
        let pages = (state::TABLE + descriptors).div_ceil(PAGE as usize).min(BOOK_PAGES);
        let mut here = self.here.lock();
        let mut more = (1..pages).map(|page| (self.book.plus(page as u64 * PAGE), page));
        // A page that is mapped already stays so.
        more.all(|(at, page)| self.map(&mut here, at, self.pages[page])).then(|| self.state())
    }

    /// Returns how many pages were mapped, in all turns.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Maps a frame. Returns false without memory, or if there is no such frame.
    fn map(&self, here: &mut Here, at: VirtAddr, frame: u32) -> bool {
        let block = frame as usize / FRAMES_OF_BLOCK;
        let is_known = block < MAX_BLOCKS && here.known & 1 << block != 0;
        if !is_known && !frames::is_usable(self.platform, frame) {
            return false;
        }
        here.known |= 1 << block;
        let address = frames::address(self.platform, frame);
        let (Some(address), Some(from)) = (address, source()) else { return false };
        SPACES.map_frame(at, address, from).is_ok()
    }

    /// Maps a frame that no program has used yet, as [`LentMemory::map`]. It is cleared first,
    /// where no program sees it: another thread may use the page as soon as it is mapped.
    fn map_fresh(&self, here: &mut Here, at: VirtAddr, frame: u32) -> bool {
        let scratch = self.book.plus(SCRATCH as u64 * PAGE);
        if !self.map(here, scratch, frame) {
            return false;
        }
        raw::clear(scratch);
        // On this core; no other one has used the mapping.
        let unmapped = source().and_then(|from| SPACES.unmap_frame(scratch, from));
        let is_mapped = unmapped.is_some() && self.map(here, at, frame);
        if !is_mapped && let Some(frame) = unmapped {
            // Nothing else writes its zeros back.
            frames::clean(frame);
        }
        is_mapped
    }

    fn table_at(&self, table: usize) -> VirtAddr {
        self.book.plus((BOOK_PAGES + table) as u64 * PAGE)
    }

    /// Makes sure that a table is there, and returns its entries.
    fn table(&self, here: &mut Here, table: usize) -> Option<&[AtomicU32; ENTRIES]> {
        if here.tables.len() <= table {
            here.tables.try_reserve(table + 1 - here.tables.len()).ok()?;
            here.tables.resize_with(table + 1, || None);
        }
        let at = self.table_at(table);
        if here.tables[table].is_none() {
            let root = roots(self.book).get(table)?;
            let known = root.load(Ordering::Relaxed).checked_sub(1);
            let frame = known.or_else(|| frames::allocate(self.tag))?;
            if !self.map(here, at, frame) {
                return None;
            }
            here.tables[table] = Some(Box::new([0; WORDS]));
            if known.is_none() {
                raw::clear(at);
                root.store(frame + 1, Ordering::Relaxed);
            }
        }
        Some(raw::entries(at))
    }

    /// Handles a fault in the memory: maps the page. Returns false if it is not open, or not here.
    pub fn fault(&self, address: VirtAddr) -> bool {
        let Some(offset) = address.0.checked_sub(self.memory.0) else { return false };
        let (page, at) = ((offset / PAGE) as usize, VirtAddr(address.0 & !(PAGE - 1)));
        let (table, index) = (page / ENTRIES, page % ENTRIES);
        let mut here = self.here.lock();
        if !here.is || offset >= self.state().bytes() {
            return false;
        }
        let (word, bit) = (index / 64, 1 << (index % 64));
        if let Some(Some(mapped)) = here.tables.get(table)
            && mapped[word] & bit != 0
        {
            // By another core, since the fault.
            return true;
        }
        // It was reserved with the pages.
        let has_table =
            roots(self.book).get(table).is_some_and(|it| it.load(Ordering::Relaxed) != 0);
        let entries = if has_table { self.table(&mut here, table) } else { None };
        let Some(entry) = entries.map(|entries| &entries[index]) else { return false };
        let value = entry.load(Ordering::Relaxed);
        let Some(frame) = (value & !FRESH).checked_sub(1) else { return false };
        let is_fresh = value & FRESH != 0;
        let map = if is_fresh { Self::map_fresh } else { Self::map };
        if !map(self, &mut here, at, frame) {
            return false;
        }
        if is_fresh {
            entry.store(value & !FRESH, Ordering::Relaxed);
        }
        if let Some(Some(mapped)) = here.tables.get_mut(table) {
            mapped[word] |= bit;
        }
        self.moved.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Maps the page at `at` for reading, if it has been used. `None` if it has not; `Some(false)`:
    /// it could not be mapped. Changes nothing in the book.
    pub fn peek(&self, at: u64) -> Option<bool> {
        let (table, index) = ((at / PAGE) as usize / ENTRIES, (at / PAGE) as usize % ENTRIES);
        let mut here = self.here.lock();
        if !here.is || at >= self.state().bytes() {
            return None;
        }
        // A table that is there is not allocated.
        let root = roots(self.book).get(table)?;
        if root.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let Some(entries) = self.table(&mut here, table) else { return Some(false) };
        let value = entries[index].load(Ordering::Relaxed);
        let frame = value.checked_sub(1).filter(|_| value & FRESH == 0)?;
        let page = VirtAddr(self.memory.0 + at);
        let is_mapped = self.map(&mut here, page, frame);
        if is_mapped && let Some(Some(mapped)) = here.tables.get_mut(table) {
            mapped[index / 64] |= 1 << (index % 64);
        }
        Some(is_mapped)
    }

    /// Returns the words of a page that is mapped, and stays so as long as they are used.
    pub fn words(&self, page: VirtAddr) -> &[AtomicU64] {
        raw::words(page, 1)
    }

    pub fn platform(&self) -> &'static Platform {
        self.platform
    }

    /// Begins this kernel's turn. Returns false without memory for it, or if the book is damaged.
    pub fn take(&self) -> bool {
        let mut here = self.here.lock();
        here.is = self.map(&mut here, self.book, self.pages[0]);
        here.is
    }

    /// Ends this kernel's turn: no thread uses the memory any more. Returns false without memory
    /// for page tables: what is in the caches does not reach the other kernel.
    pub fn give(&self) -> bool {
        let tables = {
            let mut here = self.here.lock();
            if !core::mem::replace(&mut here.is, false) {
                return true;
            }
            core::mem::take(&mut here.tables)
        };
        let used = tables.iter().enumerate();
        let used = used.flat_map(|(table, mapped)| self.used(table, mapped.as_deref()));
        let book = (0..BOOK_PAGES as u64).map(|page| self.book.plus(page * PAGE));
        unmap(used.chain(book))
    }

    /// Returns the pages of a table that are mapped, and the table.
    fn used<'a>(
        &self,
        table: usize,
        mapped: Option<&'a [u64; WORDS]>,
    ) -> impl Iterator<Item = VirtAddr> + use<'a> {
        let first = self.memory.plus((table * ENTRIES) as u64 * PAGE);
        let own = mapped.map(|_| self.table_at(table));
        let words = mapped.into_iter().flat_map(|mapped| mapped.iter().enumerate());
        let pages = words.flat_map(|(word, &bits)| Bits(bits).map(move |bit| 64 * word + bit));
        pages.map(move |page| first.plus(page as u64 * PAGE)).chain(own)
    }
}

/// The bits that are set in a word, from the lowest.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit as usize)
    }
}

/// Unmaps pages on all cores, and writes them back. They are in two spaces, so each flush is of all
/// entries.
fn unmap(pages: impl Iterator<Item = VirtAddr>) -> bool {
    let from = |at| source().and_then(|from| SPACES.unmap_frame(at, from));
    let (mut frames, mut is_clean) = (pages.filter_map(from), true);
    loop {
        let taken: ArrayVec<PhysAddr, BATCH> = frames.by_ref().take(BATCH).collect();
        if taken.is_empty() {
            return is_clean;
        }
        shootdown::flush_all(VirtAddr(0), u64::MAX);
        is_clean &= taken.iter().all(|&frame| frames::clean(frame));
    }
}

impl Lent for LentMemory {
    fn start(&self) -> usize {
        self.memory.0 as usize
    }

    /// By a thread that has entered. Of what is reserved first, another process may take some.
    fn open(&self, from: u64, to: u64) -> bool {
        (0..TRIES).any(|_| self.reserve(from, to))
    }
}

impl LentMemory {
    /// Reserves frames for new pages. Those of an attempt that has failed are used by the next one.
    fn reserve(&self, from: u64, to: u64) -> bool {
        let (first, last) = ((from / PAGE) as usize, (to / PAGE) as usize);
        if last > TABLES * ENTRIES {
            return false;
        }
        let tables = last.div_ceil(ENTRIES) - first / ENTRIES;
        if !frames::ensure(self.platform, last - first + tables) {
            return false;
        }
        for page in first..last {
            let mut here = self.here.lock();
            if !here.is {
                return false;
            }
            let Some(table) = self.table(&mut here, page / ENTRIES) else { return false };
            let entry = &table[page % ENTRIES];
            if entry.load(Ordering::Relaxed) == 0 {
                let Some(frame) = frames::allocate(self.tag) else { return false };
                entry.store(FRESH | (frame + 1), Ordering::Relaxed);
            }
        }
        let here = self.here.lock();
        if here.is {
            self.state().set_bytes(to);
        }
        here.is
    }
}

impl Drop for LentMemory {
    fn drop(&mut self) {
        self.give();
        if let Some(from) = source() {
            SPACES.release(self.memory, from, &shootdown::flush_all);
            SPACES.release(self.book, from, &shootdown::flush_all);
        }
        frames::free_all(self.platform, self.tag);
    }
}
