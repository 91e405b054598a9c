//! The homes of shadowed services (docs/design/services.md#a-shadowed-service-with-a-home): which
//! kernel executes the requests of all kernels.
//!
//! Contract: any kernel may execute any step of a shadowed service at any time, so the home is
//! advice: kernels that know different ones for a while do nothing wrong, and a request is never
//! lost because the home changes. All kernels come to know the same homes: each publishes what it
//! knows, and takes over what is newer ([`abi::homes`]).
//!
//! A request goes to the home only while that runs, or rests and is not to be spared: a weak kernel
//! begins no call to a strong one that rests. Otherwise the caller's kernel executes it; also if
//! it serves the driver's device for a home that rests, and if the bulk is a page at most and a
//! message does not carry all of it: such requests are executed as a whole.

use super::alone::exists;
use super::{Served, Services};
use abi::boot::Blob;
use abi::homes::Homes;
use abi::msg::MAX_PAYLOAD;
use abi::service::{ALL, place};
use abi::soc::state;
use arch::lock::Lock;
use base::id::DomainId;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_platform::Platform;
use share::{Mode, Route, Service, Shareable, codec};

/// Requests with so much bulk are executed as a whole: writes to pipes, for example.
const PAGE: usize = 4096;

/// The homes that this kernel knows.
pub(super) struct Known {
    word: AtomicU64,
    /// Held while the word changes, here and in the domain's page.
    changing: Lock<()>,
}

impl Known {
    /// Returns the homes that the board gives.
    pub(super) fn new(blob: &Blob) -> Known {
        let word = AtomicU64::new(of_board(blob).0);
        Known { word, changing: Lock::new(kernel_node::ranks::HOMES, ()) }
    }

    #[inline]
    fn now(&self) -> Homes {
        Homes(self.word.load(Ordering::Relaxed))
    }

    /// Takes over `homes` if they are newer, and publishes the newest. Returns whether they were.
    fn take(&self, platform: &Platform, homes: Homes) -> bool {
        let _changing = self.changing.lock();
        let is_newer = homes > self.now();
        if is_newer {
            self.word.store(homes.0, Ordering::Relaxed);
        }
        platform.soc.publish_homes(self.now());
        is_newer
    }
}

/// Why a service has not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMoved {
    /// The board has no such service.
    Unknown,
    NotShadowed,
    /// Its requests cannot be sent, for this reason.
    Stays(&'static str),
    /// The board has no such kernel, or it does not run.
    NoKernel,
    /// Other kernels made changes all the time, or the versions have ended.
    Busy,
}

impl Services {
    /// Takes over homes that another kernel has published, if they are newer. From any context.
    pub fn look_at_homes(&self, platform: &Platform) {
        let blob = platform.blob;
        let domains = (0..blob.domains().len() as u8).map(DomainId);
        let newest = platform.soc.newest_homes(domains, |homes| is_possible(blob, homes));
        if newest > self.homes.now() {
            self.homes.take(platform, newest);
        }
    }

    /// Publishes the homes of the board, or those that other kernels have; before READY.
    pub(super) fn begin_homes(&self, platform: &Platform) {
        self.homes.take(platform, Homes::default());
        self.look_at_homes(platform);
    }

    /// Returns the home that service `index` of [`ALL`] was given.
    #[inline]
    pub fn home(&self, index: usize) -> Option<DomainId> {
        self.homes.now().of(index).map(DomainId)
    }

    /// Returns the home that a shadowed service was given.
    pub fn home_of(&self, name: &str) -> Option<DomainId> {
        self.home(place(name)?)
    }

    /// Returns the kernel that serves the interrupts of devices of a kind, if their driver has a
    /// home.
    pub fn home_of_driver(&self, device: u32) -> Option<DomainId> {
        let place = ALL.iter().position(|kind| kind.drives == Some(device))?;
        self.home(place)
    }

