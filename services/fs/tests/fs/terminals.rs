//! Terminals: data in both directions, end of file, modes, closed ends.

use crate::common::{Solo, token};
use abi::fs::{Errno, Op, Poll, Request, flag, kind, ready};
use zerocopy::{FromBytes, IntoBytes};

fn made(solo: &mut Solo) -> (u64, u64) {
    solo.with(|c| c.terminal(0)).unwrap()
}

fn reading(handle: u64, length: u64) -> Request {
    Request { length, ..Request::new(Op::Read, handle) }
}

#[test]
fn keys_go_one_way_and_text_the_other() {
    let mut solo = Solo::new(1 << 20);
    let (screen, programs) = made(&mut solo);
    assert_eq!(solo.with(|c| c.write(screen, b"keys")), Ok(4));
    assert_eq!(solo.with(|c| c.write(programs, b"text!")), Ok(5));
    let mut bytes = [0; 16];
    assert_eq!(solo.with(|c| c.read(programs, &mut bytes)), Ok(4));
    assert_eq!(&bytes[..4], b"keys");
    assert_eq!(solo.with(|c| c.read(screen, &mut bytes)), Ok(5));
    assert_eq!(&bytes[..5], b"text!");
    assert_eq!(solo.with(|c| c.stat(programs)).unwrap().kind, kind::CHARACTER);
    assert_eq!(solo.with(|c| c.read_at(programs, 0, &mut [0; 1])), Err(Errno::Spipe));
}

#[test]
fn an_empty_write_is_an_end_of_file_read_once() {
    let mut solo = Solo::new(1 << 20);
    let (screen, programs) = made(&mut solo);
    assert_eq!(solo.ask_as(token(0, 7), reading(programs, 4), &mut [0; 4]), None);
    assert_eq!(solo.with(|c| c.write(screen, b"")), Ok(0));
    assert_eq!(solo.woken.0.iter().map(|t| t.thread).collect::<Vec<_>>(), [7]);
    let reply = solo.ask_as(token(0, 7), reading(programs, 4), &mut [0; 4]).unwrap();
    assert_eq!((reply.error, reply.value), (0, 0));
    assert_eq!(solo.ask_as(token(0, 7), reading(programs, 4), &mut [0; 4]), None);
    // The end of file comes after the text that was typed before it.
    solo.with(|c| c.write(screen, b"ab")).unwrap();
    solo.with(|c| c.write(screen, b"")).unwrap();
    let mut bytes = [0; 4];
    solo.with(|c| c.write(screen, b"cd")).unwrap();
    assert_eq!(solo.with(|c| c.read(programs, &mut bytes)), Ok(2));
    assert_eq!(solo.with(|c| c.read(programs, &mut bytes)), Ok(0));
    assert_eq!(solo.with(|c| c.read(programs, &mut bytes)), Ok(2));
    assert_eq!(&bytes[..2], b"cd");
}

#[test]
fn mode_and_group_are_visible_on_both_sides() {
    let mut solo = Solo::new(1 << 20);
    let (screen, programs) = made(&mut solo);
    assert_eq!(solo.with(|c| c.set_terminal(screen, 0, 0)), Ok((flag::COOKED, 0)));
    let how = flag::RAW | flag::GROUP;
    assert_eq!(solo.with(|c| c.set_terminal(programs, how, 9)), Ok((flag::RAW, 9)));
    assert_eq!(solo.with(|c| c.set_terminal(screen, 0, 3)), Ok((flag::RAW, 9)));
    assert_eq!(solo.with(|c| c.set_terminal(screen, 1 << 9, 3)), Err(Errno::Inval));
    let (reader, _) = solo.with(|c| c.pipe(0)).unwrap();
    assert_eq!(solo.with(|c| c.set_terminal(reader, 0, 0)), Err(Errno::Inval));
}

#[test]
fn without_a_screen_programs_read_end_of_file() {
    let mut solo = Solo::new(1 << 20);
    for _ in 0..200 {
        let (screen, programs) = made(&mut solo);
        solo.with(|c| c.close(screen)).unwrap();
        assert_eq!(solo.with(|c| c.read(programs, &mut [0; 4])), Ok(0));
        assert_eq!(solo.with(|c| c.write(programs, b"x")), Err(Errno::Pipe));
        solo.with(|c| c.close(programs)).unwrap();
        let (screen, programs) = made(&mut solo);
        solo.with(|c| c.close(programs)).unwrap();
        assert_eq!(solo.with(|c| c.write(screen, b"kept")), Ok(4));
        solo.with(|c| c.close(screen)).unwrap();
    }
    assert_eq!(solo.vfs.census(), (0, 0));
}

#[test]
fn a_poll_waits_for_keys() {
    let mut solo = Solo::new(1 << 20);
    let (screen, programs) = made(&mut solo);
    let poll = |want| Poll { handle: programs, want, ..Poll::default() };
    let request = Request { length: 24, flags: flag::WAIT, ..Request::new(Op::Poll, 0) };
    let mut bulk = poll(ready::WRITE).as_bytes().to_vec();
    assert_eq!(solo.ask_as(token(0, 1), request, &mut bulk).unwrap().value, 1);
    let mut bulk = poll(ready::READ).as_bytes().to_vec();
    assert_eq!(solo.ask_as(token(0, 1), request, &mut bulk), None);
    solo.with(|c| c.write(screen, b"k")).unwrap();
    assert_eq!(solo.ask_as(token(0, 1), request, &mut bulk).unwrap().value, 1);
    let found = Poll::read_from_bytes(&bulk).unwrap();
    assert_eq!((found.got, found.bytes), (ready::READ, 1));
}

#[test]
fn the_console_is_opened_by_its_name() {
    let mut solo = Solo::new(1 << 20);
    let root = solo.root();
    solo.with(|c| c.mount_devices(root, b"dev", b"seed")).unwrap();
    let both = flag::READ | flag::WRITE;
    let open = |solo: &mut Solo, flags| solo.with(|c| c.open(root, b"dev/console", flags));
    assert_eq!(open(&mut solo, both), Err(Errno::Nosys));
    let (screen, _) = solo.with(|c| c.terminal(flag::CONSOLE)).unwrap();
    let console = open(&mut solo, both).unwrap();
    assert_eq!(solo.with(|c| c.write(console, b"text")), Ok(4));
    assert_eq!(solo.with(|c| c.read(screen, &mut [0; 8])), Ok(4));
    let reader = open(&mut solo, flag::READ).unwrap();
    assert_eq!(solo.with(|c| c.write(reader, b"x")), Err(Errno::Badf));
    solo.with(|c| c.close(screen)).unwrap();
    assert_eq!(open(&mut solo, both), Err(Errno::Nosys));
}
