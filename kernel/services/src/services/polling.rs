//! Polls of files and sockets in one wait.
//!
//! Each service gets requests of at most [`POLLS`] handles, as many as a message between kernels
//! holds. All requests of a poll are parked at once, under numbers that follow each other.

use super::any::{Asked, Requests, wait_for_any};
use super::{Caller, Patience, Served, ServiceFailure, Services};
use abi::net::{POLLS, Poll};
use abi::{fs, net};
use share::{Answer, Mode, Service, Shareable, Token};
use zerocopy::{FromZeros, IntoBytes};

/// A poll by a thread.
struct Polling<'a> {
    caller: &'a Caller,
    patience: &'a Patience<'a>,
    /// The process tree that waits; 0: the system.
    tree: u32,
    files: &'a mut [Poll],
    sockets: &'a mut [Poll],
    /// Of the first request.
    token: Token,
    all_woken: u64,
}

/// Returns how many requests a list of handles needs.
fn requests(polls: &[Poll]) -> usize {
    polls.len().div_ceil(POLLS)
}

/// Returns part `index` of a list.
fn part(polls: &mut [Poll], index: usize) -> &mut [Poll] {
    polls.chunks_mut(POLLS).nth(index).unwrap_or_default()
}

/// Returns how many handles of a request are ready. If the service has failed, all are, with the
/// first of its two errors if it has restarted, else with the second.
fn outcome(
    answer: Result<Option<Result<u64, u16>>, ServiceFailure>,
    polls: &mut [Poll],
    (mode, [restarted, broken]): (Mode, [u16; 2]),
) -> Result<Asked, u16> {
    let why = match answer {
        Ok(None) => return Ok(Asked::Parked),
        Ok(Some(found)) => return found.map(Asked::Found),
        Err(why) => why,
    };
    let error = if why == ServiceFailure::Restarted { restarted } else { broken };
    polls.iter_mut().for_each(|poll| poll.error = error);
    let count = polls.len() as u64;
    Ok(if why.leaves_requests(mode) { Asked::Failed(count) } else { Asked::Found(count) })
}

impl Polling<'_> {
    fn token(&self, index: usize) -> Token {
        let sequence = self.token.sequence.wrapping_add(index as u32);
        Token { sequence, ..self.token }
    }
}

impl Requests for Polling<'_> {
    /// The service has refused the request, with this error of WASI's.
    type Failure = u16;

    fn count(&self) -> usize {
        requests(self.files) + requests(self.sockets)
    }

    fn expect(&mut self) {
        self.all_woken = self.caller.services.expect_wakes(self.token, self.count());
    }

    fn ask(&mut self, index: usize, again: bool, wait: bool) -> Result<Asked, u16> {
        let (token, first) = (self.token(index), requests(self.files));
        let services = self.caller.services;
        if index < first {
            let polls = part(self.files, index);
            let (flags, length) =
                (if wait { fs::flag::WAIT } else { 0 }, size_of_val(polls) as u64);
            let request = fs::Request { flags, length, ..fs::Request::new(fs::Op::Poll, 0) };
            let ready = |reply: fs::Reply| match reply.error {
                0 => Ok(reply.value),
                _ => Err(reply.errno().wasi()),
            };
            let answer = ask(&services.fs, self.caller, (token, again), request, polls);
            let lost = [fs::Errno::Restarted as u16, fs::Errno::Io as u16];
            outcome(answer.map(|reply| reply.map(ready)), polls, (services.fs.mode(), lost))
        } else {
            let polls = part(self.sockets, index - first);
            let (flags, length) =
                (if wait { net::flag::WAIT } else { 0 }, size_of_val(polls) as u32);
            let tree = self.tree;
            let request = net::Request::new(net::Op::Poll, 0);
            let request = net::Request { flags, length, tree, ..request };
            let ready = |reply: net::Reply| match reply.error {
                0 => Ok(reply.value),
                _ => Err(reply.errno().wasi()),
            };
            let answer = ask(&services.net, self.caller, (token, again), request, polls);
            let lost = [net::Errno::Restarted as u16, net::Errno::Io as u16];
            outcome(answer.map(|reply| reply.map(ready)), polls, (services.net.mode(), lost))
        }
    }

    fn cancel(&mut self, index: usize) {
        let (token, first) = (self.token(index), requests(self.files));
        let services = self.caller.services;
        // If this fails, the service has restarted or is gone, and does not know the request.
        let _ = match index < first {
            true => services.fs.cancel(self.caller, token, fs::Request::new(fs::Op::Poll, 0)),
            false => services.net.cancel(self.caller, token, net::Request::new(net::Op::Poll, 0)),
        };
    }

    fn sleep(&mut self) -> bool {
        let Caller { platform, services, .. } = *self.caller;
        services.sleep_until_woken(platform, self.token, self.all_woken, self.patience);
        !self.patience.is_over()
    }
}

/// Makes one request, which may be parked.
fn ask<S: Service + Shareable>(
    service: &Served<S>,
    caller: &Caller,
    (token, again): (Token, bool),
    request: S::Request,
    polls: &mut [Poll],
) -> Result<Option<S::Reply>, ServiceFailure> {
    let mut reply = S::Reply::new_zeroed();
    let ask = (&request, polls.as_mut_bytes(), &mut reply);
    match service.try_once(caller, (token, again), ask)? {
        Answer::Done(()) => Ok(Some(reply)),
        Answer::Parked => Ok(None),
        Answer::NoReply => Err(ServiceFailure::Nonsense),
    }
}

impl Services {
    /// Waits until one of these files or sockets is ready or has an error, while `patience` lasts,
    /// and fills in what is known of all of them. The wait is charged to process tree `tree`. If
    /// patience has ended before, nothing is parked. Returns how many are ready, or an error of
    /// WASI's.
    pub fn poll(
        &self,
        caller: &Caller,
        (files, sockets): (&mut [Poll], &mut [Poll]),
        tree: u32,
        patience: &Patience<'_>,
    ) -> Result<u64, u16> {
        let count = requests(files) + requests(sockets);
        let token = self.tokens(caller.platform, count);
        let waits = !patience.is_over();
        let all_woken = 0;
        let mut polling = Polling { caller, patience, tree, files, sockets, token, all_woken };
        wait_for_any(&mut polling, waits)
    }
}
