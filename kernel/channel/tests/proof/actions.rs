//! What can happen next, and what it does.

use stateright::{Model, Property};

use super::checks::*;
use super::direct;
use super::world::{Free, Log, State, Token, World};
use crate::channels::{Carried, Outgoing, ReceiveError};
use crate::name::EndId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A program sends over an end, without or with another end.
    Send(usize, EndId, Option<EndId>),
    Receive(usize, EndId),
    Close(usize, EndId),
    /// The program of a kernel dies, and the next one starts.
    Exit(usize),
    /// A message enters the ring.
    Fetch(usize, usize),
    Deliver(usize, usize),
    Die(usize),
    /// A kernel learns what has become of another.
    Notice(usize, usize),
    Restart(usize),
    /// In random histories: a new channel, and an end for a program elsewhere.
    Create(usize, u8),
    Hand(usize, EndId, usize),
}

impl World {
    pub fn list_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, kernel) in state.kernels.iter().enumerate() {
            if !kernel.is_alive {
                actions.extend((state.left.restarts > 0).then_some(Action::Restart(index)));
                continue;
            }
            actions.extend((state.left.deaths > 0).then_some(Action::Die(index)));
            let may_exit = state.left.exits > 0 && !kernel.held.is_empty();
            actions.extend(may_exit.then_some(Action::Exit(index)));
            for end in &kernel.held {
                self.end_actions(state, index, *end, actions);
            }
        }
        for (a, b) in self.pairs() {
            actions.extend(self.may_deliver(state, a, b).then_some(Action::Deliver(a, b)));
            let (from, to) = (&state.kernels[a], &state.kernels[b]);
            let actual = if to.is_alive { to.epoch } else { 0 };
            let is_news = from.is_alive && from.known[b] != actual;
            actions.extend(is_news.then_some(Action::Notice(a, b)));
            let has_room = state.links[a * self.kernels + b].len() < self.ring;
            let may_fetch = self.ring > 0 && from.is_alive && has_room;
            let has = may_fetch && from.channels.has_next(base::id::DomainId(b as u8));
            actions.extend(has.then_some(Action::Fetch(a, b)));
        }
    }

    fn end_actions(&self, state: &State, k: usize, end: EndId, actions: &mut Vec<Action>) {
        let kernel = &state.kernels[k];
        let Some((channel, side)) = self.who(state, k, end) else { return };
        let seen = state.tracked[channel].ends[side];
        if seen.is_told {
            // Nothing is left to do with it.
            return actions.push(Action::Close(k, end));
        }
        actions.extend((state.left.closes > 0).then_some(Action::Close(k, end)));
        if self.is_ready(state, k, end) {
            actions.push(Action::Receive(k, end));
        }
        if seen.left == 0 || state.left.sends == 0 {
            return;
        }
        actions.push(Action::Send(k, end, None));
        for other in kernel.held.iter().filter(|_| state.left.moves > 0) {
            let Some((cargo, _)) = self.who(state, k, *other) else { continue };
            if state.tracked[cargo].level < state.tracked[channel].level {
                actions.push(Action::Send(k, end, Some(*other)));
            }
        }
    }

    /// Returns the channel and the side of a descriptor.
    pub fn who(&self, state: &State, k: usize, end: EndId) -> Option<(usize, usize)> {
        let table = &state.kernels[k].channels.table;
        let name = table.get(table.held(end)?)?.name();
        let channel = state.tracked.iter().position(|it| it.name == name.channel)?;
        Some((channel, name.side.index()))
    }

    pub fn is_ready(&self, state: &State, k: usize, end: EndId) -> bool {
        let table = &state.kernels[k].channels.table;
        let end = table.held(end).and_then(|it| table.get(it));
        end.is_some_and(|end| end.is_readable() || end.is_finished())
    }

    fn send(&self, state: &mut State, k: usize, end: EndId, cargo: Option<EndId>) {
        let Some((channel, side)) = self.who(state, k, end) else { return };
        let carries = cargo.and_then(|it| self.who(state, k, it)).map(|(a, b)| (a as u8, b as u8));
        let number = state.tracked[channel].ends[side].sent;
        let payload = Token { channel: channel as u8, side: side as u8, number, carries };
        let message = Outgoing { tag: 0, bytes: 0, payload, carried: [cargo, None] };
        let mut log = Log::default();
        let kernel = &mut state.kernels[k];
        if !direct::is_same(&kernel.channels, end, &message) {
            state.wrong = Some(SAME_IF_SETTLED);
        }
        if !direct::is_same_call(&mut kernel.channels, end, &message) {
            state.wrong = Some(SAME_IF_PAIRED);
        }
        if kernel.channels.send(end, message, &Free, &mut log).is_ok() {
            kernel.held.retain(|it| Some(*it) != cargo);
            let seen = &mut state.tracked[channel].ends[side];
            (seen.sent, seen.left) = (seen.sent + 1, seen.left - 1);
        } else {
            // A refusal changes nothing; the program does not try again.
            state.tracked[channel].ends[side].left -= 1;
        }
        state.left.sends -= 1;
        state.left.moves -= u8::from(cargo.is_some());
        self.take(state, k, log);
    }

    fn receive(&self, state: &mut State, k: usize, end: EndId) {
        let Some((channel, side)) = self.who(state, k, end) else { return };
        let mut log = Log::default();
        let received = state.kernels[k].channels.receive(end, &mut log);
        self.take(state, k, log);
        let peer = state.tracked[channel].ends[1 - side];
        let seen = &mut state.tracked[channel].ends[side];
        match received {
            Ok(message) => {
                let token = message.payload;
                let expected = (channel as u8, 1 - side as u8, seen.read);
                if (token.channel, token.side, token.number) != expected {
                    state.wrong = Some(ORDER);
                }
                seen.read += 1;
                self.end_token(state, token);
                self.hold(state, k, token, message.carried[0]);
            }
            Err(ReceiveError::PeerClosed) => {
                let is_early = seen.read != peer.sent || !peer.is_closed;
                seen.is_told = true;
                if is_early && !state.tracked[channel].is_damaged {
                    state.wrong = Some(CLOSED_LAST);
                }
            }
            Err(_) => state.wrong = Some(READY),
        }
    }

    fn hold(&self, state: &mut State, k: usize, token: Token, carried: Carried) {
        match (token.carries, carried) {
            (Some((channel, side)), Carried::End(end)) => {
                state.kernels[k].held.push(end);
                if self.who(state, k, end) != Some((channel.into(), side.into())) {
                    state.wrong = Some(CARGO);
                }
            }
            (Some((channel, _)), Carried::Lost) => {
                self.lose(state, token);
                let lost = &state.tracked[usize::from(channel)];
                if !lost.is_damaged && !lost.is_crowded {
                    state.wrong = Some(NOT_LOST);
                }
            }
            (None, Carried::Nothing) => {}
            _ => state.wrong = Some(CARGO),
        }
    }

    pub fn end_token(&self, state: &mut State, token: Token) {
        match state.ended.binary_search(&token) {
            Ok(_) => state.wrong = Some(ENDS_ONCE),
            Err(at) => state.ended.insert(at, token),
        }
    }

    /// The end that was carried with this is closed.
    fn lose(&self, state: &mut State, token: Token) {
        if let Some((channel, side)) = token.carries {
            state.tracked[usize::from(channel)].ends[usize::from(side)].is_closed = true;
        }
    }

    /// Takes what a table did.
    pub fn take(&self, state: &mut State, k: usize, log: Log) {
        for name in core::mem::take(&mut state.kernels[k].channels.crowded) {
            if let Some(channel) = state.tracked.iter_mut().find(|it| it.name == name.channel) {
                (channel.ends[name.side.index()].is_closed, channel.is_crowded) = (true, true);
            }
        }
        state.kernels[k].asleep.retain(|it| !log.woken.contains(it));
        state.kernels[k].held.extend(log.arrived.iter().map(|(_, end)| *end));
        for token in log.freed {
            self.lose(state, token);
            self.end_token(state, token);
        }
    }

    fn close(&self, state: &mut State, k: usize, end: EndId) {
        let Some((channel, side)) = self.who(state, k, end) else { return };
        let mut log = Log::default();
        state.tracked[channel].ends[side].is_closed = true;
        let _ = state.kernels[k].channels.close(end, &mut log);
        state.kernels[k].held.retain(|it| *it != end);
        self.take(state, k, log);
    }

    fn die(&self, state: &mut State, k: usize) {
        state.left.deaths -= 1;
        for channel in &mut state.tracked {
            channel.is_damaged |= channel.touched[k] == state.kernels[k].epoch;
        }
        let kernel = &mut state.kernels[k];
        kernel.is_alive = false;
        (kernel.held, kernel.asleep) = (vec![], vec![]);
        kernel.known.fill(0);
        kernel.channels = crate::Channels::new(kernel.life(k), self.limits);
        for other in 0..self.kernels {
            self.link(state, other, k).clear();
        }
    }

    fn notice(&self, state: &mut State, k: usize, other: usize) {
        let known = state.kernels[k].known[other];
        if known != 0 {
            let mut log = Log::default();
            let life =
                crate::Life { epoch: base::id::Epoch(known), ..state.kernels[other].life(other) };
            state.kernels[k].channels.kernel_died(life, &mut log);
            state.kernels[k].known[other] = 0;
            self.link(state, other, k).retain(|mail| mail.from.epoch.0 != known);
            self.take(state, k, log);
        }
        if state.kernels[other].is_alive {
            self.meet(state, k, other);
        }
    }

    fn restart(&self, state: &mut State, k: usize) {
        state.left.restarts -= 1;
        let epoch = state.kernels[k].epoch + 1;
        let mut channels = crate::Channels::new(
            crate::Life { epoch: base::id::Epoch(epoch), ..state.kernels[k].life(k) },
            self.limits,
        );
        self.plant(&mut channels);
        let kernel = &mut state.kernels[k];
        (kernel.epoch, kernel.is_alive, kernel.channels) = (epoch, true, channels);
        for other in (0..self.kernels).filter(|it| *it != k) {
            if state.kernels[other].is_alive {
                self.meet(state, k, other);
            }
        }
    }

    pub fn step(&self, state: &mut State, action: Action) {
        self.act(state, action);
        self.check(state);
    }

    /// A step without the check of the tables.
    pub fn act(&self, state: &mut State, action: Action) {
        match action {
            Action::Send(k, end, cargo) => self.send(state, k, end, cargo),
            Action::Receive(k, end) => self.receive(state, k, end),
            Action::Close(k, end) => {
                let who = self.who(state, k, end);
                let is_told =
                    who.is_some_and(|(channel, side)| state.tracked[channel].ends[side].is_told);
                state.left.closes -= u8::from(!is_told);
                self.close(state, k, end);
            }
            Action::Exit(k) => {
                state.left.exits -= 1;
                for end in state.kernels[k].held.clone() {
                    self.close(state, k, end);
                }
            }
            Action::Fetch(a, b) => {
                self.fetch(state, a, b);
            }
            Action::Deliver(a, b) => self.deliver(state, a, b),
            Action::Die(k) => self.die(state, k),
            Action::Notice(k, other) => self.notice(state, k, other),
            Action::Restart(k) => self.restart(state, k),
            Action::Create(k, level) => {
                let sends = [3, 3];
                self.create(state, super::world::Setup { level, at: [k, k], sends });
            }
            Action::Hand(k, end, to) => self.hand(state, k, end, to),
        }
        self.pump(state);
        self.doze(state);
    }

    /// Programs sleep for all their ends that are not ready. Those that can be are paired.
    fn doze(&self, state: &mut State) {
        for kernel in &mut state.kernels {
            for end in &kernel.held {
                if !kernel.asleep.contains(end) && kernel.channels.begin_poll(*end) == Ok(false) {
                    kernel.asleep.push(*end);
                }
            }
            for end in &kernel.held {
                let _ = kernel.channels.paired(*end, |_| true);
            }
            let held = &kernel.held;
            kernel.asleep.retain(|end| held.contains(end));
            kernel.asleep.sort_by_key(|end| end.index);
            kernel.held.sort_by_key(|end| end.index);
        }
    }
}

type Condition = fn(&World, &State) -> bool;

/// Whether the defect with this number has not occurred.
fn is_fine<const N: usize>(_: &World, state: &State) -> bool {
    state.wrong != Some(super::checks::ALL[N])
}

const CONDITIONS: [Condition; super::checks::ALL.len()] = [
    is_fine::<0>,
    is_fine::<1>,
    is_fine::<2>,
    is_fine::<3>,
    is_fine::<4>,
    is_fine::<5>,
    is_fine::<6>,
    is_fine::<7>,
    is_fine::<8>,
    is_fine::<9>,
    is_fine::<10>,
    is_fine::<11>,
    is_fine::<12>,
    is_fine::<13>,
    is_fine::<14>,
    is_fine::<15>,
    is_fine::<16>,
    is_fine::<17>,
    is_fine::<18>,
];

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.list_actions(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.step(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let property = |name: &&'static str| {
            let at = super::checks::ALL.iter().position(|it| it == name);
            Property::always(name, CONDITIONS[at.unwrap_or(0)])
        };
        super::checks::ALL.iter().map(property).collect()
    }
}
