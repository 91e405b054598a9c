//! Coherence between kernels. Of three kernels, two are well and one has gone mad: it writes
//! anything into its links. Rules:
//! - nothing panics, no access is outside the links, and each event has a bounded number of
//!   effects, on pages of the region and for kernels of the board;
//! - when the mad kernel is dead, the others agree on a home and get every page again, in a bounded
//!   number of rounds.

use crate::bytes::Bytes;
use crate::words::Flat;
use crate::{Target, mutate};
use abi::dsm::{HEADER, SLOT, link_size, pack_body, pack_header, slots};
use base::id::{CoreId, DomainId, Epoch};
use base::prng::Prng;
use kernel_dsm::thrash::Limit;
use kernel_dsm::wire::{Inbox, Outbox};
use kernel_dsm::{
    Access, AccessError, Config, Down, Dsm, Effect, Handled, Message, PeerStatus, Protocol,
    RequestId, Start, Want,
};

pub const TARGET: Target = Target {
    name: "dsm",
    about: "coherence between kernels, with one that writes anything into its links",
    daily: 1500,
    nightly: 200_000,
    run: |bytes| World::new(bytes).run(),
    seed: |seed| mutate::noise(&mut Prng::new(seed), 20, 700),
    outcomes: || {
        vec![(0, "a fault"), (1, "a forged message"), (2, "a lost page"), (3, "an access")]
    },
};

/// Bytes of an input that is used.
const LONGEST: usize = 4096;
const DOMAINS: usize = 3;
const CORES: usize = 2;
const PAGES: u32 = 70;
/// Pages that are accessed.
const USED: u32 = 4;
/// Effects of one event at most: one for each page and for each request, and some messages.
const MOST: usize = 2 * PAGES as usize + 64;
/// Rounds in which everything outstanding must end.
const ROUNDS: usize = 400;

type Links = Vec<Flat>;

/// A kernel that is well.
struct Kernel {
    id: usize,
    dsm: Dsm<Vec<u64>, DOMAINS, CORES>,
    out: Vec<Outbox>,
    into: Vec<Inbox>,
    shootdowns: Vec<RequestId>,
    /// What a core waits for.
    waits: Option<Access>,
    ended: Option<Result<(), AccessError>>,
    now: u64,
}

impl Kernel {
    fn new(id: usize, protocol: Protocol) -> Kernel {
        let config = Config {
            protocol,
            me: DomainId(id as u8),
            domains: DOMAINS as u8,
            cores: CORES as u8,
            pages: PAGES,
            hold: 5,
            limit: 50,
            thrash: Limit { moves: 4, window: 400 },
        };
        let words = kernel_dsm::table::words(protocol, config.domains, PAGES);
        let slots = slots(DOMAINS, CORES) as u32;
        Kernel {
            id,
            dsm: Dsm::new(config, Epoch(1), vec![0; words]).expect("words are enough"),
            out: vec![Outbox::new(Epoch(1), slots); DOMAINS],
            into: vec![Inbox::new(Epoch(1), slots); DOMAINS],
            shootdowns: vec![],
            waits: None,
            ended: None,
            now: 0,
        }
    }

