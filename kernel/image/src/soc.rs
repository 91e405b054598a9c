//! This kernel's requests to the soc: its own page, one request at a time.
//!
//! The soc is the chip, not a peer: when it is gone, so are we. Its answer is waited for through
//! `attend`, so that a request never stops this kernel from serving others.

use abi::boot::MAX_DOMAINS;
use abi::soc::{ChipPage, DomainPage, DomainStatus, command, error, state, unpack_state};
use arch::lock::{Guard, Lock};
use arch::shared::Window;
use base::id::DomainId;
use base::port::Words;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

/// Why the soc refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocError {
    /// No such command or domain.
    Invalid,
    /// The domain is not in a state that allows it.
    State,
    /// The emulator below did not answer.
    Platform,
    /// This board has no such thing.
    Absent,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Chip time when it was written.
    pub time: u64,
    /// What was asked for, if it is a number.
    pub value: u64,
}

/// The way to the soc.
pub struct Soc {
    window: Window,
    me: DomainId,
    chip: usize,
    page: usize,
    ring: fn(),
    sequence: Lock<u64>,
    /// State words that [`Soc::change`] has told of.
    told: [AtomicU64; MAX_DOMAINS],
    /// [`DomainStatus::wakes`] that the clock was calibrated under.
    calibrated: AtomicU64,
}

impl Soc {
    /// The pages of domain `me` in `window`, rung by `ring`.
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
            told: [const { AtomicU64::new(0) }; MAX_DOMAINS],
            calibrated: AtomicU64::new(0),
        }
    }

    fn status(&self, domain: DomainId, field: usize) -> u64 {
        let line = offset_of!(ChipPage, domains) + domain.index() * size_of::<DomainStatus>();
        self.window.load(self.chip + line + field)
    }

    /// Epoch and state of a domain.
    pub fn state(&self, domain: DomainId) -> (u64, u64) {
        unpack_state(self.state_word(domain))
    }

    /// The same, as it is in the chip page.
    pub fn state_word(&self, domain: DomainId) -> u64 {
        self.status(domain, offset_of!(DomainStatus, state))
    }

    /// A domain's state word when it is another than it was here the last time.
    pub fn change(&self, domain: DomainId) -> Option<u64> {
        let word = self.state_word(domain);
        (self.told[domain.index()].swap(word, Ordering::Relaxed) != word).then_some(word)
    }

    /// Times a domain was killed or crashed.
    pub fn deaths(&self, domain: DomainId) -> u64 {
        self.status(domain, offset_of!(DomainStatus, deaths))
    }

    fn wakes(&self) -> u64 {
        self.status(self.me, offset_of!(DomainStatus, wakes))
    }

    /// Asks and waits for the answer.
    pub fn request(&self, command: u64, arg0: u64, arg1: u64) -> Result<Answer, SocError> {
        self.ask(self.sequence.lock(), command, arg0, arg1)
    }

    /// Wakes a domain that was stopped wherever it was, maybe with what the caller waits for. May
    /// be in vain while others ask: who still waits comes again.
    pub fn rouse(&self, domain: DomainId) {
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

    /// Asks without waiting and without a lock: for a kernel that ends here.
    pub fn last_words(&self, command: u64, arg0: u64, arg1: u64) {
        let sequence = self.window.load(self.page + offset_of!(DomainPage, sequence)) + 1;
        self.post(command, [arg0, arg1], sequence);
    }

    fn post(&self, command: u64, arguments: [u64; 2], sequence: u64) {
        self.window.store(self.page + offset_of!(DomainPage, command), command);
        self.window.store(self.page + offset_of!(DomainPage, arg0), arguments[0]);
        self.window.store(self.page + offset_of!(DomainPage, arg1), arguments[1]);
        self.window.barrier(); // the request is seen before the sequence number that opens it
        self.window.store(self.page + offset_of!(DomainPage, sequence), sequence);
        self.window.barrier(); // and that before the doorbell
        self.ring();
    }

    /// A call, so that it has a name in `tests/reach.toml`.
    #[inline(never)]
    fn ring(&self) {
        (self.ring)();
    }

    /// After a warm boot: requests go on behind the one that turned this domain off.
    pub fn resume(&self) {
        *self.sequence.lock() = self.window.load(self.page + offset_of!(DomainPage, sequence));
    }

    /// Did this domain stand still since its clock was calibrated?
    pub fn has_slept(&self) -> bool {
        self.wakes() != self.calibrated.load(Ordering::Relaxed)
    }

    /// Calibrates this domain's clock against the chip's: the quickest of a few exchanges counts.
    /// A stop in the middle spoils them, so it begins again; each round more takes one more stop.
    pub fn calibrate_clock(&self) {
        loop {
            let wakes = self.wakes();
            let samples = self.exchanges();
            if self.wakes() == wakes {
                // A soc that does not tell the time is not asked until the next wake.
                if let Some(samples) = samples {
                    arch::time::set_offset(arch::time::estimate(&samples));
                }
                return self.calibrated.store(wakes, Ordering::Relaxed);
            }
        }
    }

    /// (local clock before, chip time, local clock after), a few times.
    fn exchanges(&self) -> Option<[(u64, u64, u64); 8]> {
        let mut samples = [(0, 0, 0); 8];
        for sample in &mut samples {
            let before = arch::time::local_ns();
            let time = self.request(command::TIME, 0, 0).ok()?.time;
            *sample = (before, time, arch::time::local_ns());
        }
        Some(samples)
    }
}
