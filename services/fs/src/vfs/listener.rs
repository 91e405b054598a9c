//! The callers that wait for work: the drivers of a disk, or the servers of a file system. One
//! thread of each kernel may wait for the same work.
//!
//! ```text
//!            listens                call                 came
//!   (none) ---------> Waits ---------------> Called ------------> Works --- listens ---> Waits
//!                       ^  woken: it is near, or              |     |
//!                       |  no other is about to come          |     '--- its kernel died: (none)
//!                       '------- listens ---------------------'
//! ```
//! Contract: a waiting caller is parked. When there is work, one is woken: one in the kernel that
//! executes the step, if there is one, because a kernel that rests need not be woken for it. Else
//! the one that has waited longest, but only if no other caller has been called or works: that one
//! asks for more work without a wake. A kernel that does not come within [`PATIENCE`] may be dead,
//! resting or slow, or may have lost the wake. Then the next step wakes all that wait. One that has
//! taken work and does not report its end is woken too: its domain may have been stopped meanwhile.

use abi::boot::MAX_DOMAINS;
use alloc::vec::Vec;
use share::{Effects, Token};

/// Time after which a wake that had no effect is repeated, in ns.
pub const PATIENCE: u64 = 500_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is parked.
    Waits,
    /// It was woken at this time, and has not asked for work since.
    Called(u64),
    /// It was woken, and another one came.
    Missed,
    /// It took work, or reported its end, at this time. It will ask for more.
    Works(u64),
}

#[derive(Debug)]
struct Caller {
    token: Token,
    stage: Stage,
    /// When it was last urged to finish its work.
    urged: u64,
}

impl Caller {
    /// Returns whether it asks for work soon, without another wake.
    fn is_expected(&self, now: u64) -> bool {
        match self.stage {
            Stage::Called(at) | Stage::Works(at) => now < at.saturating_add(PATIENCE),
            Stage::Waits | Stage::Missed => false,
        }
    }

    /// Returns whether a wake had no effect.
    fn is_late(&self, now: u64) -> bool {
        matches!(self.stage, Stage::Called(_) | Stage::Missed) && !self.is_expected(now)
    }

    fn call(&mut self, now: u64, effects: &mut dyn Effects) {
        self.stage = Stage::Called(now);
        effects.wake(self.token);
    }
}

/// The callers, at most one for each kernel. The one that has waited longest is first.
#[derive(Debug, Default)]
pub struct Listeners(Vec<Caller>);

impl Listeners {
    /// Lets this caller wait. It replaces an earlier one of its kernel.
    pub fn listens(&mut self, token: Token) {
        self.put(Caller { token, stage: Stage::Waits, urged: 0 });
    }

    /// This caller has asked for work, so no thread of its kernel waits.
    pub fn came(&mut self, token: Token, now: u64) {
        for other in &mut self.0 {
            if matches!(other.stage, Stage::Called(_)) {
                other.stage = Stage::Missed;
            }
        }
        self.put(Caller { token, stage: Stage::Works(now), urged: now });
    }

    /// The kernel of `token` has reported the end of some work.
    pub fn finished(&mut self, token: Token, now: u64) {
        for caller in &mut self.0 {
            if caller.token.kernel == token.kernel && matches!(caller.stage, Stage::Works(_)) {
                (caller.stage, caller.urged) = (Stage::Works(now), now);
            }
        }
    }

    /// Wakes the kernels of callers that have had work for longer than [`PATIENCE`], at most once
    /// in that time. A caller that is at work does not wait, so its wake has no other effect.
    pub fn urge(&mut self, now: u64, effects: &mut dyn Effects) {
        for caller in &mut self.0 {
            let is_late = now >= caller.urged.saturating_add(PATIENCE);
            if matches!(caller.stage, Stage::Works(_)) && is_late {
                caller.urged = now;
                effects.wake(caller.token);
            }
        }
    }

    fn put(&mut self, caller: Caller) {
        self.0.retain(|other| other.token.kernel != caller.token.kernel);
        if self.0.len() >= MAX_DOMAINS {
            self.0.remove(0);
        }
        self.0.push(caller);
    }

    /// Wakes the waiting callers for the last time: there will be no more work.
    pub fn dismiss(&mut self, effects: &mut dyn Effects) {
        for caller in self.0.drain(..) {
            if !matches!(caller.stage, Stage::Works(_)) {
                effects.wake(caller.token);
            }
        }
    }

