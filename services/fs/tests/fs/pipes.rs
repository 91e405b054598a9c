//! Pipes and polls: which callers wait, and which are woken.

use crate::common::{Solo, token};
use abi::fs::{Errno, Op, Poll, Reply, Request, flag, ready};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use fs::vfs::pipe::{ATOMIC, CAPACITY, PIPES};
use share::{Answer, Effects, Event, Service, Token};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, IntoBytes};

pub fn read(handle: u64, length: u64) -> Request {
    Request { length, ..Request::new(Op::Read, handle) }
}

pub fn write(handle: u64, length: usize) -> Request {
    Request { length: length as u64, ..Request::new(Op::Write, handle) }
}

fn again(solo: &mut Solo, token: Token, request: Request, bulk: &mut [u8]) -> Option<Reply> {
    match solo.vfs.step(solo.now, Event::Again { token, request: &request, bulk }, &mut solo.woken)
    {
        Answer::Done(reply) => Some(reply),
        Answer::Parked => None,
        Answer::NoReply => panic!("no reply"),
    }
}

pub fn piped() -> (Solo, u64, u64) {
    let mut solo = Solo::new(1 << 20);
    let (reader, writer) = solo.with(|c| c.pipe(0)).unwrap();
    (solo, reader, writer)
}

#[test]
fn a_waiting_reader_is_woken_once() {
    let (mut solo, reader, writer) = piped();
    let (asker, mut bulk) = (token(1, 5), [0; 8]);
    assert_eq!(solo.ask_as(asker, read(reader, 8), &mut bulk), None);
    assert_eq!(solo.vfs.census().1, 1);
    assert_eq!(solo.with(|c| c.write(writer, b"abc")), Ok(3));
    assert_eq!(solo.take_woken(), [asker]);
    assert_eq!(solo.with(|c| c.write(writer, b"d")), Ok(1));
    assert_eq!(solo.take_woken(), [], "once");
    let reply = again(&mut solo, asker, read(reader, 8), &mut bulk).unwrap();
    assert_eq!((reply.filled, &bulk[..4]), (4, b"abcd".as_slice()));
}

/// Effects of a kernel in which every waiting caller can be given data.
#[derive(Default)]
struct Gives {
    given: Vec<(Token, Vec<u8>)>,
    woken: Vec<Token>,
}

impl Effects for Gives {
    fn wake(&mut self, token: Token) {
        self.woken.push(token);
    }
    fn give(&mut self, token: Token, bytes: &[u8]) -> bool {
        self.given.push((token, bytes.to_vec()));
        true
    }
    fn wake_all(&mut self) {
        unreachable!("no state is lost here")
    }
    fn timer(&mut self, _at: u64) {}
}

fn giving(solo: &mut Solo, gives: &mut Gives, event: Event<'_, Request>) -> Option<Reply> {
    match solo.vfs.step(solo.now, event, gives) {
        Answer::Done(reply) => Some(reply),
        _ => None,
    }
}

#[test]
fn a_single_waiting_read_is_answered_by_the_write() {
    let (mut solo, reader, writer) = piped();
    let (one, two, mut gives) = (token(1, 5), token(1, 6), Gives::default());
    let mut write_some = |solo: &mut Solo, length| {
        let (token, bulk) = (token(1, 7), &mut [7; 8][..length]);
        let event = Event::Request { token, request: &write(writer, length), bulk };
        assert_eq!(giving(solo, &mut gives, event).unwrap().value, length as u64);
        (core::mem::take(&mut gives.given), core::mem::take(&mut gives.woken))
    };
    assert_eq!(solo.ask_as(one, read(reader, 4), &mut [0; 4]), None);
    assert_eq!(write_some(&mut solo, 3), (vec![(one, vec![7; 3])], vec![]));
    assert_eq!(solo.vfs.census().1, 0, "it no longer waits");
    assert_eq!(Vfs::given(&read(reader, 4), 3).map(|reply| reply.value), Some(3));
    assert_eq!(Vfs::given(&write(writer, 4), 3), None);
    assert_eq!(solo.with(|c| c.stat(reader)).unwrap().size, 0, "nothing is left");

    assert_eq!(solo.ask_as(one, read(reader, 4), &mut [0; 4]), None);
    assert_eq!(write_some(&mut solo, 5), (vec![], vec![one]), "more than it takes");
    assert_eq!(again(&mut solo, one, read(reader, 8), &mut [0; 8]).unwrap().value, 5);

    assert_eq!(solo.ask_as(one, read(reader, 4), &mut [0; 4]), None);
    assert_eq!(solo.ask_as(two, read(reader, 4), &mut [0; 4]), None);
    assert_eq!(write_some(&mut solo, 2), (vec![], vec![one, two]), "two wait");
}

