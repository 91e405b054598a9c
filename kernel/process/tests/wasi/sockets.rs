//! Sockets: streams, datagrams, addresses, options, inheritance.

use crate::common::*;
use kernel_process::begin::{PassedFile, Plan, decode, encode};
use kernel_process::wasi::rights;
use kernel_process::{Installed, Object, Stop};

const STREAM: u64 = 6;
const DATAGRAMS: u64 = 5;
const AFNOSUPPORT: u16 = 5;
const AGAIN: u16 = 6;
const CONNREFUSED: u16 = 14;
const CONNRESET: u16 = 15;
const DESTADDRREQ: u16 = 17;
const MSGSIZE: u16 = 35;
const NOTSOCK: u16 = 57;
const NOPROTOOPT: u16 = 50;
/// Where addresses are.
const ADDRESS: u64 = 0x6100;
const NEW: u64 = 0x6200;

fn put_address(program: &mut Program, family: u16, address: [u8; 4], port: u16) {
    let mut bytes = [0; 28];
    bytes[..2].copy_from_slice(&family.to_le_bytes());
    bytes[2..4].copy_from_slice(&port.to_le_bytes());
    bytes[8..12].copy_from_slice(&address);
    program.put(ADDRESS, &bytes);
}

fn socket(program: &mut Program, kind: u64) -> u64 {
    program.ok("socket", &[1, kind, 0, NEW]);
    u64::from(program.u32(NEW))
}

/// Returns family, port and address of a socket, or of its peer.
fn name(program: &mut Program, what: &str, fd: u64) -> Result<(u16, u16, [u8; 4]), u16> {
    match program.call(what, &[fd, ADDRESS]) {
        0 => {
            let short = |at| u16::from_le_bytes(program.get(at, 2).try_into().unwrap());
            let address = program.get(ADDRESS + 8, 4).try_into().unwrap();
            Ok((short(ADDRESS), short(ADDRESS + 2), address))
        }
        error => Err(error),
    }
}

/// Returns a listener, and both ends of a connection to it.
fn connection(program: &mut Program) -> [u64; 3] {
    let listener = socket(program, STREAM);
    program.ok("listen", &[listener, 8]);
    let (_, port, _) = name(program, "local_address", listener).unwrap();
    let near = socket(program, STREAM);
    put_address(program, 1, [127, 0, 0, 1], port);
    program.ok("connect", &[near, ADDRESS]);
    program.ok("accept", &[listener, 0, ADDRESS, NEW]);
    let far = u64::from(program.u32(NEW));
    [listener, near, far]
}

fn receive(program: &mut Program, fd: u64, most: u64, flags: u64) -> Result<Vec<u8>, u16> {
    let [list, count] = program.list(&[(BUFFER, most)]);
    match program.call("sock_recv", &[fd, list, count, flags, RESULT, RESULT + 8]) {
        0 => Ok(program.get(BUFFER, program.u32(RESULT) as usize).to_vec()),
        error => Err(error),
    }
}

#[test]
fn a_stream_is_read_and_written_like_a_pipe() {
    for shared in [false, true] {
        let mut program = if shared { Program::with_threads() } else { Program::new() };
        let [_, near, far] = connection(&mut program);
        assert_eq!(program.flags(near).0, 6);
        assert_eq!(program.write(near, b"hello"), Ok(5));
        assert_eq!(program.read(far, 3), Ok(b"hel".to_vec()));
        assert_eq!(receive(&mut program, far, 9, 1), Ok(b"lo".to_vec()), "peek");
        assert_eq!(program.read(far, 9), Ok(b"lo".to_vec()));
        // Several buffers, both ways.
        program.put(BUFFER, b"0123456789");
        let [list, count] = program.list(&[(BUFFER, 4), (BUFFER + 4, 6)]);
        program.ok("sock_send", &[far, list, count, 0, RESULT]);
        assert_eq!(program.u32(RESULT), 10);
        let [list, count] = program.list(&[(BUFFER + 100, 3), (BUFFER + 200, 20)]);
        program.ok("fd_read", &[near, list, count, RESULT]);
        assert_eq!((program.u32(RESULT), program.get(BUFFER + 200, 7)), (10, &b"3456789"[..]));
        // The end, and a reset.
        program.ok("sock_shutdown", &[near, 2]);
        assert_eq!(program.read(far, 3), Ok(vec![]));
        assert_eq!(program.write(near, b"x"), Err(64));
        assert_eq!(program.write(far, b"x"), Ok(1));
        program.ok("fd_close", &[near]);
        assert_eq!(program.read(far, 3), Ok(vec![]));
        assert_eq!(program.write(far, b"x"), Err(64));
        program.end();
    }
}

