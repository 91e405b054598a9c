//! What this kernel has counted of its domain's time and energy, and what the others have.
//!
//! Contract: each kernel publishes its count in its domain's page: at boot, before and after each
//! rest, about every second while it has processes, and when it is asked. So the count of a kernel
//! that rests is complete, and reading it wakes no kernel.

use crate::kernel::Kernel;
use crate::session::Session;
use abi::boot::{Domain, NEVER_RESTS};
use abi::power::{PowerPoint, PowerSample, UNKNOWN_ENERGY, UNKNOWN_USE};
use abi::soc::{DomainPage, command, state};
use arch::lock::Lock;
use arch::shared::Window;
use arch::time::soc_time;
use base::id::DomainId;
use base::port::Words;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_platform::peers::Procedure;
use kernel_power::usage::Usage;
use kernel_power::{Meter, Powers, Residency, meter};

/// Tries to read a sample while its domain writes it; a domain may have died half-way.
const TRIES: usize = 100;
/// A kernel with processes publishes about every second.
const STALE: u64 = 3_000_000_000;
const SAMPLE: usize = offset_of!(DomainPage, power);
/// The words of a sample that follow its version.
const WORDS: usize = size_of::<PowerSample>() / 8 - 1;

/// What this kernel adds up.
struct Count {
    meter: Meter,
    usage: Usage,
    rests: u64,
    resting: u64,
}

static COUNT: Lock<Count> = Lock::new(
    kernel_node::ranks::METER,
    Count { meter: Meter::new(), usage: Usage::new(), rests: 0, resting: 0 },
);
/// Time from reset until [`start`], in which the first core was active.
static BOOT: AtomicU64 = AtomicU64::new(0);

/// What is known of a domain.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// One of [`state`].
    pub state: u64,
    pub sample: PowerSample,
    /// Time since the sample was taken, in ns. 0 for a domain that rests.
    pub age: u64,
    /// Power of an active core at the present frequency in uW, if the board file gives it.
    pub active_uw: Option<u32>,
    /// Energy since the board was started in nJ, as the chip has measured it; in the lab only.
    pub measured: Option<u64>,
}

impl Report {
    /// Returns the estimate of the energy since the kernel booted, in nJ.
    pub fn estimate(&self) -> Option<u64> {
        (self.sample.energy != UNKNOWN_ENERGY).then_some(self.sample.energy)
    }

    /// Returns how busy its cores are, in percent, if the kernel has published it.
    pub fn busy(&self) -> Option<u32> {
        latest(self.state, &self.sample, self.sample.at.saturating_add(self.age))
    }
}

/// Returns the time without work, in ns, after which a domain rests, if it does: by the command
/// line, for this domain or for all; else by the board file.
pub fn rests_after(kernel: &Kernel, domain: &Domain) -> Option<u64> {
    let asked = asked_rest(kernel, domain).and_then(|ms| ms.parse().ok());
    let ms = asked.unwrap_or(domain.rest_after_ms);
    (ms != NEVER_RESTS).then_some(u64::from(ms) * 1_000_000)
}

/// Returns the number of ms that the command line gives for a domain's time without work.
pub fn asked_rest(kernel: &Kernel, domain: &Domain) -> Option<&'static str> {
    let name = abi::boot::text(&domain.name);
    let own =
        |word: &'static str| word.strip_prefix("rest.")?.strip_prefix(name)?.strip_prefix('=');
    kernel.blob.options().find_map(own).or_else(|| kernel.option("rest="))
}

/// Publishes the first count. Called on the first core, before there are threads.
pub fn start(kernel: &Kernel) {
    BOOT.store(arch::time::local_ns(), Ordering::Relaxed);
    publish(kernel);
}

/// Counts until now, and publishes that.
pub fn publish(kernel: &Kernel) {
    change(kernel, |_| {});
}

/// The moment before a rest.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Chip time.
    at: u64,
    ticks: u64,
}

impl Moment {
    pub fn now() -> Moment {
        Moment { at: soc_time(), ticks: arch::cpu::clock() }
    }
}

/// Counts a rest that has just ended, and publishes that. The clock must have been calibrated.
pub fn rested(kernel: &Kernel, before: Moment) {
    // The counter stands still in a rest outside the lab, and continues in the lab.
    kernel.scheduler.were_stopped(arch::cpu::clock().saturating_sub(before.ticks));
    let mut count = COUNT.lock();
    count.rests += 1;
    count.resting += soc_time().saturating_sub(before.at);
    count.read(kernel);
}

