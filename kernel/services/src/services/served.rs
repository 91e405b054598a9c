//! One service as this kernel reaches it: its steps, what it executes for others, and counters.
//! [`super::requests`] makes requests to it.

use super::alone::{device_of, exists, has_device, start};
use super::guard::ArenaGuard;
use super::{Line, ServiceFailure, Services, at, count, mode_of, share_of};
use abi::boot::Blob;
use abi::msg::MAX_PAYLOAD;
use abi::service::{ALL, place};
use alloc::vec::Vec;
use arch::domain_lock::DomainLock;
use arch::lock::Once;
use base::id::{DomainId, Epoch};
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_msg::Refusal;
use kernel_node::arenas;
use kernel_node::memory::CoreHeap;
use kernel_platform::Platform;
use kernel_platform::coherence::{self, Coherence};
use kernel_platform::peers::with_room;
use share::{
    Answer, Device, Effects, Event, Instance, Mode, Outbox, Route, Service, Shareable, Token, codec,
};
use zerocopy::FromZeros;

/// The lock between kernels of the first shared service; the others follow in the order of the
/// board's list.
const FIRST_LOCK: usize = 8;

/// How often a step is repeated that the service's restarts abort.
pub(super) const TRIES: usize = 8;

/// A service whose steps this kernel executes.
pub(super) type Local<S> = Instance<S, ArenaGuard, CoreHeap>;

/// The effects that a step requests, and the kind of its device.
struct Asked<'a> {
    services: &'a Services,
    platform: &'static Platform,
    outbox: Outbox,
    drives: Option<u32>,
}

impl Effects for Asked<'_> {
    fn wake(&mut self, token: Token) {
        self.outbox.wake(token);
    }
    fn give(&mut self, token: Token, bytes: &[u8]) -> bool {
        let is_given = self.services.give(self.platform, token, bytes);
        if is_given {
            self.outbox.wake(token);
        }
        is_given
    }
    fn is_near(&self, token: Token) -> bool {
        token.kernel() == self.platform.me
    }
    fn serves(&self) -> bool {
        self.drives.is_some_and(|kind| self.platform.devices.serves(kind))
    }
    fn wake_all(&mut self) {
        self.outbox.wake_all();
    }
    fn timer(&mut self, at: u64) {
        Effects::timer(&mut self.outbox, at);
    }
    fn time_of_day(&self, now: u64) -> u64 {
        self.platform.time_of_day(now)
    }
    fn seed(&self) -> u64 {
        self.services.seed(self.platform)
    }
    fn device(&self) -> Option<Device<'_>> {
        self.drives.and_then(|kind| self.platform.devices.lent(self.platform, kind))
    }
}

/// A service, in the mode that the board picks.
pub struct Served<S> {
    pub(super) index: u32,
    /// Its place in [`ALL`].
    pub(super) place: usize,
    pub(super) mode: Mode,
    /// The kind of device that it drives.
    pub(super) drives: Option<u32>,
    instance: Once<Local<S>>,
    pub(super) here: AtomicU64,
    pub(super) away: AtomicU64,
    pub(super) for_others: AtomicU64,
    pub(super) parked: AtomicU64,
    /// The earliest time at which the service wants [`Event::Timer`]; `u64::MAX` if it does not.
    timer: AtomicU64,
}

impl<S: Service + Shareable> Served<S> {
    /// Creates the service in the mode that the board picks. Starts it if this kernel executes it
    /// and does not share its state.
    pub fn new(blob: &'static Blob, (me, epoch): (DomainId, Epoch)) -> Self {
        let (index, mode) = mode_of(blob, S::NAME);
        let (drives, works_without) = device_of(S::NAME);
        let has_device = works_without || drives.is_some_and(|kind| has_device(blob, kind, me));
        let is_here = mode.route(me, blob.domains().len() as u8, 0) == Route::Local && has_device;
        let instance = Once::new();
        if is_here && let Some(local) = start::<S>(blob, mode, epoch) {
            let _ = instance.set(local);
        }
        let zero = || AtomicU64::new(0);
        let (here, away, for_others, parked) = (zero(), zero(), zero(), zero());
        let timer = AtomicU64::new(u64::MAX);
        let place = place(S::NAME).unwrap_or(ALL.len());
        Served { index, place, mode, drives, instance, here, away, for_others, parked, timer }
    }

    fn guard(&self, platform: &'static Platform) -> Option<ArenaGuard> {
        let coherence = platform.coherence.as_ref()?;
        shared_arena(platform, coherence, self.index as usize, share_of(platform.blob, S::NAME)?)
    }

