//! Requests to one service by threads of this kernel: executed here, or sent to the kernel that
//! executes them.

use super::served::{TRIES, event, zeroed};
use super::{Caller, Patience, Served, ServiceFailure, count};
use abi::msg::MAX_PAYLOAD;
use base::id::DomainId;
use kernel_msg::Refusal;
use kernel_platform::peers::{CallFailure, Procedure};
use share::{Answer, Event, Route, Service, Shareable, Token, codec};
use zerocopy::FromZeros;

impl<S: Service + Shareable> Served<S> {
    /// Makes a request and waits for the reply. The caller must be a thread and hold no lock.
    pub fn ask(
        &self,
        caller: &Caller,
        request: S::Request,
        bulk: &mut [u8],
    ) -> Result<S::Reply, ServiceFailure> {
        let answer = self.request_until(caller, &request, bulk, &Patience::ENDLESS)?;
        answer.ok_or(ServiceFailure::Nonsense)
    }

    /// Makes a request and waits for the reply while `patience` lasts. Returns `None` when it ends;
    /// the request is cancelled then.
    pub fn request_until(
        &self,
        caller: &Caller,
        request: &S::Request,
        bulk: &mut [u8],
        patience: &Patience<'_>,
    ) -> Result<Option<S::Reply>, ServiceFailure> {
        let mut reply = S::Reply::new_zeroed();
        let is_done = self.request_into(caller, request, (bulk, &mut reply), patience)?;
        Ok(is_done.then_some(reply))
    }

    /// The same with a place for the reply. Returns whether there is one.
    #[inline]
    pub fn request_into(
        &self,
        caller: &Caller,
        request: &S::Request,
        (bulk, reply): (&mut [u8], &mut S::Reply),
        patience: &Patience<'_>,
    ) -> Result<bool, ServiceFailure> {
        let services = caller.services;
        let token = services.token(caller.platform);
        let all_woken = services.expect_wake(token);
        match self.try_once(caller, (token, false), (request, &mut *bulk, &mut *reply)) {
            Ok(Answer::Done(())) => Ok(true),
            first => {
                let ask = (request, bulk, reply);
                self.repeat(caller, (token, all_woken), first, ask, patience)
            }
        }
    }

    /// Repeats a request until its answer comes. The first attempt had none, or failed.
    #[inline(never)]
    fn repeat(
        &self,
        caller: &Caller,
        (token, mut all_woken): (Token, u64),
        mut answer: Result<Answer<()>, ServiceFailure>,
        (request, bulk, reply): (&S::Request, &mut [u8], &mut S::Reply),
        patience: &Patience<'_>,
    ) -> Result<bool, ServiceFailure> {
        let (platform, services) = (caller.platform, caller.services);
        loop {
            match answer {
                Ok(Answer::Done(())) => return Ok(true),
                Ok(Answer::Parked) => {}
                Ok(Answer::NoReply) => return Err(ServiceFailure::Nonsense),
                Err(why) => return Err(self.failed(caller, token, *request, why)),
            }
            services.sleep(platform, token, all_woken, patience);
            if let Some(length) = services.take_given(token, bulk) {
                *reply = S::given(request, length).ok_or(ServiceFailure::Nonsense)?;
                return Ok(true);
            }
            if patience.is_over() {
                return self.cancel(caller, token, *request).map(|()| false);
            }
            all_woken = services.expect_wake(token);
            answer = self.try_once(caller, (token, true), (request, bulk, reply));
        }
    }

    /// Makes or repeats a request, which may be parked. Puts the reply into its place.
    #[inline(always)]
    pub(super) fn try_once(
        &self,
        caller: &Caller,
        (token, again): (Token, bool),
        (request, bulk, reply): (&S::Request, &mut [u8], &mut S::Reply),
    ) -> Result<Answer<()>, ServiceFailure> {
        let (platform, services) = (caller.platform, caller.services);
        if let Route::Remote(home) = self.route(services, platform, bulk.len()) {
            let answer = self.send(caller, home, (again, token), request, bulk);
            if !self.is_left_to_caller(&answer) {
                return self.noted(answer.map(|answer| answer.map(|it| *reply = it)));
            }
        }
        count(&self.here);
        self.noted(self.step(services, platform, event(again, token, request, bulk), reply))
    }

