//! Channels to other kernels: the table's messages in the streams between kernels, the lives of the
//! other kernels, and ends that a process passes to a child elsewhere.
//!
//! Contract: all of it happens under the lock of the channels, so messages leave in the order in
//! which the table made them. Nothing here waits, except a child for the ends that its parent
//! passes on ([`Channels::take_passed`]). What a full ring delays is sent when the peer has made
//! room ([`Channels::stream_room`]). A peer that rests is woken by a thread: by the caller, or by
//! the one that keeps the channels.
//!
//! ```text
//!   message of a stream (64-bit words, little-endian):
//!   0, number of words, the words of `kernel_channel::wire`, the fields    a message of the table
//!   1, ticket                                                              no child wants this end
//! ```

use super::{Channels, Failure, Rest, State, are_bounded, refusal};
use crate::peers::Peers;
use abi::boot::MAX_DOMAINS;
use abi::msg::MAX_PAYLOAD;
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::lock::Guard;
use base::id::{DomainId, Epoch};
use core::sync::atomic::Ordering;
use kernel_channel::wire::{self, WORDS};
use kernel_channel::{EndId, Life, Message};
use kernel_contract::INLINE;
use kernel_msg::endpoint::peer_epoch;
use kernel_node::Node;
use kernel_sched::ThreadId;

/// Kinds of messages in a stream.
const OF_TABLE: u64 = 0;
const UNWANTED: u64 = 1;
/// Bytes before the words of the table.
const HEAD: usize = 16;
/// The longest message.
const LONGEST: usize = HEAD + 8 * WORDS + INLINE;
/// A handle with this bit is a ticket: of an end that a process on another kernel has passed on.
const TICKET: u64 = 1 << 63;
/// Where a ticket has its kernel and that kernel's epoch.
const OF_KERNEL: u32 = 56;
const OF_EPOCH: u32 = 40;
const NUMBER: u64 = (1 << OF_EPOCH) - 1;
/// A ticket with this bit, and only this one beside a number, is for the door with that number.
const DOOR: u64 = 1 << 62;
/// Tickets of ends that no child wants and that have not arrived.
const REFUSED: usize = 32;

const _: () = assert!(LONGEST <= MAX_PAYLOAD && MAX_DOMAINS <= 64);

/// What is known of the other kernels, and of ends that were passed on.
pub struct Links {
    /// Their epochs; 0: none yet.
    known: [u16; MAX_DOMAINS],
    /// The last of these that is over.
    gone: [u16; MAX_DOMAINS],
    /// Ends that have arrived for children, by their tickets.
    arrived: Vec<(u64, EndId)>,
    /// The last tickets that no child wants.
    refused: [u64; REFUSED],
    refusals: usize,
    tickets: u64,
    /// Tickets that other kernels are to hear of as refused.
    called_back: Vec<(DomainId, u64)>,
    words: Box<[u64; WORDS]>,
    bytes: Box<[u8; LONGEST]>,
}

impl Links {
    /// Takes memory for `ends` ends.
    pub fn new(ends: usize) -> Links {
        Links {
            known: [0; MAX_DOMAINS],
            gone: [0; MAX_DOMAINS],
            arrived: Vec::with_capacity(ends),
            refused: [0; REFUSED],
            refusals: 0,
            tickets: 0,
            called_back: Vec::with_capacity(ends),
            words: Box::new([0; WORDS]),
            bytes: Box::new([0; LONGEST]),
        }
    }

    /// Returns a number that was not returned before.
    pub fn number(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets & NUMBER
    }

    /// Returns whether a kernel is in this life, as far as this one knows.
    pub fn lives(&self, life: Life) -> bool {
        let of = |epochs: &[u16; MAX_DOMAINS]| epochs.get(life.kernel.index()).copied();
        of(&self.known) == Some(life.epoch.0) && of(&self.gone).is_some_and(|it| it < life.epoch.0)
    }

    /// Removes an end that has arrived for a door. Returns the door's number, too.
    pub fn next_for_door(&mut self) -> Option<(u64, EndId)> {
        let at = self.arrived.iter().position(|(ticket, _)| ticket & !NUMBER == DOOR)?;
        let (ticket, end) = self.arrived.swap_remove(at);
        Some((ticket & NUMBER, end))
    }

    /// Keeps an end for the child with this ticket, or for a door.
    pub fn arrive(&mut self, ticket: u64, end: EndId) {
        // There is room for all ends.
        if self.arrived.len() < self.arrived.capacity() {
            self.arrived.push((ticket, end));
        }
    }

