//! Requests to the soc: written to this domain's page, one at a time, answered in the chip page.
//!
//! The soc is the hardware, not a peer: without it this kernel does not run, so a request has no
//! timeout. The caller waits in `attend`, so its core serves others meanwhile.

use abi::boot::MAX_DOMAINS;
use abi::homes::Homes;
use abi::soc::{ChipPage, DomainPage, DomainStatus, command, error, state, unpack_state};
use arch::lock::{Guard, Lock};
use arch::shared::Window;
use arch::time::Estimate;
use base::id::DomainId;
use base::port::Words;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

/// Exchanges that calibrate the clock: at least so many, and more while the error is large.
const EXCHANGES: usize = 8;
const MOST_EXCHANGES: usize = 64;
/// Maximum error of a calibrated clock, if the soc answers fast enough at all.
const GOOD_ERROR_NS: u64 = 100_000;

/// Why a request to the soc failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocError {
    /// No such command or domain.
    Invalid,
    /// The domain is not in a state that allows it.
    State,
    /// The domain's emulator did not answer.
    Platform,
    /// This board does not support the command.
    Absent,
}

/// The soc's answer to a request.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Chip time at which the answer was written.
    pub time: u64,
    /// The value that was requested, if the command returns one.
    pub value: u64,
}

/// Access to the soc.
pub struct Soc {
    window: Window,
    me: DomainId,
    chip: usize,
    page: usize,
    ring: fn(),
    sequence: Lock<u64>,
    /// For each domain, the state word that [`Soc::change`] last saw.
    last_seen: [AtomicU64; MAX_DOMAINS],
    /// [`DomainStatus::wakes`] when the clock was last calibrated.
    calibrated: AtomicU64,
    /// [`Estimate::error`] of that calibration.
    clock_error: AtomicU64,
}

impl Soc {
    /// Creates the access of domain `me`, through the uncached window; `ring` rings the soc's
    /// doorbell.
    pub fn new(window: Window, layout: &abi::boot::Window, me: DomainId, ring: fn()) -> Self {
        let page = (layout.domains - layout.base) as usize + me.index() * size_of::<DomainPage>();
        let start = window.load(page + offset_of!(DomainPage, sequence));
        Soc {
            window,
            me,
            chip: (layout.chip - layout.base) as usize,
            page,
            ring,
            sequence: Lock::new(crate::ranks::SOC, start),
            last_seen: [const { AtomicU64::new(0) }; MAX_DOMAINS],
            calibrated: AtomicU64::new(0),
            clock_error: AtomicU64::new(0),
        }
    }

    #[inline]
    fn status(&self, domain: DomainId, field: usize) -> u64 {
        let line = offset_of!(ChipPage, domains) + domain.index() * size_of::<DomainStatus>();
        self.window.load(self.chip + line + field)
    }

    /// Returns a word of this domain in the chip page.
    pub(crate) fn status_of_me(&self, field: usize) -> u64 {
        self.status(self.me, field)
    }

    /// Returns a word of this domain's page.
    pub(crate) fn own(&self, field: usize) -> u64 {
        self.window.load(self.page + field)
    }

    /// Sets a word of this domain's page.
    pub(crate) fn set_own(&self, field: usize, value: u64) {
        self.window.store(self.page + field, value);
    }

    /// Returns a part of this domain's page.
    pub(crate) fn own_part(&self, field: usize, bytes: usize) -> Window {
        self.window.part(self.page + field, bytes)
    }

    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    /// Returns a domain's epoch and state.
    #[inline]
    pub fn state(&self, domain: DomainId) -> (u64, u64) {
        unpack_state(self.state_word(domain))
    }

    /// Returns a domain's epoch and state, packed as in the chip page.
    #[inline]
    pub fn state_word(&self, domain: DomainId) -> u64 {
        self.status(domain, offset_of!(DomainStatus, state))
    }

    /// Returns [`ChipPage::losses`] of a domain.
    pub fn loss(&self, domain: DomainId) -> u64 {
        self.window.load(self.chip + offset_of!(ChipPage, losses) + 8 * domain.index())
    }

    /// Returns [`ChipPage::settled`].
    pub fn settled(&self) -> u64 {
        self.window.load(self.chip + offset_of!(ChipPage, settled))
    }

