//! How long a parked request waits.
//!
//! Contract: when patience ends, the request is cancelled. Until then, the caller requests again
//! when it is woken, and about once a second, in case a wake is lost: if its kernel has nothing
//! else to do, only when it has. An *idle* caller requests again only when it is woken, so that it
//! accesses no pages that other kernels may hold.

use kernel_sched::Deadline;

/// The patience of one request.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    deadline: Option<u64>,
    given_up: &'a (dyn Fn() -> bool + 'a),
    is_idle: bool,
}

/// Time after which a caller that is not idle requests again.
const LOOK_NS: u64 = 1_000_000_000;

impl Patience<'static> {
    /// Waits without a limit.
    pub const ENDLESS: Patience<'static> =
        Patience { deadline: None, given_up: &|| false, is_idle: false };
    /// Waits without a limit, and requests again only when woken.
    pub const IDLE: Patience<'static> = Patience { is_idle: true, ..Patience::ENDLESS };
}

impl<'a> Patience<'a> {
    /// Waits until `given_up` returns true. Code that makes it true must wake the thread.
    #[inline]
    pub fn unless(given_up: &'a (dyn Fn() -> bool + 'a)) -> Patience<'a> {
        Patience { deadline: None, given_up, is_idle: false }
    }

    /// Requests again only when woken.
    #[inline]
    pub fn idle(self) -> Patience<'a> {
        Patience { is_idle: true, ..self }
    }

    /// Adds a deadline, in chip time.
    #[inline]
    pub fn until(self, deadline: u64) -> Patience<'a> {
        Patience { deadline: Some(deadline), ..self }
    }

    /// Returns whether patience has ended.
    #[inline]
    pub fn is_over(&self) -> bool {
        (self.given_up)() || self.deadline.is_some_and(|at| arch::time::soc_time() >= at)
    }

    /// Returns whether it was ended by the condition of [`Patience::unless`].
    #[inline]
    pub fn is_given_up(&self) -> bool {
        (self.given_up)()
    }

    /// Returns the time until which to sleep if there is no wake.
    #[inline]
    pub fn next_look(&self) -> Option<Deadline> {
        let look = (!self.is_idle).then(|| arch::time::soc_time() + LOOK_NS);
        match self.deadline {
            Some(deadline) => Some(Deadline::Firm(look.map_or(deadline, |at| at.min(deadline)))),
            None => look.map(Deadline::Deferrable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn patience_ends_by_its_deadline_or_its_condition() {
        let now = arch::time::soc_time();
        assert!(!Patience::ENDLESS.is_over());
        assert!(!Patience::ENDLESS.until(now + 60_000_000_000).is_over());
        let late = Patience::ENDLESS.until(now);
        assert!(late.is_over() && !late.is_given_up());
        let stop = Cell::new(false);
        let condition = || stop.get();
        let patience = Patience::unless(&condition);
        assert!(!patience.is_over());
        stop.set(true);
        assert!(patience.is_over() && patience.is_given_up());
    }

    #[test]
    fn only_an_idle_caller_sleeps_until_it_is_woken() {
        let now = arch::time::soc_time();
        assert_eq!(Patience::IDLE.next_look(), None);
        assert_eq!(Patience::IDLE.until(now).next_look(), Some(Deadline::Firm(now)));
        let look = Patience::ENDLESS.next_look();
        assert!(matches!(look, Some(Deadline::Deferrable(at)) if at >= now + LOOK_NS));
        let limited = Patience::ENDLESS.until(now + 1).next_look();
        assert_eq!(limited, Some(Deadline::Firm(now + 1)));
    }
}
