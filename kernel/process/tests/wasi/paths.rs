//! Functions on paths, and attempts to leave the directory.

use crate::common::*;
use kernel_process::wasi::rights;

#[test]
fn no_path_leads_out_of_its_directory() {
    let mut program = Program::new();
    world_file(&mut program.world, b"secret", b"top");
    program.mkdir("jail");
    program.mkdir("jail/in");
    let jail = program.open("jail", DIRECTORY, rights::DIRECTORY).unwrap();
    let outside = program.symlink("../secret", "jail/up");
    assert_eq!(outside, 0);
    assert_eq!(program.symlink("../../secret", "jail/in/deep"), 0);
    for path in [
        "..",
        "../secret",
        "/secret",
        "/",
        "in/../../secret",
        "./../secret",
        "up",
        "in/deep",
        "up/x",
    ] {
        let opened = program.open_as(jail, FOLLOW, path, 0, (rights::FD_READ, 0), 0);
        assert_eq!(opened, Err(NOTCAPABLE), "{path}");
        let [a, n] = program.path(path);
        let mut calls: Vec<(&str, Vec<u64>)> = vec![
            ("path_filestat_get", vec![jail, 1, a, n, RESULT]),
            ("path_filestat_set_times", vec![jail, 1, a, n, 0, 0, 0]),
            ("path_link", vec![jail, 1, a, n, DIR, OTHER, 1]),
        ];
        if !["up", "in/deep", ".."].contains(&path) {
            calls.push(("path_create_directory", vec![jail, a, n]));
            calls.push(("path_unlink_file", vec![jail, a, n]));
            calls.push(("path_remove_directory", vec![jail, a, n]));
            calls.push(("path_readlink", vec![jail, a, n, BUFFER, 100, RESULT]));
            calls.push(("path_rename", vec![jail, a, n, jail, OTHER, 1]));
            calls.push(("path_symlink", vec![OTHER, 1, jail, a, n]));
            calls.push(("path_open", vec![jail, 0, a, n, CREAT, 0, 0, 0, RESULT]));
        }
        for (name, numbers) in calls {
            program.put(OTHER, b"t");
            assert_eq!(program.call(name, &numbers), NOTCAPABLE, "{name} {path}");
        }
    }
    assert_eq!(program.symlink("/secret", "jail/absolute"), NOTCAPABLE);
    program.open_as(jail, 0, "in/.././in/..//./in", 0, (0, 0), 0).unwrap();
    let root = program.root;
    assert!(program.world.with(|c| c.open(root, b"secret", 1)).is_ok());
}

#[test]
fn names_are_made_moved_linked_and_removed() {
    let mut program = Program::new();
    program.file("file", b"data");
    assert_eq!(program.mkdir("sub"), 0);
    assert_eq!(program.mkdir("sub"), 20);
    let ([a, n], [b, m]) = (program.path("file"), program.other("sub/link"));
    program.ok("path_link", &[DIR, 0, a, n, DIR, b, m]);
    assert_eq!(program.call("path_link", &[DIR, 0, a, n, DIR, b, m]), 20);
    program.ok("path_filestat_get", &[DIR, 0, b, m, RESULT]);
    assert_eq!((program.u64(RESULT + 24), program.u64(RESULT + 32)), (2, 4));
    let ([a, n], [b, m]) = (program.path("sub"), program.other("link"));
    assert_eq!(program.call("path_link", &[DIR, 0, a, n, DIR, b, m]), 63);
    let ([a, n], [b, m]) = (program.path("sub/link"), program.other("moved"));
    program.ok("path_rename", &[DIR, a, n, DIR, b, m]);
    assert_eq!(program.call("path_rename", &[DIR, a, n, DIR, b, m]), 44);
    let [a, n] = program.path("sub");
    assert_eq!(program.call("path_unlink_file", &[DIR, a, n]), 31);
    assert_eq!(program.call("path_remove_directory", &[DIR, b, m]), 54);
    program.ok("path_remove_directory", &[DIR, a, n]);
    program.ok("path_unlink_file", &[DIR, b, m]);
    assert_eq!(program.call("path_unlink_file", &[DIR, b, m]), 44);
}

