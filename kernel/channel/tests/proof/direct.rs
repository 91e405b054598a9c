//! Messages that do not pass the queues: whenever one could, what the table does without queues is
//! compared with what it does with them.

use super::world::{Free, Log, Token};
use crate::channels::{Channels, Contract, Outgoing};
use crate::message::Message;
use crate::name::{EndId, Life};
use crate::wire::Plain;

/// Returns whether a send over a settled end, and the next message for the ring, are what
/// [`crate::Settled`] makes of them.
pub fn is_same(channels: &Channels<Token>, end: EndId, message: &Outgoing<Token>) -> bool {
    let (mut direct, mut usual) = (channels.clone(), channels.clone());
    let Some(mut settled) = direct.settled(end).filter(|_| message.carried == [None; 2]) else {
        return true;
    };
    let (to, ask) = (settled.to, |_, state, side| Free.next(state, side, message.tag));
    let Some(state) = settled.next((message.tag, message.bytes), ask) else { return false };
    let plain = settled.message(message.tag, state);
    settled.send(state, message.bytes);
    let mut log = Log::default();
    let is_sent = usual.send(end, message.clone(), &Free, &mut log).is_ok();
    let next = usual.next(to, &mut log);
    let has_followed = !log.woken.is_empty() || !log.freed.is_empty();
    let is_it = next == Some(plain.with(message.payload));
    is_sent && is_it && !has_followed && direct == usual
}

/// Returns whether a call to a program that waits on the same kernel is what [`crate::Paired`]
/// makes of it.
pub fn is_same_call(
    channels: &mut Channels<Token>,
    from: EndId,
    message: &Outgoing<Token>,
) -> bool {
    let mut usual = channels.clone();
    let Some(mut pair) = channels.paired(from, |_| true).filter(|_| message.carried == [None; 2])
    else {
        return true;
    };
    let (receiver, ask) = (pair.receiver(), |_, state, side| Free.next(state, side, message.tag));
    let Some(state) = pair.next((message.tag, message.bytes), ask) else { return false };
    let mut direct = channels.clone();
    if let Some(pair) = direct.paired(from, |_| true) {
        pair.call(state, message.bytes);
    }
    let mut log = Log::default();
    let is_sent = usual.send(from, message.clone(), &Free, &mut log).is_ok();
    let is_woken = log.woken == [receiver] && log.freed.is_empty();
    let received = usual.receive(receiver, &mut log).map(|it| it.payload);
    let waits = usual.begin_poll(from) == Ok(false);
    is_sent && is_woken && received == Ok(message.payload) && waits && direct == usual
}

/// A message that was given to a program, and the table after that.
pub struct Delivered {
    end: EndId,
    token: Token,
    channels: Channels<Token>,
}

/// Gives a message to a program that waits for it, if that can be done.
pub fn delivered(
    channels: &Channels<Token>,
    from: Life,
    message: &Message<Token>,
) -> Option<Delivered> {
    let (plain, Message::Data { data, .. }) = (Plain::of(message)?, message) else { return None };
    assert_eq!(plain.words().and_then(Plain::of_words), Some(plain));
    let (mut channels, mut other) = (channels.clone(), channels.clone());
    let arrival = channels.arrival(from, plain.to, plain.sequence)?;
    let end = arrival.id;
    arrival.deliver(plain.state);
    // The same for a program that says which end it waits for.
    other.arrival_at(end, from, plain.to, plain.sequence)?.deliver(plain.state);
    assert!(channels == other, "the end was found in another way");
    Some(Delivered { end, token: data.payload, channels })
}

impl Delivered {
    /// Returns whether a table that has put the message into the queue has woken the program, and
    /// is the same once that has received the message.
    pub fn is_received(&self, channels: &Channels<Token>, log: &Log) -> bool {
        let (mut channels, mut rest) = (channels.clone(), Log::default());
        let received = channels.receive(self.end, &mut rest).map(|it| it.payload);
        let is_woken = log.woken == [self.end] && log.freed.is_empty();
        is_woken && received == Ok(self.token) && channels == self.channels
    }
}
