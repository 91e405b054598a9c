//! `poll_oneoff`: waits for times and for descriptors.
//!
//! ```text
//!   subscriptions --read--> Wait: deadline | Poll of the file service | error
//!   an error, or a time has passed?  --> the descriptors are checked without waiting
//!   else: files and times --> files_until; only files --> files; only times --> sleep_until
//! ```
//! Returns at least one event, and none that has not occurred. An error of one subscription is
//! reported in its event. All subscriptions are read before any event is written.

use crate::errno::{Done, Errno, Halt};
use crate::memory::{GuestMemory, entry};
use crate::process::Process;
use crate::system::{System, ask};
use crate::wasi::{clock, event, rights};
use abi::fs::{Op, Poll, Reply, Request, flag, ready};
use alloc::vec::Vec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum subscriptions.
pub const SUBSCRIPTIONS: u32 = 1024;
/// Maximum subscriptions to descriptors: as many as fit in a message between kernels.
pub const DESCRIPTORS: usize = 128;

const _: () = assert!(DESCRIPTORS * size_of::<Poll>() + 256 <= abi::msg::MAX_PAYLOAD);

/// WASI's `subscription`, with the fields of one to a clock. In one to a descriptor, `id` is the
/// descriptor's number.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
struct Subscription {
    userdata: u64,
    kind: u8,
    reserved: [u8; 7],
    id: u32,
    reserved_2: u32,
    timeout: u64,
    precision: u64,
    flags: u16,
    reserved_3: [u8; 6],
}

#[repr(C)]
#[derive(Clone, Copy, Default, IntoBytes, Immutable, KnownLayout)]
struct Event {
    userdata: u64,
    error: u16,
    kind: u8,
    reserved: [u8; 5],
    bytes: u64,
    flags: u16,
    reserved_2: [u8; 6],
}

const _: () = assert!(size_of::<Subscription>() == event::SUBSCRIPTION as usize);
const _: () = assert!(size_of::<Event>() == event::EVENT as usize);

/// What a subscription waits for.
#[derive(Clone, Copy)]
enum Wait {
    /// A time of the monotonic clock.
    Until(u64),
    /// Index of a [`Poll`] for the file service.
    File(usize),
    /// The subscription is invalid.
    Failed(Errno),
}

struct Waiter {
    userdata: u64,
    kind: u8,
    wait: Wait,
}

#[derive(Default)]
struct Waiters {
    all: Vec<Waiter>,
    polls: Vec<Poll>,
    deadline: Option<u64>,
    failed: bool,
}

impl Waiters {
    fn add(&mut self, userdata: u64, kind: u8, wait: Wait) {
        match wait {
            Wait::Until(time) => {
                self.deadline = Some(self.deadline.map_or(time, |earliest| earliest.min(time)));
            }
            Wait::Failed(_) => self.failed = true,
            Wait::File(_) => {}
        }
        self.all.push(Waiter { userdata, kind, wait });
    }

    /// Waits, or only checks. Stores the file service's results in `polls`, if it contains any.
    /// Returns false if nothing has occurred yet.
    fn wait(&mut self, system: &mut dyn System) -> Result<bool, Halt> {
        let now = self.deadline.map_or(0, |_| system.monotonic());
        let over = self.deadline.is_some_and(|deadline| deadline <= now);
        let waits = !over && !self.failed;
        if self.polls.is_empty() {
            if let (true, Some(deadline)) = (waits, self.deadline) {
                system.sleep_until(deadline)?;
                return Ok(deadline <= system.monotonic());
            }
            return Ok(true);
        }
        let length = size_of_val(self.polls.as_slice()) as u64;
        let flags = if waits { flag::WAIT } else { 0 };
        let request = Request { flags, length, ..Request::new(Op::Poll, 0) };
        let bulk = self.polls.as_mut_bytes();
        let reply = match self.deadline {
            Some(deadline) if waits => system.files_until(request, bulk, deadline)?,
            _ => Some(ask(system, request, bulk)?),
        };
        match reply {
            None => Ok(self.deadline.is_some_and(|deadline| deadline <= system.monotonic())),
            Some(Reply { error: 0, value, .. }) => Ok(value != 0 || !waits),
            Some(reply) => Err(Errno::from(reply.errno()).into()),
        }
    }

