//! The protocol's messages and their encoding in three words.
//!
//! Decoding checks form only; whether a message makes sense in the current state is the machine's
//! concern.

use abi::boot::{MAX_CORES, MAX_DOMAINS};
use abi::dsm::{kind, pack_body, unpack_body};
use base::id::{CoreId, DomainId};

use crate::types::{Keep, Page, PeerFault, RequestId, Want};

/// A message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// To the home: `core` of the sender wants `page`.
    Get {
        core: CoreId,
        page: Page,
        want: Want,
        /// Number of pages, 1 except for [`Want::Reset`].
        count: u32,
    },
    /// From the home: the request is granted, or the page is lost.
    Grant { core: CoreId, page: Page, want: Want, lost: bool },
    /// From the home, on behalf of request `id`: write back, and keep at most `keep`.
    Revoke { id: RequestId, page: Page, keep: Keep },
    /// To the home: the revocation for request `id` is done.
    Ack { id: RequestId, page: Page },
    /// To all: the sender has started and holds nothing.
    Join,
    /// To all: the sender is the home.
    Home {
        /// Counts the homes since the chip started.
        round: u32,
        /// The epochs of the home's members, one byte per domain; 0 for non-members.
        member_epochs: u64,
    },
    /// To the home: the sender no longer holds anything and leaves.
    Leave,
    /// From the home to a leaving domain: it may power down.
    Bye,
    /// To the next home: the sender, the home number `round`, holds nothing and all of its pages
    /// are in memory.
    TakeHome {
        round: u32,
        /// As in [`Message::Home`].
        member_epochs: u64,
    },
    /// From a claimant: which pages from `base` on does the receiver hold?
    Ask {
        /// The claimant's count of its claims.
        round: u8,
        base: Page,
        /// The newest epoch of each domain known to the claimant, 7 bits per byte; bit 7 is set if
        /// that epoch has ended.
        lives: u64,
        /// The home that hands over to the claimant, and its round.
        handed: Option<(DomainId, u32)>,
    },
    /// Answers [`Message::Ask`] for 64 pages from `base` on; pages between the requested base and
    /// this one are not held. If `base` is [`END`], no further page is held: then `held` has the
    /// members known to the sender, bit 0 of `written` says that it knows of a member's death that
    /// no home has handled, and `written` from bit 8 on is the round of the last home it knew.
    Chunk {
        round: u8,
        base: Page,
        /// One bit per page: held.
        held: u64,
        /// One bit per page: possibly written.
        written: u64,
    },
    /// To a domain that answered a claim: the sender no longer claims.
    Void,
    /// To all, from a domain that waits for a home: which domain is the home?
    Who,
    /// From the home: pages are lost; ask which.
    Losses,
    /// To the home: which pages from `base` on are lost?
    AskLost { base: Page },
    /// Answers [`Message::AskLost`] in the form of [`Message::Chunk`].
    Lost {
        base: Page,
        /// One bit per page.
        bits: u64,
    },
}

/// The `base` of the last answer.
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
    /// Returns whether a core of the receiver `to` polls for this message, so that no doorbell is
    /// needed.
    #[inline]
    pub fn is_awaited(&self, to: DomainId) -> bool {
        match self {
            Message::Grant { .. } => true,
            Message::Ack { id, .. } => id.domain == to,
            _ => false,
        }
    }

    /// Returns whether the first word contains the whole message.
    pub const fn is_short(body: u64) -> bool {
        let (kind, _, _, argument, _) = unpack_body(body);
        match kind {
            kind::GET => argument != want_code(Want::Reset),
            kind::GRANT | kind::REVOKE | kind::ACK => true,
            _ => false,
        }
    }

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
            Message::Home { round, member_epochs } => {
                [pack_body(kind::HOME, 0, 0, 0, 0), member_epochs, round as u64]
            }
            Message::Leave => plain(kind::LEAVE),
            Message::Bye => plain(kind::BYE),
            Message::TakeHome { round, member_epochs } => {
                [pack_body(kind::TAKE_HOME, 0, 0, 0, 0), member_epochs, round as u64]
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

    /// Decodes three words; [`PeerFault::Word`] if they are not a message.
    pub fn decode(words: [u64; 3]) -> Result<Message, PeerFault> {
        let [body, first, second] = words;
        let malformed = PeerFault::Word(body);
        let (kind, domain, core, argument, page) = unpack_body(body);
        if core as usize >= MAX_CORES || domain as usize >= MAX_DOMAINS {
            return Err(malformed);
        }
        let (core, domain) = (CoreId(core), DomainId(domain));
        let id = RequestId { domain, core };
        let want = want_of(argument & !LOST_BIT).ok_or(malformed);
        Ok(match kind {
            kind::GET => {
                let want = want_of(argument).ok_or(malformed)?;
                let count = match want {
                    Want::Reset => u32::try_from(first).map_err(|_| malformed)?,
                    _ => 1,
                };
                Message::Get { core, page, want, count }
            }
            kind::GRANT => {
                Message::Grant { core, page, want: want?, lost: argument & LOST_BIT != 0 }
            }
            kind::REVOKE => Message::Revoke { id, page, keep: keep_of(argument).ok_or(malformed)? },
            kind::ACK => Message::Ack { id, page },
            kind::JOIN => Message::Join,
            kind::HOME => Message::Home { round: second as u32, member_epochs: first },
            kind::LEAVE => Message::Leave,
            kind::BYE => Message::Bye,
            kind::TAKE_HOME => Message::TakeHome { round: second as u32, member_epochs: first },
            kind::ASK if second & 0xff > MAX_DOMAINS as u64 => return Err(malformed),
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
            _ => return Err(malformed),
        })
    }
}