/// Two readers that may each be given data, give up, or be woken. Every byte reaches one of them,
/// in the order written.
#[test]
fn given_bytes_are_neither_lost_nor_repeated() {
    for seed in 0..200 {
        let (mut solo, reader, writer) = piped();
        let (mut random, mut gives) = (Prng::new(seed), Gives::default());
        let (mut written, mut got) = (Vec::new(), Vec::new());
        let mut waits = BTreeMap::new();
        let last = 400;
        for step in 0..=last + 600 {
            let thread = 5 + random.below(2);
            let length = 1 + random.below(12) as usize;
            if step < last && random.chance(1, 2) {
                let mut bulk: Vec<u8> = (0..length).map(|at| (written.len() + at) as u8).collect();
                let event = Event::Request {
                    token: token(1, 1),
                    request: &write(writer, length),
                    bulk: &mut bulk,
                };
                if giving(&mut solo, &mut gives, event).is_some() {
                    written.extend(bulk);
                }
                for (token, bytes) in gives.given.drain(..) {
                    assert!(waits.remove(&token.thread).is_some_and(|room| bytes.len() <= room));
                    got.extend(bytes);
                }
            } else if waits.contains_key(&thread) && random.chance(1, 3) {
                let cancel = Event::Cancel(token(1, thread));
                assert_eq!(giving(&mut solo, &mut gives, cancel), None);
                waits.remove(&thread);
            } else {
                let room = waits.get(&thread).copied().unwrap_or(length);
                let (token, mut bulk) = (token(1, thread), vec![0; room]);
                let request = read(reader, room as u64);
                let bulk_ref = &mut bulk;
                let event = match waits.contains_key(&thread) {
                    true => Event::Again { token, request: &request, bulk: bulk_ref },
                    false => Event::Request { token, request: &request, bulk: bulk_ref },
                };
                match giving(&mut solo, &mut gives, event) {
                    Some(reply) => {
                        got.extend(&bulk[..reply.value as usize]);
                        waits.remove(&thread);
                    }
                    None => drop(waits.insert(thread, room)),
                }
            }
        }
        assert_eq!(got, written, "seed {seed}");
    }
}

#[test]
fn a_new_request_ends_the_wait_of_the_old_one() {
    let (mut solo, reader, writer) = piped();
    assert_eq!(solo.ask_as(token(1, 5), read(reader, 8), &mut [0; 8]), None);
    solo.with_as(token(1, 5), |c| c.stat(reader)).unwrap();
    assert_eq!(solo.vfs.census().1, 0);
    solo.with(|c| c.write(writer, b"abc")).unwrap();
    assert_eq!(solo.take_woken(), []);
}

#[test]
fn of_two_readers_the_late_one_parks_again() {
    let (mut solo, reader, writer) = piped();
    let (one, two, mut bulk) = (token(0, 11), token(1, 12), [0; 3]);
    assert_eq!(solo.ask_as(one, read(reader, 3), &mut bulk), None);
    assert_eq!(solo.ask_as(two, read(reader, 3), &mut bulk), None);
    solo.with(|c| c.write(writer, b"abc")).unwrap();
    assert_eq!(solo.take_woken(), [one, two], "in the order in which they came");
    assert_eq!(again(&mut solo, two, read(reader, 3), &mut bulk).unwrap().value, 3);
    assert_eq!(again(&mut solo, one, read(reader, 3), &mut bulk), None);
    solo.with(|c| c.write(writer, b"x")).unwrap();
    assert_eq!(solo.take_woken(), [one]);
    assert_eq!(again(&mut solo, one, read(reader, 3), &mut bulk).unwrap().value, 1);
}

