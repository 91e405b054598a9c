//! One service as this kernel has it: asked, executed here or there, counted.

use super::{CoreHeap, Line, ServiceFailure, chosen};
use crate::boot;
use crate::kernel::Kernel;
use crate::monitor::Session;
use crate::peers::Ask;
use abi::boot::Blob;
use abi::msg::MAX_PAYLOAD;
use alloc::vec;
use alloc::vec::Vec;
use arch::exclusion::Exclusion;
use base::id::{DomainId, Epoch};
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_msg::Refusal;
use kernel_share::{
    Answer, Arena, Event, Instance, Mode, Outbox, Place, Service, Shareable, StepError, Token,
    carry,
};

/// A service in this kernel.
type Local<S> = Instance<S, Exclusion<Arena>, CoreHeap>;

/// A service and how it is reached from here.
pub struct Served<S> {
    index: u32,
    mode: Mode,
    instance: Option<Local<S>>,
    here: AtomicU64,
    away: AtomicU64,
    for_others: AtomicU64,
    parked: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl<S: Service + Shareable> Served<S> {
    /// In the mode that the board chose; starts where this kernel is to execute it.
    pub fn new(blob: &'static Blob, me: DomainId) -> Self {
        let (index, mode) = chosen::<S>(blob);
        let is_here = mode.place(me, blob.domains().len() as u8, 0) == Place::Here;
        let instance = if is_here { start::<S>(mode) } else { None };
        let zero = || AtomicU64::new(0);
        let (here, away, for_others, parked) = (zero(), zero(), zero(), zero());
        Served { index, mode, instance, here, away, for_others, parked }
    }

    /// In the board's list.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Asks, and waits for the answer. From a thread without locks.
    pub fn ask(
        &self,
        session: &Session,
        request: S::Request,
        bulk: &mut [u8],
    ) -> Result<S::Reply, ServiceFailure> {
        let kernel = session.kernel;
        let token = kernel.services.token(kernel);
        let mut again = false;
        loop {
            let answer = match self.mode.place(kernel.me, kernel.blob.domains().len() as u8, 0) {
                Place::Here => {
                    count(&self.here);
                    self.step(kernel, event(again, token, request, bulk))?
                }
                Place::At(home) => {
                    count(&self.away);
                    self.send(session, home, (again, token), request, bulk)?
                }
            };
            match answer {
                Answer::Done(reply) => return Ok(reply),
                Answer::Parked => count(&self.parked),
                Answer::Heard => return Err(ServiceFailure::Nonsense),
            }
            kernel.services.sleep(kernel);
            again = true;
        }
    }

    fn step(
        &self,
        kernel: &'static Kernel,
        event: Event<'_, S::Request>,
    ) -> Result<Answer<S::Reply>, ServiceFailure> {
        let instance = self.instance.as_ref().ok_or(ServiceFailure::Absent)?;
        let mut outbox = Outbox::new();
        let now = arch::time::soc_time();
        let answer = kernel.scheduler.unpreempted(|| instance.step(now, event, &mut outbox));
        kernel.services.perform(kernel, &outbox);
        answer.map_err(|_: StepError| ServiceFailure::Absent)
    }

    fn send(
        &self,
        session: &Session,
        home: DomainId,
        (again, token): (bool, Token),
        request: S::Request,
        bulk: &mut [u8],
    ) -> Result<Answer<S::Reply>, ServiceFailure> {
        let kind = if again { carry::kind::AGAIN } else { carry::kind::REQUEST };
        let mut message = vec![0; MAX_PAYLOAD];
        let bytes = carry::pack::<S>((self.index, kind, token), &request, bulk, &mut message);
        let bytes = bytes.ok_or(ServiceFailure::Nonsense)?;
        let mut back = vec![0; MAX_PAYLOAD];
        let answered = session.call(home, Ask::Serve, &message[..bytes], &mut back);
        let answered = answered.map_err(ServiceFailure::Home)?;
        carry::unpack_answer::<S>(&back[..answered], bulk).ok_or(ServiceFailure::Nonsense)
    }

    /// Executes a request that kernel `from` sent.
    pub fn serve(
        &self,
        kernel: &'static Kernel,
        from: DomainId,
        message: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        let (head, request, sent) = carry::unpack::<S>(message).ok_or(Refusal::Refused)?;
        if head.token.kernel() != from || head.room as usize > carry::room::<S>(MAX_PAYLOAD) {
            return Err(Refusal::Refused);
        }
        count(&self.for_others);
        let mut bulk = vec![0; head.room as usize];
        bulk[..sent.len()].copy_from_slice(sent);
        let event = match head.kind {
            carry::kind::CANCEL => Event::Cancel(head.token),
            kind => event(kind == carry::kind::AGAIN, head.token, request, &mut bulk),
        };
        let answer = self.step(kernel, event).map_err(|_| Refusal::Fault)?;
        let mut back = vec![0; MAX_PAYLOAD];
        let bytes = carry::pack_answer::<S>(&answer, &bulk, &mut back).ok_or(Refusal::TooLarge)?;
        back.truncate(bytes);
        Ok(back)
    }

    /// A kernel's life has ended.
    pub fn gone(&self, kernel: &'static Kernel, id: DomainId, epoch: Epoch) {
        if self.instance.is_some() {
            // It runs here, so there is nobody to complain to.
            let _ = self.step(kernel, Event::Gone(id, epoch));
        }
    }

    /// For people.
    pub fn line(&self, kernel: &'static Kernel) -> Line {
        let usage = || self.instance.as_ref().map(Instance::usage);
        let counters = [&self.here, &self.away, &self.for_others, &self.parked];
        Line {
            name: S::NAME,
            usage: kernel.scheduler.unpreempted(usage),
            counts: counters.map(|counter| counter.load(Ordering::Relaxed)),
        }
    }
}

fn event<R>(again: bool, token: Token, request: R, bulk: &mut [u8]) -> Event<'_, R> {
    match again {
        false => Event::Request { token, request, bulk },
        true => Event::Again { token, request, bulk },
    }
}

/// A service of this kernel's own, in local memory.
fn start<S: Service + Shareable>(mode: Mode) -> Option<Local<S>> {
    if mode.is_shared() {
        crate::log!("{}: no coherent memory to share it in", S::NAME);
        return None;
    }
    let Some(arena) = boot::arena() else {
        crate::log!("{}: no memory for it", S::NAME);
        return None;
    };
    let instance = Instance::new(Exclusion::new(crate::ranks::SERVICE, None, arena));
    arch::hold::begin();
    let started = instance.start();
    let _ = arch::hold::end();
    started.is_ok().then_some(instance)
}
