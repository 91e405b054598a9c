//! Start data of a process.

use crate::common::*;
use abi::program::{ARGUMENTS, BEGIN_AUTHORITY, BEGIN_BYTES, BEGIN_DIRECTORY, BEGIN_ROOT, Begin};
use base::prng::Prng;
use kernel_process::Object;
use kernel_process::begin::{Folders, Limits, PassedFile, Plan, decode, encode};
use kernel_process::wasi::rights;
use kernel_process::{Errno, Halt, Installed};
use zerocopy::{FromBytes, IntoBytes};

const GIVEN: PassedFile<'static> = PassedFile {
    object: Object::File(1),
    rights: rights::FILE,
    inheriting: 0,
    descriptor: 0,
    preopen: None,
};

const INSTALLED: Installed = Installed { folders: true, signals: true };

#[test]
fn encoded_start_data_decode_to_the_same() {
    let files = [
        GIVEN,
        PassedFile { object: Object::File(2), descriptor: 3, preopen: named(b"/"), ..GIVEN },
        PassedFile { object: Object::File(9), descriptor: BEGIN_DIRECTORY, ..GIVEN },
        PassedFile {
            object: Object::File(3),
            descriptor: 4,
            preopen: named("/ö".as_bytes()),
            ..GIVEN
        },
    ];
    let plan = Plan {
        path: b"bin/ls",
        arguments: b"ls\0-l\0",
        environment: b"A=1\0",
        limits: Limits { memory: 77, descriptors: 9 },
        signals: true,
        net: Some(b"listen:80\0"),
        folders: Folders::Wanted,
        files: &files,
    };
    let bytes = encode(&plan).unwrap();
    let found = decode(&bytes).unwrap();
    assert_eq!(
        (found.path, found.arguments, found.environment),
        (plan.path, plan.arguments, plan.environment)
    );
    assert_eq!((found.limits, found.directory()), (plan.limits, Some(9)));
    assert_eq!((found.signals, found.folders), (true, Folders::Wanted));
    assert_eq!(found.net, plan.net);
    assert_eq!(found.files().collect::<Vec<_>>(), files);
    let bare = encode(&Plan { path: b"x", ..Plan::default() }).unwrap();
    assert_eq!(decode(&bare).unwrap().directory(), None);
}

#[test]
fn inconsistent_start_data_are_refused() {
    let ok = Plan { path: b"x", ..Plan::default() };
    let long = vec![0; BEGIN_BYTES];
    let many = vec![GIVEN; 129];
    let numbered = |descriptor| PassedFile { descriptor, ..GIVEN };
    let passed: Vec<_> = (0..65).map(numbered).collect();
    let mut parents = passed[..64].to_vec();
    parents.resize(128, numbered(BEGIN_AUTHORITY));
    assert!(encode(&Plan { files: &parents, ..ok }).is_ok());
    let two = [GIVEN, GIVEN];
    let odd = [PassedFile { rights: 1 << 50, ..GIVEN }];
    let nameless = [PassedFile { preopen: named(b""), ..GIVEN }];
    let nul = [PassedFile { preopen: named(b"a\0b"), ..GIVEN }];
    let program = [PassedFile { descriptor: BEGIN_DIRECTORY, preopen: named(b"a"), ..GIVEN }];
    for (plan, expected) in [
        (Plan { path: b"", ..ok }, Errno::INVAL),
        (Plan { path: b"a\0", ..ok }, Errno::INVAL),
        (Plan { path: b"\xff", ..ok }, Errno::INVAL),
        (Plan { arguments: b"a", ..ok }, Errno::INVAL),
        (Plan { environment: b"a\0b", ..ok }, Errno::INVAL),
        (Plan { arguments: &long, ..ok }, Errno::TOOBIG),
        (Plan { files: &many, ..ok }, Errno::TOOBIG),
        (Plan { files: &passed, ..ok }, Errno::INVAL),
        (Plan { files: &two, ..ok }, Errno::INVAL),
        (Plan { files: &odd, ..ok }, Errno::INVAL),
        (Plan { files: &nameless, ..ok }, Errno::INVAL),
        (Plan { files: &nul, ..ok }, Errno::INVAL),
        (Plan { files: &program, ..ok }, Errno::INVAL),
    ] {
        assert_eq!(encode(&plan), Err(expected), "{plan:?}");
    }
}