#[test]
fn a_cancelled_or_dead_reader_is_not_woken_and_consumes_nothing() {
    let (mut solo, reader, writer) = piped();
    let askers = [token(0, 1), token(0, 2), token(1, 3), token(1, 4)];
    for asker in askers {
        assert_eq!(solo.ask_as(asker, read(reader, 1), &mut [0]), None);
    }
    solo.tell(Event::Cancel(askers[1]));
    solo.tell(Event::Cancel(askers[1]));
    solo.tell(Event::Cancel(token(3, 99)));
    solo.tell(Event::Gone(DomainId(1), Epoch(2)));
    assert_eq!(solo.vfs.census(), (2, 3), "another life of that kernel");
    solo.tell(Event::Gone(DomainId(1), Epoch(1)));
    assert_eq!(solo.vfs.census(), (2, 1));
    solo.with_as(token(0, 77), |c| c.write(writer, b"a")).unwrap();
    assert_eq!(solo.take_woken(), [askers[0]]);
    // It gives up after its wake. The byte is still there for the next reader.
    solo.tell(Event::Cancel(askers[0]));
    assert_eq!(solo.ask_as(askers[1], read(reader, 1), &mut [0]).unwrap().value, 1);
}

#[test]
fn the_end_of_writers_ends_a_wait_and_no_readers_break_the_pipe() {
    let (mut solo, reader, writer) = piped();
    let asker = token(1, 5);
    let second = solo.with(|c| c.dup(writer)).unwrap();
    assert_eq!(solo.ask_as(asker, read(reader, 1), &mut [0]), None);
    solo.with(|c| c.close(writer)).unwrap();
    assert_eq!(solo.take_woken(), [asker]);
    assert_eq!(again(&mut solo, asker, read(reader, 1), &mut [0]), None, "one is left");
    solo.with(|c| c.close(second)).unwrap();
    assert_eq!(solo.take_woken(), [asker]);
    assert_eq!(again(&mut solo, asker, read(reader, 1), &mut [0]).unwrap().value, 0);
    let (reader, writer) = solo.with(|c| c.pipe(0)).unwrap();
    solo.with(|c| c.close(reader)).unwrap();
    assert_eq!(solo.with(|c| c.write(writer, b"a")), Err(Errno::Pipe));
}

#[test]
fn the_death_of_a_pipes_owner_ends_the_waits_of_others() {
    let mut solo = Solo::new(1 << 20);
    let (main, shadow) = (token(0, 1), token(1, 1));
    let (reader, writer) = solo.with_as(main, |c| c.pipe(0)).unwrap();
    let kept = solo.with_as(shadow, |c| c.dup(reader)).unwrap();
    assert_eq!(solo.ask_as(shadow, read(kept, 1), &mut [0]), None);
    assert_eq!(solo.ask_as(token(1, 2), read(reader, 1), &mut [0]), None);
    solo.tell(Event::Gone(DomainId(0), Epoch(1)));
    assert_eq!(solo.take_woken().len(), 2);
    assert_eq!(again(&mut solo, shadow, read(kept, 1), &mut [0]).unwrap().value, 0);
    let lost = again(&mut solo, token(1, 2), read(reader, 1), &mut [0]).unwrap();
    assert_eq!(lost.errno(), Errno::Badf);
    assert_eq!(solo.with_as(shadow, |c| c.stat(writer)), Err(Errno::Badf));
}

