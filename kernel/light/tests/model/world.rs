//! The model: what can happen next, and what must always hold.

use kernel_light::{Delays, End, Gate, Group, Lights, Permission, ToLight};
use stateright::{Model, Property};

use crate::state::{
    AGREES, Body, Budget, Doing, EXPECTED, Life, Mistake, NEVER_BOTH, NOT_FREED, Packet, Process,
    STRONG, State, Strong, Thread, WEAK,
};
use crate::weak::{lights, suspends};

/// Every event happens now; the gate's delays may end at any time after it.
pub const NOW: u64 = 0;
pub const DELAYS: Delays = Delays { quiet_ns: 1, patience_ns: 1 };

/// How a thread leaves program code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Blocks,
    Calls,
    Faults,
    Creates,
    Ends,
    Preempted,
}

impl How {
    /// Returns whether this uses up the thread's budget.
    pub const fn is_counted(self) -> bool {
        matches!(self, How::Blocks | How::Calls | How::Faults)
    }
}

impl From<How> for Doing {
    fn from(how: How) -> Doing {
        match how {
            How::Blocks => Doing::Blocked,
            How::Calls => Doing::Call,
            How::Faults => Doing::Fault,
            How::Creates => Doing::Creating,
            How::Ends => Doing::Ended,
            How::Preempted => Doing::Ready,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LightAction {
    /// Return to program code, or end.
    Go,
    Interrupt,
    Depart(How),
    /// The call or the wait ends.
    Return,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Dispatch(usize),
    /// The normal thread returns to program code, or ends.
    Go(usize),
    Depart(usize, How),
    /// Its call ends.
    Return(usize),
    Wake(usize),
    /// The gate's delays end.
    Time,
    Rest,
    WeakRest,
    /// The strong kernel sees that the weak one rests.
    SeeRest,
    /// A signal ends the process; its kernel acts on it.
    Kill,
    End,
    Light(usize, LightAction),
    /// A message arrives; with `true`, it arrives once more later.
    Deliver(usize, bool),
    Die(usize),
    /// A kernel notices what has become of its peer.
    Notice(usize),
    Boot(usize),
    /// The strong kernel starts the next process.
    Start,
}

/// What becomes of a message that could be delivered now.
#[derive(PartialEq, Eq)]
enum Fate {
    Handled,
    Dropped,
    Later,
}

#[derive(Clone, Copy, Debug)]
pub struct World {
    pub budget: Budget,
    /// The first sequence number.
    pub first: u32,
    pub mistake: Option<Mistake>,
}

fn is_inside(thread: &Thread) -> bool {
    thread.doing == Doing::Program
}

fn actual(state: &State, kernel: usize) -> u8 {
    let life = state.lives[kernel];
    if life.is_alive { life.epoch } else { 0 }
}

impl World {
    fn fate(&self, state: &State, packet: &Packet) -> Fate {
        let me = state.lives[packet.to];
        let (from, to) = packet.epochs;
        let is_old = to != me.epoch || from != actual(state, 1 - packet.to) && from != me.peer;
        if self.mistake == Some(Mistake::OldEpoch) {
            return Fate::Handled;
        }
        if is_old {
            return Fate::Dropped;
        }
        // A Suspend that the strong kernel does not wait for wakes no kernel that rests.
        let is_suspend = matches!(packet.body, Body::ToLight(ToLight::Suspend(_)));
        let waits = state.strong.process.as_ref().is_some_and(|it| it.gate.is_closing());
        let sleeps = is_suspend && state.weak.is_resting && !waits;
        let is_deaf = self.mistake == Some(Mistake::Deaf) && is_deaf(state, packet);
        // A new process begins when the threads of the lost one have ended.
        let replaces = matches!(packet.body, Body::Create(_))
            && packet.epochs != state.weak.session
            && state.weak.group.as_ref().is_some_and(|group| !group.is_over());
        if from != me.peer || is_deaf || replaces || sleeps { Fate::Later } else { Fate::Handled }
    }

    fn deliver(&self, state: &mut State, index: usize, is_repeated: bool) {
        let packet = state.net[index];
        let fate = self.fate(state, &packet);
        if is_repeated {
            state.left.repeats -= 1;
        } else {
            state.net.remove(index);
        }
        match packet.to {
            _ if fate != Fate::Handled => {}
            STRONG => self.strong_receive(state, packet.body),
            _ => self.weak_receive(state, packet.body),
        }
    }

    fn network_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (i, packet) in state.net.iter().enumerate() {
            let is_same = |other: &Packet| other == packet;
            if !state.lives[packet.to].is_alive || state.net[..i].iter().any(is_same) {
                continue;
            }
            let fate = self.fate(state, packet);
            actions.extend((fate != Fate::Later).then_some(Action::Deliver(i, false)));
            let may_repeat = matches!(packet.body, Body::ToLight(_) | Body::FromLight(_));
            let repeats = state.left.repeats > 0 && may_repeat && fate == Fate::Handled;
            actions.extend(repeats.then_some(Action::Deliver(i, true)));
        }
    }

    fn power_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for kernel in [STRONG, WEAK] {
            let life = state.lives[kernel];
            if !life.is_alive {
                actions.extend((state.left.restarts > 0).then_some(Action::Boot(kernel)));
                continue;
            }
            actions.extend((state.left.deaths > 0).then_some(Action::Die(kernel)));
            let is_news = life.peer != actual(state, 1 - kernel);
            actions.extend(is_news.then_some(Action::Notice(kernel)));
        }
        actions.extend(self.may_start(state).then_some(Action::Start));
    }

    fn die(&self, state: &mut State, kernel: usize) {
        state.left.deaths -= 1;
        state.lives[kernel].is_alive = false;
        if self.mistake != Some(Mistake::OldEpoch) {
            state.net.retain(|packet| packet.to != kernel);
        }
        match kernel {
            STRONG => state.strong = Strong { process: None, is_resting: false },
            _ => state.weak = self.new_weak(),
        }
    }

    fn notice(&self, state: &mut State, kernel: usize) {
        let was_known = state.lives[kernel].peer != 0;
        state.lives[kernel].peer = actual(state, 1 - kernel);
        match kernel {
            _ if !was_known => {}
            STRONG => {
                state.strong.is_resting = false;
                self.strong_mourns(state);
            }
            _ => self.weak_mourns(state),
        }
    }

    fn violation(&self, state: &State) -> Option<&'static str> {
        let process = state.strong.process.as_ref()?;
        let (life, weak) = (state.lives[WEAK], &state.weak);
        let is_same = process.session == weak.session && life.is_alive && weak.group.is_some();
        if !is_same {
            return None;
        }
        if process.threads.iter().any(is_inside) && weak.threads.iter().any(is_inside) {
            return Some(NEVER_BOTH);
        }
        let is_early = self.mistake == Some(Mistake::EarlyFree) && is_refused(&process.gate);
        let is_freed = process.gate.outcome() == Some(End::Ended) || is_early;
        (is_freed && lights(&weak.threads) != Lights::Absent).then_some(NOT_FREED)
    }