#[test]
fn waitall_waits_for_all() {
    let mut program = Program::new();
    let [_, near, far] = connection(&mut program);
    assert_eq!(program.write(near, b"abc"), Ok(3));
    let (handle, _) = program.process.table().get(near as u32).unwrap().object.parts();
    let more =
        move |c: &mut net::client::Client<'_>| assert_eq!(c.send(handle, &mut [b'd'; 4]), Ok(4));
    program.world.meanwhile_net.push_back(Box::new(more));
    assert_eq!(receive(&mut program, far, 5, 2), Ok(b"abcdd".to_vec()));
    assert_eq!(receive(&mut program, far, 9, 0), Ok(b"dd".to_vec()));
    // Nothing comes: a signal ends the wait.
    let [list, count] = program.list(&[(BUFFER, 4)]);
    let numbers = [far, list, count, 0, RESULT, RESULT + 8];
    assert_eq!(program.run("sock_recv", &numbers), Err(Stop::Interrupted));
    program.end();
}

#[test]
fn datagrams_have_addresses_and_may_be_empty() {
    let mut program = Program::new();
    let (near, far) = (socket(&mut program, DATAGRAMS), socket(&mut program, DATAGRAMS));
    put_address(&mut program, 1, [127, 0, 0, 1], 7);
    program.ok("bind", &[far, ADDRESS]);
    assert_eq!(name(&mut program, "local_address", far), Ok((1, 7, [127, 0, 0, 1])));
    assert_eq!(program.flags(far).0, 5);
    assert_eq!(program.write(near, b"x"), Err(DESTADDRREQ));
    for length in [0, 1, 1472] {
        put_address(&mut program, 1, [127, 0, 0, 1], 7);
        program.put(BUFFER, &vec![b'y'; length]);
        let [list, count] = program.list(&[(BUFFER, length as u64)]);
        program.ok("send_to", &[near, list, count, 0, ADDRESS, RESULT]);
        assert_eq!(program.u32(RESULT) as usize, length);
        let [list, count] = program.list(&[(BUFFER, 1000)]);
        program.ok("recv_from", &[far, list, count, 0, ADDRESS, RESULT, RESULT + 8]);
        let is_cut = u16::from(program.get(RESULT + 8, 1)[0]);
        assert_eq!(
            (program.u32(RESULT) as usize, is_cut),
            (length.min(1000), (length / 1001) as u16)
        );
        let (_, port, _) = name(&mut program, "local_address", near).unwrap();
        assert!(port >= 49_152);
    }
    let [list, count] = program.list(&[(BUFFER, 1473)]);
    put_address(&mut program, 1, [127, 0, 0, 1], 7);
    assert_eq!(program.call("send_to", &[near, list, count, 0, ADDRESS, RESULT]), MSGSIZE);
    // Connected, it can be written to.
    program.ok("connect", &[near, ADDRESS]);
    assert_eq!(name(&mut program, "peer_address", near), Ok((1, 7, [127, 0, 0, 1])));
    assert_eq!(program.write(near, b"again"), Ok(5));
    assert_eq!(program.read(far, 100), Ok(b"again".to_vec()));
    program.end();
}

/// Stores ::1 and a port.
fn put_v6(program: &mut Program, port: u16) {
    put_address(program, 2, [0; 4], port);
    program.put(ADDRESS + 23, &[1]);
}

