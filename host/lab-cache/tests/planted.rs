//! One planted bug per rule, the correct version next to it, and false positives to avoid.

mod common;

use common::{BASE, access, domain, reported, words};
use lab_cache::{Access, Atomic, Event, Kind, Missing, Model, Operation, Party, Path, Violation};

const MAIN: u8 = 0;
const SHADOW: u8 = 1;
const X: u64 = BASE + 0x1000;

type Sink<'r> = &'r mut dyn FnMut(&Violation);

/// Returns the reports of a program on a fresh chip.
fn told(program: impl FnOnce(&mut Model, Sink)) -> Vec<Violation> {
    let words = words(1 << 20);
    let mut model = Model::attach(&words, BASE, 1 << 20).expect("words fit");
    reported(&mut model, program)
}

fn kinds(program: impl FnOnce(&mut Model, Sink)) -> Vec<Kind> {
    told(program).iter().map(|violation| violation.kind).collect()
}

fn missing(by: u8, operation: Operation) -> Option<Missing> {
    Some(Missing { by: domain(by).into(), operation })
}

#[test]
fn a_read_needs_the_writers_clean() {
    let all = told(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.read(access(SHADOW, X, 2), r);
    });
    let [one] = all[..] else { panic!("{all:?}") };
    assert_eq!((one.kind, one.line, one.event), (Kind::MissingClean, X, Event::Read));
    assert_eq!(one.missing, missing(MAIN, Operation::Clean));
    assert_eq!(one.writer.map(|site| (site.party.number(), site.pc)), Some((MAIN, 1)));
    assert_eq!((one.access.party.number(), one.access.pc), (SHADOW, 2));
    let right = kinds(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.clean(domain(MAIN), X);
        m.read(access(SHADOW, X, 2), r);
    });
    assert_eq!(right, []);
}

#[test]
fn a_second_read_needs_the_readers_invalidate() {
    let program = |invalidates: bool| {
        move |m: &mut Model, r: Sink| {
            m.read(access(SHADOW, X, 1), r);
            m.write(access(MAIN, X, 2), r);
            m.clean(domain(MAIN), X);
            if invalidates {
                m.invalidate(domain(SHADOW), X);
            }
            m.read(access(SHADOW, X, 3), r);
        }
    };
    let all = told(program(false));
    let [one] = all[..] else { panic!("{all:?}") };
    assert_eq!(one.kind, Kind::MissingInvalidate);
    assert_eq!(one.missing, missing(SHADOW, Operation::Invalidate));
    assert_eq!(one.other, domain(MAIN).into());
    assert_eq!(one.reader.map(|site| (site.party.number(), site.pc)), Some((SHADOW, 1)));
    assert_eq!(told(program(true)), []);
}

#[test]
fn a_write_into_an_old_copy_loses_the_others_update() {
    let all = told(|m, r| {
        m.read(access(SHADOW, X, 1), r);
        m.write(access(MAIN, X, 2), r);
        m.clean(domain(MAIN), X);
        m.write(access(SHADOW, X + 32, 3), r);
    });
    let [one] = all[..] else { panic!("{all:?}") };
    assert_eq!((one.kind, one.event), (Kind::LostUpdate, Event::Write));
    assert_eq!(one.missing, missing(SHADOW, Operation::Invalidate));
}

#[test]
fn two_domains_that_share_a_line_by_accident_are_reported() {
    let all = told(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.write(access(SHADOW, X + 56, 2), r);
        m.write(access(MAIN, X, 3), r);
    });
    assert_eq!(all.iter().map(|v| v.kind).collect::<Vec<_>>(), [Kind::TwoDirty; 2]);
    assert_eq!(all[0].missing, missing(MAIN, Operation::Clean));
    let apart = kinds(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.write(access(SHADOW, X + 64, 2), r);
    });
    assert_eq!(apart, []);
}

