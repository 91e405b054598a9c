//! Which kernel serves the devices that all kernels can serve (docs/design/rest.md).
//!
//! Contract: the *server* is the first domain that is RUNNING. If none is, it is the last one that
//! is RESTING, which the soc wakes when a device rings. So the strong domain, the first one, is
//! not woken while another one can serve. A device whose driver has a *home* is served by that
//! while it is RUNNING.
//!
//! A device stores its completions before it rings. All kernels look at the same completions.
//! - A kernel that becomes the server unmasks the devices' interrupts, **then** looks for
//!   completions once. One that is not the server any more masks them. After a rest, this starts
//!   again.
//! - A kernel that begins to rest decides whether the devices end its rest ([`listens`]), writes
//!   this to a word that the others read, and only then requests REST. After its RESTING is
//!   published it looks again ([`look`]), because the states may have changed.

/// The state of a domain, as the soc publishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Running,
    Resting,
    /// It is INACTIVE, or off with its memory: it cannot serve.
    Stopped,
    /// It is dead, off without its memory, or boots: it cannot serve either.
    Other,
}

/// What a kernel does whose RESTING is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// It rests.
    Rest,
    /// It sends a WAKE to this domain, which has to serve but is not prepared for it, and rests.
    WakeAndRest(usize),
    /// It withdraws its rest: it has to serve.
    Withdraw,
}

impl Look {
    /// Returns what to do for two reasons. If both name a domain, it is the same one.
    pub fn and(self, other: Look) -> Look {
        match (self, other) {
            (Look::Withdraw, _) | (_, Look::Withdraw) => Look::Withdraw,
            (Look::WakeAndRest(server), _) | (_, Look::WakeAndRest(server)) => {
                Look::WakeAndRest(server)
            }
            (Look::Rest, Look::Rest) => Look::Rest,
        }
    }
}

/// Returns the domain that serves a device whose driver may have a home, if any can.
pub fn server(states: &[State], home: Option<usize>) -> Option<usize> {
    let is_awake = |home: &usize| states.get(*home) == Some(&State::Running);
    home.filter(is_awake).or_else(|| chosen(states.iter().copied()))
}

/// Returns whether domain `me` is the server during the rest that it begins: the devices must end
/// that rest.
pub fn listens(states: &[State], me: usize) -> bool {
    server_beside(states, me) == Some(me)
}

/// Decides what domain `me` does after its RESTING is published. `states` were read since then.
/// `listens` returns what a domain has written before its rest, `has_completions` whether a device
/// has completed something that no kernel has handled: both read memory, after the states.
pub fn look(
    states: &[State],
    me: usize,
    listens: impl Fn(usize) -> bool,
    has_completions: impl FnOnce() -> bool,
) -> Look {
    let server = match server_at_rest(states, me) {
        Ok(server) => server,
        Err(decided) => return decided,
    };
    // An interrupt may have come to a kernel that was already on its way to rest.
    if has_completions() {
        return Look::Withdraw;
    }
    match listens(server) {
        true => Look::Rest,
        false if server == me => Look::Withdraw,
        false => Look::WakeAndRest(server),
    }
}

/// Returns the domain that has to serve while all rest, domain `me` included; or what is decided
/// already because one runs, or because none can serve.
pub(crate) fn server_at_rest(states: &[State], me: usize) -> Result<usize, Look> {
    let server = server_beside(states, me).ok_or(Look::Withdraw)?;
    if states.get(server) == Some(&State::Running) && server != me {
        // It looks when it becomes the first that runs. If it is about to rest, it looks after us.
        return Err(Look::Rest);
    }
    Ok(server)
}

/// Returns the server if domain `me` rests.
fn server_beside(states: &[State], me: usize) -> Option<usize> {
    let taken = states.iter().enumerate();
    chosen(taken.map(|(at, state)| if at == me { State::Resting } else { *state }))
}

fn chosen(states: impl Iterator<Item = State> + Clone) -> Option<usize> {
    let mut running = states.clone().enumerate().filter(|(_, state)| *state == State::Running);
    let resting = states.enumerate().filter(|(_, state)| *state == State::Resting);
    running.next().or_else(|| resting.last()).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::State::{Other, Resting, Running};
    use super::*;

    #[test]
    fn the_first_that_runs_serves_else_the_last_that_rests() {
        for (states, expected) in [
            ([Running, Running, Running], Some(0)),
            ([Resting, Running, Running], Some(1)),
            ([Resting, Resting, Running], Some(2)),
            ([Resting, Resting, Resting], Some(2)),
            ([Resting, Resting, Other], Some(1)),
            ([Resting, Other, Other], Some(0)),
            ([Other, Running, Resting], Some(1)),
            ([Other, Other, Other], None),
        ] {
            assert_eq!(server(&states, None), expected, "{states:?}");
        }
        assert_eq!(server(&[], None), None);
    }

    #[test]
    fn the_home_of_a_driver_serves_while_it_runs() {
        assert_eq!(server(&[Running, Running], Some(1)), Some(1));
        assert_eq!(server(&[Running, Resting], Some(1)), Some(0));
        assert_eq!(server(&[Resting, Running], Some(0)), Some(1));
        assert_eq!(server(&[Resting, Resting], Some(0)), Some(1));
        assert_eq!(server(&[Running, Other], Some(1)), Some(0));
        assert_eq!(server(&[Running, Running], Some(7)), Some(0), "there is no such domain");
    }

    #[test]
    fn only_the_server_listens() {
        assert!(!listens(&[Running, Running], 0));
        assert!(!listens(&[Running, Running], 1));
        assert!(!listens(&[Running, Resting], 0), "the weak one will be woken");
        assert!(listens(&[Resting, Running], 1));
        assert!(listens(&[Running, Other], 0));
    }

    #[test]
    fn a_withdrawal_outweighs_a_wake_and_a_wake_outweighs_a_rest() {
        let wake = Look::WakeAndRest(1);
        assert_eq!(Look::Rest.and(Look::Rest), Look::Rest);
        assert_eq!(Look::Rest.and(wake), wake);
        assert_eq!(wake.and(Look::Rest), wake);
        assert_eq!(wake.and(Look::Withdraw), Look::Withdraw);
        assert_eq!(Look::Withdraw.and(Look::Rest), Look::Withdraw);
    }

    #[test]
    fn the_last_look_withdraws_or_wakes_the_server() {
        let looks = |states: &[State], me, listening: &[usize], completions| {
            look(states, me, |at| listening.contains(&at), || completions)
        };
        assert_eq!(looks(&[Resting, Running], 0, &[], true), Look::Rest);
        assert_eq!(looks(&[Resting, Resting], 0, &[1], false), Look::Rest);
        assert_eq!(looks(&[Resting, Resting], 0, &[1], true), Look::Withdraw);
        assert_eq!(looks(&[Resting, Resting], 0, &[], false), Look::WakeAndRest(1));
        assert_eq!(looks(&[Resting, Resting], 1, &[1], false), Look::Rest);
        assert_eq!(looks(&[Resting, Resting], 1, &[], false), Look::Withdraw);
        assert_eq!(looks(&[Resting, Other], 0, &[], false), Look::Withdraw);
        assert_eq!(looks(&[Running, Other], 0, &[0], false), Look::Rest, "its rest has ended");
    }
}
