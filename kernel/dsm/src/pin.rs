//! Pins: why a page that was just granted stays for a while.
//!
//! ```text
//!            grant            access complete         retired and held long enough,
//!   (none) --------> open ---------------------> set --------------------------> (none)
//!                     |                            retired and lock released,
//!                     +--> (none): access failed   or the limit has passed
//! ```
//! `open` lasts while the access still waits for its second page, and no time ends it: what it
//! waits for is bounded by others' pins, in ascending order of pages. The next access of the core
//! shows that the instruction before it has retired or was interrupted; either way its pins need
//! nothing but their hold time any more, so an interrupt handler never waits for a page with an
//! unretired one in its hand.
//!
//! Bound: [`PINS`] a core. When a new one finds no room, the one that would end first goes.

use crate::word::{Keep, Page};

/// Most pins of a core: two for an access that crosses, the rest for hold times.
pub const PINS: usize = 4;

/// One pinned page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pin {
    page: Page,
    write: bool,
    open: bool,
    retired: bool,
    hold: u64,
    limit: u64,
}

impl Pin {
    fn end(&self) -> u64 {
        match (self.open, self.retired) {
            (true, _) => u64::MAX,
            (false, false) => self.limit.max(self.hold),
            (false, true) => self.hold,
        }
    }

    fn is_over(&self, now: u64) -> bool {
        now >= self.end()
    }
}

/// The pins of one core.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Pins([Option<Pin>; PINS]);

impl Pins {
    /// Pins `page` for the access under way.
    pub fn open(&mut self, page: Page, write: bool) {
        let free = (0..PINS)
            .min_by_key(|&i| self.0[i].map_or(0, |pin| 1 + pin.end().min(u64::MAX - 1)))
            .unwrap_or(0);
        let pin = Pin { page, write, open: true, retired: false, hold: 0, limit: 0 };
        self.0[free] = Some(pin);
    }

    /// The access under way is complete: it holds until `hold`, unretired until `limit`.
    pub fn set(&mut self, hold: u64, limit: u64) {
        for pin in self.0.iter_mut().flatten().filter(|pin| pin.open) {
            (pin.open, pin.hold, pin.limit) = (false, hold, limit);
        }
    }

    /// The access under way failed.
    pub fn drop_open(&mut self) {
        self.keep(|pin| !pin.open);
    }

    /// The instruction has retired.
    pub fn retire(&mut self, now: u64) {
        self.0.iter_mut().flatten().filter(|pin| !pin.open).for_each(|pin| pin.retired = true);
        self.expire(now);
    }

    /// The service lock was released: hold times are over.
    pub fn release(&mut self, now: u64) {
        self.0.iter_mut().flatten().for_each(|pin| pin.hold = 0);
        self.expire(now);
    }

    /// Forgets pins whose time is over.
    pub fn expire(&mut self, now: u64) {
        self.keep(|pin| !pin.is_over(now));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0 = [None; PINS];
    }

    /// Until when does a pin stand against taking all but `keep` of `page`?
    pub fn until(&self, page: Page, keep: Keep) -> Option<u64> {
        let against = |pin: &&Pin| pin.page == page && (pin.write || keep == Keep::Nothing);
        self.0.iter().flatten().filter(against).map(Pin::end).max()
    }

    fn keep(&mut self, stays: impl Fn(&Pin) -> bool) {
        for slot in &mut self.0 {
            *slot = slot.filter(|pin| stays(pin));
        }
    }
}
