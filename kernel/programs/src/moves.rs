//! A process on its way to another kernel, as bytes in memory that both can map
//! (docs/design/moves.md). The steps of a move are in `processes::moves`.
//!
//! ```text
//!   origin:       pack: frames of coherent blocks --> written back
//!   destination:  unpack: mapped, copied, unmapped     origin: freed
//! ```
//! Contract: one kernel at a time uses the frames: the origin until it has packed, then the
//! destination, until the process table has the outcome. Pages that the program has not used are
//! not passed on. The bytes come from another kernel, so they may be anything.

mod rest;

use crate::lights::memory::LentMemory;
use abi::moves::Departed;
use abi::process::Errno;
use abi::soc::state;
use alloc::vec::Vec;
use base::addr::{PAGE, VirtAddr};
use base::id::DomainId;
use core::sync::atomic::Ordering;
use kernel_engine::{Arrival, Lent};
use kernel_platform::Platform;
pub use rest::{Held, Rest};
use zerocopy::FromBytes;

/// Returns the start of the rest in a carrier, after the program's memory.
fn after(memory: u64) -> u64 {
    memory.next_multiple_of(PAGE)
}

/// Copies the used pages of a program's memory, and the rest, for another kernel. `None` without
/// memory for that.
pub fn pack(platform: &'static Platform, memory: &[u8], rest: &[u8]) -> Option<LentMemory> {
    let carrier = LentMemory::new(platform)?;
    let start = memory.as_ptr() as u64;
    let is_used = |page: usize| arch::probe::load(start + page as u64 * PAGE).is_some();
    let pages = memory.chunks(PAGE as usize).enumerate();
    let is_packed = pages
        .filter(|(page, _)| is_used(*page))
        .all(|(page, bytes)| carrier.write(page as u64 * PAGE, bytes));
    let first = after(memory.len() as u64);
    let is_whole = is_packed
        && rest
            .chunks(PAGE as usize)
            .zip(0..)
            .all(|(bytes, page)| carrier.write(first + page * PAGE, bytes));
    (is_whole && carrier.give()).then_some(carrier)
}

/// A process that has come from another kernel, in that one's frames.
pub struct Arrived {
    carrier: LentMemory,
    head: Departed,
    pub rest: Rest,
}

/// Maps the frames of a process that comes from another kernel, and reads the rest. `Nomem`: they
/// could not be mapped; `Io`: they are damaged.
pub fn unpack(platform: &'static Platform, head: &Departed) -> Result<Arrived, Errno> {
    let carrier = LentMemory::join(platform, head.book).ok_or(Errno::Nomem)?;
    if !carrier.take() {
        return Err(Errno::Nomem);
    }
    let length = usize::try_from(head.rest).ok().filter(|&length| length <= rest::MOST);
    let (first, mut bytes) = (after(head.memory), Vec::new());
    bytes.try_reserve_exact(length.ok_or(Errno::Io)?).map_err(|_| Errno::Nomem)?;
    bytes.resize(head.rest as usize, 0);
    for (bytes, page) in bytes.chunks_mut(PAGE as usize).zip(0..) {
        let at = first.checked_add(page * PAGE).ok_or(Errno::Io)?;
        carrier.read(at, bytes).ok_or(Errno::Io)?.then_some(()).ok_or(Errno::Nomem)?;
    }
    let rest = Rest::decode(&bytes).ok_or(Errno::Io)?;
    Ok(Arrived { carrier, head: *head, rest })
}

impl Arrival for Arrived {
    fn unwound(&self) -> &kernel_engine::Unwound {
        &self.rest.unwound
    }

    fn bytes(&self) -> u64 {
        self.head.memory
    }

    /// A page that did not come is as in a new instance: the program has not used it.
    fn fill(&self, memory: &mut [u8]) -> bool {
        let mut pages = memory.chunks_mut(PAGE as usize).zip(0..);
        let is_read =
            pages.all(|(bytes, page)| self.carrier.read(page * PAGE, bytes) != Some(false));
        // If the origin has died meanwhile, others may have written its frames.
        is_read && self.origin_lives()
    }
}

impl Arrived {
    fn origin_lives(&self) -> bool {
        let platform = self.carrier.platform();
        let (epoch, code) = platform.soc.state(DomainId(self.head.kernel as u8));
        epoch == u64::from(self.head.epoch) && !state::is_over(code)
    }
}

impl LentMemory {
    /// Copies bytes to the start of a page, which is reserved and mapped. Returns false without
    /// memory for it.
    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let page = self.address(at);
        if !self.open(at, at + PAGE) || !self.fault(page) {
            return false;
        }
        let words = self.words(page);
        if let Ok(whole) = <[u64]>::ref_from_bytes(bytes) {
            words.iter().zip(whole).for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
            return true;
        }
        let (whole, last) = bytes.as_chunks();
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if let (Some(word), false) = (words.get(whole.len()), last.is_empty()) {
            let mut value = [0; 8];
            value[..last.len()].copy_from_slice(last);
            word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
        }
        true
    }

    /// Copies the start of a page. `None`: there is none; `Some(false)`: it cannot be mapped.
    fn read(&self, at: u64, into: &mut [u8]) -> Option<bool> {
        if !self.peek(at)? {
            return Some(false);
        }
        let words = self.words(self.address(at));
        if let Ok(whole) = <[u64]>::mut_from_bytes(into) {
            whole.iter_mut().zip(words).for_each(|(to, word)| *to = word.load(Ordering::Relaxed));
            return Some(true);
        }
        let (whole, last) = into.as_chunks_mut();
        for (word, bytes) in words.iter().zip(whole.iter_mut()) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        if let Some(word) = words.get(whole.len()) {
            let value = word.load(Ordering::Relaxed).to_ne_bytes();
            last.copy_from_slice(&value[..last.len()]);
        }
        Some(true)
    }

    fn address(&self, at: u64) -> VirtAddr {
        VirtAddr((self.start() as u64).saturating_add(at))
    }
}