    /// Counts a request that is parked.
    #[inline]
    fn noted<E>(&self, answer: Result<Answer<()>, E>) -> Result<Answer<()>, E> {
        if matches!(answer, Ok(Answer::Parked)) {
            count(&self.parked);
        }
        answer
    }

    /// Returns whether the home of a shadowed service has not executed a request, and so the
    /// caller's kernel does.
    fn is_left_to_caller(&self, answer: &Result<Answer<S::Reply>, ServiceFailure>) -> bool {
        let is_not_sent = |why: &ServiceFailure| match why {
            ServiceFailure::NoMemory => true,
            ServiceFailure::Home(CallFailure::Busy | CallFailure::Limits) => true,
            // `Registered::serve` refuses so before the step only.
            ServiceFailure::Home(CallFailure::Refused(why)) => {
                matches!(why, Refusal::NoMemory | Refusal::NoSuchProc)
            }
            _ => false,
        };
        self.mode.is_shared() && answer.as_ref().is_err_and(is_not_sent)
    }

    /// Makes a request that may be executed twice: again, if the service restarts without its
    /// state, or the home of a shadowed service dies, at most [`TRIES`] times.
    pub fn ask_again(
        &self,
        caller: &Caller,
        request: S::Request,
        bulk: &mut [u8],
        patience: &Patience<'_>,
    ) -> Result<Option<S::Reply>, ServiceFailure> {
        for _ in 1..TRIES {
            match self.request_until(caller, &request, bulk, patience) {
                Err(ServiceFailure::Restarted) => {}
                Err(ServiceFailure::Home(CallFailure::PeerLost)) if self.mode.is_shared() => {}
                answered => return answered,
            }
        }
        self.request_until(caller, &request, bulk, patience)
    }

    /// Cancels the request parked under `token`.
    pub(super) fn cancel(
        &self,
        caller: &Caller,
        token: Token,
        request: S::Request,
    ) -> Result<(), ServiceFailure> {
        let (platform, here) = (caller.platform, Event::Cancel(token));
        match self.by_mode(platform) {
            // Also of a shadowed service with a home: that may be dead, or have no memory.
            Route::Local => self.tell(caller.services, platform, here),
            Route::Remote(home) => self.send_cancel(caller, home, token, &request),
        }
    }

    /// Runs `work` with a function that makes requests. If a request fails, its reply is `lost`,
    /// and the failure is returned beside `work`'s result.
    pub fn asking<R>(
        &self,
        caller: &Caller,
        lost: S::Reply,
        work: impl FnOnce(&mut dyn FnMut(S::Request, &mut [u8]) -> S::Reply) -> R,
    ) -> (R, Option<ServiceFailure>) {
        let mut failed = None;
        let result = work(&mut |request, bulk| {
            self.ask(caller, request, bulk).unwrap_or_else(|why| {
                failed = Some(why);
                lost
            })
        });
        (result, failed)
    }

    /// Has the home execute a request.
    #[inline(never)]
    fn send(
        &self,
        caller: &Caller,
        home: DomainId,
        (again, token): (bool, Token),
        request: &S::Request,
        bulk: &mut [u8],
    ) -> Result<Answer<S::Reply>, ServiceFailure> {
        count(&self.away);
        let kind = if again { codec::kind::AGAIN } else { codec::kind::REQUEST };
        let size = codec::size::<S>(bulk.len(), MAX_PAYLOAD);
        let mut message = zeroed(size).map_err(|_| ServiceFailure::NoMemory)?;
        let bytes = codec::pack::<S>((self.index, kind, token), request, bulk, &mut message);
        let bytes = bytes.ok_or(ServiceFailure::Nonsense)?;
        let mut back = zeroed(size).map_err(|_| ServiceFailure::NoMemory)?;
        let answered = caller.call(home, Procedure::Serve, &message[..bytes], &mut back);
        let answered = answered.map_err(|why| match why {
            CallFailure::Refused(Refusal::Fault) => ServiceFailure::Restarted,
            why => ServiceFailure::Home(why),
        })?;
        codec::unpack_answer::<S>(&back[..answered], bulk).ok_or(ServiceFailure::Nonsense)
    }
}
