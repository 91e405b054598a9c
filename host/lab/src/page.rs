//! The shared page: a file that the soc and every QEMU of a board map.
//!
//! Words of 64 bits. The holder of the turn is the only writer of all but four: `holder` itself
//! (passed on by its holder, or taken while no seat holds it), `wanted` (set by the threads of the
//! seat), and the two futexes. The next holder sees everything written before the turn was passed.

use crate::seats::{Phase, Seat};
use crate::{NEVER, Ps};
use rustix::thread::futex;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use vm_memory::mmap::MmapRegion;
use vm_memory::{FileOffset, VolatileMemory};

/// Maximum seats: 8 domains and the soc.
pub const SEATS: usize = 9;
/// Maximum doorbell vectors of a seat.
pub const VECTORS: usize = 64;
/// Maximum points of a power table: frequencies, times voltages where they differ.
pub const POINTS: usize = 12;
/// No seat has the turn: all wait for something from outside.
pub const NOBODY: u64 = u64::MAX;

const MAGIC: u64 = 0x3130_4241_4c55_4e50;
const HEAD: usize = 64;
const SEAT: usize = 128;
const SEATS_END: usize = HEAD + SEATS * SEAT * 8;
/// Maximum recorded changes of state; later ones are dropped.
pub const CHANGES: usize = 1 << 18;
const BYTES: usize = SEATS_END + CHANGES * 16;

/// Words of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Phase = 0,
    Time = 1,
    Wake = 2,
    Wanted = 3,
    /// Two futexes: for the thread that executes, and for the one that acts while the seat is idle.
    Signals = 4,
    Khz = 5,
    Accounted = 6,
    /// Its phase before its clock was stopped.
    Stopped = 7,
    Counts = 8,
    /// Whether its clock is gated while it waits.
    Gates = 22,
    /// The state that it was last accounted as, plus 1.
    Last = 23,
    Residency = 24,
    /// How often it was powered on.
    Lives = 62,
    /// The point that it has reached and that the soc has not carried out, plus 1.
    Point = 63,
    Doorbells = 64,
}

/// Counters of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Instructions, times the cost of a plain one: units of the clock.
    Units = 0,
    /// Turns taken.
    Turns = 1,
    /// Doorbells rung.
    Rings = 2,
    /// Doorbells that arrived.
    Arrivals = 3,
    /// Sync points.
    Syncs = 4,
    /// Changes of frequency.
    Frequencies = 5,
    /// Instructions.
    Instructions = 6,
    /// Picoseconds between the arrival of doorbells and their delivery, caused by the instruction
    /// in progress.
    Late = 7,
    /// The maximum for one doorbell.
    Latest = 8,
    /// Exceptions: faults, calls, interrupts.
    Exceptions = 9,
}

/// The state that a core's time is accounted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Executing, by point of the power table.
    Active(usize),
    /// Waiting, by point.
    Idle(usize),
    /// Waiting with its clock gated, by point.
    Gated(usize),
    /// Stopped, state kept.
    Inactive,
    /// No power.
    Off,
}

impl State {
    /// Returns every state.
    pub fn all() -> impl Iterator<Item = State> {
        let of = |point| [State::Active(point), State::Idle(point), State::Gated(point)];
        (0..POINTS).flat_map(of).chain([State::Inactive, State::Off])
    }

    fn word(self) -> usize {
        match self {
            State::Active(point) => point.min(POINTS - 1),
            State::Idle(point) => POINTS + point.min(POINTS - 1),
            State::Gated(point) => 2 * POINTS + point.min(POINTS - 1),
            State::Inactive => 3 * POINTS,
            State::Off => 3 * POINTS + 1,
        }
    }
}

/// A change of a seat's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Time of the change.
    pub time: Ps,
    /// The seat.
    pub seat: usize,
    /// The new state.
    pub state: State,
}

/// The thread that waits for the turn of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The thread that executes.
    Runner = 0,
    /// The thread that acts for an idle seat.
    Helper = 1,
}

/// Why the page could not be used.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The file cannot be opened.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// It cannot be mapped.
    #[error("{0} cannot be mapped: {1}")]
    Map(String, String),
    /// It is a different file, or one of another version.
    #[error("{0} is no page of this lab")]
    Strange(String),
}