#[test]
fn the_text_of_a_link_is_truncated_to_the_buffer() {
    let mut program = Program::new();
    assert_eq!(program.symlink("target", "link"), 0);
    let [a, n] = program.path("link");
    program.ok("path_readlink", &[DIR, a, n, BUFFER, 10, RESULT]);
    assert_eq!((program.u32(RESULT), program.get(BUFFER, 8)), (6, &b"target\xee\xee"[..]));
    program.ok("path_readlink", &[DIR, a, n, BUFFER + 20, 4, RESULT]);
    assert_eq!((program.u32(RESULT), program.get(BUFFER + 20, 6)), (4, &b"targ\xee\xee"[..]));
    program.ok("path_readlink", &[DIR, a, n, BUFFER + 40, 0, RESULT]);
    assert_eq!(program.u32(RESULT), 0);
    program.file("file", b"");
    let [a, n] = program.path("file");
    assert_eq!(program.call("path_readlink", &[DIR, a, n, BUFFER, 10, RESULT]), INVAL);
    let [a, n] = program.path("link");
    program.ok("path_filestat_get", &[DIR, 0, a, n, RESULT]);
    assert_eq!(program.get(RESULT + 16, 1)[0], 7);
    assert_eq!(program.call("path_filestat_get", &[DIR, 1, a, n, RESULT]), 44);
}

#[test]
fn invalid_paths_are_refused() {
    let mut program = Program::new();
    let make = "path_create_directory";
    program.put(PATH, b"\xff\xfe");
    assert_eq!(program.call(make, &[DIR, PATH, 2]), 25);
    program.put(PATH, b"a\0b");
    assert_eq!(program.call(make, &[DIR, PATH, 3]), INVAL);
    assert_eq!(program.call(make, &[DIR, PATH, 0]), 44);
    program.put(PATH, &[b'x'; 2000]);
    assert_eq!(program.call(make, &[DIR, PATH, 256]), 37);
    assert_eq!(program.call(make, &[DIR, PATH, 1921]), 37);
    assert_eq!(program.call(make, &[DIR, PATH, 65_536 + 4]), 37);
    assert_eq!(program.call(make, &[DIR, MEMORY as u64 - 1, 2]), FAULT);
    assert_eq!(program.call(make, &[DIR, u64::from(u32::MAX), 2]), FAULT);
    // The two longest paths together.
    for at in 0..1920 {
        program.put(PATH + at, if at % 200 == 199 { b"/" } else { b"y" });
    }
    assert_eq!(program.call("path_rename", &[DIR, PATH, 1920, DIR, PATH, 1920]), 44);
    program.put(PATH, "ümläut".as_bytes());
    program.ok(make, &[DIR, PATH, 8]);
}

#[test]
fn trailing_slashes_mean_directories() {
    let mut program = Program::new();
    program.file("file", b"");
    program.mkdir("dir");
    assert_eq!(program.symlink("source", "target/"), 44);
    assert_eq!(program.symlink("source", "dir/"), 20);
    assert_eq!(program.open("file/", 0, 0), Err(54));
    program.open("dir///", 0, 0).unwrap();
    let [a, n] = program.path("file/");
    assert_eq!(program.call("path_unlink_file", &[DIR, a, n]), 54);
    assert_eq!(program.call("path_remove_directory", &[DIR, a, n]), 54);
    let ([a, n], [b, m]) = (program.path("file"), program.other("link/"));
    assert_eq!(program.call("path_link", &[DIR, 0, a, n, DIR, b, m]), 44);
    let [a, n] = program.path("dir/");
    program.ok("path_remove_directory", &[DIR, a, n]);
}
