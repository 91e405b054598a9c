//! What the drivers have in common: the order of things in a step.
//!
//! ```text
//!   event --> callers that are gone are forgotten
//!         --> opening continues as far as the device has acknowledged; completions are collected
//!         --> a request is answered, or its caller parked
//!         --> those whose waits are over are woken
//! ```
//! A step waits for nothing. While the device is not open its requests are parked; if it cannot be
//! opened they are answered with [`told::ABSENT`].

use crate::request::{Reply, Request, told};
use crate::waiters::{Ready, Wait, Waiters, is_of};
use abi::soc::QueueRegisters;
use share::{Answer, Device, Effects, Event, Service, Token};
use virtio::transport::{Needs, POLL, Problem, Progress, Registers, Transport};

/// A request with its caller's memory.
pub struct Call<'a> {
    /// Soc time.
    pub now: u64,
    pub token: Token,
    /// What the register of that name contains while the device is this state's.
    pub sequence: u64,
    pub request: &'a Request,
    pub bulk: &'a mut [u8],
}

impl Call<'_> {
    /// Returns the number of bytes to move at most: what is asked for and fits bulk.
    pub fn bytes(&self) -> usize {
        self.bulk.len().min(self.request.length as usize)
    }
}

/// What a driver does in its own way.
pub trait Driver {
    /// What its callers wait for, other than its opening.
    type For: Copy + PartialEq;
    const NAME: &'static str;
    const NEEDS: Needs;

    fn start(lives: u32) -> Self;

    /// Lays out its queues in memory that the device does not use now. What was in flight is
    /// dropped.
    fn place_queues(&mut self, device: &Device<'_>) -> [QueueRegisters; 2];

    /// The device is open: gives it its first buffers.
    fn opened(&mut self, device: &Device<'_>, features: u64);

    /// Exchanges with the open device what there is, without waiting.
    fn collect(&mut self, device: &Device<'_>) -> Collected;

    /// Looks at a request before anything else, open or not. Returns why it is refused.
    fn refuses(&self, _: &Device<'_>, _: &Request) -> Option<u32> {
        None
    }

    /// Handles a request while the device is open. Returns what its caller waits for if there is no
    /// reply yet.
    fn asked(
        &mut self,
        device: &Device<'_>,
        call: Call<'_>,
        waiters: &Waiters<Self::For>,
    ) -> Result<Reply, Self::For>;

    /// The callers for which `gone` is true do not come again.
    fn forget(&mut self, gone: &dyn Fn(Token) -> bool);

    /// Returns whether a wait is over, while the device is open.
    fn ready(&self, token: Token, wait: Self::For) -> Ready;
}

/// What [`Driver::collect`] has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The device has completed a request.
    pub works: bool,
    /// The bound of a step was reached, so there may be more.
    pub more: bool,
}

/// A driver as a service.
#[derive(Debug)]
pub struct Driven<D: Driver> {
    transport: Transport,
    waiters: Waiters<D::For>,
    own: D,
}

impl<D: Driver> Driven<D> {
    /// Returns why the device could not be opened.
    pub fn problem(&self) -> Option<Problem> {
        self.transport.problem()
    }

    fn forget(&mut self, gone: &dyn Fn(Token) -> bool) {
        self.waiters.forget(gone);
        self.own.forget(gone);
    }

    /// Opens the device as far as possible, and collects what it has. Returns whether there may be
    /// more.
    fn attend(&mut self, now: u64, device: &Device<'_>) -> bool {
        loop {
            match self.transport.advance(now, device, &D::NEEDS) {
                Progress::Waiting | Progress::Failed => return false,
                Progress::PlaceQueues => {
                    let queues = self.own.place_queues(device);
                    self.transport.start(now, device, &queues);
                }
                Progress::Opened => self.own.opened(device, self.transport.features()),
                Progress::Open => return self.collect(device),
            }
        }
    }

    fn collect(&mut self, device: &Device<'_>) -> bool {
        let found = self.own.collect(device);
        if found.works {
            self.transport.works();
        }
        found.more
    }

    fn ask(&mut self, device: &Device<'_>, call: Call<'_>) -> Answer<Reply> {
        let token = call.token;
        let call = Call { sequence: self.transport.sequence(), ..call };
        let absent = self.transport.has_failed().then_some(told::ABSENT);
        let result = if let Some(told) = self.own.refuses(device, call.request).or(absent) {
            // It may have had a slot from before.
            self.own.forget(&|other| other == token);
            Ok(Reply::of(told))
        } else if self.transport.is_open() {
            self.own.asked(device, call, &self.waiters).map_err(Wait::For)
        } else {
            Err(Wait::Open)
        };
        match result {
            Ok(reply) => {
                self.waiters.forget(|other| other == token);
                Answer::Done(reply)
            }
            Err(wait) => {
                self.waiters.park(token, wait);
                Answer::Parked
            }
        }
    }

    fn wake(&mut self, now: u64, effects: &mut dyn Effects) {
        let (is_open, has_failed) = (self.transport.is_open(), self.transport.has_failed());
        let ready = |token, wait| match wait {
            _ if has_failed => Ready::All,
            _ if !is_open => Ready::No,
            Wait::Open => Ready::All,
            Wait::For(wait) => self.own.ready(token, wait),
        };
        self.waiters.wake(now, ready, effects);
    }
}

impl<D: Driver> Service for Driven<D> {
    type Request = Request;
    type Reply = Reply;
    const NAME: &'static str = D::NAME;

    fn start(lives: u32) -> Self {
        Driven { transport: Transport::new(), waiters: Waiters::new(), own: D::start(lives) }
    }

    fn sent(request: &Request, bulk: usize) -> usize {
        if request.kind == crate::request::kind::WRITE {
            bulk.min(request.length as usize)
        } else {
            0
        }
    }

    fn filled(reply: &Reply) -> usize {
        reply.filled as usize
    }

    fn step(
        &mut self,
        now: u64,
        event: Event<'_, Request>,
        effects: &mut dyn Effects,
    ) -> Answer<Reply> {
        self.transport.touch(now);
        let looks = matches!(event, Event::Device);
        let interrupts = effects.device().filter(|_| looks).map(|it| Registers(&it).interrupts());
        let mut call = None;
        match event {
            Event::Request { token, request, bulk } | Event::Again { token, request, bulk } => {
                call = Some(Call { now, token, sequence: 0, request, bulk });
            }
            Event::Cancel(token) => self.forget(&|other| other == token),
            Event::Gone(kernel, epoch) => self.forget(&|token| is_of(token, kernel, epoch)),
            Event::Device => self.transport.retry(),
            Event::Timer => {}
        }
        let (mut answer, mut more) = (Answer::NoReply, false);
        match (effects.device(), call) {
            (None, Some(_)) => return Answer::Done(Reply::of(told::ABSENT)),
            (None, None) => return Answer::NoReply,
            (Some(device), call) => {
                more |= self.attend(now, &device);
                if let Some(call) = call {
                    answer = self.ask(&device, call);
                    more |= self.transport.is_open() && self.collect(&device);
                }
            }
        }
        if let (Some(device), Some(interrupts)) = (effects.device(), interrupts) {
            Registers(&device).set_handled(interrupts);
        }
        self.wake(now, effects);
        if more {
            effects.timer(now);
        } else if !self.transport.is_open() && !self.transport.has_failed() {
            effects.timer(now.saturating_add(POLL));
        }
        answer
    }
}
