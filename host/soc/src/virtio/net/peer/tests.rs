//! The peer with another stack at the other end, which stands for the chip.

use super::answers::{Answer, Outcome, read};
use super::client::pattern;
use super::*;
use smoltcp::socket::udp;
use std::time::Instant;

const V4: config::Network<Ipv4Addr> = config::Network {
    address: Ipv4Addr::new(10, 0, 2, 15),
    prefix: 24,
    gateway: Ipv4Addr::new(10, 0, 2, 2),
    names: Ipv4Addr::new(10, 0, 2, 3),
};
const MS: u64 = 1_000_000;
/// What the chip needs until it has received a frame.
const LATENCY: u64 = 12_345;

/// A chip that serves: an echo at port 7, datagrams with the time at 9, and HTTP at 80.
struct Chip {
    stack: Stack,
    echoes: [Echo; ECHOES],
    datagrams: SocketHandle,
    web: Option<SocketHandle>,
}

impl Chip {
    fn new() -> Chip {
        let swapped = config::Network { address: V4.gateway, gateway: V4.address, ..V4 };
        let mut stack = Stack::new(&swapped, 99);
        let datagrams = stack.datagrams(9).unwrap();
        let echo = |_| Echo { port: 7, socket: None, bytes: VecDeque::new() };
        Chip { stack, echoes: std::array::from_fn(echo), datagrams, web: None }
    }

    fn step(&mut self, now: u64) {
        self.stack.poll(now);
        self.echoes.iter_mut().for_each(|echo| echo.step(&mut self.stack));
        let web = *self.web.get_or_insert_with(|| self.stack.listen(80).unwrap());
        let socket = self.stack.get::<tcp::Socket<'_>>(web);
        if socket.can_recv() {
            let mut answer = b"HTTP/1.1 200 OK\r\nServer: a test\r\n\r\n".to_vec();
            answer.extend(pattern(300));
            socket.send_slice(&answer).unwrap();
            socket.recv(|bytes| (bytes.len(), ())).unwrap();
            socket.close();
            self.web = None;
        }
        let socket = self.stack.get::<udp::Socket<'_>>(self.datagrams);
        while let Ok((bytes, from)) = socket.recv() {
            let mut answer = bytes.to_vec();
            answer[8..16].copy_from_slice(&now.to_le_bytes());
            socket.send_slice(&answer, from.endpoint).unwrap();
        }
        self.stack.poll(now);
    }
}

/// Runs a script to its end. Returns its answers.
fn run(script: &str) -> Vec<Answer> {
    let folder = tempfile::tempdir().unwrap();
    let [file, answers] = ["script.toml", "answers"].map(|name| folder.path().join(name));
    std::fs::write(&file, script).unwrap();
    let mut peer = Peer::open((&file, &answers), &V4, Gate::open(Instant::now())).unwrap();
    let (mut chip, mut now) = (Chip::new(), 0);
    // Frames on their way from the device to the chip's program.
    let mut taken: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    for _ in 0..1_000_000 {
        peer.act(now);
        while let Some(frame) = peer.frames.pop_front() {
            peer.arrivals.push_front(now);
            taken.push_back((now + LATENCY, frame));
        }
        while taken.front().is_some_and(|(at, _)| *at <= now) {
            chip.stack.arrives(taken.pop_front().unwrap().1);
        }
        chip.step(now);
        while let Some(frame) = chip.stack.sends() {
            peer.cable.send(now, End::Peer, frame);
        }
        let clients = peer.clients.iter().filter_map(Client::next);
        let next = clients.chain(peer.cable.next()).chain(peer.stack.next(now));
        let next = next.chain(chip.stack.next(now)).chain(taken.front().map(|(at, _)| *at));
        match next.min() {
            Some(at) => now = at.max(now + 1),
            None => return read(&answers).unwrap(),
        }
    }
    panic!("it does not end: {:?}", read(&answers));
}

const ECHO: &str = "[[client]]\nname = 'e'\nkind = 'echo'\nport = 7\nbytes = 30000\n\
                    first_ms = 5\nevery_ms = 10\ncount = 10\n";

