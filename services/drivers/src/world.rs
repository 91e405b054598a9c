//! Two kernels that share one driver, with a simulated device: what happens between steps in tests.

use crate::driver::{Driven, Driver};
use crate::request::{Reply, Request};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use share::{Answer, Device, Effects, Event, Service, Token};
use virtio::fake::{Fake, Model, View};

pub const KERNELS: usize = 2;
/// A caller repeats its request after this time (ns).
pub const REPEAT: u64 = 1_000_000_000;

/// The effects of a step.
struct Out<'a> {
    woken: Vec<Token>,
    all: bool,
    timer: Option<u64>,
    device: Option<Device<'a>>,
    kernel: usize,
    serves: bool,
}

impl Effects for Out<'_> {
    fn wake(&mut self, token: Token) {
        self.woken.push(token);
    }
    fn is_near(&self, token: Token) -> bool {
        usize::from(token.kernel) == self.kernel
    }
    fn serves(&self) -> bool {
        self.serves
    }
    fn wake_all(&mut self) {
        self.all = true;
    }
    fn timer(&mut self, at: u64) {
        self.timer = Some(at);
    }
    fn device(&self) -> Option<Device<'_>> {
        self.device
    }
}

/// A request that has no reply yet.
#[derive(Clone, Debug)]
pub struct Caller {
    pub token: Token,
    pub request: Request,
    pub bulk: Vec<u8>,
    /// Soc time at which it asked first, and last.
    pub began: u64,
    asked: u64,
}

impl Caller {
    pub fn kernel(&self) -> usize {
        usize::from(self.token.kernel)
    }
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub caller: Caller,
    /// `None`: it was cancelled, or its kernel died.
    pub reply: Option<Reply>,
}

impl Ended {
    /// Returns the bytes that the reply fills.
    pub fn bytes(&self) -> &[u8] {
        let filled = self.reply.map_or(0, |reply| reply.filled as usize);
        &self.caller.bulk[..filled]
    }
}

/// The kernels, their callers and the state that they share.
pub struct World<'a, D: Driver, M: Model> {
    pub fake: &'a Fake<M>,
    pub views: [View<'a, M>; KERNELS],
    pub epochs: [u16; KERNELS],
    pub state: Driven<D>,
    pub lives: u32,
    /// Number of resets of the device when the state was last lost.
    pub lost_at: u32,
    pub now: u64,
    /// Number of steps so far.
    steps: u64,
    sequence: u32,
    pub callers: Vec<Caller>,
    /// Callers that were woken, in order; their wakes are not delivered yet.
    pub woken: Vec<Token>,
    timers: [Option<u64>; KERNELS],
    pub ended: Vec<Ended>,
    pub memory: usize,
    /// Whether kernels have a device.
    pub has_device: bool,
    /// The kernel that serves the device.
    pub server: Option<usize>,
}

