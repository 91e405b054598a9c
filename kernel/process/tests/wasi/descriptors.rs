//! Descriptor numbers, rights, flags, preopened directories.

use crate::common::*;
use abi::fs::Op;
use abi::process::{Errno, Reply};
use kernel_process::wasi::{filetype, rights};

#[test]
fn new_descriptors_get_the_lowest_free_number() {
    let mut program = Program::new();
    let a = program.file("a", b"");
    let b = program.file("b", b"");
    assert_eq!((a, b), (4, 5));
    program.ok("fd_close", &[a]);
    program.ok("fd_close", &[0]);
    assert_eq!(program.call("fd_close", &[0]), BADF);
    assert_eq!(program.file("c", b""), 0);
    assert_eq!(program.file("d", b""), 4);
    for _ in 6..64 {
        program.open("a", 0, 0).unwrap();
    }
    assert_eq!(program.open("a", 0, 0), Err(33));
    assert_eq!(program.call("dup", &[1, RESULT]), 33);
    assert_eq!(program.call("pipe", &[RESULT]), 33);
    program.ok("fd_close", &[60]);
    assert_eq!(program.call("pipe", &[RESULT]), 33);
    assert_eq!(program.process.descriptors(), 63);
    program.end();
}

#[test]
fn renumbering_replaces_the_target() {
    let mut program = Program::new();
    let a = program.file("a", b"in a");
    let b = program.file("b", b"in b");
    let before = program.world.vfs.census().0;
    program.ok("fd_renumber", &[a, b]);
    assert_eq!(program.world.vfs.census().0, before - 1);
    assert_eq!(program.call("fd_tell", &[a, RESULT]), BADF);
    assert_eq!(program.read(b, 10).unwrap(), b"in a");
    program.ok("fd_renumber", &[b, b]);
    assert_eq!(program.call("fd_renumber", &[b, a]), BADF);
    assert_eq!(program.call("fd_renumber", &[a, b]), BADF);
    assert_eq!(program.call("fd_renumber", &[a, a]), BADF);
    assert_eq!(program.call("fd_renumber", &[b, 1 << 31]), BADF);
    // Standard output, and a preopened directory, which is one no longer.
    program.ok("fd_renumber", &[b, 1]);
    program.mkdir("sub");
    let sub = program.open("sub", DIRECTORY, rights::DIRECTORY).unwrap();
    program.ok("fd_prestat_get", &[DIR, RESULT]);
    program.ok("fd_renumber", &[sub, DIR]);
    assert_eq!(program.call("fd_prestat_get", &[DIR, RESULT]), BADF);
    program.end();
}

#[test]
fn preopened_directories_have_names() {
    let mut program = Program::new();
    program.ok("fd_prestat_get", &[DIR, RESULT]);
    assert_eq!((program.u32(RESULT), program.u32(RESULT + 4)), (0, 5));
    program.ok("fd_prestat_dir_name", &[DIR, BUFFER, 5]);
    assert_eq!(program.get(BUFFER, 6), b"/data\xee");
    program.ok("fd_prestat_dir_name", &[DIR, BUFFER, 6]);
    assert_eq!(program.call("fd_prestat_dir_name", &[DIR, BUFFER, 4]), 37);
    assert_eq!(program.call("fd_prestat_get", &[2, RESULT]), BADF);
    assert_eq!(program.call("fd_prestat_get", &[4, RESULT]), BADF);
    assert_eq!(program.call("fd_prestat_dir_name", &[2, BUFFER, 5]), BADF);
    program.ok("fd_close", &[DIR]);
    assert_eq!(program.call("fd_prestat_get", &[DIR, RESULT]), BADF);
}

#[test]
fn rights_can_only_be_reduced() {
    let mut program = Program::new();
    let fd = program.file("file", b"data");
    let (base, inheriting) = program.rights(fd);
    assert_eq!((base, inheriting), (rights::FILE, 0));
    program.drop_rights(fd, rights::FD_READ | rights::FD_WRITE, 0);
    assert_eq!(program.read(fd, 1), Err(NOTCAPABLE));
    assert_eq!(program.write(fd, b"x"), Err(NOTCAPABLE));
    assert_eq!(program.call("fd_fdstat_set_rights", &[fd, base, 0]), NOTCAPABLE);
    assert_eq!(program.call("fd_fdstat_set_rights", &[fd, 0, 1]), NOTCAPABLE);
    assert_eq!(program.call("fd_fdstat_set_rights", &[50, 0, 0]), BADF);
    program.ok("fd_tell", &[fd, RESULT]);
    program.ok("fd_fdstat_set_rights", &[fd, 0, 0]);
    for (name, more) in [
        ("fd_advise", 3),
        ("fd_allocate", 2),
        ("fd_datasync", 0),
        ("fd_fdstat_set_flags", 1),
        ("fd_filestat_get", 1),
        ("fd_filestat_set_size", 1),
        ("fd_filestat_set_times", 3),
        ("fd_pread", 4),
        ("fd_pwrite", 4),
        ("fd_read", 3),
        ("fd_seek", 3),
        ("fd_sync", 0),
        ("fd_tell", 1),
        ("fd_write", 3),
    ] {
        let numbers = |fd| [vec![fd], vec![0; more]].concat();
        assert_eq!(program.call(name, &numbers(fd)), NOTCAPABLE, "{name}");
        assert_eq!(program.call(name, &numbers(63)), BADF, "{name}");
        assert_eq!(program.call(name, &numbers(u64::from(u32::MAX))), BADF, "{name}");
    }
    // Reading flags and rights needs no right.
    assert_eq!(program.flags(fd).0, filetype::FILE);
    program.ok("fd_close", &[fd]);
}

