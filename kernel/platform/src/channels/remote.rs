//! Channels to other kernels: the table's messages in the streams between kernels, the lives of the
//! other kernels, and ends that a process passes to a child elsewhere.
//!
//! Contract: all of it happens under the lock of the channels, so messages leave in the order in
//! which the table made them. Nothing here waits, except a child for the ends that its parent
//! passes on ([`Channels::take_passed`]). What a full ring delays is sent when the peer has made
//! room ([`Channels::stream_room`]). A peer that rests is woken by a thread: by the caller, or by
//! the one that keeps the channels.

use super::blocks::{Blocks, notice_of, notice_words, split_name};
use super::contracts::are_bounded;
use super::links::{Links, is_ticket_of};
use super::messages::refusal;
use super::stream::{HAS_BLOCK, LONGEST, OF_BLOCK, OF_TABLE, UNWANTED, split_plain};
use super::{Channels, ENDS_OF_TREE, Failure, Rest, State, words};
use crate::peers::Peers;
use abi::boot::MAX_DOMAINS;
use arch::lock::Guard;
use base::id::{DomainId, Epoch};
use core::sync::atomic::Ordering;
use kernel_channel::wire;
use kernel_channel::{BlockName, Life, Message};
use kernel_contract::exchange::LONGEST_BLOCK;
use kernel_msg::Payload;
use kernel_msg::endpoint::peer_epoch;
use kernel_node::Node;
use kernel_sched::ThreadId;

const _: () = assert!(MAX_DOMAINS <= 64, "a bit for each");

/// Returns whether a kernel may send this: kernels have room for what the contract of each end
/// allows to be unread, and an end for a child has a ticket of its sender.
fn may_send(from: Life, message: &Message<()>) -> bool {
    let is_own = match message {
        Message::Hand { ticket, .. } => is_ticket_of(*ticket, from),
        _ => true,
    };
    is_own && message.records().all(|record| are_bounded(&record.bounds))
}

/// Returns the name of a block that begins the bytes of a message, if it can be one, and how many
/// bytes of the block are after the fields.
fn arriving(blocks: &Blocks, bytes: &[u8]) -> Option<(BlockName, u16)> {
    let (name, rest) = split_name(bytes)?;
    let length = name.length as usize;
    if name.is_in_message() {
        return (length <= rest.len()).then_some((name, length as u16));
    }
    (blocks.may_arrive(&name) && length <= LONGEST_BLOCK).then_some((name, 0))
}

