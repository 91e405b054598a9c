//! The model: domains with programs, links, memory, deaths, restarts, sleep. Every step is a
//! choice.
//!
//! Links keep order and lose nothing that a live domain sent. The chip page is always correct; a
//! domain learns its contents as late as it likes, but all at once. A shootdown takes time, and
//! until it ends cores may use stale TLB entries. A page is one variable.

use std::collections::VecDeque;

use base::id::{CoreId, DomainId, Epoch};
use stateright::{Model, Property};

use super::Mutant;
use super::losses::Losses;
use super::node::{Memory, Node, Sent};
use super::program::{Op, Programs};
use super::steps::{Action, Status};
use crate::config::Config;
use crate::effect::Rights;
use crate::message::Message;
use crate::thrash::Limit;
use crate::types::{Down, Handled, Hold, LeaveError, PeerStatus, Protocol, Start};

/// A message in a link: the sender's epoch, and the receiver's as known to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mail {
    from: Epoch,
    to: Epoch,
    message: Message,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<const D: usize, const C: usize> {
    pub nodes: Vec<Node<D, C>>,
    pub status: Vec<Status>,
    pub links: Vec<VecDeque<Mail>>,
    pub memory: Memory,
    /// Whether a domain hangs: it keeps what it holds and does nothing any more.
    pub hangs: Vec<bool>,
    pub kills: u8,
    restarts: u8,
    pub losses: Losses,
    /// See [`World::slow`].
    slow: bool,
}

/// A model and its options.
#[derive(Clone, Debug)]
pub struct World<const D: usize, const C: usize> {
    pub protocol: Protocol,
    pub pages: u32,
    pub programs: Programs,
    /// The steps with which every schedule starts.
    pub prefix: Vec<Action>,
    /// Whether a page that is lost, although no domain died with pages, is a defect.
    pub strict: bool,
    pub kills: u8,
    pub restarts: u8,
    /// Whether one domain hangs, at any time.
    pub hang: bool,
    /// The hold time of pins; 0 for none.
    pub hold: u64,
    /// Whether the chip page changes some time after a domain has left, and before it starts.
    pub slow: bool,
    /// Whether dirty lines are written back at any time.
    pub evict: bool,
    /// Whether cores use the weakest entries that their TLBs may have, instead of the page table.
    pub weak: bool,
    pub mutant: Option<Mutant>,
    /// Recognises register contents that must not occur at the end.
    pub forbidden: fn(&[Vec<u8>]) -> bool,
}

impl<const D: usize, const C: usize> World<D, C> {
    /// Creates a model in which domains run these programs undisturbed.
    pub fn new(protocol: Protocol, pages: u32, programs: Programs) -> Self {
        World {
            protocol,
            pages,
            programs,
            prefix: vec![],
            strict: false,
            kills: 0,
            restarts: 0,
            hang: false,
            hold: 0,
            evict: false,
            slow: false,
            weak: false,
            mutant: None,
            forbidden: |_| false,
        }
    }

    fn config(&self, me: usize) -> Config {
        Config {
            protocol: self.protocol,
            me: DomainId(me as u8),
            domains: D as u8,
            cores: C as u8,
            pages: self.pages,
            hold: self.hold,
            limit: u64::MAX,
            thrash: Limit { moves: 0, window: 0 },
            mutant: self.mutant,
        }
    }

    fn node(&self, me: usize, epoch: Epoch) -> Node<D, C> {
        let mut node = Node::new(self.config(me), epoch);
        if self.weak {
            node.weakest = vec![node.mapped.clone(); C];
        }
        node
    }

    fn op(&self, state: &State<D, C>, node: usize, core: usize) -> Option<Op> {
        self.programs[node].get(core)?.get(state.nodes[node].runs[core].at).copied()
    }

    /// Returns what the chip page says of `peer`.
    fn truth(state: &State<D, C>, peer: usize) -> (Epoch, bool) {
        (state.nodes[peer].epoch, state.status[peer].is_up())
    }

    fn drive<R>(
        state: &mut State<D, C>,
        node: usize,
        act: impl FnOnce(&mut Node<D, C>, &mut Memory, &mut Sent) -> R,
    ) -> R {
        let mut sent = vec![];
        let this = &mut state.nodes[node];
        let result = act(this, &mut state.memory, &mut sent);
        let from = this.epoch;
        for (to, message) in sent {
            let known = this.known[to.index()].0;
            state.links[node * D + to.index()].push_back(Mail { from, to: known, message });
        }
        if state.nodes[node].left && state.status[node] == Status::Runs {
            state.status[node] = Status::Left;
            if !state.slow {
                Self::publish(state, node);
            }
        }
        result
    }

