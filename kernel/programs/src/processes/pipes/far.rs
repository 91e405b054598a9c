//! Private pipes of another kernel, ends of which programs of this one use (`fs::private::far`).
//!
//! ```text
//!   Read, Write of at most 512 bytes --stream--> home ... answer --> the thread that waits
//!   Stat and others, the first Dup   --call----> home
//!   Poll, more bytes, many writes --> follow: home has the pipe leave --> the file service
//! ```
//! Contract: a thread whose process is to end, or whose time is over, cancels what it has asked,
//! and waits for the answer: it has either nothing, or what was read. The home answers that at
//! once, or dies.

use super::{Guest, Pipes, Way};
use abi::fs::{Errno, Op, Reply, Request};
use base::id::Life;
use core::sync::atomic::Ordering;
use fs::private::far::{Added, Closed, Place, Room};
use fs::private::wire::{Ask, Called, LONGEST, MOST, Message, Outcome};
use fs::private::{self, Side};
use kernel_msg::{CallError, Payload};
use kernel_node::Node;
use kernel_platform::peers::{Peers, Procedure};
use kernel_platform::watch::watch;
use kernel_process::Interrupted;
use kernel_sched::Handoff;
use zerocopy::{FromBytes, IntoBytes};

/// When something is sent again that had no room.
const AGAIN_NS: u64 = 1_000_000;

/// How often an ask finds no room before the pipe leaves instead.
const TRIES: u32 = 9;

/// How the home of an end answers.
enum Heard {
    Reply(Reply),
    /// The deadline came first.
    Late,
    /// The file service has to.
    Elsewhere,
}

impl Pipes {
    fn add_far(&self, handle: u64) -> Added {
        let mut far = self.far.lock();
        self.has_far.store(true, Ordering::Relaxed);
        far.add(handle)
    }
}

impl Guest {
    /// Executes a request for an end of another kernel's pipe.
    pub(super) fn ask_far(
        &mut self,
        request: Request,
        bulk: &mut [u8],
        deadline: Option<u64>,
    ) -> Result<Way, Interrupted> {
        let (handle, op) = (request.handle, Op::from_code(request.op));
        let here = |reply| Ok(Way::Here(Some(reply)));
        loop {
            let place = self.processes.pipes.far.lock().place(handle);
            let home = match (place, op) {
                (None, Some(Op::Dup)) => return here(self.first_dup(handle)),
                (None, _) => return here(Reply::error(Errno::Badf)),
                (_, Some(Op::Close)) => return here(self.close_far(handle)),
                (_, Some(Op::Dup)) => match self.processes.pipes.far.lock().dup(handle) {
                    true => return here(Reply { handle, ..Reply::default() }),
                    // Another thread has closed it since.
                    false => continue,
                },
                (Some(Place::Service(own)), _) => {
                    return Ok(Way::Service(Request { handle: own, ..request }));
                }
                (Some(Place::Lost), _) => return here(Reply::error(Errno::Io)),
                (Some(Place::Home(home)), _) => home,
            };
            let reply = match self.ask_at_home(home, &request, bulk, deadline)? {
                Heard::Late => return Ok(Way::Here(None)),
                Heard::Reply(reply) if reply.error == 0 => return here(reply),
                Heard::Reply(reply) => reply,
                Heard::Elsewhere => Reply::error(Errno::Io),
            };
            // Another thread may have followed the pipe to the service meanwhile. Then this
            // kernel's use of the end was over, and the answer says so.
            if self.processes.pipes.far.lock().place(handle) == place {
                return here(reply);
            }
        }
    }

    /// Executes a request for an end that is at its home, unless the pipe has left.
    fn ask_at_home(
        &mut self,
        home: Life,
        request: &Request,
        bulk: &mut [u8],
        deadline: Option<u64>,
    ) -> Result<Heard, Interrupted> {
        let called = match Op::from_code(request.op) {
            Some(Op::Stat | Op::SetFlags | Op::Sync | Op::Datasync) => {
                self.call_home(home, *request)
            }
            _ => match self.ask_home(home, request, bulk, deadline)? {
                Heard::Elsewhere => self.call_home(home, Request::new(Op::Poll, request.handle)),
                heard => return Ok(heard),
            },
        };
        Ok(match called {
            Ok(Called { elsewhere: 0, reply }) => Heard::Reply(reply),
            Ok(_) => Heard::Elsewhere,
            Err(why) => Heard::Reply(Reply::error(why)),
        })
    }