    /// Called after a step: pages of the shared block that it used may move to other kernels.
    fn released(&self, platform: &Platform) {
        if self.mode.is_shared()
            && let Some(coherence) = &platform.coherence
            && let Some(thrashing) = coherence.released()
        {
            coherence::complain(at(platform.blob, thrashing.offset()), thrashing);
        }
    }

    /// Returns whether this kernel executes the service's steps.
    pub fn is_local(&self) -> bool {
        self.instance.get().is_some()
    }

    /// Returns the mode that the board picks.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns how often the service has started ([`ArenaGuard::lives`]). `None`: this kernel does
    /// not execute it.
    pub fn lives(&self) -> Option<u32> {
        self.instance.get().map(|instance| instance.custody().lives())
    }

    pub(super) fn step(
        &self,
        services: &Services,
        platform: &'static Platform,
        event: Event<'_, S::Request>,
        reply: &mut S::Reply,
    ) -> Result<Answer<()>, ServiceFailure> {
        let instance = self.instance.get().ok_or(ServiceFailure::Absent)?;
        let drives = self.drives;
        let mut asked = Asked { services, platform, outbox: Outbox::new(), drives };
        let now = arch::time::soc_time();
        let answer = platform.scheduler.unpreempted(|| {
            let answer = instance.step_into(now, event, &mut asked, reply);
            // Must not be preempted: this ends the pins of this core.
            self.released(platform);
            answer
        });
        let outbox = &asked.outbox;
        if let Some(lives) = instance.custody().begun().filter(|&lives| lives > 1) {
            kernel_node::log!("{}: restarts, life {lives}: its state was lost", S::NAME);
        }
        services.perform(platform, outbox);
        if let Some(at) = outbox.timer() {
            self.want_timer(services, platform, at);
        }
        answer.map_err(ServiceFailure::from)
    }

    /// The same for an event that is no request.
    pub(super) fn tell(
        &self,
        services: &Services,
        platform: &'static Platform,
        event: Event<'_, S::Request>,
    ) -> Result<(), ServiceFailure> {
        self.step(services, platform, event, &mut S::Reply::new_zeroed()).map(|_| ())
    }

    /// Records the time at which a step wants the timer. Times from steps on several cores may
    /// arrive here out of order, so the earliest one counts. A service whose timer comes early sets
    /// it again.
    fn want_timer(&self, services: &Services, platform: &Platform, at: u64) {
        if self.take_timer(at) {
            services.look_at_timers(platform);
        }
    }
}

/// What is done with every service, whatever its type.
pub trait Registered {
    /// Returns the service's index in the board's list.
    fn index(&self) -> u32;