#[test]
fn sockets_of_ipv6_have_addresses_of_ipv6() {
    let mut program = Program::new();
    program.ok("socket", &[2, STREAM, 0, NEW]);
    let listener = u64::from(program.u32(NEW));
    put_address(&mut program, 2, [0; 4], 7);
    program.ok("bind", &[listener, ADDRESS]);
    program.ok("listen", &[listener, 8]);
    // It hears both families, and has one form for both.
    for (family, mapped) in [(2, [0; 6]), (1, [0, 0, 0, 0, 0xff, 0xff])] {
        program.ok("socket", &[family, STREAM, 0, NEW]);
        let near = u64::from(program.u32(NEW));
        match family {
            1 => put_address(&mut program, 1, [127, 0, 0, 1], 7),
            _ => put_v6(&mut program, 7),
        }
        let sent = program.get(ADDRESS, 28).to_vec();
        program.ok("connect", &[near, ADDRESS]);
        program.ok("peer_address", &[near, ADDRESS]);
        assert_eq!(program.get(ADDRESS, 28), sent, "as it was connected");
        program.ok("local_address", &[near, ADDRESS]);
        let port = program.get(ADDRESS + 2, 2).to_vec();
        program.ok("accept", &[listener, 0, ADDRESS, NEW]);
        assert_eq!(program.get(ADDRESS, 2), [2, 0]);
        assert_eq!(program.get(ADDRESS + 2, 2), port);
        assert_eq!(program.get(ADDRESS + 14, 6), mapped);
        assert_eq!(program.get(ADDRESS + 23, 1), [1]);
    }
    // Datagrams as well.
    program.ok("socket", &[2, DATAGRAMS, 0, NEW]);
    let far = u64::from(program.u32(NEW));
    put_v6(&mut program, 9);
    program.ok("bind", &[far, ADDRESS]);
    program.ok("socket", &[2, DATAGRAMS, 0, NEW]);
    let near = u64::from(program.u32(NEW));
    let [list, count] = program.list(&[(BUFFER, 4)]);
    program.ok("send_to", &[near, list, count, 0, ADDRESS, RESULT]);
    program.ok("recv_from", &[far, list, count, 0, ADDRESS, RESULT, RESULT + 8]);
    assert_eq!((program.get(ADDRESS, 2), program.get(ADDRESS + 23, 1)), (&[2, 0][..], &[1][..]));
    // One of IPv4 has none of IPv6.
    let of_v4 = socket(&mut program, DATAGRAMS);
    put_v6(&mut program, 9);
    for call in ["connect", "bind"] {
        assert_eq!(program.call(call, &[of_v4, ADDRESS]), AFNOSUPPORT);
    }
    assert_eq!(program.call("send_to", &[of_v4, list, count, 0, ADDRESS, RESULT]), AFNOSUPPORT);
    program.end();
}

#[test]
fn invalid_calls_are_refused() {
    let mut program = Program::new();
    assert_eq!(program.call("socket", &[3, STREAM, 0, NEW]), AFNOSUPPORT);
    assert_eq!(program.call("socket", &[1, 4, 0, NEW]), 66);
    assert_eq!(program.call("socket", &[1, STREAM, 1, NEW]), INVAL);
    assert_eq!(program.call("socket", &[1, STREAM, 0, MEMORY as u64 - 3]), FAULT);
    let fd = socket(&mut program, STREAM);
    put_address(&mut program, 2, [0; 4], 9);
    assert_eq!(program.call("bind", &[fd, ADDRESS]), AFNOSUPPORT);
    assert_eq!(program.call("bind", &[fd, MEMORY as u64 - 27]), FAULT);
    put_address(&mut program, 1, [127, 0, 0, 1], 9);
    assert_eq!(program.call("connect", &[fd, ADDRESS]), CONNREFUSED);
    let file = program.file("file", b"");
    for (what, numbers) in [
        ("bind", vec![file, ADDRESS]),
        ("connect", vec![file, ADDRESS]),
        ("listen", vec![0, 1]),
        ("accept", vec![0, 0, 0, NEW]),
        ("sock_shutdown", vec![file, 1]),
        ("local_address", vec![DIR, ADDRESS]),
        ("get_option", vec![0, 1, NEW]),
    ] {
        assert_eq!(program.call(what, &numbers), NOTSOCK, "{what}");
    }
    // What only files have.
    assert_eq!(program.call("fd_seek", &[fd, 0, 0, RESULT]), 70);
    assert_eq!(program.call("fd_sync", &[fd]), NOTCAPABLE);
    assert_eq!(program.call("fd_filestat_set_size", &[fd, 0]), NOTCAPABLE);
    assert_eq!(program.call("terminal", &[fd, 1, 0]), INVAL);
    assert_eq!(program.call("fd_readdir", &[fd, BUFFER, 100, 0, RESULT]), 54);
    program.ok("fd_filestat_get", &[fd, BUFFER]);
    assert_eq!(program.get(BUFFER + 16, 1), [6]);
    assert_eq!(program.call("get_option", &[fd, 99, NEW]), NOPROTOOPT);
    assert_eq!(program.call("set_option", &[fd, 0x1_0002, 1]), NOPROTOOPT);
    program.ok("set_option", &[fd, 2, 1]);
    program.ok("get_option", &[fd, 2, NEW]);
    assert_eq!(program.u32(NEW), 1);
    program.end();
}

