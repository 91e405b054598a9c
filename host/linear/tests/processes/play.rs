//! The kernels: on each, one thread takes tasks, one ends processes, and three make requests. A
//! call is asked, executed and returned at three moments.

use crate::broken::Broken;
use abi::process::{End, Errno, Listed, News, Op, Reply, Request, flag, signal};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use linear::Call;
use linear::processes::{Ask, Got};
use processes::Processes;
use share::{Answer, Effects, Event, Service, Token};
use std::collections::BTreeMap;
use zerocopy::FromBytes;

pub type History = Vec<Call<Ask, Got>>;

#[derive(Default)]
struct Woken(Vec<Token>);

impl Effects for Woken {
    fn wake(&mut self, token: Token) {
        self.0.push(token);
    }
    fn wake_all(&mut self) {}
    fn timer(&mut self, _at: u64) {}
}

/// Calls that a history has, about.
const CALLS: usize = 60;
/// Threads of a kernel: the first takes tasks, the second ends processes.
const THREADS: usize = 4;
const SERVER: usize = 0;
const ENDER: usize = 1;
/// Caller of deaths and restarts.
const FATE: u32 = 1000;
/// A number that no process has.
const NO_PROCESS: u32 = 1 << 29;
/// Room for a list.
const ROOM: usize = 40 * size_of::<Listed>();

/// State of a thread.
#[derive(Clone, Copy)]
enum Doing {
    Nothing,
    /// Sent, not executed yet; `true` if it was parked before.
    Asked(usize, bool),
    Parked(usize),
    Answered(usize),
}

/// A process as its kernel knows it.
#[derive(Clone, Copy)]
struct Runs {
    pid: u32,
    parent: u32,
    group: u32,
}

/// One kernel.
struct Kernel {
    life: u16,
    doing: [Doing; THREADS],
    runs: Vec<Runs>,
    /// Ends that it has reported, or will.
    ends: BTreeMap<u32, Request>,
    /// What its server does before it takes the next task.
    duties: Vec<Request>,
}

impl Kernel {
    fn of_life(life: u16) -> Kernel {
        Kernel {
            life,
            doing: [Doing::Nothing; THREADS],
            runs: vec![],
            ends: BTreeMap::new(),
            duties: vec![],
        }
    }
}

impl Kernel {
    fn over(&mut self, pid: u32, ended: Request) {
        self.runs.retain(|r| r.pid != pid);
        self.ends.insert(pid, ended);
    }
}

pub struct Play {
    random: Prng,
    broken: Option<Broken>,
    table: Processes,
    lives: u32,
    now: u64,
    kernels: [Kernel; 2],
    history: History,
    /// Numbers that some reply has shown.
    known: Vec<u32>,
    /// The last end that was reported.
    reported: Option<Reply>,
}

impl Play {
    pub fn new(seed: u64, broken: Option<Broken>) -> Play {
        Play {
            random: Prng::new(seed),
            broken,
            table: Processes::start(1),
            lives: 1,
            now: 0,
            kernels: [Kernel::of_life(1), Kernel::of_life(1)],
            history: vec![],
            known: vec![],
            reported: None,
        }
    }

    /// Makes a history, and counts what it has.
    pub fn run(mut self, done: &mut BTreeMap<&'static str, u64>) -> History {
        for _ in 0..20 * CALLS {
            let (kernel, thread) =
                (self.random.below(2) as usize, self.random.below(THREADS as u64) as usize);
            self.turn(kernel, thread);
            let may_go_on = self.history.len() < CALLS;
            if may_go_on && self.random.chance(1, 140) {
                self.kill();
                *done.entry("Died").or_default() += 1;
            }
            if may_go_on && self.random.chance(1, 120) {
                self.restart();
                *done.entry("Restarted").or_default() += 1;
            }
        }
        for call in &self.history {
            if call.reply.as_ref().is_none_or(|got| got.reply.error != 0) {
                continue;
            }
            let request = request_of(&call.ask);
            let name = match Op::from_code(request.op) {
                Some(Op::Spawn) if request.flags & flag::HERE != 0 => "Here",
                Some(Op::Spawn) => "Spawn",
                Some(Op::Wait) => "Wait",
                Some(Op::Kill) => "Kill",
                Some(Op::Group) => "Group",
                Some(Op::List) => "List",
                Some(Op::Adopt) => "Adopt",
                _ => continue,
            };
            *done.entry(name).or_default() += 1;
        }
        self.history
    }

