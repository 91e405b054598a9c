//! Two kernels use one file service concurrently; and the failures of broken sharing.

use abi::fs::{Op, Poll, Reply, Request, flag};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use fs::model::Model;
use linear::files::{Ask, Files, Got};
use linear::{Call, Failure, Tally, check};
use share::{Answer, Effects, Event, Service, Token};

const BUDGET: u64 = 1 << 20;
/// Number of threads, two per kernel.
const THREADS: u32 = 4;
const CALLS: usize = 60;

type History = Vec<Call<Ask, Got>>;

/// A broken way of sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// Kernel 1 sees kernel 0's changes late: its cache is stale.
    Stale,
    /// Some writes are answered but lost.
    Lost,
    /// Some requests are executed twice, as when a message is resent.
    Twice,
    /// Some replies are sent before the step.
    Early,
}

#[derive(Default)]
struct Woken(Vec<Token>);

impl Effects for Woken {
    fn wake(&mut self, token: Token) {
        self.0.push(token);
    }
    fn wake_all(&mut self) {
        unreachable!("no state is lost here")
    }

    fn timer(&mut self, _at: u64) {}
}

/// State of a thread.
#[derive(Clone)]
enum Doing {
    Nothing,
    /// Sent, not executed yet; `true` if woken after a park.
    Asked(usize, bool),
    Parked(usize),
    Answered(usize),
}

struct World {
    random: Prng,
    broken: Option<Broken>,
    vfs: Vfs,
    /// Kernel 1's state when it is stale, and the changes it has not seen yet.
    behind: Vfs,
    late: Vec<(Token, Ask)>,
    now: u64,
    doing: Vec<Doing>,
    history: History,
    /// Handles shared by all: the root, and the pipe's two ends.
    root: u64,
    pipe: (u64, u64),
    files: Vec<u64>,
}

fn token(thread: u32) -> Token {
    Token::new(DomainId((thread % 2) as u8), Epoch(1), thread.into(), 0)
}

fn step(vfs: &mut Vfs, token: Token, ask: &Ask, again: bool) -> (Option<Got>, Vec<Token>) {
    let (mut bulk, mut woken, request) = (ask.bulk.clone(), Woken::default(), ask.request);
    let event = match again {
        false => Event::Request { token, request: &request, bulk: &mut bulk },
        true => Event::Again { token, request: &request, bulk: &mut bulk },
    };
    let answer = vfs.step(0, event, &mut woken);
    let got = match answer {
        Answer::Done(reply) => {
            bulk.truncate(reply.filled as usize);
            Some(Got { reply, filled: bulk })
        }
        _ => None,
    };
    (got, woken.0)
}

impl World {
    fn new(seed: u64, broken: Option<Broken>) -> World {
        let mut world = World {
            random: Prng::new(seed),
            broken,
            vfs: Vfs::with_budget(1, BUDGET),
            behind: Vfs::with_budget(1, BUDGET),
            late: Vec::new(),
            now: 0,
            doing: vec![Doing::Nothing; THREADS as usize],
            history: History::new(),
            root: 0,
            pipe: (0, 0),
            files: Vec::new(),
        };
        world.root = world.alone(Request::new(Op::Root, 0), b"").handle;
        let pipe = world.alone(Request::new(Op::Pipe, 0), b"");
        world.pipe = (pipe.handle, pipe.other);
        for name in [b"a", b"b"] {
            let flags = flag::READ | flag::WRITE | flag::CREATE | flag::APPEND;
            let request = Request { name: 1, flags, ..Request::new(Op::Open, world.root) };
            let handle = world.alone(request, name).handle;
            world.files.push(handle);
        }
        world
    }

