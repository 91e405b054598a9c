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
use zerocopy::{FromBytes, IntoBytes};

/// Words of a page.
const WORDS: usize = PAGE as usize / size_of::<u64>();

/// Returns the start of the rest in a carrier, after the program's memory.
fn after(memory: u64) -> u64 {
    memory.next_multiple_of(PAGE)
}

/// Returns zeros for this many bytes. `None` without memory.
fn zeros(bytes: usize) -> Option<Vec<u64>> {
    let (count, mut words) = (bytes.div_ceil(size_of::<u64>()), Vec::new());
    words.try_reserve_exact(count).ok()?;
    words.resize(count, 0);
    Some(words)
}

/// Copies the used pages of a program's memory, and the rest, for another kernel. `None` without
/// memory for that.
pub fn pack(platform: &'static Platform, memory: &[u8], rest: &[u8]) -> Option<LentMemory> {
    let carrier = LentMemory::new(platform)?;
    let start = memory.as_ptr() as u64;
    let is_used = |page: usize| arch::probe::load(start + page as u64 * PAGE).is_some();
    let pages = <[u64]>::ref_from_bytes(memory).ok()?.chunks(WORDS).enumerate();
    let is_packed = pages
        .filter(|(page, _)| is_used(*page))
        .all(|(page, words)| carrier.write(page as u64 * PAGE, words));
    let (first, mut words) = (after(memory.len() as u64), zeros(rest.len())?);
    words.as_mut_bytes()[..rest.len()].copy_from_slice(rest);
    let mut pages = words.chunks(WORDS).zip(0..);
    let is_whole =
        is_packed && pages.all(|(words, page)| carrier.write(first + page * PAGE, words));
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
    let length = length.ok_or(Errno::Io)?;
    let (first, mut words) = (after(head.memory), zeros(length).ok_or(Errno::Nomem)?);
    for (words, page) in words.chunks_mut(WORDS).zip(0..) {
        let at = first.checked_add(page * PAGE).ok_or(Errno::Io)?;
        carrier.read(at, words).ok_or(Errno::Io)?.then_some(()).ok_or(Errno::Nomem)?;
    }
    let rest = Rest::decode(&words.as_bytes()[..length]).ok_or(Errno::Io)?;
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
        let Ok(words) = <[u64]>::mut_from_bytes(memory) else { return false };
        let mut pages = words.chunks_mut(WORDS).zip(0..);
        let is_read =
            pages.all(|(words, page)| self.carrier.read(page * PAGE, words) != Some(false));
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
    /// Copies words to the start of a page, which is reserved and mapped. Returns false without
    /// memory for it.
    fn write(&self, at: u64, words: &[u64]) -> bool {
        let page = self.address(at);
        if !self.open(at, at + PAGE) || !self.fault(page) {
            return false;
        }
        let to = self.words(page).iter();
        to.zip(words).for_each(|(to, word)| to.store(*word, Ordering::Relaxed));
        true
    }

    /// Copies the start of a page. `None`: there is none; `Some(false)`: it cannot be mapped.
    fn read(&self, at: u64, into: &mut [u64]) -> Option<bool> {
        if !self.peek(at)? {
            return Some(false);
        }
        let from = self.words(self.address(at));
        into.iter_mut().zip(from).for_each(|(to, word)| *to = word.load(Ordering::Relaxed));
        Some(true)
    }

    fn address(&self, at: u64) -> VirtAddr {
        VirtAddr((self.start() as u64).saturating_add(at))
    }
}
