//! Private pipes of this kernel that programs of another one use, too: its guest
//! (`fs::private::delegated`).
//!
//! ```text
//!   guest: Read, Write --stream--> hear --> lock the pipe --> answer --stream--> guest
//!          other requests --call--> serve ------'   ^
//!   this kernel's programs: read or wrote ----------'
//!   guest dies: look_again --> keep --> its ends are closed
//! ```
//! Contract: what arrives in a stream never waits: it takes the pipe's lock and wakes threads. What
//! needs the file service, or a kernel that rests, is left to a thread: the caller's, a handler's,
//! or [`keep`]. An answer that has no room in the stream stays with the pipe until there is room
//! ([`stream_room`]).

use super::{AtService, Pipes, Place, close_by, life};
use abi::fs::{Errno, Reply, Request};
use alloc::vec::Vec;
use base::id::{DomainId, Life};
use core::sync::atomic::Ordering;
use fs::private::wire::{Ask, Called, LONGEST, Message};
use fs::private::{self, Answer, PrivatePipe, Released, Side};
use kernel_msg::{CallError, Level, Payload, Refusal};
use kernel_platform::peers::with_room;
use kernel_sched::ThreadId;
use kernel_services::kernel::Kernel;
use kernel_services::session::Session;
use zerocopy::{FromBytes, IntoBytes};

/// While a pipe leaves, a request for it looks again after this time.
const AGAIN_NS: u64 = 1_000_000;

fn pipes() -> Option<&'static Pipes> {
    Some(&super::super::get()?.pipes)
}

/// Answers what the guest has asked of a locked pipe. Returns the guest if something was sent; it
/// may rest, and is [woken](wake) or noted for that.
#[must_use]
pub(super) fn answer(kernel: &Kernel, place: &Place, pipe: &mut PrivatePipe) -> Option<DomainId> {
    let mut guest = None;
    let done = pipe.answer_guest(&mut |to, message| {
        let mut bytes = [0; LONGEST];
        let length = message.put(&mut bytes);
        guest = Some(to.kernel);
        // A guest that is dead is forgotten soon.
        let sent = kernel.peers.stream(to.kernel, Payload::of(&bytes[..length]));
        matches!(sent, Ok(()) | Err(CallError::PeerLost))
    });
    if done.has_read {
        place.wake(kernel, Side::Writer);
    }
    guest.filter(|_| done.has_sent)
}

/// Wakes a kernel that was sent something, if it rests. For a thread.
pub(super) fn wake(kernel: &Kernel, guest: Option<DomainId>) {
    if let Some(guest) = guest {
        kernel.peers.wake_sleeper(kernel, guest);
    }
}

/// Handles a message of another kernel's stream.
pub fn hear(kernel: &Kernel, from: Life, payload: &[u8]) {
    let Some(pipes) = pipes() else { return };
    let is_right = match Message::of(payload) {
        None => false,
        Some(Message::Ask { id, handle, ask }) => pipes.hear_ask(kernel, from, (id, handle, ask)),
        Some(Message::Answer { id, outcome, bytes }) => {
            let answered = pipes.far.lock().answered(from, id, outcome, bytes);
            if let Ok(Some(thread)) = answered {
                kernel.scheduler.wake(ThreadId::from_token(thread));
            }
            answered.is_ok()
        }
    };
    if !is_right {
        kernel.peers.distrust(from.kernel, from.epoch);
        pipes.call_keeper(kernel);
    }
}

/// Continues to answer a kernel to which there was no room.
pub fn stream_room(kernel: &Kernel) {
    let Some(pipes) = pipes() else { return };
    for place in pipes.delegated() {
        let mut pipe = place.pipe.lock();
        let answered = answer(kernel, place, &mut pipe);
        drop(pipe);
        pipes.wake_later(kernel, answered);
    }
}

/// Reports that a kernel may have died. From any context.
pub fn look_again(kernel: &Kernel) {
    if let Some(pipes) = pipes().filter(|pipes| pipes.may_be_shared()) {
        pipes.call_keeper(kernel);
    }
}

/// Executes a call of a guest: any request for an end but reads and writes.
pub fn serve(
    session: &Session,
    request: &kernel_msg::Request,
    payload: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let asked = Request::read_from_bytes(payload).map_err(|_| Refusal::Refused)?;
    let (pipes, to) = (pipes().ok_or(Refusal::Refused)?, request.reply.ok_or(Refusal::Refused)?);
    let mut back = with_room(size_of::<Called>())?;
    let from = Life { kernel: to.peer, epoch: to.epoch };
    back.extend_from_slice(pipes.called(session, from, &asked).as_bytes());
    Ok(back)
}

/// Thread: does what needs the file service, for kernels that do not wait for it.
pub fn keep(_: usize) {
    let (Some(kernel), Some(pipes)) = (kernel_services::kernel::get(), pipes()) else { return };
    let session = Session::at(kernel, Level(0));
    loop {
        kernel.scheduler.mark_upkeep();
        pipes.tend(kernel, &mut |request, bulk: &mut [u8]| at_service(&session, request, bulk));
        kernel.scheduler.wait(&pipes.keeper, || pipes.is_due.swap(false, Ordering::AcqRel));
    }
}