    /// Makes a call while no other is in progress.
    fn alone(&mut self, request: Request, bulk: &[u8]) -> Reply {
        let ask = Ask { request, bulk: bulk.to_vec() };
        let (got, _) = step(&mut self.vfs, token(0), &ask, false);
        step(&mut self.behind, token(0), &ask, false);
        let got = got.expect("nothing waits here");
        let reply = got.reply;
        let (invoked, returned) = (self.now, self.now + 1);
        self.now += 2;
        self.history.push(Call { who: 0, ask, reply: Some(got), invoked, returned });
        reply
    }

    fn random_ask(&mut self) -> Ask {
        let names: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        let name = names[self.random.below(4) as usize];
        let file = self.files[self.random.below(2) as usize];
        let named = |op, flags| {
            let request = Request { name: 1, flags, ..Request::new(op, self.root) };
            Ask { request, bulk: name.to_vec() }
        };
        let with = |request: Request, bulk: Vec<u8>| Ask {
            request: Request { length: bulk.len() as u64, ..request },
            bulk,
        };
        let byte = (self.history.len() % 251) as u8;
        match self.random.below(14) {
            0 => named(Op::Open, flag::WRITE | flag::CREATE | flag::EXCLUSIVE),
            1 => named(Op::Unlink, 0),
            2 => named(Op::StatPath, 0),
            3 => named(Op::Mkdir, 0),
            4 => named(Op::Rmdir, 0),
            5 => {
                let second = self.root;
                let two = Request { name: 1, other: 1, second, ..Request::new(Op::Rename, second) };
                let other = names[self.random.below(4) as usize];
                Ask { request: two, bulk: [name, other].concat() }
            }
            6 | 7 => with(Request::new(Op::Write, file), vec![byte; 3]),
            8 => with(Request { flags: flag::AT, ..Request::new(Op::Read, file) }, vec![0; 40]),
            9 => Ask { request: Request::new(Op::Stat, file), bulk: Vec::new() },
            10 => with(Request::new(Op::Readdir, self.root), vec![0; 600]),
            11 => with(Request::new(Op::Write, self.pipe.1), vec![byte; 2]),
            12 => with(Request::new(Op::Read, self.pipe.0), vec![0; 1]),
            _ => {
                let poll = Poll { handle: self.pipe.0, want: 1, ..Poll::default() };
                let bulk = zerocopy_bytes(&poll);
                with(Request::new(Op::Poll, 0), bulk)
            }
        }
    }

    /// Lets a thread do its next step.
    fn turn(&mut self, thread: u32, may_begin: bool) {
        self.now += 1 + self.random.below(3);
        match self.doing[thread as usize].clone() {
            Doing::Nothing if may_begin => {
                let (ask, invoked) = (self.random_ask(), self.now);
                let call = Call { who: thread, ask, reply: None, invoked, returned: u64::MAX };
                self.doing[thread as usize] = Doing::Asked(self.history.len(), false);
                self.history.push(call);
            }
            Doing::Asked(at, again) => self.execute(thread, at, again),
            Doing::Answered(at) => {
                self.history[at].returned = self.now;
                self.doing[thread as usize] = Doing::Nothing;
            }
            Doing::Nothing | Doing::Parked(_) => {}
        }
    }

    fn execute(&mut self, thread: u32, at: usize, again: bool) {
        let (who, ask) = (token(thread), self.history[at].ask.clone());
        let is = |op| ask.request.op == op as u16;
        let strikes = self.random.chance(1, 4);
        let (got, woken) = match self.broken {
            Some(Broken::Lost) if strikes && is(Op::Write) => {
                let value = ask.request.length;
                (Some(Got { reply: Reply { value, ..Reply::default() }, filled: vec![] }), vec![])
            }
            Some(Broken::Twice) if strikes && !is(Op::Read) && !is(Op::Open) => {
                let (_, mut woken) = step(&mut self.vfs, who, &ask, again);
                let (got, more) = step(&mut self.vfs, who, &ask, true);
                woken.extend(more);
                (got, woken)
            }
            Some(Broken::Stale) => self.execute_stale(thread, &ask, again),
            Some(Broken::Early)
                if strikes && is(Op::Write) && ask.request.handle != self.pipe.1 =>
            {
                self.late.push((who, ask.clone()));
                let value = ask.request.length;
                (Some(Got { reply: Reply { value, ..Reply::default() }, filled: vec![] }), vec![])
            }
            _ => step(&mut self.vfs, who, &ask, again),
        };
        self.doing[thread as usize] = match got {
            Some(_) => Doing::Answered(at),
            None => Doing::Parked(at),
        };
        self.history[at].reply = got;
        self.wake(&woken);
    }