    /// Drops the callers for which `which` holds. Returns whether one of them was expected to take
    /// work, so that another one has to be called.
    pub fn deafen(&mut self, which: impl Fn(Token) -> bool) -> bool {
        let is_theirs = |caller: &Caller| which(caller.token);
        let expected = |caller: &Caller| is_theirs(caller) && caller.stage != Stage::Waits;
        let some = self.0.iter().any(expected);
        self.0.retain(|caller| !is_theirs(caller));
        some
    }

    /// Wakes callers because there are `pieces` of work, each at most once in [`PATIENCE`].
    pub fn call(&mut self, pieces: usize, now: u64, effects: &mut dyn Effects) {
        if pieces == 0 {
            return;
        }
        if !self.0.iter().any(|caller| caller.is_expected(now)) {
            if self.0.iter().any(|caller| caller.is_late(now)) {
                return self.call_all(now, effects);
            }
            if let Some(at) = self.preferred(effects) {
                self.0[at].call(now, effects);
            }
            return;
        }
        // A near one costs little, and begins at once. It helps if there is work left for it.
        let is_coming = |it: &&Caller| matches!(it.stage, Stage::Called(_)) && it.is_expected(now);
        if self.0.iter().filter(is_coming).count() < pieces
            && let Some(at) = self.near(effects)
        {
            self.0[at].call(now, effects);
        }
    }

    fn call_all(&mut self, now: u64, effects: &mut dyn Effects) {
        for is_near in [true, false] {
            for caller in &mut self.0 {
                let works = matches!(caller.stage, Stage::Works(_));
                if !works && effects.is_near(caller.token) == is_near {
                    caller.call(now, effects);
                }
            }
        }
    }

    fn near(&self, effects: &dyn Effects) -> Option<usize> {
        let is_it = |it: &Caller| it.stage == Stage::Waits && effects.is_near(it.token);
        self.0.iter().position(is_it)
    }