impl<'a, D: Driver, M: Model> World<'a, D, M> {
    pub fn new(fake: &'a Fake<M>) -> World<'a, D, M> {
        World {
            fake,
            views: [View::new(fake), View::new(fake)],
            epochs: [7; KERNELS],
            state: Driven::start(1),
            lives: 1,
            lost_at: 0,
            now: 1_000_000,
            steps: 0,
            sequence: 0,
            callers: Vec::new(),
            woken: Vec::new(),
            timers: [None; KERNELS],
            ended: Vec::new(),
            memory: D::NEEDS.memory,
            has_device: true,
            server: None,
        }
    }

    /// Carries out one step in a kernel. `None`: the kernel died in it.
    pub fn step(&mut self, who: usize, event: Event<'_, Request>) -> Option<Answer<Reply>> {
        self.now += 1000;
        self.steps += 1;
        let (fake, view) = (self.fake, &self.views[who]);
        let ring = |_| {
            if fake.eager.get() && !view.is_dead() {
                fake.turn();
            }
        };
        let device = self.has_device.then(|| view.device(self.memory, &ring));
        let (woken, serves) = (Vec::new(), self.server == Some(who));
        let mut out = Out { woken, all: false, timer: None, device, kernel: who, serves };
        let answer = self.state.step(self.now, event, &mut out);
        let Out { woken, all, timer, .. } = out;
        if self.views[who].is_dead() {
            return None;
        }
        self.views[who].lasts.set(u32::MAX);
        // The lock's release.
        base::port::Words::barrier(&self.views[who]);
        self.woken.extend(woken);
        if all {
            self.wake_all();
        }
        let earliest = |old: Option<u64>, at: u64| Some(old.map_or(at, |old| old.min(at)));
        if let Some(at) = timer {
            self.timers[who] = earliest(self.timers[who], at);
        }
        Some(answer)
    }

    fn wake_all(&mut self) {
        self.woken.extend(self.callers.iter().map(|caller| caller.token));
    }

    /// Sends a new request. Returns its token.
    pub fn request(&mut self, who: usize, request: Request, bulk: Vec<u8>) -> Token {
        self.sequence += 1;
        let token = Token::new(DomainId(who as u8), Epoch(self.epochs[who]), 1, self.sequence);
        let caller = Caller { token, request, bulk, began: self.now, asked: self.now };
        self.ask(caller, false);
        token
    }

    /// Repeats a parked request.
    pub fn again(&mut self, token: Token) {
        self.woken.retain(|other| *other != token);
        if let Some(at) = self.callers.iter().position(|caller| caller.token == token) {
            let caller = self.callers.remove(at);
            self.ask(caller, true);
        }
    }

    fn ask(&mut self, mut caller: Caller, again: bool) {
        let (token, request, who) = (caller.token, caller.request, caller.kernel());
        let mut bulk = std::mem::take(&mut caller.bulk);
        let answer = if again {
            self.step(who, Event::Again { token, request: &request, bulk: &mut bulk })
        } else {
            self.step(who, Event::Request { token, request: &request, bulk: &mut bulk })
        };
        (caller.bulk, caller.asked) = (bulk, self.now);
        match answer {
            Some(Answer::Done(reply)) => {
                let filled = Driven::<D>::filled(&reply);
                assert!(filled <= caller.bulk.len(), "{reply:?} of {request:?}");
                self.ended.push(Ended { caller, reply: Some(reply) });
            }
            Some(Answer::Parked) => self.callers.push(caller),
            Some(Answer::NoReply) => panic!("no reply"),
            None => {
                self.ended.push(Ended { caller, reply: None });
                self.die(who, true);
            }
        }
    }

    /// The caller of a parked request gives up.
    pub fn cancel(&mut self, token: Token) {
        if let Some(at) = self.callers.iter().position(|caller| caller.token == token) {
            let caller = self.callers.remove(at);
            self.woken.retain(|other| *other != token);
            let who = caller.kernel();
            self.ended.push(Ended { caller, reply: None });
            self.event(who, Event::Cancel(token));
        }
    }

    /// Carries out a step without a caller.
    pub fn event(&mut self, who: usize, event: Event<'_, Request>) {
        if self.step(who, event).is_none() {
            self.die(who, true);
        }
    }

    /// A kernel dies, in a step or between two, and starts again. The other one hears of it.
    pub fn die(&mut self, who: usize, in_a_step: bool) {
        self.views[who].die();
        self.timers[who] = None;
        let (dead, alive) = self.callers.drain(..).partition(|caller| caller.kernel() == who);
        self.callers = alive;
        let dead: Vec<Caller> = dead;
        self.woken.retain(|token| usize::from(token.kernel) != who);
        self.ended.extend(dead.into_iter().map(|caller| Ended { caller, reply: None }));
        let epoch = Epoch(self.epochs[who]);
        self.epochs[who] += 1;
        if in_a_step {
            self.lose();
        }
        self.event(1 - who, Event::Gone(DomainId(who as u8), epoch));
    }

    /// The state is lost and starts again.
    pub fn lose(&mut self) {
        self.lives += 1;
        self.lost_at = self.fake.resets.get();
        self.state = Driven::start(self.lives);
        self.wake_all();
    }

    /// The device's interrupt comes to a kernel, if it was raised.
    pub fn interrupt(&mut self, who: usize) {
        if self.fake.news.take() {
            self.event(who, Event::Device);
        }
    }

    /// The timers that are due fire.
    pub fn timers(&mut self) {
        for who in 0..KERNELS {
            if self.timers[who].is_some_and(|at| at <= self.now) {
                self.timers[who] = None;
                self.event(who, Event::Timer);
            }
        }
    }

    /// The callers that were woken ask again.
    pub fn deliver(&mut self) {
        for token in std::mem::take(&mut self.woken) {
            self.again(token);
        }
    }

    /// The callers that have waited for a second ask again.
    pub fn repeat(&mut self) {
        let late = |caller: &&Caller| caller.asked + REPEAT <= self.now;
        let tokens: Vec<_> = self.callers.iter().filter(late).map(|it| it.token).collect();
        tokens.into_iter().for_each(|token| self.again(token));
    }

    /// Something happens that no caller does: the device works, an interrupt or a wake comes, late
    /// or never, time passes. `in_order`: the device completes requests in their order.
    pub fn chance(&mut self, prng: &mut Prng, in_order: bool) {
        let who = prng.below(KERNELS as u64) as usize;
        match prng.below(10) {
            0 => self.fake.acknowledge(),
            1 => self.fake.take(),
            2 | 3 if in_order => drop(self.fake.complete_first(prng.below(2) as usize)),
            2 | 3 => drop(self.fake.complete(prng.below(6) as usize)),
            4 => self.interrupt(who),
            5 => {
                self.now += prng.below(200_000);
                self.timers();
            }
            6 | 7 if !self.woken.is_empty() => {
                let at = prng.below(self.woken.len() as u64) as usize;
                let token = self.woken.remove(at);
                // Or the wake is lost.
                if prng.chance(9, 10) {
                    self.again(token);
                }
            }
            8 if prng.chance(1, 10) => {
                self.now += REPEAT;
                self.repeat();
            }
            9 if prng.chance(1, 4) => self.event(who, Event::Device),
            _ => {}
        }
    }

    /// Something bad happens: a caller gives up, a kernel dies between two steps or within one, or
    /// the device fails.
    pub fn mischance(&mut self, prng: &mut Prng) {
        let who = prng.below(KERNELS as u64) as usize;
        match prng.below(6) {
            0 | 1 if !self.callers.is_empty() => {
                let at = prng.below(self.callers.len() as u64) as usize;
                self.cancel(self.callers[at].token);
            }
            2 => self.die(who, false),
            3 | 4 => {
                let most = if prng.chance(1, 2) { 12 } else { 200 };
                self.views[who].lasts.set(prng.below(most) as u32);
                let own = self.callers.iter().find(|caller| caller.kernel() == who);
                match own.map(|caller| caller.token) {
                    Some(token) => self.again(token),
                    None => self.event(who, Event::Device),
                }
            }
            5 => self.fake.fail(),
            _ => {}
        }
    }

    /// One round of everything, without losses.
    pub fn round(&mut self, who: usize) {
        self.now += 100_000;
        self.fake.turn();
        self.interrupt(who);
        self.timers();
        self.deliver();
    }

    /// Delivers the wakes that were lost, by a timeout.
    pub fn make_up(&mut self) {
        self.now += REPEAT;
        self.woken.clear();
        self.repeat();
    }

    /// Lets everything that can end do so, without the help of timeouts.
    pub fn settle(&mut self) {
        for round in 0..1000 {
            let before = self.steps;
            self.round(round % KERNELS);
            if self.steps == before && self.timers == [None; KERNELS] {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Returns the reply to a request that has ended.
    pub fn reply(&mut self, token: Token) -> Option<Ended> {
        let at = self.ended.iter().position(|ended| ended.caller.token == token)?;
        Some(self.ended.remove(at))
    }

    /// Carries out a request until it has ended.
    pub fn call(&mut self, who: usize, request: Request, bulk: Vec<u8>) -> Ended {
        let token = self.request(who, request, bulk);
        for round in 0..100 {
            if let Some(ended) = self.reply(token) {
                return ended;
            }
            self.round(round % KERNELS);
        }
        panic!("{request:?} does not end");
    }
}