    /// Sets [`DomainPage::settled`] of this domain, which is about to leave the shared block.
    pub fn settle(&self, settled: u64) {
        self.window.store(self.page + offset_of!(DomainPage, settled), settled);
    }

    /// Returns a domain's state word if it has changed since the previous call of this function.
    pub fn change(&self, domain: DomainId) -> Option<u64> {
        let word = self.state_word(domain);
        (self.last_seen[domain.index()].swap(word, Ordering::Relaxed) != word).then_some(word)
    }

    /// Returns the number of times that a domain was killed or crashed.
    pub fn deaths(&self, domain: DomainId) -> u64 {
        self.status(domain, offset_of!(DomainStatus, deaths))
    }

    /// Sets [`DomainPage::lights`] of this domain.
    pub fn set_lights(&self, count: u64) {
        self.set_own(offset_of!(DomainPage, lights), count);
    }

    /// Returns [`DomainPage::lights`] of a domain.
    pub fn lights(&self, domain: DomainId) -> u64 {
        self.page_of(domain).load(offset_of!(DomainPage, lights))
    }

    /// Sets whether shared devices end the next rest of this domain; before the request to rest.
    pub fn set_listens(&self, listens: bool) {
        self.set_own(offset_of!(DomainPage, listens), listens.into());
    }

    /// Returns whether shared devices end the rest of `domain`, which was seen to be RESTING.
    pub fn listens(&self, domain: DomainId) -> bool {
        self.window.barrier(); // its state was read before, and is published later
        self.page_of(domain).load(offset_of!(DomainPage, listens)) != 0
    }

    /// Sets which timers of shared services this domain keeps during its next rest and which it
    /// leaves to others; before the request to rest.
    pub fn set_timers(&self, kept: u64, left: &[u64]) {
        self.set_own(offset_of!(DomainPage, kept_timer), kept);
        for (&at, index) in left.iter().zip(0..abi::service::ALL.len()) {
            self.set_own(offset_of!(DomainPage, left_timers) + 8 * index, at);
        }
    }

    /// Returns the earliest timer for which the rest of `domain` ends, which was seen to be
    /// RESTING.
    pub fn kept_timer(&self, domain: DomainId) -> u64 {
        self.window.barrier(); // its state was read before, and is published later
        self.page_of(domain).load(offset_of!(DomainPage, kept_timer))
    }

    /// Returns the timers that `domain` has left to others, which was seen to be RESTING.
    pub fn left_timers(&self, domain: DomainId) -> [u64; abi::service::ALL.len()] {
        self.window.barrier(); // its state was read before, and is published later
        let page = self.page_of(domain);
        let field = offset_of!(DomainPage, left_timers);
        core::array::from_fn(|index| page.load(field + 8 * index))
    }

    /// Returns the newest word of those that the domains which can have one have published
    /// ([`DomainPage::homes`]), and that are `possible`.
    pub fn newest_homes(
        &self,
        domains: impl Iterator<Item = DomainId>,
        possible: impl Fn(Homes) -> bool,
    ) -> Homes {
        let published = |domain: DomainId| {
            let (epoch, found) = self.state(domain);
            let has_one = epoch != 0 && !state::is_over(found) && found != state::BOOTING;
            has_one.then(|| Homes(self.page_of(domain).load(offset_of!(DomainPage, homes))))
        };
        let all = domains.filter_map(published).filter(|homes| possible(*homes));
        all.max().unwrap_or_default()
    }

    /// Publishes the homes that this domain knows.
    pub fn publish_homes(&self, homes: Homes) {
        self.set_own(offset_of!(DomainPage, homes), homes.0);
    }

    /// Returns how often a domain had started to run, and its state, read in this order: a domain
    /// that is stopped has not been awake since that start, or will be seen to have started again.
    pub fn starts_and_state(&self, domain: DomainId) -> (u64, u64) {
        let starts = self.status(domain, offset_of!(DomainStatus, wakes));
        self.window.barrier();
        (starts, self.state(domain).1)
    }

    /// Returns the page of a domain of the board, which only that domain writes.
    pub fn page_of(&self, domain: DomainId) -> Window {
        let first = self.page - self.me.index() * size_of::<DomainPage>();
        let page = first + domain.index() * size_of::<DomainPage>();
        self.window.part(page, size_of::<DomainPage>())
    }

    fn wakes(&self) -> u64 {
        self.status(self.me, offset_of!(DomainStatus, wakes))
    }

