//! Reports to the soc of waits that last too long, and answers to its demands: words of this
//! domain's page and of the chip page (`abi::hang`).

use crate::soc::Soc;
use abi::boot::MAX_CORES;
use abi::hang::{
    Blame, Item, Wait, pack_answer, pack_wait, unpack_answer, unpack_demand, unpack_wait,
};
use abi::lock::{LOCKS, LockWord};
use abi::soc::{DomainPage, DomainStatus};
use arch::shared::Window;
use base::id::{CoreId, DomainId};
use base::port::Words;
use core::mem::offset_of;

impl Soc {
    fn wait_of(core: CoreId, field: usize) -> usize {
        offset_of!(DomainPage, waits) + core.index() % MAX_CORES * size_of::<Wait>() + field
    }

    /// Reports, or reports again, that `core`, the calling one, waits for `item`. `locks` are the
    /// locks between domains that it has; `suspect` holds up a page.
    pub fn report_wait(&self, core: CoreId, locks: u64, item: Item, suspect: DomainId) {
        let [locks_at, beat_at, what_at] =
            [offset_of!(Wait, locks), offset_of!(Wait, beat), offset_of!(Wait, what)]
                .map(|field| Self::wait_of(core, field));
        let beat = self.own(beat_at).wrapping_add(1);
        self.set_own(locks_at, locks);
        self.set_own(beat_at, beat);
        if unpack_wait(self.own(what_at)) != Some((item, suspect.0)) {
            self.window().barrier(); // the soc sees the words before the one that makes them valid
            self.set_own(what_at, pack_wait(beat as u32, item, suspect.0));
            self.window().barrier(); // and that before the doorbell
            self.ring();
        }
    }

    /// Reports that `core`, the calling one, does not wait any more.
    pub fn withdraw_wait(&self, core: CoreId) {
        self.set_own(Self::wait_of(core, offset_of!(Wait, what)), 0);
    }

    /// Returns the number and the item of a demand that has not been answered.
    pub fn demand(&self) -> Option<(u32, Item)> {
        let (number, item) = self.last_demand()?;
        let answered = unpack_answer(self.own(offset_of!(DomainPage, answer))).0;
        (number != answered).then_some((number, item))
    }

    /// Returns the number and the item of the last demand.
    pub fn last_demand(&self) -> Option<(u32, Item)> {
        unpack_demand(self.status_of_me(offset_of!(DomainStatus, demand)))
    }

    /// Returns this domain's word of a lock between domains.
    pub fn own_lock(&self, number: usize) -> LockWord {
        LockWord(self.own(offset_of!(DomainPage, locks) + 8 * (number % LOCKS)))
    }

    /// Returns this domain's words of all locks between domains.
    pub fn own_locks(&self) -> Window {
        self.own_part(offset_of!(DomainPage, locks), 8 * LOCKS)
    }

    /// Answers the demand `number`.
    pub fn answer_demand(&self, number: u32, blame: Blame) {
        self.set_own(offset_of!(DomainPage, answer), pack_answer(number, blame));
    }
}
