//! Which kernel keeps the timers of the services whose state all kernels share
//! (docs/design/rest.md).
//!
//! Contract: any kernel can execute the step of a due timer, and that step names the next time at
//! which anything in the service is due. So one kernel is enough, and it should be one that is
//! awake, or else the weakest one.
//! - A kernel *keeps* the timers during its rest if it is the server of the devices then
//!   ([`crate::duty::listens`]). Otherwise it *leaves* them: it writes their times to its page, and
//!   they do not end its rest.
//! - The first domain that is RUNNING takes what the others have left ([`takes`], [`take`]). It
//!   looks whenever a state has changed, and when it becomes RUNNING.
//! - A kernel looks after its RESTING is published ([`look`]), because the states may have changed.

use crate::duty::{Look, State, server_at_rest};

/// What a kernel does about the timers of another domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Take {
    /// The domain keeps its timers, or they were taken.
    Nothing,
    /// It takes the times that the domain has left.
    Left,
    /// It does not know the domain's timers: all services look what is due.
    All,
}

/// Returns whether domain `me`, which runs or begins to rest, takes what other domains leave. In a
/// rest this is true only if no other domain is RUNNING.
pub fn takes(states: &[State], me: usize) -> bool {
    !states.iter().take(me).any(|state| *state == State::Running)
}

/// Returns what to do about a domain's timers. `starts`: how often the domain had started to run,
/// read **before** its state. `taken`: its `starts` when its timers were last taken; 0 if never.
pub fn take(state: State, starts: u64, taken: u64) -> Take {
    match state {
        _ if starts == taken => Take::Nothing,
        State::Resting => Take::Left,
        State::Stopped => Take::All,
        // The timers of a life that has ended are lost, which is noticed elsewhere.
        State::Running | State::Other => Take::Nothing,
    }
}

/// Decides what domain `me` does after its RESTING is published. `states` were read since then.
/// `left` is the earliest time that it has left to others, `kept` returns the earliest one for
/// which a domain's rest ends; `u64::MAX` if there is none. `has_taken` takes what other domains
/// have left, and returns whether that was anything.
pub fn look(
    states: &[State],
    me: usize,
    left: u64,
    kept: impl Fn(usize) -> u64,
    has_taken: impl FnOnce() -> bool,
) -> Look {
    let server = match server_at_rest(states, me) {
        Ok(server) => server,
        Err(decided) => return decided,
    };
    if has_taken() {
        return Look::Withdraw;
    }
    match server {
        _ if left == u64::MAX => Look::Rest,
        _ if server == me => Look::Withdraw,
        // The server takes them when it wakes.
        _ if kept(server) <= left => Look::Rest,
        _ => Look::WakeAndRest(server),
    }
}

#[cfg(test)]
mod tests {
    use super::State::{Other, Resting, Running, Stopped};
    use super::*;

    const NONE: u64 = u64::MAX;

    #[test]
    fn the_first_domain_that_runs_takes_the_timers() {
        assert!(takes(&[Running, Running], 0));
        assert!(!takes(&[Running, Running], 1));
        assert!(takes(&[Resting, Running], 1));
        assert!(takes(&[Stopped, Other, Running], 2));
    }

    #[test]
    fn timers_are_taken_once_for_each_time_that_a_domain_stops() {
        assert_eq!(take(Resting, 3, 2), Take::Left);
        assert_eq!(take(Resting, 3, 3), Take::Nothing);
        assert_eq!(take(Stopped, 3, 2), Take::All);
        assert_eq!(take(Stopped, 3, 3), Take::Nothing);
        assert_eq!(take(Stopped, 0, 0), Take::Nothing, "it has never run");
        assert_eq!(take(Running, 3, 2), Take::Nothing);
        assert_eq!(take(Other, 3, 2), Take::Nothing);
    }

    #[test]
    fn a_rest_leaves_the_timers_to_a_domain_that_runs() {
        let never = |_| -> u64 { unreachable!("the domain runs") };
        let looks = look(&[Resting, Running], 0, 5, never, || unreachable!("the other one takes"));
        assert_eq!(looks, Look::Rest);
    }

    #[test]
    fn the_last_rest_keeps_the_timers_or_wakes_the_domain_that_does() {
        let looks = |states: &[State], me, left, kept, has_taken| {
            look(states, me, left, |_| kept, || has_taken)
        };
        let (both, alone) = ([Resting, Resting], [Resting, Stopped]);
        assert_eq!(looks(&both, 0, 5, NONE, false), Look::WakeAndRest(1));
        assert_eq!(looks(&both, 0, 5, 6, false), Look::WakeAndRest(1));
        assert_eq!(looks(&both, 0, 5, 5, false), Look::Rest, "the other one wakes in time");
        assert_eq!(looks(&both, 0, NONE, NONE, false), Look::Rest);
        assert_eq!(looks(&both, 0, NONE, NONE, true), Look::Withdraw);
        assert_eq!(looks(&both, 1, 5, NONE, false), Look::Withdraw, "it has to keep them");
        assert_eq!(looks(&both, 1, NONE, NONE, false), Look::Rest);
        assert_eq!(looks(&alone, 0, 5, NONE, false), Look::Withdraw);
        assert_eq!(looks(&alone, 0, NONE, NONE, true), Look::Withdraw);
    }
}