    fn token(&self, kernel: usize, thread: usize) -> Token {
        let life = match self.broken {
            Some(Broken::Kept) => 1,
            _ => self.kernels[kernel].life,
        };
        Token::new(DomainId(kernel as u8), Epoch(life), thread as u64, 0)
    }

    fn turn(&mut self, kernel: usize, thread: usize) {
        self.now += 1 + self.random.below(3);
        match self.kernels[kernel].doing[thread] {
            Doing::Nothing => {
                if let Some(request) = self.request(kernel, thread) {
                    self.ask(kernel, thread, request);
                }
            }
            Doing::Asked(at, again) => self.execute(kernel, thread, at, again),
            Doing::Answered(at) => {
                self.history[at].returned = self.now;
                self.kernels[kernel].doing[thread] = Doing::Nothing;
                self.learn(kernel, at);
            }
            Doing::Parked(_) => {}
        }
    }

    fn ask(&mut self, kernel: usize, thread: usize, request: Request) {
        let life = self.kernels[kernel].life;
        // A thread of a later life is another caller.
        let caller = (usize::from(life) * 20 + kernel * 10 + thread) as u32;
        let who = caller;
        let is_settled = matches!(self.kernels[kernel].doing[ENDER], Doing::Nothing);
        let life = (kernel as u8, life);
        let ask = match request.op == Op::Next as u16 {
            true => Ask::Next { caller, life, is_settled },
            false => Ask::Request { caller, life, request },
        };
        self.kernels[kernel].doing[thread] = Doing::Asked(self.history.len(), false);
        let (invoked, returned) = (self.now, u64::MAX);
        self.history.push(Call { who, ask, reply: None, invoked, returned });
    }

    fn request(&mut self, kernel: usize, thread: usize) -> Option<Request> {
        if thread == SERVER {
            let duty = self.kernels[kernel].duties.pop();
            return Some(duty.unwrap_or(Request::new(Op::Next)));
        }
        let count = self.kernels[kernel].runs.len() as u64;
        let runs =
            (count > 0).then(|| self.kernels[kernel].runs[self.random.below(count) as usize]);
        if thread == ENDER {
            let (kind, status) = (End::Exit as u32, 1 + self.random.below(200) as u32);
            let pid = runs.filter(|_| self.random.chance(1, 8))?.pid;
            let ended = Request { pid: pid as i32, kind, status, ..Request::new(Op::Ended) };
            self.kernels[kernel].over(pid, ended);
            return Some(ended);
        }
        (self.history.len() < CALLS).then(|| self.any_request(kernel, runs.map_or(0, |r| r.pid)))
    }

    /// A request of the process `own`, or of the system.
    fn any_request(&mut self, here: usize, own: u32) -> Request {
        let known = match self.known.len() {
            0 => NO_PROCESS,
            count => self.known[count - 1 - self.random.below(count.min(8) as u64) as usize],
        };
        let parent = if self.random.chance(1, 3) { 0 } else { own };
        match self.random.below(12) {
            0..4 => {
                let group = flag::NEW_GROUP * self.random.below(2) as u16;
                let watch = if parent == 0 { flag::WATCHED } else { 0 };
                let (kernel, flags) = (self.random.below(2) as u16, group | watch);
                let is_here = usize::from(kernel) == here && self.random.chance(1, 2);
                let flags = if is_here { flags | flag::HERE } else { flags };
                Request { kernel, parent, flags, ..Request::new(Op::Spawn) }
            }
            4..8 => {
                let pid = [known as i32, -1, 0][self.random.below(3) as usize];
                let pid = if parent == 0 { known as i32 } else { pid };
                let flags = if self.random.chance(2, 3) { flag::NO_HANG } else { 0 };
                Request { parent, pid, flags, ..Request::new(Op::Wait) }
            }
            8 => {
                let pid = [known as i32, -(known as i32), 0][self.random.below(3) as usize];
                let signal =
                    [signal::NONE, signal::TERM, signal::KILL][self.random.below(3) as usize];
                Request { parent, pid, signal, ..Request::new(Op::Kill) }
            }
            9 => Request { parent: own, group: 0, pid: known as i32, ..Request::new(Op::Group) },
            _ => Request::new(Op::List),
        }
    }