    /// Reports an event to the machine, and performs its effects.
    fn drive<R>(
        &mut self,
        links: &Links,
        event: impl FnOnce(&mut Dsm<Vec<u64>, DOMAINS, CORES>, u64, kernel_dsm::Out<'_>) -> R,
    ) -> R {
        let (mut effects, now) = (vec![], self.now);
        let result = event(&mut self.dsm, now, &mut |effect| effects.push(effect));
        assert!(effects.len() <= MOST, "{} effects of one event", effects.len());
        effects.into_iter().for_each(|effect| self.perform(links, effect));
        result
    }

    fn perform(&mut self, links: &Links, effect: Effect) {
        let inside = |page| assert!(page < PAGES, "{effect:?}");
        match effect {
            Effect::Send { to, message } => {
                assert!(to.index() < DOMAINS && to.index() != self.id, "{effect:?}");
                self.out[to.index()].send(&links[self.id * DOMAINS + to.index()], &message);
            }
            Effect::Unmap { page, work, .. } => {
                inside(page);
                self.shootdowns.push(work);
            }
            Effect::Map { page, .. }
            | Effect::Clean { page }
            | Effect::CleanAndInvalidate { page }
            | Effect::Invalidate { page }
            | Effect::Lost { page }
            | Effect::Thrash { page, .. } => inside(page),
            Effect::Complete { core, result } => {
                assert_eq!(core, CoreId(0), "an answer to a core that has not asked");
                assert!(self.waits.is_some(), "an answer to no access");
                self.ended = Some(result);
            }
            Effect::UnmapAll | Effect::Stays | Effect::Left => panic!("{effect:?}: none leaves"),
        }
    }

    fn learn(&mut self, links: &Links, news: &[PeerStatus]) {
        let others = news.iter().filter(|peer| peer.domain.index() != self.id);
        let others: Vec<PeerStatus> = others.copied().collect();
        for peer in &others {
            self.out[peer.domain.index()].start(peer.epoch);
            self.into[peer.domain.index()].start(peer.epoch);
        }
        self.drive(links, |dsm, now, out| dsm.chip(now, &others, out));
    }

    /// Takes messages of a peer, as a kernel does. Returns whether one was wrong.
    fn poll(&mut self, links: &Links, peer: usize) -> (bool, bool) {
        let link = &links[peer * DOMAINS + self.id];
        let mut some = false;
        for _ in 0..slots(DOMAINS, CORES) {
            let body = match self.into[peer].peek(link) {
                Ok(Some(body)) => body,
                Ok(None) => return (false, some),
                Err(_) => return (true, some),
            };
            let (from, epoch) = (DomainId(peer as u8), self.into[peer].peer());
            let fast =
                self.drive(links, |dsm, now, out| dsm.handle_fast(|| now, from, epoch, body, out));
            some = true;
            if fast {
                self.into[peer].done();
                continue;
            }
            let handled = self.into[peer].message(link, body).and_then(|message| {
                assert_eq!(Message::decode(message.encode()), Ok(message));
                self.drive(links, |dsm, now, out| dsm.handle(now, from, epoch, message, out))
            });
            match handled {
                Ok(Handled::Done) => self.into[peer].done(),
                Ok(Handled::Later) => return (false, some),
                Err(_) => return (true, some),
            }
        }
        (false, some)
    }

    /// Lets the core do its next step. Returns whether an access has ended.
    fn step(&mut self, links: &Links, page: u32, want: Want) -> Option<Result<(), AccessError>> {
        if let Some(result) = self.ended.take() {
            self.waits = None;
            self.drive(links, |dsm, now, out| dsm.retired(now, CoreId(0), out));
            return Some(result);
        }
        if self.waits.is_none() {
            let access = Access { page, crosses: false, want };
            self.waits = Some(access);
            let begun = self.drive(links, |dsm, now, out| match want {
                Want::Reset => dsm.reset(now, CoreId(0), page, 1, out),
                _ => dsm.access(|| now, CoreId(0), access, out),
            });
            if let Err(error) = begun {
                self.waits = None;
                return Some(Err(error));
            }
        }
        None
    }

    fn tick(&mut self, links: &Links) {
        self.now += 10;
        if !self.shootdowns.is_empty() {
            let work = self.shootdowns.remove(0);
            self.drive(links, |dsm, now, out| dsm.unmapped(now, work, out));
        }
        self.drive(links, |dsm, now, out| dsm.tick(now, out));
    }
}

struct World<'a> {
    links: Links,
    /// The two kernels that are well.
    kernels: Vec<Kernel>,
    mad: usize,
    sequence: [u32; DOMAINS],
    input: Bytes<'a>,
    /// Whether the mad kernel may claim to be the home, or say anything at all.
    claims: bool,
    outcomes: u64,
}

fn status(domain: usize, down: Option<Down>) -> PeerStatus {
    PeerStatus { domain: DomainId(domain as u8), epoch: Epoch(1), down }
}

