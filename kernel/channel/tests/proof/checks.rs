//! What must hold in each state, and in those in which nothing is on its way.

use super::world::{Mail, State, Token, World};
use crate::end::{End, Place, Slot};
use crate::message::{Cargo, Message, Record};
use crate::name::EndName;

pub const NO_FAULT: &str = "no kernel finds a fault in another";
pub const ORDER: &str = "messages arrive once, in order, without a gap";
pub const CLOSED_LAST: &str = "a peer is closed only after all its messages";
pub const READY: &str = "an end that is ready gives something";
pub const CARGO: &str = "a message brings the end that was sent with it";
pub const NOT_LOST: &str = "an end is lost only with a kernel";
pub const ENDS_ONCE: &str = "a payload is received or freed once";
pub const ONE_PLACE: &str = "an end is in one place";
pub const ONE_PAYLOAD: &str = "a payload is in one place";
pub const WOKEN: &str = "a program is woken when it can receive";
pub const NO_LEAK: &str = "nothing is left of an end that is gone";
pub const LEARNS: &str = "an end learns that its peer is gone";
pub const ARRIVES: &str = "everything that was sent arrives";
pub const ALIVE: &str = "a live peer is not reported as closed";
pub const ROOM: &str = "no room is lost";
pub const SAME_IF_SETTLED: &str = "a message of a settled end is the next one to its peer";
pub const SAME_IF_PAIRED: &str = "a call between paired ends is received at once";
pub const PAIRED: &str = "between the ends of a pair nothing is on its way";
pub const SAME_IF_DELIVERED: &str = "a message that is delivered was received";

pub const ALL: [&str; 19] = [
    NO_FAULT,
    ORDER,
    CLOSED_LAST,
    READY,
    CARGO,
    NOT_LOST,
    ENDS_ONCE,
    ONE_PLACE,
    ONE_PAYLOAD,
    WOKEN,
    NO_LEAK,
    LEARNS,
    ARRIVES,
    ALIVE,
    ROOM,
    SAME_IF_SETTLED,
    SAME_IF_PAIRED,
    PAIRED,
    SAME_IF_DELIVERED,
];

impl World {
    pub fn check(&self, state: &mut State) {
        if self.is_quiet(state) {
            state.tracked.iter_mut().for_each(|channel| channel.touched = [0; 3]);
        }
        self.touch(state);
        let wrong = self.places(state).or_else(|| self.sleepers(state));
        let wrong = wrong.or_else(|| self.paired(state));
        let wrong = wrong.or_else(|| self.is_quiet(state).then(|| self.rest(state)).flatten());
        state.wrong = state.wrong.or(wrong);
    }

    /// Records which kernels have had something of a channel.
    fn touch(&self, state: &mut State) {
        for (k, kernel) in state.kernels.iter().enumerate().filter(|(_, it)| it.is_alive) {
            let table = &kernel.channels.table;
            for end in (0..table.len()).filter_map(|index| table.get(index)) {
                let is_it = |it: &&mut super::world::Tracked| it.name == end.name().channel;
                if let Some(channel) = state.tracked.iter_mut().find(is_it) {
                    channel.touched[k] = kernel.epoch;
                    if let Place::Away(to) | Place::Handed { to, .. } = end.place {
                        channel.touched[to.kernel.index()] = to.epoch.0;
                        let there = &state.kernels[to.kernel.index()];
                        channel.is_damaged |= !there.is_alive || there.epoch != to.epoch.0;
                    }
                }
            }
        }
    }

