//! Which domain serves the devices that several domains use.

/// A domain's state, as far as that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Running,
    Resting,
    Other,
}

/// Returns the index of the domain that serves the devices: the first that runs; if none does, the
/// last that rests.
pub fn server(states: &[State]) -> Option<usize> {
    let first = states.iter().position(|&state| state == State::Running);
    first.or_else(|| states.iter().rposition(|&state| state == State::Resting))
}
