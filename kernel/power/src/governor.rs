//! Decides when a domain rests. All times are chip time in ns.
//!
//! ```text
//!   busy ---> quiet ---- quiet for `after` ----> Rest, if the next deadline is far enough away
//!    ^          |
//!    +-- work --+
//! ```
//! A rest that fails is tried again later, each time after twice the pause.

/// A rest that is shorter costs more energy than it saves.
const WORTH_NS: u64 = 10_000_000;
/// First and longest pause after a rest that failed.
const PAUSE_NS: (u64, u64) = (10_000_000, 1_000_000_000);

/// What the governor decides from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Time since which no thread has had work; `None`: one has.
    pub quiet_since: Option<u64>,
    /// The earliest deadline that must be kept.
    pub next: Option<u64>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ask again at this time.
    AskAt(u64),
    /// Rest.
    Rest,
}

/// The governor of one domain.
#[derive(Clone, Debug)]
pub struct Governor {
    after: u64,
    pause: u64,
    not_before: u64,
}

impl Governor {
    /// Creates a governor that lets the domain rest when it has had no work for `after`.
    pub const fn new(after: u64) -> Governor {
        Governor { after, pause: PAUSE_NS.0, not_before: 0 }
    }

    /// Decides at time `now`.
    pub fn ask(&self, now: u64, facts: Facts) -> Verdict {
        let Some(since) = facts.quiet_since else {
            return Verdict::AskAt(now + self.after.max(WORTH_NS));
        };
        let start = since.saturating_add(self.after).max(self.not_before);
        if now < start {
            return Verdict::AskAt(start);
        }
        if facts.next.is_some_and(|next| next < now.saturating_add(WORTH_NS)) {
            // The thread that waits for that deadline runs first.
            return Verdict::AskAt(now + WORTH_NS);
        }
        Verdict::Rest
    }

    /// Reports how a rest that was tried at time `now` has ended.
    pub fn tried(&mut self, now: u64, has_rested: bool) {
        if has_rested {
            (self.pause, self.not_before) = (PAUSE_NS.0, 0);
        } else {
            self.not_before = now + self.pause;
            self.pause = (self.pause * 2).min(PAUSE_NS.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn quiet(since: u64, next: Option<u64>) -> Facts {
        Facts { quiet_since: Some(since), next }
    }

    #[test]
    fn a_domain_rests_after_its_time_without_work() {
        let governor = Governor::new(5000 * MS);
        let busy = Facts { quiet_since: None, next: None };
        assert_eq!(governor.ask(7, busy), Verdict::AskAt(7 + 5000 * MS));
        assert_eq!(governor.ask(8, quiet(7, None)), Verdict::AskAt(7 + 5000 * MS));
        assert_eq!(governor.ask(7 + 5000 * MS, quiet(7, None)), Verdict::Rest);
        let later = 20_000 * MS;
        assert_eq!(governor.ask(6000 * MS, quiet(7, Some(later))), Verdict::Rest);
    }

    #[test]
    fn a_rest_must_be_worth_it() {
        let governor = Governor::new(0);
        assert_eq!(governor.ask(3, quiet(3, None)), Verdict::Rest);
        assert_eq!(governor.ask(3, quiet(3, Some(4))), Verdict::AskAt(3 + WORTH_NS));
        let far = 3 + WORTH_NS;
        assert_eq!(governor.ask(3, quiet(3, Some(far))), Verdict::Rest);
    }

    #[test]
    fn a_rest_that_fails_is_tried_again_later_and_later() {
        let mut governor = Governor::new(0);
        let (mut now, mut pauses) = (0, 0);
        for _ in 0..20 {
            governor.tried(now, false);
            let Verdict::AskAt(at) = governor.ask(now, quiet(0, None)) else { panic!("no pause") };
            assert!((at - now) >= pauses && at - now <= PAUSE_NS.1);
            (pauses, now) = (at - now, at);
            assert_eq!(governor.ask(now, quiet(0, None)), Verdict::Rest);
        }
        assert_eq!(pauses, PAUSE_NS.1);
        governor.tried(now, true);
        assert_eq!(governor.ask(now, quiet(0, None)), Verdict::Rest);
    }
}
