//! Two kernels use files and pipes; kernel 1 is killed in the middle of its calls and boots again,
//! and the service loses its state. What the callers saw has an order, and broken ways are found.
//!
//! A call is asked, executed and returned at three moments of the caller, so a kill finds calls
//! that were not executed, calls that were executed and not returned, and parked ones.

use abi::fs::{Errno, Op, Reply, Request, flag};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use linear::files::{self, Got};
use linear::lives::{Ask, Lives, World as State};
use linear::{Call, Failure, Tally, check};
use share::{Answer, Effects, Event, Service, Token};

const BUDGET: u64 = 1 << 20;
/// Number of threads, two per kernel, and of calls in a history.
const THREADS: u32 = 4;
const CALLS: usize = 60;
const STEPS: u64 = 400_000;
/// Callers of the set-up, of deaths and of restarts.
const ALONE: u32 = 100;
const FATE: u32 = 101;
/// Seeds of a daily and of a nightly run.
const SEEDS: u64 = 50;
const NIGHTLY: u64 = 5_000;

/// A broken way to treat a death or a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// The handles of a dead kernel stay open.
    Kept,
    /// What a dead kernel had sent is executed after its death, perhaps again.
    Late,
    /// A request that was parked or not executed at a restart is executed twice after it.
    Twice,
    /// A restarted service has no memory of lives: old handles answer `Badf`.
    Silent,
}

#[derive(Default)]
struct Woken(Vec<Token>);

impl Effects for Woken {
    fn wake(&mut self, token: Token) {
        self.0.push(token);
    }
    fn wake_all(&mut self) {}
    fn timer(&mut self, _at: u64) {}
}

/// State of a thread.
#[derive(Clone, Copy)]
enum Doing {
    Nothing,
    /// Sent, not executed yet; `true` if it was parked before.
    Asked(usize, bool),
    Parked(usize),
    Answered(usize),
}

/// Handles that all threads use. Kernel 1 owns the writing end of `first`, the reading end of
/// `second`, and one of the files.
#[derive(Clone, Copy, Default)]
struct Handles {
    root: u64,
    files: [u64; 2],
    first: (u64, u64),
    second: (u64, u64),
}

struct Play {
    random: Prng,
    broken: Option<Broken>,
    vfs: Vfs,
    life: u32,
    now: u64,
    /// How many lives of each kernel have ended.
    ended: [u16; 2],
    doing: [Doing; THREADS as usize],
    history: Vec<Call<Ask, Got>>,
    handles: Handles,
    /// Those of the service's life before.
    stale: Handles,
    /// Requests that a broken way executes later.
    late: Vec<(Token, files::Ask)>,
    /// Calls that were in progress at a restart.
    across: Vec<usize>,
}

impl Play {
    fn new(seed: u64, broken: Option<Broken>) -> Play {
        let mut play = Play {
            random: Prng::new(seed),
            broken,
            vfs: Vfs::with_budget(1, BUDGET),
            life: 1,
            now: 0,
            ended: [0; 2],
            doing: [Doing::Nothing; THREADS as usize],
            history: vec![],
            handles: Handles::default(),
            stale: Handles::default(),
            late: vec![],
            across: vec![],
        };
        play.set_up();
        play
    }

    fn token(&self, kernel: u8, thread: u32) -> Token {
        let epoch = Epoch(1 + self.ended[usize::from(kernel)]);
        Token::new(DomainId(kernel), epoch, thread.into(), 0)
    }

    fn step(&mut self, token: Token, ask: &files::Ask, again: bool) -> Option<Got> {
        let (mut bulk, mut woken, request) = (ask.bulk.clone(), Woken::default(), ask.request);
        let event = match again {
            false => Event::Request { token, request: &request, bulk: &mut bulk },
            true => Event::Again { token, request: &request, bulk: &mut bulk },
        };
        let answer = self.vfs.step(0, event, &mut woken);
        self.wake(&woken.0);
        let Answer::Done(mut reply) = answer else { return None };
        if self.broken == Some(Broken::Silent) && reply.errno() == Errno::Restarted {
            reply = Reply::error(Errno::Badf);
        }
        bulk.truncate(reply.filled as usize);
        Some(Got { reply, filled: bulk })
    }

    fn wake(&mut self, woken: &[Token]) {
        for thread in 0..THREADS {
            if let Doing::Parked(at) = self.doing[thread as usize]
                && woken.contains(&self.token((thread % 2) as u8, thread))
            {
                self.doing[thread as usize] = Doing::Asked(at, true);
            }
        }
    }

    /// Records something that happens at once, while other calls may be in progress.
    fn at_once(&mut self, who: u32, ask: Ask, got: Got) {
        let (invoked, returned) = (self.now, self.now + 1);
        self.now += 2;
        self.history.push(Call { who, ask, reply: Some(got), invoked, returned });
    }

