//! How long queues can become, by the longest paths of an automaton.
//!
//! A side may send only while all that it was sent is received (`conversation`). So the unreceived
//! messages of a side are always a path of the automaton on which only that side sends. If no such
//! path is a cycle, the longest one bounds the queue.
//!
//! [`Automaton::parse`] calls this once states, messages and next states are valid.

use crate::automaton::Automaton;
use crate::types::{Bound, Invalid, Side, State};
use crate::{MESSAGES, STATES};

// A path has fewer messages than there are states, so no sum overflows.
const _: () = assert!(STATES * crate::BLOCK <= u32::MAX as usize);

/// Iterates over the messages that are allowed in `state`: tags and next states.
fn transitions<B: AsRef<[u8]>>(
    automaton: &Automaton<B>,
    state: State,
) -> impl Iterator<Item = (u16, State)> {
    (0..MESSAGES as u16).filter_map(move |tag| Some((tag, automaton.next(state, tag)?)))
}

/// Returns the states that conversations reach, as a bit mask.
pub(crate) fn reachable<B: AsRef<[u8]>>(automaton: &Automaton<B>) -> u64 {
    let mut seen = 1 << automaton.start().0;
    let mut todo: u64 = seen;
    while todo != 0 {
        let state = State(todo.trailing_zeros() as u8);
        todo &= todo - 1;
        for (_, next) in transitions(automaton, state) {
            todo |= !seen & (1 << next.0);
            seen |= 1 << next.0;
        }
    }
    seen
}

/// Returns the bound of the queue of `from`'s messages.
///
/// Visits the states of that side in an order in which every state follows those that lead to it.
/// If states are left over, they are on a cycle.
pub(crate) fn bounds<B: AsRef<[u8]>>(
    automaton: &Automaton<B>,
    from: Side,
) -> Result<Bound, Invalid> {
    let is_ours = |state: State| automaton.side(state) == Some(from);
    let ours = || (0..automaton.states() as u8).map(State).filter(|&state| is_ours(state));
    let mut arrows = [0u16; STATES];
    for (_, next) in ours().flat_map(|state| transitions(automaton, state)) {
        arrows[usize::from(next.0)] += 1;
    }
    let mut longest = [Bound::default(); STATES];
    let mut bound = Bound::default();
    let (mut left, mut ready) = (0, 0u64);
    for state in ours() {
        left += 1;
        ready |= u64::from(arrows[usize::from(state.0)] == 0) << state.0;
    }
    while ready != 0 {
        let state = State(ready.trailing_zeros() as u8);
        ready &= ready - 1;
        left -= 1;
        for (tag, next) in transitions(automaton, state) {
            let at = usize::from(next.0);
            let path = longer(automaton, longest[usize::from(state.0)], tag);
            longest[at] = longest[at].max(path);
            bound = bound.max(path);
            arrows[at] -= 1;
            ready |= u64::from(arrows[at] == 0 && is_ours(next)) << next.0;
        }
    }
    if left == 0 { Ok(bound) } else { Err(Invalid::Unbounded(from)) }
}

/// Returns a path's sums with the message `tag` added.
fn longer<B: AsRef<[u8]>>(automaton: &Automaton<B>, path: Bound, tag: u16) -> Bound {
    let Some(message) = automaton.message(tag) else { return path };
    Bound {
        messages: path.messages + 1,
        inline: path.inline + message.inline as u32,
        block: path.block + message.block as u32,
        endpoints: path.endpoints + message.endpoints as u32,
    }
}
