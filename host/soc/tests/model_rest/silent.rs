//! Messages of a kernel that rests and wakes, to one that does not look for them while no other
//! kernel runs (`kernel_services::idle`, `kernel_services::duty::look_at_others`), one access at a
//! time. The receiver has two cores; doorbells interrupt the first one, when it takes interrupts.
//! No message may be left with a kernel whose cores are all away.

use stateright::{Checker, Model, Property};

/// The sender's next access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Send {
    Idle,
    /// It has stored a message: does this core attend?
    Look(usize),
    Ring,
}

/// The next access of a core of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Core {
    /// It executes the kernel, and looks at times.
    Attends,
    /// It has declared that it is away, and looks once more.
    LooksOnce,
    Returns,
    Away,
}

/// The next access of the interrupt handler for the chip page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handler {
    None,
    State,
    Flag(bool),
    Poll,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The sender's state in the chip page: it runs, or rests.
    runs: bool,
    send: Send,
    sends: u8,
    wakes: u8,
    unread: u8,
    /// What the receiver believes of the sender.
    others_run: bool,
    attends: [bool; 2],
    cores: [Core; 2],
    handler: Handler,
    /// Doorbells that the receiver's first core has not served.
    chip_rung: bool,
    message_rung: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Send,
    Rest,
    Wake,
    Core(usize),
    /// A core that attends looks, as it does when it releases a lock.
    Look(usize),
    /// A core that is away continues in the kernel.
    Enter(usize),
    Interrupt,
    Handle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A change of the chip page is not followed by a poll.
    NoPoll,
    /// A wake rings no one.
    NoRing,
    /// The receiver does not notice that the sender runs again.
    Deaf,
}

#[derive(Clone, Copy)]
struct Silent(Bug);

impl Silent {
    fn send(state: &mut State) {
        state.send = match state.send {
            Send::Idle => {
                state.sends -= 1;
                state.unread += 1;
                Send::Look(0)
            }
            Send::Look(core) if state.attends[core] => Send::Idle,
            Send::Look(0) => Send::Look(1),
            Send::Look(_) => Send::Ring,
            Send::Ring => {
                state.message_rung = true;
                Send::Idle
            }
        };
    }

    fn core(state: &mut State, at: usize) {
        state.cores[at] = match state.cores[at] {
            Core::Attends => {
                state.attends[at] = false;
                Core::LooksOnce
            }
            Core::LooksOnce if state.others_run && state.unread > 0 => Core::Returns,
            Core::LooksOnce => Core::Away,
            Core::Returns => {
                state.attends[at] = true;
                state.unread = 0;
                Core::Attends
            }
            Core::Away => Core::Away,
        };
    }

    fn handle(&self, state: &mut State) {
        state.handler = match state.handler {
            Handler::State => Handler::Flag(state.runs),
            Handler::Flag(runs) => {
                state.others_run = runs && self.0 != Bug::Deaf;
                Handler::Poll
            }
            Handler::Poll => {
                if self.0 != Bug::NoPoll {
                    state.unread = 0;
                }
                Handler::None
            }
            Handler::None => Handler::None,
        };
    }

    fn interrupt(&self, state: &mut State) {
        if state.message_rung {
            state.unread = 0;
        }
        if core::mem::take(&mut state.chip_rung) {
            state.handler = Handler::State;
        }
        state.message_rung = false;
        (state.attends[0], state.cores[0]) = (true, Core::Attends);
    }

    fn change(&self, state: &mut State, runs: bool) {
        state.runs = runs;
        state.chip_rung |= !(runs && self.0 == Bug::NoRing);
    }
}

impl Model for Silent {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            runs: true,
            send: Send::Idle,
            sends: 3,
            wakes: 2,
            unread: 0,
            others_run: true,
            attends: [true; 2],
            cores: [Core::Attends; 2],
            handler: Handler::None,
            chip_rung: false,
            message_rung: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let mut may = |action: Action, if_so: bool| actions.extend(if_so.then_some(action));
        let is_idle = state.send == Send::Idle;
        may(Action::Send, state.runs && !(is_idle && state.sends == 0));
        may(Action::Rest, state.runs && is_idle);
        may(Action::Wake, !state.runs && state.wakes > 0);
        let handles = state.handler != Handler::None;
        may(Action::Handle, handles);
        may(Action::Interrupt, !handles && (state.chip_rung || state.message_rung));
        for core in 0..2 {
            let is_free = core == 1 || !handles;
            may(Action::Core(core), is_free);
            may(Action::Look(core), is_free && state.cores[core] == Core::Attends);
            may(Action::Enter(core), is_free && state.cores[core] == Core::Away);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Send => Self::send(&mut next),
            Action::Rest => self.change(&mut next, false),
            Action::Wake => {
                next.wakes -= 1;
                self.change(&mut next, true);
            }
            Action::Core(core) => Self::core(&mut next, core),
            Action::Look(_) if state.others_run => next.unread = 0,
            Action::Look(_) => {}
            Action::Enter(core) => {
                (next.attends[core], next.cores[core]) = (true, Core::Attends);
            }
            Action::Interrupt => self.interrupt(&mut next),
            Action::Handle => self.handle(&mut next),
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(READ, |_, state: &State| {
            let is_quiet = state.send == Send::Idle && !state.chip_rung && !state.message_rung;
            let are_away = state.cores == [Core::Away; 2] && state.handler == Handler::None;
            !(is_quiet && are_away) || state.unread == 0
        })]
    }
}

const READ: &str = "no message is left with a kernel whose cores are away";

#[test]
fn a_kernel_that_does_not_look_misses_nothing() {
    let checker = Silent(Bug::None).checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn each_rule_is_needed() {
    for bug in [Bug::NoPoll, Bug::NoRing, Bug::Deaf] {
        let checker = Silent(bug).checker().threads(2).spawn_bfs().join();
        assert!(checker.discovery(READ).is_some(), "{bug:?} breaks nothing?");
    }
}
