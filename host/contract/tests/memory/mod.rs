//! A transport in memory that checks each message as a kernel will: with `kernel-contract`.

use contract::Contract;
use kernel_contract::{Automaton, Bound, Carried, Conversation, Parcel, Side};
use penumbra::channel::{Arrival, ENDPOINTS, Endpoints, Error, Received, Transport};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A channel. Its queues have the room that the contract's bounds give them, and no more.
struct Channel {
    automaton: Automaton<Vec<u8>>,
    conversation: Conversation,
    queues: [VecDeque<Sent>; 2],
    closed: [bool; 2],
    broken: bool,
}

struct Sent {
    tag: u16,
    bytes: Vec<u8>,
    block: Option<Vec<u8>>,
    endpoints: Endpoints<End>,
}

/// One end of a channel.
pub struct End {
    channel: Rc<RefCell<Channel>>,
    side: Side,
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.side)
    }
}

/// Returns the client's and the server's end of a new channel.
pub fn channel(contract: &Contract) -> (End, End) {
    let automaton = contract.automaton.clone();
    let conversation = Conversation::start(&automaton);
    let (queues, closed) = Default::default();
    let channel = Channel { automaton, conversation, queues, closed, broken: false };
    let channel = Rc::new(RefCell::new(channel));
    let end = |side| End { channel: channel.clone(), side };
    (end(Side::Client), end(Side::Server))
}

impl End {
    /// Returns what the contract says about an endpoint that is this end.
    fn carried(&self) -> Carried {
        Carried { contract: self.channel.borrow().automaton.hash(), side: self.side }
    }

    /// Puts a message into the queue without any check.
    pub fn forge(&self, tag: u16, bytes: &[u8]) {
        let sent = Sent {
            tag,
            bytes: bytes.to_vec(),
            block: None,
            endpoints: [const { None }; ENDPOINTS],
        };
        let queue = usize::from(self.side.number());
        self.channel.borrow_mut().queues[queue].push_back(sent);
    }
}

impl Channel {
    fn content(&self, from: Side) -> Bound {
        let mut sum = Bound::default();
        for sent in &self.queues[usize::from(from.number())] {
            sum.messages += 1;
            sum.inline += sent.bytes.len() as u32;
            sum.block += sent.block.as_ref().map_or(0, Vec::len) as u32;
            sum.endpoints += sent.endpoints.iter().flatten().count() as u32;
        }
        sum
    }
}

impl Transport for End {
    type Block = Vec<u8>;
    type Endpoint = End;

    fn send(
        &mut self,
        tag: u16,
        bytes: &[u8],
        block: Option<Vec<u8>>,
        endpoints: Endpoints<End>,
    ) -> Result<(), Error> {
        let carried: Vec<Carried> = endpoints.iter().flatten().map(End::carried).collect();
        let channel = &mut *self.channel.borrow_mut();
        let parcel = Parcel {
            inline: bytes.len(),
            block: block.as_ref().map(Vec::len),
            endpoints: &carried,
        };
        if channel.conversation.send(&channel.automaton, self.side, tag, &parcel).is_err() {
            return Err(Error::Refused(tag));
        }
        let sent = Sent { tag, bytes: bytes.to_vec(), block, endpoints };
        channel.queues[usize::from(self.side.number())].push_back(sent);
        let (content, bound) = (channel.content(self.side), channel.automaton.bound(self.side));
        assert!(content.messages <= bound.messages && content.inline <= bound.inline);
        assert!(content.block <= bound.block && content.endpoints <= bound.endpoints);
        Ok(())
    }

    fn receive(&mut self, bytes: &mut [u8]) -> Received<Self> {
        let channel = &mut *self.channel.borrow_mut();
        let other = usize::from(self.side.other().number());
        let Some(sent) = channel.queues[other].pop_front() else {
            assert!(channel.closed[other], "the test waits forever");
            return if channel.broken { Err(Error::Broken) } else { Ok(None) };
        };
        let _ = channel.conversation.receive(&channel.automaton, self.side, sent.tag);
        let length = sent.bytes.len().min(bytes.len());
        bytes[..length].copy_from_slice(&sent.bytes[..length]);
        let (tag, length) = (sent.tag, sent.bytes.len());
        Ok(Some(Arrival { tag, length, block: sent.block, endpoints: sent.endpoints }))
    }

    fn close(self) {}
}

impl Drop for End {
    fn drop(&mut self) {
        let channel = &mut *self.channel.borrow_mut();
        channel.broken |= !channel.conversation.may_close(&channel.automaton, self.side)
            && !channel.closed[usize::from(self.side.other().number())];
        channel.closed[usize::from(self.side.number())] = true;
    }
}