    fn alone(&mut self, kernel: u8, request: Request, bulk: &[u8]) -> Reply {
        let ask = files::Ask { request, bulk: bulk.to_vec() };
        let got = self.step(self.token(kernel, ALONE), &ask, false).expect("nothing waits here");
        let (reply, life) = (got.reply, self.ended[usize::from(kernel)]);
        self.at_once(ALONE, Ask::Request { kernel, life, ask }, got);
        reply
    }

    /// Opens what the threads use.
    fn set_up(&mut self) {
        let root = self.alone(0, Request::new(Op::Root, 0), b"").handle;
        let flags = flag::READ | flag::WRITE | flag::CREATE | flag::APPEND;
        let open = Request { name: 1, flags, ..Request::new(Op::Open, root) };
        let files = [self.alone(0, open, b"a").handle, self.alone(1, open, b"b").handle];
        let [first, second] = [(); 2].map(|()| {
            let pipe = self.alone(0, Request::new(Op::Pipe, 0), b"");
            (pipe.handle, pipe.other)
        });
        let first = (first.0, self.moved(first.1));
        let second = (self.moved(second.0), second.1);
        self.handles = Handles { root, files, first, second };
    }

    /// Gives a handle to kernel 1.
    fn moved(&mut self, handle: u64) -> u64 {
        let other = self.alone(1, Request::new(Op::Dup, handle), b"").handle;
        self.alone(0, Request::new(Op::Close, handle), b"");
        other
    }

    fn random_ask(&mut self) -> files::Ask {
        let is_old = self.stale.root != 0 && self.random.chance(1, 8);
        let handles = if is_old { self.stale } else { self.handles };
        let byte = (self.history.len() % 251) as u8;
        let name = [b"a", b"b", b"c"][self.random.below(3) as usize];
        let file = handles.files[usize::from(self.random.chance(1, 4))];
        let named = |op, flags| {
            let request = Request { name: 1, flags, ..Request::new(op, handles.root) };
            files::Ask { request, bulk: name.to_vec() }
        };
        let with = |request: Request, bulk: Vec<u8>| files::Ask {
            request: Request { length: bulk.len() as u64, ..request },
            bulk,
        };
        match self.random.below(14) {
            0 => named(Op::Open, flag::WRITE | flag::CREATE | flag::EXCLUSIVE),
            1 => named(Op::Unlink, 0),
            2 => named(Op::StatPath, 0),
            3..6 => with(Request::new(Op::Write, file), vec![byte; 3]),
            6 | 7 => with(Request { flags: flag::AT, ..Request::new(Op::Read, file) }, vec![0; 40]),
            8 => files::Ask { request: Request::new(Op::Stat, file), bulk: vec![] },
            9 => with(Request::new(Op::Write, handles.first.1), vec![byte; 2]),
            10 => with(Request::new(Op::Read, handles.first.0), vec![0; 1]),
            11 | 12 => with(Request::new(Op::Write, handles.second.1), vec![byte; 2]),
            _ => with(Request::new(Op::Read, handles.second.0), vec![0; 1]),
        }
    }