    /// Iterates over the events that have occurred.
    fn events(&self, now: u64) -> impl Iterator<Item = Event> + '_ {
        self.all.iter().filter_map(move |waiter| {
            let Waiter { userdata, kind, .. } = *waiter;
            let event = Event { userdata, kind, ..Event::default() };
            match waiter.wait {
                Wait::Failed(error) => Some(Event { error: error.0, ..event }),
                Wait::Until(deadline) => (deadline <= now).then_some(event),
                Wait::File(index) => found(self.polls.get(index)?, event),
            }
        })
    }
}

/// Returns a descriptor's event, given the file service's answer; `None` if none has occurred.
fn found(poll: &Poll, event: Event) -> Option<Event> {
    if poll.error != 0 {
        let reply = Reply { error: poll.error, ..Reply::default() };
        return Some(Event { error: Errno::from(reply.errno()).0, ..event });
    }
    if poll.got == 0 {
        return None;
    }
    let flags = if poll.got & ready::HANGUP != 0 { event::HANGUP } else { 0 };
    Some(Event { bytes: poll.bytes, flags, ..event })
}

/// Returns the deadline of a subscription on the monotonic clock, given when the call began, and
/// the current times.
fn deadline(
    one: &Subscription,
    begun: u64,
    (monotonic, realtime): (u64, u64),
) -> Result<u64, Errno> {
    if one.flags & !event::ABSTIME != 0 || one.id > clock::THREAD {
        return Err(Errno::INVAL);
    }
    let absolute = one.flags & event::ABSTIME != 0;
    match (one.id, absolute) {
        (clock::MONOTONIC, true) => Ok(one.timeout),
        (clock::REALTIME | clock::MONOTONIC, false) => Ok(begun.saturating_add(one.timeout)),
        (clock::REALTIME, true) => {
            Ok(monotonic.saturating_add(one.timeout.saturating_sub(realtime)))
        }
        // CPU time does not pass while a process waits.
        _ => Err(Errno::NOTSUP),
    }
}

impl Process {
    /// Returns the [`Poll`] of a descriptor.
    fn poll(&self, fd: u32, kind: u8) -> Result<Poll, Errno> {
        let (right, want) = match kind {
            event::FD_READ => (rights::FD_READ, ready::READ),
            _ => (rights::FD_WRITE, ready::WRITE),
        };
        let descriptor = self.table.get(fd)?.with(rights::POLL_FD_READWRITE | right)?;
        Ok(Poll { handle: descriptor.handle, want, ..Poll::default() })
    }

    fn subscribe(
        &self,
        memory: &GuestMemory<'_>,
        system: &mut dyn System,
        (list, count): (u32, u32),
    ) -> Result<Waiters, Errno> {
        let mut waiters = Waiters::default();
        waiters.all.try_reserve_exact(count as usize).map_err(|_| Errno::NOMEM)?;
        let begun = system.begun();
        let now = (system.monotonic(), system.realtime());
        for index in 0..count {
            let bytes: [u8; event::SUBSCRIPTION as usize] =
                memory.load(entry(list, index, event::SUBSCRIPTION)?)?;
            let one = Subscription::read_from_bytes(&bytes).map_err(|_| Errno::FAULT)?;
            let wait = match one.kind {
                event::CLOCK => deadline(&one, begun, now).map(Wait::Until),
                event::FD_READ | event::FD_WRITE => self.poll(one.id, one.kind).map(|poll| {
                    waiters.polls.push(poll);
                    Wait::File(waiters.polls.len() - 1)
                }),
                _ => return Err(Errno::INVAL),
            };
            if waiters.polls.len() > DESCRIPTORS {
                return Err(Errno::INVAL);
            }
            waiters.add(one.userdata, one.kind, wait.unwrap_or_else(Wait::Failed));
        }
        Ok(waiters)
    }

    pub fn poll_oneoff(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        subscriptions: u32,
        events: u32,
        count: u32,
        found: u32,
    ) -> Done {
        if count == 0 || count > SUBSCRIPTIONS {
            return Err(Errno::INVAL.into());
        }
        memory.check(events, entry(0, count, event::EVENT)?)?;
        memory.check(found, 4)?;
        let mut waiters = self.subscribe(memory, system, (subscriptions, count))?;
        while !waiters.wait(system)? {}
        let now = waiters.deadline.map_or(0, |_| system.monotonic());
        let mut written = 0;
        for event in waiters.events(now) {
            memory.store(entry(events, written, event::EVENT)?, event.as_bytes())?;
            written += 1;
        }
        memory.store_u32(found, written)?;
        Ok(())
    }
}