impl State {
    /// Returns whether this is the last life of its kernel that this one has noticed.
    fn knows(&self, life: Life) -> bool {
        let known = self.rest.links.known.get(life.kernel.index());
        known.is_some_and(|known| *known == life.epoch.0)
    }

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
            rest.links.forget_refusals(life.kernel);
            rest.blocks.died(Life { epoch: Epoch(life.epoch.0 - 1), ..life });
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
            rest.links.forget_refusals(kernel);
            rest.blocks.died(life);
            table.kernel_died(life, &mut rest.follow(&node.scheduler));
        }
    }

    /// Handles a message of another kernel. Returns `None` if it is against the protocol.
    fn handle(&mut self, node: &Node, from: Life, payload: &[u8]) -> Option<()> {
        if let Some((plain, has_block, bytes)) = split_plain(payload) {
            return self.handle_message(node, from, plain.with(()), (has_block, bytes));
        }
        let ([kind, number], rest) = words::split(payload)?;
        match kind {
            OF_TABLE => self.handle_words(node, from, number, rest),
            UNWANTED => {
                let ticket = Some(number).filter(|it| is_ticket_of(*it, from))?;
                self.rest.links.refuse(ticket);
                Some(())
            }
            OF_BLOCK => {
                let ([secret, fate], _) = words::split(rest)?;
                drop(self.rest.blocks.hear(notice_of([number, secret, fate])?));
                Some(())
            }
            _ => None,
        }
    }

    fn handle_words(&mut self, node: &Node, from: Life, count: u64, payload: &[u8]) -> Option<()> {
        let has_block = count & HAS_BLOCK != 0;
        let count = usize::try_from(count & !HAS_BLOCK).ok()?;
        let room = self.rest.buffers.words.get_mut(..count)?;
        let bytes = words::get(payload, room)?;
        let message = wire::decode(room).filter(|message| may_send(from, message))?;
        self.handle_message(node, from, message, (has_block, bytes))
    }

    fn handle_message(
        &mut self,
        node: &Node,
        from: Life,
        message: Message<()>,
        (has_block, bytes): (bool, &[u8]),
    ) -> Option<()> {
        let State { table, rest } = self;
        let Rest { cells, blocks, .. } = rest;
        let message = message.with(|to| {
            let block = if has_block { Some(arriving(blocks, bytes)?) } else { None };
            let (name, in_message) = block.unzip();
            match table.bytes_to(to) {
                Some(most) if bytes.len() > most as usize => None,
                Some(_) => {
                    let payload = cells.put(bytes, in_message)?;
                    name.iter().for_each(|name| blocks.arrives(name));
                    Some(payload)
                }
                // The message is dropped.
                None => {
                    name.iter().for_each(|name| drop(blocks.take(name)));
                    cells.put(&[], None)
                }
            }
        })?;
        table.handle(from, message, &mut rest.follow(&node.scheduler)).ok()
    }

    /// Closes the ends that have arrived and that no child wants.
    fn close_unwanted(&mut self, node: &Node) {
        while let Some(end) = self.rest.links.next_unwanted() {
            self.drop_end(node, end);
        }
    }

    /// Writes the next message of the table for a kernel to the buffer. Returns its length.
    fn next(&mut self, node: &Node, to: DomainId) -> Option<usize> {
        let State { table, rest } = self;
        let message = table.next(to, &mut rest.follow(&node.scheduler))?;
        let there = rest.links.last_life(to);
        let Rest { cells, buffers, blocks, .. } = rest;
        let has_block =
            matches!(&message, Message::Data { data, .. } if data.payload.block.is_some());
        let mut length = buffers.put(&message, has_block)?;
        let bytes = &mut buffers.bytes;
        if let Message::Data { data, .. } = message {
            let room = bytes.get_mut(length..)?;
            length += cells.get(&data.payload, room).unwrap_or(0);
            if data.payload.block.is_some() {
                blocks.leaves(&split_name(room)?.0, there);
            }
            cells.free(data.payload);
        }
        Some(length)
    }

    /// Writes the next ticket that no child wants, likewise.
    fn next_refusal(&mut self, to: DomainId) -> Option<usize> {
        let ticket = self.rest.links.next_refusal(to)?;
        self.rest.buffers.put_head(&[UNWANTED, ticket])
    }

    /// Writes what a kernel is to hear next of its blocks, likewise.
    fn next_of_block(&mut self, to: DomainId) -> Option<usize> {
        let [id, secret, fate] = notice_words(&self.rest.blocks.next_notice(to)?);
        self.rest.buffers.put_head(&[OF_BLOCK, id, secret, fate])
    }

    /// Sends what there is for other kernels, as far as there is room. Returns the kernels that it
    /// was sent to, one bit each.
    pub(super) fn pump(&mut self, node: &Node, peers: &Peers) -> u64 {
        let mut sent = 0;
        loop {
            // What one kernel gets can be news for another one.
            let of = |sent, to: DomainId| sent | u64::from(self.pump_to(node, peers, to)) << to.0;
            match peers.ids().fold(0, of) {
                0 => return sent,
                more => sent |= more,
            }
        }
    }

    #[inline]
    fn pump_to(&mut self, node: &Node, peers: &Peers, to: DomainId) -> bool {
        let has_more = self.table.has_next(to)
            || self.rest.links.has_refusal(to)
            || self.rest.blocks.has_notice(to);
        has_more && self.pump_all_to(node, peers, to)
    }

    #[inline(never)]
    fn pump_all_to(&mut self, node: &Node, peers: &Peers, to: DomainId) -> bool {
        let mut has_sent = false;
        while peers.has_room_to_stream(to, LONGEST) {
            let next = self.next(node, to).or_else(|| self.next_refusal(to));
            let next = next.or_else(|| self.next_of_block(to));
            let Some(length) = next else { break };
            let bytes = self.rest.buffers.bytes.get(..length).unwrap_or_default();
            // There is room. A kernel that has died, or has broken the protocol of the ring, gets
            // nothing more in this life.
            if peers.stream(to, Payload::of(bytes)).is_err() {
                self.lose(node, to);
                break;
            }
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
                Some(epoch) => {
                    let _ = state.see(node, Life { kernel, epoch });
                }
                None => state.lose(node, kernel),
            }
        }
        state.close_unwanted(node);
        self.finish(node, peers, state);
    }

    /// Handles a message of another kernel's stream.
    pub fn heard(&self, node: &Node, peers: &Peers, from: Life, payload: &[u8]) {
        self.hear((node, peers), from, payload, &|thread| node.scheduler.wake(thread));
    }

    /// Handles a message of another kernel's stream. A thread for which it is is woken by `wake`,
    /// if nothing else follows.
    pub(super) fn hear(
        &self,
        (node, peers): (&Node, &Peers),
        from: Life,
        payload: &[u8],
        wake: &dyn Fn(ThreadId),
    ) {
        let mut state = self.state.lock();
        if let Some(thread) = state.deliver_far(from, payload) {
            drop(state);
            return wake(thread);
        }
        // The first message of a life may come before the chip page is looked at. It may also come
        // after its sender's death, of which nothing else would tell.
        let is_running = || peer_epoch(node.soc.state_word(from.kernel)) == Some(from.epoch);
        if !(state.knows(from) || is_running()) || !state.see(node, from) {
            return;
        }
        let handled = state.handle(node, from, payload);
        if handled.is_none() {
            state.lose(node, from.kernel);
        }
        state.deliver_all(node);
        state.close_unwanted(node);
        self.finish(node, peers, state);
        if handled.is_none() {
            peers.distrust(from.kernel, from.epoch);
        }
    }

    /// Continues to send to a kernel that has made room.
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
    pub(super) fn call_keeper(&self, node: &Node) {
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

    /// Waits until the thread that keeps the channels has work.
    pub fn await_work(&self, node: &Node) {
        node.scheduler.wait(&self.changed, || self.has_work());
    }

    /// Returns whether the thread that keeps the channels has work. It is woken for it.
    fn has_work(&self) -> bool {
        self.owed.load(Ordering::Relaxed) != 0 || self.state.lock().rest.doors.any_closed()
    }

    /// Wakes the kernels that something was sent to outside of threads, if they rest.
    pub fn wake_owed(&self, node: &Node, peers: &Peers) {
        self.wake_peers(node, peers, self.owed.swap(0, Ordering::Relaxed));
    }

    /// Passes an end to a process that starts on another kernel. Returns the ticket with which that
    /// process gets it. The caller's handle is void.
    pub fn pass(&self, node: &Node, peers: &Peers, end: u64, to: DomainId) -> Result<u64, Failure> {
        let id = self.id(end)?;
        let mut state = self.state.lock();
        let State { table, rest } = &mut *state;
        let ticket = rest.links.new_ticket(Life { kernel: self.me, epoch: node.epoch });
        let passed = table.hand_over(id, to, ticket, &mut rest.follow(&node.scheduler));
        passed.map_err(refusal)?;
        self.leave(node, peers, state);
        Ok(ticket)
    }

    /// Takes an end back that was passed, if no process has taken it: it is closed.
    pub fn call_back(&self, node: &Node, peers: &Peers, to: DomainId, ticket: u64) {
        let mut state = self.state.lock();
        state.rest.links.call_back(to, ticket);
        self.leave(node, peers, state);
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
            if state.table.charged_to(tree) >= ENDS_OF_TREE && state.rest.links.has_arrived(ticket)
            {
                return Err(Failure::Full);
            }
            if let Some(end) = state.rest.links.take(ticket) {
                state.table.charge(end, tree);
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
        links.has_arrived(ticket) || !links.may_arrive(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::Epoch;
    use kernel_channel::message::{Peer, Record};
    use kernel_channel::name::Lives;
    use kernel_channel::{Bounds, ChannelName, ContractId, EndName, Side};

    const HERE: Life = Life { kernel: DomainId(0), epoch: Epoch(2) };
    const THERE: Life = Life { kernel: DomainId(1), epoch: Epoch(2) };

    fn record() -> Record {
        let channel = ChannelName { creator: THERE, number: 0, secret: 7 };
        let peer = Peer {
            at: THERE,
            moves: 0,
            edition: 0,
            switched: 0,
            awaited: Lives::default(),
            before: 0,
            closed: None,
            is_gone: false,
            heard: 0,
            heard_switched: 0,
            heard_all: false,
        };
        Record {
            name: EndName { channel, side: Side::First },
            contract: ContractId([0; 2]),
            state: 0,
            bounds: Bounds { messages: [1; 2], bytes: 64, level: 0 },
            moves: 1,
            edition: 0,
            sent: 0,
            read: 0,
            before: 0,
            trail: Lives::default(),
            is_broken: false,
            peer,
        }
    }

    #[test]
    fn a_kernel_hands_ends_over_under_tickets_of_its_own() {
        let ticket = |life| Links::new(1).new_ticket(life);
        let hand = |ticket| Message::Hand { record: record(), ticket };
        assert!(may_send(THERE, &hand(ticket(THERE))));
        assert!(!may_send(THERE, &hand(ticket(HERE))));
        let bounds = Bounds { messages: [super::super::QUEUE + 1; 2], ..record().bounds };
        let record = Record { bounds, ..record() };
        assert!(!may_send(THERE, &Message::Hand { record, ticket: ticket(THERE) }));
    }
}