#[test]
fn a_directory_without_rights_does_nothing() {
    let mut program = Program::new();
    program.file("file", b"");
    let dir = program.open(".", DIRECTORY, 0).unwrap();
    let [a, n] = program.path("file");
    let calls: &[(&str, &[u64])] = &[
        ("fd_readdir", &[dir, BUFFER, 100, 0, RESULT]),
        ("path_create_directory", &[dir, a, n]),
        ("path_filestat_get", &[dir, 0, a, n, RESULT]),
        ("path_filestat_set_times", &[dir, 0, a, n, 0, 0, 0]),
        ("path_link", &[dir, 0, a, n, DIR, a, n]),
        ("path_link", &[DIR, 0, a, n, dir, a, n]),
        ("path_open", &[dir, 0, a, n, 0, 0, 0, 0, RESULT]),
        ("path_readlink", &[dir, a, n, BUFFER, 9, RESULT]),
        ("path_remove_directory", &[dir, a, n]),
        ("path_rename", &[dir, a, n, DIR, a, n]),
        ("path_rename", &[DIR, a, n, dir, a, n]),
        ("path_symlink", &[a, n, dir, a, n]),
        ("path_unlink_file", &[dir, a, n]),
    ];
    for (name, numbers) in calls {
        assert_eq!(program.call(name, numbers), NOTCAPABLE, "{name}");
        let bad = |number: &u64| if *number == dir { 60 } else { *number };
        let numbers: Vec<_> = numbers.iter().map(bad).collect();
        assert_eq!(program.call(name, &numbers), BADF, "{name}");
        let file = |number: &u64| if *number == 60 { 1 } else { *number };
        let numbers: Vec<_> = numbers.iter().map(file).collect();
        assert_eq!(program.call(name, &numbers), 54, "{name}");
    }
}

#[test]
fn rights_that_do_not_apply_to_a_kind_are_removed() {
    let mut program = Program::new();
    program.ok("fd_filestat_get", &[DIR, RESULT]);
    assert_eq!(program.get(RESULT + 16, 1)[0], filetype::DIRECTORY);
    let (base, inheriting) = program.rights(DIR);
    assert_eq!((base, inheriting), (rights::DIRECTORY, rights::INHERITING));
    assert_eq!(base & (rights::FD_SEEK | rights::FD_FILESTAT_SET_SIZE), 0);
    assert_eq!(program.rights(1), (rights::STREAM & !rights::FD_READ, 0));
    // This is how the C library recognises a terminal.
    assert_eq!(program.rights(0).0 & (rights::FD_SEEK | rights::FD_TELL), 0);
}

#[test]
fn times_are_set() {
    let mut program = Program::new();
    let fd = program.file("file", b"");
    program.ok("fd_filestat_set_times", &[fd, 5, 6, 1 | 4]);
    program.ok("fd_filestat_get", &[fd, RESULT]);
    assert_eq!((program.u64(RESULT + 40), program.u64(RESULT + 48)), (5, 6));
    program.ok("fd_filestat_set_times", &[fd, 0, 0, 2 | 8]);
    program.ok("fd_filestat_get", &[fd, RESULT]);
    assert!(program.u64(RESULT + 40) > 1000 && program.u64(RESULT + 48) > 1000);
    for bad in [3, 12, 16, 1 << 16] {
        assert_eq!(program.call("fd_filestat_set_times", &[fd, 0, 0, bad]), INVAL, "{bad}");
    }
    let [at, length] = program.path("file");
    program.ok("path_filestat_set_times", &[DIR, 1, at, length, 8, 9, 5]);
    program.ok("path_filestat_get", &[DIR, 0, at, length, RESULT]);
    assert_eq!((program.u64(RESULT + 40), program.u64(RESULT + 48)), (8, 9));
    let bad = [DIR, 1, at, length, 8, 9, 256];
    assert_eq!(program.call("path_filestat_set_times", &bad), INVAL);
}

#[test]
fn a_second_descriptor_shares_the_position() {
    let mut program = Program::new();
    let fd = program.file("file", b"0123");
    program.drop_rights(fd, rights::FD_WRITE, 0);
    program.ok("dup", &[fd, RESULT]);
    let second = u64::from(program.u32(RESULT));
    assert_eq!(program.read(fd, 2).unwrap(), b"01");
    assert_eq!(program.read(second, 2).unwrap(), b"23");
    assert_eq!(program.write(second, b"x"), Err(NOTCAPABLE));
    program.ok("fd_close", &[fd]);
    program.ok("fd_tell", &[second, RESULT]);
    program.ok("dup", &[DIR, RESULT]);
    let other = u64::from(program.u32(RESULT));
    assert_eq!(program.call("fd_prestat_get", &[other, RESULT]), BADF);
    program.end();
}

