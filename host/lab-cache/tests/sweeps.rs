//! Death, boot and unreported writes; several processes with one state; addresses at the edges;
//! reports that are made only once.

mod common;

use common::{BASE, access, domain, reported, words};
use lab_cache::{Access, Atomic, AttachError, CHUNK, Domain, Kind, LINE, Model, Path, words_for};

const SIZE: u64 = 1 << 20;

#[test]
fn death_lists_the_dirty_lines_and_empties_the_cache() {
    let words = words(SIZE);
    let mut model = Model::attach(&words, BASE, SIZE).expect("words fit");
    let lines = [0, CHUNK - LINE, CHUNK, 5 * CHUNK + 3 * LINE, SIZE - LINE].map(|o| BASE + o);
    let all = reported(&mut model, |m, r| {
        for line in lines {
            m.write(access(1, line, 1), r);
            m.read(access(1, line + LINE, 2), r);
        }
        m.write(access(0, lines[2] + 2 * LINE, 3), r);
    });
    assert_eq!(all, []);
    model.clean(domain(1), lines[3]);
    let expected = [lines[0], lines[1], lines[2], lines[4]];
    assert_eq!(model.death(domain(1)).map(|lost| lost.pa).collect::<Vec<_>>(), expected);
    assert_eq!(model.death(domain(1)).count(), 0, "a domain dies once");
    let after = reported(&mut model, |m, r| {
        for line in lines {
            m.read(access(0, line, 4), r);
            m.write(access(0, line, 5), r);
        }
    });
    assert_eq!(after, [], "a dead domain holds nothing");
    assert_eq!(model.death(domain(0)).count(), lines.len() + 1);
}

#[test]
fn a_death_that_nobody_looks_at_is_complete() {
    let words = words(SIZE);
    let mut model = Model::attach(&words, BASE, SIZE).expect("words fit");
    let all = reported(&mut model, |m, r| {
        for at in (BASE..BASE + SIZE).step_by(512) {
            m.write(access(1, at, 1), r);
        }
        assert_eq!(m.death(domain(1)).next().map(|lost| lost.pa), Some(BASE));
        for at in (BASE..BASE + SIZE).step_by(64) {
            m.write(access(0, at, 2), r);
        }
    });
    assert_eq!(all, []);
}

#[test]
fn a_domain_boots_with_an_empty_cache() {
    let words = words(SIZE);
    let mut model = Model::attach(&words, BASE, SIZE).expect("words fit");
    let all = reported(&mut model, |m, r| {
        m.read(access(1, BASE, 1), r);
        m.write(access(0, BASE, 2), r);
        m.clean(domain(0), BASE);
        m.reset(domain(1));
        m.read(access(1, BASE, 3), r);
    });
    assert_eq!(all, []);
}

#[test]
fn forgotten_memory_is_new() {
    let words = words(SIZE);
    let mut model = Model::attach(&words, BASE, SIZE).expect("words fit");
    let (dropped, last) = (BASE + 2 * CHUNK, BASE + 3 * CHUNK);
    let all = reported(&mut model, |m, r| {
        m.write(access(0, BASE, 1), r);
        m.write(access(0, dropped, 1), r);
        m.invalidate(domain(0), dropped);
        m.reset(domain(0));
        m.write(access(0, BASE, 1), r);
        m.write(access(0, last, 1), r);
        m.forget(BASE, 3 * CHUNK);
        m.read(access(1, BASE, 2), r);
        m.read(access(1, dropped, 2), r);
    });
    assert_eq!(all, []);
    let kept = reported(&mut model, |m, r| m.read(access(1, last, 3), r));
    assert_eq!(kept[0].kind, Kind::MissingClean, "lines after the range are kept");
}

#[test]
fn what_a_device_wrote_is_forgotten_too() {
    let words = words(SIZE);
    let mut model = Model::attach(&words, BASE, SIZE).expect("words fit");
    let all = reported(&mut model, |m, r| {
        m.device_write(BASE, 64, 1, r);
        m.forget(BASE, 64);
        m.read(access(0, BASE, 2), r);
        m.atomic(access(1, BASE, 3), Atomic::Change, Path::Cached, r);
    });
    assert_eq!((all[0].kind, all[0].writer), (Kind::SharedAtomic, None));
}

#[test]
fn processes_share_a_state() {
    let words = words(SIZE);
    let mut main = Model::attach(&words, BASE, SIZE).expect("words fit");
    let mut shadow = Model::attach(&words, BASE, SIZE).expect("the same RAM");
    assert_eq!(reported(&mut main, |m, r| m.write(access(0, BASE, 1), r)), []);
    let told = reported(&mut shadow, |m, r| m.read(access(1, BASE, 2), r));
    assert_eq!((told[0].kind, told[0].writer.map(|s| s.pc)), (Kind::MissingClean, Some(1)));
}