#[test]
fn every_byte_is_right_under_faults_and_runs_of_one_seed_are_equal() {
    let faults = "[cable]\nloses = 30\nrepeats = 30\ncorrupts = 10\nlate = 100\njitter_us = 30\n";
    let of_seed = |seed| run(&format!("seed = {seed}\n{faults}{ECHO}"));
    let first = of_seed(1);
    assert_eq!(first.len(), 10);
    let right = |it: &&Answer| it.outcome == Outcome::Right && it.bytes == 30_000;
    assert_eq!(first.iter().filter(right).count(), 10, "{first:?}");
    assert_eq!(first, of_seed(1));
    assert_ne!(first, of_seed(2));
}

#[test]
fn requests_begin_at_their_times_and_one_that_is_slow_delays_the_next() {
    let all = run(&format!("{ECHO}\n[cable]\ndelay_us = 5000\n"));
    let begins: Vec<u64> = all.iter().map(|it| it.at_ns - it.took_ns).collect();
    assert_eq!(begins[0], 5 * MS);
    let slowest = all.iter().map(|it| it.took_ns).max().unwrap();
    assert!(slowest > 10 * MS, "{slowest}");
    assert!(all.windows(2).all(|two| begins[two[1].number as usize] >= two[0].at_ns));
}

#[test]
fn answers_that_are_wrong_or_missing_are_not_right() {
    let client = |port, bytes| {
        format!(
            "[[client]]\nname = 'c{port}{bytes}'\nkind = 'http'\nport = {port}\n\
                 bytes = {bytes}\nfirst_ms = 1\npatience_ms = 500\n"
        )
    };
    let of = |script: &str| run(script).pop().unwrap();
    assert_eq!(of(&client(80, 300)).outcome, Outcome::Right);
    assert_eq!(of(&client(80, 301)).outcome, Outcome::Wrong);
    assert_eq!(of(&client(80, 299)).outcome, Outcome::Wrong);
    let refused = of(&client(81, 300));
    assert!(refused.outcome == Outcome::Failed && refused.took_ns < MS, "{refused:?}");
    let silent = of(&format!("[cable]\nloses = 1000\n{}", client(80, 300)));
    assert_eq!((silent.outcome, silent.took_ns), (Outcome::Failed, 500 * MS));
}

#[test]
fn a_stamp_tells_the_time_from_the_device_to_the_program() {
    let all = run("[[client]]\nname = 's'\nkind = 'stamp'\nport = 9\nbytes = 64\nfirst_ms = 10\n\
                   every_ms = 10\ncount = 3\n");
    for answer in all.iter() {
        assert_eq!((answer.outcome, answer.wake_ns), (Outcome::Right, Some(LATENCY)));
    }
    assert_eq!(all.len(), 3);
}

#[test]
fn the_peer_sends_back_what_it_receives_at_its_echoes() {
    let folder = tempfile::tempdir().unwrap();
    let [file, answers] = ["script.toml", "answers"].map(|name| folder.path().join(name));
    std::fs::write(&file, "echo = [7]\n[cable]\nloses = 30\n").unwrap();
    let mut peer = Peer::open((&file, &answers), &V4, Gate::open(Instant::now())).unwrap();
    let mut chip = Chip::new();
    let near = chip.stack.connect(7).unwrap();
    let (sent, mut back, mut at, mut now) = (pattern(20_000), Vec::new(), 0, 0);
    while back.len() < sent.len() {
        peer.act(now);
        peer.frames.drain(..).for_each(|frame| chip.stack.arrives(frame));
        chip.stack.poll(now);
        let socket = chip.stack.get::<tcp::Socket<'_>>(near);
        if socket.can_send() {
            at += socket.send_slice(&sent[at..]).unwrap();
        }
        while socket.can_recv() {
            back.extend(socket.recv(|bytes| (bytes.len(), bytes.to_vec())).unwrap());
        }
        chip.stack.poll(now);
        while let Some(frame) = chip.stack.sends() {
            peer.cable.send(now, End::Peer, frame);
        }
        let next = peer.cable.next().into_iter().chain(peer.stack.next(now));
        now = next.chain(chip.stack.next(now)).min().unwrap().max(now + 1);
        assert!(now < 60_000 * MS, "{} of {} bytes", back.len(), sent.len());
    }
    assert_eq!(back, sent);
}
