//! The checker.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// A sequential specification.
pub trait Spec {
    /// The state that replies depend on.
    type State: Clone + Eq + Hash;
    /// A request.
    type Ask;
    /// A reply.
    type Reply;

    /// Returns the state after `ask` if `reply` is correct for it in `state`. A missing reply is
    /// correct if the call can end at all.
    fn accept(
        &self,
        state: &Self::State,
        ask: &Self::Ask,
        reply: Option<&Self::Reply>,
    ) -> Option<Self::State>;

    /// Returns whether a call with this reply changes nothing in any state. The search is faster
    /// for such calls.
    fn only_looks(&self, _ask: &Self::Ask, _reply: &Self::Reply) -> bool {
        false
    }
}

/// A call in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<A, R> {
    /// The caller, which makes one call at a time.
    pub who: u32,
    /// The request.
    pub ask: A,
    /// The reply; `None`: the call never returned.
    pub reply: Option<R>,
    /// Time of the call.
    pub invoked: u64,
    /// Time of the reply. Without one: the time after which it cannot take effect any more, such as
    /// its caller's death, or `u64::MAX`.
    pub returned: u64,
}

/// Statistics of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Windows: maximal intervals with a call in progress.
    pub windows: usize,
    /// Number of calls in the largest window.
    pub largest: usize,
    /// Number of steps of the search.
    pub steps: u64,
}

/// Why a history was not accepted. Numbers are indices into the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No order explains it.
    Violation {
        /// The longest explainable sequence of calls in the window.
        explained: Vec<usize>,
        /// The calls of which one should have come next.
        stuck: Vec<usize>,
    },
    /// The search exceeded its limit.
    TooMuch,
    /// This call returned before it was invoked, or overlaps with one of the same caller.
    Nonsense(usize),
}

/// Number of explained calls that a description shows: the last ones.
const SHOWN: usize = 30;

impl Failure {
    /// Describes the failure of this history for a person, with the calls that matter.
    pub fn describe<A: Debug, R: Debug>(&self, history: &[Call<A, R>]) -> String {
        let show = |at: &usize| format!("\n    {:?}", history[*at]);
        match self {
            Failure::Violation { explained, stuck } => {
                let last = &explained[explained.len().saturating_sub(SHOWN)..];
                let last: String = last.iter().map(show).collect();
                let stuck: String = stuck.iter().map(show).collect();
                format!("no order explains the answers: after{last}\n  none of{stuck}")
            }
            Failure::TooMuch => "the search for an order takes too many steps".to_string(),
            Failure::Nonsense(at) => format!("not a history: {:?}", history[*at]),
        }
    }
}

/// Searches an order that explains `history` from `initial` on, in at most `steps` steps.
pub fn check<S: Spec>(
    spec: &S,
    initial: S::State,
    history: &[Call<S::Ask, S::Reply>],
    steps: u64,
) -> Result<Tally, Failure> {
    let mut order: Vec<usize> = (0..history.len()).collect();
    order.sort_by_key(|at| (history[*at].invoked, history[*at].returned));
    sensible(history, &order)?;
    let mut tally = Tally::default();
    let mut states = HashSet::from([initial]);
    let all = windows(history, &order);
    for (number, window) in all.iter().enumerate() {
        tally.windows += 1;
        tally.largest = tally.largest.max(window.len());
        // Nothing follows the last window, so one order is enough there.
        let is_last = number + 1 == all.len();
        let mut search = Search { spec, history, window, is_last, tally: &mut tally, steps };
        states = search.run(states)?;
    }
    Ok(tally)
}

fn sensible<A, R>(history: &[Call<A, R>], order: &[usize]) -> Result<(), Failure> {
    let mut busy = std::collections::HashMap::new();
    for at in order {
        let call = &history[*at];
        let earlier = busy.insert(call.who, call.returned);
        if call.returned < call.invoked || earlier.is_some_and(|end| end > call.invoked) {
            return Err(Failure::Nonsense(*at));
        }
    }
    Ok(())
}

