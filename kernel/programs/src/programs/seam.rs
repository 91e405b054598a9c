//! What wasmtime needs of this kernel: memory, as the [`PLATFORM`] of the engine; traps,
//! thread-local storage and locks, as functions with the names that it uses. A home of `unsafe`:
//! wasmtime calls these as C functions.
//!
//! Memory is address space of [`super::SPACES`]. It is reserved without frames, opened when a
//! program's memory grows, and committed at once for code. A lock is a word of wasmtime's. A thread
//! that waits for one sleeps, because the holder may be a preempted thread of the same core.
#![allow(unsafe_code)]

use super::{SPACES, memory};
use arch::types::Rights;
use base::addr::{PAGE, VirtAddr};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use kernel_engine::{Memory, Platform};
use kernel_sched::MAX_THREADS;
use kernel_services::kernel;

/// A buffer of whole pages, not contiguous in physical memory: an image may be too large for the
/// heap.
pub struct Buffer {
    start: VirtAddr,
    bytes: usize,
}

impl Buffer {
    /// Allocates `bytes` bytes of zeroes. Returns `None` without memory.
    pub fn new(bytes: usize) -> Option<Buffer> {
        let size = whole_pages(bytes.max(1));
        let buffer = Buffer { start: SPACES.reserve(size).ok()?, bytes };
        super::commit(buffer.start, size).ok().map(|()| buffer)
    }

    /// Returns the whole buffer, to be filled.
    pub fn fill(&mut self) -> &mut [u8] {
        // SAFETY: `new` committed these bytes for this buffer only; `drop` releases them.
        unsafe { core::slice::from_raw_parts_mut(self.start.0 as *mut u8, self.bytes) }
    }

    /// Makes the buffer read-only. `None`: there is no memory for page tables.
    pub fn freeze(self) -> Option<Frozen> {
        let bytes = whole_pages(self.bytes.max(1));
        let flush = &kernel_node::shootdown::flush_all;
        SPACES.protect(self.start, bytes, Rights::Read, memory()?, flush).ok()?;
        Some(Frozen(self))
    }
}

/// A buffer that is read-only.
pub struct Frozen(Buffer);

// SAFETY: the pages stay mapped at this address, read-only, until it is dropped.
unsafe impl Memory for Frozen {
    fn bytes(&self) -> &[u8] {
        // SAFETY: as in [`Buffer::fill`], and the pages are read-only.
        unsafe { core::slice::from_raw_parts(self.0.start.0 as *const u8, self.0.bytes) }
    }
}

/// What the engine needs.
pub const PLATFORM: Platform = Platform { publish, reserve, open, release, touch, thread, pause };

fn reserve(bytes: usize) -> Option<usize> {
    let start = SPACES.reserve(whole_pages(bytes));
    done(&start);
    start.ok().map(|start| start.0 as usize)
}

fn open(start: usize, bytes: usize) -> bool {
    done(&super::open(VirtAddr(start as u64), whole_pages(bytes)))
}

fn release(start: usize) {
    super::release(VirtAddr(start as u64));
}

fn touch(start: usize, bytes: usize) -> bool {
    super::touch_range(start as u64, bytes as u64)
}

fn thread() -> usize {
    kernel::get().map_or(0, |kernel| kernel.scheduler.current().index())
}

fn pause() {
    if let Some(kernel) = kernel::get() {
        kernel.scheduler.sleep_until(arch::time::soc_time() + AWAY_NS);
        kernel_services::idle::to_program(kernel);
    }
}

/// Makes the code of an image executable. Returns false if that fails.
fn publish(start: usize, bytes: usize) -> bool {
    // Other cores of this domain synchronize when the flush interrupts them.
    arch::cache::sync_code(start, bytes);
    let flush = &kernel_node::shootdown::flush_all;
    let protect = |from| {
        let (start, bytes) = (VirtAddr(start as u64), whole_pages(bytes));
        SPACES.protect(start, bytes, Rights::ReadExecute, from, flush)
    };
    memory().is_some_and(|from| done(&protect(from)))
}

impl Drop for Buffer {
    fn drop(&mut self) {
        super::release(self.start);
    }
}

/// Arguments: pc, frame pointer, whether there is a fault address, that address.
type TrapHandler = extern "C" fn(usize, usize, bool, usize);

static HANDLER: AtomicUsize = AtomicUsize::new(0);
/// How often wasmtime was refused memory. Its error for that is only a text.
static REFUSALS: AtomicUsize = AtomicUsize::new(0);

/// Returns how often wasmtime was refused memory. If the number has changed during a call that
/// failed, the call failed for lack of memory.
pub fn refusals() -> usize {
    REFUSALS.load(Ordering::Relaxed)
}

/// For each thread, the word of wasmtime's thread-local storage.
static OWN: [AtomicUsize; MAX_THREADS] = [const { AtomicUsize::new(0) }; MAX_THREADS];

/// Returns whether it is done. Counts a refusal.
fn done<T, E>(result: &Result<T, E>) -> bool {
    if result.is_err() {
        REFUSALS.fetch_add(1, Ordering::Relaxed);
    }
    result.is_ok()
}

fn whole_pages(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(PAGE)
}

#[unsafe(no_mangle)]
extern "C" fn wasmtime_init_traps(handler: TrapHandler) -> i32 {
    HANDLER.store(handler as usize, Ordering::Release);
    0
}

