//! The machine of one domain, and the events that drive it.

use abi::boot::MAX_DOMAINS;
use base::id::{CoreId, DomainId, Epoch};

use crate::effect::{Effect, Perform};
use crate::grid::{Cell, Grid};
use crate::lives::{Doubt, Life, Peer, with_byte};
use crate::message::Message;
use crate::pin::Pins;
use crate::table::{Store, Table};
use crate::thrash::Watch;
use crate::word::{
    Config, Down, Handled, Keep, News, Page, PeerFault, RequestId, Set, Start, Want,
};

/// Who is the home.
///
/// ```text
///                  Home from h                      all have answered
///   +---------+ ----------------> +----------+   +------+ <---------- +----------+
///   | Waiting |                   | Known(h) |   | Home |             | Claiming |
///   +---------+ <---------------- +----------+   +------+ ----------> +----------+
///      |   ^     h died or slept,      ^            handed over,       ^    |
///      |   |     or hands over         |            Home from s        |    |
///      |   |                           +------------ to Known(s)       |    |
///      |   +------- a lower domain claims; Home from h: to Known(h) ---|----+
///      +---- the lowest that runs; or TakeHome ------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seat {
    /// This domain.
    Home,
    /// That one, the n-th home of all.
    Known(DomainId, u32),
    /// This one will be, when these have said what they hold.
    Claiming {
        waiting: Set,
        /// The home that hands over, and its round.
        handed: Option<(DomainId, u32)>,
        /// What nobody holds is lost.
        lost: bool,
    },
    /// Some other will say.
    Waiting,
}

/// How far this domain is in leaving.
///
/// ```text
///   No --leave--> Unmapping --all_unmapped--> Empty --Leave sent------> Asked ----Bye--> Gone
///                                              ^  |---TakeHome sent---> Handing --Home-->|
///                                              |  '---nobody else runs------------------>|
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

/// An access under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    pub page: Page,
    /// Pages it needs, from `page` on; to reset, for [`Want::Reset`].
    pub count: u32,
    /// Of those it has, pinned.
    pub got: u32,
    pub want: Want,
    /// The home of now has heard of it.
    pub sent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Core {
    pub task: Option<Task>,
    pub pins: Pins,
}

/// What the home asked this domain to give up, for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Revoke {
    Idle,
    /// A pin stands against it.
    Deferred {
        page: Page,
        keep: Keep,
    },
    /// The shootdown is under way; nobody waits for its end when `orphan`.
    Unmapping {
        page: Page,
        keep: Keep,
        orphan: bool,
    },
}

impl Cell for Revoke {
    const IDLE: Revoke = Revoke::Idle;
}

/// What a core asks the home for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    pub page: Page,
    pub want: Want,
    pub count: u32,
}

/// A request at the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Idle,
    /// `rank` orders them, 1 first.
    Queued {
        wish: Wish,
        rank: u8,
    },
    /// Holders that have not answered: `acks`. An orphan's requester died, or wants it no more; it
    /// may already want something else.
    Active {
        wish: Wish,
        acks: Set,
        orphan: bool,
        next: Option<Wish>,
    },
}

impl Cell for Request {
    const IDLE: Request = Request::Idle;
}

