//! `poll_oneoff`.

use crate::common::*;
use kernel_process::Stop;
use kernel_process::wasi::rights;

const READ: u8 = 1;
const WRITE: u8 = 2;
const HANGUP: u8 = 3;

/// A subscription; `userdata` is its index.
enum Sub {
    Clock(u32, u64, u16),
    File(u8, u64),
}

fn subscribe(program: &mut Program, subs: &[Sub]) {
    for (index, sub) in (0u64..).zip(subs) {
        let mut bytes = [0; 48];
        bytes[..8].copy_from_slice(&index.to_le_bytes());
        match sub {
            Sub::Clock(id, timeout, flags) => {
                bytes[16..20].copy_from_slice(&id.to_le_bytes());
                bytes[24..32].copy_from_slice(&timeout.to_le_bytes());
                bytes[40..42].copy_from_slice(&flags.to_le_bytes());
            }
            Sub::File(kind, fd) => {
                bytes[8] = *kind;
                bytes[16..20].copy_from_slice(&(*fd as u32).to_le_bytes());
            }
        }
        program.put(BUFFER + 48 * index, &bytes);
    }
}

/// Returns the events: userdata, error, kind, bytes, flags.
fn poll(program: &mut Program, subs: &[Sub]) -> Vec<(u64, u16, u8, u64, u16)> {
    subscribe(program, subs);
    // Events may overwrite the subscriptions, which were all read before.
    program.ok("poll_oneoff", &[BUFFER, BUFFER, subs.len() as u64, RESULT]);
    let short = |at| u16::from_le_bytes(program.get(at, 2).try_into().unwrap());
    let event = |index: u64| {
        let at = BUFFER + 32 * index;
        let kind = program.get(at + 10, 1)[0];
        (program.u64(at), short(at + 8), kind, program.u64(at + 16), short(at + 24))
    };
    (0..u64::from(program.u32(RESULT))).map(event).collect()
}

#[test]
fn timeouts_work_with_both_clocks_relative_and_absolute() {
    let mut program = Program::new();
    let start = program.world.now;
    assert_eq!(poll(&mut program, &[Sub::Clock(1, 5000, 0)]), [(0, 0, 0, 0, 0)]);
    assert!(program.world.now >= start + 5000 && program.world.now < start + 5100);
    let at = program.world.now + 700;
    let both = [Sub::Clock(1, u64::MAX, 0), Sub::Clock(1, at, 1), Sub::Clock(0, u64::MAX, 1)];
    assert_eq!(poll(&mut program, &both), [(1, 0, 0, 0, 0)]);
    assert!(program.world.now >= at && program.world.now < at + 100);
    let day = (1 << 60) + program.world.now + 900;
    let before = program.world.now;
    assert_eq!(poll(&mut program, &[Sub::Clock(0, day, 1)]), [(0, 0, 0, 0, 0)]);
    assert!(program.world.now >= before + 890 && program.world.now < before + 1000);
    // One whose time has passed, and two at the same time.
    assert_eq!(poll(&mut program, &[Sub::Clock(1, 3, 1)]).len(), 1);
    assert_eq!(poll(&mut program, &[Sub::Clock(1, 0, 0), Sub::Clock(0, 0, 0)]).len(), 2);
}

#[test]
fn an_invalid_subscription_is_reported_in_its_event() {
    let mut program = Program::new();
    let subs = [
        Sub::File(READ, 60),
        Sub::File(WRITE, 60),
        Sub::Clock(1, 1 << 40, 0),
        Sub::Clock(4, 0, 0),
        Sub::Clock(2, 0, 0),
        Sub::Clock(1, 0, 2),
        Sub::File(READ, 1),
        Sub::File(WRITE, 1),
        Sub::File(READ, DIR),
    ];
    let events = poll(&mut program, &subs);
    let short: Vec<_> = events.iter().map(|event| (event.0, event.1, event.2)).collect();
    let expected = [
        (0, BADF, 1),
        (1, BADF, 2),
        (3, INVAL, 0),
        (4, 58, 0),
        (5, INVAL, 0),
        (6, NOTCAPABLE, 1),
        (7, 0, 2),
        (8, NOTCAPABLE, 1),
    ];
    assert_eq!(short, expected);
    assert!(program.world.now < 1 << 30);
    subscribe(&mut program, &[Sub::File(4, 0)]);
    assert_eq!(program.call("poll_oneoff", &[BUFFER, BUFFER, 1, RESULT]), INVAL);
    assert_eq!(program.call("poll_oneoff", &[BUFFER, BUFFER, 0, RESULT]), INVAL);
    let most = 2 * 1024 + 64;
    assert_eq!(program.call("poll_oneoff", &[BUFFER, BUFFER, most + 1, RESULT]), INVAL);
    let end = MEMORY as u64;
    for numbers in
        [[end - 47, BUFFER, 1, RESULT], [BUFFER, end - 31, 1, RESULT], [BUFFER, BUFFER, 1, end - 3]]
    {
        assert_eq!(program.call("poll_oneoff", &numbers), FAULT);
    }
}