/// Continues a program that has faulted: calls wasmtime's handler, which unwinds to where wasmtime
/// entered the program and does not return.
pub extern "C" fn trapped(pc: usize, fp: usize, has_address: usize, address: usize) {
    super::Trace::note(pc as u64, fp as u64);
    let handler = HANDLER.load(Ordering::Acquire);
    if handler != 0 {
        // SAFETY: `wasmtime_init_traps` stored a function of this type.
        let handler = unsafe { core::mem::transmute::<usize, TrapHandler>(handler) };
        handler(pc, fp, has_address != 0, address);
    }
    panic!("a program faulted at {pc:#x} ({address:#x}), where wasmtime expects no fault");
}

fn own() -> Option<&'static AtomicUsize> {
    OWN.get(kernel::get()?.scheduler.current().index())
}

#[unsafe(no_mangle)]
extern "C" fn wasmtime_tls_get(_: usize) -> *mut u8 {
    own().map_or(0, |word| word.load(Ordering::Relaxed)) as *mut u8
}

#[unsafe(no_mangle)]
extern "C" fn wasmtime_tls_set(_: usize, value: *mut u8) {
    if let Some(word) = own() {
        word.store(value as usize, Ordering::Relaxed);
    }
}

/// Value of a lock word that a writer holds. 0 is free; other values count readers.
const WRITER: usize = usize::MAX;
/// Polling interval of a thread that waits for a lock.
const AWAY_NS: u64 = 20_000;

/// Waits until `take` has taken the lock.
///
/// # Safety
/// `lock` must point to a word that only these functions access while the lock is in use.
unsafe fn until(lock: *mut usize, mut take: impl FnMut(&AtomicUsize) -> bool) {
    // SAFETY: the caller's obligation.
    let word = unsafe { AtomicUsize::from_ptr(lock) };
    while !take(word) {
        pause();
    }
}

fn write(word: &AtomicUsize) -> bool {
    word.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

fn read(word: &AtomicUsize) -> bool {
    let one_more = |readers| if readers < WRITER - 1 { Some(readers + 1) } else { None };
    word.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).is_ok()
}

macro_rules! locks {
    ($($name:ident: $word:ident => $does:expr;)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($word: *mut usize) {
            // SAFETY: wasmtime passes the lock's own word, which exists while the lock is in use.
            unsafe { $does };
        }
    )* };
}

locks! {
    wasmtime_sync_lock_acquire: lock => until(lock, write);
    wasmtime_sync_lock_release: lock => AtomicUsize::from_ptr(lock).store(0, Ordering::Release);
    wasmtime_sync_rwlock_read: lock => until(lock, read);
    wasmtime_sync_rwlock_read_release:
        lock => AtomicUsize::from_ptr(lock).fetch_sub(1, Ordering::Release);
    wasmtime_sync_rwlock_write: lock => until(lock, write);
    wasmtime_sync_rwlock_write_release:
        lock => AtomicUsize::from_ptr(lock).store(0, Ordering::Release);
}

#[unsafe(no_mangle)]
extern "C" fn wasmtime_sync_lock_free(_: *mut usize) {}

#[unsafe(no_mangle)]
extern "C" fn wasmtime_sync_rwlock_free(_: *mut usize) {}

/// A value that no frame contains by chance.
const MARK: u64 = 0x57ac_0ff5_e77e_d00d;

/// Returns the words of the first `bytes` bytes of a stack.
fn words<'a>(start: VirtAddr, bytes: u64) -> &'a [AtomicU64] {
    // SAFETY: `super::stack` has committed these bytes, and releases them after the use of this.
    unsafe { core::slice::from_raw_parts(start.0 as *const AtomicU64, bytes as usize / 8) }
}

/// Marks the first `bytes` bytes of an unused stack.
pub fn mark(start: VirtAddr, bytes: u64) {
    words(start, bytes).iter().for_each(|word| word.store(MARK, Ordering::Relaxed));
}

/// Returns how many bytes from the start on, of `bytes`, still have the mark.
pub fn marked(start: VirtAddr, bytes: u64) -> u64 {
    let is_marked = |word: &&AtomicU64| word.load(Ordering::Relaxed) == MARK;
    words(start, bytes).iter().take_while(is_marked).count() as u64 * 8
}

/// Calls `entry(argument)` on the stack whose end is `top`. All of it must be mapped, down to a
/// guard.
pub fn on_stack(top: VirtAddr, entry: extern "C" fn(usize), argument: usize) {
    // SAFETY: `super::stack` owns the stack until this returns, and the page below it is not open.
    unsafe { arch::context::on_stack(top.0 as usize, entry, argument) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_excludes_all_others_and_readers_exclude_writers() {
        let word = AtomicUsize::new(0);
        assert!(write(&word));
        assert!(!write(&word) && !read(&word));
        // SAFETY: the word is this test's own.
        unsafe { wasmtime_sync_rwlock_write_release(word.as_ptr()) };
        assert!(read(&word) && read(&word));
        assert!(!write(&word), "two readers have it");
        // SAFETY: as above.
        unsafe { wasmtime_sync_rwlock_read_release(word.as_ptr()) };
        assert!(!write(&word), "one reader has it");
        // SAFETY: as above.
        unsafe { wasmtime_sync_rwlock_read_release(word.as_ptr()) };
        assert!(write(&word));
    }

    #[test]
    fn the_last_possible_reader_does_not_become_a_writer() {
        let word = AtomicUsize::new(WRITER - 2);
        assert!(read(&word));
        assert!(!read(&word));
        assert_eq!(word.into_inner(), WRITER - 1);
    }
}
