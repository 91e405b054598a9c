//! Path resolution and its confinement, listings during changes, mounts.

use crate::common::Solo;
use abi::fs::{Errno, Op, Request, flag, kind};
use base::prng::Prng;
use fs::client::{Client, Listed};
use std::collections::BTreeSet;

const CREATE: u16 = flag::READ | flag::WRITE | flag::CREATE;
const FOLLOW: u16 = flag::READ | flag::FOLLOW;

fn file(c: &mut Client<'_>, directory: u64, path: &[u8]) {
    let handle = c.open(directory, path, CREATE).unwrap();
    c.close(handle).unwrap();
}

/// Creates `/out`, and `/box` as the directory that a program may use.
fn boxed() -> (Solo, u64, u64) {
    let mut solo = Solo::new(1 << 22);
    let root = solo.root();
    let inside = solo.with(|c| {
        file(c, root, b"out");
        c.mkdir(root, b"box").unwrap();
        c.mkdir(root, b"box/d").unwrap();
        file(c, root, b"box/d/f");
        c.open(root, b"box", flag::READ | flag::DIRECTORY).unwrap()
    });
    (solo, root, inside)
}

#[test]
fn no_path_and_no_link_leads_out_of_a_directory() {
    let (mut solo, _, inside) = boxed();
    solo.with(|c| {
        let links: [(&[u8], &[u8]); 6] = [
            (b"../out", b"up"),
            (b"/out", b"absolute"),
            (b"d/../../out", b"around"),
            (b"up", b"twice"),
            (b"..", b"parent"),
            (b"../../out", b"d/far"),
        ];
        for (text, path) in links {
            c.symlink(inside, text, path).unwrap();
        }
        let paths: [&[u8]; 12] = [
            b"../out",
            b"/out",
            b"d/../../out",
            b"up",
            b"absolute",
            b"around",
            b"twice",
            b"parent",
            b"parent/out",
            b"d/far",
            b"d/../..",
            b"./../box/d/f",
        ];
        for path in paths {
            assert_eq!(c.open(inside, path, FOLLOW), Err(Errno::Perm), "{path:?}");
        }
        assert!(c.open(inside, b"d/../d/./f", FOLLOW).is_ok());
        // What counts is where the path starts, not where the directory is.
        let deep = c.open(inside, b"d", flag::READ).unwrap();
        assert_eq!(c.open(deep, b"../d/f", FOLLOW), Err(Errno::Perm));
        assert_eq!(c.open(deep, b"f", FOLLOW).map(|_| ()), Ok(()));
        for (old, new) in [(b"f".as_slice(), b"../g".as_slice()), (b"../d/f", b"g")] {
            assert_eq!(c.rename(deep, old, deep, new), Err(Errno::Perm));
            assert_eq!(c.link(deep, old, deep, new), Err(Errno::Perm));
        }
    });
}

#[test]
fn a_moved_directory_still_confines_its_paths() {
    let (mut solo, root, inside) = boxed();
    solo.with(|c| {
        let deep = c.open(inside, b"d", flag::READ).unwrap();
        c.rename(inside, b"d", root, b"elsewhere").unwrap();
        assert!(c.open(deep, b"f", FOLLOW).is_ok());
        assert_eq!(c.open(deep, b"../out", FOLLOW), Err(Errno::Perm));
    });
}

#[test]
fn forty_links_are_followed_and_no_more() {
    let (mut solo, _, inside) = boxed();
    solo.with(|c| {
        c.symlink(inside, b"d/f", b"0").unwrap();
        for at in 1..41 {
            c.symlink(inside, format!("{}", at - 1).as_bytes(), format!("{at}").as_bytes())
                .unwrap();
        }
        assert!(c.open(inside, b"39", FOLLOW).is_ok());
        assert_eq!(c.open(inside, b"40", FOLLOW), Err(Errno::Loop));
        c.symlink(inside, b"self", b"self").unwrap();
        assert_eq!(c.open(inside, b"self", FOLLOW), Err(Errno::Loop));
        assert_eq!(c.open(inside, b"self/x", FOLLOW), Err(Errno::Loop));
        assert_eq!(c.open(inside, b"0", flag::READ), Err(Errno::Loop), "a link, not followed");
    });
}