    /// Changes the home of a service here; the other kernels have to look. Returns the service's
    /// place in [`ALL`].
    pub fn set_home(
        &self,
        platform: &Platform,
        name: &str,
        home: Option<DomainId>,
    ) -> Result<usize, NotMoved> {
        let place = movable(platform.blob, name)?;
        if home.is_some_and(|home| !is_there(platform, home)) {
            return Err(NotMoved::NoKernel);
        }
        self.look_at_homes(platform);
        let changed = self.homes.now().with(place, home.map(|home| home.0));
        let has_changed = self.homes.take(platform, changed.ok_or(NotMoved::Busy)?);
        if has_changed { Ok(place) } else { Err(NotMoved::Busy) }
    }
}

impl<S: Service + Shareable> Served<S> {
    /// Returns where a request is executed that a caller of this kernel makes now.
    #[inline]
    pub(super) fn route(&self, services: &Services, platform: &Platform, bulk: usize) -> Route {
        if !self.mode.is_shared() {
            return self.by_mode(platform);
        }
        let is_elsewhere = |home: &DomainId| {
            let is_whole = !(codec::room::<S>(MAX_PAYLOAD) + 1..=PAGE).contains(&bulk);
            let serves = self.drives.is_some_and(|kind| platform.devices.serves(kind));
            *home != platform.me && is_whole && !serves && may_ask(platform, *home)
        };
        match services.home(self.place) {
            Some(home) if is_elsewhere(&home) => Route::Remote(home),
            _ => Route::Local,
        }
    }

    /// Returns the kernel that has the state, or this one.
    #[inline]
    pub(super) fn by_mode(&self, platform: &Platform) -> Route {
        self.mode.route(platform.me, platform.blob.domains().len() as u8, 0)
    }
}

/// Returns whether a request may be sent to `home`.
fn may_ask(platform: &Platform, home: DomainId) -> bool {
    let is_strong = |domain: DomainId| {
        let found = platform.blob.domains().get(domain.index());
        found.is_some_and(|found| found.role == abi::boot::role::MAIN)
    };
    match platform.soc.state(home).1 {
        state::RUNNING => true,
        state::RESTING => is_strong(platform.me) || !is_strong(home),
        _ => false,
    }
}

/// Returns whether a kernel can become a home: it runs, or rests.
fn is_there(platform: &Platform, domain: DomainId) -> bool {
    let is_known = domain.index() < platform.blob.domains().len();
    is_known && matches!(platform.soc.state(domain).1, state::RUNNING | state::RESTING)
}

/// Returns the place in [`ALL`] of a service that can be moved on this board.
fn movable(blob: &Blob, name: &str) -> Result<usize, NotMoved> {
    let place = place(name).ok_or(NotMoved::Unknown)?;
    match (super::mode(blob, name), ALL[place].stays) {
        (Mode::Shadowed, Some(why)) => Err(NotMoved::Stays(why)),
        (Mode::Shadowed, None) if exists(blob, name) => Ok(place),
        (Mode::Shadowed, None) => Err(NotMoved::Unknown),
        _ => Err(NotMoved::NotShadowed),
    }
}

/// Returns whether a word that another kernel has published can be right: homes are domains of the
/// board, and only of services that can move.
fn is_possible(blob: &Blob, homes: Homes) -> bool {
    let can_move = |at: usize| movable(blob, ALL[at].name).is_ok();
    let is_right = |(at, home): (usize, u8)| {
        home == 0 || usize::from(home) <= blob.domains().len() && at < ALL.len() && can_move(at)
    };
    homes.places().enumerate().all(is_right)
}

/// Returns the homes of the board's shadowed services.
fn of_board(blob: &Blob) -> Homes {
    let homes = blob.services().iter().filter(|it| it.home != abi::boot::NOBODY);
    let entry = |it: &abi::boot::Service| {
        movable(blob, abi::boot::text(&it.name)).ok().map(|place| (place, it.home as u8))
    };
    Homes::first(homes.filter_map(entry))
}