    /// Sends a request and waits for the answer.
    pub fn request(&self, command: u64, arg0: u64, arg1: u64) -> Result<Answer, SocError> {
        self.ask(self.sequence.lock(), command, arg0, arg1)
    }

    /// Wakes a domain if it is INACTIVE. Does nothing if another core is waiting for the soc's
    /// answer; a caller that keeps waiting calls again.
    pub fn wake_if_inactive(&self, domain: DomainId) {
        if self.state(domain).1 == state::INACTIVE
            && let Some(sequence) = self.sequence.try_lock()
        {
            let _ = self.ask(sequence, command::WAKE, u64::from(domain.0), 0);
        }
    }

    fn ask(
        &self,
        mut sequence: Guard<'_, u64>,
        command: u64,
        arg0: u64,
        arg1: u64,
    ) -> Result<Answer, SocError> {
        *sequence += 1;
        self.post(command, [arg0, arg1], *sequence);
        let answered = offset_of!(DomainStatus, answered);
        arch::attend::until(|| self.status(self.me, answered) == *sequence);
        self.window.barrier(); // the answer is read after the sequence number that announces it
        let time = self.status(self.me, offset_of!(DomainStatus, time));
        let value = self.status(self.me, offset_of!(DomainStatus, value));
        match self.status(self.me, offset_of!(DomainStatus, error)) {
            error::NONE => Ok(Answer { time, value }),
            error::STATE => Err(SocError::State),
            error::PLATFORM => Err(SocError::Platform),
            error::ABSENT => Err(SocError::Absent),
            _ => Err(SocError::Invalid),
        }
    }

    /// Sends a request without the lock, and does not wait: for a kernel that ends or powers off.
    pub fn request_unanswered(&self, command: u64, arg0: u64, arg1: u64) {
        let sequence = self.window.load(self.page + offset_of!(DomainPage, sequence)) + 1;
        self.post(command, [arg0, arg1], sequence);
    }

    fn post(&self, command: u64, arguments: [u64; 2], sequence: u64) {
        self.window.store(self.page + offset_of!(DomainPage, command), command);
        self.window.store(self.page + offset_of!(DomainPage, arg0), arguments[0]);
        self.window.store(self.page + offset_of!(DomainPage, arg1), arguments[1]);
        self.window.barrier(); // the soc sees the request before the sequence number
        self.window.store(self.page + offset_of!(DomainPage, sequence), sequence);
        self.window.barrier(); // and the sequence number before the doorbell
        self.ring();
    }

    /// Not inlined: `tests/reach.toml` names this function.
    #[inline(never)]
    pub(crate) fn ring(&self) {
        (self.ring)();
    }

    /// After a warm boot: continues with the sequence number after the request that powered this
    /// domain off ([`Soc::request_unanswered`]).
    pub fn resume(&self) {
        *self.sequence.lock() = self.window.load(self.page + offset_of!(DomainPage, sequence));
    }

    /// Returns whether this domain was stopped since its clock was calibrated.
    pub fn has_slept(&self) -> bool {
        self.wakes() != self.calibrated.load(Ordering::Relaxed)
    }

    /// Calibrates this domain's clock against the chip's, by the fastest of several exchanges. If
    /// the domain was stopped meanwhile, it starts again.
    pub fn calibrate_clock(&self) {
        loop {
            let wakes = self.wakes();
            let best = self.fastest_exchange(wakes);
            if self.wakes() == wakes {
                // A soc that does not answer with the time is asked again after the next wake.
                if let Some(best) = best {
                    arch::time::set_offset(best.offset);
                    self.clock_error.store(best.error, Ordering::Relaxed);
                }
                return self.calibrated.store(wakes, Ordering::Relaxed);
            }
        }
    }

    /// Returns by how much this domain's clock may be wrong, in ns.
    pub fn clock_error(&self) -> u64 {
        self.clock_error.load(Ordering::Relaxed)
    }