    /// Lets a thread do its next step.
    fn turn(&mut self, thread: u32, may_begin: bool) {
        self.now += 1 + self.random.below(3);
        match self.doing[thread as usize] {
            Doing::Nothing if may_begin => {
                let (ask, kernel) = (self.random_ask(), (thread % 2) as u8);
                let ask = Ask::Request { kernel, life: self.ended[usize::from(kernel)], ask };
                let (invoked, returned) = (self.now, u64::MAX);
                // A thread of a later life is another caller.
                let who = thread + 10 * u32::from(self.ended[usize::from(kernel)]);
                self.doing[thread as usize] = Doing::Asked(self.history.len(), false);
                self.history.push(Call { who, ask, reply: None, invoked, returned });
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
        let Ask::Request { kernel, ask, .. } = self.history[at].ask.clone() else { return };
        let token = self.token(kernel, thread);
        let mut got = self.step(token, &ask, again);
        if self.broken == Some(Broken::Twice) && self.across.contains(&at) && got.is_some() {
            // What it was is repeated with the new handles.
            let ask = self.renewed(ask);
            self.step(token, &ask, false);
            got = self.step(token, &ask, true);
        }
        self.doing[thread as usize] = match got {
            Some(_) => Doing::Answered(at),
            None => Doing::Parked(at),
        };
        self.history[at].reply = got;
    }

    /// Returns a request with the handles of this life in place of those of the last.
    fn renewed(&self, ask: files::Ask) -> files::Ask {
        let (old, new) = (self.stale, self.handles);
        let pairs = [
            (old.root, new.root),
            (old.files[0], new.files[0]),
            (old.files[1], new.files[1]),
            (old.first.0, new.first.0),
            (old.first.1, new.first.1),
            (old.second.0, new.second.0),
            (old.second.1, new.second.1),
        ];
        let found = pairs.iter().find(|(old, _)| *old == ask.request.handle);
        let handle = found.map_or(ask.request.handle, |(_, new)| *new);
        files::Ask { request: Request { handle, ..ask.request }, ..ask }
    }

    /// Kernel 1 dies. Its calls have no reply and cannot happen any more; then it boots again.
    fn kill(&mut self) {
        let epoch = Epoch(1 + self.ended[1]);
        for thread in [1, 3] {
            let (Doing::Asked(at, _) | Doing::Parked(at) | Doing::Answered(at)) =
                std::mem::replace(&mut self.doing[thread], Doing::Nothing)
            else {
                continue;
            };
            if let Ask::Request { ask, .. } = &self.history[at].ask {
                self.late.push((self.token(1, thread as u32), ask.clone()));
            }
            (self.history[at].reply, self.history[at].returned) = (None, self.now);
        }
        if self.broken != Some(Broken::Kept) {
            let mut woken = Woken::default();
            self.vfs.step(0, Event::Gone(DomainId(1), epoch), &mut woken);
            self.wake(&woken.0);
        }
        self.at_once(FATE, Ask::Died { kernel: 1, life: self.ended[1] }, nothing());
        self.ended[1] += 1;
        // The first pipe has no writer now, and the second no reader.
        for _ in 0..24 {
            let thread = 2 * self.random.below(2) as u32;
            self.turn(thread, true);
        }
        if self.broken == Some(Broken::Late) {
            for (token, ask) in std::mem::take(&mut self.late) {
                self.step(token, &ask, false);
            }
        }
        self.late.clear();
        self.set_up();
    }

    /// The service loses its state: all callers ask again.
    fn restart(&mut self) {
        self.life += 1;
        self.vfs = Vfs::with_budget(self.life, BUDGET);
        self.at_once(FATE, Ask::Restarted, nothing());
        self.stale = self.handles;
        self.across.clear();
        for doing in &mut self.doing {
            match *doing {
                Doing::Parked(at) | Doing::Asked(at, _) => {
                    *doing = Doing::Asked(at, matches!(*doing, Doing::Parked(_)));
                    self.across.push(at);
                }
                Doing::Nothing | Doing::Answered(_) => {}
            }
        }
        self.set_up();
    }

    fn run(mut self) -> Vec<Call<Ask, Got>> {
        let limit = self.history.len() + CALLS;
        for _ in 0..20 * CALLS {
            let thread = self.random.below(THREADS.into()) as u32;
            let may_begin = self.history.len() < limit;
            self.turn(thread, may_begin);
            if may_begin && self.random.chance(1, 30) {
                self.kill();
            }
            if may_begin && self.random.chance(1, 90) {
                self.restart();
            }
        }
        self.history
    }
}

fn nothing() -> Got {
    Got { reply: Reply::default(), filled: vec![] }
}

fn judge(seed: u64, broken: Option<Broken>) -> Result<Tally, Failure> {
    check(&Lives, State::new(1, BUDGET), &Play::new(seed, broken).run(), STEPS)
}

fn all_have_an_order(seeds: std::ops::Range<u64>) {
    let (mut too_much, mut lost, count) = (0, 0, seeds.end - seeds.start);
    for seed in seeds {
        let history = Play::new(seed, None).run();
        lost += history.iter().filter(|call| call.reply.is_none()).count();
        match check(&Lives, State::new(1, BUDGET), &history, STEPS) {
            Ok(_) => {}
            Err(Failure::TooMuch) => too_much += 1,
            Err(Failure::Violation { explained, stuck }) => {
                for at in explained.iter().rev().take(12).rev().chain(&stuck) {
                    println!("{at}: {:?}", history[*at]);
                }
                panic!("seed {seed}: stuck at {stuck:?}");
            }
            Err(failure) => panic!("seed {seed}: {failure:?}"),
        }
    }
    println!("{count} histories, {lost} calls without a reply, {too_much} too long to search");
    assert!(lost as u64 > count && too_much * 20 < count, "{lost} lost, {too_much} too long");
}

#[test]
fn histories_with_deaths_and_restarts_have_an_order() {
    all_have_an_order(0..SEEDS);
}

#[test]
#[ignore = "nightly: minutes"]
fn many_histories_with_deaths_and_restarts_have_an_order() {
    all_have_an_order(0..NIGHTLY);
}

#[test]
fn each_broken_way_is_noticed() {
    for broken in [Broken::Kept, Broken::Late, Broken::Twice, Broken::Silent] {
        let found =
            |seed: &u64| matches!(judge(*seed, Some(broken)), Err(Failure::Violation { .. }));
        // A late request shows only if others have seen that it had not happened.
        let (seeds, least) = if broken == Broken::Late { (60, 2) } else { (30, 3) };
        let caught = (0..seeds).filter(found).count();
        println!("{broken:?}: {caught} of {seeds} histories");
        assert!(caught >= least, "{broken:?}: {caught} of {seeds}");
    }
}