#[test]
fn code_must_be_cleaned_before_it_is_fetched() {
    let own = told(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.fetch(domain(MAIN), X, 4, r);
    });
    assert_eq!(own[0].kind, Kind::FetchUncleaned);
    assert_eq!(own[0].missing, missing(MAIN, Operation::Clean));
    let foreign = kinds(|m, r| {
        m.fetch(domain(SHADOW), X, 4, r);
        m.write(access(MAIN, X, 1), r);
        m.fetch(domain(SHADOW), X, 4, r);
        m.clean(domain(MAIN), X);
        m.fetch(domain(SHADOW), X, 4, r);
        m.invalidate(domain(SHADOW), X);
        m.fetch(domain(SHADOW), X, 4, r);
    });
    assert_eq!(foreign, [Kind::FetchUncleaned, Kind::MissingInvalidate]);
    let right = kinds(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.clean(domain(MAIN), X);
        m.fetch(domain(MAIN), X, 4, r);
        m.fetch(domain(SHADOW), X, 64, r);
    });
    assert_eq!(right, []);
}

#[test]
fn an_atomic_between_domains_is_none() {
    let shared = told(|m, r| {
        m.read(access(MAIN, X, 1), r);
        m.atomic(access(SHADOW, X, 2), Atomic::Change, Path::Cached, r);
    });
    let [one] = shared[..] else { panic!("{shared:?}") };
    assert_eq!((one.kind, one.missing, one.other), (Kind::SharedAtomic, None, domain(MAIN).into()));
    for what in [Atomic::Change, Atomic::ExclusiveLoad] {
        let polled = kinds(|m, r| {
            m.uncached_read(access(MAIN, X, 1), r);
            m.atomic(access(SHADOW, X, 2), what, Path::Uncached, r);
        });
        assert_eq!(polled, [Kind::SharedAtomic]);
    }
}

#[test]
fn atomics_of_one_owner_at_a_time_are_fine() {
    let handed_over = kinds(|m, r| {
        m.atomic(access(MAIN, X, 1), Atomic::Change, Path::Cached, r);
        m.clean_invalidate(domain(MAIN), X);
        m.atomic(access(SHADOW, X, 2), Atomic::Change, Path::Cached, r);
    });
    assert_eq!(handed_over, []);
}

#[test]
fn an_atomic_on_a_word_that_another_domain_polls_is_reported() {
    let uncached = kinds(|m, r| {
        m.uncached_read(access(SHADOW, X, 1), r);
        m.atomic(access(MAIN, X, 2), Atomic::Change, Path::Uncached, r);
    });
    assert_eq!(uncached, [Kind::SharedAtomic]);
}

#[test]
fn an_atomic_is_also_a_load_and_a_store() {
    let stale = kinds(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.atomic(access(SHADOW, X, 2), Atomic::Change, Path::Cached, r);
    });
    assert_eq!(stale, [Kind::SharedAtomic, Kind::TwoDirty]);
}

#[test]
fn a_wide_store_can_be_seen_half_done_by_a_poller_only() {
    let wide = |pc| Access { len: 16, ..access(MAIN, X, pc) };
    let polled = kinds(|m, r| {
        m.uncached_read(access(SHADOW, X, 1), r);
        m.atomic(wide(2), Atomic::WideStore, Path::Uncached, r);
        m.clean_invalidate(domain(MAIN), X);
        m.atomic(wide(3), Atomic::WideStore, Path::Cached, r);
    });
    assert_eq!(polled, [Kind::WideStore; 2]);
    let alias = kinds(|m, r| {
        m.read(access(SHADOW, X, 1), r);
        m.atomic(wide(2), Atomic::WideStore, Path::Uncached, r);
    });
    assert_eq!(alias, [Kind::WideStore]);
    let copied = kinds(|m, r| {
        for _ in 0..3 {
            m.invalidate(domain(MAIN), X);
            m.atomic(wide(1), Atomic::WideStore, Path::Cached, r);
            m.clean(domain(MAIN), X);
            m.invalidate(domain(SHADOW), X);
            m.read(access(SHADOW, X, 2), r);
        }
    });
    assert_eq!(copied, [], "a buffer that is handed over properly may be filled by memcpy");
}

#[test]
fn an_uncached_access_must_not_meet_a_dirty_line() {
    for by in [MAIN, SHADOW] {
        let read = told(|m, r| {
            m.write(access(MAIN, X, 1), r);
            m.uncached_read(access(by, X, 2), r);
        });
        assert_eq!(read[0].kind, Kind::UncachedAlias);
        assert_eq!(read[0].missing, missing(MAIN, Operation::Clean));
        let write = kinds(|m, r| {
            m.write(access(MAIN, X, 1), r);
            m.uncached_write(access(by, X, 2), r);
        });
        assert_eq!(write, [Kind::UncachedAlias]);
    }
    let stale = kinds(|m, r| {
        m.read(access(MAIN, X, 1), r);
        m.uncached_write(access(SHADOW, X, 2), r);
        m.uncached_write(access(SHADOW, X, 2), r);
        m.read(access(MAIN, X, 3), r);
    });
    assert_eq!(stale, [Kind::MissingInvalidate]);
}