    fn publish(state: &mut State<D, C>, node: usize) {
        state.losses.settled = state.nodes[node].settled;
        state.status[node] = Status::Slept;
    }

    fn update_peer(state: &mut State<D, C>, node: usize) {
        let peers = (0..D).filter(|peer| *peer != node);
        let news: Vec<PeerStatus> = peers
            .map(|peer| {
                let (epoch, runs) = Self::truth(state, peer);
                let slept = state.status[peer] == Status::Slept;
                let how = if slept { Down::Slept } else { Down::Died };
                state.nodes[node].known[peer] = (epoch, runs);
                PeerStatus { domain: DomainId(peer as u8), epoch, down: (!runs).then_some(how) }
            })
            .collect();
        let lost = state.losses.are_unsettled();
        Self::drive(state, node, |this, memory, sent| {
            this.drive(memory, sent, |dsm, out| {
                dsm.chip(0, &news, out);
                dsm.be_first(0, lost, out);
            });
        });
    }

    /// Starts a domain, for the first time or again.
    fn start(state: &mut State<D, C>, node: usize) {
        // Messages that came while it was away are dropped before others learn that it is back.
        (0..D).for_each(|peer| state.links[peer * D + node].clear());
        Self::update_peer(state, node);
        let others = (0..D).any(|peer| peer != node && state.status[peer].is_up());
        let start =
            if others { Start::Join } else { Start::First { lost: state.losses.are_unsettled() } };
        state.status[node] = Status::Runs;
        (state.nodes[node].left, state.nodes[node].settled) = (false, 0);
        Self::drive(state, node, |this, memory, sent| {
            this.drive(memory, sent, |dsm, out| dsm.start(0, start, out));
        });
    }

    /// Runs one step of a core. Returns false if it cannot continue.
    fn run(&self, state: &mut State<D, C>, node: usize, core: usize) -> bool {
        let Some(op) = self.op(state, node, core) else { return false };
        let needless = state.kills == 0 || self.strict && state.losses.is_empty();
        if state.nodes[node].runs[core].lost && needless {
            state.memory.broken = Some("a page was lost, though no domain died with pages");
        }
        let settled = state.losses.settled_by(node, &state.nodes[node].known);
        Self::drive(state, node, |this, memory, sent| {
            let run = &mut this.runs[core];
            if run.fault.is_some() || this.left || this.unmap_all {
                return false;
            }
            if run.lost {
                return this.reset(core, op, memory, sent);
            }
            if run.device {
                (run.device, run.at) = (false, run.at + 1);
                let Some((page, ..)) = op.needs() else { return false };
                this.drive(memory, sent, |dsm, out| dsm.device_done(0, page, out));
                return true;
            }
            if op == Op::Sleep {
                this.settled = settled;
                let result = this.drive(memory, sent, |dsm, out| dsm.leave(out));
                this.runs[core].at += usize::from(result.is_ok());
                this.runs[core].lost = result == Err(LeaveError::LostPages);
                return result != Err(LeaveError::Busy);
            }
            let used = if self.weak { &this.weakest[core] } else { &this.mapped };
            if !Node::<D, C>::allows(used, op) {
                return this.fault(core, op, memory, sent);
            }
            Self::execute(this, core, op, memory, sent);
            true
        })
    }

    fn execute(this: &mut Node<D, C>, core: usize, op: Op, memory: &mut Memory, sent: &mut Sent) {
        this.execute(core, op, memory);
        let id = CoreId(core as u8);
        this.drive(memory, sent, |dsm, out| dsm.retired(0, id, out));
    }

    fn deliver(state: &mut State<D, C>, from: usize, to: usize) -> bool {
        let Some(mail) = state.links[from * D + to].front().copied() else { return false };
        if mail.to == state.nodes[to].epoch {
            let wanted = state.nodes[to].dsm.needs_chip_page();
            let handled = Self::drive(state, to, |this, memory, sent| {
                let id = DomainId(from as u8);
                this.drive(memory, sent, |dsm, out| dsm.handle(0, id, mail.from, mail.message, out))
            });
            match handled {
                Ok(Handled::Done) => {}
                Ok(Handled::Later) => return state.nodes[to].dsm.needs_chip_page() && !wanted,
                Err(_) => state.memory.broken = Some("a correct peer's message was rejected"),
            }
        }
        state.links[from * D + to].pop_front();
        true
    }