#[test]
fn a_full_pipe_parks_writers_and_small_writes_are_atomic() {
    let (mut solo, reader, writer) = piped();
    let asker = token(0, 5);
    let mut sent = 0;
    while sent + ATOMIC < CAPACITY {
        sent += solo.with(|c| c.write(writer, &vec![1; ATOMIC])).unwrap();
    }
    assert_eq!(solo.with(|c| c.write(writer, &vec![2; ATOMIC - 1])), Ok(ATOMIC - 1));
    assert_eq!(solo.ask_as(asker, write(writer, 2), &mut [3, 3]), None);
    assert_eq!(solo.with(|c| c.read(reader, &mut [0])), Ok(1));
    assert_eq!(solo.take_woken(), [asker]);
    assert_eq!(again(&mut solo, asker, write(writer, 2), &mut [3, 3]).unwrap().value, 2);
    let mut bulk = vec![0; 2 * CAPACITY];
    assert_eq!(solo.with(|c| c.read(reader, &mut bulk)), Ok(CAPACITY));
    assert_eq!(bulk[CAPACITY - 2..CAPACITY], [3, 3]);
    let mut long = vec![4; 3 * CAPACITY];
    assert_eq!(solo.ask(write(writer, long.len()), &mut long).value, CAPACITY as u64);
}

#[test]
fn nonblock_fails_instead_of_waiting() {
    let mut solo = Solo::new(1 << 20);
    let (reader, writer) = solo.with(|c| c.pipe(flag::NONBLOCK)).unwrap();
    assert_eq!(solo.with(|c| c.read(reader, &mut [0])), Err(Errno::Again));
    assert_eq!(solo.ask(read(reader, 0), &mut []).error, 0, "nothing wanted, nothing to wait for");
    solo.with(|c| c.write(writer, &[0; CAPACITY])).unwrap();
    assert_eq!(solo.with(|c| c.write(writer, b"a")), Err(Errno::Again));
    solo.ask(Request::new(Op::SetFlags, writer), &mut []);
    assert_eq!(solo.ask_as(token(0, 9), write(writer, 1), &mut [0]), None);
}

#[test]
fn the_number_of_pipes_is_limited_and_closing_frees_them() {
    let mut solo = Solo::new(1 << 20);
    let mut pipes = Vec::new();
    for _ in 0..PIPES {
        pipes.push(solo.with(|c| c.pipe(0)).unwrap());
    }
    assert_eq!(solo.with(|c| c.pipe(0)), Err(Errno::Nfile));
    for (reader, writer) in pipes {
        solo.with(|c| c.close(reader)).unwrap();
        solo.with(|c| c.close(writer)).unwrap();
    }
    assert_eq!(solo.vfs.census(), (0, 0));
    solo.with(|c| c.pipe(0)).unwrap();
}

fn poll(handles: &[(u64, u16)], flags: u16) -> (Request, Vec<u8>) {
    let polls = handles.iter().map(|(handle, want)| {
        Poll { handle: *handle, want: *want, ..Poll::default() }.as_bytes().to_vec()
    });
    let bulk = polls.collect::<Vec<_>>().concat();
    (Request { flags, length: bulk.len() as u64, ..Request::new(Op::Poll, 0) }, bulk)
}

fn polled(bulk: &[u8]) -> Vec<Poll> {
    bulk.chunks(size_of::<Poll>()).map(|p| Poll::read_from_bytes(p).unwrap()).collect()
}

#[test]
fn a_poll_waits_for_the_first_of_several_and_is_woken_once() {
    let (mut solo, reader, writer) = piped();
    let (other, other_writer) = solo.with(|c| c.pipe(0)).unwrap();
    let asker = token(1, 3);
    let (request, mut bulk) = poll(&[(reader, ready::READ), (other, ready::READ)], flag::WAIT);
    bulk[10] = 9; // `got`, with a value left by the caller
    let before = bulk.clone();
    assert_eq!(solo.ask_as(asker, request, &mut bulk), None);
    assert_eq!(bulk, before, "nothing is answered yet");
    solo.with(|c| c.write(other_writer, b"abc")).unwrap();
    solo.with(|c| c.write(writer, b"a")).unwrap();
    assert_eq!(solo.take_woken(), [asker]);
    let reply = again(&mut solo, asker, request, &mut bulk).unwrap();
    assert_eq!(reply.value, 2);
    let found: Vec<_> = polled(&bulk).iter().map(|p| (p.got, p.bytes)).collect();
    assert_eq!(found, [(ready::READ, 1), (ready::READ, 3)]);
    assert_eq!(solo.vfs.census().1, 0);
}