#[test]
fn a_socket_without_waiting_says_so() {
    let mut program = Program::new();
    let [listener, near, far] = connection(&mut program);
    let second = {
        program.ok("dup", &[near, NEW]);
        u64::from(program.u32(NEW))
    };
    program.ok("fd_fdstat_set_flags", &[near, 4]);
    assert_eq!(program.flags(second), (6, 4), "flags belong to the socket");
    assert_eq!(program.read(second, 4), Err(AGAIN));
    let [list, count] = program.list(&[(BUFFER, 9)]);
    let hasty = [far, list, count, 4, 0, RESULT, RESULT + 8];
    assert_eq!(program.call("recv_from", &hasty), AGAIN);
    assert_eq!(program.call("recv_from", &[far, list, count, 8, 0, RESULT, RESULT + 8]), INVAL);
    assert_eq!(program.call("sock_recv", &[far, list, count, 4, RESULT, RESULT + 8]), INVAL);
    assert_eq!(program.call("send_to", &[far, list, count, 1, 0, RESULT]), INVAL);
    program.ok("fd_fdstat_set_flags", &[listener, 4]);
    assert_eq!(program.call("sock_accept", &[listener, 0, NEW]), AGAIN);
    // Writing stops when the buffers are full.
    let sent = (0..10).map_while(|_| program.write(near, &[7; 5000]).ok()).sum::<usize>();
    assert_eq!(sent, 2 * 8192);
    assert_eq!(program.write(near, &[7; 5000]), Err(AGAIN));
    program.ok("fd_close", &[near]);
    let mut received = 0;
    while received < sent {
        received += program.read(far, 3000).unwrap().len();
    }
    program.ok("fd_renumber", &[second, far]);
    assert_eq!(program.read(far, 1), Ok(vec![]), "its peer was closed");
    program.end();
}

#[test]
fn a_full_table_of_descriptors_closes_what_was_made() {
    let mut program = Program::new();
    let [listener, near, _] = connection(&mut program);
    let (_, port, _) = name(&mut program, "local_address", listener).unwrap();
    program.world.with_net(|c| c.connect(port)).unwrap();
    while program.call("dup", &[near, NEW]) == 0 {}
    let before = program.world.net.census();
    assert_eq!(program.call("socket", &[1, STREAM, 0, NEW]), 33);
    assert_eq!(program.call("sock_accept", &[listener, 0, NEW]), 33);
    assert_eq!(program.world.net.census(), before);
}

