//! Functions on other processes, and their requests to the process table.

use crate::common::*;
use abi::process::{Errno, Listed, Op, Reply, flag};
use abi::program::{
    ANY_KERNEL, ARGUMENTS, BEGIN_AUTHORITY, BEGIN_BYTES, BEGIN_DIRECTORY, InheritedFile, Spawn,
};
use kernel_process::begin::{Limits, Plan, decode, encode};
use kernel_process::wasi::rights;
use kernel_process::{Installed, Stop};
use zerocopy::IntoBytes;

const SPAWN: u64 = 0x5000;
const FILES: u64 = 0x5100;

/// A spawn of `bin/ls` with two arguments and no file.
pub fn spawn(program: &mut Program) -> Spawn {
    let [path, length] = program.path("bin/ls");
    program.put(BUFFER, b"ls\0-l\0A=1\0/sub");
    Spawn {
        path: [path as u32, length as u32],
        arguments: [BUFFER as u32, 6],
        environment: [BUFFER as u32 + 6, 4],
        files: [FILES as u32, 0],
        directory: DIR as u32,
        kernel: ANY_KERNEL,
        ..Spawn::default()
    }
}

pub fn run(program: &mut Program, what: Spawn, files: &[InheritedFile]) -> u16 {
    program.put(FILES, files.as_bytes());
    let what = Spawn { files: [FILES as u32, files.len() as u32], ..what };
    program.put(SPAWN, what.as_bytes());
    program.world.answers.clear();
    program.world.answers.push_back(Reply { pid: 42, ..Reply::default() });
    program.call("spawn", &[SPAWN, RESULT])
}

#[test]
fn a_child_gets_at_most_the_rights_of_the_caller() {
    let mut program = Program::new();
    program.mkdir("sub");
    let sub = program.open_as(DIR, 0, "sub", DIRECTORY, (rights::PATH_OPEN, rights::FD_READ), 0);
    let sub = sub.unwrap() as u32;
    let what = Spawn { group: 5, flags: 1, ..spawn(&mut program) };
    let files = [
        InheritedFile { descriptor: 1, becomes: 2, preopen: [0; 2] },
        InheritedFile { descriptor: sub, becomes: 3, preopen: [BUFFER as u32 + 10, 4] },
    ];
    let before = program.world.vfs.census();
    assert_eq!(run(&mut program, what, &files), 0);
    assert_eq!((program.u32(RESULT), program.world.vfs.census()), (42, before));
    let (request, bulk) = program.world.asked.pop().unwrap();
    assert_eq!((request.op, request.kernel, request.parent), (Op::Spawn as u16, 1, PID));
    assert_eq!((request.group, request.flags, request.length as usize), (5, 1, bulk.len()));
    let beginning = decode(&bulk).unwrap();
    assert_eq!((beginning.path, beginning.arguments), (&b"bin/ls"[..], &b"ls\0-l\0"[..]));
    assert_eq!(beginning.environment, b"A=1\0");
    assert!(beginning.directory().is_some());
    let files: Vec<_> = beginning.passed().collect();
    assert_eq!((files[0].descriptor, files[0].rights), (2, rights::STREAM & !rights::FD_READ));
    assert_eq!((files[1].descriptor, files[1].preopen), (3, named(b"/sub")));
    assert_eq!((files[1].rights, files[1].inheriting), (rights::PATH_OPEN, rights::FD_READ));
}

/// A program with threads cannot make the kernel copy more than a child could get.
#[test]
fn names_beyond_the_start_data_are_refused_before_they_are_copied() {
    let mut program = Program::with_threads();
    let what = spawn(&mut program);
    let file = InheritedFile { descriptor: DIR as u32, becomes: 0, preopen: [0, 140_000] };
    let files: Vec<_> = (0..63).map(|becomes| InheritedFile { becomes, ..file }).collect();
    assert_eq!(run(&mut program, what, &files), 1, "too big");
    assert!(program.copied < 2 * BEGIN_BYTES, "{} bytes were copied", program.copied);
}

#[test]
fn the_callers_other_directories_go_along_as_its_authority() {
    let mut program = Program::new();
    program.mkdir("sub");
    let few = (rights::PATH_OPEN, rights::FD_READ | rights::PATH_OPEN);
    let sub = program.open_as(DIR, 0, "sub", DIRECTORY, few, 0).unwrap() as u32;
    for (directory, counts) in [(DIR as u32, 0), (sub, 1)] {
        let what = Spawn { directory, ..spawn(&mut program) };
        assert_eq!(run(&mut program, what, &[]), 0);
        let (_, bulk) = program.world.asked.pop().unwrap();
        let beginning = decode(&bulk).unwrap();
        let all: Vec<_> = beginning.files().collect();
        let own: Vec<_> = all.iter().filter(|f| f.descriptor == BEGIN_AUTHORITY).collect();
        assert_eq!((all.len(), own.len(), beginning.passed().count()), (1 + counts, counts, 0));
        assert!(
            own.iter().all(|file| (file.rights, file.inheriting) == (ALL & rights::DIRECTORY, ALL))
        );
    }
}