/// Counts until now, and publishes that. Then lets `work` change words of this domain's page on
/// which its power depends: the frequency, and whether the clock is gated.
pub fn change(kernel: &Kernel, work: impl FnOnce(&Window)) {
    let mut count = COUNT.lock();
    count.read(kernel);
    work(&kernel.own_page);
}

/// Returns what is known of `domain`. Does not wake it; asks it to count first if it runs and never
/// rests, so that this does not keep it from resting.
pub fn report(session: &Session, domain: DomainId) -> Option<Report> {
    let kernel = session.kernel;
    let described = kernel.blob.domains().get(domain.index())?;
    let is_busy = kernel.soc.state(domain).1 == state::RUNNING;
    if domain == kernel.me {
        publish(kernel);
    } else if is_busy && rests_after(kernel, described).is_none() {
        // If it does not answer, its last count is shown, with its age.
        let _ = session.call(domain, Procedure::CountPower, &[], &mut []);
    }
    let page = kernel.soc.page_of(domain);
    let (state, sample) = stable(|| kernel.soc.state(domain).1, || read(&page))?;
    let mut report = Report {
        state,
        sample,
        age: soc_time().saturating_sub(sample.at),
        active_uw: point(described, &page).map(|point| point.active_uw),
        measured: kernel.soc.request(command::ENERGY, u64::from(domain.0), 0).ok().map(|a| a.value),
    };
    if state == state::RESTING {
        add_rest(&mut report, described);
    }
    Some(report)
}

/// Returns how busy the cores of `domain` are, in percent, as its kernel has published; `None` if
/// it has not yet. Wakes nothing and asks nothing.
pub fn busy(kernel: &Kernel, domain: DomainId) -> Option<u32> {
    if domain == kernel.me {
        publish(kernel);
    }
    let page = kernel.soc.page_of(domain);
    let (state, sample) = stable(|| kernel.soc.state(domain).1, || read(&page))?;
    latest(state, &sample, soc_time())
}

/// Returns the use that a sample says. A domain that does not run is not busy, and neither is one
/// that has published nothing for [`STALE`]: it has no processes.
fn latest(state: u64, sample: &PowerSample, now: u64) -> Option<u32> {
    if state != state::RUNNING || now.saturating_sub(sample.at) > STALE {
        return Some(0);
    }
    u32::try_from(sample.busy).ok().map(|busy| busy.min(100))
}

/// Returns a state and the sample that was in the page in that state: a rest may end meanwhile.
fn stable<T>(state: impl Fn() -> u64, sample: impl Fn() -> Option<T>) -> Option<(u64, T)> {
    let mut before = state();
    for _ in 0..TRIES {
        let found = sample()?;
        let now = core::mem::replace(&mut before, state());
        if now == before {
            return Some((now, found));
        }
    }
    None
}

/// Returns the energy in nJ that a process has used: its core time in ns, at the present power of
/// an active core of its kernel. `None` if the board file gives no power.
pub fn of_process(kernel: &Kernel, domain: DomainId, cpu: u64) -> Option<u64> {
    let described = kernel.blob.domains().get(domain.index())?;
    let point = point(described, &kernel.soc.page_of(domain))?;
    Some(meter::nanojoules(cpu, point.active_uw))
}

/// Adds the present rest, which began when the sample was published.
fn add_rest(report: &mut Report, described: &Domain) {
    let passed = core::mem::take(&mut report.age);
    let cores = u64::from(described.cores);
    let Report { sample, .. } = report;
    // The words are another domain's: they may be anything.
    sample.resting = sample.resting.saturating_add(passed);
    sample.at = sample.at.saturating_add(passed);
    if sample.energy != UNKNOWN_ENERGY {
        let more = meter::nanojoules(passed.saturating_mul(cores), described.inactive_uw);
        sample.energy = sample.energy.saturating_add(more).min(UNKNOWN_ENERGY - 1);
    }
}