    fn deliver_fast(state: &mut State<D, C>, from: usize, to: usize) -> bool {
        let Some(mail) = state.links[from * D + to].front().copied() else { return false };
        let fast = mail.to == state.nodes[to].epoch
            && Self::drive(state, to, |this, memory, sent| {
                this.fast(memory, sent, (DomainId(from as u8), mail.from), mail.message)
            });
        if fast {
            state.links[from * D + to].pop_front();
        }
        fast || state.memory.broken.is_some()
    }

    fn unmapped(state: &mut State<D, C>, node: usize, index: usize) {
        Self::drive(state, node, |this, memory, sent| {
            let work = this.shootdowns.remove(index);
            this.tlb.clone_from(&this.mapped);
            this.drive(memory, sent, |dsm, out| dsm.unmapped(0, work, out));
        });
    }

    fn kill(state: &mut State<D, C>, node: usize, silent: bool) {
        let epoch = state.nodes[node].epoch;
        state.kills += 1;
        if state.status[node].is_up() {
            state.losses.add(node, epoch);
        }
        state.status[node] = Status::Dead;
        state.hangs[node] = false;
        let blank = state.nodes[node].dsm.config;
        state.nodes[node] = Node::new(blank, epoch);
        for peer in 0..D {
            state.links[peer * D + node].clear();
            if silent {
                state.links[node * D + peer].clear();
            }
        }
    }

    fn restart(&self, state: &mut State<D, C>, node: usize) {
        state.restarts += 1;
        let epoch = Epoch(state.nodes[node].epoch.0 + 1);
        state.nodes[node] = self.node(node, epoch);
        Self::start(state, node);
    }

    fn act(&self, state: &mut State<D, C>, action: Action) -> bool {
        match action {
            Action::Run(node, core) => return self.run(state, node, core),
            Action::Stale(node, core) => {
                let Some(op) = self.op(state, node, core) else { return false };
                Self::drive(state, node, |this, memory, sent| {
                    Self::execute(this, core, op, memory, sent);
                });
            }
            Action::Deliver(from, to) => return Self::deliver(state, from, to),
            Action::DeliverFast(from, to) => return Self::deliver_fast(state, from, to),
            Action::Unmapped(node, index) => Self::unmapped(state, node, index),
            Action::AllUnmapped(node) => Self::drive(state, node, |this, memory, sent| {
                this.unmap_all = false;
                this.tlb.fill(None);
                this.drive(memory, sent, |dsm, out| dsm.all_unmapped(0, out));
            }),
            Action::Expire(node) => {
                Self::drive(state, node, |this, memory, sent| {
                    this.drive(memory, sent, |dsm, out| dsm.tick(1, out));
                });
            }
            Action::Evict(node, page) => state.nodes[node].clean(page, &mut state.memory),
            Action::Learn(node) => Self::update_peer(state, node),
            Action::Wake(node) if state.slow => state.status[node] = Status::Waking,
            Action::Publish(node) => Self::publish(state, node),
            Action::Wake(node) | Action::Start(node) => Self::start(state, node),
            Action::Kill(node, silent) => Self::kill(state, node, silent),
            Action::Restart(node) => self.restart(state, node),
            Action::Hang(node) => state.hangs[node] = true,
            Action::Reset(node) => {
                if !state.hangs[node] {
                    state.memory.broken = Some("a domain that does not hang was reset");
                }
                Self::kill(state, node, false);
            }
        }
        true
    }

    fn local_actions(&self, state: &State<D, C>, node: usize, actions: &mut Vec<Action>) {
        let this = &state.nodes[node];
        for core in 0..C {
            let Some(op) = self.op(state, node, core) else { continue };
            actions.push(Action::Run(node, core));
            let stale = !Node::<D, C>::allows(&this.mapped, op)
                && Node::<D, C>::allows(&this.tlb, op)
                && op.needs().is_some()
                && this.runs[core].fault.is_none();
            if stale {
                actions.push(Action::Stale(node, core));
            }
        }
        actions.extend((0..this.shootdowns.len()).map(|i| Action::Unmapped(node, i)));
        if this.unmap_all {
            actions.push(Action::AllUnmapped(node));
        }
        if self.hold > 0 {
            actions.push(Action::Expire(node));
        }
        if self.evict {
            let dirty = |page: &usize| this.cache[*page].is_some_and(|line| line.dirty);
            let pages = (0..this.cache.len()).filter(dirty);
            actions.extend(pages.map(|page| Action::Evict(node, page as u32)));
        }
        let peers = (0..D).filter(|peer| *peer != node);
        let unknown = |peer| this.known[peer] != Self::truth(state, peer);
        if this.dsm.needs_chip_page() || peers.clone().any(unknown) {
            actions.push(Action::Learn(node));
        }
        for peer in peers {
            if !state.links[peer * D + node].is_empty() {
                actions.push(Action::Deliver(peer, node));
                actions.push(Action::DeliverFast(peer, node));
            }
        }
    }