/// Start data of `program` itself, with limits.
fn begun_with(limits: Limits, signals: bool) -> Program {
    let mut program = Program::new();
    let bytes = encode(&Plan { path: b"x", limits, signals, ..Plan::default() }).unwrap();
    let installed = Installed { folders: true, signals: true };
    let begun = begun(&mut program.world, 64, &bytes, installed).unwrap();
    let before = std::mem::replace(&mut program.process, begun);
    before.close_all(&mut program.world);
    let root = program.world.with(|c| c.root()).unwrap();
    program.process.give(&mut program.world, 3, root, (ALL, ALL), named(b"/")).unwrap();
    program
}

#[test]
fn limits_are_inherited() {
    let mut program = begun_with(Limits { memory: 1000, descriptors: 0 }, false);
    let what = Spawn { memory: 5000, descriptors: 7, ..spawn(&mut program) };
    assert_eq!(run(&mut program, what, &[]), 0);
    let (_, bulk) = program.world.asked.pop().unwrap();
    let beginning = decode(&bulk).unwrap();
    assert_eq!(beginning.limits, Limits { memory: 1000, descriptors: 7 });
    assert!(!beginning.signals);
}

#[test]
fn the_right_to_signal_any_process_is_inherited() {
    for signals in [false, true] {
        let mut program = begun_with(Limits::default(), signals);
        program.world.answers.push_back(Reply::default());
        program.ok("kill", &[12, 15]);
        let (request, _) = program.world.asked.pop().unwrap();
        assert_eq!(request.flags == flag::ANY_PROCESS, signals);
        let what = spawn(&mut program);
        assert_eq!(run(&mut program, what, &[]), 0);
        let (_, bulk) = program.world.asked.pop().unwrap();
        assert_eq!(decode(&bulk).unwrap().signals, signals);
    }
}

#[test]
fn an_invalid_spawn_sends_no_request() {
    let mut program = Program::new();
    let good = spawn(&mut program);
    let end = MEMORY as u32;
    let cases = [
        (Spawn { flags: 2, ..good }, INVAL),
        (Spawn { reserved: 1, ..good }, INVAL),
        (Spawn { directory: 60, ..good }, BADF),
        (Spawn { directory: 1, ..good }, 54),
        (Spawn { path: [end, 1], ..good }, FAULT),
        (Spawn { path: [0, 0], ..good }, INVAL),
        (Spawn { arguments: [BUFFER as u32, 5], ..good }, INVAL),
        (Spawn { arguments: [end - 1, 2], ..good }, FAULT),
        (Spawn { environment: [u32::MAX, 1], ..good }, FAULT),
        (Spawn { kernel: 9, ..good }, 23),
    ];
    for (what, expected) in cases {
        assert_eq!(run(&mut program, what, &[]), expected, "{what:?}");
    }
    let file = |descriptor, becomes| InheritedFile { descriptor, becomes, preopen: [0; 2] };
    let name = InheritedFile { preopen: [BUFFER as u32, 2], ..file(1, 3) };
    assert_eq!(run(&mut program, good, &[file(60, 0)]), BADF);
    assert_eq!(run(&mut program, good, &[file(1, 0), file(2, 0)]), INVAL);
    assert_eq!(run(&mut program, good, &[file(1, BEGIN_DIRECTORY)]), INVAL);
    assert_eq!(run(&mut program, good, &[name]), 54);
    assert_eq!(run(&mut program, good, &[file(1, 0); 64]), 1);
    let block = vec![0; ARGUMENTS + 1];
    program.put(BUFFER, &block);
    let arguments = [BUFFER as u32, block.len() as u32];
    assert_eq!(run(&mut program, Spawn { arguments, ..good }, &[]), 1);
    program.put(SPAWN, Spawn { files: [u32::MAX - 20, 3], ..good }.as_bytes());
    assert_eq!(program.call("spawn", &[SPAWN, RESULT]), FAULT);
    assert_eq!(program.call("spawn", &[MEMORY as u64 - 40, RESULT]), FAULT);
    assert_eq!(program.call("spawn", &[SPAWN, MEMORY as u64 - 3]), FAULT);
    assert!(program.world.asked.is_empty());
    // Without the right to read through a directory, no program is started from it.
    program.drop_rights(DIR, 0, rights::FD_READ);
    assert_eq!(run(&mut program, good, &[]), NOTCAPABLE);
    program.drop_rights(DIR, rights::PATH_OPEN, rights::FD_READ);
    assert_eq!(run(&mut program, good, &[]), NOTCAPABLE);
}