    fn preferred(&self, effects: &dyn Effects) -> Option<usize> {
        self.near(effects).or_else(|| self.0.iter().position(|it| it.stage == Stage::Waits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::Epoch;

    const STRONG: Token = token(0);
    const WEAK: Token = token(1);
    const THIRD: Token = token(2);

    const fn token(kernel: u8) -> Token {
        Token { epoch: 1, kernel, reserved: 0, sequence: 1, thread: 7 }
    }

    /// The wakes of one step, which kernel `at` executes.
    struct Step {
        at: u8,
        woken: Vec<Token>,
    }

    impl Effects for Step {
        fn wake(&mut self, token: Token) {
            self.woken.push(token);
        }
        fn wake_all(&mut self) {}
        fn timer(&mut self, _: u64) {}
        fn is_near(&self, token: Token) -> bool {
            token.kernel == self.at
        }
    }

    fn all_wait(order: &[Token]) -> Listeners {
        let mut listeners = Listeners::default();
        order.iter().for_each(|token| listeners.listens(*token));
        listeners
    }

    /// Returns the callers that are woken by a step of kernel `at` that leaves `pieces` of work.
    fn called(listeners: &mut Listeners, at: u8, pieces: usize, now: u64) -> Vec<Token> {
        let mut step = Step { at, woken: Vec::new() };
        listeners.call(pieces, now, &mut step);
        step.woken
    }

    #[test]
    fn a_single_caller_is_woken_once_and_again_after_its_patience() {
        let mut listeners = all_wait(&[WEAK]);
        assert_eq!(called(&mut listeners, 0, 0, 10), []);
        assert_eq!(called(&mut listeners, 0, 1, 10), [WEAK]);
        assert_eq!(called(&mut listeners, 0, 9, 9 + PATIENCE), []);
        assert_eq!(called(&mut listeners, 1, 9, 10 + PATIENCE), [WEAK]);
        listeners.came(WEAK, 20 + PATIENCE);
        assert_eq!(called(&mut listeners, 0, 9, 9 * PATIENCE), [], "it does not wait");
    }

    #[test]
    fn a_near_caller_is_preferred() {
        for order in [[STRONG, WEAK, THIRD], [THIRD, WEAK, STRONG]] {
            for at in 0..3 {
                assert_eq!(called(&mut all_wait(&order), at, 9, 10), [token(at)]);
            }
            assert_eq!(called(&mut all_wait(&order), 3, 9, 10), [order[0]], "the first");
        }
    }

    #[test]
    fn a_kernel_that_rests_is_not_woken_while_another_works() {
        let mut listeners = all_wait(&[STRONG, WEAK]);
        for now in (10..10 * PATIENCE).step_by(PATIENCE as usize / 3) {
            assert_eq!(called(&mut listeners, 1, 5, now), [WEAK]);
            listeners.came(WEAK, now + 1);
            assert_eq!(called(&mut listeners, 1, 5, now + 1), []);
            listeners.finished(WEAK, now + 2 * PATIENCE);
            assert_eq!(called(&mut listeners, 1, 5, now + 2 * PATIENCE), [], "it comes again");
            listeners.listens(WEAK);
        }
    }

    #[test]
    fn a_near_caller_helps_if_there_is_more_work() {
        let mut listeners = all_wait(&[STRONG, WEAK]);
        assert_eq!(called(&mut listeners, 1, 1, 10), [WEAK]);
        assert_eq!(called(&mut listeners, 0, 1, 20), [], "one is coming for one piece");
        assert_eq!(called(&mut listeners, 0, 2, 30), [STRONG]);
        let mut listeners = all_wait(&[STRONG, WEAK]);
        listeners.came(WEAK, 10);
        assert_eq!(called(&mut listeners, 0, 1, 20), [STRONG], "the other one works");
    }

    #[test]
    fn if_one_does_not_come_all_are_woken() {
        let mut listeners = all_wait(&[STRONG, WEAK, THIRD]);
        assert_eq!(called(&mut listeners, 3, 1, 10), [STRONG]);
        assert_eq!(called(&mut listeners, 1, 0, 10 + PATIENCE), [], "there is no work");
        assert_eq!(called(&mut listeners, 1, 1, 10 + PATIENCE), [WEAK, STRONG, THIRD]);
        // The next work does not wait for the one that does not come.
        listeners.came(WEAK, 20 + PATIENCE);
        listeners.listens(WEAK);
        assert_eq!(called(&mut listeners, 1, 1, 30 + PATIENCE), [WEAK, STRONG, THIRD]);
    }

    #[test]
    fn a_slow_worker_does_not_hold_up_the_others_for_long() {
        let mut listeners = all_wait(&[STRONG, WEAK]);
        listeners.came(WEAK, 10);
        assert_eq!(called(&mut listeners, 1, 1, 9 + PATIENCE), []);
        assert_eq!(called(&mut listeners, 1, 1, 10 + PATIENCE), [STRONG]);
        assert_eq!(called(&mut listeners, 1, 1, 10 + 2 * PATIENCE), [STRONG]);
    }

    #[test]
    fn one_that_does_not_finish_is_urged() {
        let mut listeners = all_wait(&[STRONG, WEAK]);
        let urged = |listeners: &mut Listeners, now| {
            let mut step = Step { at: 0, woken: Vec::new() };
            listeners.urge(now, &mut step);
            step.woken
        };
        assert_eq!(urged(&mut listeners, 10), [], "none works");
        listeners.came(WEAK, 10);
        assert_eq!(urged(&mut listeners, 9 + PATIENCE), []);
        assert_eq!(urged(&mut listeners, 10 + PATIENCE), [WEAK]);
        assert_eq!(urged(&mut listeners, 9 + 2 * PATIENCE), [], "once in that time");
        listeners.finished(WEAK, 10 + 2 * PATIENCE);
        assert_eq!(urged(&mut listeners, 9 + 3 * PATIENCE), []);
        listeners.listens(WEAK);
        assert_eq!(urged(&mut listeners, 9 * PATIENCE), [], "it waits");
    }

    #[test]
    fn if_one_dies_another_is_woken_at_once() {
        for works in [false, true] {
            let mut listeners = all_wait(&[STRONG, WEAK]);
            assert_eq!(called(&mut listeners, 1, 1, 10), [WEAK]);
            if works {
                listeners.came(WEAK, 11);
            }
            assert!(listeners.deafen(|token| token == WEAK), "others are needed");
            assert_eq!(called(&mut listeners, 0, 1, 12), [STRONG]);
            assert!(!all_wait(&[WEAK]).deafen(|token| token == WEAK), "it was not called");
        }
    }

    #[test]
    fn a_kernel_waits_once() {
        let mut listeners = all_wait(&[STRONG, WEAK]);
        let next = Token::new(WEAK.kernel(), Epoch(2), 3, 4);
        listeners.listens(next);
        let mut step = Step { at: 3, woken: Vec::new() };
        listeners.dismiss(&mut step);
        assert_eq!(step.woken, [STRONG, next]);
        let many: Vec<Token> = (0..=255).map(token).collect();
        assert_eq!(all_wait(&many).0.len(), MAX_DOMAINS);
    }
}