#[test]
fn decoding_arbitrary_bytes_never_panics() {
    let files = [
        GIVEN,
        PassedFile { object: Object::File(2), descriptor: 3, preopen: named(b"/"), ..GIVEN },
    ];
    let plan = Plan { path: b"bin/ls", arguments: b"ls\0", files: &files, ..Plan::default() };
    let good = encode(&plan).unwrap();
    for length in 0..good.len() {
        assert!(decode(&good[..length]).is_err());
    }
    assert!(decode(&[&good[..], &[0]].concat()).is_err());
    assert_eq!(decode(&[0; BEGIN_BYTES + 1]), Err(Errno::TOOBIG));
    let mut prng = Prng::new(5);
    let mut fine = 0;
    for _ in 0..50_000 {
        let mut bytes = good.clone();
        for _ in 0..=prng.below(3) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] = match prng.below(3) {
                0 => prng.next() as u8,
                1 => 0xff,
                _ => bytes[at].wrapping_add(1),
            };
        }
        if let Ok(found) = decode(&bytes) {
            fine += 1;
            assert_eq!(found.files().count(), 2);
        }
    }
    assert!(fine > 1000);
}

#[test]
fn a_process_starts_with_duplicated_handles() {
    let mut world = World::new();
    let root = world.with(|c| c.root()).unwrap();
    let (reader, writer) = world.with(|c| c.pipe(0)).unwrap();
    let before = world.vfs.census().0;
    let files = [
        PassedFile {
            object: Object::File(reader),
            descriptor: 0,
            rights: rights::FD_READ,
            ..GIVEN
        },
        PassedFile { object: Object::File(writer), descriptor: 7, rights: rights::ALL, ..GIVEN },
        PassedFile {
            object: Object::File(root),
            descriptor: 3,
            rights: ALL,
            inheriting: ALL,
            preopen: named(b"/"),
        },
        PassedFile { object: Object::File(root), descriptor: BEGIN_DIRECTORY, ..GIVEN },
    ];
    let plan = Plan {
        path: b"x",
        arguments: b"x\0y\0",
        environment: b"E=\0",
        files: &files,
        ..Plan::default()
    };
    let bytes = encode(&plan).unwrap();
    let process = begun(&mut world, 64, &bytes, INSTALLED).unwrap();
    assert_eq!(world.vfs.census().0, before + 3);
    let (input, output) = (writer, reader);
    let mut program = Program {
        process,
        world,
        memory: vec![0; MEMORY],
        shared: false,
        copied: 0,
        input,
        output,
        root,
    };
    program.ok("args_sizes_get", &[RESULT, RESULT + 4]);
    assert_eq!((program.u32(RESULT), program.u32(RESULT + 4)), (2, 4));
    assert_eq!(program.rights(7), (rights::STREAM, 0));
    assert_eq!(program.rights(0), (rights::FD_READ, 0));
    program.ok("fd_prestat_get", &[3, RESULT]);
    program.end();
}

#[test]
fn the_lower_limit_applies_and_zero_is_no_limit() {
    let limits = |memory, descriptors| Limits { memory, descriptors };
    let own = limits(100, 0);
    assert_eq!(own.within(limits(0, 5)), limits(100, 5));
    assert_eq!(own.within(limits(70, 5)), limits(70, 5));
    assert_eq!(own.within(limits(u64::MAX, 0)), own);
    assert_eq!(own.or(limits(7, 256)), limits(100, 256));
}