    /// Attaches this kernel to a service with shared state. The first request of any kernel starts
    /// the service.
    fn share(&self, platform: &'static Platform);

    /// Returns the time at which the service wants its timer; `u64::MAX` if it does not.
    fn timer(&self) -> u64;

    /// Makes the timer due, because the kernel that kept it may be dead.
    fn lose_timer(&self);

    /// Returns whether kernels share the service's state, so that each can execute its steps.
    fn is_shared(&self) -> bool;

    /// Executes the timer's step at `at`, at the latest. Returns false if it will be executed by
    /// then in any case.
    fn take_timer(&self, at: u64) -> bool;

    /// Executes the timer's step if it is due.
    fn look_at_timer(&self, services: &Services, platform: &'static Platform);

    /// Has the service look at its device, if that is of one of these kinds, one bit each.
    fn look_at_device(&self, services: &Services, platform: &'static Platform, kinds: u64);

    /// Executes a request that kernel `from` has sent, and returns the reply.
    fn serve(
        &self,
        services: &Services,
        platform: &'static Platform,
        from: DomainId,
        message: &[u8],
    ) -> Result<Vec<u8>, Refusal>;

    /// Passes the end of a kernel's life to the service, if this kernel executes its steps.
    fn gone(&self, services: &Services, platform: &'static Platform, life: (DomainId, Epoch));

    /// Restarts the service if its shared state is lost: any step detects that; this one has no
    /// other effect.
    fn restart_if_lost(&self, services: &Services, platform: &'static Platform);

    /// Returns the service's line of the monitor's `services`, if it exists on this board.
    fn line(&self, platform: &'static Platform) -> Option<Line>;

    /// Returns the service's name, if it exists on this board and this kernel executes its steps.
    fn executed(&self, platform: &'static Platform) -> Option<&'static str>;
}

impl<S: Service + Shareable> Registered for Served<S> {
    fn index(&self) -> u32 {
        self.index
    }

    fn share(&self, platform: &'static Platform) {
        if !self.mode.is_shared() {
            return;
        }
        match self.guard(platform) {
            Some(guard) => drop(self.instance.set(Local::<S>::new(guard))),
            None => kernel_node::log!("service {} not started: no shared memory for it", S::NAME),
        }
    }

    fn timer(&self) -> u64 {
        self.timer.load(Ordering::Relaxed)
    }

    fn lose_timer(&self) {
        self.timer.store(0, Ordering::Relaxed);
    }

    fn is_shared(&self) -> bool {
        self.mode.is_shared()
    }

    fn take_timer(&self, at: u64) -> bool {
        at < self.timer.fetch_min(at, Ordering::Relaxed)
    }

    fn look_at_timer(&self, services: &Services, platform: &'static Platform) {
        if self.timer() <= arch::time::soc_time() {
            self.timer.store(u64::MAX, Ordering::Relaxed);
            // No caller waits for the result.
            let _ = self.tell(services, platform, Event::Timer);
        }
    }

    fn look_at_device(&self, services: &Services, platform: &'static Platform, kinds: u64) {
        if self.drives.is_some_and(|kind| kinds >> kind & 1 != 0) && self.is_local() {
            // No caller waits for the result. A state that was lost starts again, and has to look.
            let look = || self.tell(services, platform, Event::Device);
            let restarted = |_: &usize| matches!(look(), Err(ServiceFailure::Restarted));
            (0..TRIES).take_while(restarted).for_each(drop);
        }
    }

    fn serve(
        &self,
        services: &Services,
        platform: &'static Platform,
        from: DomainId,
        message: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        let request = codec::unpack_from::<S>(message, from, MAX_PAYLOAD);
        let (head, request, sent) = request.ok_or(Refusal::Refused)?;
        count(&self.for_others);
        // After the step no refusal for want of memory: the caller would have it executed again.
        let mut back = zeroed(codec::size::<S>(head.room as usize, MAX_PAYLOAD))?;
        let mut bulk = zeroed(head.room as usize)?;
        bulk[..sent.len()].copy_from_slice(sent);
        let event = match head.kind {
            codec::kind::CANCEL => Event::Cancel(head.token),
            kind => event(kind == codec::kind::AGAIN, head.token, &request, &mut bulk),
        };
        let mut reply = S::Reply::new_zeroed();
        let answer = self.step(services, platform, event, &mut reply).map_err(|why| match why {
            ServiceFailure::Restarted => Refusal::Fault,
            _ => Refusal::NoSuchProc,
        })?;
        let answer = answer.map(|()| reply);
        let bytes = codec::pack_answer::<S>(&answer, &bulk, &mut back).ok_or(Refusal::TooLarge)?;
        back.truncate(bytes);
        Ok(back)
    }

    fn gone(&self, services: &Services, platform: &'static Platform, life: (DomainId, Epoch)) {
        if self.instance.get().is_some() {
            // No caller waits for the result.
            let _ = self.tell(services, platform, Event::Gone(life.0, life.1));
        }
    }

    fn restart_if_lost(&self, services: &Services, platform: &'static Platform) {
        if self.instance.get().is_some() && self.mode.is_shared() {
            let _ = self.tell(services, platform, Event::Cancel(Token::default()));
        }
    }

    fn line(&self, platform: &'static Platform) -> Option<Line> {
        let usage = || self.instance.get().map(Instance::usage);
        let counters = [&self.here, &self.away, &self.for_others, &self.parked];
        let line = || Line {
            name: S::NAME,
            usage: platform.scheduler.unpreempted(usage),
            counts: counters.map(|counter| counter.load(Ordering::Relaxed)),
        };
        exists(platform.blob, S::NAME).then(line)
    }

    fn executed(&self, platform: &'static Platform) -> Option<&'static str> {
        (self.is_local() && exists(platform.blob, S::NAME)).then_some(S::NAME)
    }
}

/// Returns the arena of a service in the shared block (offset and size in `share`), with its lock
/// between kernels. `index` is the service's in the board's list.
pub fn shared_arena(
    platform: &'static Platform,
    coherence: &'static Coherence,
    index: usize,
    share: (u64, u64),
) -> Option<ArenaGuard> {
    let arena = arenas::shared(coherence.base(), share)?;
    let between = DomainLock::of(platform.blob, platform.me, FIRST_LOCK + index)?;
    Some(ArenaGuard::shared(coherence, between, arena))
}

pub(super) fn event<'a, R>(
    again: bool,
    token: Token,
    request: &'a R,
    bulk: &'a mut [u8],
) -> Event<'a, R> {
    match again {
        false => Event::Request { token, request, bulk },
        true => Event::Again { token, request, bulk },
    }
}

/// Returns `bytes` zeroes. Without memory, the error is the refusal of the request.
pub(super) fn zeroed(bytes: usize) -> Result<Vec<u8>, Refusal> {
    let mut room = with_room(bytes)?;
    room.resize(bytes, 0);
    Ok(room)
}
