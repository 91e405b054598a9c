//! The outcome of a batch, from the engine's words alone: this needs no step and no page of another
//! kernel.
//!
//! ```text
//!   waiting --> ended: done, refused, or lost with a session that the engine has closed
//!      |
//!      +------> broken: a fault, or words that the engine cannot have written; reopen the session
//! ```
//! A waiting thread looks at each interrupt. It marks the outcomes that it has read as taken
//! ([`Books`]), which frees their descriptors.

use crate::port::Port;
use crate::request::{Reply, told};
use crate::transfer::{BATCH, Outcome, Refusal};
use abi::dma::{MAX_CHANNELS, Position, RING, unpack_status};
use base::id::DomainId;

/// A submitted batch.
#[must_use = "its descriptors stay taken until its outcome is read"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    channel: usize,
    count: u32,
    first: Position,
    before: Position,
}

/// The state of a batch, from the engine's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It has not ended.
    Waiting,
    Ended(Outcome),
    /// Its session must be reopened; then look again.
    Broken,
}

impl Ticket {
    /// Returns the ticket in the reply to a submission.
    pub fn of(reply: &Reply) -> Option<Ticket> {
        let channel = usize::try_from(reply.channel).ok().filter(|&c| c < MAX_CHANNELS)?;
        let fits = (1..=BATCH as u32).contains(&reply.count);
        (reply.kind == told::STARTED && fits).then(|| Ticket {
            channel,
            count: reply.count,
            first: Position::unpack(reply.first),
            before: Position::unpack(reply.before),
        })
    }

    /// Returns the index of its channel.
    pub fn channel(&self) -> usize {
        self.channel
    }

    /// Returns its session, packed.
    pub fn session(&self) -> u64 {
        self.first.pack()
    }

    /// Reads the state of the batch.
    pub fn look(&self, port: &Port<'_>) -> Seen {
        let completed = port.completed(self.channel);
        if !completed.same_session(self.first) {
            return self.elsewhere(port, completed);
        }
        let ended = completed.index.wrapping_sub(self.first.index);
        if (self.count..=RING as u32).contains(&ended) {
            port.barrier(); // statuses are read after the word that announces them
            return self.outcome(port).map_or(Seen::Broken, Seen::Ended);
        }
        // The engine is before our batch, or the word is invalid.
        let before = self.first.index.wrapping_sub(completed.index);
        let partly = ended < self.count || before <= RING as u32;
        port.barrier(); // a fault seen after this is of this session or a later one
        if partly && port.fault(self.channel) == 0 { Seen::Waiting } else { Seen::Broken }
    }

    /// The engine is in another session.
    fn elsewhere(&self, port: &Port<'_>, completed: Position) -> Seen {
        port.barrier(); // the session that the engine names was announced before it got there
        let announced = port.submitted(self.channel);
        if announced.same_session(self.first) {
            // The engine has not opened our session yet, or the word is invalid.
            let early = completed.same_session(self.before);
            return if early { Seen::Waiting } else { Seen::Broken };
        }
        // Our session is over when the engine is in the announced one. No session: it was fenced.
        let over = completed.same_session(announced) || announced.pack() == 0;
        let lost = Outcome { done: 0, refused: Some((0, Refusal::Lost)), time: 0 };
        if over { Seen::Ended(lost) } else { Seen::Waiting }
    }

    fn outcome(&self, port: &Port<'_>) -> Option<Outcome> {
        let mut outcome = Outcome::default();
        for number in 0..self.count {
            let place = self.first.at(self.first.index.wrapping_add(number));
            let (word, time) = port.ended(self.channel, place.index);
            let refusal = Refusal::of(unpack_status(word, place)?);
            outcome.done += u32::from(refusal.is_none());
            outcome.time = outcome.time.max(time);
            outcome.refused = outcome.refused.or(refusal.map(|why| (number, why)));
        }
        Some(outcome)
    }
}

/// The outcomes of one channel that were read.
#[derive(Clone, Copy, Debug, Default)]
struct Book {
    /// The session; outcomes before its index were read.
    oldest: Position,
    /// Bit `i`: the outcome at index `oldest + i` was read too.
    read: u32,
}

/// The outcomes that a kernel has read, on all channels.
#[derive(Clone, Debug, Default)]
pub struct Books([Book; MAX_CHANNELS]);

impl Books {
    pub const fn new() -> Books {
        let oldest = Position { epoch: 0, generation: 0, index: 0 };
        Books([Book { oldest, read: 0 }; MAX_CHANNELS])
    }

    /// Notes that the outcome of `ticket` was read, and frees descriptors up to the first unread
    /// outcome.
    pub fn read(&mut self, port: &Port<'_>, ticket: &Ticket) {
        let book = &mut self.0[ticket.channel];
        if !port.submitted(ticket.channel).same_session(ticket.first) {
            return; // its session is over, and the channel may have another holder
        }
        if !book.oldest.same_session(ticket.first) {
            *book = Book { oldest: ticket.first.at(0), read: 0 };
        }
        let at = ticket.first.index.wrapping_sub(book.oldest.index);
        let bits = ((1u64 << ticket.count) - 1).checked_shl(at).unwrap_or(0);
        book.read |= bits as u32;
        let before = book.oldest;
        while book.read & 1 != 0 {
            book.read >>= 1;
            book.oldest.index = book.oldest.index.wrapping_add(1);
        }
        if book.oldest != before {
            port.take(ticket.channel, book.oldest);
        }
    }
}

/// The transfers of a kernel that were in progress at some time.
#[derive(Clone, Debug)]
pub struct Rest([Option<Position>; MAX_CHANNELS]);

impl Rest {
    /// Notes what is in progress for `holder` now.
    pub fn of(port: &Port<'_>, holder: DomainId) -> Rest {
        let channels = port.channels();
        Rest(core::array::from_fn(|channel| {
            let theirs = channel < channels && port.holder(channel) == u64::from(holder.0);
            theirs.then(|| port.submitted(channel)).filter(|at| at.pack() != 0)
        }))
    }

    /// Returns whether the engine has finished or dropped all of it.
    pub fn is_over(&mut self, port: &Port<'_>) -> bool {
        for (channel, rest) in self.0.iter_mut().enumerate() {
            *rest = rest.filter(|&last| !is_through(port, channel, last));
        }
        self.0.iter().all(Option::is_none)
    }
}

fn is_through(port: &Port<'_>, channel: usize, last: Position) -> bool {
    let completed = port.completed(channel);
    port.barrier(); // as in `Ticket::look`
    if completed.same_session(last) {
        let left = last.index.wrapping_sub(completed.index) as i32;
        return left <= 0 || port.fault(channel) != 0;
    }
    let announced = port.submitted(channel);
    let over = announced.pack() == 0 || completed.same_session(announced);
    over && !announced.same_session(last)
}
