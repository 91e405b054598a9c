//! Messages from peers are untrusted: bad ones are errors, never panics. Tables and links return
//! what was stored.

use base::id::{CoreId, DomainId, Epoch};
use base::port::Words;
use base::prng::Prng;
use kernel_dsm::table::{Entry, Table, words};
use kernel_dsm::thrash::Limit;
use kernel_dsm::wire::{Inbox, Outbox};
use kernel_dsm::{
    Access, Config, DomainSet, Dsm, Effect, Hold, Message, PeerFault, PeerStatus, Protocol, Start,
    Want,
};
use proptest::prelude::*;
use std::cell::RefCell;

const PAGES: u32 = 200;

fn config(protocol: Protocol, domains: u8, me: u8) -> Config {
    let thrash = Limit { moves: 3, window: 100 };
    let me = DomainId(me);
    Config { protocol, me, domains, cores: 2, pages: PAGES, hold: 5, limit: 50, thrash }
}

struct Flat(RefCell<Vec<u64>>);

impl Words for Flat {
    fn load(&self, at: usize) -> u64 {
        self.0.borrow()[at / 8]
    }
    fn store(&self, at: usize, value: u64) {
        self.0.borrow_mut()[at / 8] = value;
    }
    fn barrier(&self) {}
}

/// Returns words that resemble messages of all kinds, with small numbers in all fields.
fn malformed(prng: &mut Prng) -> [u64; 3] {
    let small = |prng: &mut Prng| {
        [prng.below(5), prng.below(255), PAGES as u64 - 1][prng.below(3) as usize]
    };
    let kind = prng.below(20) << 56;
    let (domain, core, want) = (small(prng) % 9, small(prng) % 9, small(prng) % 20);
    let body = kind | domain << 48 | core << 40 | want << 32;
    [body | small(prng), prng.next() >> prng.below(64), prng.next() >> prng.below(64)]
}

#[test]
fn malformed_messages_are_rejected_or_ignored_without_panic() {
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let protocol = [Protocol::TwoState, Protocol::ThreeState][seed as usize % 2];
        let me = prng.below(3) as u8;
        let config = config(protocol, 3, me);
        let mut dsm: Dsm<_, 3, 2> = Dsm::new(config, Epoch(1), [0u64; 32]).unwrap();
        let mut effects = 0;
        let out = &mut |_: Effect| effects += 1;
        let peers = (0..3).filter(|domain| *domain != me).map(DomainId);
        let up = |domain| PeerStatus { domain, epoch: Epoch(1), down: None };
        let news: Vec<PeerStatus> = peers.map(up).collect();
        dsm.chip(0, &news, out);
        dsm.start(0, Start::Founding, out);
        for now in 0..400 {
            let from = DomainId(prng.below(4) as u8);
            if let Ok(message) = Message::decode(malformed(&mut prng)) {
                assert_eq!(Message::decode(message.encode()), Ok(message));
                let _ = dsm.handle(now, from, Epoch(1), message, out);
            }
            let access = Access {
                page: prng.below(PAGES as u64 + 2) as u32,
                crosses: prng.chance(1, 2),
                want: Want::Write,
            };
            let _ = dsm.access(|| now, CoreId(prng.below(3) as u8), access, out);
            dsm.tick(now, out);
        }
        assert!(effects > 0);
    }
}

#[test]
fn a_link_keeps_order_across_wrapping_and_reports_an_overrun() {
    let link = Flat(RefCell::new(vec![0; 4 * abi::dsm::SLOT / 8]));
    let (mut outbox, mut inbox) = (Outbox::new(Epoch(1), 4), Inbox::new(Epoch(2), 4));
    outbox.start(Epoch(2));
    assert_eq!(inbox.peek(&link), Ok(None), "no session yet");
    inbox.start(Epoch(1));
    for page in 0..50 {
        let message = Message::AskLost { base: page };
        outbox.send(&link, &message);
        assert!(inbox.is_waiting(&link));
        let body = inbox.peek(&link).unwrap().unwrap();
        assert_eq!(inbox.message(&link, body), Ok(message));
        inbox.done();
        assert_eq!(inbox.peek(&link), Ok(None));
    }
    (0..5).for_each(|_| outbox.send(&link, &Message::Join));
    assert_eq!(inbox.peek(&link), Err(PeerFault::Overrun));
    let mut later = Inbox::new(Epoch(3), 4);
    later.start(Epoch(1));
    assert_eq!(later.peek(&link), Ok(None), "sent to an earlier life");
}

fn entry(protocol: Protocol, me: u8, domains: u8) -> impl Strategy<Value = Entry> {
    let hold =
        prop_oneof![Just(Hold::None), Just(Hold::Read), Just(Hold::Write), Just(Hold::Device)];
    (hold, 0..=255u8, any::<bool>(), 0..domains).prop_map(move |(hold, set, flag, one)| {
        let me = DomainId(me);
        match (protocol, hold) {
            (Protocol::ThreeState, _) => {
                let holders = DomainSet((u16::from(set) & ((1 << domains) - 1)) as u8);
                Entry { hold, holders, exclusive: flag, lost: !flag }
            }
            (Protocol::TwoState, Hold::None) if flag || DomainId(one) == me => {
                Entry { lost: flag, ..Entry::FREE }
            }
            (Protocol::TwoState, _) => {
                let owner = if hold == Hold::None { DomainId(one) } else { me };
                Entry { hold, holders: DomainSet::only(owner), exclusive: true, lost: false }
            }
        }
    })
}

fn table_keeps(protocol: Protocol, domains: u8, me: u8, entries: &[(u32, Entry)]) {
    let config = config(protocol, domains, me);
    let count = words(protocol, domains, PAGES);
    assert!(Table::new(vec![0; count - 1], &config).is_none());
    let mut table = Table::new(vec![0; count], &config).expect("enough words");
    let mut model = vec![Entry::FREE; PAGES as usize];
    for (page, entry) in entries {
        table.set(*page, *entry);
        model[*page as usize] = *entry;
    }
    (0..PAGES).for_each(|page| assert_eq!(table.get(page), model[page as usize], "{page}"));
    for base in 0..=PAGES {
        let used = (base..PAGES).filter(|page| model[*page as usize] != Entry::FREE);
        assert!(table.used(base).eq(used), "from {base}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tables_return_what_was_stored(
        two in prop::collection::vec((0..PAGES, entry(Protocol::TwoState, 2, 4)), 0..300),
        eight in prop::collection::vec((0..PAGES, entry(Protocol::TwoState, 5, 8)), 0..300),
        three in prop::collection::vec((0..PAGES, entry(Protocol::ThreeState, 1, 8)), 0..300),
    ) {
        table_keeps(Protocol::TwoState, 4, 2, &two);
        table_keeps(Protocol::TwoState, 8, 5, &eight);
        table_keeps(Protocol::ThreeState, 8, 1, &three);
    }
}
