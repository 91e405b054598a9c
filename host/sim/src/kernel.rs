//! A simulated kernel: an endpoint, threads that call, handlers, a pool, and a core that attends.
//!
//! Every [`Op`] is a pure function of the kernel and what it loads, so that [`crate::machine::run`]
//! can pause and repeat it. Its reports go to `effects` and count when the operation is done.

use std::collections::VecDeque;

use abi::msg::MAX_PAYLOAD;
use base::id::{CoreId, DomainId, Epoch};
use base::prng::Prng;
use kernel_msg::notify::{Attendance, Presence, must_ring};
use kernel_msg::pool::{Arrival, Next, Pool, Shortage};
use kernel_msg::{CallError, Class, Endpoint, Event, Level, Refusal, Request};

use crate::actor::{Actor, Open};
use crate::machine::Window;
use crate::op::{Effect, Op, Temper};
use crate::payload::{self, Bytes};

/// A window of the simulated chip.
pub type Wire = Window<Vec<u64>>;

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its index.
    pub id: usize,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its rings.
    pub endpoint: Endpoint<Wire>,
    /// The last known epoch of each peer.
    pub known: Vec<Option<Epoch>>,
    /// Effects of the operation.
    pub effects: Vec<Effect>,
    /// Number of handlers requested.
    pub making: u32,
    pages: Vec<Wire>,
    attendance: Attendance,
    actors: Vec<Actor>,
    queue: VecDeque<(Request, Bytes)>,
    pool: Pool,
    prng: Prng,
    temper: Temper,
    next: u64,
}

impl Kernel {
    /// Creates a kernel that is about to boot, with `threads` threads of `calls` calls each.
    pub fn new(
        (id, epoch): (usize, Epoch),
        endpoint: Endpoint<Wire>,
        pages: Vec<Wire>,
        temper: Temper,
        mut prng: Prng,
    ) -> Kernel {
        let threads = prng.below(4);
        let mut actors: Vec<Actor> = (0..threads).map(|key| Actor::new(key, Level(0))).collect();
        actors.iter_mut().for_each(|actor| actor.todo = prng.below(12) as u32);
        Kernel {
            id,
            epoch,
            endpoint,
            known: vec![None; temper.domains],
            effects: vec![],
            making: 0,
            pages,
            attendance: Attendance::new(CoreId(0)),
            actors,
            queue: VecDeque::new(),
            pool: Pool::new(temper.handlers),
            prng,
            temper,
            next: threads,
        }
    }

    /// Returns whether it polls without a doorbell.
    pub fn is_attending(&self) -> bool {
        self.attendance.presence() == Presence::Attending
    }