impl Count {
    /// Counts until now, and publishes that.
    fn read(&mut self, kernel: &Kernel) {
        let (active, idle) = kernel.scheduler.residency();
        let active = active + BOOT.load(Ordering::Relaxed);
        let cores = u64::from(kernel.domain().cores);
        let times = Residency { active, idle, resting: self.resting * cores };
        self.meter.read(times, powers(kernel.domain(), &kernel.own_page));
        let at = soc_time();
        let busy = self.usage.read(at, active, kernel.domain().cores);
        write(
            &kernel.own_page,
            &PowerSample {
                version: 0,
                at,
                booted_at: kernel.booted_at,
                rests: self.rests,
                resting: self.resting,
                active,
                idle,
                energy: self.meter.nanojoules().unwrap_or(UNKNOWN_ENERGY),
                busy: busy.map_or(UNKNOWN_USE, u64::from),
            },
        );
    }
}

/// Returns the powers of a domain's cores at its present frequency, if the board file gives them.
fn point(domain: &Domain, page: &Window) -> Option<PowerPoint> {
    let asked = page.load(offset_of!(DomainPage, frequency_mhz));
    let mhz = if asked == 0 { u64::from(domain.khz) / 1000 } else { asked };
    let is_it = |point: &&PowerPoint| point.mhz != 0 && u64::from(point.mhz) == mhz;
    domain.powers.iter().find(is_it).copied()
}

fn powers(domain: &Domain, page: &Window) -> Option<Powers> {
    let point = point(domain, page)?;
    let is_gated = page.load(offset_of!(DomainPage, gate_idle)) != 0;
    let idle = if is_gated { point.gated_uw } else { point.idle_uw };
    Some(Powers { active: point.active_uw, idle, resting: domain.inactive_uw })
}

/// Writes this domain's sample; the version follows from the page. One core does so at a time.
fn write(page: &impl Words, sample: &PowerSample) {
    // It is odd if an earlier life of this kernel has died here.
    let version = page.load(SAMPLE) | 1;
    page.store(SAMPLE, version);
    page.barrier(); // the odd version is seen before the words change
    for (at, word) in (1..).zip(words(sample)) {
        page.store(SAMPLE + 8 * at, word);
    }
    page.barrier(); // the words are seen before the even version
    page.store(SAMPLE, version.wrapping_add(1));
}

/// Reads a domain's sample. `None` if it has none, or did not finish writing it.
fn read(page: &impl Words) -> Option<PowerSample> {
    (0..TRIES).find_map(|_| {
        let version = page.load(SAMPLE);
        page.barrier(); // the words are read after the version that makes them valid
        let words = core::array::from_fn(|at| page.load(SAMPLE + 8 * (at + 1)));
        page.barrier(); // and before it is looked at again
        let is_whole = version.is_multiple_of(2) && version != 0 && page.load(SAMPLE) == version;
        is_whole.then(|| sample(version, words))
    })
}

fn words(s: &PowerSample) -> [u64; WORDS] {
    [s.at, s.booted_at, s.rests, s.resting, s.active, s.idle, s.energy, s.busy]
}