    /// Returns whether nothing more has to happen.
    pub fn is_done(&self, state: &State<D, C>) -> bool {
        (0..D).all(|node| {
            let ended = (0..C).all(|core| self.op(state, node, core).is_none());
            state.status[node] == Status::Dead || state.hangs[node] || ended
        })
    }

    fn single_writer(state: &State<D, C>, page: usize) -> bool {
        let right = |node: &Node<D, C>| node.mapped[page].max_right(node.tlb[page]);
        let runs = |node: &usize| state.status[*node] != Status::Dead;
        let rights: Vec<_> =
            (0..D).filter(runs).filter_map(|node| right(&state.nodes[node])).collect();
        let writer = rights.contains(&Rights::Write);
        let alone = rights.len() <= 1;
        alone || !writer && state.nodes[0].dsm.config.protocol == Protocol::ThreeState
    }

    /// Returns whether every cached page is held by the cache's domain.
    fn caches_are_clean(state: &State<D, C>) -> bool {
        state.nodes.iter().zip(&state.status).all(|(node, status)| {
            let held = |page: usize| node.dsm.hold(page as u32) != Some(Hold::None);
            let right = |page: &usize| held(*page) || node.cache[*page].is_none();
            *status == Status::Dead || (0..node.cache.len()).all(|page| right(&page))
        })
    }

    fn outcome(state: &State<D, C>) -> Vec<Vec<u8>> {
        state.nodes.iter().map(|node| node.runs[0].registers.clone()).collect()
    }
}

trait MaxRight {
    fn max_right(self, other: Self) -> Self;
}

impl MaxRight for Option<Rights> {
    fn max_right(self, other: Self) -> Self {
        if self == Some(Rights::Write) { self } else { other.or(self) }
    }
}

impl<const D: usize, const C: usize> Model for World<D, C> {
    type State = State<D, C>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        let nodes = (0..D).map(|node| self.node(node, Epoch(1))).collect();
        let cells = vec![0; self.pages as usize];
        let memory = Memory { truth: vec![Some(0); cells.len()], cells, broken: None };
        let mut state = State {
            nodes,
            status: vec![Status::Runs; D],
            links: vec![VecDeque::new(); D * D],
            memory,
            hangs: vec![false; D],
            kills: 0,
            restarts: 0,
            losses: Losses::new(D),
            slow: self.slow,
        };
        for node in 0..D {
            Self::update_peer(&mut state, node);
            Self::drive(&mut state, node, |this, memory, sent| {
                this.drive(memory, sent, |dsm, out| dsm.start(0, Start::Founding, out));
            });
        }
        for action in &self.prefix {
            let moved = self.act(&mut state, *action);
            assert!(moved, "{action:?} is not possible");
        }
        vec![state]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        if state.memory.broken.is_some() {
            return;
        }
        for node in 0..D {
            match state.status[node] {
                Status::Runs if state.hangs[node] => {}
                Status::Runs => {
                    self.local_actions(state, node, actions);
                    if state.kills < self.kills {
                        actions.extend([Action::Kill(node, false), Action::Kill(node, true)]);
                    }
                }
                Status::Left => actions.push(Action::Publish(node)),
                Status::Waking => actions.push(Action::Start(node)),
                Status::Slept => {
                    let wakes = self.op(state, node, 0).is_some();
                    actions.extend(wakes.then_some(Action::Wake(node)));
                    if state.kills < self.kills {
                        actions.push(Action::Kill(node, true));
                    }
                }
                Status::Dead if state.restarts < self.restarts => {
                    actions.push(Action::Restart(node));
                }
                Status::Dead => {}
            }
        }
        self.hang_actions(state, actions);
    }

    fn next_state(&self, last: &Self::State, action: Action) -> Option<Self::State> {
        let mut state = last.clone();
        (self.act(&mut state, action) && state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every value is right", |_, state: &Self::State| {
                state.memory.broken.is_none()
            }),
            Property::always("single writer", |world: &Self, state: &Self::State| {
                (0..world.pages as usize).all(|page| Self::single_writer(state, page))
            }),
            Property::always("caches", |_, state: &Self::State| Self::caches_are_clean(state)),
            Property::always("bounds", |_, state: &Self::State| {
                state.links.iter().all(|link| link.len() <= abi::dsm::slots(D, C))
            }),
            Property::always("no outcome is forbidden", |world: &Self, state: &Self::State| {
                !world.is_done(state) || !(world.forbidden)(&Self::outcome(state))
            }),
        ]
    }
}
