//! Layout of the simulated window, and the barriers that can be omitted.

use abi::msg::{CONSUMER, LEVELS, Layout, REPLIES, RINGS, SLOT, STALLED};

use crate::machine::Access;

/// Links so small that they are full most of the time.
pub static LAYOUTS: [Layout; 4] = [
    Layout {
        urgent_slots: 2,
        blockable_slots: 2,
        stream_slots: 2,
        urgent_replies: 1,
        level_replies: [1; LEVELS],
        reply_bytes: 64,
    },
    Layout {
        urgent_slots: 4,
        blockable_slots: 4,
        stream_slots: 4,
        urgent_replies: 2,
        level_replies: [2, 1, 1, 1],
        reply_bytes: 96,
    },
    Layout {
        urgent_slots: 4,
        blockable_slots: 8,
        stream_slots: 4,
        urgent_replies: 2,
        level_replies: [4, 3, 2, 1],
        reply_bytes: 128,
    },
    Layout {
        urgent_slots: 16,
        blockable_slots: 32,
        stream_slots: 16,
        urgent_replies: 8,
        level_replies: [12, 6, 4, 2],
        reply_bytes: 128,
    },
];

/// Size of every link; the same for all, so that an address identifies the word.
pub const LINK: usize = 12 << 10;
/// Bytes of a domain's page.
pub const PAGE: usize = 4096;

/// Returns the address of link (from, to).
pub const fn link(domains: usize, from: usize, to: usize) -> usize {
    (from * domains + to) * LINK
}

/// Returns the address of a domain's page; pages follow the links.
pub const fn page(domains: usize, domain: usize) -> usize {
    domains * domains * LINK + domain * PAGE
}

/// Returns the number of words of the window.
pub const fn words(domains: usize) -> usize {
    page(domains, domains) / 8
}

/// The purpose of a word of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Producer,
    Consumer,
    Stalled,
    ReplyDone,
    ReplyBody,
    Message,
}

const fn kind(at: usize) -> Kind {
    let offset = at % LINK;
    if offset < CONSUMER {
        Kind::Producer
    } else if offset < STALLED {
        Kind::Consumer
    } else if offset < REPLIES {
        Kind::Stalled
    } else if offset < RINGS && offset.is_multiple_of(SLOT) {
        Kind::ReplyDone
    } else if offset < RINGS || offset >= RINGS + REPLY_PAYLOADS {
        Kind::ReplyBody
    } else {
        Kind::Message
    }
}

/// Offset of the first reply payload from the rings, in the largest of [`LAYOUTS`]; the simulator
/// identifies barriers only with that layout.
const REPLY_PAYLOADS: usize = LAYOUTS[3].reply_payloads() - RINGS;

/// A barrier that can be omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Between a message and the producer word that publishes it.
    PublishBarrier,
    /// Between the producer word and the check for attending cores.
    RingBarrier,
    /// Between the producer word and the loads of the message.
    ConsumeBarrier,
    /// Between a reply and its done word.
    ReplyBarrier,
    /// Between the done word and the loads of the reply.
    CollectBarrier,
    /// Between the attending word and the last poll before sleep.
    SleepBarrier,
}

impl Break {
    /// All barriers, with their names on the command line.
    pub const ALL: [(&'static str, Break); 6] = [
        ("publish-barrier", Break::PublishBarrier),
        ("ring-barrier", Break::RingBarrier),
        ("consume-barrier", Break::ConsumeBarrier),
        ("reply-barrier", Break::ReplyBarrier),
        ("collect-barrier", Break::CollectBarrier),
        ("sleep-barrier", Break::SleepBarrier),
    ];

    /// Returns whether this is the barrier after `access`. `domains` distinguishes links from
    /// pages.
    pub fn is(self, domains: usize, access: Access) -> bool {
        let links = page(domains, 0);
        match (self, access) {
            (Break::SleepBarrier, Access::Store(at)) => at >= links,
            (_, Access::Store(at) | Access::Load(at)) if at >= links => false,
            (Break::PublishBarrier, Access::Store(at)) => kind(at) == Kind::Message,
            (Break::RingBarrier, Access::Store(at)) => {
                matches!(kind(at), Kind::Producer | Kind::ReplyDone)
            }
            (Break::ConsumeBarrier, Access::Load(at)) => kind(at) == Kind::Producer,
            (Break::ReplyBarrier, Access::Store(at)) => kind(at) == Kind::ReplyBody,
            (Break::CollectBarrier, Access::Load(at)) => kind(at) == Kind::ReplyDone,
            _ => false,
        }
    }
}

const _: () = assert!(LAYOUTS[3].size() <= LINK);