    /// Makes a call to the home of an end. If the pipe has left, this kernel gets a handle of its
    /// own.
    fn call_home(&mut self, home: Life, request: Request) -> Result<Called, Errno> {
        let called = self.call(home, request)?;
        if called.elsewhere != 0 {
            self.moved(home, request.handle, called.elsewhere)?;
        }
        Ok(called)
    }

    fn call(&mut self, home: Life, request: Request) -> Result<Called, Errno> {
        let mut back = [0; size_of::<Called>()];
        let (ask, session) = (Procedure::Pipe, *self.session());
        match session.call(home.kernel, ask, request.as_bytes(), &mut back) {
            Ok(length) if length == back.len() => {
                Called::read_from_bytes(&back).map_err(|_| Errno::Io)
            }
            _ => Err(Errno::Io),
        }
    }

    /// Notes that an end is at the file service, under a handle of the home's.
    fn moved(&mut self, home: Life, handle: u64, elsewhere: u64) -> Result<(), Errno> {
        let own = self.dup_at_service(elsewhere)?.handle;
        let uses = self.processes.pipes.far.lock().moved(handle, own);
        match uses {
            Some(uses) => self.tell_over(home, handle, uses),
            None => self.close_at_service(own),
        }
        Ok(())
    }

    /// Makes a handle of this kernel of one of the file service that the home has.
    fn dup_at_service(&mut self, elsewhere: u64) -> Result<Reply, Errno> {
        self.at_service(Request::new(Op::Dup, elsewhere), &mut [])
    }

    /// Duplicates a handle that a process of the home has passed on.
    fn first_dup(&mut self, handle: u64) -> Reply {
        let home = private::home(handle);
        let called = match self.call(home, Request::new(Op::Dup, handle)) {
            Ok(called) => called,
            Err(why) => return Reply::error(why),
        };
        if called.elsewhere != 0 {
            return self.dup_at_service(called.elsewhere).unwrap_or_else(Reply::error);
        }
        if called.reply.error != 0 {
            return called.reply;
        }
        let added = self.processes.pipes.add_far(handle);
        if self.kernel().peers.is_over(home) {
            // Perhaps its ends were lost before this one was added.
            self.processes.pipes.call_keeper(self.kernel());
        }
        if added == Added::Yes {
            return called.reply;
        }
        let left = if added == Added::No { self.dup_left(home, handle) } else { called.reply };
        self.tell_over(home, handle, 1);
        left
    }

    /// Has a pipe leave of which no further ends can be known here.
    fn dup_left(&mut self, home: Life, handle: u64) -> Reply {
        match self.call(home, Request::new(Op::Poll, handle)) {
            Ok(Called { elsewhere: 0, .. }) => Reply::error(Errno::Nfile),
            Ok(Called { elsewhere, .. }) => {
                self.dup_at_service(elsewhere).unwrap_or_else(Reply::error)
            }
            Err(why) => Reply::error(why),
        }
    }

    fn close_far(&mut self, handle: u64) -> Reply {
        let closed = self.processes.pipes.far.lock().close(handle);
        let Some(closed) = closed else { return Reply::error(Errno::Badf) };
        self.after(handle, closed);
        Reply::default()
    }

    /// Does what is left to do for an end.
    fn after(&mut self, handle: u64, closed: Closed) {
        match closed {
            Closed::Nothing => {}
            Closed::Home(home, uses) => self.tell_over(home, handle, uses),
            Closed::Service(own) => self.close_at_service(own),
        }
    }

    /// Tells the home that uses of an end are over.
    fn tell_over(&mut self, home: Life, handle: u64, uses: u32) {
        let message = Message::Ask { id: 0, handle, ask: Ask::Close(uses) };
        while uses != 0 && !self.tell_or_pause(home, &message) {}
    }

    /// Sends a message to the home of an end. Returns false after a pause, if there is no room.
    fn tell_or_pause(&self, home: Life, message: &Message<'_>) -> bool {
        let is_sent = self.tell(home, message);
        if !is_sent {
            self.kernel().scheduler.sleep_until(arch::time::soc_time() + AGAIN_NS);
        }
        is_sent
    }

