//! Preopened directories after the file service has restarted without its state.

use crate::children::{run, spawn};
use crate::common::*;
use abi::fs::flag;
use fs::Vfs;
use fs::any::AnyFs;
use fs::ramfs::RamFs;
use kernel_process::begin::{PassedFile, Plan, decode, encode};
use kernel_process::table::Preopen;
use kernel_process::wasi::rights;
use kernel_process::{Installed, Object};

const STALE: u16 = 72;
const EXIST: u16 = 20;
const EXCL: u64 = 4;
/// Another preopened directory, on a disk.
const HOME: u64 = 4;

const fn at_path(name: &[u8]) -> Option<Preopen<'_>> {
    Some(Preopen { name, is_path: true })
}

/// Returns a handle of a directory.
fn open(program: &mut Program, path: &str) -> u64 {
    let flags = flag::READ | flag::DIRECTORY | flag::FOLLOW;
    let root = program.world.with(|c| c.root()).unwrap();
    program
        .world
        .with(|c| match path.trim_start_matches('/') {
            "" => Ok(root),
            path => c.open(root, path.as_bytes(), flags),
        })
        .unwrap()
}

fn make(program: &mut Program, path: &str) {
    let root = program.world.with(|c| c.root()).unwrap();
    program.world.with(|c| c.mkdir(root, path.as_bytes())).unwrap();
}

/// Makes a file system at `/disk` that counts as that of a disk, with `/disk/home`; and `/memory`.
fn furnish(program: &mut Program) {
    make(program, "memory");
    make(program, "disk");
    let at = open(program, "/disk");
    let disk = AnyFs::Ram(Box::new(RamFs::new(1 << 20)));
    let mount = program.world.vfs.mount(at, disk).unwrap();
    program.world.vfs.set_disk(mount, 1);
    make(program, "disk/first");
    make(program, "disk/home");
}

/// A program with `/`, which is descriptor 3, and `/disk/home`, whose paths are known.
fn program() -> Program {
    let mut program = Program::new();
    furnish(&mut program);
    give(&mut program, DIR, "/", at_path(b"/"));
    give(&mut program, HOME, "/disk/home", at_path(b"/disk/home"));
    program
}

fn give(program: &mut Program, number: u64, path: &str, preopen: Option<Preopen<'_>>) {
    let handle = open(program, path);
    let _ = program.process.table().take(number as u32);
    let Program { process, world, .. } = program;
    process.give(world, number as u32, handle, (ALL, ALL), preopen).unwrap();
}

/// The service loses its state, and starts its life `life`.
fn restart(program: &mut Program, life: u32) {
    program.world.vfs = Vfs::with_budget(life, 4 << 20);
    furnish(program);
}

fn mkdir(program: &mut Program, directory: u64, path: &str) -> u16 {
    let [at, length] = program.path(path);
    program.call("path_create_directory", &[directory, at, length])
}

fn stat(program: &mut Program, directory: u64, path: &str) -> u16 {
    let [at, length] = program.path(path);
    program.call("path_filestat_get", &[directory, FOLLOW, at, length, RESULT])
}

#[test]
fn files_can_be_opened_by_path_and_those_that_were_open_stay_invalid() {
    let mut program = program();
    let old = program.file("kept", b"");
    restart(&mut program, 4);
    assert_eq!(stat(&mut program, DIR, "disk/home"), 0);
    let new = program.open("kept", CREAT, rights::FD_WRITE).unwrap();
    assert_ne!(old, new);
    assert_eq!(program.call("fd_tell", &[old, RESULT]), STALE);
    assert_eq!(stat(&mut program, HOME, "."), 0);
    // The C library asks for the directory's rights first.
    restart(&mut program, 5);
    program.ok("fd_fdstat_get", &[DIR, RESULT]);
    program.ok("fd_filestat_get", &[HOME, RESULT]);
    assert_eq!(program.call("fd_fdstat_get", &[old, RESULT]), STALE);
}

#[test]
fn nothing_else_stays_open() {
    let mut program = program();
    restart(&mut program, 4);
    let before = program.world.vfs.census();
    assert_eq!([DIR, HOME].map(|fd| stat(&mut program, fd, ".")), [0, 0]);
    program.process.close_all(&mut program.world);
    assert_eq!(program.world.vfs.census(), before);
}

#[test]
fn a_spawn_opens_the_directory_of_its_program() {
    let mut program = program();
    restart(&mut program, 4);
    let what = spawn(&mut program);
    assert_eq!(run(&mut program, what, &[]), 0);
    let (_, bulk) = program.world.asked.pop().unwrap();
    let directory = decode(&bulk).unwrap().directory().unwrap();
    assert!(program.world.with(|c| c.stat(directory)).is_ok());
}