impl<'a> World<'a> {
    fn new(bytes: &'a [u8]) -> World<'a> {
        let mut input = Bytes::new(bytes, LONGEST);
        let links: Links =
            (0..DOMAINS * DOMAINS).map(|_| Flat::new(link_size(DOMAINS, CORES))).collect();
        let mad = input.below(DOMAINS);
        let claims = input.once_in(2);
        let protocol = [Protocol::TwoState, Protocol::ThreeState][input.below(2)];
        let well = (0..DOMAINS).filter(|id| *id != mad);
        let mut kernels: Vec<Kernel> = well.map(|id| Kernel::new(id, protocol)).collect();
        let news: Vec<PeerStatus> = (0..DOMAINS).map(|id| status(id, None)).collect();
        for kernel in &mut kernels {
            kernel.learn(&links, &news);
            kernel.drive(&links, |dsm, now, out| dsm.start(now, Start::Founding, out));
        }
        World { links, kernels, mad, sequence: [0; DOMAINS], input, claims, outcomes: 0 }
    }

    fn run(mut self) -> u64 {
        while !self.input.is_empty() {
            let which = self.input.below(2);
            match self.input.below(6) {
                0 => self.poll(which),
                1 => self.kernels[which].tick(&self.links),
                2 => {
                    let page = self.input.below(USED as usize) as u32;
                    let want = [Want::Read, Want::Write][self.input.below(2)];
                    self.step(which, page, want);
                }
                3 if self.claims => self.scribble(which),
                _ => self.message(which),
            }
        }
        if !self.claims {
            self.recover();
        }
        self.outcomes
    }

    fn poll(&mut self, which: usize) {
        let id = self.kernels[which].id;
        for peer in (0..DOMAINS).filter(|peer| *peer != id) {
            let (fault, some) = self.kernels[which].poll(&self.links, peer);
            self.outcomes |= u64::from(fault) | u64::from(some && peer == self.mad) << 1;
        }
    }

    fn step(&mut self, which: usize, page: u32, want: Want) {
        match self.kernels[which].step(&self.links, page, want) {
            Some(Ok(())) => self.outcomes |= 8,
            Some(Err(AccessError::Lost)) => self.outcomes |= 4,
            _ => {}
        }
    }

    /// The mad kernel writes a word somewhere.
    fn scribble(&mut self, which: usize) {
        let link = &self.links[self.mad * DOMAINS + self.kernels[which].id];
        let at = 8 * self.input.below(link_size(DOMAINS, CORES) / 8);
        link.poke(at, link.peek(at) ^ self.input.number(64));
    }

    /// The mad kernel sends what looks like a message.
    fn message(&mut self, which: usize) {
        let input = &mut self.input;
        let to = self.kernels[which].id;
        let link = &self.links[self.mad * DOMAINS + to];
        let page = [input.byte() as u32 % USED, PAGES - 1, input.number(32) as u32];
        let page = page[input.below(3)];
        let kinds = if self.claims { 18 } else { 5 };
        let (kind, domain, core) = (input.byte() % kinds, input.byte() % 4, input.byte() % 3);
        let body = pack_body(kind, domain, core, input.byte() % 20, page);
        let sequence = self.sequence[to];
        self.sequence[to] = sequence.wrapping_add(1);
        let slot = sequence as usize % slots(DOMAINS, CORES) * SLOT;
        let words = [body, input.number(64), input.number(64)];
        words.iter().enumerate().for_each(|(index, word)| link.poke(slot + 8 * index, *word));
        link.poke(slot + HEADER, pack_header(1, 1, sequence));
    }

    /// The mad kernel is dead: the others continue.
    fn recover(&mut self) {
        let news: Vec<PeerStatus> =
            (0..DOMAINS).map(|id| status(id, (id == self.mad).then_some(Down::Died))).collect();
        let links = &self.links;
        self.kernels.iter_mut().for_each(|kernel| kernel.learn(links, &news));
        for page in 0..USED {
            for which in [0, 1, 0] {
                self.access(which, page);
            }
        }
    }

    /// One kernel writes a page, and resets it if it is lost.
    fn access(&mut self, which: usize, page: u32) {
        let mut want = Want::Write;
        for _ in 0..ROUNDS {
            let waits = self.kernels[which].waits;
            match self.kernels[which].step(&self.links, page, want) {
                Some(Ok(())) if waits.is_some_and(|it| it.page == page && it.want == want) => {
                    if want == Want::Write {
                        return;
                    }
                    want = Want::Write;
                }
                Some(Err(AccessError::Lost)) => want = Want::Reset,
                _ => {}
            }
            for one in 0..2 {
                self.poll(one);
                self.kernels[one].tick(&self.links);
                // An access from before; its instruction retires.
                if one != which && self.kernels[one].ended.is_some() {
                    self.step(one, page, Want::Write);
                }
            }
        }
        let states: Vec<_> =
            self.kernels.iter().map(|kernel| format!("{:?}", kernel.dsm)).collect();
        panic!("page {page} does not come to {which} after {ROUNDS} rounds: {states:#?}");
    }
}