#[test]
fn wait_returns_how_a_child_ended() {
    let mut program = Program::new();
    let reply = Reply { pid: 9, kind: 1, status: 3, cpu: 4, memory: 5, ..Reply::default() };
    program.world.answers.push_back(reply);
    program.ok("wait", &[u64::from(u32::MAX), 1, RESULT]);
    let words = [0, 4, 8, 12].map(|at| program.u32(RESULT + at));
    assert_eq!(words, [9, 1, 3, 0]);
    assert_eq!((program.u64(RESULT + 16), program.u64(RESULT + 24)), (4, 5));
    let (request, _) = program.world.asked.pop().unwrap();
    assert_eq!((request.op, request.pid, request.parent, request.flags), (6, -1, PID, 4));
    program.world.answers.push_back(Reply::error(Errno::Child));
    assert_eq!(program.call("wait", &[3, 0, RESULT]), 12);
    program.world.answers.push_back(Reply::error(Errno::Restarted));
    assert_eq!(program.call("wait", &[3, 0, RESULT]), 72);
    assert_eq!(program.call("wait", &[3, 2, RESULT]), INVAL);
    assert_eq!(program.call("wait", &[3, 0, MEMORY as u64 - 31]), FAULT);
    assert_eq!(program.run("wait", &[3, 0, RESULT]), Err(Stop::Interrupted));
}

#[test]
fn signals_and_groups_go_to_the_process_table() {
    let mut program = Program::new();
    program.world.answers.extend([Reply::default(), Reply::error(Errno::Srch)]);
    program.ok("kill", &[12, 15]);
    let (request, _) = program.world.asked.pop().unwrap();
    assert_eq!((request.op, request.pid, request.signal, request.parent), (7, 12, 15, PID));
    assert_eq!(program.call("kill", &[u64::from((-4i32) as u32), 0]), 71);
    assert_eq!(program.world.asked.pop().unwrap().0.pid, -4);
    assert_eq!(program.call("kill", &[12, 31]), INVAL);
    assert_eq!(program.run("kill", &[u64::from(PID), 15]), Err(Stop::Signal(15)));
    program.ok("kill", &[u64::from(PID), 0]);
    program.world.answers.push_back(Reply::default());
    program.ok("group", &[0, 4]);
    let (request, _) = program.world.asked.pop().unwrap();
    assert_eq!((request.op, request.pid, request.group, request.parent), (8, 0, 4, PID));
    assert_eq!(program.call("group", &[u64::from(u32::MAX), 4]), INVAL);
    assert_eq!(program.call("group", &[0, 1 << 31]), INVAL);
    assert_eq!(program.call("self", &[MEMORY as u64 - 15]), FAULT);
}

/// Parent and group may change, so they are not cached.
#[test]
fn identity_comes_from_the_process_table() {
    let mut program = Program::new();
    let listed = Listed { pid: PID, parent: 1, group: 5, kernel: 2, ..Listed::default() };
    program.world.filled = listed.as_bytes().to_vec();
    program.world.answers.push_back(Reply { filled: 88, ..Reply::default() });
    program.ok("self", &[RESULT]);
    assert_eq!([0, 4, 8, 12].map(|at| program.u32(RESULT + at)), [PID, 1, 5, 2]);
    let (request, bulk) = program.world.asked.pop().unwrap();
    assert_eq!((request.op, request.pid, bulk.len()), (9, PID as i32, 88));
    assert_eq!(program.call("self", &[MEMORY as u64 - 15]), FAULT);
    program.world.answers.push_back(Reply::error(Errno::Restarted));
    assert_eq!(program.call("self", &[RESULT]), 72);
}

#[test]
fn processes_are_listed_as_whole_records() {
    let mut program = Program::new();
    program.world.answers.push_back(Reply { filled: 176, ..Reply::default() });
    program.ok("list", &[4, BUFFER, 200, RESULT]);
    assert_eq!(program.u32(RESULT), 176);
    let (request, bulk) = program.world.asked.pop().unwrap();
    assert_eq!((request.op, request.pid, bulk.len()), (10, 4, 176));
    assert_eq!(program.call("list", &[4, BUFFER, 87, RESULT]), INVAL);
    assert_eq!(program.call("list", &[4, MEMORY as u64 - 88, 177, RESULT]), FAULT);
    program.world.answers.push_back(Reply::default());
    program.ok("list", &[u64::from(u32::MAX), BUFFER, 88, RESULT]);
    assert_eq!(program.world.asked.pop().unwrap().0.pid, i32::MAX);
}