#[test]
fn a_poll_reports_files_hangups_and_bad_handles() {
    let (mut solo, reader, writer) = piped();
    let root = solo.root();
    let file = solo.with(|c| c.open(root, b"f", flag::READ | flag::WRITE | flag::CREATE)).unwrap();
    solo.with(|c| c.write_at(file, 0, b"12345")).unwrap();
    solo.with(|c| c.close(writer)).unwrap();
    let (request, mut bulk) =
        poll(&[(reader, ready::READ), (file, ready::READ | ready::WRITE), (77, 1)], flag::WAIT);
    assert_eq!(solo.ask(request, &mut bulk).value, 3);
    let found: Vec<_> = polled(&bulk).iter().map(|p| (p.got, p.error, p.bytes)).collect();
    assert_eq!(found[0], (ready::READ | ready::HANGUP, 0, 0));
    assert_eq!(found[1], (ready::READ | ready::WRITE, 0, 5));
    assert_eq!(found[2].1, Errno::Badf as u16);
    let (request, _) = poll(&[], flag::WAIT);
    assert_eq!(solo.ask(request, &mut []).errno(), Errno::Inval, "nothing would ever wake it");
}

/// Returns the callers that are woken when nothing else happens for a while.
pub fn woken_later(solo: &mut Solo) -> Vec<Token> {
    solo.now += 1_000_000;
    solo.tell(Event::Timer);
    solo.take_woken()
}

/// Callers in three kernels read and write one pipe, give up and die at random. A parked caller
/// that could continue is woken, and no other; every byte arrives once.
#[test]
fn no_wake_is_lost_or_sent_twice() {
    for seed in 0..200 {
        let mut random = Prng::new(seed);
        let (mut solo, reader, writer) = piped();
        let (mut sent, mut received) = (0u64, 0u64);
        let mut parked: BTreeMap<Token, Request> = BTreeMap::new();
        for _ in 0..400 {
            let asker = token(1 + random.below(2) as u8, random.below(4));
            match random.below(8) {
                0 => {
                    solo.tell(Event::Cancel(asker));
                    parked.remove(&asker);
                }
                1 if random.chance(1, 8) => {
                    solo.tell(Event::Gone(asker.kernel(), Epoch(1)));
                    parked.retain(|t, _| t.kernel() != asker.kernel());
                }
                2..5 if !parked.contains_key(&asker) => {
                    let request = read(reader, 1 + random.below(6000));
                    match solo.ask_as(asker, request, &mut [0; 6000]) {
                        Some(reply) => received += reply.value,
                        None => drop(parked.insert(asker, request)),
                    }
                }
                5.. if !parked.contains_key(&asker) => {
                    let request = write(writer, 1 + random.below(6000) as usize);
                    match solo.ask_as(asker, request, &mut [0; 6000]) {
                        Some(reply) => sent += reply.value,
                        None => drop(parked.insert(asker, request)),
                    }
                }
                _ => {}
            }
            // Every woken caller asks again, in a random order; then those that are woken later.
            let mut woken = solo.take_woken();
            if woken.is_empty() {
                woken = woken_later(&mut solo);
            }
            while !woken.is_empty() {
                let asker = woken.swap_remove(random.below(woken.len() as u64) as usize);
                let request = parked.remove(&asker).expect("a woken caller was parked, once");
                match again(&mut solo, asker, request, &mut [0; 6000]) {
                    Some(reply) if request.op == Op::Read as u16 => received += reply.value,
                    Some(reply) => sent += reply.value,
                    None => drop(parked.insert(asker, request)),
                }
                woken.extend(solo.take_woken());
                if woken.is_empty() {
                    woken = woken_later(&mut solo);
                }
            }
            assert_eq!(solo.vfs.census().1, parked.len(), "seed {seed}");
            let full = sent - received;
            for request in parked.values() {
                let is_read = request.op == Op::Read as u16;
                let could = if is_read {
                    full > 0
                } else {
                    let room = CAPACITY as u64 - full;
                    if request.length <= ATOMIC as u64 { request.length <= room } else { room > 0 }
                };
                assert!(!could, "seed {seed}: {request:?} waits with {full} bytes in the pipe");
            }
        }
    }
}