/// The page, mapped as long as the process lives.
#[derive(Clone, Copy)]
pub struct Page {
    words: &'static [&'static AtomicU64],
    futexes: &'static [[&'static AtomicU32; 2]],
    region: &'static MmapRegion<()>,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Page, holder {}", self.holder())
    }
}

/// `MmapRegion` lives forever, and so does its memory.
fn atomic<T: vm_memory::AtomicInteger>(
    region: &'static MmapRegion<()>,
    at: usize,
) -> Result<&'static T, String> {
    region.get_atomic_ref(at).map_err(|e| e.to_string())
}

impl Page {
    /// Creates the page: all seats are absent, and no seat has the turn.
    pub fn create(path: &Path) -> Result<Page, PageError> {
        let fail = |e| PageError::File(path.display().to_string(), e);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(path).map_err(fail)?;
        file.set_len(BYTES as u64).map_err(fail)?;
        let page = Page::map(path, file)?;
        page.words[0].store(MAGIC, Ordering::Relaxed);
        page.words[1].store(NOBODY, Ordering::Release);
        for seat in 0..SEATS {
            page.set_wake(seat, NEVER);
        }
        Ok(page)
    }

    /// Maps the page that another process has created.
    pub fn open(path: &Path) -> Result<Page, PageError> {
        let name = path.display().to_string();
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|e| PageError::File(name.clone(), e))?;
        if file.metadata().is_ok_and(|meta| meta.len() != BYTES as u64) {
            return Err(PageError::Strange(name));
        }
        let page = Page::map(path, file)?;
        if page.words[0].load(Ordering::Acquire) == MAGIC {
            Ok(page)
        } else {
            Err(PageError::Strange(name))
        }
    }

    fn map(path: &Path, file: File) -> Result<Page, PageError> {
        let fail = |e: String| PageError::Map(path.display().to_string(), e);
        let region = MmapRegion::<()>::from_file(FileOffset::new(file, 0), BYTES);
        let region: &'static MmapRegion<()> =
            Box::leak(Box::new(region.map_err(|e| fail(e.to_string()))?));
        let words =
            (0..SEATS_END / 8).map(|i| atomic(region, 8 * i)).collect::<Result<Vec<_>, _>>();
        let futex = |seat: usize, role: usize| {
            atomic(region, HEAD + (seat * SEAT + Word::Signals as usize) * 8 + 4 * role)
        };
        let futexes = (0..SEATS)
            .map(|seat| Ok([futex(seat, 0)?, futex(seat, 1)?]))
            .collect::<Result<Vec<_>, String>>();
        Ok(Page {
            words: words.map_err(fail)?.leak(),
            futexes: futexes.map_err(fail)?.leak(),
            region,
        })
    }

    fn word(&self, seat: usize, word: Word, index: usize) -> &'static AtomicU64 {
        self.words[HEAD / 8 + seat.min(SEATS - 1) * SEAT + word as usize + index]
    }

    fn get(&self, seat: usize, word: Word) -> u64 {
        self.word(seat, word, 0).load(Ordering::Relaxed)
    }

    fn set(&self, seat: usize, word: Word, value: u64) {
        self.word(seat, word, 0).store(value, Ordering::Relaxed);
    }

    /// Returns the seat that has the turn, or [`NOBODY`].
    pub fn holder(&self) -> u64 {
        self.words[1].load(Ordering::SeqCst)
    }

    /// Passes the turn. Only its holder may call this.
    pub fn set_holder(&self, holder: u64) {
        self.words[1].store(holder, Ordering::SeqCst);
    }

    /// Takes the turn from `from`: [`NOBODY`], or a seat whose process is dead. Returns false if
    /// `from` does not have it.
    pub fn take_from(&self, from: u64, to: u64) -> bool {
        self.words[1].compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Returns a seat, as the order of turns sees it.
    pub fn seat(&self, seat: usize) -> Seat {
        let phase = Phase::from_word(self.get(seat, Word::Phase));
        let wake = self.get(seat, Word::Wake).min(self.first_arrival(seat));
        let wanted = self.word(seat, Word::Wanted, 0).load(Ordering::SeqCst) != 0;
        let wanted = wanted && matches!(phase, Phase::Running | Phase::Idle);
        Seat { phase, time: self.get(seat, Word::Time), wake, wanted }
    }

    /// Returns all seats.
    pub fn seats(&self) -> [Seat; SEATS] {
        core::array::from_fn(|seat| self.seat(seat))
    }

    /// Sets a seat's phase.
    pub fn set_phase(&self, seat: usize, phase: Phase) {
        self.set(seat, Word::Phase, phase.word());
    }

    /// Records the phase before a seat's clock stops.
    pub fn set_stopped(&self, seat: usize, phase: Phase) {
        self.set(seat, Word::Stopped, phase.word());
    }

    /// Returns the phase before a seat's clock stopped.
    pub fn stopped(&self, seat: usize) -> Phase {
        Phase::from_word(self.get(seat, Word::Stopped))
    }

    /// Sets a seat's time.
    pub fn set_time(&self, seat: usize, time: Ps) {
        self.set(seat, Word::Time, time);
    }

    /// Sets the time of a seat's own next event, not counting doorbells.
    pub fn set_wake(&self, seat: usize, wake: Ps) {
        self.set(seat, Word::Wake, wake);
    }

    /// Returns a seat's frequency; 0 before it is first set.
    pub fn khz(&self, seat: usize) -> u32 {
        self.get(seat, Word::Khz) as u32
    }

    /// Sets a seat's frequency.
    pub fn set_khz(&self, seat: usize, khz: u32) {
        self.set(seat, Word::Khz, khz.into());
    }

    /// Returns whether its clock is gated while it waits.
    pub fn gates(&self, seat: usize) -> bool {
        self.get(seat, Word::Gates) != 0
    }

    /// Sets whether its clock is gated while it waits.
    pub fn set_gates(&self, seat: usize, gates: bool) {
        self.set(seat, Word::Gates, gates.into());
    }

    /// Sets whether a turn is requested from outside the board's time.
    pub fn want(&self, seat: usize, wanted: bool) {
        self.word(seat, Word::Wanted, 0).store(wanted.into(), Ordering::SeqCst);
    }

    /// Adds to a counter.
    pub fn count(&self, seat: usize, what: Count, more: u64) {
        let word = self.word(seat, Word::Counts, what as usize);
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Returns a counter.
    pub fn counted(&self, seat: usize, what: Count) -> u64 {
        self.word(seat, Word::Counts, what as usize).load(Ordering::Relaxed)
    }

    /// Accounts for the time since the last call as spent in `state`.
    pub fn account(&self, seat: usize, state: State, until: Ps) {
        let since = self.get(seat, Word::Accounted);
        if self.get(seat, Word::Last) != state.word() as u64 + 1 {
            self.set(seat, Word::Last, state.word() as u64 + 1);
            self.keep(Change { time: since, seat, state });
        }
        self.spend(seat, state, until.saturating_sub(since));
        self.set(seat, Word::Accounted, until.max(since));
    }

    /// Adds core-time in `state`, for a seat with several cores; records no change.
    pub fn spend(&self, seat: usize, state: State, time: Ps) {
        let word = self.word(seat, Word::Residency, state.word());
        word.store(word.load(Ordering::Relaxed).wrapping_add(time), Ordering::Relaxed);
    }

    /// Sets the time until which all its cores are accounted for.
    pub fn set_accounted(&self, seat: usize, until: Ps) {
        self.set(seat, Word::Accounted, until);
    }

    /// Counts a power-on.
    pub fn live(&self, seat: usize) {
        self.set(seat, Word::Lives, self.lives(seat) + 1);
    }

    /// Returns how often it was powered on.
    pub fn lives(&self, seat: usize) -> u64 {
        self.get(seat, Word::Lives)
    }

    /// The seat's word about points ([`crate::points`]).
    pub(crate) fn reached_point(&self, seat: usize) -> &'static AtomicU64 {
        self.word(seat, Word::Point, 0)
    }

    /// One bit for each point that was carried out.
    pub(crate) fn done_points(&self) -> &'static AtomicU64 {
        self.words[3]
    }

    fn change_words(&self, index: usize) -> Option<[&'static AtomicU64; 2]> {
        let at = SEATS_END + index * 16;
        Some([atomic(self.region, at).ok()?, atomic(self.region, at + 8).ok()?])
    }

    fn keep(&self, change: Change) {
        let count = self.words[2].load(Ordering::Relaxed) as usize;
        if let Some([time, what]) = self.change_words(count).filter(|_| count < CHANGES) {
            time.store(change.time, Ordering::Relaxed);
            let packed = (change.seat as u64) << 32 | change.state.word() as u64;
            what.store(packed, Ordering::Relaxed);
        }
        self.words[2].store(count as u64 + 1, Ordering::Relaxed);
    }

    /// Returns the recorded changes of state, and how many there were in total.
    pub fn changes(&self) -> (Vec<Change>, usize) {
        let count = self.words[2].load(Ordering::Relaxed) as usize;
        let read = |index| {
            let [time, what] = self.change_words(index)?.map(|word| word.load(Ordering::Relaxed));
            let state = State::all().find(|state| state.word() as u64 == what & 0xffff_ffff)?;
            Some(Change { time, seat: (what >> 32) as usize, state })
        };
        ((0..count.min(CHANGES)).filter_map(read).collect(), count)
    }

    /// Returns the time until which a seat is accounted for.
    pub fn accounted(&self, seat: usize) -> Ps {
        self.get(seat, Word::Accounted)
    }

    /// Returns the time spent in a state.
    pub fn residency(&self, seat: usize, state: State) -> Ps {
        self.word(seat, Word::Residency, state.word()).load(Ordering::Relaxed)
    }

    /// Records a doorbell that arrives at `time`. Edges coalesce: the earliest one of a vector
    /// counts, and its receiver sees all stores before either ring.
    pub fn ring(&self, seat: usize, vector: usize, time: Ps) {
        if seat >= SEATS || vector >= VECTORS {
            return;
        }
        let word = self.word(seat, Word::Doorbells, vector);
        let due = word.load(Ordering::Relaxed);
        if due == 0 || time < due {
            word.store(time.max(1), Ordering::Relaxed);
        }
    }

    /// Returns when the first doorbell arrives.
    pub fn first_arrival(&self, seat: usize) -> Ps {
        let due = (0..VECTORS).map(|v| self.word(seat, Word::Doorbells, v).load(Ordering::Relaxed));
        due.filter(|&due| due != 0).min().unwrap_or(NEVER)
    }

    /// Takes a doorbell that has arrived by `now`.
    pub fn take_arrival(&self, seat: usize, now: Ps) -> Option<usize> {
        let words = (0..VECTORS).map(|v| (v, self.word(seat, Word::Doorbells, v)));
        let due = words.map(|(v, word)| (word.load(Ordering::Relaxed), v));
        let (time, vector) = due.filter(|&(time, _)| time != 0).min()?;
        if time > now {
            return None;
        }
        self.word(seat, Word::Doorbells, vector).store(0, Ordering::Relaxed);
        self.count(seat, Count::Arrivals, 1);
        let late = now - time;
        self.count(seat, Count::Late, late);
        self.count(seat, Count::Latest, late.saturating_sub(self.counted(seat, Count::Latest)));
        Some(vector)
    }

    /// Drops the doorbells in flight to a seat.
    pub fn forget_doorbells(&self, seat: usize) {
        for vector in 0..VECTORS {
            self.word(seat, Word::Doorbells, vector).store(0, Ordering::Relaxed);
        }
    }

    /// Wakes the thread that waits in this role.
    pub fn signal(&self, seat: usize, role: Role) {
        let futex = self.futexes[seat.min(SEATS - 1)][role as usize];
        futex.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(futex, futex::Flags::empty(), 1);
    }

    /// Sleeps until `ready`, which must become true no later than a signal, or for `most`.
    pub fn sleep(
        &self,
        seat: usize,
        role: Role,
        most: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        let futex = self.futexes[seat.min(SEATS - 1)][role as usize];
        let timeout = futex::Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        let seen = futex.load(Ordering::SeqCst);
        if ready() {
            return true;
        }
        let _ = futex::wait(futex, futex::Flags::empty(), seen, Some(&timeout));
        ready()
    }
}
