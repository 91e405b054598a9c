//! The messages, and their three words. What a peer wrote is checked here for form; whether it
//! makes sense now is the machine's business.

use abi::boot::{MAX_CORES, MAX_DOMAINS};
use abi::dsm::{kind, pack_body, unpack_body};
use base::id::{CoreId, DomainId};

use crate::word::{Keep, Page, PeerFault, RequestId, Want};

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// To the home: `core` of the sender wants `page` (`count` pages, for [`Want::Reset`]).
    Get {
        /// The requester.
        core: CoreId,
        /// The page.
        page: Page,
        /// What for.
        want: Want,
        /// How many pages, for a reset.
        count: u32,
    },
    /// From the home: it has it, or it is lost.
    Grant {
        /// The requester.
        core: CoreId,
        /// The page.
        page: Page,
        /// What for.
        want: Want,
        /// Nobody has its last value.
        lost: bool,
    },
    /// From the home, for request `id`: write back what was written, and keep no more than `keep`.
    Revoke {
        /// For whom.
        id: RequestId,
        /// The page.
        page: Page,
        /// What may stay.
        keep: Keep,
    },
    /// To the home: that is done.
    Ack {
        /// Which revocation.
        id: RequestId,
        /// The page.
        page: Page,
    },
    /// To all: the sender is there and holds nothing.
    Join,
    /// To all: the sender is the home, the `round`th of all; `settled` are the epochs of its
    /// members.
    Home {
        /// Which time.
        round: u32,
        /// A byte a domain; 0 for those that are not members.
        settled: u64,
    },
    /// To the home: the sender holds nothing any more and goes.
    Leave,
    /// To one that leaves: nobody will ask it for anything.
    Bye,
    /// To the next home: the sender, the `round`th home, holds nothing any more, and all
    /// of its pages are in memory.
    TakeHome {
        /// Which time.
        round: u32,
        /// As in [`Message::Home`].
        settled: u64,
    },
    /// From one that will be the home: what do you hold, from page `base` on?
    Ask {
        /// The asker's count of attempts.
        round: u8,
        /// The first page of interest.
        base: Page,
        /// A byte a domain: the newest epoch that the asker knows of, and bit 7 if that is dead.
        lives: u64,
        /// The old home, when it hands over and waits for this, and its round.
        handed: Option<(DomainId, u32)>,
    },
    /// The answer: 64 pages from `base` on; everything before is not held, and nothing is beyond
    /// when `base` is [`END`]: then `held` are the members that the sender knows of; bit 0 of
    /// `written` says that it knows that one of them died, and the bits from 8 on are the round of
    /// the last home that it knew.
    Chunk {
        /// As asked.
        round: u8,
        /// First page.
        base: Page,
        /// Bit for each page: held.
        held: u64,
        /// Bit for each page: may have been written.
        written: u64,
    },
    /// To one that answered: the sender does not claim any more.
    Void,
    /// To all, from one that waits to hear of a home: who is it?
    Who,
    /// From the home: pages have been lost; ask for them.
    Losses,
    /// To the home: which are lost, from `base` on?
    AskLost {
        /// First page of interest.
        base: Page,
    },
    /// The answer, as in [`Message::Chunk`].
    Lost {
        /// First page.
        base: Page,
        /// Bit for each page.
        bits: u64,
    },
}

/// The `base` of the last chunk.
pub const END: Page = Page::MAX;

const fn want_code(want: Want) -> u8 {
    match want {
        Want::Read => 0,
        Want::Write => 1,
        Want::Device => 2,
        Want::Reset => 3,
    }
}

pub(crate) const fn want_of(code: u8) -> Option<Want> {
    Some(match code {
        0 => Want::Read,
        1 => Want::Write,
        2 => Want::Device,
        3 => Want::Reset,
        _ => return None,
    })
}

pub(crate) const fn keep_of(code: u8) -> Option<Keep> {
    match code {
        0 => Some(Keep::Nothing),
        1 => Some(Keep::Read),
        _ => None,
    }
}

const LOST_BIT: u8 = 1 << 4;

const fn plain(kind: u8) -> [u64; 3] {
    [pack_body(kind, 0, 0, 0, 0), 0, 0]
}

impl Message {
    /// Does a core of the receiver `to` wait for this, attending, so that nobody needs to ring? It
    /// looks for messages until it has it.
    #[inline]
    pub fn is_awaited(&self, to: DomainId) -> bool {
        match self {
            Message::Grant { .. } => true,
            Message::Ack { id, .. } => id.domain == to,
            _ => false,
        }
    }

