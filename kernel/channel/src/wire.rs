//! Messages between kernels as words. Each field has a word; a word that is too large for its field
//! makes the whole message malformed. The payload travels beside the words.

use base::id::{DomainId, Epoch};

use abi::boot::MAX_DOMAINS;

use crate::bounds::{Bounds, CARRIED};
use crate::message::{Cargo, Data, Message, News, Peer, Record, Status};
use crate::name::{ChannelName, ContractId, EndName, Life, Lives, Side};

/// The longest message.
pub const WORDS: usize = 128;

/// The words of a message without carried ends ([`Plain`]).
pub const PLAIN: usize = 4;
/// Numbers of messages that fit into these words are below this.
const FEW: u64 = 1 << 48;

/// A program's message without carried ends, without its payload: most are. In four words:
///
/// ```text
///   the transport's: 16 bits | kernel: 8 | side: 8 | epoch: 16 | tag: 16
///   number of the channel     its secret     state: 16 | number of the message: 48
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    pub to: EndName,
    /// The number of messages that the same end has sent before.
    pub sequence: u64,
    pub tag: u16,
    /// State of the contract after this message.
    pub state: u16,
}

impl Plain {
    /// Returns a message as such, if it is one.
    pub fn of<B>(message: &Message<B>) -> Option<Plain> {
        let Message::Data { to, data } = message else { return None };
        let Data { sequence, tag, state, carried, .. } = data;
        let is_plain = *carried == [Cargo::Nothing; CARRIED];
        is_plain.then_some(Plain { to: *to, sequence: *sequence, tag: *tag, state: *state })
    }

    /// Returns the message with its payload.
    pub fn with<B>(self, payload: B) -> Message<B> {
        let Plain { to, sequence, tag, state } = self;
        let carried = [Cargo::Nothing; CARRIED];
        Message::Data { to, data: Data { sequence, tag, state, payload, carried } }
    }

    /// Returns its words, in which the transport's bits are 0. `None`: there have been too many
    /// messages.
    #[inline]
    pub fn words(&self) -> Option<[u64; PLAIN]> {
        let EndName { channel: ChannelName { creator, number, secret }, side } = self.to;
        let head = u64::from(creator.kernel.0) << 16
            | (side as u64) << 24
            | u64::from(creator.epoch.0) << 32
            | u64::from(self.tag) << 48;
        let last = self.sequence << 16 | u64::from(self.state);
        (self.sequence < FEW).then_some([head, number, secret, last])
    }

    /// Undoes [`Plain::words`], whatever the transport's bits are. Another kernel wrote them.
    #[inline]
    pub fn of_words([head, number, secret, last]: [u64; PLAIN]) -> Option<Plain> {
        let creator =
            Life { kernel: DomainId((head >> 16) as u8), epoch: Epoch((head >> 32) as u16) };
        let side = match (head >> 24) as u8 {
            0 => Side::First,
            1 => Side::Second,
            _ => return None,
        };
        let is_life = creator.kernel.index() < MAX_DOMAINS && creator.epoch.0 != 0;
        let to = EndName { channel: ChannelName { creator, number, secret }, side };
        let (sequence, tag, state) = (last >> 16, (head >> 48) as u16, last as u16);
        is_life.then_some(Plain { to, sequence, tag, state })
    }
}

/// Words being written. Those beyond the end are dropped; [`WORDS`] are enough.
struct Writer<'a> {
    words: &'a mut [u64; WORDS],
    used: usize,
}