#[test]
fn data_written_to_a_pipe_is_read() {
    let mut program = Program::new();
    program.ok("pipe", &[RESULT]);
    let (reader, writer) = (u64::from(program.u32(RESULT)), u64::from(program.u32(RESULT + 4)));
    assert_eq!((reader, writer), (4, 5));
    assert_eq!(program.write(writer, b"through"), Ok(7));
    assert_eq!(program.read(reader, 100).unwrap(), b"through");
    assert_eq!(program.write(reader, b"x"), Err(NOTCAPABLE));
    program.ok("fd_close", &[writer]);
    assert_eq!(program.read(reader, 100).unwrap(), b"");
    assert_eq!(program.call("pipe", &[MEMORY as u64 - 7]), FAULT);
    program.end();
}

#[test]
fn only_a_terminal_has_a_mode() {
    let mut program = Program::new();
    let fd = program.file("file", b"");
    assert_eq!(program.call("terminal", &[fd, 1, 0]), INVAL);
    assert_eq!(program.call("terminal", &[1, 8, 0]), INVAL);
    assert_eq!(program.call("terminal", &[77, 1, 0]), BADF);
    // A group that the caller may not signal cannot become a terminal's foreground group.
    program.world.answers.push_back(Reply::error(Errno::Perm));
    assert_eq!(program.call("terminal", &[1, 4, 6]), 63);
    let (request, _) = program.world.asked.pop().unwrap();
    assert_eq!((request.op, request.pid, request.signal), (7, -6, 0));
    assert_eq!(program.call("terminal", &[1, 4, 1 << 31 | 1]), INVAL);
    program.end();
}

#[test]
fn handles_are_stale_after_a_service_restart() {
    let mut program = Program::new();
    program.world.vfs = fs::Vfs::with_budget(4, 1 << 20);
    assert_eq!(program.write(1, b"x"), Err(72));
    assert_eq!(program.open("x", 0, 0), Err(72));
}

#[test]
fn a_terminal_is_distinguishable_from_other_devices() {
    let mut program = Program::new();
    let (screen, console) = program
        .world
        .with(|c| {
            let root = c.root()?;
            c.mount_devices(root, b"dev", b"seed")?;
            c.close(root)?;
            c.terminal(abi::fs::flag::CONSOLE)
        })
        .unwrap();
    let wanted = rights::FD_READ | rights::FD_WRITE | rights::FD_SEEK;
    for (path, seeks) in [("dev/null", rights::FD_SEEK), ("dev/console", 0)] {
        let fd = program.open(path, 0, wanted).unwrap();
        program.ok("fd_fdstat_get", &[fd, RESULT]);
        assert_eq!(program.u64(RESULT) as u8, filetype::CHARACTER);
        assert_eq!(program.u64(RESULT + 8) & rights::FD_SEEK, seeks, "{path}");
        program.ok("fd_close", &[fd]);
    }
    let closed = program.world.with(|c| c.close(screen).and(c.close(console)));
    closed.unwrap();
    program.end();
}

#[test]
fn the_null_device_needs_no_service() {
    let mut program = Program::new();
    let devices = program.world.with(|c| {
        let root = c.root()?;
        c.mount_devices(root, b"dev", b"seed")?;
        c.close(root)
    });
    devices.unwrap();
    let both = rights::FD_READ | rights::FD_WRITE | rights::FD_SEEK;
    let null = program.open("dev/null", 0, both).unwrap();
    let zero = program.open("dev/zero", 0, both).unwrap();
    program.ok("dup", &[null, RESULT]);
    let second = u64::from(program.u32(RESULT));
    let read_only = program.open("dev/null", 0, rights::FD_READ).unwrap();
    program.world.requests.clear();
    for fd in [null, second] {
        assert_eq!(program.write(fd, b"xyz"), Ok(3));
        assert_eq!(program.read(fd, 3), Ok(vec![]));
        let [list, count] = program.list(&[(BUFFER, 2), (BUFFER, 0), (BUFFER, 5)]);
        program.ok("fd_pwrite", &[fd, list, count, 9, RESULT]);
        assert_eq!(program.u32(RESULT), 7);
        let [list, count] = program.list(&[(u64::from(u32::MAX), 2)]);
        assert_eq!(program.call("fd_write", &[fd, list, count, RESULT]), 21, "FAULT");
    }
    assert_eq!(program.write(read_only, b"xyz"), Err(76), "NOTCAPABLE");
    assert_eq!(program.world.requests, []);
    assert_eq!(program.read(zero, 3), Ok(vec![0; 3]));
    assert_eq!(program.asked(Op::Read), 1);
    for fd in [null, second, read_only, zero] {
        program.ok("fd_close", &[fd]);
    }
    program.end();
}