    /// Sends a message to the home of an end. Returns false if there is no room.
    fn tell(&self, home: Life, message: &Message<'_>) -> bool {
        let (mut bytes, peers) = ([0; LONGEST], &self.kernel().peers);
        let length = message.put(&mut bytes);
        let sent = peers.stream(home.kernel, Payload::of(&bytes[..length]));
        // Also if there is no room: it makes room when it is awake.
        peers.wake_sleeper(self.kernel(), home.kernel);
        if sent == Err(CallError::PeerLost) {
            self.processes.pipes.call_keeper(self.kernel());
        }
        matches!(sent, Ok(()) | Err(CallError::PeerLost))
    }

    /// Asks the home to read or write.
    fn ask_home(
        &mut self,
        home: Life,
        request: &Request,
        bulk: &mut [u8],
        deadline: Option<u64>,
    ) -> Result<Heard, Interrupted> {
        let (handle, side) = (request.handle, Side::of(request.handle));
        let length = bulk.len().min(request.length as usize);
        let is_plain =
            request.flags == 0 && request.op == [Op::Read, Op::Write][side as usize] as u16;
        if !is_plain || side == Side::Writer && length > MOST {
            return Ok(Heard::Elsewhere);
        }
        if self.wrote.continues(handle, side, arch::time::local_ns()) {
            return Ok(Heard::Elsewhere);
        }
        let length = length.min(MOST);
        let (room, ask) = match side {
            Side::Reader => (Room::Read(length as u32), Ask::Read(length as u32)),
            Side::Writer => (Room::Write(length as u32), Ask::Write(&bulk[..length])),
        };
        let (pipes, thread) = (&self.processes.pipes, self.kernel().scheduler.current().token());
        let Some(id) = pipes.far.lock().ask(handle, thread, room) else {
            return Ok(Heard::Elsewhere);
        };
        let message = Message::Ask { id, handle, ask };
        if !(0..TRIES).any(|_| self.tell_or_pause(home, &message)) {
            let closed = pipes.far.lock().forget(id);
            self.after(handle, closed);
            return Ok(Heard::Elsewhere);
        }
        let (outcome, closed) = self.await_home(home, (id, handle), bulk, deadline);
        self.after(handle, closed);
        kernel_services::idle::to_program(self.kernel());
        let reply = match outcome {
            Outcome::Moved(count) => {
                let filled = if side == Side::Reader { count } else { 0 };
                Reply { value: count.into(), filled, ..Reply::default() }
            }
            Outcome::Failed(why) => Reply::error(why),
            Outcome::Cancelled if self.must_return() => return Err(Interrupted),
            Outcome::Cancelled => return Ok(Heard::Late),
            Outcome::Elsewhere => return Ok(Heard::Elsewhere),
        };
        Ok(Heard::Reply(reply))
    }

    /// Waits for the answer to an ask for a short time, without sleep. Returns whether it is there.
    fn watch_home(&self, id: u64) -> bool {
        let (kernel, far) = (self.kernel(), &self.processes.pipes.far);
        let mut hear = |from, epoch, payload: &[u8]| kernel.peers.execute(from, epoch, payload);
        let mut handoff = Handoff::begin(&kernel.scheduler);
        let around: (&Node, &Peers) = (kernel, &kernel.peers);
        watch(around, &mut handoff, (&mut hear, &mut |_| false, &mut |_| ()), || {
            far.lock().is_answered(id)
        })
    }

    /// Waits for the answer to an ask. Returns it, and what is left to do for the end.
    fn await_home(
        &mut self,
        home: Life,
        (id, handle): (u64, u64),
        bulk: &mut [u8],
        deadline: Option<u64>,
    ) -> (Outcome, Closed) {
        let (kernel, processes) = (self.kernel(), self.processes);
        let pipes = &processes.pipes;
        let is_over = || deadline.is_some_and(|deadline| arch::time::soc_time() >= deadline);
        let mut is_cancelled = false;
        loop {
            if let Some(taken) = pipes.far.lock().take(id, bulk) {
                return taken;
            }
            let gives_up = self.must_return() || is_over();
            if gives_up && !is_cancelled {
                is_cancelled = self.tell(home, &Message::Ask { id, handle, ask: Ask::Cancel });
            }
            let until = match gives_up {
                true if is_cancelled => None,
                true => Some(arch::time::soc_time() + AGAIN_NS),
                false => deadline,
            };
            if !gives_up && self.watch_home(id) {
                continue;
            }
            kernel.scheduler.wait_until(&pipes.answered, until, || {
                pipes.far.lock().is_answered(id) || !gives_up && self.must_return()
            });
        }
    }
}
