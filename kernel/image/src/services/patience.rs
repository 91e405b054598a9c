//! How long, and for whom, a request waits that its service parked.
//!
//! Contract: who gives up is forgotten by the service. Who is woken, or has waited a second, asks
//! again (a wake may be lost); who is *idle* asks only when woken: a kernel with nothing to do
//! touches no memory that others may hold.

/// Of one request.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    deadline: Option<u64>,
    given_up: &'a (dyn Fn() -> bool + 'a),
    is_idle: bool,
}

/// Between two looks of who is not idle.
const LOOK_NS: u64 = 1_000_000_000;

impl Patience<'static> {
    /// Waits for ever.
    pub const ENDLESS: Patience<'static> =
        Patience { deadline: None, given_up: &|| false, is_idle: false };
    /// Waits for ever, and does not look meanwhile.
    pub const IDLE: Patience<'static> = Patience { is_idle: true, ..Patience::ENDLESS };
}

impl<'a> Patience<'a> {
    /// Until `given_up`; whoever makes that true wakes the thread.
    pub fn unless(given_up: &'a (dyn Fn() -> bool + 'a)) -> Patience<'a> {
        Patience { deadline: None, given_up, is_idle: false }
    }

    /// And until `deadline` on the chip-wide clock at most.
    pub fn until(self, deadline: u64) -> Patience<'a> {
        Patience { deadline: Some(deadline), ..self }
    }

    /// Is it over?
    pub fn is_over(&self) -> bool {
        (self.given_up)() || self.deadline.is_some_and(|at| arch::time::soc_time() >= at)
    }

    /// Has somebody ended it?
    pub fn is_given_up(&self) -> bool {
        (self.given_up)()
    }

    /// When to look again, if nobody wakes us.
    pub fn next_look(&self) -> Option<u64> {
        let look = (!self.is_idle).then(|| arch::time::soc_time() + LOOK_NS);
        [look, self.deadline].into_iter().flatten().min()
    }
}