impl Writer<'_> {
    fn put(&mut self, word: impl Into<u64>) {
        if let Some(place) = self.words.get_mut(self.used) {
            *place = word.into();
            self.used += 1;
        }
    }

    fn life(&mut self, life: Life) {
        self.put(life.kernel.0);
        self.put(life.epoch.0);
    }

    fn lives(&mut self, lives: Lives) {
        lives.epochs().iter().for_each(|epoch| self.put(epoch.0));
    }

    fn name(&mut self, name: EndName) {
        self.life(name.channel.creator);
        self.put(name.channel.number);
        self.put(name.channel.secret);
        self.put(name.side as u8);
    }

    fn news(&mut self, news: &News) {
        let (status, count) = match news.status {
            Status::Open => (0u8, 0),
            Status::Closed(count) => (1, count),
            Status::Broken => (2, 0),
        };
        self.put(news.edition);
        self.life(news.at);
        self.put(news.moves);
        self.put(news.before);
        self.lives(news.trail);
        self.put(status);
        self.put(count);
        self.put(news.heard);
        self.put(news.switched);
        self.put(news.has_all);
    }

    fn record(&mut self, record: &Record) {
        self.name(record.name);
        record.contract.0.iter().for_each(|it| self.put(*it));
        self.put(record.state);
        record.bounds.messages.iter().for_each(|it| self.put(*it));
        self.put(record.bounds.bytes);
        self.put(record.bounds.level);
        self.put(record.moves);
        self.put(record.edition);
        self.put(record.sent);
        self.put(record.read);
        self.put(record.before);
        self.lives(record.trail);
        self.put(record.is_broken);
        self.peer(&record.peer);
    }

    fn peer(&mut self, peer: &Peer) {
        self.life(peer.at);
        self.put(peer.moves);
        self.put(peer.edition);
        self.put(peer.switched);
        self.lives(peer.awaited);
        self.put(peer.before);
        self.put(peer.closed.is_some());
        self.put(peer.closed.unwrap_or(0));
        self.put(peer.is_gone);
        self.put(peer.heard);
        self.put(peer.heard_switched);
        self.put(peer.heard_all);
    }

    fn data<B>(&mut self, data: &Data<B>) {
        self.put(data.sequence);
        self.put(data.tag);
        self.put(data.state);
        for cargo in &data.carried {
            match cargo {
                Cargo::Nothing => self.put(0u8),
                Cargo::Lost => self.put(1u8),
                Cargo::End(record) => {
                    self.put(2u8);
                    self.record(record);
                }
            }
        }
    }
}

/// Writes a message without its payload. Returns the number of words.
pub fn encode<B>(message: &Message<B>, words: &mut [u64; WORDS]) -> usize {
    let mut writer = Writer { words, used: 0 };
    match message {
        Message::Data { to, data } => {
            writer.put(0u8);
            writer.name(*to);
            writer.data(data);
        }
        Message::News { to, news } => {
            writer.put(1u8);
            writer.name(*to);
            writer.news(news);
        }
        Message::Retire { end, moves, last } => {
            writer.put(2u8);
            writer.name(*end);
            writer.put(*moves);
            writer.put(last.is_some());
            last.iter().for_each(|news| writer.news(news));
        }
        Message::Room { ends } => {
            writer.put(3u8);
            writer.put(*ends);
        }
        Message::Hand { record, ticket } => {
            writer.put(4u8);
            writer.record(record);
            writer.put(*ticket);
        }
    }
    writer.used
}

/// Words being read; another kernel wrote them.
struct Reader<'a>(&'a [u64]);

