//! `fd_readdir`.

use crate::common::*;
use std::collections::BTreeSet;

/// Returns the complete entries of a buffer (name, node, cookie) and their size in bytes.
fn entries(bytes: &[u8]) -> (Vec<(String, u64, u64)>, usize) {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(head) = bytes.get(at..at + 24) {
        let word = |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().unwrap());
        let length = word(16) as u32 as usize;
        let Some(name) = bytes.get(at + 24..at + 24 + length) else { break };
        found.push((String::from_utf8(name.to_vec()).unwrap(), word(8), word(0)));
        at += 24 + length;
    }
    (found, at)
}

fn read(program: &mut Program, bytes: u64, cookie: u64) -> Vec<u8> {
    program.ok("fd_readdir", &[DIR, BUFFER, bytes, cookie, RESULT]);
    let used = program.u32(RESULT) as usize;
    assert!(used <= bytes as usize);
    program.get(BUFFER, used).to_vec()
}

fn fill(program: &mut Program, files: u32) -> BTreeSet<String> {
    let mut names = BTreeSet::from([".".to_string(), "..".to_string()]);
    for index in 0..files {
        let name = format!("{index}-{}", "n".repeat((index * 37 % 250) as usize));
        let fd = program.file(&name, b"");
        program.ok("fd_close", &[fd]);
        names.insert(name);
    }
    names
}

#[test]
fn an_empty_directory_has_two_entries() {
    let mut program = Program::new();
    let bytes = read(&mut program, 256, 0);
    assert_eq!(bytes.len(), 24 + 1 + 24 + 2);
    let (found, used) = entries(&bytes);
    assert_eq!(used, bytes.len());
    program.ok("fd_filestat_get", &[DIR, RESULT]);
    let node = program.u64(RESULT + 8);
    assert_eq!(found, [(".".into(), node, 1), ("..".into(), node, 2)]);
}

#[test]
fn any_buffer_size_lists_every_entry_once() {
    for most in [usize::MAX, 500] {
        let mut program = Program::new();
        program.world.most = most;
        let expected = fill(&mut program, 60);
        for bytes in [280, 300, 333, 512, 1000, 4096, 20_000] {
            let (mut names, mut cookie) = (Vec::new(), 0);
            loop {
                let got = read(&mut program, bytes, cookie);
                let (found, _) = entries(&got);
                cookie = found.last().map_or(cookie, |last| last.2);
                names.extend(found.into_iter().map(|one| one.0));
                if got.len() < bytes as usize {
                    break;
                }
            }
            assert_eq!(names.len(), expected.len(), "{bytes}");
            assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }
}

#[test]
fn a_short_buffer_truncates_the_last_entry() {
    let mut program = Program::new();
    fill(&mut program, 20);
    let whole = read(&mut program, 20_000, 0);
    for bytes in (0..700).chain([whole.len() - 1, whole.len(), whole.len() + 1]) {
        let got = read(&mut program, bytes as u64, 0);
        assert_eq!(got, whole[..bytes.min(whole.len())], "{bytes}");
        assert_eq!(
            program.get(BUFFER + bytes as u64, 1),
            [program.memory[BUFFER as usize + bytes]]
        );
    }
    let (found, _) = entries(&whole);
    for (index, one) in found.iter().enumerate() {
        let (rest, _) = entries(&read(&mut program, 20_000, one.2));
        assert_eq!(rest, found[index + 1..]);
    }
    assert_eq!(read(&mut program, 100, u64::MAX), []);
}

#[test]
fn listing_needs_a_directory_and_a_valid_buffer() {
    let mut program = Program::new();
    let fd = program.file("file", b"");
    assert_eq!(program.call("fd_readdir", &[fd, BUFFER, 100, 0, RESULT]), 54);
    assert_eq!(program.call("fd_readdir", &[DIR, MEMORY as u64 - 99, 100, 0, RESULT]), FAULT);
    assert_eq!(program.call("fd_readdir", &[DIR, BUFFER, 100, 0, MEMORY as u64 - 3]), FAULT);
}
