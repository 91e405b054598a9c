//! The state machine of one domain, and the events that drive it.

use abi::boot::MAX_DOMAINS;
use base::id::{CoreId, DomainId, Epoch};

use crate::config::Config;
use crate::effect::{Effect, Perform};
use crate::grid::{Cell, Grid};
use crate::life::{ChipPageRead, Life, Peer, with_byte};
use crate::message::Message;
use crate::pin::Pins;
use crate::table::{Store, Table};
use crate::thrash::Detector;
use crate::types::{
    DomainSet, Down, Handled, Keep, Page, PeerFault, PeerStatus, RequestId, Start, Want,
};

/// Which domain is the home, as far as this domain knows. *Rounds* number the homes.
///
/// ```text
///   Waiting  -- Home from h -------------------------> Known(h)
///   Known(h) -- h died, slept or hands over ---------> Waiting
///   Waiting  -- lowest that runs, or TakeHome -------> Claiming
///   Claiming -- another claim goes first ------------> Waiting
///   Claiming -- Home from h -------------------------> Known(h)
///   Claiming -- all have answered -------------------> Home
///   Home     -- handed over, or the handover failed -> Waiting
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HomeState {
    /// This domain.
    Home,
    /// Another domain, and its round.
    Known(DomainId, u32),
    /// This domain, as soon as the domains in `waiting` have reported which pages they hold.
    Claiming {
        waiting: DomainSet,
        /// The home that hands over to this domain, and its round.
        handed: Option<(DomainId, u32)>,
        /// A member died: pages that no domain holds are lost.
        lost: bool,
    },
    /// Not known; another domain will announce itself.
    Waiting,
}

/// Progress of this domain's leaving.
///
/// ```text
///   No --leave--> Unmapping --all_unmapped--> Empty --Leave sent------> Asked ----Bye--> Gone
///                                              ^  |---TakeHome sent---> Handing --Home-->|
///                                              |  '---no other domain runs-------------->|
///                                              +--- the home, or the next one, died
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Leaving {
    No,
    Unmapping,
    Empty,
    Asked,
    Handing(DomainId),
    Gone,
}

/// An access in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PendingAccess {
    pub page: Page,
    /// Number of pages needed, from `page` on, or to reset for [`Want::Reset`].
    pub count: u32,
    /// How many of them are held and pinned.
    pub got: u32,
    pub want: Want,
    /// The request for the next page has been sent to the current home.
    pub sent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Core {
    pub pending: Option<PendingAccess>,
    pub pins: Pins,
}

/// A revocation by the home, on behalf of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Revoke {
    Idle,
    /// Waits for a pin to end.
    Deferred {
        page: Page,
        keep: Keep,
    },
    /// A shootdown is in progress. If `orphan`, no answer is expected.
    Unmapping {
        page: Page,
        keep: Keep,
        orphan: bool,
    },
}

impl Cell for Revoke {
    const IDLE: Revoke = Revoke::Idle;
}

/// What a core requests from the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageRequest {
    pub page: Page,
    pub want: Want,
    pub count: u32,
}

/// The state of a request at the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Idle,
    /// Waits; ranks start with 1 and order the queue.
    Queued {
        wanted: PageRequest,
        rank: u8,
    },
    /// Waits for the holders in `acks` to give up the page. An orphan's requester died or no longer
    /// wants the page; `next` is what it wants now.
    Active {
        wanted: PageRequest,
        acks: DomainSet,
        orphan: bool,
        next: Option<PageRequest>,
    },
}

impl Cell for Request {
    const IDLE: Request = Request::Idle;
}