#[test]
fn a_wrong_slice_is_an_error() {
    let words = words(SIZE);
    let error = |base, size| Model::attach(&words, base, size).err();
    assert_eq!(error(BASE + 8, SIZE), Some(AttachError::Unaligned { base: BASE + 8 }));
    let short = AttachError::Short { given: words_for(SIZE), needed: words_for(2 * SIZE) };
    assert_eq!(error(BASE, 2 * SIZE), Some(short));
    assert_eq!(error(BASE, SIZE), None);
    assert_eq!(error(BASE + 64, SIZE), Some(AttachError::Foreign));
    assert_eq!(error(BASE, SIZE / 2), Some(AttachError::Foreign));
    assert_eq!(short.to_string(), "the cache state has 49224 words, this RAM needs 98440");
}

#[test]
fn addresses_outside_are_ignored_and_long_accesses_touch_every_line() {
    let words = words(SIZE);
    let mut model = Model::attach(&words, BASE, SIZE).expect("words fit");
    let all = reported(&mut model, |m, r| {
        for pa in [0, BASE - 8, BASE + SIZE, u64::MAX - 7] {
            m.write(access(0, pa, 1), r);
            m.device_write(pa, 64, 1, r);
            m.clean_invalidate(domain(0), pa);
            m.read(access(1, pa, 2), r);
        }
        m.write(Access { len: 0, ..access(0, BASE, 1) }, r);
        m.read(Access { len: u64::MAX, ..access(1, BASE, 2) }, r);
    });
    assert_eq!(all, []);
    let across = reported(&mut model, |m, r| {
        m.write(Access { len: 16, ..access(0, BASE + 56, 3) }, r);
        m.invalidate(domain(1), BASE);
        m.device_read(BASE, 256, 9, r);
    });
    let lines: Vec<u64> = across.iter().map(|v| v.line).collect();
    assert_eq!(lines, [BASE, BASE + 64]);
}

#[test]
fn ram_that_ends_inside_a_line_or_chunk_has_a_last_line() {
    let size = CHUNK + 3 * LINE + 8;
    let words = words(size);
    let mut model = Model::attach(&words, BASE, size).expect("words fit");
    let all = reported(&mut model, |m, r| {
        m.write(Access { len: 64, ..access(0, BASE + size - 8, 1) }, r)
    });
    assert_eq!(all, []);
    let lost: Vec<u64> = model.death(domain(0)).map(|lost| lost.pa).collect();
    assert_eq!(lost, [BASE + CHUNK + 3 * LINE]);
}

#[test]
fn one_bug_is_told_once() {
    let words = words(SIZE);
    let mut model = Model::attach(&words, BASE, SIZE).expect("words fit");
    let all = reported(&mut model, |m, r| {
        m.write(access(0, BASE, 1), r);
        for _ in 0..1000 {
            m.read(access(1, BASE, 2), r);
        }
        m.read(access(1, BASE, 3), r);
    });
    assert_eq!(all.len(), 2, "one for each reading pc");
    assert_eq!(model.untold(), 0);
}

#[test]
fn a_flood_is_bounded_and_said_to_be() {
    let words = words(SIZE);
    let mut model = Model::attach(&words, BASE, SIZE).expect("words fit");
    let all = reported(&mut model, |m, r| {
        m.write(access(0, BASE, 1), r);
        for pc in 0..100_000 {
            m.read(access(1, BASE, pc), r);
        }
    });
    assert!(all.len() <= 2048 && all.len() > 1500, "{}", all.len());
    assert_eq!(all.len() as u64 + model.untold(), 100_000);
}

#[test]
fn there_are_eight_domains() {
    let words = words(SIZE);
    let mut model = Model::attach(&words, BASE, SIZE).expect("words fit");
    assert_eq!(Domain::new(8), None);
    let mut found = 0;
    for writer in 0..8 {
        for reader in (0..8).filter(|r| *r != writer) {
            let all = reported(&mut model, |m, r| {
                m.write(access(writer, BASE, 1), r);
                m.read(access(reader, BASE, u64::from(2 + 8 * writer + reader)), r);
                m.forget(BASE, 64);
            });
            let parties: Vec<_> =
                all.iter().map(|v| (v.access.party.number(), v.other.number())).collect();
            assert_eq!(parties, [(reader, writer)]);
            found += 1;
        }
    }
    assert_eq!(found, 56);
}
