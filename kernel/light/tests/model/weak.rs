//! The weak kernel: one or two light threads, each on a core of its own.

use kernel_light::{FromLight, Group, Lights, Permission, Sequence, Stop, ToLight};

use crate::state::{Body, Doing, Mistake, NOT_FREED, STRONG, State, Thread, WEAK, Weak};
use crate::world::{How, LightAction, World};

impl World {
    pub fn new_weak(&self) -> Weak {
        let lights = usize::from(self.budget.lights);
        let threads = self.budget.light[..lights].iter();
        Weak {
            group: None,
            threads: threads.map(|left| Thread::new(Doing::Unborn, *left)).collect(),
            is_resting: false,
            must_look: None,
            session: (0, 0),
            heard: Sequence(self.first),
        }
    }

    pub fn weak_actions(&self, state: &State, out: &mut Vec<(usize, LightAction)>) {
        let Some(group) = state.weak.group.as_ref().filter(|_| state.lives[WEAK].is_alive) else {
            return;
        };
        let looks = self.must_look(state);
        for (t, thread) in state.weak.threads.iter().enumerate() {
            match thread.doing {
                Doing::Border if group.may_run() != Permission::Awaited && !looks => {
                    out.push((t, LightAction::Go));
                }
                Doing::Program => {
                    if group.may_run() != Permission::Granted {
                        out.push((t, LightAction::Interrupt));
                    }
                    if thread.left == 0 {
                        out.push((t, LightAction::Depart(How::Ends)));
                        continue;
                    }
                    let hows = [How::Blocks, How::Calls].map(LightAction::Depart);
                    out.extend(hows.map(|how| (t, how)));
                    let faults = state.lives[WEAK].peer != 0;
                    out.extend(faults.then_some((t, LightAction::Depart(How::Faults))));
                }
                Doing::Blocked | Doing::Call => out.push((t, LightAction::Return)),
                _ => {}
            }
        }
    }

    /// Returns whether a Suspend that arrived during a rest is still to be handled.
    fn must_look(&self, state: &State) -> bool {
        let newest = state.weak.must_look.filter(|_| self.mistake != Some(Mistake::NoLook));
        newest.is_some_and(|newest| suspends(state).any(|seq| !seq.is_after(newest)))
    }

    /// Returns whether the weak kernel may begin to rest: no thread has work. One that waits for
    /// its turn has none.
    pub fn may_rest(&self, state: &State) -> bool {
        let weak = &state.weak;
        let is_held = weak.group.as_ref().is_some_and(|it| it.may_run() == Permission::Awaited);
        let idle = |thread: &Thread| match thread.doing {
            Doing::Blocked | Doing::Unborn | Doing::Ended => true,
            Doing::Border => is_held,
            _ => false,
        };
        let is_awake = state.lives[WEAK].is_alive && !weak.is_resting;
        is_awake && state.left.weak_rests > 0 && weak.threads.iter().all(idle)
    }

    pub fn weak_wakes(&self, state: &mut State) {
        if std::mem::take(&mut state.weak.is_resting) {
            let newest = suspends(state).reduce(|a, b| if a.is_after(b) { a } else { b });
            state.weak.must_look = newest;
        }
    }

    pub fn weak_step(&self, state: &mut State, t: usize, action: LightAction) {
        self.weak_wakes(state);
        let Some(group) = &state.weak.group else { return };
        let permission = group.may_run();
        let thread = &mut state.weak.threads[t];
        match action {
            LightAction::Go if permission == Permission::Refused => thread.doing = Doing::Ended,
            LightAction::Go => thread.doing = Doing::Program,
            LightAction::Interrupt => thread.doing = Doing::Border,
            LightAction::Return => thread.doing = self.returns(thread.doing),
            LightAction::Depart(how) => {
                thread.left -= u8::from(how.is_counted());
                thread.doing = how.into();
                if how == How::Faults {
                    state.send(STRONG, Body::PageRequest(t));
                }
            }
        }
        self.settle(state);
    }

    /// What follows a call or a fault.
    fn returns(&self, from: Doing) -> Doing {
        match self.mistake {
            Some(Mistake::ReturnUnasked) if from != Doing::Blocked => Doing::Program,
            _ => Doing::Border,
        }
    }