#[test]
fn links_that_multiply_are_bounded() {
    let (mut solo, _, inside) = boxed();
    solo.with(|c| {
        let text = b"d/../".repeat(380);
        c.symlink(inside, &text, b"long").unwrap();
        assert!(c.stat_path(inside, b"long", flag::FOLLOW).is_ok());
        let many = b"long/".repeat(10);
        assert_eq!(c.stat_path(inside, &many, flag::FOLLOW), Err(Errno::Nametoolong));
    });
}

#[test]
fn a_dangling_link_creates_its_target_and_a_slash_means_a_directory() {
    let (mut solo, _, inside) = boxed();
    solo.with(|c| {
        c.symlink(inside, b"d/new", b"link").unwrap();
        file(c, inside, b"plain");
        assert_eq!(c.open(inside, b"link", CREATE | flag::EXCLUSIVE), Err(Errno::Exist));
        assert!(c.open(inside, b"link", CREATE | flag::FOLLOW).is_ok());
        assert_eq!(c.stat_path(inside, b"d/new", 0).map(|s| s.kind), Ok(kind::FILE));
        assert_eq!(c.open(inside, b"plain/", FOLLOW), Err(Errno::Notdir));
        assert_eq!(c.open(inside, b"fresh/", CREATE), Err(Errno::Isdir));
        assert_eq!(c.unlink(inside, b"plain/"), Err(Errno::Notdir));
        assert_eq!(c.symlink(inside, b"x", b"y/"), Err(Errno::Noent));
        assert_eq!(c.rename(inside, b"plain", inside, b"new/"), Err(Errno::Notdir));
        c.mkdir(inside, b"made/").unwrap();
        c.rename(inside, b"made/", inside, b"moved/").unwrap();
        c.rmdir(inside, b"moved/").unwrap();
        assert_eq!(c.mkdir(inside, b""), Err(Errno::Noent));
    });
}

#[test]
fn rename_replaces_as_in_posix_and_makes_no_cycles() {
    let (mut solo, _, top) = boxed();
    solo.with(|c| {
        c.mkdir(top, b"a").unwrap();
        c.mkdir(top, b"a/b").unwrap();
        c.mkdir(top, b"empty").unwrap();
        file(c, top, b"one");
        file(c, top, b"two");
        for (old, new, error) in [
            (b"a".as_slice(), b"a/b/c".as_slice(), Errno::Inval),
            (b"a", b"a/b", Errno::Inval),
            (b"a/b", b"a", Errno::Notempty),
            (b"one", b"a", Errno::Isdir),
            (b"a", b"one", Errno::Notdir),
            (b"a", b"d", Errno::Notempty),
            (b"none", b"one", Errno::Noent),
            (b".", b"x", Errno::Busy),
            (b"a/..", b"x", Errno::Busy),
        ] {
            assert_eq!(c.rename(top, old, top, new), Err(error), "{old:?} {new:?}");
        }
        let node = c.stat_path(top, b"one", 0).unwrap().node;
        c.rename(top, b"one", top, b"two").unwrap();
        assert_eq!(c.stat_path(top, b"two", 0).map(|s| s.node), Ok(node));
        c.link(top, b"two", top, b"three").unwrap();
        c.rename(top, b"two", top, b"three").unwrap();
        assert_eq!(
            c.stat_path(top, b"two", 0).map(|s| s.links),
            Ok(2),
            "one file: nothing happens"
        );
        c.rename(top, b"a", top, b"empty").unwrap();
        assert_eq!(c.stat_path(top, b"empty/b", 0).map(|s| s.kind), Ok(kind::DIRECTORY));
    });
}

#[test]
fn a_removed_directory_is_empty_and_accepts_no_entries() {
    let (mut solo, _, top) = boxed();
    solo.with(|c| {
        c.mkdir(top, b"gone").unwrap();
        let gone = c.open(top, b"gone", flag::READ).unwrap();
        c.rmdir(top, b"gone").unwrap();
        assert_eq!(c.list(gone, 1000), Ok(Vec::new()));
        assert_eq!(c.open(gone, b"x", CREATE), Err(Errno::Noent));
        assert_eq!(c.rename(top, b"d", gone, b"x"), Err(Errno::Noent));
        assert_eq!(c.link(top, b"d/f", gone, b"x"), Err(Errno::Noent));
        assert_eq!(c.stat(gone).map(|s| s.links), Ok(0));
    });
}