    /// Returns whether all work is done: every thread has ended, and none waits for an answer.
    pub fn is_done(&self, state: &State) -> bool {
        let ended = |thread: &Thread| matches!(thread.doing, Doing::Ended | Doing::Unborn);
        let is_over = |process: &Process| {
            let is_killed = process.is_killed && process.gate.outcome().is_none();
            process.threads.iter().all(ended) && !is_killed
        };
        let orphans = |group: &Group| state.lives[WEAK].peer == 0 && !group.is_over();
        let is_left = |packet: &Packet| self.fate(state, packet) != Fate::Later;
        !state.net.iter().any(is_left)
            && state.strong.process.as_ref().is_none_or(is_over)
            && state.weak.threads.iter().all(ended)
            && !state.weak.group.as_ref().is_some_and(orphans)
    }
}

fn is_refused(gate: &Gate) -> bool {
    gate.may_run(kernel_light::Place(0)) == Permission::Refused
}

/// A kernel that waits for an answer or a page handles nothing else ([`Mistake::Deaf`]).
fn is_deaf(state: &State, packet: &Packet) -> bool {
    let waits = |threads: &[Thread], doing| threads.iter().any(|thread| thread.doing == doing);
    let process = state.strong.process.as_ref();
    match (packet.to, packet.body) {
        (_, Body::Page(_) | Body::FromLight(_)) => false,
        (STRONG, _) => process.is_some_and(|it| waits(&it.threads, Doing::Border)),
        _ => waits(&state.weak.threads, Doing::Fault),
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let process = Some(self.new_process((1, 1)));
        vec![State {
            lives: [Life { epoch: 1, is_alive: true, peer: 1 }; 2],
            strong: Strong { process, is_resting: false },
            weak: self.new_weak(),
            net: vec![],
            left: self.budget,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.strong_actions(state, actions);
        let mut lights = vec![];
        self.weak_actions(state, &mut lights);
        actions.extend(lights.into_iter().map(|(t, action)| Action::Light(t, action)));
        actions.extend(self.may_rest(state).then_some(Action::WeakRest));
        self.network_actions(state, actions);
        self.power_actions(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = state.clone();
        match action {
            Action::Light(t, action) => self.weak_step(&mut state, t, action),
            Action::Deliver(i, is_repeated) => self.deliver(&mut state, i, is_repeated),
            Action::WeakRest => {
                state.left.weak_rests -= 1;
                (state.weak.is_resting, state.weak.must_look) = (true, None);
            }
            Action::Die(kernel) => self.die(&mut state, kernel),
            Action::Notice(kernel) => self.notice(&mut state, kernel),
            Action::Boot(kernel) => {
                state.left.restarts -= 1;
                let epoch = state.lives[kernel].epoch + 1;
                let peer = actual(&state, 1 - kernel);
                state.lives[kernel] = Life { epoch, is_alive: true, peer };
            }
            Action::Start => {
                state.left.lives -= 1;
                state.strong.is_resting = false;
                let life = state.lives[STRONG];
                state.strong.process = Some(self.new_process((life.epoch, life.peer)));
            }
            action => self.strong_step(&mut state, action),
        }
        state.broken = state.broken.or(self.violation(&state));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NEVER_BOTH, |_, state: &State| state.broken != Some(NEVER_BOTH)),
            Property::always(NOT_FREED, |_, state: &State| state.broken != Some(NOT_FREED)),
            Property::always(EXPECTED, |_, state: &State| state.broken != Some(EXPECTED)),
            Property::always(AGREES, |_, state: &State| state.broken != Some(AGREES)),
            Property::sometimes(REACHED[0], |_, state: &State| {
                state.strong.is_resting && state.weak.threads.iter().any(is_inside)
            }),
            Property::sometimes(REACHED[1], |_, state: &State| beside(state, Doing::Fault)),
            Property::sometimes(REACHED[2], |_, state: &State| beside(state, Doing::Call)),
            Property::sometimes(REACHED[3], |_, state: &State| {
                let heard = state.weak.heard;
                let is_old = |packet: &Packet| match packet.body {
                    Body::ToLight(ToLight::Resume(seq)) => heard.is_after(seq),
                    _ => false,
                };
                state.net.iter().any(is_old)
            }),
            Property::sometimes(REACHED[4], |_, state: &State| {
                let waits = |thread: &Thread| thread.doing == Doing::Border;
                let process = state.strong.process.as_ref();
                process.is_some_and(|it| it.gate.is_closing() && it.threads.iter().all(waits))
            }),
            Property::sometimes(REACHED[5], |_, state: &State| {
                let inside = state.strong.process.iter().any(|it| it.threads.iter().any(is_inside));
                state.weak.is_resting && inside && suspends(state).next().is_some()
            }),
        ]
    }
}

/// What a run of the model must have reached, or it shows nothing.
pub const REACHED: [&str; 6] = [
    "a light thread runs while the strong kernel rests",
    "a normal thread runs while a light one is in a fault",
    "a normal thread runs while a light one is in a kernel call",
    "a Resume has been overtaken by a Suspend",
    "two cores wait for one answer",
    "a normal thread runs before the weak kernel, at rest, handles the Suspend",
];

/// Returns whether a normal thread is in program code while a light one does this.
fn beside(state: &State, doing: Doing) -> bool {
    let inside = state.strong.process.iter().any(|it| it.threads.iter().any(is_inside));
    inside && state.weak.threads.iter().any(|thread| thread.doing == doing)
}
