//! The state machine of the network service: requests, waiting callers, ends.
//!
//! Contract: that of `share::Service`. Every request with any bulk gets an answer, an error if it
//! is malformed. What is sent on loopback has arrived when the next request comes, from whichever
//! kernel. An event that concerns the outside moves packets until nothing moves. What must happen
//! later is passed to [`Effects::timer`].

use crate::addresses::{Addresses, Side};
use crate::listener::{Listener, Ready};
use crate::nic::Counts;
use crate::owners::Life;
use crate::sockets::{Handles, Kind, Stream};
use crate::stack::Stack;
use abi::net::{Errno, Op, Reply, Request, WAITS, flag};
use share::{Answer, Effects, Event, Parked, Service, Shareable, Token};

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
    /// The end of both directions of a stream.
    Over(u32),
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
    pub request: &'a Request,
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
    pub(crate) parked: Parked<Key>,
    /// The socket of a handle that this step has closed.
    closed: Option<u32>,
    /// Whether this step only moves data on loopback.
    pub(crate) is_direct: bool,
    /// The socket at the other end, whose callers may continue.
    pub(crate) reached: Option<u32>,
    /// When the outside wants a step, as the last step that concerned it found, in ns.
    due_outside: u64,
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

    /// Returns the addresses of the interface to the outside, if there is one.
    pub fn addresses(&self) -> Option<&Addresses> {
        self.stack.outside.addresses()
    }

    /// Returns what the driver of the network device has counted.
    pub fn frames(&self) -> Counts {
        self.stack.outside.counts()
    }

    fn answer(&mut self, mut call: Call<'_>) -> Answer<Reply> {
        self.parked.forget(call.token);
        let error = match self.perform(&mut call) {
            Ok(reply) => return Answer::Done(reply),
            Err(Halt::Failed(error)) => self.reported(call.request, error),
            Err(Halt::Park(_)) if call.request.op == Op::Poll as u16 => return Answer::Parked,
            Err(Halt::Park(key)) if self.must_not_wait(call.request) => {
                self.would_wait(call.request, key)
            }
            Err(Halt::Park(key)) => match self.park(call.token, &mut [key], call.request.tree) {
                Ok(()) => return Answer::Parked,
                Err(why) => why,
            },
        };
        Answer::Done(Reply::error(error))
    }

    /// Notes that the caller learns of an error of its connection.
    fn reported(&mut self, request: &Request, error: Errno) -> Errno {
        let place = self.handles.place(request.handle);
        if let (Errno::Connreset, Ok(place)) = (error, place)
            && let Some(socket) = self.handles.socket_mut(place)
        {
            socket.error = None;
        }
        error
    }

    fn perform(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let op = Op::from_code(call.request.op).ok_or(Errno::Nosys)?;
        let known = match op {
            Op::Accept | Op::Connect | Op::Send | Op::SetFlags => flag::NONBLOCK,
            Op::Receive => flag::NONBLOCK | flag::PEEK,
            Op::Poll => flag::WAIT,
            Op::Udp | Op::Tcp => flag::V6,
            _ => 0,
        };
        if call.request.flags & !known != 0 {
            return Err(Errno::Inval.into());
        }
        match op {
            Op::Udp => self.do_open(call, Kind::FreshUdp),
            Op::Tcp => self.do_open(call, Kind::Fresh(0)),
            Op::Bind => self.do_bind(call),
            Op::Listen => self.do_listen(call),
            Op::Accept => self.do_accept(call),
            Op::Connect => self.do_connect(call),
            Op::Send => self.do_send(call),
            Op::Receive => self.do_receive(call),
            Op::Shut => self.do_shut(call),
            Op::State => self.do_state(call),
            Op::Dup => self.do_dup(call),
            Op::Adopt => {
                self.handles.adopt(call.request.handle, call.token)?;
                Ok(Reply { handle: call.request.handle, ..Reply::default() })
            }
            Op::Poll => self.do_poll(call),
            Op::Peer => self.do_peer(call),
            Op::SetFlags => self.do_set_flags(call),
            Op::GetOption => self.do_get_option(call),
            Op::SetOption => self.do_set_option(call),
            Op::Interface => self.do_interface(call),
            Op::List => self.do_list(call),
            Op::Close => {
                let (place, last) = self.handles.close(call.request.handle, call.token)?;
                self.closed = Some(place);
                self.end(last, false);
                Ok(Reply::default())
            }
        }
    }

    /// Ends a socket whose last handle was closed. `lost`: with the kernel that had it, so the peer
    /// of a stream is reset.
    pub(crate) fn end(&mut self, last: Option<Kind>, lost: bool) {
        match last {
            Some(Kind::Udp(own)) => {
                own.outside.into_iter().for_each(|it| self.stack.drop_socket(it));
                self.stack.remove_inbox();
            }
            Some(Kind::Listener(Listener { coming, ready, .. })) => {
                coming.into_iter().for_each(|it| self.stack.remove_tcp(it.socket, true));
                for connection in ready {
                    match connection {
                        Ready::Loopback(end) => self.close_near(end, true),
                        Ready::Outside(socket) => self.stack.remove_tcp(socket, true),
                    }
                }
            }
            Some(Kind::Loopback(near)) => self.close_near(near.end, lost),
            Some(Kind::Stream(Stream { socket, .. })) => self.stack.remove_tcp(socket, lost),
            Some(Kind::Ended(ended)) => self.stack.budget.release(Side::Outside, ended.charged),
            Some(Kind::Fresh(_) | Kind::FreshUdp) | None => {}
        }
    }

    /// Wakes all that wait at a socket: one may wait with a handle that was closed.
    fn wake_all_at(&mut self, place: u32, effects: &mut dyn Effects) {
        self.parked.wake(Key::Readable(place), effects);
        self.parked.wake(Key::Writable(place), effects);
        self.parked.wake(Key::Over(place), effects);
    }

    /// Updates the sockets after packets have moved. Returns whether there is more to send now,
    /// such as an end or a reset.
    fn look(&mut self) -> bool {
        let (stack, mut news) = (&mut self.stack, false);
        for place in 0..self.handles.places() {
            let Some(socket) = self.handles.socket_mut(place) else { continue };
            match &mut socket.kind {
                Kind::Listener(listener) => listener.settle(stack),
                Kind::Stream(stream) => {
                    news |= stream.finish(stack);
                    if let Some(ended) = stream.settle(stack) {
                        socket.error = ended.reset.then_some(Errno::Connreset);
                        (socket.kind, news) = (Kind::Ended(ended), true);
                    }
                }
                Kind::Udp(own) => own.collect(stack, socket.peer),
                Kind::FreshUdp | Kind::Fresh(_) | Kind::Loopback(_) | Kind::Ended(_) => {}
            }
        }
        news
    }

    /// Wakes the callers that can continue. `outside`: moves packets before, and updates the
    /// sockets; `looks`: the device may have something.
    fn settle(&mut self, now: u64, (outside, looks): (bool, bool), effects: &mut dyn Effects) {
        if outside {
            let more = self.receive_frames(now, looks, effects);
            for _ in 0..LOOKS {
                let sends = self.send_frames(effects);
                if !(self.look() | sends) {
                    break;
                }
            }
            self.due_outside = if more { now } else { self.due_outside(now, effects) };
        }
        if let Some(place) = self.closed.take() {
            self.wake_all_at(place, effects);
        }
        let (handles, stack) = (&self.handles, &self.stack);
        self.parked.wake_ready(|key| is_ready(handles, stack, key), effects);
        effects.timer(self.due_outside);
    }

    /// Wakes the callers that wait at a socket and can continue.
    #[inline]
    fn wake_at(&mut self, place: u32, effects: &mut dyn Effects) {
        if self.parked.is_empty() {
            return;
        }
        for key in [Key::Readable(place), Key::Writable(place)] {
            if is_ready(&self.handles, &self.stack, key) {
                self.parked.wake(key, effects);
            }
        }
    }
}