#[test]
fn dma_out_needs_a_clean() {
    let all = told(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.device_read(X, 512, 7, r);
        m.clean(domain(MAIN), X);
        m.device_read(X, 512, 7, r);
    });
    let [one] = all[..] else { panic!("{all:?}") };
    assert_eq!(
        (one.kind, one.event, one.access.party),
        (Kind::MissingClean, Event::DeviceRead, Party::DEVICES)
    );
}

#[test]
fn dma_in_needs_an_invalidate_before() {
    let dirty = told(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.device_write(X, 512, 7, r);
    });
    assert_eq!(dirty[0].kind, Kind::LostUpdate);
    assert_eq!(dirty[0].missing, missing(MAIN, Operation::Invalidate));
    let old = kinds(|m, r| {
        m.read(access(MAIN, X, 1), r);
        m.device_write(X, 512, 7, r);
        m.read(access(MAIN, X, 2), r);
    });
    assert_eq!(old, [Kind::MissingInvalidate]);
    let right = kinds(|m, r| {
        for _ in 0..2 {
            m.write(access(MAIN, X, 1), r);
            m.invalidate(domain(MAIN), X);
            m.device_write(X, 42, 7, r);
            m.invalidate(domain(MAIN), X);
            m.read(access(MAIN, X, 2), r);
        }
    });
    assert_eq!(right, []);
}

#[test]
fn what_was_thrown_away_must_not_be_read() {
    let all = told(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.invalidate(domain(MAIN), X);
        m.read(access(MAIN, X, 2), r);
    });
    let [one] = all[..] else { panic!("{all:?}") };
    assert_eq!((one.kind, one.missing), (Kind::LostUpdate, missing(MAIN, Operation::Clean)));
    let reused = kinds(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.invalidate(domain(MAIN), X);
        m.write(access(SHADOW, X, 2), r);
        m.read(access(SHADOW, X, 3), r);
    });
    assert_eq!(reused, []);
}

#[test]
fn memory_that_changes_hands_properly_is_quiet() {
    let balloon = kinds(|m, r| {
        for round in 0..4 {
            let owner = round % 2;
            for at in (X..X + 4096).step_by(8) {
                m.write(access(owner, at, 1), r);
                m.atomic(access(owner, at, 2), Atomic::Change, Path::Cached, r);
                m.read(access(owner, at, 3), r);
            }
            for line in (X..X + 4096).step_by(64) {
                m.clean_invalidate(domain(owner), line);
            }
        }
    });
    assert_eq!(balloon, []);
}

#[test]
fn own_memory_is_nobodys_concern() {
    let own = kinds(|m, r| {
        for at in (X..X + 4096).step_by(8) {
            m.read(access(MAIN, at, 1), r);
            m.write(access(MAIN, at, 2), r);
            m.atomic(access(MAIN, at, 3), Atomic::Change, Path::Cached, r);
            m.read(access(MAIN, at, 4), r);
        }
    });
    assert_eq!(own, []);
}

#[test]
fn after_a_report_copies_stay_what_they_are() {
    let read = kinds(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.read(access(SHADOW, X, 2), r);
        m.clean(domain(MAIN), X);
        m.read(access(SHADOW, X, 2), r);
    });
    assert_eq!(read, [Kind::MissingClean, Kind::MissingInvalidate], "it may have the old value");
    let written = kinds(|m, r| {
        m.write(access(MAIN, X, 1), r);
        m.write(access(SHADOW, X, 2), r);
        m.clean(domain(MAIN), X);
        m.read(access(SHADOW, X, 3), r);
        m.clean(domain(SHADOW), X);
        m.read(access(SHADOW, X, 4), r);
        m.read(access(MAIN, X, 5), r);
    });
    let expected = [Kind::TwoDirty, Kind::MissingInvalidate, Kind::MissingInvalidate];
    assert_eq!(written, expected, "the second write-back is the newest value");
}