    /// Returns the best of several exchanges, which end when [`Soc::wakes`] differs from `wakes`.
    fn fastest_exchange(&self, wakes: u64) -> Option<Estimate> {
        let mut best: Option<Estimate> = None;
        for count in 0..MOST_EXCHANGES {
            let is_good = best.is_some_and(|best| best.error <= GOOD_ERROR_NS);
            if count >= EXCHANGES && is_good || self.wakes() != wakes {
                break;
            }
            let before = arch::time::local_ns();
            let Ok(answer) = self.request(command::TIME, 0, 0) else { break };
            let new = arch::time::estimate((before, answer.time, arch::time::local_ns()));
            best = best.into_iter().chain(new).min_by_key(|estimate| estimate.error);
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::soc::pack_state;

    const PAGE: usize = size_of::<DomainPage>();
    const CHIP: usize = MAX_DOMAINS * PAGE;
    const WORDS: usize = (CHIP + size_of::<ChipPage>()) / 8;
    const LAYOUT: abi::boot::Window = abi::boot::Window {
        base: 0,
        size: 0,
        chip: CHIP as u64,
        domains: 0,
        blocks: 0,
        links: 0,
        link_size: 0,
        dsm: 0,
        dsm_link_size: 0,
    };
    const ME: DomainId = DomainId(1);

    type Memory = [AtomicU64; WORDS];

    const fn memory() -> Memory {
        [const { AtomicU64::new(0) }; WORDS]
    }

    fn word(memory: &'static Memory, at: usize) -> &'static AtomicU64 {
        &memory[at / 8]
    }

    fn status(memory: &'static Memory, field: usize) -> &'static AtomicU64 {
        word(memory, CHIP + ME.index() * size_of::<DomainStatus>() + field)
    }

    /// Answers the request in `memory` at time 7, with `error` and the value 100 + `arg0`.
    fn answer(memory: &'static Memory, code: u64) {
        let page = |field| word(memory, ME.index() * PAGE + field).load(Ordering::SeqCst);
        let put = |field, value| status(memory, field).store(value, Ordering::SeqCst);
        put(offset_of!(DomainStatus, time), 7);
        put(offset_of!(DomainStatus, value), 100 + page(offset_of!(DomainPage, arg0)));
        put(offset_of!(DomainStatus, error), code);
        put(offset_of!(DomainStatus, answered), page(offset_of!(DomainPage, sequence)));
    }

    #[test]
    fn a_request_returns_the_socs_answer_or_its_error() {
        static MEMORY: Memory = memory();
        fn ring() {
            let command = word(&MEMORY, ME.index() * PAGE + offset_of!(DomainPage, command));
            let is_energy = command.load(Ordering::SeqCst) == command::ENERGY;
            answer(&MEMORY, if is_energy { error::NONE } else { error::STATE });
        }
        let soc = Soc::new(Window::over(&MEMORY), &LAYOUT, ME, ring);
        let answer = soc.request(command::ENERGY, 5, 0).unwrap();
        assert_eq!((answer.time, answer.value), (7, 105));
        assert_eq!(soc.request(command::OFF, 5, 0).unwrap_err(), SocError::State);
        assert_eq!(soc.request(command::ENERGY, 6, 0).unwrap().value, 106);
    }

    #[test]
    fn a_domain_wakes_inactive_domains_only() {
        static MEMORY: Memory = memory();
        static WAKES: AtomicU64 = AtomicU64::new(0);
        fn ring() {
            WAKES.fetch_add(1, Ordering::SeqCst);
            answer(&MEMORY, error::NONE);
        }
        let soc = Soc::new(Window::over(&MEMORY), &LAYOUT, ME, ring);
        let set = |state| {
            let word = word(&MEMORY, CHIP + offset_of!(DomainStatus, state));
            word.store(pack_state(3, state), Ordering::SeqCst);
        };
        for (state, wakes) in [(state::RUNNING, 0), (state::INACTIVE, 1), (state::OFF, 1)] {
            set(state);
            soc.wake_if_inactive(DomainId(0));
            assert_eq!(WAKES.load(Ordering::SeqCst), wakes, "state {state}");
        }
    }

    #[test]
    fn a_change_of_state_is_reported_once() {
        static MEMORY: Memory = memory();
        let soc = Soc::new(Window::over(&MEMORY), &LAYOUT, ME, || {});
        let running = pack_state(1, state::RUNNING);
        status(&MEMORY, offset_of!(DomainStatus, state)).store(running, Ordering::SeqCst);
        assert_eq!(soc.change(ME), Some(running));
        assert_eq!(soc.change(ME), None);
        assert_eq!(soc.state(ME), (1, state::RUNNING));
    }
}