    fn refuse(&mut self, ticket: u64) {
        if let Some(place) = self.refused.get_mut(self.refusals % REFUSED) {
            *place = ticket;
            self.refusals += 1;
        }
    }

    /// Removes an end that has arrived and that no child wants.
    fn next_refused(&mut self) -> Option<EndId> {
        let is_refused = |(ticket, _): &(u64, EndId)| self.refused.contains(ticket);
        let at = self.arrived.iter().position(is_refused)?;
        Some(self.arrived.swap_remove(at).1)
    }

    /// Notes that kernel `to` is to hear that no child wants an end.
    fn call_back(&mut self, to: DomainId, ticket: u64) {
        // Without room, the end stays there until this kernel dies.
        if self.called_back.len() < self.called_back.capacity() {
            self.called_back.push((to, ticket));
        }
    }

    fn refusal_for(&self, to: DomainId) -> Option<usize> {
        self.called_back.iter().position(|(it, _)| *it == to)
    }

    /// Writes the next such message for a kernel. Returns its length.
    fn next_refusal(&mut self, to: DomainId) -> Option<usize> {
        let (_, ticket) = self.called_back.swap_remove(self.refusal_for(to)?);
        Some(self.put_head(UNWANTED, ticket))
    }

    fn put_head(&mut self, kind: u64, number: u64) -> usize {
        for (to, word) in self.bytes.chunks_exact_mut(8).zip([kind, number]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        HEAD
    }

    fn take(&mut self, ticket: u64) -> Option<EndId> {
        let at = self.arrived.iter().position(|(it, _)| *it == ticket)?;
        Some(self.arrived.swap_remove(at).1)
    }

    /// Returns whether an end with this ticket may still arrive.
    fn may_arrive(&self, ticket: u64) -> bool {
        let (kernel, epoch) = issuer(ticket);
        let gone = self.gone.get(kernel.index());
        !self.refused.contains(&ticket) && gone.is_some_and(|gone| *gone < epoch.0)
    }
}

/// Returns the kernel that has made a ticket.
fn issuer(ticket: u64) -> (DomainId, Epoch) {
    let kernel = (ticket & !TICKET) >> OF_KERNEL;
    (DomainId(kernel as u8), Epoch((ticket >> OF_EPOCH) as u16))
}

/// Returns the ticket of an end for a door.
pub fn ticket_of_door(number: u64) -> u64 {
    DOOR | number & NUMBER
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Returns whether kernels have room for what the contract of each end allows to be unread.
fn is_bounded(message: &Message<()>) -> bool {
    message.records().all(|record| are_bounded(&record.bounds))
}

impl State {
    /// Notices a life of another kernel. Returns false if it is over.
    fn see(&mut self, node: &Node, life: Life) -> bool {
        let State { table, rest } = self;
        let Links { known, gone, .. } = &mut rest.links;
        let at = life.kernel.index();
        let (Some(known), Some(gone)) = (known.get_mut(at), gone.get_mut(at)) else { return false };
        if life.epoch.0 <= *gone {
            return false;
        }
        if *known != life.epoch.0 {
            (*known, *gone) = (life.epoch.0, life.epoch.0 - 1);
            table.kernel_started(life, &mut rest.follow(&node.scheduler));
        }
        true
    }

    /// Notices that the last known life of another kernel is over, or must be treated so.
    fn lose(&mut self, node: &Node, kernel: DomainId) {
        let State { table, rest } = self;
        let Links { known, gone, .. } = &mut rest.links;
        let at = kernel.index();
        let (Some(known), Some(gone)) = (known.get(at), gone.get_mut(at)) else { return };
        if *known > *gone {
            *gone = *known;
            let life = Life { kernel, epoch: Epoch(*known) };
            table.kernel_died(life, &mut rest.follow(&node.scheduler));
        }
    }

    /// Handles a message of another kernel. Returns `None` if it is against the protocol.
    fn handle(&mut self, node: &Node, from: Life, payload: &[u8]) -> Option<()> {
        let (kind, rest) = payload.split_at_checked(8)?;
        let (number, rest) = rest.split_at_checked(8)?;
        match word(kind) {
            OF_TABLE => self.handle_message(node, from, word(number), rest),
            UNWANTED => {
                self.rest.links.refuse(word(number));
                Some(())
            }
            _ => None,
        }
    }

    fn handle_message(
        &mut self,
        node: &Node,
        from: Life,
        count: u64,
        payload: &[u8],
    ) -> Option<()> {
        let State { table, rest } = self;
        let count = usize::try_from(count).ok()?;
        let (words, fields) = payload.split_at_checked(count.checked_mul(8)?)?;
        let Rest { links, cells, .. } = rest;
        let room = links.words.get_mut(..count)?;
        for (to, from) in room.iter_mut().zip(words.chunks_exact(8)) {
            *to = word(from);
        }
        let message = wire::decode(room).filter(is_bounded)?;
        let message = message.with(|to| {
            // An unknown end drops the message.
            let most = table.bytes_to(to).unwrap_or(0) as usize;
            let kept = if fields.len() <= most { fields } else { &[] };
            cells.put(kept)
        })?;
        table.handle(from, message, &mut rest.follow(&node.scheduler)).ok()
    }

    /// Closes the ends that have arrived and that no child wants.
    fn close_refused(&mut self, node: &Node) {
        let State { table, rest } = self;
        while let Some(end) = rest.links.next_refused() {
            // It is there: nothing else has it.
            let _ = table.close(end, &mut rest.follow(&node.scheduler));
        }
    }

    /// Writes the next message for a kernel to the buffer of the links. Returns its length.
    fn next(&mut self, node: &Node, to: DomainId) -> Option<usize> {
        let State { table, rest } = self;
        let message = table.next(to, &mut rest.follow(&node.scheduler))?;
        let Rest { cells, links, .. } = rest;
        let used = wire::encode(&message, &mut links.words);
        let mut length = links.put_head(OF_TABLE, used as u64);
        for (at, word) in links.words.iter().take(used).enumerate() {
            let at = HEAD + 8 * at;
            links.bytes.get_mut(at..at + 8)?.copy_from_slice(&word.to_le_bytes());
        }
        length += 8 * used;
        if let Message::Data { data, .. } = message {
            length += cells.get(&data.payload, links.bytes.get_mut(length..)?).unwrap_or(0);
            cells.free(data.payload);
        }
        Some(length)
    }

    /// Sends what there is for other kernels, as far as there is room. Returns the kernels that it
    /// was sent to, one bit each.
    pub(super) fn pump(&mut self, node: &Node, peers: &Peers) -> u64 {
        peers.ids().fold(0, |sent, to| sent | u64::from(self.pump_to(node, peers, to)) << to.0)
    }

    #[inline]
    fn pump_to(&mut self, node: &Node, peers: &Peers, to: DomainId) -> bool {
        let has_more = self.table.has_next(to) || self.rest.links.refusal_for(to).is_some();
        has_more && self.pump_all_to(node, peers, to)
    }

    #[inline(never)]
    fn pump_all_to(&mut self, node: &Node, peers: &Peers, to: DomainId) -> bool {
        let mut has_sent = false;
        while peers.has_room_to_stream(to, LONGEST) {
            let next = self.next(node, to).or_else(|| self.rest.links.next_refusal(to));
            let Some(length) = next else { break };
            let bytes = self.rest.links.bytes.get(..length).unwrap_or_default();
            // There is room. A kernel that has died meanwhile gets nothing, and is reported.
            let _ = peers.stream(to, bytes);
            has_sent = true;
        }
        has_sent
    }
}

impl Channels {
    /// Adapts to the lives of the other kernels. Called when the chip page has changed.
    pub fn look_at_chip(&self, node: &Node, peers: &Peers) {
        let mut state = self.state.lock();
        for kernel in peers.ids() {
            // Read under the lock: a core that is late must not undo what another one has seen.
            match peer_epoch(node.soc.state_word(kernel)) {
                Some(epoch) => drop(state.see(node, Life { kernel, epoch })),
                None => state.lose(node, kernel),
            }
        }
        self.finish(node, peers, state);
    }

    /// Handles a message of another kernel's stream.
    pub fn heard(&self, node: &Node, peers: &Peers, from: Life, payload: &[u8]) {
        let mut state = self.state.lock();
        if !state.see(node, from) {
            return;
        }
        let handled = state.handle(node, from, payload);
        if handled.is_none() {
            state.lose(node, from.kernel);
        }
        state.close_refused(node);
        state.deliver_all(node);
        self.finish(node, peers, state);
        if handled.is_none() {
            peers.distrust(from.kernel, from.epoch);
        }
    }

    /// Goes on sending to a kernel that has made room.
    pub fn stream_room(&self, node: &Node, peers: &Peers) {
        self.finish(node, peers, self.state.lock());
    }

    /// Sends what followed from an event, and leaves it to a thread to wake kernels that rest.
    fn finish(&self, node: &Node, peers: &Peers, mut state: Guard<'_, State>) {
        let sent = state.pump(node, peers);
        let has_closed = state.rest.doors.any_closed();
        drop(state);
        self.passed.wake_all(&node.scheduler);
        self.owed.fetch_or(sent, Ordering::Relaxed);
        if sent != 0 || has_closed {
            self.call_keeper(node);
        }
    }

    /// Lets the thread that keeps the channels look for work.
    pub fn call_keeper(&self, node: &Node) {
        match self.keeper.load(Ordering::Acquire) {
            0 => {}
            keeper => node.scheduler.wake(ThreadId::from_token(keeper)),
        }
    }

    /// Wakes the kernels that something was sent to, if they rest. For a thread.
    pub(super) fn wake_peers(&self, node: &Node, peers: &Peers, sent: u64) {
        if sent != 0 {
            let all = peers.ids().filter(|peer| sent >> peer.0 & 1 != 0);
            all.for_each(|peer| peers.wake_sleeper(node, peer));
        }
    }

    /// Says that the calling thread keeps the channels: it wakes kernels for interrupt handlers
    /// ([`Channels::wake_owed`]), and removes doors ([`Channels::closed_door`]).
    pub fn is_kept(&self, node: &Node) {
        self.keeper.store(node.scheduler.current().token(), Ordering::Release);
    }

    /// Waits until the thread that keeps the channels has work, or `is_over`.
    pub fn await_work(&self, node: &Node, is_over: &dyn Fn() -> bool) {
        node.scheduler.wait(&self.changed, || self.has_work() || is_over());
    }

    /// Returns whether the thread that keeps the channels has work. It is woken for it.
    pub fn has_work(&self) -> bool {
        self.owed.load(Ordering::Relaxed) != 0 || self.state.lock().rest.doors.any_closed()
    }

    /// Wakes the kernels that something was sent to outside of threads, if they rest.
    pub fn wake_owed(&self, node: &Node, peers: &Peers) {
        self.wake_peers(node, peers, self.owed.swap(0, Ordering::Relaxed));
    }

    /// Passes an end to a process that starts on another kernel. Returns the ticket with which that
    /// process gets it. The caller's handle is void.
    pub fn pass(
        &self,
        node: &Node,
        peers: &Peers,
        end: u64,
        to: DomainId,
    ) -> Result<u64, Failure> {
        let id = self.id(end)?;
        let mut state = self.state.lock();
        let State { table, rest } = &mut *state;
        let number = rest.links.number();
        let ticket = TICKET
            | u64::from(self.me.0) << OF_KERNEL
            | u64::from(node.epoch.0) << OF_EPOCH
            | number;
        let passed = table.hand_over(id, to, ticket, &mut rest.follow(&node.scheduler));
        passed.map_err(refusal)?;
        rest.seats.hold(id, 0);
        let sent = state.pump(node, peers);
        drop(state);
        self.wake_peers(node, peers, sent);
        Ok(ticket)
    }

    /// Takes an end back that was passed, if no process has taken it: it is closed.
    pub fn call_back(&self, node: &Node, peers: &Peers, to: DomainId, ticket: u64) {
        let mut state = self.state.lock();
        state.rest.links.call_back(to, ticket);
        let sent = state.pump(node, peers);
        drop(state);
        self.wake_peers(node, peers, sent);
    }

    /// Returns the end that the parent on another kernel has passed to a process of this tree.
    /// Waits for it, unless `is_over`.
    pub fn take_passed(
        &self,
        node: &Node,
        ticket: u64,
        tree: u32,
        is_over: &dyn Fn() -> bool,
    ) -> Result<u64, Failure> {
        loop {
            let mut state = self.state.lock();
            if let Some(end) = state.rest.links.take(ticket) {
                state.rest.seats.hold(end, tree);
                return Ok(self.handle(end));
            }
            let may_arrive = state.rest.links.may_arrive(ticket);
            drop(state);
            if !may_arrive || is_over() {
                return Err(Failure::BadEnd);
            }
            node.scheduler.wait(&self.passed, || is_over() || self.is_decided(ticket));
        }
    }

    /// Returns whether an end has arrived, or will not.
    fn is_decided(&self, ticket: u64) -> bool {
        let links = &self.state.lock().rest.links;
        links.arrived.iter().any(|(it, _)| *it == ticket) || !links.may_arrive(ticket)
    }
}

/// Returns whether a handle is a ticket.
pub fn is_ticket(handle: u64) -> bool {
    handle & TICKET != 0
}