/// Returns whether what a caller waits for has come.
fn is_ready(handles: &Handles, stack: &Stack, key: Key) -> bool {
    match key {
        Key::Readable(place) => handles
            .socket(place)
            .is_none_or(|socket| socket.shut_read || socket.kind.readable(stack)),
        Key::Writable(place) => handles.get(place).is_none_or(|kind| kind.writable(stack)),
        Key::Over(place) => handles.get(place).is_none_or(|kind| kind.is_over(stack)),
    }
}

/// Returns whether a request can neither move a packet nor let another caller continue.
fn is_quiet(request: &Request) -> bool {
    use Op::{Adopt, Dup, Interface, List, Peer, Poll, SetFlags, SetOption, State, Tcp, Udp};
    match Op::from_code(request.op) {
        None | Some(Dup | Peer | Poll | SetFlags | SetOption | State | Tcp | Udp) => true,
        Some(op) => matches!(op, Adopt | Interface | List),
    }
}

impl Service for Net {
    type Request = Request;
    type Reply = Reply;

    const NAME: &'static str = abi::service::NET.name;

    fn start(lives: u32) -> Net {
        Net {
            stack: Stack::default(),
            handles: Handles::new(lives),
            parked: Parked::new(WAITS),
            closed: None,
            is_direct: false,
            reached: None,
            due_outside: u64::MAX,
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
        self.handles.live = self.stack.live();
        let again = matches!(event, Event::Again { .. });
        let looks = matches!(event, Event::Device);
        let mut outside = true;
        let answer = match event {
            Event::Request { token, request, bulk } | Event::Again { token, request, bulk } => {
                let answer = self.answer(Call { token, request, bulk, again });
                if core::mem::take(&mut self.is_direct) {
                    if let Some(place) = self.reached.take() {
                        self.wake_at(place, effects);
                    }
                    return answer;
                }
                if is_quiet(request) {
                    return answer;
                }
                outside = self.stack.outside.wants_a_look();
                answer
            }
            Event::Cancel(token) => {
                self.parked.forget(token);
                return Answer::NoReply;
            }
            Event::Gone(kernel, epoch) => {
                self.parked.gone(kernel, epoch);
                let mut from = 0;
                let life = Life::new(kernel.0, epoch.0);
                while let Some(place) = self.handles.owned(life, from) {
                    // It may own one more than once.
                    from = place;
                    let closed = self.handles.close_at(place, life);
                    if let Some((socket, last)) = closed {
                        self.end(last, true);
                        self.wake_all_at(socket, effects);
                    }
                }
                Answer::NoReply
            }
            Event::Timer | Event::Device => Answer::NoReply,
        };
        self.settle(now, (outside, looks), effects);
        answer
    }
}