/// Splits the history where every call has returned before the next one.
fn windows<'a, A, R>(history: &[Call<A, R>], order: &'a [usize]) -> Vec<&'a [usize]> {
    let (mut all, mut from, mut end) = (Vec::new(), 0, 0);
    for (place, at) in order.iter().enumerate() {
        if place > from && end < history[*at].invoked {
            all.push(&order[from..place]);
            from = place;
        }
        end = end.max(history[*at].returned);
    }
    if from < order.len() {
        all.push(&order[from..]);
    }
    all
}

/// The calls of a window that have taken effect.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Done(Vec<u64>);

impl Done {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] & 1 << (at % 64) != 0
    }

    fn with(&self, at: usize) -> Done {
        let mut more = self.clone();
        more.0[at / 64] |= 1 << (at % 64);
        more
    }
}

struct Search<'a, S: Spec> {
    spec: &'a S,
    history: &'a [Call<S::Ask, S::Reply>],
    window: &'a [usize],
    is_last: bool,
    tally: &'a mut Tally,
    steps: u64,
}

impl<S: Spec> Search<'_, S> {
    /// Returns all states in which the window can end, or one if it is the last.
    fn run(&mut self, starts: HashSet<S::State>) -> Result<HashSet<S::State>, Failure> {
        let nothing = Done(vec![0; self.window.len().div_ceil(64)]);
        let mut todo: Vec<(Done, S::State, Vec<usize>)> = Vec::new();
        todo.extend(starts.into_iter().map(|state| (nothing.clone(), state, Vec::new())));
        let (mut tried, mut ends) = (HashSet::new(), HashSet::new());
        let (mut best, mut stuck) = (Vec::new(), self.next(&nothing));
        while let Some((done, state, order)) = todo.pop() {
            if order.len() > best.len() {
                (best, stuck) = (order.clone(), self.next(&done));
            }
            if self.is_complete(&done) {
                ends.insert(state.clone());
                if self.is_last {
                    break;
                }
            }
            for (at, behind) in self.accepted(&done, &state)? {
                let done = done.with(at);
                if tried.insert((done.clone(), behind.clone())) {
                    let order = [order.as_slice(), &[at]].concat();
                    todo.push((done, behind, order));
                }
            }
        }
        if ends.is_empty() {
            let name = |places: Vec<usize>| places.into_iter().map(|at| self.window[at]).collect();
            return Err(Failure::Violation { explained: name(best), stuck: name(stuck) });
        }
        Ok(ends)
    }

    /// Returns the calls that may be next with the states after them. If one of them only looks, it
    /// is the only one: whatever explains the rest may as well follow it.
    fn accepted(
        &mut self,
        done: &Done,
        state: &S::State,
    ) -> Result<Vec<(usize, S::State)>, Failure> {
        let mut all = Vec::new();
        for at in self.next(done) {
            self.tally.steps += 1;
            if self.tally.steps > self.steps {
                return Err(Failure::TooMuch);
            }
            let call = self.call(at);
            let accepted = self.spec.accept(state, &call.ask, call.reply.as_ref());
            let Some(behind) = accepted else { continue };
            if call.reply.is_none() && behind == *state {
                continue;
            }
            let only_looks = |reply| self.spec.only_looks(&call.ask, reply) && behind == *state;
            if call.reply.as_ref().is_some_and(only_looks) && self.precludes_nothing(at, done) {
                return Ok(vec![(at, behind)]);
            }
            all.push((at, behind));
        }
        Ok(all)
    }

    /// Returns whether every call without a reply can take effect after this one.
    fn precludes_nothing(&self, at: usize, done: &Done) -> bool {
        let left = (0..self.window.len()).filter(|other| !done.has(*other));
        let mut lost = left.map(|other| self.call(other)).filter(|call| call.reply.is_none());
        lost.all(|call| call.returned >= self.call(at).invoked)
    }

    fn call(&self, at: usize) -> &Call<S::Ask, S::Reply> {
        &self.history[self.window[at]]
    }

    /// Returns whether every call with a reply has taken effect.
    fn is_complete(&self, done: &Done) -> bool {
        (0..self.window.len()).all(|at| done.has(at) || self.call(at).reply.is_none())
    }

    /// Returns the calls that may be next: no other remaining call returned before they began, and
    /// they can still take effect after those that are done. The first to return comes last, and is
    /// tried first.
    fn next(&self, done: &Done) -> Vec<usize> {
        let all = || 0..self.window.len();
        let left = || all().filter(|at| !done.has(*at));
        let replied = left().filter(|at| self.call(*at).reply.is_some());
        let first_end = replied.map(|at| self.call(at).returned).min().unwrap_or(u64::MAX);
        let begun = all().filter(|at| done.has(*at)).map(|at| self.call(at).invoked);
        let latest = begun.max().unwrap_or(0);
        let may = |call: &Call<S::Ask, S::Reply>| {
            call.invoked <= first_end && (call.reply.is_some() || call.returned >= latest)
        };
        let mut able: Vec<usize> = left().filter(|at| may(self.call(*at))).collect();
        able.sort_by_key(|at| {
            let call = self.call(*at);
            std::cmp::Reverse((call.reply.is_none(), call.returned))
        });
        able
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    /// A register with the operations write, read, and take (reads and sets to 0).
    struct Register;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Ask {
        Write(u8),
        Read,
        Take,
    }

    impl Spec for Register {
        type State = u8;
        type Ask = Ask;
        type Reply = u8;

        fn accept(&self, state: &u8, ask: &Ask, reply: Option<&u8>) -> Option<u8> {
            let (right, behind) = match ask {
                Ask::Write(value) => (0, *value),
                Ask::Read => (*state, *state),
                Ask::Take => (*state, 0),
            };
            reply.is_none_or(|r| *r == right).then_some(behind)
        }

        fn only_looks(&self, ask: &Ask, _: &u8) -> bool {
            *ask == Ask::Read
        }
    }

    type History = Vec<Call<Ask, u8>>;

    fn call(who: u32, ask: Ask, reply: Option<u8>, invoked: u64, returned: u64) -> Call<Ask, u8> {
        Call { who, ask, reply, invoked, returned }
    }

    fn judge(history: &History) -> Result<Tally, Failure> {
        check(&Register, 0, history, 100_000)
    }

    #[test]
    fn overlapping_calls_may_have_happened_either_way() {
        for seen in [0, 1] {
            let history =
                vec![call(0, Ask::Write(1), Some(0), 0, 10), call(1, Ask::Read, Some(seen), 5, 15)];
            assert!(judge(&history).is_ok());
        }
    }

    #[test]
    fn a_stale_read_is_a_violation() {
        let history =
            vec![call(0, Ask::Write(1), Some(0), 0, 10), call(1, Ask::Read, Some(0), 11, 15)];
        let found = judge(&history).unwrap_err();
        assert_eq!(found, Failure::Violation { explained: vec![], stuck: vec![1] });
    }

    #[test]
    fn two_cannot_take_the_same_thing() {
        let take = |who| call(who, Ask::Take, Some(1), 20, 30);
        let history = vec![call(0, Ask::Write(1), Some(0), 0, 10), take(0), take(1)];
        assert!(matches!(judge(&history), Err(Failure::Violation { .. })));
    }

    #[test]
    fn readers_agree_on_the_order_of_writers() {
        let read = |who, value, at| call(who, Ask::Read, Some(value), at, at + 1);
        let mut history = vec![
            call(0, Ask::Write(1), Some(0), 0, 100),
            call(1, Ask::Write(2), Some(0), 0, 100),
            read(2, 1, 10),
            read(2, 2, 20),
            read(3, 1, 12),
            read(3, 2, 22),
        ];
        assert!(judge(&history).is_ok());
        history[5].reply = Some(1);
        history[4].reply = Some(2);
        assert!(matches!(judge(&history), Err(Failure::Violation { .. })));
    }

    #[test]
    fn who_was_not_heard_of_again_may_have_done_it_or_not() {
        for seen in [0, 1] {
            let lost = call(0, Ask::Write(1), None, 0, u64::MAX);
            assert!(judge(&vec![lost, call(1, Ask::Read, Some(seen), 50, 60)]).is_ok());
        }
        let lost = call(0, Ask::Write(1), None, 55, u64::MAX);
        let early = call(1, Ask::Read, Some(1), 10, 20);
        assert!(judge(&vec![lost, early]).is_err());
    }

    #[test]
    fn a_call_of_a_dead_caller_cannot_take_effect_after_its_death() {
        let lost = || call(0, Ask::Write(1), None, 0, 20);
        let read = |seen, at| call(1, Ask::Read, Some(seen), at, at + 5);
        for (before, after, is_right) in [(0, 0, true), (0, 1, false), (1, 1, true), (1, 0, false)]
        {
            let history = vec![lost(), read(before, 22), read(after, 30)];
            assert_eq!(judge(&history).is_ok(), is_right, "{before} {after}");
        }
    }

    #[test]
    fn histories_without_sense_and_searches_without_end_are_told() {
        let backwards = vec![call(0, Ask::Read, Some(0), 10, 5)];
        assert_eq!(judge(&backwards), Err(Failure::Nonsense(0)));
        let twice = vec![call(0, Ask::Read, Some(0), 0, 9), call(0, Ask::Read, Some(0), 5, 15)];
        assert_eq!(judge(&twice), Err(Failure::Nonsense(1)));
        let write = |n: u8| call(n.into(), Ask::Write(n), Some(0), 0, 9);
        let mut many: History = (0..20).map(write).collect();
        many.push(call(20, Ask::Read, Some(99), 0, 9));
        assert_eq!(check(&Register, 0, &many, 1000), Err(Failure::TooMuch));
    }

    #[test]
    fn a_long_history_is_cut_where_nothing_is_under_way() {
        let one = |n: u64| call(0, Ask::Write(1), Some(0), n * 10, n * 10 + 5);
        let two = |n: u64| call(1, Ask::Read, Some(u8::from(n > 0)), n * 10 + 6, n * 10 + 9);
        let mut history: History = (0..10_000).map(one).collect();
        history.extend((0..10_000).map(two));
        history[10_000].reply = Some(1);
        let tally = judge(&history).unwrap();
        assert_eq!((tally.windows, tally.largest), (20_000, 1));
    }

    /// The same check by trying every order.
    fn brute(history: &History, done: &mut Vec<usize>, state: u8) -> bool {
        let left: Vec<usize> = (0..history.len()).filter(|at| !done.contains(at)).collect();
        if left.iter().all(|at| history[*at].reply.is_none()) {
            return true;
        }
        left.iter().any(|at| {
            let early = |other: &usize| {
                history[*other].reply.is_some() && history[*other].returned < history[*at].invoked
            };
            let is_late = |other: &usize| history[*other].invoked > history[*at].returned;
            if history[*at].reply.is_none() && done.iter().any(is_late) {
                return false;
            }
            if left.iter().any(early) {
                return false;
            }
            let call = &history[*at];
            let Some(behind) = Register.accept(&state, &call.ask, call.reply.as_ref()) else {
                return false;
            };
            done.push(*at);
            let found = brute(history, done, behind);
            done.pop();
            found
        })
    }

    fn random_history(random: &mut Prng) -> History {
        let mut history = History::new();
        for who in 0..3 {
            let mut now = random.below(10);
            for number in 0..2 {
                let ask = match random.below(4) {
                    0 => Ask::Write(1 + random.below(2) as u8),
                    1 => Ask::Take,
                    _ => Ask::Read,
                };
                let reply = if matches!(ask, Ask::Write(_)) { 0 } else { random.below(3) as u8 };
                let returned = now + random.below(12);
                // The last call of some has no reply.
                let is_lost = number == 1 && random.chance(1, 4);
                let reply = Some(reply).filter(|_| !is_lost);
                history.push(call(who, ask, reply, now, returned));
                now = returned + 1 + random.below(6);
            }
        }
        history
    }

    #[test]
    fn it_agrees_with_trying_every_order() {
        let mut random = Prng::new(7);
        let mut accepted = 0;
        for number in 0..20_000 {
            let history = random_history(&mut random);
            let expected = brute(&history, &mut Vec::new(), 0);
            assert_eq!(judge(&history).is_ok(), expected, "history {number}: {history:?}");
            accepted += u32::from(expected);
        }
        println!("{accepted} of 20,000 have an order");
        assert!(accepted > 1_000 && accepted < 19_000);
    }
}
