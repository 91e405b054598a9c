//! The kernel with the normal threads: two cores, two threads.

use kernel_light::{End, FromLight, Gate, Permission, Place, Report, Rest, Sequence};

use crate::state::{AGREES, Body, Doing, EXPECTED, Mistake, Process, STRONG, State, Thread, WEAK};
use crate::world::{Action, DELAYS, How, NOW, World};

const CORES: u8 = 2;

impl World {
    pub fn new_process(&self, session: (u8, u8)) -> Process {
        Process {
            gate: Gate::new(Sequence(self.first), DELAYS),
            threads: self.budget.normal.map(|left| Thread::new(Doing::Ready, left)).to_vec(),
            uncreated: self.budget.lights,
            is_killed: false,
            session,
            reports: 0,
        }
    }

    pub fn strong_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let strong = &state.strong;
        let Some(process) = strong.process.as_ref().filter(|_| state.lives[STRONG].is_alive) else {
            return;
        };
        for t in 0..process.threads.len() {
            self.thread_actions(state, process, t, actions);
        }
        let calls = process.threads.iter().any(|thread| thread.doing == Doing::Creating);
        let is_ended = process.gate.may_run(Place(0)) == Permission::Refused;
        if process.is_killed && !calls && !is_ended {
            actions.push(Action::End);
        }
        if !process.is_killed && state.left.ends > 0 {
            actions.push(Action::Kill);
        }
        if !strong.is_resting && process.gate.due().is_some() {
            actions.push(Action::Time);
        }
        // A Suspend is looked after when it has been sent, and only if it has not been answered.
        if state.weak.is_resting && process.gate.is_closing() {
            actions.push(Action::SeeRest);
        }
        let idle = |thread: &Thread| matches!(thread.doing, Doing::Blocked | Doing::Ended);
        let may_rest = !strong.is_resting && state.left.rests > 0;
        if may_rest
            && process.threads.iter().all(idle)
            && process.gate.clone().rest() != Rest::NotYet
        {
            actions.push(Action::Rest);
        }
    }

    fn thread_actions(&self, state: &State, process: &Process, t: usize, out: &mut Vec<Action>) {
        let thread = &process.threads[t];
        match thread.doing {
            Doing::Ready if idle_core(process).is_some() && !state.strong.is_resting => {
                out.push(Action::Dispatch(t));
            }
            Doing::Border => {
                let core = Place(thread.core.unwrap_or(0));
                let waits = process.gate.may_run(core) == Permission::Awaited;
                if !waits || process.is_killed || self.mistake == Some(Mistake::NoWait) {
                    out.push(Action::Go(t));
                } else if state.left.preemptions > 0 {
                    out.push(Action::Depart(t, How::Preempted));
                }
            }
            Doing::Program => {
                let creates = t == 0 && process.uncreated > 0;
                if thread.left > 0 {
                    out.extend([How::Blocks, How::Calls].map(|how| Action::Depart(t, how)));
                    let faults = state.lives[STRONG].peer != 0;
                    out.extend(faults.then_some(Action::Depart(t, How::Faults)));
                }
                if creates {
                    out.push(Action::Depart(t, How::Creates));
                } else if thread.left == 0 {
                    out.push(Action::Depart(t, How::Ends));
                }
                if state.left.preemptions > 0 {
                    out.push(Action::Depart(t, How::Preempted));
                }
            }
            Doing::Call => out.push(Action::Return(t)),
            Doing::Blocked => out.push(Action::Wake(t)),
            _ => {}
        }
    }

    /// Executes an action of the strong kernel.
    pub fn strong_step(&self, state: &mut State, action: Action) {
        match action {
            Action::Dispatch(t) => dispatch(state, t),
            Action::Depart(t, how) => self.depart(state, t, how),
            Action::Go(t) => self.go(state, t),
            Action::Rest => {
                state.left.rests -= 1;
                state.strong.is_resting = true;
                let Some(process) = state.process() else { return };
                if let Rest::Ready(Some(message)) = process.gate.rest() {
                    state.send(WEAK, Body::ToLight(message));
                }
            }
            Action::Wake(t) => {
                state.strong.is_resting = false;
                set(state, t, Doing::Ready);
            }
            Action::Return(t) => set(state, t, Doing::Border),
            Action::Time => {
                let message = state.process().and_then(|process| process.gate.time(NOW + 1));
                message.into_iter().for_each(|it| state.send(WEAK, Body::ToLight(it)));
            }
            Action::Kill => {
                state.left.ends -= 1;
                state.strong.is_resting = false;
                let Some(process) = state.process() else { return };
                process.is_killed = true;
            }
            Action::SeeRest => {
                state.process().into_iter().for_each(|process| process.gate.peer_rests(NOW));
            }
            Action::End => {
                let message = state.process().and_then(|process| process.gate.end());
                message.into_iter().for_each(|it| state.send(WEAK, Body::ToLight(it)));
            }
            _ => {}
        }
    }

    fn leave(&self, process: &mut Process, t: usize) {
        let Some(core) = process.threads[t].core.take() else { return };
        process.gate.leave(Place(core), NOW);
        if self.mistake == Some(Mistake::CountOff) {
            let inside = |thread: &&Thread| thread.doing == Doing::Program && thread.core.is_some();
            let others = process.threads.iter().filter(inside).filter_map(|thread| thread.core);
            others.for_each(|other| process.gate.leave(Place(other), NOW));
        }
    }

    fn go(&self, state: &mut State, t: usize) {
        let Some(process) = state.process() else { return };
        let Some(core) = process.threads[t].core else { return };
        let refused = process.gate.may_run(Place(core)) == Permission::Refused;
        if refused || process.is_killed {
            self.leave(process, t);
            process.threads[t].doing = Doing::Ended;
        } else {
            process.threads[t].doing = Doing::Program;
        }
    }

    fn depart(&self, state: &mut State, t: usize, how: How) {
        let Some(process) = state.process() else { return };
        process.threads[t].left -= u8::from(how.is_counted());
        if matches!(how, How::Blocks | How::Ends | How::Preempted) {
            self.leave(process, t);
        }
        process.threads[t].doing = how.into();
        match how {
            How::Preempted => state.left.preemptions -= 1,
            How::Faults => state.send(WEAK, Body::PageRequest(t)),
            // A process that ends creates nothing.
            How::Creates => match process.gate.may_run(Place(0)) {
                Permission::Refused => set(state, t, Doing::Border),
                _ => {
                    process.uncreated -= 1;
                    state.send(WEAK, Body::Create(t));
                }
            },
            _ => {}
        }
    }

    /// Handles a message.
    pub fn strong_receive(&self, state: &mut State, body: Body) {
        state.strong.is_resting = false;
        let mistake = self.mistake;
        let first = Sequence(self.first);
        match body {
            Body::PageRequest(t) => state.send(WEAK, Body::Page(t)),
            Body::Page(t) | Body::Created(t) => {
                let waits =
                    |thread: &Thread| matches!(thread.doing, Doing::Fault | Doing::Creating);
                if state.process().is_some_and(|process| waits(&process.threads[t])) {
                    set(state, t, Doing::Border);
                }
            }
            Body::FromLight(FromLight::Changed(_)) if mistake == Some(Mistake::LostReport) => {}
            Body::FromLight(message) => {
                let Some(process) = state.process() else { return };
                process.reports += 1;
                let message = match mistake {
                    Some(Mistake::OldReport) => renumber(message, first, process.reports),
                    _ => {
                        process.reports = 0;
                        message
                    }
                };
                if process.gate.receive(message, NOW).is_err() {
                    state.broken = Some(EXPECTED);
                }
            }
            _ => {}
        }
    }

    /// Handles the death of the weak kernel.
    pub fn strong_mourns(&self, state: &mut State) {
        let Some(process) = state.process() else { return };
        for thread in &mut process.threads {
            if matches!(thread.doing, Doing::Fault | Doing::Creating) {
                thread.doing = Doing::Border;
            }
        }
        if self.mistake != Some(Mistake::WaitForDead) {
            process.gate.peer_died();
        }
    }

    pub fn may_start(&self, state: &State) -> bool {
        let life = state.lives[STRONG];
        let over = state.strong.process.as_ref().is_none_or(|process| {
            process.gate.outcome() == Some(End::Lost)
                && process.threads.iter().all(|thread| thread.doing == Doing::Ended)
        });
        life.is_alive && life.peer != 0 && over && state.left.lives > 0
    }
}