/// One domain's end of the protocol. `D`: most domains; `C`: most cores of any of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dsm<T, const D: usize, const C: usize> {
    pub(crate) config: Config,
    pub(crate) epoch: Epoch,
    pub(crate) table: Table<T>,
    pub(crate) peers: [Peer; D],
    pub(crate) seat: Seat,
    pub(crate) leaving: Leaving,
    /// Epochs of the members, as the last home said.
    pub(crate) settled: u64,
    /// The number of the last home that this domain knew.
    pub(crate) round: u32,
    /// Counts this domain's claims.
    pub(crate) claims: u8,
    pub(crate) doubt: Doubt,
    pub(crate) cores: [Core; C],
    pub(crate) revokes: Grid<Revoke, D, C>,
    pub(crate) desk: Grid<Request, D, C>,
    pub(crate) watch: Watch,
}

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// A domain that holds nothing. Call [`Dsm::start`] next. `None` when `words` are too few
    /// (see [`crate::table::words`]) or the board has more domains than `D`, or cores than `C`.
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
            seat: Seat::Waiting,
            leaving: Leaving::Gone,
            settled: 0,
            round: 0,
            claims: 0,
            doubt: Doubt::Nothing,
            cores: core::array::from_fn(|_| Core::default()),
            revokes: Grid::new(&config),
            desk: Grid::new(&config),
            watch: Watch::new(config.thrash),
        })
    }

    /// Comes to the others: after boot, and after each [`Effect::Left`]. What the chip page says of
    /// the peers was told before, with [`Dsm::chip`], and what lay in the links is dropped.
    pub fn start(&mut self, now: u64, start: Start, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::No;
        match start {
            Start::Founding => {
                let all = (0..self.config.domains).map(DomainId);
                self.settled = all.fold(0, |sum, domain| with_byte(sum, domain, Epoch(1)));
                let lowest = DomainId(0);
                let home = lowest == self.config.me;
                self.seat = if home { Seat::Home } else { Seat::Known(lowest, 0) };
            }
            Start::Join => {
                self.round = 0;
                self.seat = Seat::Waiting;
                self.broadcast(Message::Join, out);
                self.reconsider(now, out);
            }
            Start::First { lost } => {
                self.settled = 0;
                self.clear_directory();
                self.seat = Seat::Claiming { waiting: Set::EMPTY, handed: None, lost };
                self.establish(now, out);
            }
        }
    }

    /// What the chip page says of **all** peers, read anew after one of them changed: who claims to
    /// be the home must know of everybody who ran before the old one went. A full barrier lies
    /// between reading the page and this: who left has cleaned its pages before it said so there.
    pub fn chip(&mut self, now: u64, news: &[News], out: &mut (impl Perform + ?Sized)) {
        let (mut died, mut slept) = (Set::EMPTY, Set::EMPTY);
        if self.doubt == Doubt::Wanted {
            self.doubt = Doubt::Fresh;
        }
        let before = self.up();
        for peer in news {
            match self.learn(*peer) {
                Some(Down::Died) => died = died.with(peer.domain),
                Some(Down::Slept) => slept = slept.with(peer.domain),
                None => {}
            }
        }
        let gone = Set(died.0 | slept.0);
        if !gone.is_empty() {
            self.went(now, gone, died, out);
            if let Seat::Claiming { handed, lost, .. } = self.seat {
                self.claim(now, handed, lost, out);
            }
            self.reconsider(now, out);
        }
        // Who comes says so itself, but maybe before this domain did.
        let risen = Set(self.up().0 & (!before.0 | died.0));
        if self.is_serving() {
            let message = Message::Home { round: self.round, settled: self.settled };
            risen.iter().for_each(|to| out.perform(Effect::Send { to, message }));
        }
        self.send_parked(now, out);
    }

    fn went(&mut self, now: u64, gone: Set, died: Set, out: &mut (impl Perform + ?Sized)) {
        match (self.seat, self.leaving) {
            (Seat::Home, Leaving::Handing(to)) if gone.has(to) => self.handed_in_vain(out),
            (Seat::Home, _) => self.home_lost_peers(now, gone, died, out),
            (Seat::Known(home, _), _) if gone.has(home) => {
                self.seat = Seat::Waiting;
                self.home_is_gone(out);
            }
            _ => {}
        }
    }

    /// A message of `from`'s life `epoch`. One that is to come again ([`Handled::Later`]) blocks
    /// those behind it.
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
        if epoch < peer.epoch || peer.life == Life::Dead || self.leaving == Leaving::Gone {
            return Ok(Handled::Done);
        }
        self.check(&message)?;
        if matches!(message, Message::Ask { lives, .. } if self.is_behind(lives))
            || matches!(message, Message::TakeHome { settled, .. } if self.doubts(settled))
        {
            return Ok(Handled::Later);
        }
        match message {
            Message::Get { core, page, want, count } => {
                let id = RequestId { domain: from, core };
                self.got_get(now, id, Wish { page, want, count }, out);
            }
            Message::Ack { id, page } => self.got_ack(now, from, id, page, out),
            Message::Grant { core, page, want, lost } if self.is_home(from) => {
                return Ok(self.got_grant(now, core, (page, want), lost, out));
            }
            Message::Revoke { id, page, keep } if self.is_home(from) => {
                return Ok(self.got_revoke(now, id, page, keep, out));
            }
            Message::Grant { .. } | Message::Revoke { .. } => {}
            other => self.handle_seat(now, from, other, out),
        }
        Ok(Handled::Done)
    }

    /// Time has passed: pins end. Call at the latest when [`Dsm::due`] says.
    pub fn tick(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        self.own_cores().iter_mut().for_each(|core| core.pins.expire(now));
        self.serve_deferred(now, out);
    }

    /// Does nobody wait for a page that this domain has?
    pub fn is_idle(&self) -> bool {
        self.revokes.is_idle()
    }

    /// When the next pin ends that somebody waits for.
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

    /// What this domain holds of `page`; for drivers that lost track, and for tests.
    pub fn hold(&self, page: Page) -> Option<crate::word::Hold> {
        (page < self.table.pages()).then(|| self.table.hold(page))
    }

    /// Does this domain know, as the home, that the page is lost?
    pub fn is_lost(&self, page: Page) -> bool {
        page < self.table.pages() && self.table.get(page).lost
    }

    /// Is this domain the home now?
    pub fn is_at_home(&self) -> bool {
        self.seat == Seat::Home
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

    pub(crate) fn is_home(&self, from: DomainId) -> bool {
        matches!(self.seat, Seat::Known(home, _) if home == from)
    }

    pub(crate) fn broadcast(&self, message: Message, out: &mut (impl Perform + ?Sized)) {
        self.up().iter().for_each(|to| out.perform(Effect::Send { to, message }));
    }

    pub(crate) fn cores(&self) -> impl Iterator<Item = CoreId> + use<T, D, C> {
        (0..self.config.cores).map(CoreId)
    }

    /// What this domain's cores do.
    pub(crate) fn own_cores(&mut self) -> &mut [Core] {
        &mut self.cores[..self.config.cores as usize]
    }

    /// All names of requests.
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