/// One domain's state machine, for at most `D` domains with at most `C` cores each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dsm<T, const D: usize, const C: usize> {
    pub(crate) config: Config,
    pub(crate) epoch: Epoch,
    pub(crate) table: Table<T>,
    pub(crate) peers: [Peer; D],
    pub(crate) home_state: HomeState,
    pub(crate) leaving: Leaving,
    /// Epochs of the members according to the last home, one byte per domain; 0 for non-members.
    pub(crate) member_epochs: u64,
    /// The round of the last home known to this domain.
    pub(crate) round: u32,
    /// Number of this domain's claims.
    pub(crate) claims: u8,
    /// This domain has joined and known no home since, so it holds nothing.
    pub(crate) is_new: bool,
    pub(crate) chip_page_read: ChipPageRead,
    pub(crate) cores: [Core; C],
    pub(crate) revokes: Grid<Revoke, D, C>,
    pub(crate) requests: Grid<Request, D, C>,
    pub(crate) thrash_detector: Detector,
}

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Creates a domain that holds nothing; call [`Dsm::start`] next. Returns `None` if there are
    /// too few words (see [`crate::table::words`]) or the board has more than `D` domains or `C`
    /// cores.
    pub fn new(config: Config, epoch: Epoch, words: T) -> Option<Self> {
        let fits = (1..=D).contains(&(config.domains as usize)) && D <= MAX_DOMAINS;
        let fits = fits && (1..=C).contains(&(config.cores as usize));
        if !fits || config.me.0 >= config.domains {
            return None;
        }
        Some(Dsm {
            config,
            epoch,
            table: Table::new(words, &config)?,
            peers: [Peer { epoch: Epoch(0), life: Life::Unknown, asked: None }; D],
            home_state: HomeState::Waiting,
            leaving: Leaving::Gone,
            member_epochs: 0,
            round: 0,
            claims: 0,
            chip_page_read: ChipPageRead::NotNeeded,
            is_new: false,
            cores: core::array::from_fn(|_| Core::default()),
            revokes: Grid::new(&config),
            requests: Grid::new(&config),
            thrash_detector: Detector::new(config.thrash),
        })
    }

    /// Joins the other domains, after boot and after each [`Effect::Left`]. Before this call the
    /// driver reports the peers' states ([`Dsm::chip`]) and empties the links.
    pub fn start(&mut self, now: u64, start: Start, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::No;
        match start {
            Start::Founding => {
                let all = (0..self.config.domains).map(DomainId);
                self.member_epochs = all.fold(0, |sum, domain| with_byte(sum, domain, Epoch(1)));
                let lowest = DomainId(0);
                let home = lowest == self.config.me;
                self.home_state = if home { HomeState::Home } else { HomeState::Known(lowest, 0) };
            }
            Start::Join => {
                (self.round, self.is_new) = (0, true);
                self.home_state = HomeState::Waiting;
                self.broadcast(Message::Join, out);
                self.claim_or_ask(now, out);
            }
            Start::First { lost } => {
                self.member_epochs = 0;
                self.clear_directory();
                self.establish_first(now, lost, out);
            }
        }
    }

    /// Reports the state of **all** peers according to the chip page, read again after any of them
    /// changed: a claimant must know every domain that ran while the old home existed. The driver
    /// executes a full barrier after reading the page: a domain that left cleaned its pages before
    /// the page said so.
    pub fn chip(&mut self, now: u64, news: &[PeerStatus], out: &mut (impl Perform + ?Sized)) {
        let (mut died, mut slept) = (DomainSet::EMPTY, DomainSet::EMPTY);
        if self.chip_page_read == ChipPageRead::Needed {
            self.chip_page_read = ChipPageRead::Done;
        }
        let before = self.up();
        for peer in news {
            match self.update_peer(*peer) {
                Some(Down::Died) => died = died.with(peer.domain),
                Some(Down::Slept) => slept = slept.with(peer.domain),
                None => {}
            }
        }
        let gone = DomainSet(died.0 | slept.0);
        if !gone.is_empty() {
            self.peers_went_down(now, gone, died, out);
            if let HomeState::Claiming { handed, lost, .. } = self.home_state {
                self.claim(now, handed, lost, out);
            }
            self.claim_or_ask(now, out);
        }
        // A domain that starts announces itself, but possibly before this domain learnt of it. It
        // is a member from now on: if this home hands over to it, it may become the home, hold
        // pages and die before its Join is handled here. If this home hands over to another domain,
        // that one must ask it.
        let started = DomainSet(self.up().0 & (!before.0 | died.0));
        if self.is_serving() && !started.is_empty() {
            self.member_epochs = self.members();
            let message = Message::Home { round: self.round, member_epochs: self.member_epochs };
            started.iter().for_each(|to| out.perform(Effect::Send { to, message }));
        }
        self.send_parked(now, out);
    }

    fn peers_went_down(
        &mut self,
        now: u64,
        gone: DomainSet,
        died: DomainSet,
        out: &mut (impl Perform + ?Sized),
    ) {
        match (self.home_state, self.leaving) {
            (HomeState::Home, Leaving::Handing(to)) if gone.has(to) => self.handover_failed(out),
            (HomeState::Home, _) => self.home_lost_peers(now, gone, died, out),
            (HomeState::Known(home, _), _) if gone.has(home) => {
                self.home_state = HomeState::Waiting;
                self.home_went_down(out);
            }
            _ => {}
        }
    }

    /// Handles a message that `from` sent in its epoch `epoch`. [`Handled::Later`] blocks all later
    /// messages of that sender.
    pub fn handle(
        &mut self,
        now: u64,
        from: DomainId,
        epoch: Epoch,
        message: Message,
        out: &mut (impl Perform + ?Sized),
    ) -> Result<Handled, PeerFault> {
        let peer = *self.peer(from).ok_or(PeerFault::Sender)?;
        let absent = matches!(peer.life, Life::Unknown | Life::Slept);
        if epoch > peer.epoch || absent && message == Message::Join {
            return Ok(Handled::Later);
        }
        // Messages of a domain that has left are out of date: it holds nothing, is not the home,
        // and does not claim.
        let gone = absent || peer.life == Life::Dead;
        if epoch < peer.epoch || gone || self.leaving == Leaving::Gone {
            return Ok(Handled::Done);
        }
        self.check(&message)?;
        if matches!(message, Message::Ask { lives, .. } if self.is_behind(lives))
            || matches!(message, Message::TakeHome { member_epochs, .. }
                if self.must_read_chip_page(member_epochs))
        {
            return Ok(Handled::Later);
        }
        match message {
            Message::Get { core, page, want, count } => {
                let id = RequestId { domain: from, core };
                self.on_get(now, id, PageRequest { page, want, count }, out);
            }
            Message::Ack { id, page } => self.on_ack(now, from, id, page, out),
            Message::Grant { core, page, want, lost } if self.is_from_home(from) => {
                return Ok(self.on_grant(now, core, (page, want), lost, out));
            }
            Message::Revoke { id, page, keep } if self.is_from_home(from) => {
                return Ok(self.on_revoke(now, id, page, keep, out));
            }
            Message::Grant { .. } | Message::Revoke { .. } => {}
            other => self.handle_home_message(now, from, other, out),
        }
        Ok(Handled::Done)
    }

    /// Ends expired pins. Must be called no later than at the time that [`Dsm::due`] returns.
    pub fn tick(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        self.own_cores().iter_mut().for_each(|core| core.pins.expire(now));
        self.serve_deferred(now, out);
    }

    /// Returns whether no revocation is in progress here.
    pub fn is_idle(&self) -> bool {
        self.revokes.is_idle()
    }

    /// Returns the time at which the next pin ends that blocks a revocation.
    pub fn due(&self) -> Option<u64> {
        if self.revokes.is_idle() {
            return None;
        }
        let ends = self.revokes.cells().filter_map(|revoke| match revoke {
            Revoke::Deferred { page, keep } => self.pinned_until(page, keep),
            _ => None,
        });
        ends.min().filter(|end| *end < u64::MAX)
    }

    /// Returns this domain's rights to `page`, or `None` outside the region.
    pub fn hold(&self, page: Page) -> Option<crate::types::Hold> {
        (page < self.table.pages()).then(|| self.table.hold(page))
    }

    /// Returns whether this domain, as the home, knows that the page is lost.
    pub fn is_lost(&self, page: Page) -> bool {
        page < self.table.pages() && self.table.get(page).lost
    }

    /// Returns whether this domain is the home.
    pub fn is_home(&self) -> bool {
        self.home_state == HomeState::Home
    }

    fn check(&self, message: &Message) -> Result<(), PeerFault> {
        let (id, page, count) = match *message {
            Message::Get { core, page, count, .. } => {
                (RequestId { domain: self.config.me, core }, page, count)
            }
            Message::Grant { core, page, .. } => {
                (RequestId { domain: self.config.me, core }, page, 1)
            }
            Message::Revoke { id, page, .. } | Message::Ack { id, page } => (id, page, 1),
            _ => return Ok(()),
        };
        if id.core.0 >= self.config.cores || id.domain.0 >= self.config.domains {
            return Err(PeerFault::Request);
        }
        self.in_region(page, count).then_some(()).ok_or(PeerFault::Page(page))
    }

    pub(crate) fn in_region(&self, page: Page, count: u32) -> bool {
        count > 0 && page.checked_add(count).is_some_and(|end| end <= self.table.pages())
    }

    pub(crate) fn is_from_home(&self, from: DomainId) -> bool {
        matches!(self.home_state, HomeState::Known(home, _) if home == from)
    }

    pub(crate) fn broadcast(&self, message: Message, out: &mut (impl Perform + ?Sized)) {
        self.up().iter().for_each(|to| out.perform(Effect::Send { to, message }));
    }

    pub(crate) fn cores(&self) -> impl Iterator<Item = CoreId> + use<T, D, C> {
        (0..self.config.cores).map(CoreId)
    }

    pub(crate) fn own_cores(&mut self) -> &mut [Core] {
        &mut self.cores[..self.config.cores as usize]
    }

    /// Iterates over all requests that could exist.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RequestId> + use<T, D, C> {
        let (domains, cores) = (self.config.domains, self.config.cores);
        (0..cores).flat_map(move |core| {
            (0..domains)
                .map(move |domain| RequestId { domain: DomainId(domain), core: CoreId(core) })
        })
    }

    #[cfg(test)]
    pub(crate) fn is_mutant(&self, mutant: crate::proof::Mutant) -> bool {
        self.config.mutant == Some(mutant)
    }
}