#[test]
fn polling_pipes_works_with_and_without_a_timeout() {
    let mut program = Program::new();
    let input = program.input;
    let write = move |c: &mut fs::client::Client<'_>| assert_eq!(c.write(input, b"hello"), Ok(5));
    program.world.meanwhile.push_back(Box::new(write));
    assert_eq!(poll(&mut program, &[Sub::File(READ, 0)]), [(0, 0, 1, 5, 0)]);
    program.read(0, 10).unwrap();
    let both = [Sub::Clock(1, 1000, 0), Sub::File(READ, 0)];
    let start = program.world.now;
    assert_eq!(poll(&mut program, &both), [(0, 0, 0, 0, 0)]);
    assert!(program.world.now >= start + 1000);
    program.world.meanwhile.push_back(Box::new(write));
    assert_eq!(poll(&mut program, &both), [(1, 0, 1, 5, 0)]);
    program.read(0, 10).unwrap();
    program.world.with(|c| c.close(input)).unwrap();
    assert_eq!(poll(&mut program, &both), [(1, 0, 1, 0, 1)]);
    assert_eq!(poll(&mut program, &[Sub::File(WRITE, 1)]), [(0, 0, 2, 16_384, 0)]);
    program.ok("pipe", &[RESULT]);
    let reader = u64::from(program.u32(RESULT));
    subscribe(&mut program, &[Sub::File(READ, reader)]);
    let numbers = [BUFFER, BUFFER, 1, RESULT];
    assert_eq!(program.run("poll_oneoff", &numbers), Err(Stop::Interrupted));
}

#[test]
fn files_are_always_ready_and_report_their_bytes() {
    let mut program = Program::new();
    let fd = program.file("file", b"0123456789");
    program.ok("fd_seek", &[fd, 3, 0, RESULT]);
    let events = poll(&mut program, &[Sub::File(READ, fd), Sub::File(READ, 0)]);
    assert_eq!(events, [(0, 0, 1, 7, 0)]);
    program.drop_rights(fd, rights::POLL_FD_READWRITE, 0);
    assert_eq!(poll(&mut program, &[Sub::File(READ, fd)]), [(0, NOTCAPABLE, 1, 0, 0)]);
}

#[test]
fn many_descriptors_are_polled_at_once() {
    let mut program = Program::new();
    program.world.most = 3900;
    let fd = program.file("file", b"");
    program.ok("socket", &[1, 5, 0, RESULT]);
    let socket = u64::from(program.u32(RESULT));
    let one = |index| if index % 2 == 0 { fd } else { socket };
    let subs: Vec<_> = (0..2048).map(|index| Sub::File(WRITE, one(index))).collect();
    assert_eq!(poll(&mut program, &subs).len(), 2048);
    let subs: Vec<_> = (0..2049).map(|_| Sub::File(READ, fd)).collect();
    subscribe(&mut program, &subs);
    assert_eq!(program.call("poll_oneoff", &[BUFFER, BUFFER, 2049, RESULT]), INVAL);
    let clocks: Vec<_> = (0..1024).map(|_| Sub::Clock(1, 10, 0)).collect();
    assert_eq!(poll(&mut program, &clocks).len(), 1024);
}

#[test]
fn a_pipe_a_socket_and_a_timer_are_waited_for_at_once() {
    let mut program = Program::new();
    program.ok("socket", &[1, 6, 0, RESULT]);
    let listener = u64::from(program.u32(RESULT));
    program.ok("listen", &[listener, 5]);
    program.ok("local_address", &[listener, RESULT]);
    let port = u16::from_le_bytes(program.get(RESULT + 2, 2).try_into().unwrap());
    let all = |program: &mut Program| {
        poll(program, &[Sub::File(READ, 0), Sub::File(READ, listener), Sub::Clock(1, 5000, 0)])
    };
    let start = program.world.now;
    assert_eq!(all(&mut program), [(2, 0, 0, 0, 0)]);
    assert!(program.world.now >= start + 5000);
    let connect = move |c: &mut net::client::Client<'_>| assert!(c.connect(port).is_ok());
    program.world.meanwhile_net.push_back(Box::new(connect));
    assert_eq!(all(&mut program), [(1, 0, 1, 1, 0)]);
    let input = program.input;
    program.world.with(|c| c.write(input, b"ab")).unwrap();
    assert_eq!(all(&mut program), [(0, 0, 1, 2, 0), (1, 0, 1, 1, 0)]);
    program.ok("fd_close", &[listener]);
    program.read(0, 10).unwrap();
    let events = all(&mut program);
    assert_eq!(events[0], (1, BADF, 1, 0, 0));
}

#[test]
fn a_poll_for_nothing_waits_for_the_end_alone() {
    let mut program = Program::new();
    let [near, far] = {
        program.ok("socket", &[1, 6, 0, RESULT]);
        let listener = u64::from(program.u32(RESULT));
        program.ok("listen", &[listener, 5]);
        program.ok("local_address", &[listener, BUFFER]);
        program.ok("socket", &[1, 6, 0, RESULT]);
        let near = u64::from(program.u32(RESULT));
        program.ok("connect", &[near, BUFFER]);
        program.ok("accept", &[listener, 0, 0, RESULT]);
        [near, u64::from(program.u32(RESULT))]
    };
    let subs = [Sub::File(HANGUP, near), Sub::File(HANGUP, 0), Sub::Clock(1, 5000, 0)];
    program.write(far, b"data").unwrap();
    let input = program.input;
    program.world.with(|c| c.write(input, b"ab")).unwrap();
    assert_eq!(poll(&mut program, &subs), [(2, 0, 0, 0, 0)]);
    program.ok("sock_shutdown", &[near, 2]);
    program.ok("fd_close", &[far]);
    assert_eq!(poll(&mut program, &subs), [(0, 0, 3, 0, 1)]);
    assert_eq!(poll(&mut program, &[Sub::File(HANGUP, 60)]), [(0, BADF, 3, 0, 0)]);
}