#[test]
fn a_child_gets_the_sockets_that_it_is_passed() {
    let mut program = Program::new();
    let [_, near, far] = connection(&mut program);
    let own = program.process.table().get(near as u32).unwrap();
    let passed = |descriptor, object| PassedFile {
        object,
        rights: rights::FD_READ | rights::FD_WRITE | rights::FD_SEEK,
        inheriting: 0,
        descriptor,
        preopen: None,
    };
    let files = [passed(0, own.object)];
    let plan = Plan { path: b"/p", files: &files, ..Plan::default() };
    let encoded = encode(&plan).unwrap();
    let decoded = decode(&encoded).unwrap();
    assert_eq!(decoded.files().map(|file| file.object).collect::<Vec<_>>(), [own.object]);
    let installed = Installed { folders: true, signals: false };
    let child = begun(&mut program.world, 9, &encoded, installed).unwrap();
    let it = child.table().get(0).unwrap();
    assert!(it.object != own.object && it.socket().is_ok() && it.kind == 6);
    assert_eq!(it.rights, rights::FD_READ | rights::FD_WRITE);
    program.ok("fd_close", &[near]);
    assert_eq!(program.write(far, b"x"), Ok(1), "the child has it open");
    child.close_all(&mut program.world);
    assert_eq!(program.write(far, b"x"), Err(CONNRESET));
    // A socket has no name, and a handle that is not open is none.
    let folders = [PassedFile { preopen: named(b"/"), ..passed(3, own.object) }];
    assert!(encode(&Plan { path: b"/p", files: &folders, ..Plan::default() }).is_err());
    let gone = [passed(3, Object::Socket(12345))];
    let encoded = encode(&Plan { path: b"/p", files: &gone, ..Plan::default() }).unwrap();
    let refused = begun(&mut program.world, 9, &encoded, installed);
    assert!(refused.is_err());
    program.end();
}

#[test]
fn rules_decide_what_is_reached() {
    const ACCES: u16 = 2;
    let mut program = Program::new();
    program.process.restrict(b"connect:127.0.0.1:9\0listen:80\0").unwrap();
    let fd = socket(&mut program, STREAM);
    for (port, bind, connect) in [(80, 0, ACCES), (9, ACCES, CONNREFUSED), (81, ACCES, ACCES)] {
        put_address(&mut program, 1, [127, 0, 0, 1], port);
        let other = socket(&mut program, STREAM);
        assert_eq!(program.call("bind", &[other, ADDRESS]), bind, "{port}");
        assert_eq!(program.call("listen", &[other, 1]), if bind == 0 { 0 } else { ACCES });
        assert_eq!(program.call("connect", &[fd, ADDRESS]), connect, "{port}");
        let datagrams = socket(&mut program, DATAGRAMS);
        let [list, count] = program.list(&[(BUFFER, 1)]);
        let sent = program.call("send_to", &[datagrams, list, count, 0, ADDRESS, RESULT]);
        assert_eq!(sent, if connect == ACCES { ACCES } else { 0 }, "{port}");
    }
    // The rule is for IPv4.
    program.ok("socket", &[2, STREAM, 0, NEW]);
    let fd6 = u64::from(program.u32(NEW));
    put_v6(&mut program, 9);
    assert_eq!(program.call("connect", &[fd6, ADDRESS]), ACCES);
    // A port that the service chooses is not one to listen at.
    put_address(&mut program, 1, [127, 0, 0, 1], 0);
    assert_eq!(program.call("bind", &[fd, ADDRESS]), 0);
    assert_eq!(program.call("listen", &[fd, 1]), ACCES);
    program.end();
}

#[test]
fn a_child_reaches_no_more_than_its_parent() {
    let begin = |world: &mut World, net: Option<&[u8]>, rules: Option<&[u8]>| {
        let encoded = encode(&Plan { path: b"/p", net, ..Plan::default() }).unwrap();
        let decoded = decode(&encoded).unwrap();
        assert_eq!(decoded.net, net);
        let installed = Installed { folders: true, signals: false };
        let mut child = begun(world, 9, &encoded, installed).unwrap();
        rules.map_or(Ok(()), |rules| child.restrict(rules)).map(|()| child.is_restricted())
    };
    let mut program = Program::new();
    let (all, some): (&[u8], &[u8]) = (b"connect:*:*\0", b"connect:*:443\0");
    let world = &mut program.world;
    assert_eq!(begin(world, None, None), Ok(false));
    assert_eq!(begin(world, None, Some(some)), Ok(true));
    assert_eq!(begin(world, Some(all), Some(some)), Ok(true));
    assert_eq!(begin(world, Some(some), None), Ok(true));
    assert_eq!(begin(world, Some(some), Some(all)).map_err(|why| why.0), Err(NOTCAPABLE));
    assert_eq!(begin(world, Some(b""), Some(some)).map_err(|why| why.0), Err(NOTCAPABLE));
    assert_eq!(begin(world, Some(b""), Some(b"")), Ok(true));
    assert!(encode(&Plan { path: b"/p", net: Some(b"bind:1\0"), ..Plan::default() }).is_err());
    program.end();
}