    /// Each kernel has its own copy; kernel 0's changes reach kernel 1 in batches.
    fn execute_stale(&mut self, thread: u32, ask: &Ask, again: bool) -> (Option<Got>, Vec<Token>) {
        let who = token(thread);
        if who.kernel().0 == 0 {
            self.late.push((who, ask.clone()));
            return step(&mut self.vfs, who, ask, again);
        }
        step(&mut self.vfs, who, ask, again);
        step(&mut self.behind, who, ask, again)
    }

    fn catch_up(&mut self) {
        for (who, ask) in std::mem::take(&mut self.late) {
            let into =
                if self.broken == Some(Broken::Early) { &mut self.vfs } else { &mut self.behind };
            step(into, who, &ask, false);
        }
    }

    fn wake(&mut self, woken: &[Token]) {
        for thread in 0..THREADS {
            if let Doing::Parked(at) = self.doing[thread as usize]
                && woken.contains(&token(thread))
            {
                self.doing[thread as usize] = Doing::Asked(at, true);
            }
        }
    }

    fn run(mut self) -> History {
        let limit = self.history.len() + CALLS;
        for _ in 0..100 * CALLS {
            let thread = self.random.below(THREADS.into()) as u32;
            let may_begin = self.history.len() < limit;
            self.turn(thread, may_begin);
            if self.random.chance(1, 12) {
                self.catch_up();
            }
        }
        self.history
    }
}

fn zerocopy_bytes(poll: &Poll) -> Vec<u8> {
    let mut bytes = poll.handle.to_le_bytes().to_vec();
    bytes.extend(poll.want.to_le_bytes());
    bytes.resize(24, 0);
    bytes
}

fn judge(seed: u64, broken: Option<Broken>) -> Result<Tally, Failure> {
    check(&Files, Model::new(BUDGET), &World::new(seed, broken).run(), 200_000)
}

#[test]
fn what_two_kernels_see_of_one_service_has_an_order() {
    let mut sum = Tally::default();
    for seed in 0..150 {
        let tally = judge(seed, None).unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}"));
        sum.windows += tally.windows;
        sum.largest = sum.largest.max(tally.largest);
        sum.steps += tally.steps;
    }
    println!("{sum:?}");
    assert!(sum.largest > 20, "enough overlaps: {sum:?}");
}

#[test]
fn each_broken_way_of_sharing_is_noticed() {
    for broken in [Broken::Stale, Broken::Lost, Broken::Twice, Broken::Early] {
        let caught = (0..40)
            .filter(|seed| matches!(judge(*seed, Some(broken)), Err(Failure::Violation { .. })))
            .count();
        println!("{broken:?}: {caught} of 40 histories");
        assert!(caught >= 10, "{broken:?}: {caught} of 40");
    }
}

#[test]
fn a_reply_that_is_changed_is_noticed() {
    let mut caught = 0;
    for seed in 0..60 {
        let mut history = World::new(seed, None).run();
        let mut random = Prng::new(seed);
        let at = 5 + random.below(history.len() as u64 - 5) as usize;
        if let Some(got) = &mut history[at].reply {
            got.reply.error ^= 44;
        }
        caught += u32::from(check(&Files, Model::new(BUDGET), &history, 200_000).is_err());
    }
    println!("{caught} of 60 changed replies");
    assert!(caught > 40);
}
