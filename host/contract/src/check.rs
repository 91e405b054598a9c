//! The rules of a contract's automaton, each with its error.
//!
//! 1. In each state one side sends, or none in an end state. (That a message leads to one next
//!    state is a matter of the format: a key of TOML occurs once.)
//! 2. All states are reachable, and all messages used.
//! 3. An end is reachable from each state that does not say why there is none.
//! 4. No cycle consists of messages of one side.
//!
//! The kernels check 1, the first half of 2, and 4 again ([`kernel_contract::Automaton::parse`]).

use crate::error::{Place, Reason};
use crate::model::{Draft, State};
use kernel_contract::Side;

/// Checks all rules. The first broken one is the error.
pub fn check(draft: &Draft) -> Place<()> {
    draft.states.iter().try_for_each(|state| turns(draft, state))?;
    draft.states.iter().zip(&draft.ends).try_for_each(|(state, &end)| ends(state, end))?;
    reachable(draft)?;
    used(draft)?;
    endings(draft)?;
    one_sided(draft)
}

fn turns(draft: &Draft, state: &State) -> Place<()> {
    let of = |side: Side| {
        let mut names = state.transitions.iter().map(|&(message, _)| &draft.messages[message]);
        names.find(|message| message.from == side).map(|message| message.name.clone())
    };
    let (Some(client), Some(server)) = (of(Side::Client), of(Side::Server)) else { return Ok(()) };
    Err((state.at, Reason::Race { state: state.name.clone(), client, server }))
}

fn ends(state: &State, end: bool) -> Place<()> {
    let name = state.name.clone();
    let reason = match (end, state.transitions.is_empty()) {
        (false, true) => Reason::DeadEnd(name),
        (true, false) => Reason::NoEnd(name),
        (true, true) if state.may_close => Reason::CloseAtEnd(name),
        _ => return Ok(()),
    };
    Err((state.at, reason))
}

fn reachable(draft: &Draft) -> Place<()> {
    let mut seen = vec![false; draft.states.len()];
    let mut todo = vec![draft.start];
    while let Some(state) = todo.pop() {
        if !std::mem::replace(&mut seen[state], true) {
            todo.extend(draft.states[state].transitions.iter().map(|&(_, next)| next));
        }
    }
    let unseen = draft.states.iter().zip(seen).find(|(_, seen)| !seen);
    unseen.map_or(Ok(()), |(state, _)| Err((state.at, Reason::Unreachable(state.name.clone()))))
}

fn used(draft: &Draft) -> Place<()> {
    let is_used = |message: usize| {
        draft.states.iter().any(|state| state.transitions.iter().any(|it| it.0 == message))
    };
    let unused = draft.messages.iter().enumerate().find(|&(index, _)| !is_used(index));
    unused.map_or(Ok(()), |(_, message)| Err((message.at, Reason::Unused(message.name.clone()))))
}

fn endings(draft: &Draft) -> Place<()> {
    let mut ends: Vec<bool> = draft.ends.clone();
    // Each round finds at least one more state, so there are at most as many rounds as states.
    loop {
        let leads = |state: &State| state.transitions.iter().any(|&(_, next)| ends[next]);
        let found = draft.states.iter().enumerate().find(|&(at, state)| !ends[at] && leads(state));
        match found {
            Some((at, _)) => ends[at] = true,
            None => break,
        }
    }
    for (state, reaches_end) in draft.states.iter().zip(ends) {
        match (reaches_end, &state.perpetual) {
            (false, None) => return Err((state.at, Reason::Endless(state.name.clone()))),
            (true, Some(_)) => return Err((state.at, Reason::NotPerpetual(state.name.clone()))),
            _ => {}
        }
    }
    Ok(())
}

fn one_sided(draft: &Draft) -> Place<()> {
    for (start, state) in draft.states.iter().enumerate() {
        let Some(side) = state.side else { continue };
        if let Some(cycle) = cycle(draft, side, start) {
            let path = draw(draft, start, &cycle);
            return Err((state.at, Reason::OneSided { side, path }));
        }
    }
    Ok(())
}

/// Returns the shortest path from `start` back to it on which only `side` sends, as transitions.
fn cycle(draft: &Draft, side: Side, start: usize) -> Option<Vec<(usize, usize)>> {
    let mut from: Vec<Option<(usize, usize)>> = vec![None; draft.states.len()];
    let mut todo = std::collections::VecDeque::from([start]);
    while let Some(state) = todo.pop_front() {
        for &(message, next) in &draft.states[state].transitions {
            let is_new = from[next].is_none() && draft.states[next].side == Some(side);
            if is_new {
                from[next] = Some((state, message));
                todo.push_back(next);
            }
        }
    }
    let (mut path, mut at) = (Vec::new(), start);
    loop {
        let (before, message) = from[at]?;
        path.push((message, at));
        at = before;
        if at == start {
            path.reverse();
            return Some(path);
        }
    }
}

/// Returns `a -message-> b -message-> a`.
fn draw(draft: &Draft, start: usize, cycle: &[(usize, usize)]) -> String {
    let step = |&(message, next): &(usize, usize)| {
        format!(" -{}-> {}", draft.messages[message].name, draft.states[next].name)
    };
    let steps: String = cycle.iter().map(step).collect();
    draft.states[start].name.clone() + &steps
}