    fn execute(&mut self, kernel: usize, thread: usize, at: usize, again: bool) {
        let mut request = request_of(&self.history[at].ask);
        let is = |op| request.op == op as u16;
        if self.broken == Some(Broken::NoStatus) && is(Op::Ended) {
            request.status = 0;
        }
        let twice = self.reported.filter(|_| self.broken == Some(Broken::Twice) && is(Op::Wait));
        let mut got = match twice {
            Some(reply) => Some(Got { reply, listed: vec![] }),
            None => self.step(self.token(kernel, thread), request, again),
        };
        let is_restarted = |got: &Got| got.reply.errno() == Errno::Restarted;
        if self.broken == Some(Broken::Untold) && !again && got.as_ref().is_some_and(is_restarted) {
            got = self.step(self.token(kernel, thread), request, false);
        }
        if let Some(Got { reply, .. }) = &mut got
            && is(Op::Begun)
            && self.broken == Some(Broken::Missed)
        {
            reply.status = 0;
        }
        self.reported = None;
        if let Some(Got { reply, .. }) = &mut got
            && is(Op::Wait)
            && reply.pid != 0
        {
            self.reported = Some(*reply).filter(|_| twice.is_none());
        }
        self.kernels[kernel].doing[thread] = match got {
            Some(_) => Doing::Answered(at),
            None => Doing::Parked(at),
        };
        self.history[at].reply = got;
    }

    fn step(&mut self, token: Token, request: Request, again: bool) -> Option<Got> {
        let (mut room, mut woken) = (vec![0; ROOM], Woken::default());
        let event = match again {
            false => Event::Request { token, request: &request, bulk: &mut room },
            true => Event::Again { token, request: &request, bulk: &mut room },
        };
        let answer = self.table.step(self.now, event, &mut woken);
        self.wake(&woken.0);
        let Answer::Done(reply) = answer else { return None };
        let filled = if request.op == Op::List as u16 { reply.filled as usize } else { 0 };
        let records = room[..filled].chunks_exact(size_of::<Listed>());
        let listed = records
            .map(|record| Listed::read_from_bytes(record).expect("a whole record"))
            .collect();
        Some(Got { reply, listed })
    }

    fn wake(&mut self, woken: &[Token]) {
        for (kernel, thread) in (0..2).flat_map(|k| (0..THREADS).map(move |t| (k, t))) {
            let token = self.token(kernel, thread);
            let doing = &mut self.kernels[kernel].doing[thread];
            if let Doing::Parked(at) = *doing
                && woken.contains(&token)
            {
                *doing = Doing::Asked(at, true);
            }
        }
    }

    /// What a kernel does with a reply.
    fn learn(&mut self, kernel: usize, at: usize) {
        let Some(Got { reply, .. }) = self.history[at].reply else { return };
        let request = request_of(&self.history[at].ask);
        let op = Op::from_code(request.op);
        let ended = self.kernels[kernel].ends.get(&(request.pid as u32)).copied();
        if op == Some(Op::Adopt) && self.broken != Some(Broken::Zombie) {
            // It may have been reported before the table knew the process.
            self.kernels[kernel].duties.extend(ended);
        }
        if op == Some(Op::Spawn) && reply.error == 0 {
            self.known.push(reply.pid);
            if request.flags & flag::HERE != 0 {
                self.begin(kernel, reply);
            }
        }
        let runs = self.kernels[kernel].runs.iter().find(|r| r.pid == request.pid as u32).copied();
        if op == Some(Op::Begun)
            && let Some(runs) = runs
        {
            match reply.errno() {
                Errno::Success if reply.status != 0 => self.stop(kernel, runs.pid, reply.status),
                // The table has lost its state before this kernel knew the process.
                Errno::Srch if self.broken != Some(Broken::Forgotten) => {
                    self.kernels[kernel].duties.push(named(kernel, &runs))
                }
                _ => {}
            }
        }
        if op == Some(Op::Next) {
            match reply.errno() {
                Errno::Success => self.serve(kernel, reply),
                Errno::Restarted => self.name_all(kernel),
                other => panic!("Next: {other:?}"),
            }
        }
    }