impl Reader<'_> {
    fn get<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        T::try_from(*first).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.get::<u64>()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn life(&mut self) -> Option<Life> {
        let life = Life { kernel: DomainId(self.get()?), epoch: Epoch(self.get()?) };
        (life.kernel.index() < MAX_DOMAINS && life.epoch.0 != 0).then_some(life)
    }

    fn lives(&mut self) -> Option<Lives> {
        let mut epochs = *Lives::NONE.epochs();
        for epoch in &mut epochs {
            *epoch = Epoch(self.get()?);
        }
        Some(Lives::of_epochs(epochs))
    }

    fn name(&mut self) -> Option<EndName> {
        let creator = self.life()?;
        let channel = ChannelName { creator, number: self.get()?, secret: self.get()? };
        let side = if self.flag()? { Side::Second } else { Side::First };
        Some(EndName { channel, side })
    }

    fn news(&mut self) -> Option<News> {
        let edition = self.get()?;
        let (at, moves, before, trail) = (self.life()?, self.get()?, self.get()?, self.lives()?);
        let status = match (self.get::<u64>()?, self.get()?) {
            (0, 0) => Status::Open,
            (1, count) => Status::Closed(count),
            (2, 0) => Status::Broken,
            _ => return None,
        };
        let (heard, switched, has_all) = (self.get()?, self.get()?, self.flag()?);
        Some(News { edition, at, moves, before, trail, status, heard, switched, has_all })
    }

    fn record(&mut self) -> Option<Record> {
        Some(Record {
            name: self.name()?,
            contract: ContractId([self.get()?, self.get()?]),
            state: self.get()?,
            bounds: Bounds {
                messages: [self.get()?, self.get()?],
                bytes: self.get()?,
                level: self.get()?,
            },
            moves: self.get()?,
            edition: self.get()?,
            sent: self.get()?,
            read: self.get()?,
            before: self.get()?,
            trail: self.lives()?,
            is_broken: self.flag()?,
            peer: self.peer()?,
        })
    }

    fn peer(&mut self) -> Option<Peer> {
        Some(Peer {
            at: self.life()?,
            moves: self.get()?,
            edition: self.get()?,
            switched: self.get()?,
            awaited: self.lives()?,
            before: self.get()?,
            closed: match (self.flag()?, self.get()?) {
                (false, 0) => None,
                (true, count) => Some(count),
                _ => return None,
            },
            is_gone: self.flag()?,
            heard: self.get()?,
            heard_switched: self.get()?,
            heard_all: self.flag()?,
        })
    }

    fn data(&mut self) -> Option<Data<()>> {
        let (sequence, tag, state) = (self.get()?, self.get()?, self.get()?);
        let mut carried = [Cargo::Nothing; CARRIED];
        for cargo in &mut carried {
            *cargo = match self.get::<u64>()? {
                0 => Cargo::Nothing,
                1 => Cargo::Lost,
                2 => Cargo::End(self.record()?),
                _ => return None,
            };
        }
        Some(Data { sequence, tag, state, payload: (), carried })
    }
}

/// Reads a message. `None` if these words are none.
pub fn decode(words: &[u64]) -> Option<Message<()>> {
    let mut reader = Reader(words);
    let message = match reader.get::<u64>()? {
        0 => Message::Data { to: reader.name()?, data: reader.data()? },
        1 => Message::News { to: reader.name()?, news: reader.news()? },
        2 => Message::Retire {
            end: reader.name()?,
            moves: reader.get()?,
            last: if reader.flag()? { Some(reader.news()?) } else { None },
        },
        3 => Message::Room { ends: reader.get()? },
        4 => Message::Hand { record: reader.record()?, ticket: reader.get()? },
        _ => return None,
    };
    reader.0.is_empty().then_some(message)
}

impl Message<()> {
    /// Adds the payload that came with the words, which only `Data` has. Returns `None` if
    /// `payload` does.
    pub fn with<B>(self, payload: impl FnOnce(EndName) -> Option<B>) -> Option<Message<B>> {
        Some(match self {
            Message::Data { to, data } => {
                let Data { sequence, tag, state, carried, .. } = data;
                let payload = payload(to)?;
                Message::Data { to, data: Data { sequence, tag, state, payload, carried } }
            }
            Message::Hand { record, ticket } => Message::Hand { record, ticket },
            Message::News { to, news } => Message::News { to, news },
            Message::Retire { end, moves, last } => Message::Retire { end, moves, last },
            Message::Room { ends } => Message::Room { ends },
        })
    }

    /// Iterates over the ends that move with it.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let (carried, handed) = match self {
            Message::Data { data, .. } => (&data.carried[..], None),
            Message::Hand { record, .. } => (&[][..], Some(record)),
            _ => (&[][..], None),
        };
        let carried = carried.iter().filter_map(|cargo| match cargo {
            Cargo::End(record) => Some(record),
            _ => None,
        });
        carried.chain(handed)
    }
}