    /// Reports what the threads do to the group.
    fn settle(&self, state: &mut State) {
        let lights = lights(&state.weak.threads);
        let count = |doing| state.weak.threads.iter().filter(|it| it.doing == doing).count();
        let inside = count(Doing::Program);
        let is_stopped = inside == 0 || (self.mistake == Some(Mistake::AnswerOfOne) && inside == 1);
        let Some(group) = &mut state.weak.group else { return };
        let change = group.changed(lights);
        let answer = if is_stopped { group.stopped() } else { None };
        for message in change.into_iter().chain(answer) {
            state.send(STRONG, Body::FromLight(message));
        }
    }

    fn create(&self, state: &mut State) {
        if state.weak.group.as_ref().is_none_or(Group::is_over) {
            if lights(&state.weak.threads) != Lights::Absent {
                state.broken = Some(NOT_FREED);
            }
            state.weak = self.new_weak();
            state.weak.group = Some(Group::new(Sequence(self.first)));
            state.weak.session = (state.lives[WEAK].peer, state.lives[WEAK].epoch);
        }
        let unborn = |thread: &&mut Thread| thread.doing == Doing::Unborn;
        if let Some(thread) = state.weak.threads.iter_mut().find(unborn) {
            thread.doing = Doing::Border;
        }
    }

    /// Handles a message.
    pub fn weak_receive(&self, state: &mut State, body: Body) {
        self.weak_wakes(state);
        match body {
            Body::Create(t) => {
                self.create(state);
                state.send(STRONG, Body::Created(t));
            }
            Body::PageRequest(t) => state.send(STRONG, Body::Page(t)),
            Body::Page(t)
                if state.weak.threads.get(t).is_some_and(|it| it.doing == Doing::Fault) =>
            {
                state.weak.threads[t].doing = self.returns(Doing::Fault);
            }
            Body::ToLight(message) => self.gate_message(state, message),
            _ => {}
        }
        self.settle(state);
    }

    fn gate_message(&self, state: &mut State, message: ToLight) {
        let weak = &mut state.weak;
        let (ToLight::Suspend(seq) | ToLight::Resume(seq) | ToLight::End(seq)) = message;
        // The group of a lost process has nothing to do with this one.
        let life = state.lives[WEAK];
        let is_mine = weak.session == (life.peer, life.epoch);
        let Some(group) = weak.group.as_mut().filter(|_| is_mine) else {
            let answer = FromLight::without_group(seq);
            return state.send(STRONG, Body::FromLight(answer));
        };
        if seq.is_after(weak.heard) {
            weak.heard = seq;
        }
        let message = match (self.mistake, message) {
            (Some(Mistake::OldResume), ToLight::Resume(_)) if seq != weak.heard => {
                ToLight::Resume(weak.heard.next())
            }
            (_, message) => message,
        };
        let answer = match group.receive(message) {
            Stop::Answer(answer) => Some(answer),
            Stop::Interrupt if self.mistake == Some(Mistake::EarlyAnswer) => group.stopped(),
            _ => None,
        };
        answer.into_iter().for_each(|answer| state.send(STRONG, Body::FromLight(answer)));
    }

    /// Handles the death of the strong kernel.
    pub fn weak_mourns(&self, state: &mut State) {
        self.weak_wakes(state);
        for thread in &mut state.weak.threads {
            if thread.doing == Doing::Fault {
                thread.doing = Doing::Border;
            }
        }
        if let Some(group) = &mut state.weak.group
            && self.mistake != Some(Mistake::Orphans)
        {
            group.peer_died();
        }
        self.settle(state);
    }
}

/// Numbers of the Suspends that are on their way.
pub fn suspends(state: &State) -> impl Iterator<Item = Sequence> {
    state.net.iter().filter_map(|packet| match packet.body {
        Body::ToLight(ToLight::Suspend(seq)) => Some(seq),
        _ => None,
    })
}

/// What the threads want.
pub fn lights(threads: &[Thread]) -> Lights {
    let is_alive = |thread: &&Thread| !matches!(thread.doing, Doing::Unborn | Doing::Ended);
    let wants = |thread: &Thread| matches!(thread.doing, Doing::Border | Doing::Program);
    match threads.iter().find(is_alive) {
        None => Lights::Absent,
        Some(_) if threads.iter().any(wants) => Lights::Runnable,
        Some(_) => Lights::Blocked,
    }
}