/// Makes a request to the file service, for the kernel.
fn at_service(session: &Session, request: Request, bulk: &mut [u8]) -> Result<Reply, Errno> {
    let reply = session.kernel.services.fs.ask(session, request, bulk).map_err(|_| Errno::Io)?;
    if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
}

impl Pipes {
    pub(super) fn call_keeper(&self, kernel: &Kernel) {
        self.is_due.store(true, Ordering::Release);
        self.keeper.wake_all(&kernel.scheduler);
    }

    /// Returns whether another kernel may use a pipe of this one, or this one a pipe of another.
    fn may_be_shared(&self) -> bool {
        self.delegated.load(Ordering::Relaxed) != 0 || self.has_far.load(Ordering::Relaxed)
    }

    /// Notes that another kernel may use a pipe, which is locked.
    pub(super) fn offers(&self, handle: u64) {
        self.delegated.fetch_or(1 << private::place(handle), Ordering::Relaxed);
    }

    /// Returns the places of pipes that other kernels may use.
    fn delegated(&self) -> impl Iterator<Item = &Place> {
        let all = self.delegated.load(Ordering::Relaxed);
        let is_one = move |(at, _): &(usize, &Place)| all >> at & 1 != 0;
        self.places.iter().enumerate().filter(is_one).map(|(_, place)| place)
    }

    /// Has a kernel that was sent something woken, if it rests.
    fn wake_later(&self, kernel: &Kernel, guest: Option<DomainId>) {
        if let Some(guest) = guest.filter(|guest| kernel.peers.is_stopped(kernel, *guest)) {
            self.resting.fetch_or(1 << guest.0, Ordering::Relaxed);
            self.call_keeper(kernel);
        }
    }

    /// Returns false if the guest has violated the protocol.
    fn hear_ask(
        &self,
        kernel: &Kernel,
        from: Life,
        (id, handle, ask): (u64, u64, Ask<'_>),
    ) -> bool {
        // Another one was asked in an earlier life of this kernel.
        let Some(place) = self.place(life(kernel), handle) else { return true };
        let mut pipe = place.pipe.lock();
        let mut released = Released::Nothing;
        let heard = match ask {
            Ask::Close(uses) => {
                released = pipe.release(from, handle, uses);
                Ok(false)
            }
            _ => pipe.hear(from, id, handle, ask),
        };
        let answered = answer(kernel, place, &mut pipe);
        drop(pipe);
        self.wake_later(kernel, answered);
        match released {
            Released::Nothing => {}
            Released::Closed => place.wake_both(kernel),
            Released::Over => self.call_keeper(kernel),
        }
        if heard == Ok(true) {
            place.wake(kernel, Side::Reader);
        }
        heard.is_ok()
    }

    fn called(&self, session: &Session, from: Life, request: &Request) -> Called {
        let kernel = session.kernel;
        let done = |reply| Called { elsewhere: 0, reply };
        let Some(place) = self.place(life(kernel), request.handle) else {
            return done(Reply::error(Errno::Badf));
        };
        loop {
            let answer = place.pipe.lock().ask_for_guest(from, request);
            match answer {
                Answer::Done(reply) | Answer::Changed(reply) => {
                    if kernel.peers.is_over(from) {
                        // Perhaps its uses were forgotten before this one.
                        self.call_keeper(kernel);
                    }
                    return done(reply);
                }
                Answer::Elsewhere(elsewhere) => {
                    return Called { elsewhere, reply: Reply::default() };
                }
                Answer::Leave => {
                    let _blocked = kernel.peers.will_block(kernel);
                    let by = &mut |request, bulk: &mut [u8]| at_service(session, request, bulk);
                    if let Err(why) = self.leave(kernel, (place, request.handle), by) {
                        return done(Reply::error(why));
                    }
                }
                Answer::Waits => {
                    let _blocked = kernel.peers.will_block(kernel);
                    kernel.scheduler.sleep_until(arch::time::soc_time() + AGAIN_NS);
                }
            }
        }
    }

    /// Ends what was asked of kernels that have died, closes what they had, wakes kernels that were
    /// sent something, and closes handles whose last use is over. What waits comes last.
    fn tend(&self, kernel: &Kernel, at_service: AtService<'_>) {
        let is_dead = |life| kernel.peers.is_over(life);
        let mut end_wait = |thread| kernel.scheduler.wake(ThreadId::from_token(thread));
        {
            let mut far = self.far.lock();
            far.kernels_died(is_dead, &mut end_wait);
            self.has_far.store(far.count() != 0, Ordering::Relaxed);
        }
        for place in self.delegated() {
            if place.pipe.lock().forget_guest(is_dead) {
                place.wake_both(kernel);
            }
        }
        let resting = self.resting.swap(0, Ordering::Relaxed);
        let is_sent = |peer: &DomainId| resting >> peer.0 & 1 != 0;
        kernel.peers.ids().filter(is_sent).for_each(|peer| wake(kernel, Some(peer)));
        for (at, place) in self.places.iter().enumerate() {
            let bit = 1 << at;
            if self.delegated.load(Ordering::Relaxed) & bit == 0 {
                continue;
            }
            let over = {
                let mut pipe = place.pipe.lock();
                let over = pipe.take_over();
                if pipe.is_free() {
                    self.delegated.fetch_and(!bit, Ordering::Relaxed);
                }
                over
            };
            over.into_iter().flatten().for_each(|handle| close_by(at_service, handle));
        }
    }
}