fn sample(version: u64, words: [u64; WORDS]) -> PowerSample {
    let [at, booted_at, rests, resting, active, idle, energy, busy] = words;
    PowerSample { version, at, booted_at, rests, resting, active, idle, energy, busy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::boxed::Box;
    use std::vec::Vec;

    fn page() -> Window {
        let words: Vec<AtomicU64> = (0..512).map(|_| AtomicU64::new(0)).collect();
        Window::over(Box::leak(words.into_boxed_slice()))
    }

    fn all(value: u64) -> PowerSample {
        sample(0, [value; WORDS])
    }

    #[test]
    fn a_domain_that_has_counted_nothing_has_no_sample() {
        assert_eq!(read(&page()), None);
    }

    /// A page whose domain writes a sample just before the reader's load number `at`, as far as
    /// store number `stores`.
    struct Racing {
        page: Window,
        at: Cell<usize>,
        stores: usize,
    }

    /// A page whose domain dies after some stores.
    struct Dying<'a>(&'a Window, Cell<usize>);

    impl Words for Dying<'_> {
        fn load(&self, at: usize) -> u64 {
            self.0.load(at)
        }
        fn store(&self, at: usize, value: u64) {
            if let Some(left) = self.1.get().checked_sub(1) {
                self.1.set(left);
                self.0.store(at, value);
            }
        }
        fn barrier(&self) {}
    }

    impl Words for Racing {
        fn load(&self, at: usize) -> u64 {
            if self.at.replace(self.at.get().wrapping_sub(1)) == 0 {
                write(&Dying(&self.page, Cell::new(self.stores)), &all(2));
            }
            self.page.load(at)
        }
        fn store(&self, _: usize, _: u64) {}
        fn barrier(&self) {}
    }

    #[test]
    fn a_reader_gets_a_whole_sample_or_none_whenever_the_writer_writes_or_dies() {
        for (at, stores) in (0..=WORDS + 2).flat_map(|at| (0..=WORDS + 2).map(move |s| (at, s))) {
            let page = page();
            write(&page, &all(1));
            let found = read(&Racing { page, at: Cell::new(at), stores });
            let found = found.map(|found| words(&found));
            let is_torn = found.is_some_and(|found| found != [1; WORDS] && found != [2; WORDS]);
            assert!(!is_torn, "written before load {at}, {stores} stores: {found:?}");
            // All loads before the write, or all of the write before the first load.
            let wanted = match (at, stores) {
                (0, stores) if stores == WORDS + 2 => Some([2; WORDS]),
                (at, _) if at == WORDS + 2 => Some([1; WORDS]),
                (_, 0) => Some([1; WORDS]),
                _ => found,
            };
            assert_eq!(found, wanted, "written before load {at}, {stores} stores");
            write(&page, &all(3));
            let next = read(&page).map(|found| words(&found));
            assert_eq!(next, Some([3; WORDS]), "the next life writes over a half-written sample");
        }
    }

    fn described() -> Domain {
        let point = PowerPoint { mhz: 350, active_uw: 79_800, idle_uw: 25_200, gated_uw: 5 };
        let none = PowerPoint::default();
        let powers = [point, PowerPoint { mhz: 1200, ..point }, none, none];
        Domain { cores: 2, khz: 350_000, inactive_uw: 100, powers, ..Domain::default() }
    }

    #[test]
    fn powers_follow_the_frequency_and_the_gated_clock() {
        let (page, domain) = (page(), described());
        let idle = |page: &Window| powers(&domain, page).map(|powers| powers.idle);
        assert_eq!((point(&domain, &page).map(|p| p.mhz), idle(&page)), (Some(350), Some(25_200)));
        page.store(offset_of!(DomainPage, gate_idle), 1);
        page.store(offset_of!(DomainPage, frequency_mhz), 1200);
        assert_eq!((point(&domain, &page).map(|p| p.mhz), idle(&page)), (Some(1200), Some(5)));
        page.store(offset_of!(DomainPage, frequency_mhz), 351);
        assert_eq!(point(&domain, &page), None, "the file has no such frequency");
        let unknown = Domain { powers: [PowerPoint::default(); 4], khz: 0, ..domain };
        page.store(offset_of!(DomainPage, frequency_mhz), 0);
        assert_eq!(point(&unknown, &page), None, "frequency 0 is no point");
    }

    #[test]
    fn a_kernel_that_does_not_run_or_publish_is_not_busy() {
        let sample = PowerSample { at: 5 * STALE, busy: 70, ..all(0) };
        let at = |state, now| latest(state, &sample, now);
        assert_eq!((at(state::RUNNING, 5 * STALE), at(state::RUNNING, 0)), (Some(70), Some(70)));
        assert_eq!(at(state::RUNNING, 6 * STALE + 1), Some(0));
        assert_eq!((at(state::RESTING, 5 * STALE), at(state::OFF, 5 * STALE)), (Some(0), Some(0)));
        let new = PowerSample { busy: UNKNOWN_USE, ..sample };
        assert_eq!(latest(state::RUNNING, &new, 5 * STALE), None);
        let absurd = PowerSample { busy: 1 << 31, ..sample };
        assert_eq!(latest(state::RUNNING, &absurd, 5 * STALE), Some(100), "from another kernel");
    }

    #[test]
    fn the_present_rest_is_part_of_the_report() {
        let second = 1_000_000_000;
        let before = all(5);
        let mut report = Report {
            state: state::RESTING,
            sample: before,
            age: second,
            active_uw: None,
            measured: None,
        };
        add_rest(&mut report, &described());
        assert_eq!((report.age, report.sample.at), (0, 5 + second));
        assert_eq!(report.sample.resting, 5 + second);
        assert_eq!(report.sample.energy, 5 + 2 * 100_000, "two cores, a second, 100 uW");
    }
}