#[test]
fn arguments_and_environment_share_one_limit() {
    let string = |bytes: usize| [vec![b'a'; bytes - 1], vec![0]].concat();
    let (arguments, environment) = (string(ARGUMENTS - 100), string(100));
    let path = [b'p'; abi::fs::PATH];
    let plan = Plan { path: &path, arguments: &arguments, ..Plan::default() };
    let fits = Plan { environment: &environment, ..plan };
    let bytes = encode(&fits).unwrap();
    let mut world = World::new();
    let process = begun(&mut world, 64, &bytes, INSTALLED);
    process.unwrap().close_all(&mut world);
    let longer = string(101);
    assert_eq!(encode(&Plan { environment: &longer, ..plan }), Err(Errno::TOOBIG));
    let (mut head, rest) = Begin::read_from_prefix(&bytes).unwrap();
    head.environment += 1;
    let forged = [head.as_bytes(), rest, &[0]].concat();
    assert_eq!(decode(&forged), Err(Errno::TOOBIG));
}

#[test]
fn a_wanted_root_is_a_wanted_folder() {
    for (folders, name, wanted) in [
        (Folders::Usual, "/data", false),
        (Folders::Wanted, "/data", true),
        (Folders::Wanted, "/", false),
        (Folders::WantedWithRoot, "/", true),
    ] {
        assert_eq!(folders.has(name.as_bytes()), wanted, "{folders:?} {name}");
    }
    let bytes = encode(&Plan { path: b"x", ..Plan::default() }).unwrap();
    let (mut head, rest) = Begin::read_from_prefix(&bytes).unwrap();
    head.flags = BEGIN_ROOT;
    assert_eq!(decode(&[head.as_bytes(), rest].concat()), Err(Errno::INVAL));
}

/// A program whose manifest names directories gets those, not the root.
#[test]
fn a_manifest_with_directories_excludes_the_root() {
    let mut world = World::new();
    let root = world.with(|c| c.root()).unwrap();
    let passed = |descriptor, preopen| PassedFile {
        object: Object::File(root),
        descriptor,
        preopen,
        ..GIVEN
    };
    // Under any name, and without one.
    let names = [named(b"/"), named(b"."), named(b"//"), None];
    let files: Vec<_> = (3..).zip(names).map(|(at, name)| passed(at, name)).collect();
    let confined = Installed { folders: false, ..INSTALLED };
    let before = world.vfs.census();
    // Those that were passed on purpose, but none without a name.
    let expected = [(Folders::Usual, 0), (Folders::Wanted, 2), (Folders::WantedWithRoot, 3)];
    for (folders, count) in expected {
        let plan = Plan { path: b"x", folders, files: &files, ..Plan::default() };
        let bytes = encode(&plan).unwrap();
        let process = begun(&mut world, 64, &bytes, confined).unwrap();
        let first = if folders == Folders::WantedWithRoot { 6 } else { 3 };
        assert_eq!((process.descriptors(), process.free_descriptor(3)), (count, Ok(first)));
        process.close_all(&mut world);
        assert_eq!(world.vfs.census(), before);
    }
}

#[test]
fn a_failed_start_leaks_no_handle() {
    let mut world = World::new();
    let (reader, writer) = world.with(|c| c.pipe(0)).unwrap();
    let before = world.vfs.census();
    let good = PassedFile { object: Object::File(reader), ..GIVEN };
    for (bad, expected) in [
        (PassedFile { object: Object::File(12345), descriptor: 1, ..GIVEN }, Errno::BADF),
        (PassedFile { object: Object::File(writer), descriptor: 8, ..GIVEN }, Errno::BADF),
        (
            PassedFile {
                object: Object::File(writer),
                descriptor: 1,
                preopen: named(b"/"),
                ..GIVEN
            },
            Errno::NOTDIR,
        ),
    ] {
        let files = [good, bad];
        let bytes = encode(&Plan { path: b"x", files: &files, ..Plan::default() }).unwrap();
        let refused = begun(&mut world, 8, &bytes, INSTALLED);
        assert_eq!(refused.err(), Some(Halt::Failed(expected)));
        assert_eq!(world.vfs.census(), before);
    }
    assert_eq!(Errno::BADF.to_table(), abi::process::Errno::Badf);
    assert_eq!(Errno(72).to_table(), abi::process::Errno::Restarted);
    assert_eq!(Errno::NOTDIR.to_table(), abi::process::Errno::Io);
}
