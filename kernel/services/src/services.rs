//! The services as this kernel reaches them (docs/design/services.md). The board picks the mode of
//! each service; callers make requests in the same way in all modes.
//!
//! ```text
//!   request --> local: execute a step, unpreempted --> Done(reply)
//!    |            |                                \-> Parked: sleep until a step wakes the token,
//!    |            |                                    or for a second; then request again
//!    |            +--> perform the step's wakes: threads here, notices to other kernels
//!    +--> remote: the same in the home kernel, by message (`share::codec`)
//! ```
//! The kernel that executes a step also keeps the timer that the step sets: [`Services::keep`]
//! executes the timer's step when it is due, possibly early. A kernel that rests may leave it to
//! another one.
//!
//! A wake can be lost if the kernel that sends it dies. All parked callers are woken then. A wake
//! that finds no room in the ring is sent later, to all parked callers of that kernel.
//!
//! - [`served`]: one service: steps, counters; [`requests`]: requests to it
//! - [`homes`]: which kernel executes the requests to a shadowed service that was moved
//! - [`guard`]: its arena, with its locks
//! - [`caller`], [`patience`]: for which caller a request is made, and how long it waits
//! - [`wakes`]: wakes of parked callers, here and on other kernels; `woken`: which of them count
//! - `lives`: which kernels have died; `timers`: what this kernel keeps, leaves to others and takes
//!   from them
//! - `cancels`: requests that fail are not parked
//! - [`any`]: one wait for several requests; [`polling`]: polls of files and sockets
//! - [`board`]: modes and arenas of all services; [`frames`]: the service of shared frames
//! - `longest`: the longest step, for measurements

mod alone;
mod any;
mod board;
mod caller;
mod cancels;
mod frames;
mod guard;
mod homes;
mod lives;
#[cfg(feature = "trials")]
mod longest;
mod patience;
mod polling;
mod requests;
mod served;
mod timers;
mod wakes;
mod woken;

use ::processes::Processes;
use abi::boot::Blob;
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::lock::Once;
use base::id::{DomainId, Epoch};
pub use board::{at, is_driver_shared, mode};
use board::{mode_of, share_of, unowned};
pub use caller::Caller;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};
use frames::SharedFrames;
pub use frames::kind as frames_kind;
pub use guard::ArenaGuard;
pub use homes::NotMoved;
use kernel_msg::{Refusal, Request};
use kernel_node::Node;
use kernel_platform::Platform;
use kernel_platform::peers::CallFailure;
use kernel_sched::{MAX_THREADS, ThreadId, WaitQueue};
use lives::former_life;
#[cfg(feature = "trials")]
pub use longest::{longest_ns, looked, measure, took_over_ns};
pub use patience::Patience;
pub use served::shared_arena;
pub use served::{Registered, Served};
use share::{Mailboxes, Mode, StepError, Token, codec};
pub use timers::{ALL_DUE, NONE_DUE, Timers};
use woken::Woken;

/// Why a request to a service failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceFailure {
    /// The service does not run: there was no memory for it at boot, or the kernel is still
    /// starting.
    Absent,
    /// The call to its home kernel failed.
    Home(CallFailure),
    /// Its home kernel sent an invalid answer.
    Nonsense,
    /// This kernel has no memory for the message to its home kernel.
    NoMemory,
    /// The step was aborted, and the service restarted: a kernel died with a part of its state, or
    /// the step followed a stray reference (`kernel_platform::twins`).
    Restarted,
}

impl From<StepError> for ServiceFailure {
    #[inline]
    fn from(why: StepError) -> ServiceFailure {
        match why {
            StepError::Restarted => ServiceFailure::Restarted,
            StepError::Absent | StepError::NoMemory => ServiceFailure::Absent,
        }
    }
}