    /// Messages that may still be handled.
    fn mails<'a>(&self, state: &'a State) -> impl Iterator<Item = &'a Mail> {
        let is_open = |mail: &&Mail| {
            let (from, to) = (mail.from.kernel.index(), mail.to.kernel.index());
            let known = state.kernels[to].known[from];
            let sent = mail.from.epoch.0;
            let will = state.kernels[from].is_alive && sent == state.kernels[from].epoch;
            mail.to.epoch.0 == state.kernels[to].epoch && (sent == known || will)
        };
        state.links.iter().flatten().filter(is_open)
    }

    /// An end is in one place, and so is a payload.
    fn places(&self, state: &State) -> Option<&'static str> {
        let mut ends: Vec<EndName> = vec![];
        let mut tokens: Vec<Token> = vec![];
        for kernel in state.kernels.iter().filter(|it| it.is_alive) {
            let table = &kernel.channels.table;
            for end in (0..table.len()).filter_map(|index| table.get(index)) {
                ends.extend(end.is_live().then_some(end.name()));
                tokens.extend(end.queue.iter().chain(&end.outgoing).map(|entry| entry.payload));
            }
        }
        for mail in self.mails(state) {
            let add = |record: &Record, ends: &mut Vec<EndName>| ends.push(record.name);
            match &mail.message {
                Message::Data { data, .. } => {
                    tokens.push(data.payload);
                    for cargo in &data.carried {
                        if let Cargo::End(record) = cargo {
                            add(record, &mut ends);
                        }
                    }
                }
                Message::Hand { record, .. } => add(record, &mut ends),
                _ => {}
            }
        }
        let twice = (1..ends.len()).any(|at| ends[..at].contains(&ends[at]));
        let again = (1..tokens.len()).any(|at| tokens[..at].contains(&tokens[at]));
        let ended = tokens.iter().any(|token| state.ended.binary_search(token).is_ok());
        match (twice, again || ended) {
            (true, _) => Some(ONE_PLACE),
            (_, true) => Some(ONE_PAYLOAD),
            _ => None,
        }
    }

    fn paired(&self, state: &State) -> Option<&'static str> {
        for (k, kernel) in state.kernels.iter().enumerate().filter(|(_, it)| it.is_alive) {
            let (me, table) = (kernel.life(k), &kernel.channels.table);
            for index in 0..table.len() {
                let Some(other) = table.pair(index).and_then(|it| table.get(it)) else { continue };
                let is_next =
                    |one: &End<Token>| one.is_next_at(other, me) && other.is_next_at(one, me);
                if !table.get(index).is_some_and(is_next) {
                    return Some(PAIRED);
                }
            }
        }
        None
    }

    fn sleepers(&self, state: &State) -> Option<&'static str> {
        for (k, kernel) in state.kernels.iter().enumerate() {
            if kernel.asleep.iter().any(|end| self.is_ready(state, k, *end)) {
                return Some(WOKEN);
            }
        }
        None
    }

    /// Nothing is on its way, and all kernels know the state of the others.
    fn is_quiet(&self, state: &State) -> bool {
        let is_known = |(a, b): (usize, usize)| {
            let (from, to) = (&state.kernels[a], &state.kernels[b]);
            !from.is_alive || from.known[b] == if to.is_alive { to.epoch } else { 0 }
        };
        let is_pending = |(a, b): (usize, usize)| {
            self.ring > 0 && state.kernels[a].is_alive && {
                state.kernels[a].channels.has_next(base::id::DomainId(b as u8))
            }
        };
        state.links.iter().all(|link| link.is_empty())
            && self.pairs().all(is_known)
            && !self.pairs().any(is_pending)
    }

    /// What must hold when nothing is on its way.
    fn rest(&self, state: &State) -> Option<&'static str> {
        let alive = || state.kernels.iter().filter(|it| it.is_alive);
        let mut live: Vec<EndName> = vec![];
        for kernel in alive() {
            let table = &kernel.channels.table;
            let ends = || (0..table.len()).filter_map(|index| table.get(index));
            let slots = ends().flat_map(|end| &end.queue).flat_map(|entry| entry.carried);
            let carried = slots.filter(|slot| matches!(slot, Slot::End(_))).count();
            let places = ends().filter(|end| end.place == Place::Carried).count();
            if ends().any(|end| !end.is_live()) || carried != places {
                return Some(NO_LEAK);
            }
            let held = ends().filter(|end| matches!(end.place, Place::Held { .. })).count();
            if held != kernel.held.len() {
                return Some(NO_LEAK);
            }
            live.extend(ends().map(|end| end.name()));
        }
        for kernel in alive() {
            let table = &kernel.channels.table;
            for end in (0..table.len()).filter_map(|index| table.get(index)) {
                let record = &end.record;
                let is_alone = !live.contains(&end.name().peer());
                if is_alone && record.peer.closed.is_none() {
                    return Some(LEARNS);
                }
                let is_read = end.received() == record.read + end.queue.len() as u64;
                if !record.trail.is_empty() || !is_read || !end.outgoing.is_empty() {
                    return Some(ARRIVES);
                }
                if end.is_complete() && !is_alone && !record.is_broken {
                    return Some(ALIVE);
                }
            }
        }
        self.sums(state).or_else(|| self.room(state))
    }

    /// Without damage, what one end sent and what the other has received or can receive agree.
    fn sums(&self, state: &State) -> Option<&'static str> {
        for kernel in state.kernels.iter().filter(|it| it.is_alive) {
            let table = &kernel.channels.table;
            for end in (0..table.len()).filter_map(|index| table.get(index)) {
                let is_it = |it: &&super::world::Tracked| it.name == end.name().channel;
                let channel = state.tracked.iter().find(is_it)?;
                let sent = channel.ends[end.name().side.other().index()].sent;
                if !channel.is_damaged && end.received() != u64::from(sent) {
                    return Some(ARRIVES);
                }
            }
        }
        None
    }

    /// Room that one kernel may use is what the other has granted.
    fn room(&self, state: &State) -> Option<&'static str> {
        for (a, b) in self.pairs() {
            if !state.kernels[a].is_alive || !state.kernels[b].is_alive {
                continue;
            }
            let (life_a, life_b) = (state.kernels[a].life(a), state.kernels[b].life(b));
            let mut tables = [a, b].map(|it| state.kernels[it].channels.peers.clone());
            let room = tables[0].kernel(life_b).map(|it| it.room);
            let granted = tables[1].kernel(life_a).map(|it| it.granted);
            if room != granted || granted.is_none() {
                return Some(ROOM);
            }
        }
        None
    }
}
