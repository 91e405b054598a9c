//! `path_open`.

use crate::common::*;
use kernel_process::wasi::{fdflags, rights};

const EXCL: u64 = 4;
const TRUNC: u64 = 8;
const RW: u64 = rights::FD_READ | rights::FD_WRITE;

#[test]
fn an_opened_file_has_exactly_the_requested_rights() {
    let mut program = Program::new();
    program.file("file", b"data");
    let reader = program.open("file", 0, rights::FD_READ).unwrap();
    assert_eq!(program.rights(reader), (rights::FD_READ, 0));
    assert_eq!(program.write(reader, b"x"), Err(NOTCAPABLE));
    assert_eq!(program.read(reader, 9).unwrap(), b"data");
    let writer = program.open("file", 0, rights::FD_WRITE).unwrap();
    assert_eq!(program.write(writer, b"D"), Ok(1));
    assert_eq!(program.read(writer, 1), Err(NOTCAPABLE));
    let none = program.open("file", 0, 0).unwrap();
    assert_eq!(program.rights(none), (0, 0));
    assert_eq!(program.open("file", 0, rights::SOCK_SHUTDOWN), Err(NOTCAPABLE));
    assert_eq!(program.open("file", 0, 1 << 40), Err(NOTCAPABLE));
    let passed = program.open_as(DIR, 0, "file", 0, (0, rights::SOCK_ACCEPT), 0);
    assert_eq!(passed, Err(NOTCAPABLE));
}

#[test]
fn a_directory_limits_the_rights_of_files_in_it() {
    let mut program = Program::new();
    program.mkdir("sub");
    program.file("sub/file", b"data");
    let (base, passed) = (rights::PATH_OPEN, rights::FD_READ | rights::PATH_OPEN);
    let sub = program.open_as(DIR, 0, "sub", DIRECTORY, (base, passed), 0).unwrap();
    assert_eq!(program.rights(sub), (base, passed));
    let read = program.open_as(sub, 0, "file", 0, (rights::FD_READ, 0), 0).unwrap();
    assert_eq!(program.read(read, 9).unwrap(), b"data");
    for (how, base, inheriting) in
        [(0, rights::FD_WRITE, 0), (0, 0, rights::FD_WRITE), (CREAT, 0, 0), (TRUNC, 0, 0)]
    {
        let opened = program.open_as(sub, 0, "file", how, (base, inheriting), 0);
        assert_eq!(opened, Err(NOTCAPABLE), "{how} {base} {inheriting}");
    }
    for flags in [fdflags::DSYNC, fdflags::SYNC, fdflags::RSYNC] {
        let opened = program.open_as(sub, 0, "file", 0, (0, 0), u64::from(flags));
        assert_eq!(opened, Err(NOTCAPABLE), "{flags}");
    }
    program.open_as(sub, 0, "file", 0, (0, 0), u64::from(fdflags::APPEND)).unwrap();
    // A file cannot be used as a directory.
    assert_eq!(program.open_as(read, 0, "x", 0, (0, 0), 0), Err(54));
}

#[test]
fn create_exclusive_and_truncate_flags_work() {
    let mut program = Program::new();
    assert_eq!(program.open("file", 0, RW), Err(44));
    program.file("file", b"data");
    program.open("file", CREAT, RW).unwrap();
    assert_eq!(program.open("file", CREAT | EXCL, RW), Err(20));
    program.open("new", CREAT | EXCL, RW).unwrap();
    // Truncating needs a right of the directory, not the right to write.
    program.open("file", TRUNC, 0).unwrap();
    let [at, length] = program.path("file");
    program.ok("path_filestat_get", &[DIR, 0, at, length, RESULT]);
    assert_eq!(program.u64(RESULT + 32), 0);
    program.drop_rights(DIR, 0, rights::FD_FILESTAT_SET_SIZE);
    let low = ALL & !rights::FD_FILESTAT_SET_SIZE;
    program.open_as(DIR, 0, "file", TRUNC, (0, low), 0).unwrap();
    program.drop_rights(DIR, rights::PATH_FILESTAT_SET_SIZE, 0);
    assert_eq!(program.open_as(DIR, 0, "file", TRUNC, (0, 0), 0), Err(NOTCAPABLE));
    program.drop_rights(DIR, rights::PATH_CREATE_FILE, 0);
    assert_eq!(program.open_as(DIR, 0, "more", CREAT, (0, 0), 0), Err(NOTCAPABLE));
    program.drop_rights(DIR, rights::PATH_OPEN, 0);
    assert_eq!(program.open_as(DIR, 0, "file", 0, (0, 0), 0), Err(NOTCAPABLE));
}

#[test]
fn directories_cannot_be_opened_for_writing() {
    let mut program = Program::new();
    let (base, inheriting) = program.rights(DIR);
    let same = program.open_as(DIR, 0, ".", 0, (base, inheriting), 0).unwrap();
    assert_eq!(program.rights(same), (base, inheriting));
    program.open_as(DIR, 0, ".", 0, (0, 0), 0).unwrap();
    program.open(".", DIRECTORY, rights::FD_READ).unwrap();
    assert_eq!(program.open(".", DIRECTORY, RW), Err(31));
    assert_eq!(program.open(".", 0, rights::FD_WRITE), Err(31));
    let seeker = program.open(".", DIRECTORY, rights::FD_SEEK).unwrap();
    assert_eq!(program.rights(seeker).0, 0);
    program.file("file", b"");
    assert_eq!(program.open("file", DIRECTORY, 0), Err(54));
    assert_eq!(program.open("new", DIRECTORY | CREAT, 0), Err(INVAL));
}

#[test]
fn links_are_followed_only_with_the_flag() {
    let mut program = Program::new();
    program.file("file", b"data");
    assert_eq!(program.symlink("file", "link"), 0);
    assert_eq!(program.open_as(DIR, 0, "link", 0, (0, 0), 0), Err(32));
    let fd = program.open_as(DIR, FOLLOW, "link", 0, (rights::FD_READ, 0), 0).unwrap();
    assert_eq!(program.read(fd, 9).unwrap(), b"data");
    assert_eq!(program.symlink("loop", "loop"), 0);
    assert_eq!(program.open("loop", 0, 0), Err(32));
    assert_eq!(program.open_as(DIR, 2, "link", 0, (0, 0), 0), Err(INVAL));
}

#[test]
fn a_failed_open_leaks_no_handle() {
    let mut program = Program::new();
    let before = program.world.vfs.census();
    assert_eq!(program.open("x", 16, 0), Err(INVAL));
    assert_eq!(program.open_as(DIR, 0, "x", CREAT, (0, 0), 32), Err(INVAL));
    let [at, length] = program.path("x");
    let numbers = [DIR, 0, at, length, CREAT, 0, 0, 0, MEMORY as u64 - 3];
    assert_eq!(program.call("path_open", &numbers), FAULT);
    assert_eq!(program.open("x", 0, 0), Err(44));
    assert_eq!(program.world.vfs.census(), before);
}