    /// Carries out a task.
    fn serve(&mut self, kernel: usize, task: Reply) {
        let own = &mut self.kernels[kernel];
        match u16::try_from(task.kind).ok().and_then(News::from_code) {
            Some(News::Begin) => self.begin(kernel, task),
            Some(News::Stop) if own.runs.iter().any(|r| r.pid == task.pid) => {
                self.stop(kernel, task.pid, task.status);
            }
            Some(News::Group) => {
                let known = own.runs.iter_mut().filter(|r| r.pid == task.pid);
                known.for_each(|r| r.group = task.group);
            }
            // It is ending already.
            _ => {}
        }
    }

    /// Starts a process.
    fn begin(&mut self, kernel: usize, task: Reply) {
        let status = if self.random.chance(1, 8) { Errno::Noexec as u32 } else { 0 };
        let (pid, parent, group) = (task.pid, task.value as u32, task.group);
        let own = &mut self.kernels[kernel];
        if status == 0 {
            own.runs.push(Runs { pid, parent, group });
        }
        own.duties.push(Request { pid: pid as i32, status, ..Request::new(Op::Begun) });
    }

    /// Ends a process by a signal.
    fn stop(&mut self, kernel: usize, pid: u32, signal: u32) {
        let (kind, status) = (End::Signal as u32, signal);
        let ended = Request { pid: pid as i32, kind, status, ..Request::new(Op::Ended) };
        self.kernels[kernel].over(pid, ended);
        self.kernels[kernel].duties.push(ended);
    }

    fn name_all(&mut self, kernel: usize) {
        if self.broken == Some(Broken::Unnamed) {
            return;
        }
        let own = &mut self.kernels[kernel];
        own.duties = own.runs.iter().map(|runs| named(kernel, runs)).collect();
    }

    /// Records something that happens at once, while other calls may be in progress.
    fn at_once(&mut self, ask: Ask) {
        let (invoked, returned) = (self.now, self.now + 1);
        self.now += 2;
        self.history.push(Call { who: FATE, ask, reply: Some(Got::default()), invoked, returned });
    }

    /// Kernel 1 dies. Its calls have no reply and cannot happen any more; then it boots again.
    fn kill(&mut self) {
        let life = self.kernels[1].life;
        let doing = self.kernels[1].doing;
        let mut late = vec![];
        for (thread, doing) in doing.into_iter().enumerate() {
            let (Doing::Asked(at, _) | Doing::Parked(at) | Doing::Answered(at)) = doing else {
                continue;
            };
            if let Doing::Asked(_, false) = doing {
                late.push((self.token(1, thread), request_of(&self.history[at].ask)));
            }
            (self.history[at].reply, self.history[at].returned) = (None, self.now);
        }
        self.kernels[1].doing = [Doing::Nothing; THREADS];
        if self.broken != Some(Broken::Kept) {
            let mut woken = Woken::default();
            self.table.step(self.now, Event::Gone(DomainId(1), Epoch(life)), &mut woken);
            self.wake(&woken.0);
        }
        self.at_once(Ask::Died((1, life)));
        if self.broken == Some(Broken::Late) {
            late.into_iter().for_each(|(token, request)| drop(self.step(token, request, false)));
        }
        for _ in 0..24 {
            let thread = self.random.below(THREADS as u64) as usize;
            self.turn(0, thread);
        }
        self.kernels[1] = Kernel::of_life(life + 1);
    }

    /// The table loses its state: all callers ask again.
    fn restart(&mut self) {
        self.lives += 1;
        let same = self.broken == Some(Broken::SameNumbers);
        self.table = Processes::start(if same { 1 } else { self.lives });
        self.at_once(Ask::Restarted);
        self.reported = None;
        for doing in self.kernels.iter_mut().flat_map(|kernel| &mut kernel.doing) {
            if let Doing::Parked(at) = *doing {
                *doing = Doing::Asked(at, true);
            }
        }
    }
}

/// A report of a process to a table that has lost its state.
fn named(kernel: usize, runs: &Runs) -> Request {
    Request {
        pid: runs.pid as i32,
        parent: runs.parent,
        group: runs.group,
        kernel: kernel as u16,
        flags: if runs.parent == 0 { flag::WATCHED } else { 0 },
        ..Request::new(Op::Adopt)
    }
}

/// Deaths and restarts have none, so an operation that does not exist.
fn request_of(ask: &Ask) -> Request {
    match *ask {
        Ask::Request { request, .. } => request,
        Ask::Next { .. } => Request::new(Op::Next),
        _ => Request::default(),
    }
}
