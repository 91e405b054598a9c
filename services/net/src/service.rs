//! The state machine of the network service: requests, waiting callers, owners.
//!
//! Contract: that of `share::Service`. Every request with any bulk gets an answer, an error if it
//! is malformed. After each event packets move until nothing moves, so what a caller sends has
//! arrived when the next request comes, from whichever kernel. What must happen later is passed to
//! [`Effects::timer`].

use crate::sockets::{Handles, Kind, Stream};
use crate::stack::Stack;
use abi::net::{Errno, Op, Reply, Request, flag};
use share::{Answer, Effects, Event, Parked, Service, Shareable, Token};

/// Maximum number of waiting callers.
pub const WAITS: usize = 256;
/// Maximum rounds in one step, each of which moves packets and then updates the handles: a close
/// causes an answer, which may cause another change.
const LOOKS: usize = 6;

/// What a caller can wait for, at the slot of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Something to receive or accept, or the end of the stream.
    Readable(u32),
    /// Space to send, or the result of a connect.
    Writable(u32),
}

/// Why an operation returns no reply, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    Failed(Errno),
    Park(Key),
}

impl From<Errno> for Halt {
    fn from(error: Errno) -> Halt {
        Halt::Failed(error)
    }
}

pub(crate) type Result<T> = core::result::Result<T, Halt>;

/// A request being handled.
pub(crate) struct Call<'a> {
    pub token: Token,
    pub request: Request,
    pub bulk: &'a mut [u8],
    /// Whether the caller was parked with this request before.
    pub again: bool,
}

impl Call<'_> {
    /// Returns the number of bytes of the bulk that the request is about.
    pub fn length(&self) -> usize {
        self.bulk.len().min(self.request.length as usize)
    }
}

/// The network service.
pub struct Net {
    pub(crate) stack: Stack,
    pub(crate) handles: Handles,
    parked: Parked<Key>,
}

const _: () = {
    const fn may_lie_in_an_arena<S: Shareable>() {}
    may_lie_in_an_arena::<Net>();
};

impl Net {
    /// Returns the numbers of handles, of sockets, of closed sockets whose connections have not
    /// ended yet, and of waiting callers.
    pub fn census(&self) -> [usize; 4] {
        let (sockets, ending) = self.stack.census();
        [self.handles.count(), sockets, ending, self.parked.count()]
    }

    fn answer(&mut self, mut call: Call<'_>) -> Answer<Reply> {
        self.parked.forget(call.token);
        let error = match self.perform(&mut call) {
            Ok(reply) => return Answer::Done(reply),
            Err(Halt::Failed(error)) => error,
            Err(Halt::Park(_)) if call.request.flags & flag::NONBLOCK != 0 => Errno::Again,
            Err(Halt::Park(key)) => match self.parked.park(call.token, key) {
                Some(()) => return Answer::Parked,
                None => Errno::Nomem,
            },
        };
        Answer::Done(Reply::error(error))
    }

    fn perform(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let op = Op::from_code(call.request.op).ok_or(Errno::Nosys)?;
        let known = match op {
            Op::Accept | Op::Connect | Op::Send | Op::Receive => flag::NONBLOCK,
            _ => 0,
        };
        if call.request.flags & !known != 0 {
            return Err(Errno::Inval.into());
        }
        match op {
            Op::Udp => self.do_udp(call),
            Op::Tcp => self.do_tcp(call),
            Op::Bind => self.do_bind(call),
            Op::Listen => self.do_listen(call),
            Op::Accept => self.do_accept(call),
            Op::Connect => self.do_connect(call),
            Op::Send => self.do_send(call),
            Op::Receive => self.do_receive(call),
            Op::Shut => self.do_shut(call),
            Op::State => self.do_state(call),
            Op::Close => {
                let place = self.handles.place(call.request.handle)?;
                self.close(place);
                Ok(Reply::default())
            }
        }
    }

    /// Frees a handle's slot, and closes what it refers to.
    fn close(&mut self, place: u32) {
        match self.handles.remove(place) {
            Some(Kind::Udp(socket, _)) => self.stack.remove_udp(socket),
            Some(Kind::Listener(listener)) => {
                for socket in listener.waiting.into_iter().chain(listener.ready) {
                    self.stack.remove_tcp(socket, true);
                }
            }
            Some(Kind::Stream(Stream { socket, .. })) => self.stack.remove_tcp(socket, false),
            Some(Kind::Fresh(_) | Kind::Ended(_)) | None => {}
        }
    }

    /// Updates the handles after packets have moved. Returns whether there is more to send now,
    /// such as an end or a reset.
    fn look(&mut self) -> bool {
        let (stack, mut news) = (&mut self.stack, false);
        for place in 0..self.handles.places() {
            match self.handles.get_mut(place) {
                Some(Kind::Listener(listener)) => news |= listener.settle(stack),
                Some(kind) => {
                    let Kind::Stream(stream) = kind else { continue };
                    news |= stream.finish(stack);
                    if let Some(ended) = stream.settle(stack) {
                        (*kind, news) = (Kind::Ended(ended), true);
                    }
                }
                None => {}
            }
        }
        news
    }

    /// Moves packets, updates the handles, and wakes the callers that can continue.
    fn settle(&mut self, effects: &mut dyn Effects) {
        for _ in 0..LOOKS {
            self.stack.settle();
            if !self.look() {
                break;
            }
        }
        let (handles, stack) = (&self.handles, &self.stack);
        let ready = |key: Key| match key {
            Key::Readable(place) => handles.get(place).is_none_or(|kind| kind.readable(stack)),
            Key::Writable(place) => handles.get(place).is_none_or(|kind| kind.writable(stack)),
        };
        self.parked.wake_ready(ready, effects);
        effects.timer(self.stack.due());
    }
}

impl Service for Net {
    type Request = Request;
    type Reply = Reply;

    const NAME: &'static str = abi::service::NET.name;

    fn start(lives: u32) -> Net {
        Net {
            stack: Stack::new(lives.into()),
            handles: Handles::new(lives),
            parked: Parked::new(WAITS),
        }
    }

    fn sent(request: &Request, bulk: usize) -> usize {
        request.sent(bulk)
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
        self.stack.at(now);
        let answer = match event {
            Event::Request { token, request, bulk } => {
                self.answer(Call { token, request, bulk, again: false })
            }
            Event::Again { token, request, bulk } => {
                self.answer(Call { token, request, bulk, again: true })
            }
            Event::Cancel(token) => {
                self.parked.forget(token);
                Answer::NoReply
            }
            Event::Gone(kernel, epoch) => {
                self.parked.gone(kernel, epoch);
                while let Some(place) = self.handles.owned(kernel.0, epoch.0) {
                    self.close(place);
                }
                Answer::NoReply
            }
            Event::Timer | Event::Device => Answer::NoReply,
        };
        self.settle(effects);
        answer
    }
}
