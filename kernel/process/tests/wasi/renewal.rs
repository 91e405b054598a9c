//! Preopened directories after the file service has restarted without its state.

use crate::common::*;
use abi::fs::flag;
use fs::Vfs;
use kernel_process::begin::{PassedFile, Plan, decode, encode};
use kernel_process::table::Preopen;
use kernel_process::wasi::rights;
use kernel_process::{Installed, Object, Process};

const STALE: u16 = 72;
const EXIST: u16 = 20;
const EXCL: u64 = 4;
/// Another preopened directory.
const HOME: u64 = 4;

const fn at_path(name: &[u8]) -> Option<Preopen<'_>> {
    Some(Preopen { name, is_path: true })
}

/// Makes `/home`, which is not the first directory.
fn furnish(program: &mut Program) {
    let root = program.world.with(|c| c.root()).unwrap();
    program.world.with(|c| c.mkdir(root, b"first")).unwrap();
    program.world.with(|c| c.mkdir(root, b"home")).unwrap();
}

/// A program with `/`, which is descriptor 3, and `/home`, whose paths are known.
fn program() -> Program {
    let mut program = Program::new();
    furnish(&mut program);
    give(&mut program, &[(DIR, "/", at_path(b"/")), (HOME, "/home", at_path(b"/home"))]);
    program
}

fn give(program: &mut Program, all: &[(u64, &str, Option<Preopen<'_>>)]) {
    for &(number, path, preopen) in all {
        let root = program.world.with(|c| c.root()).unwrap();
        let opened = program.world.with(|c| match path {
            "/" => c.dup(root),
            _ => {
                c.open(root, path.trim_start_matches('/').as_bytes(), flag::READ | flag::DIRECTORY)
            }
        });
        let _ = program.process.table().take(number as u32);
        let rights = (ALL, ALL);
        program
            .process
            .give(&mut program.world, number as u32, opened.unwrap(), rights, preopen)
            .unwrap();
    }
}

/// The service loses its state, and starts its life `life`.
fn restart(program: &mut Program, life: u32) {
    program.world.vfs = Vfs::with_budget(life, 4 << 20);
    furnish(program);
}

fn mkdir(program: &mut Program, directory: u64, path: &str) -> u16 {
    program.put(PATH, path.as_bytes());
    program.call("path_create_directory", &[directory, PATH, path.len() as u64])
}

fn stat(program: &mut Program, directory: u64, path: &str) -> u16 {
    program.put(PATH, path.as_bytes());
    let length = path.len() as u64;
    program.call("path_filestat_get", &[directory, FOLLOW, PATH, length, RESULT])
}

#[test]
fn files_can_be_opened_by_path_and_those_that_were_open_stay_invalid() {
    let mut program = program();
    let old = program.file("kept", b"");
    restart(&mut program, 4);
    assert_eq!(stat(&mut program, DIR, "home"), 0);
    let new = program.open("kept", CREAT, rights::FD_WRITE).unwrap();
    assert_ne!(old, new);
    assert_eq!(program.call("fd_tell", &[old, RESULT]), STALE);
    assert_eq!(stat(&mut program, HOME, "."), 0);
    // The C library asks for the directory's rights first.
    restart(&mut program, 20);
    program.ok("fd_fdstat_get", &[DIR, RESULT]);
    program.ok("fd_filestat_get", &[HOME, RESULT]);
    assert_eq!(program.call("fd_fdstat_get", &[old, RESULT]), STALE);
    // Only what the process has is open.
    let before = program.world.vfs.census();
    program.process.close_all(&mut program.world);
    assert!(program.world.vfs.census() < before);
}

#[test]
fn what_cannot_be_repeated_fails_once() {
    let mut program = program();
    restart(&mut program, 5);
    assert_eq!([1, 2, 3].map(|_| mkdir(&mut program, DIR, "new")), [STALE, 0, EXIST]);
    restart(&mut program, 6);
    let exclusive = |program: &mut Program| program.open("x", CREAT | EXCL, rights::FD_WRITE);
    assert_eq!(exclusive(&mut program), Err(STALE));
    assert!(exclusive(&mut program).is_ok());
    restart(&mut program, 7);
    mkdir(&mut program, HOME, "a");
    mkdir(&mut program, HOME, "a");
    restart(&mut program, 8);
    // Both directories are valid afterwards.
    let rename = |program: &mut Program| {
        program.put(PATH, b"home");
        program.put(OTHER, b"b");
        program.call("path_rename", &[DIR, PATH, 4, HOME, OTHER, 1])
    };
    assert_eq!(rename(&mut program), STALE);
    assert_eq!([DIR, HOME].map(|fd| mkdir(&mut program, fd, "c")), [0, 0]);
}

#[test]
fn another_directory_at_that_path_is_not_taken() {
    let mut program = program();
    program.world.vfs = Vfs::with_budget(4, 4 << 20);
    let root = program.world.with(|c| c.root()).unwrap();
    program.world.with(|c| c.mkdir(root, b"home")).unwrap();
    assert_eq!(stat(&mut program, HOME, "."), STALE);
    program.world.with(|c| c.rmdir(root, b"home")).unwrap();
    assert_eq!(stat(&mut program, HOME, "."), STALE);
    assert_eq!(stat(&mut program, DIR, "."), 0);
}

#[test]
fn a_name_that_is_no_path_says_nothing() {
    let mut program = program();
    give(&mut program, &[(DIR, "/home", named(b"/"))]);
    restart(&mut program, 9);
    assert_eq!(stat(&mut program, DIR, "."), STALE);
    assert_eq!(stat(&mut program, HOME, "."), 0);
}

/// A child's directory is at a path if its parent's is, and keeps its name.
#[test]
fn a_path_is_inherited_with_its_name_only() {
    let program = program();
    let table = program.process.table();
    assert!(table.is_at(HOME as u32, b"/home") && !table.is_at(HOME as u32, b"/"));
    let bytes = {
        let object = Object::File(1);
        let given = |descriptor, preopen| PassedFile {
            object,
            rights: 0,
            inheriting: 0,
            descriptor,
            preopen,
        };
        let files = [given(3, at_path(b"/home")), given(4, named(b"/"))];
        encode(&Plan { path: b"x", files: &files, ..Plan::default() }).unwrap()
    };
    let passed = decode(&bytes).unwrap();
    let all: Vec<_> = passed.passed().map(|file| file.preopen.unwrap().is_path).collect();
    assert_eq!(all, [true, false]);
}

#[test]
fn a_process_of_the_parents_directories_is_renewed_too() {
    let mut program = program();
    let handle = program.process.table().get(HOME as u32).unwrap().object;
    let files = [PassedFile {
        object: handle,
        rights: ALL,
        inheriting: ALL,
        descriptor: 3,
        preopen: at_path(b"/home"),
    }];
    let bytes = encode(&Plan { path: b"x", files: &files, ..Plan::default() }).unwrap();
    let installed = Installed { descriptors: 64, folders: true, signals: false };
    let child = Process::begin(&mut program.world, &decode(&bytes).unwrap(), installed).unwrap();
    program.process.close_all(&mut program.world);
    program.process = child;
    restart(&mut program, 10);
    assert_eq!(stat(&mut program, DIR, "."), 0);
}
