//! How long a parked request waits.
//!
//! Contract: when patience ends, the request is cancelled. Until then, the caller requests again
//! when it is woken, and once a second, since a wake may be lost. An *idle* caller requests again
//! only when it is woken, so that a kernel with nothing to do accesses no pages that other kernels
//! may hold.

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
    pub fn unless(given_up: &'a (dyn Fn() -> bool + 'a)) -> Patience<'a> {
        Patience { deadline: None, given_up, is_idle: false }
    }

    /// Adds a deadline, in chip time.
    pub fn until(self, deadline: u64) -> Patience<'a> {
        Patience { deadline: Some(deadline), ..self }
    }

    /// Returns whether patience has ended.
    pub fn is_over(&self) -> bool {
        (self.given_up)() || self.deadline.is_some_and(|at| arch::time::soc_time() >= at)
    }

    /// Returns whether it was ended by the condition of [`Patience::unless`].
    pub fn is_given_up(&self) -> bool {
        (self.given_up)()
    }

    /// Returns the time until which to sleep if there is no wake.
    pub fn next_look(&self) -> Option<u64> {
        let look = (!self.is_idle).then(|| arch::time::soc_time() + LOOK_NS);
        [look, self.deadline].into_iter().flatten().min()
    }
}