impl ServiceFailure {
    /// Returns whether a request that failed so may be parked in the service's state, which is at
    /// a home kernel that runs, or outlives it. The request must be cancelled.
    fn leaves_requests(self, mode: Mode) -> bool {
        match self {
            Self::Absent | Self::Restarted => false,
            Self::Nonsense | Self::NoMemory => true,
            Self::Home(CallFailure::Refused(_) | CallFailure::Limits) => true,
            Self::Home(_) => mode.is_shared(),
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            ServiceFailure::Absent => "the service does not run here; `services` says why",
            ServiceFailure::Home(why) => why.text(),
            ServiceFailure::Restarted => {
                "the service has restarted without its state: a kernel died with a part of it, or \
                 its step was aborted, as the log says"
            }
            ServiceFailure::Nonsense => "the service's kernel sent an invalid answer",
            ServiceFailure::NoMemory => "no memory for the request; `mem` says what is used",
        }
    }
}

/// Declares the services: for each its field and its type. Drivers learn of a death before the
/// services that use them. What is done with all services goes through [`Registry::all`].
macro_rules! services {
    ($($(#[$doc:meta])* $field:ident: $service:ty;)*) => {
        /// The services of this kernel; `abi::service` has their names and arenas.
        pub struct Registry {
            $($(#[$doc])* pub $field: Served<$service>,)*
        }

        impl Registry {
            fn new(blob: &'static Blob, life: (DomainId, Epoch)) -> Registry {
                Registry { $($field: Served::new(blob, life),)* }
            }

            /// Returns all services.
            fn all(&self) -> [&dyn Registered; abi::service::ALL.len()] {
                [$(&self.$field,)*]
            }
        }
    };
}

services! {
    /// The driver of the console.
    console: drivers::console::Console;
    /// The driver of the disk.
    disk: drivers::disk::Disk;
    /// The driver of the streams with the host.
    host: drivers::host::Host;
    /// The driver of the random number generator.
    random: drivers::random::Random;
    /// Files.
    fs: fs::Vfs;
    /// The process table.
    processes: Processes;
    /// The names of channels.
    names: names::Names;
    /// Sockets.
    net: net::Net;
    /// The driver of the DMA engine.
    dma: dma::Dma;
    /// Frames, if the board shares them.
    frames: SharedFrames;
}

/// The services, and what their callers and steps need.
pub struct Services {
    registry: Registry,
    /// Threads whose requests are parked.
    parked: WaitQueue,
    /// Wakes the thread of [`Services::keep`].
    changed: WaitQueue,
    /// For each kernel, the epoch that [`Services::keep`] saw last; 0 if it did not run.
    known: Vec<AtomicU64>,
    /// The thread of [`Services::keep`].
    thread: Once<ThreadId>,
    sequence: AtomicU64,
    /// For each thread, whether a request was woken that it waits for.
    woken: Box<[Woken]>,
    /// How often all parked callers were woken.
    all_woken: AtomicU64,
    /// Kernels that a wake could not be sent to, one bit each.
    owed: AtomicU64,
    given: Mailboxes,
    homes: homes::Known,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Returns the index of the token's thread in this kernel's tables of threads.
#[inline]
fn place_of(token: Token) -> usize {
    ThreadId::from_token(token.thread).index() % MAX_THREADS
}

/// A line of the monitor's `services`.
pub struct Line {
    /// Name of the service.
    pub name: &'static str,
    /// Its memory; `None` if this kernel does not execute it.
    pub usage: Option<share::instance::Usage>,
    /// Numbers of requests executed here, sent to the home, executed for other kernels, and parked.
    pub counts: [u64; 4],
}

impl Deref for Services {
    type Target = Registry;

    #[inline]
    fn deref(&self) -> &Registry {
        &self.registry
    }
}

impl Services {
    /// Creates the services at boot, and starts those that this kernel has alone. Shared ones are
    /// attached by [`Services::start`].
    pub fn new(blob: &'static Blob, life: (DomainId, Epoch)) -> Services {
        Services {
            registry: Registry::new(blob, life),
            parked: WaitQueue::new(),
            changed: WaitQueue::new(),
            known: blob.domains().iter().map(|_| AtomicU64::new(0)).collect(),
            thread: Once::new(),
            sequence: AtomicU64::new(1),
            woken: (0..MAX_THREADS).map(|_| Woken::default()).collect(),
            all_woken: AtomicU64::new(0),
            owed: AtomicU64::new(0),
            given: Mailboxes::new(MAX_THREADS),
            homes: homes::Known::new(blob),
        }
    }

    /// Returns the lines of the monitor's `services`.
    pub fn lines(&self, platform: &'static Platform) -> Vec<Line> {
        self.all().into_iter().filter_map(|service| service.line(platform)).collect()
    }

    /// Returns the names of the services whose steps this kernel executes.
    pub fn executed(&self, platform: &'static Platform) -> Vec<&'static str> {
        self.all().into_iter().filter_map(|service| service.executed(platform)).collect()
    }

    /// Attaches this kernel to the services that are shared with other kernels.
    pub fn start(&self, platform: &'static Platform) {
        self.begin_homes(platform);
        self.all().into_iter().for_each(|service| service.share(platform));
    }

    /// Restarts the services whose shared state is lost, and resets the lost pages of the shared
    /// block that belong to none.
    pub fn restart_if_lost(&self, platform: &'static Platform) {
        self.all().into_iter().for_each(|service| service.restart_if_lost(self, platform));
        if let Some(coherence) = &platform.coherence {
            let base = coherence.base().0 as usize;
            let mend = |(at, bytes)| coherence.mend(base + at as usize, bytes as usize);
            unowned(platform.blob).for_each(mend);
        }
    }

    /// Returns a token for the next request of the calling thread.
    #[inline]
    fn token(&self, platform: &Platform) -> Token {
        self.tokens(platform, 1)
    }

    /// Returns a number that cannot be guessed outside the chip, a different one each time.
    fn seed(&self, node: &Node) -> u64 {
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        let mut hasher = blake3::Hasher::new_keyed(&node.blob.given.seed);
        // Programs' random numbers have the same key, and fewer bytes before their number.
        hasher.update(b"services").update(&[node.me.0]).update(&node.epoch.0.to_le_bytes());
        hasher.update(&number.to_le_bytes());
        let mut seed = [0; 8];
        hasher.finalize_xof().fill(&mut seed);
        u64::from_le_bytes(seed)
    }

    /// Returns the first token of the next `count` requests of the calling thread; the others have
    /// the sequence numbers that follow.
    #[inline]
    fn tokens(&self, platform: &Platform, count: usize) -> Token {
        let sequence = self.sequence.fetch_add(count as u64, Ordering::Relaxed) as u32;
        let thread = platform.scheduler.current().token();
        Token::new(platform.me, platform.epoch, thread, sequence)
    }

    #[inline]
    fn woken(&self, token: Token) -> &Woken {
        &self.woken[place_of(token)]
    }

    /// Prepares for a wake of `token`; called before the request, which may be parked. Earlier
    /// wakes do not count. Returns the argument `all_woken` of [`Services::sleep`].
    #[inline]
    fn expect_wake(&self, token: Token) -> u64 {
        self.expect_wakes(token, 1)
    }

    /// The same for `count` requests, of which `token` is the first one's.
    #[inline]
    fn expect_wakes(&self, token: Token, count: usize) -> u64 {
        self.woken(token).expect(token.sequence, count);
        self.all_woken.load(Ordering::Relaxed)
    }

    /// Sleeps until the caller's token is woken (also if that happened since
    /// [`Services::expect_wake`]), or the caller should request again or give up. Opens the
    /// caller's mailbox, which [`Services::take_given`] closes.
    #[inline]
    fn sleep(&self, platform: &Platform, token: Token, all_woken: u64, patience: &Patience<'_>) {
        self.given.open(place_of(token), token.sequence);
        self.sleep_until_woken(platform, token, all_woken, patience);
    }

    /// The same without a mailbox.
    #[inline]
    fn sleep_until_woken(
        &self,
        platform: &Platform,
        token: Token,
        all_woken: u64,
        patience: &Patience<'_>,
    ) {
        platform.scheduler.wait_for(&self.parked, patience.next_look(), || {
            self.woken(token).is_set()
                || self.all_woken.load(Ordering::Relaxed) != all_woken
                || patience.is_given_up()
        });
    }

    /// Puts an answer into the mailbox of the caller parked under `token`. Returns false if it is
    /// not a caller of this kernel that is asleep.
    #[inline]
    fn give(&self, node: &Node, token: Token, bytes: &[u8]) -> bool {
        let is_ours = token.kernel() == node.me && token.epoch() == node.epoch;
        is_ours && self.given.put(place_of(token), token.sequence, bytes)
    }

    /// Closes the caller's mailbox. If it contained an answer, moves that to `bulk` and returns its
    /// size.
    #[inline]
    fn take_given(&self, token: Token, bulk: &mut [u8]) -> Option<usize> {
        self.given.take(place_of(token), token.sequence, bulk, &arch::attend::Attending)
    }

    /// Executes a request of another kernel, and returns the reply.
    pub fn serve(
        &self,
        platform: &'static Platform,
        request: &Request,
        payload: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        let index = codec::service(payload).ok_or(Refusal::Refused)?;
        let service = self.all().into_iter().find(|service| service.index() == index);
        service.ok_or(Refusal::NoSuchProc)?.serve(self, platform, request.from, payload)
    }

    /// The body of the thread `devices`: has the drivers look at devices that may have something.
    /// Does not return.
    pub fn look_at_devices(&self, platform: &'static Platform) {
        loop {
            let kinds = platform.devices.await_news(platform);
            self.all()
                .into_iter()
                .for_each(|service| service.look_at_device(self, platform, kinds));
            #[cfg(feature = "trials")]
            longest::looked(platform.devices.taken_over_at());
        }
    }

    /// Lets the thread of [`Services::keep`] check for dead kernels; called when the chip page has
    /// changed. From any context.
    pub fn look_at_chip(&self, platform: &Platform) {
        self.changed.wake_all(&platform.scheduler);
    }

    /// Lets callers whose requests are parked look whether their patience has ended.
    pub(crate) fn look_at_patience(&self, platform: &Platform) {
        self.parked.wake_all(&platform.scheduler);
    }

    /// The body of the thread `services`: passes deaths of kernels and timers to the services. Does
    /// not return.
    pub fn keep(&self, platform: &'static Platform) {
        let mut former = former_life(platform);
        let _ = self.thread.set(platform.scheduler.current());
        loop {
            let (mut ended, timer) = (Vec::from_iter(former.take()), self.timer());
            let again = self.pay_owed(platform);
            let owes = || again == u64::MAX && self.owed.load(Ordering::Relaxed) != 0;
            let deadline = (timer.min(again) != u64::MAX).then_some(timer.min(again));
            platform.scheduler.wait_until(&self.changed, deadline, || {
                ended.extend(self.ended(platform));
                !ended.is_empty() || self.timer() != timer || owes()
            });
            if !ended.is_empty() {
                // Answers and wakes from these kernels may be lost.
                self.wake_all(platform);
            }
            for life in ended {
                let gone = |service: &dyn Registered| {
                    service.gone(self, platform, life);
                    // That kernel may have kept it.
                    service.lose_timer();
                };
                self.all().into_iter().for_each(gone);
            }
            self.all().into_iter().for_each(|service| service.look_at_timer(self, platform));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::boot::mode;
    use abi::service::ALL;
    use std::boxed::Box;
    use std::vec::Vec;

    pub(super) fn blob(services: &[(&str, u32)]) -> Box<Blob> {
        let mut blob: Box<Blob> = Box::new(zerocopy::FromZeros::new_zeroed());
        for (entry, (name, mode)) in blob.services.iter_mut().zip(services) {
            entry.name[..name.len()].copy_from_slice(name.as_bytes());
            entry.mode = *mode;
        }
        blob.service_count = services.len() as u32;
        blob
    }

    #[test]
    fn every_declared_service_is_registered_once() {
        let named = ALL.map(|kind| (kind.name, mode::SHADOWED));
        let registry = Registry::new(Box::leak(blob(&named)), (DomainId(0), Epoch(1)));
        let mut indices: Vec<u32> = registry.all().map(Registered::index).into();
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..ALL.len() as u32));
    }
}