    /// Returns the actors that can run.
    pub fn runnable(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.actors.len()).filter(|i| self.actors[*i].can_run())
    }

    /// Returns whether no call or handler is in progress.
    pub fn is_done(&self) -> bool {
        let idle = self.actors.is_empty() && self.queue.is_empty() && self.making == 0;
        let peers =
            (0..self.temper.domains).filter_map(|id| self.endpoint.peer(DomainId(id as u8)));
        idle && peers.into_iter().all(|peer| peer.caller.pending() + peer.server.open() == 0)
    }

    /// Returns what it is waiting for, for a failure report.
    pub fn describe(&self) -> String {
        format!(
            "kernel {} epoch {} {:?} known {:?} pool {:?} queue {} actors {:?}",
            self.id,
            self.epoch.0,
            self.attendance.presence(),
            self.known,
            self.pool,
            self.queue.len(),
            self.actors
        )
    }

    /// Runs one operation.
    pub fn run(&mut self, op: Op) {
        match op {
            Op::Boot => {
                self.attendance.enter(&self.pages[self.id]);
                for peer in 0..self.temper.domains {
                    self.endpoint.peer_changed(DomainId(peer as u8), self.known[peer]);
                }
                self.poll();
            }
            Op::Bell => {
                self.attendance.enter(&self.pages[self.id]);
                self.poll();
            }
            Op::Poll => {
                self.kill_a_thread();
                self.poll();
            }
            Op::Act(actor) => self.act(actor),
            Op::Make(made) => {
                // Kernel code creates and starts threads.
                self.attendance.enter(&self.pages[self.id]);
                self.make(made);
            }
            Op::Leave => {
                let waiting = || self.endpoint.is_waiting();
                self.attendance.leave(&self.pages[self.id], waiting);
            }
            Op::Learn(peer, epoch) => {
                self.attendance.enter(&self.pages[self.id]);
                self.known[peer] = epoch;
                self.endpoint.peer_changed(DomainId(peer as u8), epoch);
                self.poll();
            }
        }
    }

    fn poll(&mut self) {
        let mut buffer = [0; MAX_PAYLOAD];
        let (mut requests, mut ended) = (vec![], vec![]);
        let effects = &mut self.effects;
        self.endpoint.poll(true, &mut buffer, &mut |event| match event {
            Event::Request(request, bytes) => requests.push((request, bytes.to_vec())),
            Event::Ended(_, _, token) => ended.push(token),
            Event::Fault(peer, fault) => {
                effects.push(Effect::Broken(format!("peer {peer}: {fault:?}")));
            }
            // No kernel sends streams here; `model_stream` covers them.
            Event::Room(peer) | Event::Notify(peer) => {
                effects.push(Effect::Broken(format!("a stream of or to {peer}")));
            }
        });
        for token in ended {
            self.end(token);
        }
        for (request, bytes) in requests {
            self.take(request, bytes);
        }
    }

    /// Sometimes kills a waiting thread: its call is abandoned.
    fn kill_a_thread(&mut self) {
        if !self.prng.chance(1, 64) {
            return;
        }
        let waits = |actor: &Actor| actor.open.is_some() && actor.request.is_none();
        let Some(index) = self.actors.iter().position(waits) else { return };
        let Some(open) = self.actors.swap_remove(index).open else { return };
        if let Some(peer) = self.endpoint.peer_mut(DomainId(open.to as u8)) {
            peer.caller.abandon(open.call);
        }
        self.effects.push(Effect::Abandoned(open.uid));
    }

    fn end(&mut self, token: u64) {
        let Some(index) = self.actors.iter().position(|actor| actor.key == token) else { return };
        if let Some(open) = &mut self.actors[index].open {
            open.ended = true;
        }
        self.unblock(index);
    }

    /// Blocks a handler until another call ends: it needs a reply or a reply slot.
    fn block(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        if actor.request.is_some() && !actor.blocked {
            actor.blocked = true;
            let shortage = self.pool.will_block();
            self.shortage(shortage);
        }
    }

    fn unblock(&mut self, index: usize) {
        if core::mem::take(&mut self.actors[index].blocked) {
            self.pool.unblocked();
        }
    }

    fn take(&mut self, request: Request, bytes: Bytes) {
        match payload::uid(&bytes) {
            Some(uid) => self.effects.push(Effect::Taken(uid)),
            None => self.effects.push(Effect::Broken(format!("damaged {request:?} {bytes:?}"))),
        }
        if request.reply.is_none() {
            return;
        }
        if request.class == Class::Urgent {
            if self.prng.chance(1, 4) {
                self.notice();
            }
            return self.answer(request, &bytes);
        }
        match self.pool.arrived() {
            Arrival::Hand => self.serve(request, bytes),
            Arrival::Queue => self.queue.push_back((request, bytes)),
            Arrival::QueueAndCreate => {
                self.queue.push_back((request, bytes));
                self.making += 1;
            }
            Arrival::Refuse => self.refuse(request),
        }
    }

    /// Sends a notice from a handler that must not wait; it is dropped if it does not fit.
    fn notice(&mut self) {
        let to = self.pick_peer();
        let uid = self.uid();
        let class = if self.prng.chance(1, 2) { Class::Urgent } else { Class::Blockable };
        let bytes = payload::request(uid, 0);
        if self.endpoint.notice(DomainId(to as u8), class, 9, &bytes).is_ok() {
            self.ring(to);
        }
    }

    fn serve(&mut self, request: Request, bytes: Bytes) {
        let todo = self.prng.below(self.temper.nested + 1) as u32;
        let (key, level) = (self.next, request.level.deeper());
        self.next += 1;
        let request = Some((request, bytes));
        self.actors.push(Actor { todo, request, ..Actor::new(key, level) });
    }

    fn refuse(&mut self, request: Request) {
        let Some(to) = request.reply else { return };
        if self.endpoint.reply(to, Err(Refusal::NoMemory)).is_ok() {
            self.ring(to.peer.index());
        }
    }

    fn answer(&mut self, request: Request, bytes: &[u8]) {
        let Some(to) = request.reply else { return };
        let reply = payload::reply(bytes, self.id, self.epoch);
        let result = if request.proc == 7 { Err(Refusal::NoSuchProc) } else { Ok(&reply[..]) };
        if self.endpoint.reply(to, result).is_ok() {
            self.ring(to.peer.index());
        }
    }

    fn shortage(&mut self, shortage: Shortage) {
        match shortage {
            Shortage::None => {}
            Shortage::Create => self.making += 1,
            Shortage::RefuseQueue(count) => {
                for _ in 0..count {
                    match self.queue.pop_front() {
                        Some((request, _)) => self.refuse(request),
                        None => self.effects.push(Effect::Broken("queue shorter".into())),
                    }
                }
            }
        }
    }

    fn next(&mut self, next: Next) {
        if next == Next::Serve {
            match self.queue.pop_front() {
                Some((request, bytes)) => self.serve(request, bytes),
                None => self.effects.push(Effect::Broken("nothing to serve".into())),
            }
        }
    }

    fn make(&mut self, made: bool) {
        self.making -= 1;
        if made {
            let next = self.pool.created();
            self.next(next);
        } else {
            let shortage = self.pool.failed();
            self.shortage(shortage);
        }
    }

    fn act(&mut self, index: usize) {
        if self.actors[index].open.is_some() {
            return self.finish(index);
        }
        if self.actors[index].todo > 0 {
            return self.begin(index);
        }
        let actor = self.actors.swap_remove(index);
        if let Some((request, bytes)) = actor.request {
            self.answer(request, &bytes);
            let next = self.pool.finished();
            self.next(next);
        }
    }

    fn begin(&mut self, index: usize) {
        let (to, uid) = (self.pick_peer(), self.uid());
        let urgent = self.prng.below(8) < self.temper.urgent;
        let class = if urgent { Class::Urgent } else { Class::Blockable };
        let proc = if self.prng.chance(1, 16) { 7 } else { 1 };
        let bytes = payload::request(uid, self.prng.below(self.temper.filler + 1) as usize);
        let (key, level) = (self.actors[index].key, self.actors[index].level);
        match self.endpoint.begin(DomainId(to as u8), class, level, proc, &bytes, key) {
            Ok(call) => {
                self.effects.push(Effect::Began(uid));
                let actor = &mut self.actors[index];
                actor.todo -= 1;
                actor.open = Some(Open { to, call, uid, spins: urgent, ended: false });
                if urgent {
                    self.unblock(index);
                } else {
                    self.block(index);
                }
                self.ring(to);
            }
            // The actor waits by attending, and makes a different call next time.
            Err(CallError::Busy(_)) => self.block(index),
            Err(error) => {
                self.unblock(index);
                // A thread retries a call to a dead peer several times, until it is back.
                let insists = error == CallError::PeerLost && self.prng.chance(7, 8);
                self.actors[index].todo -= u32::from(!insists);
                self.effects.push(Effect::Refused(to, error));
            }
        }
    }

    fn finish(&mut self, index: usize) {
        let Some(open) = self.actors[index].open.clone() else { return };
        let (to, mut buffer) = (DomainId(open.to as u8), [0; MAX_PAYLOAD]);
        let Some(result) = self.endpoint.finish(to, open.call, &mut buffer) else {
            if !open.spins {
                self.effects.push(Effect::Broken("ended call has no end".into()));
            }
            return;
        };
        let result = result.map(|bytes| buffer[..bytes].to_vec());
        let Open { uid, to, call, .. } = open;
        self.effects.push(Effect::Ended(uid, to, call.epoch, result));
        self.actors[index].open = None;
    }

    fn ring(&mut self, to: usize) {
        if must_ring(&self.pages[to], 1) {
            self.effects.push(Effect::Ring(to));
        }
    }

    fn pick_peer(&mut self) -> usize {
        let other = self.prng.below(self.temper.domains as u64 - 1) as usize;
        other + usize::from(other >= self.id)
    }

    fn uid(&mut self) -> u64 {
        self.next += 1;
        (self.id as u64) << 56 | u64::from(self.epoch.0) << 40 | self.next
    }
}