fn renumber(message: FromLight, first: Sequence, count: u32) -> FromLight {
    let number = Sequence(first.0.wrapping_add(count));
    let renumbered = |report: Report| Report { number, ..report };
    match message {
        FromLight::Stopped { seq, report } => {
            FromLight::Stopped { seq, report: renumbered(report) }
        }
        FromLight::Changed(report) => FromLight::Changed(renumbered(report)),
    }
}

fn idle_core(process: &Process) -> Option<u8> {
    (0..CORES).find(|core| process.threads.iter().all(|thread| thread.core != Some(*core)))
}

fn set(state: &mut State, t: usize, doing: Doing) {
    if let Some(process) = state.process() {
        process.threads[t].doing = doing;
    }
}

fn dispatch(state: &mut State, t: usize) {
    let Some(process) = state.process() else { return };
    let Some(core) = idle_core(process) else { return };
    let dispatch = process.gate.enter(Place(core));
    let waits = process.gate.may_run(Place(core)) == Permission::Awaited;
    process.threads[t].core = Some(core);
    process.threads[t].doing = Doing::Border;
    if waits != dispatch.must_wait {
        state.broken = Some(AGREES);
    }
    dispatch.send.into_iter().for_each(|it| state.send(WEAK, Body::ToLight(it)));
}