    /// Does its first word say all?
    pub const fn is_short(body: u64) -> bool {
        let (kind, _, _, argument, _) = unpack_body(body);
        match kind {
            kind::GET => argument != want_code(Want::Reset),
            kind::GRANT | kind::REVOKE | kind::ACK => true,
            _ => false,
        }
    }

    /// Its three words.
    #[inline(always)]
    pub const fn encode(&self) -> [u64; 3] {
        match *self {
            Message::Get { core, page, want, count } => {
                [pack_body(kind::GET, 0, core.0, want_code(want), page), count as u64, 0]
            }
            Message::Grant { core, page, want, lost } => {
                let argument = want_code(want) | if lost { LOST_BIT } else { 0 };
                [pack_body(kind::GRANT, 0, core.0, argument, page), 0, 0]
            }
            Message::Revoke { id, page, keep } => {
                let body = pack_body(kind::REVOKE, id.domain.0, id.core.0, keep as u8, page);
                [body, 0, 0]
            }
            Message::Ack { id, page } => {
                [pack_body(kind::ACK, id.domain.0, id.core.0, 0, page), 0, 0]
            }
            Message::Join => plain(kind::JOIN),
            Message::Home { round, settled } => {
                [pack_body(kind::HOME, 0, 0, 0, 0), settled, round as u64]
            }
            Message::Leave => plain(kind::LEAVE),
            Message::Bye => plain(kind::BYE),
            Message::TakeHome { round, settled } => {
                [pack_body(kind::TAKE_HOME, 0, 0, 0, 0), settled, round as u64]
            }
            Message::Ask { round, base, lives, handed } => {
                let giver = match handed {
                    Some((domain, round)) => (round as u64) << 8 | (domain.0 as u64 + 1),
                    None => 0,
                };
                [pack_body(kind::ASK, 0, 0, round, base), lives, giver]
            }
            Message::Chunk { round, base, held, written } => {
                [pack_body(kind::CHUNK, 0, 0, round, base), held, written]
            }
            Message::Void => plain(kind::VOID),
            Message::Who => plain(kind::WHO),
            Message::Losses => plain(kind::LOSSES),
            Message::AskLost { base } => [pack_body(kind::ASK_LOST, 0, 0, 0, base), 0, 0],
            Message::Lost { base, bits } => [pack_body(kind::LOST, 0, 0, 0, base), bits, 0],
        }
    }

    /// The message that these words are.
    pub fn decode(words: [u64; 3]) -> Result<Message, PeerFault> {
        let [body, first, second] = words;
        let nonsense = PeerFault::Word(body);
        let (kind, domain, core, argument, page) = unpack_body(body);
        if core as usize >= MAX_CORES || domain as usize >= MAX_DOMAINS {
            return Err(nonsense);
        }
        let (core, domain) = (CoreId(core), DomainId(domain));
        let id = RequestId { domain, core };
        let want = want_of(argument & !LOST_BIT).ok_or(nonsense);
        Ok(match kind {
            kind::GET => {
                let want = want_of(argument).ok_or(nonsense)?;
                let count = match want {
                    Want::Reset => u32::try_from(first).map_err(|_| nonsense)?,
                    _ => 1,
                };
                Message::Get { core, page, want, count }
            }
            kind::GRANT => {
                Message::Grant { core, page, want: want?, lost: argument & LOST_BIT != 0 }
            }
            kind::REVOKE => Message::Revoke { id, page, keep: keep_of(argument).ok_or(nonsense)? },
            kind::ACK => Message::Ack { id, page },
            kind::JOIN => Message::Join,
            kind::HOME => Message::Home { round: second as u32, settled: first },
            kind::LEAVE => Message::Leave,
            kind::BYE => Message::Bye,
            kind::TAKE_HOME => Message::TakeHome { round: second as u32, settled: first },
            kind::ASK if second & 0xff > MAX_DOMAINS as u64 => return Err(nonsense),
            kind::ASK => {
                let giver = (second as u8).checked_sub(1).map(DomainId);
                let handed = giver.map(|giver| (giver, (second >> 8) as u32));
                Message::Ask { round: argument, base: page, lives: first, handed }
            }
            kind::CHUNK => {
                Message::Chunk { round: argument, base: page, held: first, written: second }
            }
            kind::VOID => Message::Void,
            kind::WHO => Message::Who,
            kind::LOSSES => Message::Losses,
            kind::ASK_LOST => Message::AskLost { base: page },
            kind::LOST => Message::Lost { base: page, bits: first },
            _ => return Err(nonsense),
        })
    }
}
