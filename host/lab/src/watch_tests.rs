//! Reports, lines lost in a power-off, a dead holder of the lock.

use super::*;
use crate::report;

const BASE: u64 = 0x4000_0000;
const BYTES: u64 = 1 << 20;

fn domain(number: u8) -> Domain {
    Domain::new(number).expect("a domain")
}

fn access(number: u8, pa: u64, pc: u64) -> Access {
    Access { domain: domain(number), pa, len: 8, pc }
}

fn watch(folder: &Path) -> Watch {
    let memory = Memory { base: BASE, bytes: BYTES, ..Memory::default() };
    let lab = Lab { memory, ..Lab::default() };
    Watch::open(folder, &folder.join("ram"), &lab).expect("a watch")
}

/// Cleans a line and executes a barrier.
fn clean(watch: &Watch, number: u8, pa: u64, drops: bool) {
    let line = watch.begin(domain(number), pa, drops);
    watch.clean(domain(number), [(&pa, &line)]);
}

#[test]
fn two_processes_share_a_state_and_a_report_says_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (watch(folder.path()), watch(folder.path()));
    one.store(access(0, BASE + 8, 0x10), Way::Cached);
    two.load(access(1, BASE, 0x20), Way::Cached);
    two.load(access(1, BASE, 0x20), Way::Cached);
    one.store(access(0, BASE + 64, 0x30), Way::Cached);
    clean(&one, 0, BASE + 64, false);
    two.load(access(1, BASE + 64, 0x40), Way::Cached);
    let all = report::read(folder.path()).expect("reports");
    assert_eq!(all.len(), 1, "{all:?}");
    let found = &all[0];
    assert_eq!((found.kind.as_str(), found.line), ("missing clean", BASE));
    assert_eq!((found.access.party, found.access.pc), (1, 0x20));
    assert_eq!(found.writer.map(|writer| writer.pc), Some(0x10));
    let missing = found.missing.clone().expect("an operation");
    assert_eq!((missing.by, missing.operation.as_str()), (0, "clean"));
}

#[test]
fn a_power_off_loses_what_was_not_cleaned() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = watch(folder.path());
    let write = |pa: u64, value: u64| {
        watch.ram[((pa - BASE) / 8) as usize].store(value, RELAXED);
        watch.store(access(0, pa, 1), Way::Cached);
    };
    let read = |pa: u64| watch.ram[((pa - BASE) / 8) as usize].load(RELAXED);
    let (never, again, cleaned) = (BASE, BASE + 64, BASE + 128);
    [never, again, cleaned].into_iter().for_each(|pa| write(pa, 1));
    [again, cleaned].into_iter().for_each(|pa| clean(&watch, 0, pa, false));
    write(again, 2);
    assert_eq!(watch.lose(domain(0), &[], true), 2);
    assert_eq!([never, again, cleaned].map(read), [LOST, 1, 1]);
    for pa in [never, again, cleaned] {
        watch.load(access(0, pa, 7), Way::Cached);
    }
    let all = report::read(folder.path()).expect("reports");
    assert_eq!(all.iter().map(|report| report.line).collect::<Vec<_>>(), [never]);
    watch.boots(domain(0), &[]);
    watch.load(access(0, never, 8), Way::Cached);
    assert_eq!(
        report::read(folder.path()).expect("reports").len(),
        1,
        "a cold boot expects nothing"
    );
}

#[test]
fn what_was_cleaned_is_not_put_back_over_what_memory_got_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = watch(folder.path());
    let word = |pa: u64| &watch.ram[((pa - BASE) / 8) as usize];
    let (past, device, booted) = (BASE, BASE + 64, BASE + 128);
    for pa in [past, device, booted] {
        watch.store(access(0, pa, 1), Way::Cached);
        clean(&watch, 0, pa, true);
    }
    watch.store(access(0, past, 2), Way::Uncached);
    watch.device_write(device, 8, 2);
    watch.boots(domain(0), &[]);
    for pa in [past, device, booted] {
        word(pa).store(3, RELAXED);
        watch.store(access(0, pa, 3), Way::Cached);
    }
    assert_eq!(watch.lose(domain(0), &[], true), 3);
    assert_eq!([past, device, booted].map(|pa| word(pa).load(RELAXED)), [LOST; 3]);
    assert_eq!(report::read(folder.path()).expect("reports"), []);
}

#[test]
fn an_uncached_write_ends_what_was_cleaned() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = watch(folder.path());
    watch.store(access(0, BASE, 1), Way::Cached);
    watch.store(access(0, BASE, 1), Way::Uncached);
    clean(&watch, 0, BASE, true);
    // Polled by its own domain and not held: only the copy distinguishes it from an unused line.
    watch.store(access(0, BASE, 2), Way::Uncached);
    watch.store(access(0, BASE, 3), Way::Cached);
    watch.ram[0].store(3, RELAXED);
    assert_eq!(watch.lose(domain(0), &[], true), 1);
    assert_eq!(watch.ram[0].load(RELAXED), LOST);
}