#[test]
fn a_listing_during_changes_shows_each_kept_entry_once() {
    for seed in 0..30 {
        let mut random = Prng::new(seed);
        let mut solo = Solo::new(1 << 22);
        let root = solo.root();
        let name = |number: u64| format!("file {number}").into_bytes();
        solo.with(|c| {
            (0..200).for_each(|number| file(c, root, &name(number)));
            // Even names stay. Odd ones are created, removed, and renamed onto even ones.
            let (mut seen, mut from) = (Vec::<Listed>::new(), 0);
            loop {
                let (some, end) = c.list_some(root, from, 400).unwrap();
                from = some.last().map_or(from, |entry| entry.next);
                seen.extend(some);
                if end {
                    break;
                }
                for _ in 0..20 {
                    let odd = name(2 * random.below(150) + 1);
                    match random.below(3) {
                        0 => drop(c.unlink(root, &odd)),
                        1 => drop(c.open(root, &odd, CREATE).map(|h| c.close(h))),
                        _ => drop(c.rename(root, &odd, root, &name(2 * random.below(100)))),
                    }
                }
            }
            for even in (0..200).step_by(2) {
                let count = seen.iter().filter(|entry| entry.name == name(even)).count();
                assert_eq!(count, 1, "seed {seed}: {even}");
            }
            let cookies: Vec<u64> = seen.iter().map(|entry| entry.next).collect();
            assert!(cookies.is_sorted());
        });
    }
}

#[test]
fn ten_thousand_entries_are_made_listed_and_removed() {
    let mut solo = Solo::new(1 << 24);
    let root = solo.root();
    let free = solo.with(|c| c.space(root)).unwrap();
    solo.with(|c| {
        let names: BTreeSet<Vec<u8>> =
            (0..10_000).map(|number| format!("entry {number}").into_bytes()).collect();
        names.iter().for_each(|name| file(c, root, name));
        let listed = c.list(root, 4096).unwrap();
        assert_eq!(listed.len(), 10_002);
        let found: BTreeSet<Vec<u8>> = listed.into_iter().skip(2).map(|entry| entry.name).collect();
        assert_eq!(found, names);
        assert_eq!(c.list_some(root, 0, 20), Err(Errno::Inval), "no room for one");
        names.iter().for_each(|name| c.unlink(root, name).unwrap());
        assert_eq!(c.space(root), Ok(free));
    });
}

fn mount(solo: &mut Solo, root: u64, path: &[u8], budget: u64) -> Errno {
    let request =
        Request { name: path.len() as u16, length: budget, ..Request::new(Op::Mount, root) };
    solo.ask(request, &mut path.to_vec()).errno()
}

#[test]
fn a_mounted_file_system_is_separate() {
    let (mut solo, root, _) = boxed();
    solo.with(|c| file(c, root, b"box/d/hidden"));
    assert_eq!(mount(&mut solo, root, b"box/d", 100_000), Errno::Success);
    assert_eq!(mount(&mut solo, root, b"box/d", 100_000), Errno::Exist);
    assert_eq!(mount(&mut solo, root, b".", 100_000), Errno::Inval);
    assert_eq!(mount(&mut solo, root, b"out", 100_000), Errno::Notdir);
    solo.with(|c| {
        assert_eq!(c.stat_path(root, b"box/d/hidden", 0), Err(Errno::Noent));
        file(c, root, b"box/d/new");
        let deep = c.open(root, b"box/d", flag::READ).unwrap();
        assert_eq!(c.space(deep).unwrap().0, 100_000);
        assert_eq!(c.stat(deep).unwrap().device, 2);
        assert!(c.open(root, b"box/d/../d/new", FOLLOW).is_ok(), "back through the mount");
        assert_eq!(c.rename(root, b"out", root, b"box/d/out"), Err(Errno::Xdev));
        assert_eq!(c.link(root, b"out", root, b"box/d/out"), Err(Errno::Xdev));
        assert_eq!(c.rmdir(root, b"box/d"), Err(Errno::Busy));
        assert_eq!(c.rename(root, b"box/d", root, b"x"), Err(Errno::Busy));
        c.mkdir(root, b"dir").unwrap();
        assert_eq!(c.rename(root, b"dir", root, b"box/d"), Err(Errno::Busy));
        c.rename(root, b"box", root, b"dir").unwrap();
        assert!(c.open(root, b"dir/d/new", FOLLOW).is_ok(), "mounts move along");
    });
    for number in 0..16 {
        let name = format!("m{number}").into_bytes();
        solo.with(|c| c.mkdir(root, &name)).unwrap();
        let expected = if number < 14 { Errno::Success } else { Errno::Nfile };
        assert_eq!(mount(&mut solo, root, &name, 1000), expected);
    }
}
