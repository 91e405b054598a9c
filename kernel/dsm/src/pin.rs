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
pub struct Pins {
    pins: [Option<Pin>; PINS],
    /// How many there are: mostly none.
    count: u8,
}

impl Pins {
    /// Is nothing pinned?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Pins `page` for the access under way.
    pub fn open(&mut self, page: Page, write: bool) {
        self.put(Pin { page, write, open: true, retired: false, hold: 0, limit: 0 });
    }

    /// [`Pins::open`] and [`Pins::set`] at once, while nothing is open.
    pub fn add(&mut self, page: Page, write: bool, hold: u64, limit: u64) {
        self.put(Pin { page, write, open: false, retired: false, hold, limit });
    }

    #[inline]
    fn put(&mut self, pin: Pin) {
        let rank = |at: &usize| self.pins[*at].map_or(0, |pin| 1 + pin.end().min(u64::MAX - 1));
        let free = if self.count == 0 { 0 } else { (0..PINS).min_by_key(rank).unwrap_or(0) };
        self.count += u8::from(self.pins[free].replace(pin).is_none());
    }

    /// The access under way is complete: it holds until `hold`, unretired until `limit`.
    pub fn set(&mut self, hold: u64, limit: u64) {
        for pin in self.pins.iter_mut().flatten().filter(|pin| pin.open) {
            (pin.open, pin.hold, pin.limit) = (false, hold, limit);
        }
    }

    /// The access under way failed.
    pub fn drop_open(&mut self) {
        self.keep(|pin| !pin.open);
    }

    /// The instruction has retired.
    pub fn retire(&mut self, now: u64) {
        self.change(now, |pin| pin.retired |= !pin.open);
    }

    /// The service lock was released: hold times are over.
    pub fn release(&mut self, now: u64) {
        self.change(now, |pin| pin.hold = 0);
    }

    /// Forgets pins whose time is over.
    pub fn expire(&mut self, now: u64) {
        self.change(now, |_| ());
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Pins::default();
    }

    /// Until when does a pin stand against taking all but `keep` of `page`?
    pub fn until(&self, page: Page, keep: Keep) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let against = |pin: &&Pin| pin.page == page && (pin.write || keep == Keep::Nothing);
        self.pins.iter().flatten().filter(against).map(Pin::end).max()
    }

    #[inline]
    fn change(&mut self, now: u64, change: impl Fn(&mut Pin)) {
        if self.count > 0 {
            self.pins.iter_mut().flatten().for_each(change);
            self.keep(|pin| !pin.is_over(now));
        }
    }

    fn keep(&mut self, stays: impl Fn(&Pin) -> bool) {
        for slot in &mut self.pins {
            *slot = slot.filter(|pin| stays(pin));
        }
        self.count = self.pins.iter().flatten().count() as u8;
    }
}
