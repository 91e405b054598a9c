//! Pins: they keep a granted page for a while, so that the access for which it was requested can
//! use it.
//!
//! ```text
//!            grant            access complete         retired and hold time over,
//!   (none) --------> open ---------------------> set --------------------------> (none)
//!                     |                            retired and lock released,
//!                     +--> (none): access failed   or limit passed
//! ```
//! A pin stays open while its access waits for a second page. Nothing limits that time but the
//! other cores' pins: pages are requested in ascending order, so the waiting is bounded. A new
//! access of the core shows that the previous instruction has retired or was interrupted; either
//! way its pins now end after their hold time. So an interrupt handler never waits for a page while
//! its core pins one for an unretired instruction.
//!
//! Bound: [`PINS`] per core. A new pin without room replaces the one that would end first.

use crate::types::{Keep, Page};

/// Limit on pins per core: two for a crossing access, the rest for hold times.
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
    /// Number of pins, nearly always 0.
    count: u8,
}

impl Pins {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Pins `page` for the access in progress.
    pub fn open(&mut self, page: Page, write: bool) {
        self.put(Pin { page, write, open: true, retired: false, hold: 0, limit: 0 });
    }

    /// Does the same as [`Pins::open`] followed by [`Pins::set`], if no pin is open.
    pub fn add(&mut self, page: Page, write: bool, hold: u64, limit: u64) {
        self.put(Pin { page, write, open: false, retired: false, hold, limit });
    }

    #[inline]
    fn put(&mut self, pin: Pin) {
        let rank = |at: &usize| self.pins[*at].map_or(0, |pin| 1 + pin.end().min(u64::MAX - 1));
        let free = if self.count == 0 { 0 } else { (0..PINS).min_by_key(rank).unwrap_or(0) };
        self.count += u8::from(self.pins[free].replace(pin).is_none());
    }

    /// Completes the access in progress: its pins end at `hold`, or at `limit` while unretired.
    pub fn set(&mut self, hold: u64, limit: u64) {
        for pin in self.pins.iter_mut().flatten().filter(|pin| pin.open) {
            (pin.open, pin.hold, pin.limit) = (false, hold, limit);
        }
    }

    /// Removes the pins of an access that failed.
    pub fn drop_open(&mut self) {
        self.keep(|pin| !pin.open);
    }

    /// Marks the last instruction as retired.
    pub fn retire(&mut self, now: u64) {
        self.change(now, |pin| pin.retired |= !pin.open);
    }

    /// Ends hold times, because the service lock was released.
    pub fn release(&mut self, now: u64) {
        self.change(now, |pin| pin.hold = 0);
    }

    /// Removes pins whose time is over.
    pub fn expire(&mut self, now: u64) {
        self.change(now, |_| ());
    }

    pub fn clear(&mut self) {
        *self = Pins::default();
    }

    /// Returns the time until which a pin blocks a revocation of `page` that leaves `keep`.
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