#[test]
fn a_death_leaves_what_others_wrote_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = watch(folder.path());
    let (device, changed, own) = (BASE, BASE + 64, BASE + 128);
    for pa in [device, changed, own] {
        watch.store(access(0, pa, 1), Way::Cached);
    }
    watch.device_write(device, 64, 2);
    watch.store(access(1, changed, 2), Way::Cached);
    for pa in [device, changed, own] {
        watch.ram[((pa - BASE) / 8) as usize].store(2, RELAXED);
    }
    assert_eq!(watch.lose(domain(0), &[], false), 1);
    let words = [device, changed, own].map(|pa| (pa - BASE) / 8);
    assert_eq!(words.map(|at| watch.ram[at as usize].load(RELAXED)), [2, 2, LOST]);
}

#[test]
fn changes_that_were_dropped_stay_lost_while_a_domain_is_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = watch(folder.path());
    let (own, other) = (BASE, BASE + 64);
    for (number, pa) in [(0, own), (1, other)] {
        watch.store(access(number, pa, 1), Way::Cached);
        watch.invalidate(domain(number), pa);
    }
    watch.load(access(0, BASE + 128, 1), Way::Cached);
    assert_eq!(watch.lose(domain(0), &[], true), 0, "what was dropped is not lost with the power");
    watch.load(access(0, own, 2), Way::Cached);
    watch.load(access(1, other, 3), Way::Cached);
    let all = report::read(folder.path()).expect("reports");
    let found: Vec<_> = all.iter().map(|report| (report.kind.as_str(), report.line)).collect();
    assert_eq!(found, [("lost update", own), ("lost update", other)]);
}

#[test]
fn code_is_fetched_after_it_was_unified() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = watch(folder.path());
    for (pa, unified) in [(BASE, false), (BASE + 64, true), (BASE + 128, true)] {
        watch.store(access(0, pa, pa), Way::Cached);
        if unified {
            watch.unify(domain(0), Some(pa).filter(|_| pa == BASE + 64));
        }
        // Later writes are not.
        if pa == BASE + 128 {
            watch.store(access(0, pa, 1), Way::Cached);
        }
        watch.fetch(domain(0), pa, 8);
    }
    let all = report::read(folder.path()).expect("reports");
    let lines: Vec<u64> = all.iter().map(|report| report.line).collect();
    assert_eq!(lines, [BASE, BASE + 128]);
    assert!(all.iter().all(|report| report.kind == "fetch of uncleaned code"));
}

#[test]
fn a_dead_holder_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = watch(folder.path());
    // No process has this number.
    watch.lock.store(u64::from(u32::MAX), RELAXED);
    watch.store(access(0, BASE, 1), Way::Cached);
    assert_eq!(watch.lock.load(RELAXED), 0);
}

/// A process that only sleeps.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn new() -> Sleeper {
        let sleeper = std::process::Command::new("sleep").arg("60").spawn();
        Sleeper(sleeper.expect("a process"))
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let kill = std::process::Command::new("kill").args([name, &pid]).status();
        assert!(kill.expect("a signal").success());
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn a_stopped_holder_is_waited_for_and_a_killed_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = watch(folder.path());
    let sleeper = Sleeper::new();
    sleeper.signal("-STOP");
    let holder = u64::from(sleeper.0.id());
    watch.lock.store(holder, RELAXED);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| watch.store(access(0, BASE, 1), Way::Cached));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!waits.is_finished(), "it took the lock of one that lives");
        assert_eq!(watch.lock.load(RELAXED), holder);
        sleeper.signal("-KILL");
    });
    assert_eq!(watch.lock.load(RELAXED), 0);
}

#[test]
fn a_lock_that_another_has_taken_is_not_freed() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = watch(folder.path());
    let held = Held::take(watch.lock);
    watch.lock.store(u64::from(u32::MAX), RELAXED);
    drop(held);
    assert_eq!(watch.lock.load(RELAXED), u64::from(u32::MAX));
}

#[test]
fn a_flood_of_findings_ends_in_a_report_that_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = watch(folder.path());
    watch.store(access(0, BASE, 1), Way::Cached);
    (0..5000).for_each(|pc| watch.load(access(1, BASE, pc), Way::Cached));
    let all = report::read(folder.path()).expect("reports");
    assert!((1000..2050).contains(&all.len()), "{}", all.len());
    assert_eq!(all.iter().filter(|report| report.kind == report::MORE).count(), 1);
}