#[test]
fn what_cannot_be_repeated_fails_once() {
    let mut program = program();
    restart(&mut program, 4);
    assert_eq!([1, 2, 3].map(|_| mkdir(&mut program, DIR, "new")), [STALE, 0, EXIST]);
    restart(&mut program, 5);
    let exclusive = |program: &mut Program| program.open("x", CREAT | EXCL, rights::FD_WRITE);
    assert_eq!(exclusive(&mut program), Err(STALE));
    assert!(exclusive(&mut program).is_ok());
    restart(&mut program, 6);
    // Both directories are valid afterwards.
    let rename = |program: &mut Program| {
        let ([from, length], [to, other]) = (program.path("memory"), program.other("b"));
        program.call("path_rename", &[DIR, from, length, HOME, to, other])
    };
    assert_eq!(rename(&mut program), STALE);
    assert_eq!([DIR, HOME].map(|fd| mkdir(&mut program, fd, "c")), [0, 0]);
}

#[test]
fn another_directory_at_that_path_is_not_taken() {
    let mut program = program();
    restart(&mut program, 4);
    let root = open(&mut program, "/");
    program.world.with(|c| c.rmdir(root, b"disk/home")).unwrap();
    assert_eq!(stat(&mut program, HOME, "."), STALE);
    for path in ["disk/other", "disk/home"] {
        make(&mut program, path);
    }
    assert_eq!(stat(&mut program, HOME, "."), STALE);
    assert_eq!(stat(&mut program, DIR, "."), 0);
}

/// It has the right number, but it is reached by a link.
#[test]
fn links_on_the_way_are_not_followed() {
    let mut program = program();
    restart(&mut program, 4);
    let root = open(&mut program, "/");
    program.world.with(|c| c.rename(root, b"disk/home", root, b"disk/moved")).unwrap();
    program.world.with(|c| c.symlink(root, b"moved", b"disk/home")).unwrap();
    assert_eq!(stat(&mut program, DIR, "disk/home"), 0);
    assert_eq!(stat(&mut program, HOME, "."), STALE);
    give(&mut program, HOME, "/disk/moved", at_path(b"/way/home"));
    restart(&mut program, 5);
    let root = open(&mut program, "/");
    program.world.with(|c| c.symlink(root, b"disk", b"way")).unwrap();
    assert_eq!(stat(&mut program, DIR, "way/home"), 0);
    assert_eq!(stat(&mut program, HOME, "."), STALE);
}

#[test]
fn directories_in_memory_are_not_known_again_but_for_the_root() {
    let mut program = program();
    give(&mut program, HOME, "/memory", at_path(b"/memory"));
    restart(&mut program, 4);
    assert_eq!([DIR, HOME].map(|fd| stat(&mut program, fd, ".")), [0, STALE]);
}

#[test]
fn a_name_that_is_no_path_says_nothing() {
    let mut program = program();
    give(&mut program, DIR, "/disk/home", named(b"/"));
    restart(&mut program, 4);
    assert_eq!([DIR, HOME].map(|fd| stat(&mut program, fd, ".")), [STALE, 0]);
}

/// A child's directory is at a path if its parent's is, and keeps its name.
#[test]
fn a_path_is_inherited_with_its_name_only() {
    let program = program();
    let table = program.process.table();
    assert!(table.is_at(HOME as u32, b"/disk/home") && !table.is_at(HOME as u32, b"/"));
    let object = Object::File(1);
    let given =
        |descriptor, preopen| PassedFile { object, rights: 0, inheriting: 0, descriptor, preopen };
    let files = [given(3, at_path(b"/home")), given(4, named(b"/"))];
    let bytes = encode(&Plan { path: b"x", files: &files, ..Plan::default() }).unwrap();
    let passed = decode(&bytes).unwrap();
    let all: Vec<_> = passed.passed().map(|file| file.preopen.unwrap().is_path).collect();
    assert_eq!(all, [true, false]);
}

#[test]
fn a_process_with_its_parents_directory_opens_it_again_too() {
    let mut program = program();
    let files = [PassedFile {
        object: program.process.table().get(HOME as u32).unwrap().object,
        rights: ALL,
        inheriting: ALL,
        descriptor: 3,
        preopen: at_path(b"/disk/home"),
    }];
    let bytes = encode(&Plan { path: b"x", files: &files, ..Plan::default() }).unwrap();
    let installed = Installed { folders: true, signals: false };
    let child = begun(&mut program.world, 64, &bytes, installed).unwrap();
    program.process.close_all(&mut program.world);
    program.process = child;
    restart(&mut program, 4);
    assert_eq!(stat(&mut program, DIR, "."), 0);
}
